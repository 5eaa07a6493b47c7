from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import GpmError, Graph, Run, train
from gpm.cli.datasets import check_source
from gpm.inference import label_proof
from gpm.inference.label_proof import check_labels
from gpm.nn.feature_table import FeatureTable
from gpm.patterns import known_labels
from gpm.patterns.tokenizer import Patterns

NODES = 60
SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 4], "patterns": 6, "pool": 24, "batch": 16, "epochs": 2, "labels": "on",
    "expected": 1, "split": "50/25/25", "linear": "none",
}  # fmt: skip


def _targets(kind: str) -> Any:
    numbers = np.arange(NODES)
    if kind == "classes":
        return numbers % 3
    if kind == "labels":
        labels = np.stack([numbers % 2, numbers % 3 == 0], 1).astype(np.float32)
        labels[::7, 1] = np.nan
        return labels
    return np.random.default_rng(0).normal(40, 9, NODES)


def _make_graph(kind: str) -> Graph:
    random = np.random.default_rng(0)
    edges = random.integers(0, NODES, (2, 140))  # with self-loops: a walk comes back in one step
    x = random.normal(size=(NODES, 3))
    return Graph.from_edges(edges, NODES, x=x, y=_targets(kind), undirected=True, self_loops="keep")


@pytest.fixture(scope="module", params=["classes", "labels", "values"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("labels")
    _make_graph(request.param).save(folder / "graph")
    metric = {"classes": "accuracy", "labels": "roc_auc", "values": "mae"}[request.param]
    train(str(folder / "graph"), out=folder / "run", quiet=True, device="cpu", metric=metric, **SMALL)
    return Run.open(folder / "run", device="cpu")


def test_no_prediction_rests_on_its_own_label_or_on_one_that_is_held_out(run: Run) -> None:
    own, held = check_labels(run)
    assert own.startswith("own labels")
    assert "8 train, 8 val, 8 test nodes" in own
    assert " 0 of" not in own  # the labels of others are read
    assert held.startswith("held-out labels")
    assert check_source(str(run.folder))[-2:] == [own, held]


def test_a_label_on_the_own_walks_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patterns, "table_rows", lambda self, num_nodes: self.nodes)
    with pytest.raises(GpmError, match=r"of node .* \(train\) changes with its own label: the label leaks"):
        check_labels(run)


def test_a_label_in_the_own_mean_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the trained model was told as much: everything is computed again."""
    monkeypatch.setattr(known_labels, "_returns", lambda step, steps: np.zeros(step.shape[0], dtype=np.int64))
    with pytest.raises(GpmError, match="changes with its own label"):
        check_labels(Run.open(run.folder, device="cpu"))


def test_a_label_that_is_held_out_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    split, answer = run.split, label_proof.known_answers
    whole = np.concatenate([split.train, split.val])
    told = replace(split, train=whole, val=split.test, test=split.test[:0])
    monkeypatch.setattr(label_proof, "known_answers", lambda task, _: answer(task, told))
    predictor = label_proof._with_labels(
        run.pattern_predictor, run.data.graph, label_proof._change(run, run.task, whole[:0])
    )
    with pytest.raises(GpmError, match="labels of val and test: labels leak"):
        label_proof._check_held_out(run, predictor, run.task, whole)


@pytest.fixture(scope="module", params=["classes", "labels", "values"])
def network_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("network")
    _make_graph(request.param).save(folder / "graph")
    metric = {"classes": "accuracy", "labels": "roc_auc", "values": "mae"}[request.param]
    options: dict[str, Any] = {"width": 8, "epochs": 2, "labels": "on", "split": "50/25/25", "metric": metric}
    train(str(folder / "graph"), out=folder / "run", quiet=True, device="cpu", model="gcn", **options)
    return Run.open(folder / "run", device="cpu")


def test_no_prediction_of_a_network_rests_on_its_own_label(network_run: Run) -> None:
    own, held = check_labels(network_run)
    assert "8 train, 8 val, 8 test nodes" in own
    assert " 0 of" not in own  # the labels of others are read
    assert held.startswith("held-out labels")


def test_a_label_that_a_network_shows_to_its_own_node_is_found(
    network_run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FeatureTable, "hide_labels", lambda self, nodes: self)
    with pytest.raises(GpmError, match=r"of node .* \(train\) changes with its own label: the label leaks"):
        check_labels(network_run)


def test_a_network_opened_again_says_the_same_and_knows_its_labels_on_a_grown_graph(network_run: Run) -> None:
    assert network_run.evaluate() == pytest.approx(network_run.result["test"], abs=1e-6)
    graph = network_run.data.graph
    ends = np.concatenate([graph.edge_index(), [[0, NODES], [NODES, 0]]], axis=1)
    x = np.concatenate([graph.x, graph.x[:1]])
    grown = Graph.from_edges(ends, NODES + 1, x=x, self_loops="keep")
    other = Run.open(network_run.folder, grown, device="cpu", other=True)
    known = other.predictor.table.label[:, -1].numpy()  # type: ignore[attr-defined]
    assert np.flatnonzero(known).tolist() == np.sort(network_run.split.train).tolist()
    assert len(other.predict()) == NODES + 1


def test_a_run_without_labels_has_nothing_to_prove(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(NODES, 3)), np.arange(NODES) % 3
    graph = Graph.from_edges(random.integers(0, NODES, (2, 90)), NODES, x=x, y=y, undirected=True)
    plain = train(graph, out=tmp_path / "run", quiet=True, device="cpu", **SMALL | {"labels": "off"})
    assert isinstance(plain, Run)
    assert check_labels(plain) == []
