"""Saved graphs under fire: folders with something changed, with and without checksums that were made to fit."""

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
import scipy.sparse as sp

from fuzzing.judge import ERROR, SUCCESS, WrongAnswerError, attempt, check_nothing_left, command, listing
from fuzzing.mutate import NUMBERS, WORDS, mutate
from gpm import Graph
from gpm.graph.folder import save_graph
from gpm.io.manifest import HEADER, checksum_of, describe_file
from gpm.patterns.tokenizer import Tokenizer
from gpm.patterns.topologies import KINDS
from gpm.patterns.walks import WalkRule

RULES = [WalkRule(), WalkRule(p=0.5, q=2.0), WalkRule(non_backtracking=True), WalkRule(q=0.1, weighted=False)]
KINDS_OF_NUMBERS = [
    "<i1",
    "<i2",
    "<i4",
    "<i8",
    "<u4",
    "<u8",
    "<f2",
    "<f4",
    "<f8",
    "|b1",
    "<U3",
    "|S2",
    "|u1",
    ">i8",
    "<c8",
]
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 7, 2**31, 2**40, 2**63, 2**70, -(2**63), 1.5, "", "x", "../x", "/etc/passwd", [], [1], [0, 0], [-1], [2**50],
    [2**40, 2**40], {}, {"a": 1}, "nan", "indptr", [[1]], "<f8", "O", "|O", "\0",
]  # fmt: skip
_made: dict[str, Path] = {}


def warm() -> None:
    """Make the graphs that are changed, and compile what walks them."""
    place = Path(tempfile.mkdtemp(prefix="graphs-", dir=os.environ["GPM_FUZZ_RUNS"]))
    random = np.random.default_rng(0)
    pairs = random.integers(0, 30, (2, 80))
    sparse = sp.random_array((30, 6), density=0.3, random_state=0, format="csr", dtype=np.float32)
    x, y = random.normal(size=(30, 4)).astype(np.float32), np.arange(30) % 3
    graphs = {
        "plain": Graph.from_edges(pairs, 30, undirected=True, x=x, y=y),
        "named": Graph.from_edges(pairs, 30, undirected=True, x=sparse, y=y, names=[f"né {i}\n" for i in range(30)]),
        "weighted": Graph.from_edges(pairs, 30, edge_weight=random.random(80), edge_attr=random.normal(size=(80, 2)), names=range(100, 130)),
        "many": Graph.from_edges(
            random.integers(0, 3, (2, 80)) + 3 * (np.arange(80) % 10), 30, undirected=True,
            graph_ptr=np.arange(0, 31, 3), y=np.arange(10) % 2, edge_attr=random.normal(size=(80, 3)),
        ),
    }  # fmt: skip
    facts: dict[str, Any] = {
        "task": "node",
        "title": "made",
        "targets": ["label"],
        "kind": "classes",
        "classes": ["a", "b", "c"],
    }
    for name, graph in graphs.items():
        known = name in ("plain", "named")
        extras = {"part": (np.arange(30) % 3).astype(np.int8)} if known else {}
        _made[name] = save_graph(graph, place / name, facts=facts if known else None, extras=extras)
        use(_made[name])


def run(random: Random, folder: Path) -> str:
    """Change a saved graph, open and use it, and judge the answer."""
    name = random.choice(list(_made))
    copy = Path(shutil.copytree(_made[name], folder / "graph"))
    change, safe_only = random.choice(CHANGES)
    if change(copy, random) is False:
        return SUCCESS  # nothing to change
    for _ in range(random.choice([0, 0, 0, 1, 2]) if safe_only else 0):
        random.choice([_change_array, _change_header])(copy, random)
    before = listing(folder)
    found, sentence = attempt(lambda: use(copy))
    check_nothing_left(folder, before)
    if not sentence and not safe_only and found != use(_made[name]):
        raise WrongAnswerError("wrong", "a graph that was changed was opened as if it were whole")
    _, said = command(["doctor", str(copy)])
    if said and not sentence and not safe_only:
        raise WrongAnswerError("wrong", f"it could be used, but gpm doctor says: {said}")
    check_nothing_left(folder, before)
    return ERROR if sentence else SUCCESS


