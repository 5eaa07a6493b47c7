from __future__ import annotations

import inspect
import itertools
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from gpm import Config, GpmError, Graph, Run, train
from gpm.cli.export import export_run
from gpm.cli.main import COMMANDS, main
from gpm.nn import InputSpec
from gpm.nn.expected_table import Answers
from gpm.nn.predictor import Predictor
from gpm.run.export import make_inputs
from gpm.run.export import program_file as export
from gpm.run.export.program import ExportedMachine
from gpm.run.export.program_file import export_program
from gpm.run.export.program_inputs import InputMaker, list_inputs, list_outputs
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask

NODES, DOCS = 24, Path(__file__).parents[3] / "docs" / "export.md"
SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "layers": 1, "lengths": [0, 1, 3], "patterns": 4, "pool": 8, "batch": 16, "epochs": 1,
    "warmup": 1,
}  # fmt: skip
CHOICES: dict[str, list[Any]] = {
    "level": ["node", "graph", "product", "joint"],
    "x": ["dense", "sparse", "bags", "sparse bags", "categories", "none"],
    "features": ["auto", "degree", "constant"],
    "stars": [False, True],
    "edge_attr": ["none", "dense", "categories"],
    "pe": ["none", "rwse", "lap"],
    "path": ["transformer", "gru", "conv", "mean"],
    "path_layers": [1, 2],
    "path_heads": [1, 2],
    "path_position": ["none", "learned"],
    "anonymous": ["gru", "mean", "transformer", "none"],
    "learn_weight": [False, True],
    "topology": ["loops", "induced", "shape"],
    "readout": ["mean", "class", "sum"],
    "fusion": [False, True],
    "head": ["linear", "mlp"],
    "layers": [1, 2],
    "layer": ["residual", "literal"],
    "scale_inputs": [False, True],
    "lengths": [[0, 1, 3], [4, 2], [0]],
    "expected": [0, 2],
    "labels": ["off", "on"],
    "structure": [False, True],
    "linear": ["none", "base", "blend"],
}

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def _fits(case: dict[str, Any]) -> bool:
    if case["topology"] == "shape" and case["anonymous"] not in ("none", "gru"):
        return False
    if case["stars"] and case["features"] == "auto" and case["x"] not in ("categories", "none"):
        return False
    if case["level"] == "product" and (case["expected"] or case["structure"]):
        return False
    return case["level"] != "joint" or (case["readout"] == "mean" and not case["fusion"])


def _choose_cases() -> list[dict[str, Any]]:
    """Cases in which every two choices that go together meet at least once."""
    random = np.random.default_rng(0)
    many = [{key: each[random.integers(len(each))] for key, each in CHOICES.items()} for _ in range(1500)]
    pairs = [
        {tuple((k, str(case[k])) for k in two) for two in itertools.combinations(case, 2)}
        for case in many
        if _fits(case)
    ]
    many, open_ = [case for case in many if _fits(case)], set().union(*pairs)
    chosen = []
    while open_:
        best = max(range(len(many)), key=lambda i: len(pairs[i] & open_))
        chosen.append(many[best])
        open_ -= pairs[best]
    return chosen


def _features(kind: str, rows: int, random: np.random.Generator) -> Any:
    if kind == "none":
        return None
    if kind.endswith("categories"):
        return random.integers(0, 9 if kind.startswith("more") else 4, (rows, 2))
    dense = (
        random.normal(size=(rows, 5)) if kind in ("dense", "sparse") else random.poisson(0.3, (rows, 5)).astype(float)
    )
    return sp.csr_array(dense * (random.random(dense.shape) < 0.4)) if kind.startswith("sparse") else dense


