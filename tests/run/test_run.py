from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import torch

from gpm import GpmError, Graph, Predictions, Run, train
from gpm.inference.model_files import FORMAT
from gpm.io.run_files import read_config, write_config
from gpm.tasks import ClassTask

NODES = 40
SMALL: dict[str, Any] = {
    "preset": "plain",
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 16, "epochs": 2, "warmup": 2,
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


def _graph(columns: int = 3, names: bool = True) -> Graph:
    random = np.random.default_rng(0)
    return Graph.from_edges(
        random.integers(0, NODES, (2, 90)), NODES, undirected=True, x=random.normal(size=(NODES, columns)),
        y=10 * (np.arange(NODES) % 3), names=[f"n{i}" for i in range(NODES)] if names else None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a saved graph whose nodes have names, and whose classes are 0, 10 and 20."""
    folder = tmp_path_factory.mktemp("trained")
    _graph().save(folder / "graph")
    train(str(folder / "graph"), out=folder / "run", quiet=True, device="cpu", **SMALL)
    return folder / "run"


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A run without checksums, in which damage is found by whoever reads the file."""
    return Path(shutil.copytree(trained, tmp_path / "copy", ignore=shutil.ignore_patterns("checksums.json")))


def test_evaluate_gives_the_stored_figures(trained: Path) -> None:
    run = Run.open(trained)
    assert run.evaluate() == pytest.approx(run.result["test"], abs=1e-6)  # two threads may add in another order
    assert run.evaluate("test") == pytest.approx(run.result["test"], abs=1e-6)
    assert run.evaluate("val") == pytest.approx(run.result["val"], abs=1e-6)
    assert run.evaluate("test", patterns=3) != run.result["test"]
    assert str(run) == f"Run({str(trained)!r})"


def test_a_part_that_is_not_there_is_a_mistake(trained: Path) -> None:
    for part in ("tset", "name", "digest"):
        with pytest.raises(GpmError, match=f"There is no split '{part}'; choose train, val or test"):
            Run.open(trained).evaluate(part)
    with pytest.raises(GpmError, match=r"count must lie between 3 .one per length. and the pool's 12, got 13"):
        Run.open(trained).evaluate(patterns=13)


def test_nodes_are_predicted_by_name(trained: Path) -> None:
    run = Run.open(trained)
    every, some = run.predict(), run.predict(["n7", "n2"])
    assert every.names == [f"n{i}" for i in range(NODES)]
    assert len(every) == NODES
    assert (some.names, len(some)) == (["n7", "n2"], 2)
    np.testing.assert_allclose(some.probability, every.probability[[7, 2]], rtol=1e-5)
    assert set(every.labels) <= {0, 10, 20}
    assert every.labels[7] == [0, 10, 20][every.probability[7].argmax()]
    assert len(run.predict([])) == 0
    with pytest.raises(GpmError, match="No node is named 'n99'"):
        run.predict(["n99"])


def test_the_stored_predictions_are_those_of_the_test_part(trained: Path) -> None:
    run = Run.open(trained)
    with (trained / "predictions.csv").open() as file:
        stored = list(csv.DictReader(file))
    said = run.predict_ids(run.split.test)
    assert [row["node"] for row in stored] == said.names
    assert [int(row["prediction"]) for row in stored] == said.labels.tolist()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_predictions_come_back_from_a_table(trained: Path, tmp_path: Path, suffix: str) -> None:
    found = Run.open(trained).predict()
    found.save(tmp_path / f"nodes.{suffix}")
    table = duckdb.sql(f"SELECT * FROM '{tmp_path}/nodes.{suffix}'")
    assert table.columns == ["node", "prediction", "label_true", "p_0", "p_10", "p_20"]
    rows = table.fetchall()
    assert [row[0] for row in rows] == found.names
    assert [row[1] for row in rows] == found.labels.tolist()
    labels = Run.open(trained).data.labels.tolist()
    assert [row[2] for row in rows] == [None if label < 0 else label for label in labels]
    np.testing.assert_allclose([row[3:] for row in rows], found.probability, rtol=1e-5)


def test_several_labels_are_listed() -> None:
    logits = torch.logit(torch.tensor([[0.5, 0.9], [0.1, 0.2], [0.7, 0.3]]))
    found = Predictions({"node": ["a", "b", 3]}, logits, ClassTask([0, 1], True, "roc_auc"))
    assert found.labels.tolist() == [[True, True], [False, False], [True, False]]
    assert found.columns()["prediction"] == ["0 1", "", "0"]


def test_other_graphs_with_the_same_features_are_predicted(trained: Path) -> None:
    run, other = Run.open(trained), Graph.from_edges([[0, 1], [1, 2]], x=np.eye(3))
    assert run.predictor_for(other).logits(np.arange(3)).shape == (3, 3)


def test_a_graph_with_other_features_is_refused(trained: Path) -> None:
    sentence = r"The model reads 3 node features \(dense\), this graph has 4 \(dense\); give a graph with the features"
    with pytest.raises(GpmError, match=sentence):
        Run.open(trained, _graph(columns=4), other=True).predict()
    with pytest.raises(GpmError, match=r"is no longer what .* was trained on"):
        Run.open(trained, _graph(columns=4))
    with pytest.raises(GpmError, match=r"reads 3 node features \(dense\), this graph has 3 \(categories\)"):
        Run.open(trained).predictor_for(Graph.from_edges([[0], [1]], x=np.ones((2, 3), dtype=int)))


@pytest.mark.parametrize(("data", "place"), [("./graph", "graph"), ("../graph", "../graph")])
def test_a_run_may_carry_its_graph(copied: Path, trained: Path, data: str, place: str) -> None:
    write_config(copied / "config.yaml", read_config(copied / "config.yaml").with_(data=data))
    with pytest.raises(GpmError, match=r"comes with its graph in .*graph, which is missing; copy it as well"):
        Run.open(copied).evaluate()
    shutil.copytree(trained.parent / "graph", copied / place)
    assert Run.open(copied).evaluate() == pytest.approx(Run.open(trained).result["test"], abs=1e-6)


def test_a_graph_that_was_in_memory_is_given_again(tmp_path: Path) -> None:
    trained = train(_graph(), out=tmp_path / "run", quiet=True, **SMALL)
    assert isinstance(trained, Run)
    with pytest.raises(GpmError, match=r"run was trained on a graph in memory; give it: Run\.open\(folder, graph\)"):
        Run.open(tmp_path / "run").evaluate()
    assert Run.open(tmp_path / "run", _graph()).evaluate() == pytest.approx(trained.result["test"], abs=1e-6)


@pytest.mark.parametrize("missing", ["config.yaml", "model.json", "model.safetensors"])
def test_a_folder_without_its_files_is_no_run(copied: Path, missing: str) -> None:
    (copied / missing).unlink()
    with pytest.raises(GpmError, match=f"copy has no {missing}: it is not a run folder, or its training ended before"):
        Run.open(copied)


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(GpmError, match=f"There is no run folder {path}; gpm train makes one"):
            Run.open(path)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_damaged_weights_are_refused(copied: Path) -> None:
    for damage in (_truncate, lambda path: path.write_bytes(b""), lambda path: path.write_text("{}")):
        damage(copied / "model.safetensors")
        with pytest.raises(
            GpmError, match=r"model\.safetensors does not hold the weights of this model \(.*train again"
        ):
            Run.open(copied).predict()


def test_weights_of_another_model_are_refused(copied: Path) -> None:
    config = read_config(copied / "config.yaml")
    write_config(copied / "config.yaml", config.with_(width=16))
    with pytest.raises(GpmError, match="does not hold the weights of this model"):
        Run.open(copied).predict()


@pytest.mark.parametrize("name", ["model.json", "result.json"])
@pytest.mark.parametrize(("content", "why"), [("{", r"\(JSONDecodeError\)"), ("[1]", "must hold an object")])
def test_damaged_json_is_refused(copied: Path, name: str, content: str, why: str) -> None:
    (copied / name).write_text(content)
    run = Run.open(copied)
    with pytest.raises(GpmError, match=f"{name}.*{why}.*train again"):
        run.metadata if name == "model.json" else run.result  # noqa: B018


def test_text_that_is_not_utf8_is_refused(copied: Path) -> None:
    (copied / "model.json").write_bytes(b'{"\xff"}')
    with pytest.raises(GpmError, match=r"Cannot read .*model\.json \(UnicodeDecodeError\)"):
        Run.open(copied).predict()


def test_another_format_is_refused(copied: Path) -> None:
    facts = json.loads((copied / "model.json").read_text())
    assert facts["format"] == FORMAT
    (copied / "model.json").write_text(json.dumps(facts | {"format": FORMAT + 1}))
    with pytest.raises(GpmError, match=rf"model\.json has format {FORMAT + 1}, this gpm reads {FORMAT}"):
        Run.open(copied).predict()


def test_a_damaged_split_is_refused(copied: Path) -> None:
    _truncate(copied / "split.npz")
    with pytest.raises(GpmError, match=r"split\.npz is not a split that can be read"):
        Run.open(copied).evaluate()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", r"config\.yaml, line \d: not YAML"),
        ("text", r"config\.yaml holds no options; each line must be 'key: value'"),
        ("widht: 3", r"config\.yaml: There is no option 'widht'. Did you mean 'width'"),
        ("width: -3", r"config\.yaml: width must lie between"),
    ],
)
def test_damaged_options_are_refused(copied: Path, content: str, sentence: str) -> None:
    (copied / "config.yaml").write_text(content)
    with pytest.raises(GpmError, match=sentence):
        Run.open(copied).predict()


def test_a_folder_may_be_moved_and_read_by_others(copied: Path, trained: Path) -> None:
    """Nothing in it is bound to its place, and no file is closed to whoever may read its neighbours."""
    assert Run.open(copied).evaluate() == Run.open(trained).result["test"]
    assert len({path.stat().st_mode for path in trained.iterdir()}) == 1