def use(folder: Path) -> list[Any]:
    """Use a graph to its last byte, and return all that it says."""
    from gpm.data.sources import load_task_data

    graph = Graph.open(folder)
    said: list[Any] = [
        graph.summary(),
        [graph.name(node) for node in range(graph.num_nodes)],
        graph.edge_index().tolist(),
    ]
    for number, rule in enumerate(RULES):
        kind = KINDS[number % len(KINDS)]
        tokenizer = Tokenizer(graph, lengths=[1, 4, 8], pool=6, rule=rule, topology=kind, edges=True)
        patterns = tokenizer.nodes(np.arange(graph.num_nodes))
        assert patterns.edges is not None
        said += [patterns.nodes.tolist(), patterns.edges.tolist()]
        if graph.num_graphs > 1:
            said.append(tokenizer.graphs(np.arange(graph.num_graphs)[np.diff(graph.graph_ptr) > 0]).nodes.tolist())
    for features in (graph.x, graph.edge_attr):
        said.append(None if features is None else (features.toarray() if sp.issparse(features) else features).tolist())
    said += [
        None if graph.y is None else graph.y.tolist(),
        None if graph.edge_weight is None else graph.edge_weight.tolist(),
    ]
    for name in (graph.name(0), graph.name(graph.num_nodes - 1)) if graph.num_nodes else ():
        said.append(graph.find(name))
    if graph.y is not None:
        data = load_task_data(folder)
        said.append(data.make_split(0).digest)
    return said


# Changes that checksums tell


def _change_bytes(folder: Path, random: Random) -> None:
    path = random.choice(sorted(folder.iterdir()))
    content = path.read_bytes()
    path.write_bytes(mutate(content, random))


def change_place(folder: Path, random: Random, files: list[Path] | None = None) -> None:
    """Files that are missing, links, pipes, folders, much larger than they were, or those of another."""
    path, other = random.sample(files or sorted(folder.iterdir()), 2)
    way = random.choice(
        ["missing", "link", "loop", "nowhere", "pipe", "folder", "large", "swap", "more", "hidden", "empty"]
    )
    if way in ("missing", "link", "loop", "nowhere", "pipe", "folder"):
        kept = path.read_bytes()
        path.unlink()
    if way == "link":
        (folder.parent / "elsewhere").write_bytes(kept)
        path.symlink_to(folder.parent / "elsewhere")
    elif way in ("loop", "nowhere"):
        path.symlink_to(path if way == "loop" else "nowhere")
    elif way == "pipe":
        os.mkfifo(path)
    elif way == "folder":
        path.mkdir()
    elif way == "large":
        os.truncate(path, random.choice([2**31, 2**40]))
    elif way == "swap":
        here, there = path.read_bytes(), other.read_bytes()
        path.write_bytes(there)
        other.write_bytes(here)
    elif way in ("more", "hidden"):
        (folder / ("more.npy" if way == "more" else ".hidden")).write_bytes(random.randbytes(64))
    elif way == "empty":
        path.write_bytes(b"")


# Changes that come with checksums of their own


def fit(folder: Path, header: dict[str, Any]) -> None:
    """Make all that a header says of files true, as whoever wants to harm would."""
    for key, entry in header["arrays"].items() if isinstance(header.get("arrays"), dict) else ():
        _describe(folder / f"{key}.npy", entry)
    for key, entry in header["files"].items() if isinstance(header.get("files"), dict) else ():
        _describe(folder / str(key), entry)
    header["checksum"] = checksum_of(header)
    (folder / HEADER).write_text(json.dumps(header), encoding="utf-8")


def _describe(path: Path, entry: Any) -> None:
    if isinstance(entry, dict) and path.is_file():
        entry |= describe_file(path, sample=True)


