"""Graphs from end to end: trained, scored again, predicted, resumed; and the graphs that are no ordinary ones."""

from __future__ import annotations

import csv
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gpm import GpmError, Graph, Run, train
from gpm.cli.main import main
from gpm.data.graph_data import build_graph_data
from gpm.training.callbacks import SaveState

SMALL: dict[str, Any] = {
    "preset": "plain",
    "width": 16, "heads": 2, "lengths": [0, 1, 4], "patterns": 12, "pool": 24, "batch": 16, "warmup": 2, "lr": 0.02,
    "dropout": 0.0, "epochs": 5, "split": "60/20/20",
}  # fmt: skip
LONE, TWO_RINGS, TWO_PATHS, EMPTY = 0, 1, 2, 4  # graphs of the collection that are special
COUNT = 60


pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def collect(parts: list[nx.Graph], **given: Any) -> Graph:
    """Some graphs as a collection."""
    pointer = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    ends = [np.array(list(part.edges), dtype=np.int64).reshape(-1, 2) for part in parts]
    edges = np.concatenate([each + first for each, first in zip(ends, pointer, strict=False)]).T
    return Graph.from_edges(edges, int(pointer[-1]), undirected=True, graph_ptr=pointer, **given)


def rings_and_trees(y: NDArray | None = None, categories: int = 3) -> Graph:
    """Rings (class 1) and paths (class 0) of random categories; single nodes, graphs in two pieces and an empty one."""
    rng = np.random.default_rng(0)
    parts = [
        nx.cycle_graph(n) if i % 2 else nx.path_graph(n) for i, n in enumerate(rng.integers(4, 10, COUNT).tolist())
    ]
    parts[LONE], parts[EMPTY] = nx.empty_graph(1), nx.empty_graph(0)
    parts[TWO_RINGS] = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(4))
    parts[TWO_PATHS] = nx.disjoint_union(nx.path_graph(3), nx.path_graph(2))
    x = rng.integers(0, categories, (sum(map(len, parts)), 1))
    return collect(parts, x=x, y=np.arange(COUNT) % 2 if y is None else y)


def _train(source: Any, out: Path, **options: Any) -> Run:
    run = train(source, out=out, quiet=True, device="cpu", **SMALL | options)
    assert isinstance(run, Run)
    return run