def _graph(x: str = "dense", edge_attr: str = "none", *, graphs: int = 0, **given: Any) -> Graph:
    """A random graph with an isolated node and one that no edge leaves; or so many graphs, and an empty one."""
    random = np.random.default_rng(1)
    edges = np.concatenate([random.integers(0, NODES - 2, (2, 50)), [[0], [NODES - 2]]], 1)
    if graphs:
        size = NODES // graphs
        edges = edges[:, edges[0] // size == edges[1] // size]
        given["graph_ptr"] = np.array([0, size, *range(size, NODES + 1, size)])
    rows = _features(edge_attr, edges.shape[1], random)
    return Graph.from_edges(edges, NODES, x=_features(x, NODES, random), edge_attr=rows, **given)


def _predictor(level: str, x: str = "dense", edge_attr: str = "none", **options: Any) -> Predictor:
    """A model with fresh weights, none of which is still what it was before training: zero, say."""
    options = SMALL | options
    if level in ("product", "joint"):
        options |= {"pair": level}
        level = "link"
    graph = _graph(x, edge_attr, graphs=8 if level == "graph" else 0)
    torch.manual_seed(0)
    known, held = (np.arange(3), np.array([4])) if level == "graph" else (np.arange(0, NODES, 2), np.array([1, 5]))
    answers = Answers("classes", known, np.eye(3)[known % 3], held, np.eye(3)[held % 3])
    outputs = 1 if level == "link" else 3
    predictor = Predictor.build(Config(**options), graph, outputs, level, answers=None if level == "link" else answers)
    with torch.no_grad():
        for value in predictor.model.parameters():
            value.add_(0.1 * torch.randn_like(value))
    return predictor


def _instances(predictor: Predictor) -> Any:
    if predictor.level == "link":
        return np.array([[0, 1], [5, 2], [3, NODES - 1], [7, 7], [2, 5]])
    return np.array([0, 2, 7, 8]) if predictor.level == "graph" else np.array([NODES - 1, 3, NODES - 2, 3, 0])


def _task(predictor: Predictor) -> Task:
    if predictor.level == "link":
        return LinkTask("ap")
    return (
        ValueTask("mae", [3.0, 0.5, -1.0], [2.0, 1.0, 0.1])
        if predictor.level == "graph"
        else ClassTask([4, 5, 6], False, "f1")
    )


def _assert_same(found: dict[str, Tensor], predictor: Predictor, task: Task, instances: Any, case: object = "") -> None:
    """The outputs of a program are those of the fast model."""
    wanted = predictor.logits(instances)
    torch.testing.assert_close(found["logits"], wanted, atol=2e-5, rtol=2e-5, msg=lambda text: f"{case}\n{text}")
    answers = found["value" if isinstance(task, ValueTask) else "probability"]
    torch.testing.assert_close(answers, task.answers(wanted), atol=1e-4, rtol=1e-4)
    if "weights" in found:
        weights = torch.cat([out.weights for out in predictor.outputs(instances) if out.weights is not None])
        torch.testing.assert_close(found["weights"], weights, atol=1e-5, rtol=1e-4)
    assert list(found) == [each.name for each in list_outputs(predictor, task)]


def test_the_plain_model_equals_the_fast_one_in_every_pair_of_choices() -> None:
    cases, met = _choose_cases(), set()
    assert len(cases) > 20
    for case in cases:
        predictor = _predictor(**case)
        task = _task(predictor)
        machine = ExportedMachine(predictor.model, task.answers, predictor.level, isinstance(task, ValueTask))
        instances = _instances(predictor)
        inputs = InputMaker(predictor)(instances)
        for slot in list_inputs(predictor):
            given = inputs[slot.name]
            assert str(given.dtype) == f"torch.{slot.kind}", (case, slot)
            assert len(given.shape) == len(slot.shape)
            assert all(a == b for a, b in zip(given.shape, slot.shape, strict=True) if not isinstance(b, str)), (
                case,
                slot,
            )
        assert list(inputs) == [slot.name for slot in list_inputs(predictor)]
        met |= inputs.keys()
        with torch.no_grad():
            _assert_same(machine(**inputs), predictor, task, instances, case)
    assert met == inspect.signature(ExportedMachine.forward).parameters.keys() - {"self"}
    assert {name for name in met if f"`{name}`" not in DOCS.read_text(encoding="utf-8")} == set()


TRACED: dict[str, dict[str, Any]] = {
    "node": {
        "x": "sparse bags", "pe": "rwse", "path_heads": 2, "readout": "class", "learn_weight": True, "expected": 1,
        "labels": "on", "structure": True, "position": 2, "linear": "base",
    },
    "graph": {
        "x": "categories", "edge_attr": "categories", "stars": True, "path": "conv", "topology": "shape",
        "readout": "sum",
    },
    "product": {"edge_attr": "dense", "path": "gru", "topology": "induced", "anonymous": "transformer", "fusion": True},
    "joint": {
        "path": "mean", "path_position": "learned", "anonymous": "mean", "expected": 2, "structure": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("level", ["node", "product"])
def test_a_traced_program_reads_any_number_of_instances_patterns_and_rows(level: str) -> None:
    predictor = _predictor(level, **TRACED[level])
    _check_program(export_program(predictor, _task(predictor)), predictor, _task(predictor), _instances(predictor))


@pytest.mark.parametrize("level", ["graph", "joint"])
def test_a_run_of_graphs_or_links_becomes_such_a_program(level: str, tmp_path: Path) -> None:
    options = SMALL | TRACED[level]
    given: dict[str, Any] = {"edge_attr": options.pop("edge_attr", "none"), "x": options.pop("x", "dense")}
    if level == "graph":
        given |= {"graphs": 8, "y": np.arange(27.0).reshape(9, 3) - 7}
        options |= {"task": "graph", "metric": "mae"}
    else:
        options |= {"task": "link", "pair": "joint", "split": "60/20/20"}
    _graph(**given).save(tmp_path / "graph")
    train(str(tmp_path / "graph"), out=tmp_path / "run", quiet=True, device="cpu", **options)
    export_run(tmp_path / "run", check=5)
    run, program = Run.open(tmp_path / "run"), torch.export.load(tmp_path / "run" / "model.pt2")
    assert isinstance(run.predictor, Predictor)
    assert ("neighbourhoods" in run.metadata["inputs"]["expected"]) == (level == "graph")
    names = [5, 0, 3] if level == "graph" else [(4, 2), (0, 9)]
    _check_program(program, run.predictor, run.task, np.array(names))
    found = program.module()(**make_inputs(run, names))
    answers = found["value" if level == "graph" else "probability"]
    np.testing.assert_allclose(answers, run.predict(names).probability, rtol=1e-4)


def _check_program(program: ExportedProgram, predictor: Predictor, task: Task, instances: Any) -> None:
    """It equals the model for any number of instances, patterns and rows."""
    module, maker = program.module(), InputMaker(predictor)
    for some in (instances, instances[:1], np.concatenate([instances, instances[:2]])):
        _assert_same(module(**maker(some)), predictor, task, some)
    inputs = maker(instances)
    wanted = module(**inputs)["logits"]
    order = torch.randperm(inputs["nodes"].shape[-2])
    torch.testing.assert_close(module(**_reorder(inputs, order))["logits"], wanted)
    torch.testing.assert_close(module(**_add_rows(inputs))["logits"], wanted)
    torch.testing.assert_close(module(**_add_absent(inputs))["logits"], wanted)
    few = maker(instances, 4)
    assert few["nodes"].numel() < inputs["nodes"].numel()
    torch.testing.assert_close(module(**few)["logits"], predictor.logits(instances, patterns=4), atol=2e-5, rtol=2e-5)


def _slots(inputs: dict[str, Tensor]) -> tuple[int, list[str]]:
    """Which axis is that of patterns, and who has it."""
    named = ("nodes", "edges", "marks", "adjacent", "shape")
    return inputs["nodes"].dim() - 2, [name for name in named if name in inputs]


def _reorder(inputs: dict[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    axis, names = _slots(inputs)
    return inputs | {name: inputs[name].index_select(axis, order) for name in names}


def _add_absent(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """Two patterns more that are not there."""
    axis, names = _slots(inputs)
    found = dict(inputs)
    for name in names:
        extra = torch.full_like(inputs[name].narrow(axis, 0, 2), -1 if name in ("nodes", "edges") else 0)
        found[name] = torch.cat([inputs[name], extra], axis)
    return found


def _add_rows(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """A node and an edge more that no walk passes."""
    found = dict(inputs)
    for name in {"x", "pe", "edge_attr", "label"} & inputs.keys():
        found[name] = torch.cat([inputs[name], inputs[name][:1]])
    if "x_offsets" in inputs:
        found["x_offsets"] = torch.cat([inputs["x_offsets"], torch.tensor([len(inputs["x_values"])])])
    return found


def test_features_of_another_form_are_brought_into_the_models_and_new_categories_say_nothing() -> None:
    for mine, other in (("dense", "sparse"), ("sparse", "dense"), ("categories", "more categories")):
        edges = [kind if kind.endswith("categories") else "none" for kind in (mine, other)]
        trained = _predictor("node", mine, edges[0])
        graph = _graph(other, edges[1])
        moved = Predictor.build(Config(**SMALL), graph, 3, inputs=InputSpec(**vars(trained.model.inputs)))
        moved.model.load_state_dict(trained.model.state_dict())
        machine = ExportedMachine(moved.model, _task(moved).answers, "node")
        instances = np.arange(NODES)
        _assert_same(machine(**InputMaker(moved)(instances)), moved, _task(moved), instances)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run and its program, as the page on exports has them."""
    folder = tmp_path_factory.mktemp("exported")
    graph = _graph(y=10 * (np.arange(NODES) % 3), names=[f"n{i}" for i in range(NODES)])
    graph.save(folder / "graph")
    train(
        str(folder / "graph"),
        out=folder / "run",
        quiet=True,
        device="cpu",
        **SMALL | {"readout": "class", "labels": "on"},
    )
    export_run(folder / "run", folder / "model.pt2", check=10)
    return folder


@pytest.fixture(scope="module")
def program(exported: Path) -> ExportedProgram:
    return torch.export.load(exported / "model.pt2")


def test_a_file_is_loaded_and_says_what_the_run_says(exported: Path, program: ExportedProgram) -> None:
    with zipfile.ZipFile(exported / "model.pt2") as archive:
        about = json.loads(archive.read(next(name for name in archive.namelist() if name.endswith("gpm.json"))))
    module, run = program.module(), Run.open(exported / "run")
    assert about["classes"] == [0, 10, 20]
    assert about["example"]["names"] == run.predict(about["example"]["names"]).names
    found = module(**program.example_inputs[1])
    np.testing.assert_allclose(found["logits"], about["example"]["logits"], atol=1e-5)
    assert [each["name"] for each in about["outputs"]] == list(found)
    names = ["n7", "n2", "n23"]
    found = module(**make_inputs(run, names))
    np.testing.assert_allclose(found["probability"], run.predict(names).probability, atol=1e-5)
    np.testing.assert_allclose(found["weights"].sum(1), 1, atol=1e-5)
    assert not found["logits"].requires_grad
    some = make_inputs(run, names, patterns=3)
    np.testing.assert_allclose(module(**some)["logits"], run.predict(names, patterns=3).logits, atol=1e-5)


def test_a_file_tells_no_path_of_the_machine(exported: Path) -> None:
    content = (exported / "model.pt2").read_bytes()
    for path in (exported, Path(torch.__file__).parent, Path(export.__file__).parent):
        assert str(path).encode() not in content


def test_the_page_runs_and_where_it_says_so_without_gpm(
    exported: Path, program: ExportedProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert ["gpm" in block.replace("gpm.json", "") for block in blocks] == [False, False, True]
    alone = "import sys\nsys.modules['gpm'] = None  # cannot be imported\n" + "".join(blocks[:2])
    command = [sys.executable, "-W", "error", "-c", alone]
    done = subprocess.run(command, cwd=exported, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert "nodes int64 ['B', 'M', 4]" in done.stdout
    monkeypatch.chdir(exported)
    exec(blocks[2], {"module": program.module()})


@pytest.fixture
def reloaded(program: ExportedProgram, monkeypatch: pytest.MonkeyPatch) -> ExportedProgram:
    """The program of the run, which the next export takes for what it traced."""
    monkeypatch.setattr(export, "export_program", lambda *_: program)
    return program


@pytest.mark.parametrize("wrong", [0.01, float("nan")])
def test_a_program_that_says_something_else_is_refused_and_the_old_file_stays(
    exported: Path, reloaded: ExportedProgram, wrong: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.pt2").write_bytes(b"old")
    bias = reloaded.state_dict["model.head.bias"]
    monkeypatch.setitem(reloaded.state_dict, "model.head.bias", nn.Parameter(bias + wrong, requires_grad=False))
    with pytest.raises(GpmError, match=r"The exported program differs from the run by .*; nothing was written"):
        export_run(exported / "run", tmp_path / "model.pt2", check=3)
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt2"]
    assert (tmp_path / "model.pt2").read_bytes() == b"old"


@pytest.mark.usefixtures("reloaded")
def test_an_export_that_is_interrupted_or_cannot_be_written_leaves_nothing(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "new" / "model.pt2"
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(GpmError, match=r"Cannot write .*model.pt2: No space left on device"):
            export_run(exported / "run", out, check=3)
    monkeypatch.setattr(export, "_compare", stop)
    with pytest.raises(KeyboardInterrupt):
        export_run(exported / "run", out, check=3)
    assert list(out.parent.iterdir()) == []


@pytest.mark.usefixtures("reloaded")
def test_the_command_says_what_it_did_and_what_it_cannot_do(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(COMMANDS, "export", "gpm.cli.export:export_run")
    run, out = str(exported / "run"), str(tmp_path / "model.txt")
    (tmp_path / "folder.pt2").mkdir()
    for arguments, complaint in (
        ([run, "-o", out], "model.txt must be a file that ends in .pt2"),
        ([run, "-o", str(tmp_path / "folder.pt2")], "folder.pt2 must be a file"),
        ([run, "--check", "0"], "--check must be at least 1, got 0"),
        ([str(tmp_path / "nothing")], "There is no run folder"),
    ):
        assert main(["export", *arguments]) == 2
        assert complaint in capsys.readouterr().err
    assert main(["export", run, "--check", "1000"]) == 0
    said = capsys.readouterr().out
    assert "model.pt2: from nodes, x, label, expected to logits, probability, weights\n24 nodes checked: logits" in said
    assert (exported / "run" / "model.pt2").is_file()


def test_a_baseline_is_refused_before_its_data_are_read(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "config", Config(**SMALL, model="gcn", data="not there"))
    with pytest.raises(GpmError, match="run holds a gcn, which reads no patterns; use a run of a gpm"):
        export_run(exported / "run")


def test_what_is_not_an_instance_is_a_mistake(exported: Path) -> None:
    run = Run.open(exported / "run")
    with pytest.raises(GpmError, match="Name at least one instance"):
        make_inputs(run, [])
    with pytest.raises(GpmError, match="No node is named 'n99'"):
        make_inputs(run, ["n99"])
    with pytest.raises(GpmError, match=r"patterns must lie between 3 .* and the pool's 8, got 9"):
        make_inputs(run, ["n1"], patterns=9)
