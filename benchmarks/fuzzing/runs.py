"""Run folders under fire: trained models with something changed, with and without checksums that were made to fit."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import load_file, save_file

from fuzzing.graphs import ARRAYS, VALUES, change_place, places
from fuzzing.judge import ERROR, SUCCESS, WrongAnswerError, attempt, check_nothing_left, command, listing
from fuzzing.mutate import NUMBERS, WORDS, mutate
from fuzzing.options import values_for
from gpm import Graph, Run, train
from gpm.config import option_names
from gpm.io.manifest import CHECKSUMS, write_checksums

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 6, "batch": 64, "epochs": 2, "warmup": 1, "split": "50/30/20",
    "quiet": True, "device": "cpu", "threads": 1,
}  # fmt: skip
USED = ("config.yaml", "model.json", "model.safetensors", "split.npz")  # what a prediction is made of
_made: dict[str, Path] = {}
_said: dict[str, list[Any]] = {}


def warm() -> None:
    """Train the models that are changed."""
    place = Path(tempfile.mkdtemp(prefix="runs-", dir=os.environ["GPM_FUZZ_RUNS"]))
    random = np.random.default_rng(0)
    x, ring = random.normal(size=(60, 3)), np.stack([np.arange(60), (np.arange(60) + 1) % 60])
    pairs, names = np.hstack([ring, random.integers(0, 60, (2, 90))]), [f"n{i}" for i in range(60)]
    thirds = np.stack([np.arange(60), np.arange(60) // 3 * 3 + (np.arange(60) + 1) % 3])
    kinds: dict[str, tuple[Graph, dict[str, Any]]] = {
        "classes": (Graph.from_edges(pairs, 60, undirected=True, x=x, y=(x[:, 0] > 0).astype(int), names=names), {}),
        "values": (Graph.from_edges(pairs, 60, undirected=True, x=x, y=10 * x[:, 0], names=names), {"pe": "rwse", "pe_dim": 4}),
        "links": (Graph.from_edges(pairs, 60, undirected=True, x=x, names=names), {"task": "link"}),
        "graphs": (Graph.from_edges(thirds, 60, undirected=True, graph_ptr=np.arange(0, 61, 3), y=np.arange(20) % 2), {}),
        "gcn": (Graph.from_edges(pairs, 60, undirected=True, x=x, y=(x[:, 0] > 0).astype(int)), {"model": "gcn"}),
    }  # fmt: skip
    for name, (graph, options) in kinds.items():
        graph.save(place / name / "graph")
        train(str(place / name / "graph"), out=place / name / "run", **SMALL | options)
        _made[name] = place / name / "run"
    _write_tables(place)
    tables = {"nodes": place / "nodes.csv", "target": "label"}
    train(str(place / "edges.csv"), out=place / "tables", **tables, **SMALL)
    _made["tables"] = place / "tables"
    for name, folder in _made.items():
        _said[name] = use(folder)


def _write_tables(place: Path) -> None:
    (place / "edges.csv").write_text("source,target\n" + "".join(f"a{i},a{(i * 7 + 1) % 40}\n" for i in range(40)))
    (place / "nodes.csv").write_text("id,size,label\n" + "".join(f"a{i},{i % 5},{'xy'[i % 2]}\n" for i in range(40)))


def run(random: Random, folder: Path) -> str:
    """Change a run folder, use it, and judge the answer."""
    name = random.choice(list(_made))
    copy = Path(shutil.copytree(_made[name], folder / "run"))
    if random.random() < 0.08:
        return _resume(copy, random, folder)
    change, fits = random.choice(CHANGES)
    changed = change(copy, random)
    safe_only = fits or not (copy / CHECKSUMS).exists() or changed == CHECKSUMS
    if fits:
        write_checksums(copy)
        if random.random() < 0.3:
            (copy / CHECKSUMS).unlink()
    before = listing(folder)
    found, sentence = attempt(lambda: use(copy))
    check_nothing_left(folder, before)
    if not sentence and not safe_only and found != _said[name]:
        raise WrongAnswerError("wrong", f"{changed} was changed, and the run says something else")
    printed, said = command(["doctor", str(copy)])
    if sentence and not said and "unchecked" not in printed:
        raise WrongAnswerError("wrong", f"gpm doctor finds nothing, but: {sentence}")
    if random.random() < 0.2:
        attempt(lambda: Run.open(copy).explain(_first(Run.open(copy)), top=3, draws=1))
    if random.random() < 0.2:
        command(["predict", str(copy), "--out", str(folder / "said.csv")])
        (folder / "said.csv").unlink(missing_ok=True)
    check_nothing_left(folder, before | {f"run/{name}" for name in ("calibration.json",)})
    return ERROR if sentence else SUCCESS


def use(folder: Path) -> list[Any]:
    """Predict and score with a run, and return all that it says."""
    opened = Run.open(folder, device="cpu")
    names = [("n0", "n5"), ("n7", "n1")] if opened.data.level == "link" else None
    found = opened.predict(names)
    return [
        found.names,
        found.logits.tolist(),
        {key: list(map(str, value)) for key, value in found.columns().items()},
        opened.evaluate("test"),
    ]


def _first(opened: Run) -> Any:
    return (
        ("n0", "n5")
        if opened.data.level == "link"
        else 0
        if opened.data.level == "graph"
        else opened.data.graph.name(0)
    )


# Changes that checksums tell


def _change_bytes(folder: Path, random: Random) -> str:
    path = random.choice(
        [folder / name for name in USED] * 3 + sorted(path for path in folder.rglob("*") if path.is_file())
    )
    path.write_bytes(mutate(path.read_bytes(), random))
    return path.name


def _change_place(folder: Path, random: Random) -> str:
    change_place(folder, random, [path for path in sorted(folder.iterdir()) if path.is_file()])
    return "a file"


# Changes that come with checksums of their own


def _change_json(folder: Path, random: Random) -> str:
    path = folder / random.choice(["model.json", "model.json", "model.json", "result.json", "plan.json", "recipe.json"])
    content = json.loads(path.read_text(encoding="utf-8"))
    within, key = random.choice(list(places(content)))
    if random.random() < 0.2:
        del within[key]
    elif isinstance(within, dict) and random.random() < 0.2:
        within[random.choice(["kind", "task", "classes", "mean", "scale", "metric", "more", "inputs"])] = within[key]
    else:
        within[key] = random.choice([*VALUES, *WORDS[:12], *NUMBERS[:8], 10**6, 1e300, [1] * 5])
    path.write_text(json.dumps(content), encoding="utf-8")
    return path.name


def _change_options(folder: Path, random: Random) -> str:
    path = folder / "config.yaml"
    options = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name in random.sample([name for name in option_names() if name != "data"], random.choice([1, 1, 2])):
        value = values_for(random, name)
        if name in ("pool", "patterns", "val_patterns") and isinstance(value, int):
            value = min(value, 2000)  # more are what was asked for, and take their time
        options[name] = value if isinstance(value, (int, float, str, bool, list, type(None))) else str(value)
    try:
        path.write_text(yaml.safe_dump(options), encoding="utf-8")
    except (ValueError, yaml.YAMLError):
        path.write_text("lr: [")
    return path.name


def _change_weights(folder: Path, random: Random) -> str:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    size = 8 + int.from_bytes(content[:8], "little")
    way = random.choice(["header", "length", "bytes", "shape", "name", "kind", "nan", "more"])
    if way == "header":
        path.write_bytes(content[:8] + mutate(content[8:size], random) + content[size:])
    elif way == "length":
        path.write_bytes(random.choice([0, 1, 2**31, 2**63, 2**64 - 1, size]).to_bytes(8, "little") + content[8:])
    elif way == "bytes":
        path.write_bytes(mutate(content, random))
    else:
        tensors = load_file(path)
        name = random.choice(list(tensors))
        value = tensors.pop(name)
        if way == "shape":
            tensors[name] = random.choice(
                [value[None], value.reshape(-1)[:1].clone(), torch.zeros(0), value.reshape(-1)]
            )
        elif way == "kind":
            tensors[name] = value.to(random.choice([torch.int8, torch.float64, torch.float16, torch.bool, torch.int64]))
        elif way == "nan":
            tensors[name] = (
                torch.full_like(value, random.choice([float("nan"), float("inf"), 1e30]))
                if value.is_floating_point()
                else value
            )
        elif way == "name":
            tensors[f"{name}.x"] = value
        else:
            tensors |= {name: value, "more": torch.zeros(3)}
        save_file(tensors, path)
    return path.name


def _change_split(folder: Path, random: Random) -> str:
    path = folder / "split.npz"
    if random.random() < 0.4:
        path.write_bytes(mutate(path.read_bytes(), random))
        return path.name
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    key = random.choice(list(arrays))
    if random.random() < 0.15:
        del arrays[key]
    else:
        with np.errstate(all="ignore"):
            changed = random.choice(ARRAYS)(arrays[key].copy() if arrays[key].ndim else arrays[key].reshape(1), random)
        arrays[key] = random.choice([changed, changed, changed, np.array("text"), np.arange(3), np.array(2.5)])
    np.savez(path, **arrays)
    return path.name


def _change_checksums(folder: Path, random: Random) -> str:
    path = folder / CHECKSUMS
    content = json.loads(path.read_text(encoding="utf-8"))
    within, key = random.choice(list(places(content)))
    within[key] = random.choice(VALUES)
    if random.random() < 0.3 and isinstance(content.get("files"), dict):
        content["files"][random.choice(["../x", "/etc/passwd", "", ".", "a\0b", "x" * 5000])] = {
            "bytes": 1,
            "sha256": "x",
        }
    path.write_text(json.dumps(content), encoding="utf-8")
    return CHECKSUMS


CHANGES: list[tuple[Callable[[Path, Random], str], bool]] = [
    (_change_bytes, False), (_change_bytes, False), (_change_place, False), (_change_checksums, False), (_change_json, True),
    (_change_json, True), (_change_options, True), (_change_weights, True), (_change_split, True),
]  # fmt: skip


# A training that is gone on with


def _resume(folder: Path, random: Random, place: Path) -> str:
    """Go on with a training whose plan or options were changed; what comes of it must be whole."""
    part = folder.with_name("run.part")
    folder.rename(part)
    for name in (CHECKSUMS, "result.json"):
        (part / name).unlink()
    path = part / random.choice(["plan.json", "plan.json", "config.yaml", "metrics.csv", "checkpoint.ckpt"])
    path.write_bytes(mutate(path.read_bytes() if path.exists() else b"PK\x03\x04", random))
    if b"epochs: 2\n" not in (part / "config.yaml").read_bytes():
        return ERROR  # it would train for long
    before = listing(place)
    _, sentence = command(["train", "--resume", str(folder), "--quiet"])
    if sentence:
        check_nothing_left(place, before)
        return ERROR
    _, said = command(["doctor", str(folder)])
    if said:
        raise WrongAnswerError("wrong", f"what was gone on with is damaged: {said}")
    return SUCCESS