def _change_array(folder: Path, random: Random) -> bool:
    """Another content, type or shape of an array, written as one and with its checksums."""
    path = random.choice(sorted(folder.glob("*.npy")))
    header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    try:
        array = np.load(path, allow_pickle=False)
    except Exception:  # broken before
        return False
    with np.errstate(all="ignore"):
        array = np.asarray(random.choice(ARRAYS)(array.copy(), random))
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
    if isinstance(header.get("arrays"), dict) and isinstance(header["arrays"].get(path.stem), dict):
        header["arrays"][path.stem] |= {"dtype": array.dtype.str, "shape": list(array.shape)}
    fit(folder, header)
    return True


def _one_entry(array: Any, random: Random) -> Any:
    if array.size and array.dtype.kind in "iuf":
        number = random.choice([-1, 0, 1, 29, 30, 31, 2**31, 2**31 - 1, -(2**31), 2**40, -(2**62), 2**63 - 1])
        flat = array.reshape(-1)
        flat[random.randrange(flat.size)] = np.array(number).astype(array.dtype)
    return array


def _odd_number(array: Any, random: Random) -> Any:
    if array.size and array.dtype.kind == "f":
        array.reshape(-1)[random.randrange(array.size)] = random.choice([np.nan, np.inf, -np.inf, -1.0, 1e38, 0.0])
    return array


def _other_kind(array: Any, random: Random) -> Any:
    kind = np.dtype(random.choice(KINDS_OF_NUMBERS))
    return array.astype(kind) if array.dtype.kind in "iufb" else array.view(np.uint8)


def _other_shape(array: Any, random: Random) -> Any:
    ways = [
        array[:0],
        array[:-1],
        array[::-1],
        array[..., None],
        array[None],
        array.reshape(-1),
        np.concatenate([array, array]),
        array[1:],
    ]
    return random.choice([*ways, np.asfortranarray(array), array.sum() if array.dtype.kind in "iuf" else array])


def _other_order(array: Any, random: Random) -> Any:
    return np.random.default_rng(random.randrange(2**32)).permuted(array, axis=0) if array.ndim else array


ARRAYS: list[Callable[[Any, Random], Any]] = [
    _one_entry,
    _one_entry,
    _one_entry,
    _odd_number,
    _other_kind,
    _other_shape,
    _other_order,
]


def _change_header(folder: Path, random: Random) -> None:
    """Another word in the header, with the checksum that goes with it."""
    header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
    within, key = random.choice(list(places(header)))
    way = random.choice(["value", "value", "value", "drop", "add", "rename"])
    if way == "value":
        within[key] = random.choice([*VALUES, *WORDS[:12], *NUMBERS[:8]])
    elif way == "drop":
        del within[key]
    elif isinstance(within, dict):
        new = random.choice(
            [
                "x",
                "y",
                "../indices",
                "/tmp/x",
                "extra.part",
                "extra.more",
                "names.integers",
                "graph_ptr",
                "edge_ids",
                "",
                "x.data",
            ]
        )
        within[new] = within[key] if way == "add" else within.pop(key)
    if random.random() < 0.7:
        fit(folder, header)
    else:
        header["checksum"] = checksum_of(header)
        (folder / HEADER).write_text(json.dumps(header), encoding="utf-8")


def places(value: Any) -> Any:
    """Every place of a JSON value: what holds it, and its key there."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def _change_npy(folder: Path, random: Random) -> None:
    """Broken bytes of an array, header and all, with their checksums."""
    path = random.choice(sorted(folder.glob("*.npy")))
    content = path.read_bytes()
    head = random.random() < 0.6
    path.write_bytes(mutate(content[:128], random) + content[128:] if head else mutate(content, random))
    fit(folder, json.loads((folder / HEADER).read_text(encoding="utf-8")))


CHANGES: list[tuple[Callable[[Path, Random], Any], bool]] = [
    (_change_bytes, False), (change_place, False), (_change_array, True), (_change_array, True), (_change_header, True), (_change_npy, True),
]  # fmt: skip