def _table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def classified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a saved collection of rings and trees."""
    folder = tmp_path_factory.mktemp("classified")
    rings_and_trees().save(folder / "shapes")
    return _train(str(folder / "shapes"), folder / "run", pe="rings", pe_dim=9).folder


# Classes


def test_rings_are_told_from_trees(classified: Path) -> None:
    result = Run(classified).result
    assert result["test"]["accuracy"] > 0.85
    assert (result["task"], result["metric"], result["data"]) == ("graph", "accuracy", "shapes")
    assert result["protocol"].startswith("split random 60/20/20, seed 0, stratified; epoch chosen by validation")
    assert "60 graphs" in (classified / "README.md").read_text(encoding="utf-8")


def test_a_run_scored_again_has_the_same_figures(classified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.open(classified)
    for part in ("val", "test"):
        assert run.evaluate(part) == pytest.approx(run.result[part], abs=1e-6)
    assert main(["evaluate", str(classified)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"shapes, test: accuracy {run.result['test']['accuracy']:.2%}, loss ")
    assert second.startswith(f"{len(run.split.test)} graphs, 24 patterns each, split random 60/20/20")


def test_the_table_is_of_the_test_part(classified: Path) -> None:
    run, rows = Run.open(classified), _table(classified / "predictions.csv")
    assert list(rows[0]) == ["graph", "prediction", "label_true", "p_0", "p_1"]
    assert [int(row["graph"]) for row in rows] == run.split.test.tolist()
    right = [int(row["prediction"]) == run.data.labels[int(row["graph"])] for row in rows]
    assert np.mean(right) == pytest.approx(run.result["test"]["accuracy"])
    assert all(float(row["p_0"]) + float(row["p_1"]) == pytest.approx(1, abs=1e-4) for row in rows)


def test_graphs_are_predicted_by_number(classified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.open(classified)
    everything = run.predict()
    assert everything.names == [i for i in range(COUNT) if i != EMPTY]
    some = run.predict(["7", TWO_RINGS])
    assert some.names == [7, TWO_RINGS]
    torch.testing.assert_close(some.logits, everything.logits[[6, 1]], atol=1e-5, rtol=1e-4)
    assert main(["predict", str(classified), "--graphs", "7", "1", "-o", str(tmp_path / "some.csv")]) == 0
    assert capsys.readouterr().out == f"2 graphs of shapes written to {tmp_path / 'some.csv'}\n"
    assert [row["graph"] for row in _table(tmp_path / "some.csv")] == ["7", "1"]
    assert main(["predict", str(classified), "--graphs", "60", "-o", str(tmp_path / "some.csv")]) == 2
    assert capsys.readouterr().err == "gpm predict: No graph '60': graphs are numbered 0 to 59.\n"


def test_single_nodes_and_graphs_in_pieces_are_graphs_like_others(classified: Path) -> None:
    """They are in the parts, and what is said of them is right: a lone node has no ring, two rings are rings."""
    run = Run.open(classified)
    assert np.isin([LONE, TWO_RINGS, TWO_PATHS], np.concatenate([run.split.train, run.split.val, run.split.test])).all()
    assert run.predict([LONE, TWO_RINGS, TWO_PATHS]).labels.tolist() == [0, 1, 0]


def test_an_empty_graph_is_left_out_and_said_so(classified: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = Run.open(classified)
    assert EMPTY not in np.concatenate([run.split.train, run.split.val, run.split.test])
    assert run.data.graph.num_graphs == COUNT
    assert "shapes: no nodes in 1 of 60 graphs, which are left out: 4." in caplog.text
    with pytest.raises(GpmError, match=r"^Graph 4 has no nodes, so it has no patterns; leave it out\.$"):
        run.predict([1, EMPTY])


def test_what_is_empty_throughout_is_refused(tmp_path: Path) -> None:
    empty = collect([nx.empty_graph(0)] * 5, y=np.arange(5) % 2)
    with pytest.raises(GpmError, match="All labelled graphs of graphs are empty; give graphs with at least one node"):
        _train(empty, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_data_check_proves_the_parts(classified: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", str(classified)]) == 0
    shown = capsys.readouterr().out
    assert Run(classified).split.digest in shown
    assert "none is in two splits" in shown


# Other graphs


def test_the_same_graphs_given_as_others_get_the_same_answers(classified: Path) -> None:
    run = Run.open(classified)
    without_labels = replace(rings_and_trees(), y=None)
    for source in (without_labels, classified.parent / "shapes", str(classified.parent / "shapes")):
        other = Run.open(classified, source, other=True)
        torch.testing.assert_close(other.predict().logits, run.predict().logits)
        with pytest.raises(GpmError, match="Only the training data has a split; open the run without"):
            other.evaluate()


def test_categories_that_were_never_seen_are_read_as_unknown(classified: Path, tmp_path: Path) -> None:
    """All that are unknown mean the same, and the rings around them are still seen."""
    parts = [nx.cycle_graph(6), nx.path_graph(6), nx.empty_graph(1)]
    said = []
    for category in (77, 1_000_000):
        others = collect(parts, x=np.full((13, 1), category))
        found = Run.open(classified, others, other=True).predict()
        assert found.names == [0, 1, 2]
        assert found.labels.tolist() == [1, 0, 0]
        said.append(found.logits)
    assert torch.equal(*said)
    others.save(tmp_path / "others")
    assert main(["predict", str(classified), "--on", str(tmp_path / "others"), "-o", str(tmp_path / "o.csv")]) == 0
    assert [row["prediction"] for row in _table(tmp_path / "o.csv")] == ["1", "0", "0"]


def test_graphs_with_other_features_get_a_sentence(
    classified: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [nx.cycle_graph(6), nx.path_graph(6)]
    for number, x in enumerate((None, np.ones((12, 1)), np.zeros((12, 2), dtype=np.int64))):
        collect(parts, x=x).save(tmp_path / str(number))
        assert (
            main(["predict", str(classified), "--on", str(tmp_path / str(number)), "-o", str(tmp_path / "o.csv")]) == 2
        )
        said = capsys.readouterr().err
        assert said.startswith("gpm predict: The model reads 1 node features (categories), this graph has ")
        assert said.count("\n") == 1


# Killed and resumed


class Killed(BaseException):
    """No one catches it."""


def test_a_killed_run_resumes_to_the_same_bits(
    classified: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = SaveState.on_train_epoch_end

    def dying(self: SaveState, trainer: Any, learner: Any) -> None:
        if trainer.current_epoch == 3:
            raise Killed
        usual(self, trainer, learner)

    with monkeypatch.context() as patched:
        patched.setattr(SaveState, "on_train_epoch_end", dying)
        with pytest.raises(Killed):
            _train(str(classified.parent / "shapes"), tmp_path / "run", pe="rings", pe_dim=9)
    assert not (tmp_path / "run/result.json").exists()
    assert main(["train", "--resume", str(tmp_path / "run"), "--quiet"]) == 0
    for name in ("model.safetensors", "predictions.csv", "split.npz"):
        assert (tmp_path / "run" / name).read_bytes() == (classified / name).read_bytes()
    assert Run(tmp_path / "run").result["test"] == Run(classified).result["test"]


# Values


@pytest.fixture(scope="module")
def rings() -> Graph:
    """Rings of 6 to 100 nodes, whose patterns are all alike; the target is 1000 and ten for every node."""
    sizes = np.random.default_rng(0).permutation(np.geomspace(6, 100, COUNT).astype(np.int64))
    return collect([nx.cycle_graph(n) for n in sizes.tolist()], y=1000 + 10.0 * sizes)


def test_a_sum_learns_the_size_of_graphs_and_a_mean_cannot(rings: Graph, tmp_path: Path) -> None:
    options = {"anonymous": "none", "lr": 0.1, "batch": 6, "patterns": 3, "pool": 3}
    of_sum = _train(rings, tmp_path / "sum", readout="sum", epochs=8, **options)
    of_mean = _train(rings, tmp_path / "mean", readout="mean", epochs=2, **options)
    assert of_sum.result["metric"] == "mae"
    assert np.ptp(of_mean.predict().probability) < 1e-3
    assert of_sum.result["test"]["mae"] < 0.25 * of_mean.result["test"]["mae"]


def test_values_are_reported_in_their_own_units(rings: Graph, tmp_path: Path) -> None:
    run = _train(rings, tmp_path / "run", readout="sum", metric="rmse", epochs=2)
    rows = _table(run.folder / "predictions.csv")
    assert list(rows[0]) == ["graph", "prediction", "label_true"]
    off = np.array([float(row["prediction"]) - run.data.labels[int(row["graph"])] for row in rows])
    assert run.result["test"]["rmse"] == pytest.approx(np.sqrt(np.mean(off**2)), rel=1e-3)
    assert run.result["test"]["mae"] == pytest.approx(np.abs(off).mean(), rel=1e-3)
    assert list(run.result["test"]) == ["rmse", "mae", "loss"]
    again = Run.open(run.folder, rings)
    assert again.evaluate() == pytest.approx(run.result["test"], rel=1e-5)
    assert f"| RMSE | {run.result['val']['rmse']:.4f} | {run.result['test']['rmse']:.4f} |" in (
        run.folder / "README.md"
    ).read_text(encoding="utf-8")


def test_graphs_without_a_target_are_in_no_part_but_can_be_predicted(rings: Graph, tmp_path: Path) -> None:
    y = np.array(rings.y)
    y[[3, 50]] = np.nan
    run = _train(replace(rings, y=y), tmp_path / "run", readout="sum", epochs=2)
    ids = np.concatenate([run.split.train, run.split.val, run.split.test])
    assert sorted(ids) == sorted(set(range(COUNT)) - {3, 50})
    assert np.isfinite(list(run.result["test"].values())).all()
    assert np.isfinite(run.predict([3, 50]).probability).all()


def test_targets_that_are_nowhere_known_are_refused(rings: Graph, tmp_path: Path) -> None:
    nowhere = np.full(COUNT, np.nan)
    with pytest.raises(GpmError, match="All graphs of graphs are without a label; give at least some of them a y"):
        _train(replace(rings, y=nowhere), tmp_path / "run", metric="mae")
    half = np.stack([np.asarray(rings.y), nowhere], 1)
    with pytest.raises(GpmError, match="A target is unknown for all instances of the training split; leave it out"):
        _train(replace(rings, y=half), tmp_path / "run", metric="mae")
    endless = np.array(rings.y)
    endless[5] = np.inf
    with pytest.raises(GpmError, match="graph 5 of graphs has an infinite or far too large target"):
        _train(replace(rings, y=endless), tmp_path / "run")


def test_several_values_have_a_column_each(rings: Graph, tmp_path: Path) -> None:
    y = np.stack([np.asarray(rings.y), np.random.default_rng(0).normal(-5, 0.1, COUNT)], 1)
    y[::7, 1] = np.nan
    run = _train(replace(rings, y=y), tmp_path / "run", readout="sum", epochs=2)
    rows = _table(run.folder / "predictions.csv")
    assert list(rows[0]) == ["graph", "prediction_0", "prediction_1", "label_true_0", "label_true_1"]
    assert all(float(row["prediction_1"]) == pytest.approx(-5, abs=1) for row in rows)
    assert all(float(row["prediction_0"]) > 900 for row in rows)


# Several labels, folds, classes


def test_several_labels_may_be_unknown_here_and_there(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.stack([np.arange(COUNT) % 2, 1 - np.arange(COUNT) % 2, rng.integers(0, 2, COUNT)], 1).astype(float)
    y[rng.random(y.shape) < 0.2] = np.nan
    y[7] = np.nan
    run = _train(rings_and_trees(y), tmp_path / "run", pe="rings", pe_dim=9, epochs=8)
    assert run.result["metric"] == "roc_auc"
    assert np.isfinite(list(run.result["test"].values())).all()
    assert 7 not in np.concatenate([run.split.train, run.split.val, run.split.test])
    rows = _table(run.folder / "predictions.csv")
    assert list(rows[0]) == ["graph", "prediction", "label_true_0", "label_true_1", "label_true_2", "p_0", "p_1", "p_2"]
    assert rows[0]["prediction"] == " ".join(str(c) for c in range(3) if float(rows[0][f"p_{c}"]) >= 0.5)
    said = run.predict(run.split.test)
    assert said.labels.shape == (len(said), 3)
    known = ~np.isnan(y[run.split.test, :2])
    assert (said.labels[:, :2] == y[run.split.test, :2])[known].mean() > 0.8  # the third is noise


def test_over_all_folds_each_graph_is_tested_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    given = {key: value for key, value in SMALL.items() if key != "split"} | {"epochs": 1}
    runs = train(rings_and_trees(), out=tmp_path / "runs", folds=3, quiet=True, device="cpu", **given)
    assert isinstance(runs, list)
    assert sorted(np.concatenate([run.split.test for run in runs])) == [i for i in range(COUNT) if i != EMPTY]
    for run in runs:
        assert len(run.split.train) + len(run.split.val) + len(run.split.test) == COUNT - 1
    summary = json.loads((tmp_path / "runs/summary.json").read_text())
    assert (summary["seeds"], summary["task"], summary["metric"]) == ([0, 1, 2], "graph", "accuracy")
    assert summary["values"] == [round(100 * run.result["test"]["accuracy"], 2) for run in runs]
    assert summary["protocol"].startswith("split each of 3 folds; ")
    assert "over 3 folds" in caplog.messages[-2]
    with pytest.raises(GpmError, match="Each fold is a split with its own seed; leave out --seeds and --split"):
        train(rings_and_trees(), out=tmp_path / "other", folds=3, split="60/20/20")
    with pytest.raises(GpmError, match="folds must be at least 3"):
        train(rings_and_trees(), out=tmp_path / "other", folds=2)
    assert not (tmp_path / "other").exists()


def test_a_class_that_is_only_tested_is_named_and_has_a_column(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    y = np.arange(COUNT) % 2
    y[9] = 2
    graph = rings_and_trees(y)
    data = build_graph_data(graph, "graphs")
    seed = next(seed for seed in range(3) if 9 in data.make_split(seed, "3-fold").test)
    caplog.clear()
    run = _train(graph, tmp_path / "run", split="3-fold", seed=seed, epochs=2)
    assert "graphs: classes in val or test but not in train of split" in caplog.text
    rows = _table(run.folder / "predictions.csv")
    assert list(rows[0]) == ["graph", "prediction", "label_true", "p_0", "p_1", "p_2"]
    assert np.isfinite(list(run.result["test"].values())).all()
    assert run.evaluate() == pytest.approx(run.result["test"], abs=1e-6)


def test_a_part_of_one_class_has_no_area(tmp_path: Path) -> None:
    y = np.zeros(COUNT, dtype=np.int64)
    y[9] = 1
    with pytest.raises(GpmError, match=r"All instances to score are of one class.*use --metric accuracy"):
        _train(rings_and_trees(y), tmp_path / "run", metric="roc_auc", epochs=1)
    with pytest.raises(GpmError, match="All labelled instances are of class"):
        _train(rings_and_trees(np.zeros(COUNT, dtype=np.int64)), tmp_path / "other", epochs=1)


# Statistics


@pytest.mark.parametrize("model", ["gpm", "gin"])
def test_statistics_are_those_of_the_training_graphs(model: str) -> None:
    """Whatever features the other graphs have, the model that training begins with is the same."""
    from gpm.config import Config
    from gpm.nn.build import build_predictor

    rng = np.random.default_rng(0)
    pointer, edges = (
        np.arange(0, 41, 4),
        np.array([[i for i in range(40) if i % 4 < 3], [i for i in range(40) if i % 4]]),
    )
    x, weights = rng.normal(size=(40, 3)).astype(np.float32), rng.normal(size=(30, 2)).astype(np.float32)
    config = Config(width=8, readout="sum" if model == "gpm" else "mean", pe="rwse", pe_dim=3, model=model)
    found = []
    for far in (0.0, 1000.0):
        moved = x.copy()
        moved[24:] += far
        attributes = weights.copy()
        attributes[18:] += far
        graph = Graph.from_edges(edges, 40, undirected=True, x=moved, edge_attr=attributes, graph_ptr=pointer)
        torch.manual_seed(0)
        found.append(build_predictor(config, graph, 2, "graph", seen=np.arange(6)).model.state_dict())
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        torch.testing.assert_close(value, found[1][name], rtol=0, atol=0)
    np.testing.assert_allclose(found[0]["input_map.node.shift"], x[:24].mean(0), rtol=1e-4, atol=1e-6)


def test_a_category_that_no_training_graph_has_says_nothing() -> None:
    from gpm.config import Config
    from gpm.nn.predictor import Predictor

    x = np.array([[0], [2], [0], [2], [1], [5]])
    graph = Graph.from_edges([[0, 2, 4], [1, 3, 5]], 6, undirected=True, x=x, graph_ptr=np.array([0, 2, 4, 6]))
    predictor = Predictor.build(Config(width=8), graph, 2, "graph", seen=np.array([0, 1]))
    rows = predictor.model.input_map.node.weight
    assert len(rows) == 4  # 0, 1, 2 and whatever is beyond
    assert (rows[[1, 3]] == 0).all()
    assert (rows[[0, 2]] != 0).any(1).all()
