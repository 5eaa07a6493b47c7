"""Simple baselines: what each finds, what none of them reads, and that none stops a training."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import Graph
from gpm.config import Config
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData
from gpm.data.splits import LinkSplit, Split, random_split
from gpm.tasks import ClassTask, Task, ValueTask, make_task
from gpm.training import simple_baselines
from gpm.training.baseline_question import Question, Scores
from gpm.training.simple_baselines import predict_constant, propagate_labels, score_baselines, score_pairs

NODES = 240
MAJORITY, SPREAD, LINEAR = "most frequent class", "label propagation", "linear model on neighbourhood means"

pytestmark = pytest.mark.usefixtures("one_thread")


def _graph(groups: NDArray | None = None, **given: Any) -> Graph:
    """A random graph; with groups, most edges stay within them."""
    ends = np.random.default_rng(0).integers(0, NODES, (2, 12 * NODES))
    if groups is not None:
        ends = ends[:, (groups[ends[0]] == groups[ends[1]]) | (np.arange(12 * NODES) % 8 == 0)]
    return Graph.from_edges(ends, NODES, undirected=True, **given)


def _classes(seed: int = 1) -> NDArray[np.int64]:
    return np.random.default_rng(seed).choice(3, NODES, p=[0.2, 0.5, 0.3]).astype(np.int64)


def _score(graph: Graph, labels: NDArray, metric: str = "accuracy", trees: bool = False) -> Scores:
    split = random_split(labels, "50/25/25", 0)
    kind = ValueTask.of(labels, metric, split.train) if metric in ("mae", "rmse") else ClassTask.of(labels, metric)
    return score_baselines(NodeData(replace(graph, y=labels), "graph"), kind, split, trees=trees)


def _targets(kind: str, x: NDArray) -> tuple[NDArray, str]:
    if kind == "classes":
        return _classes(), "accuracy"
    if kind == "labels":
        labels = (x[:, :2] > 0).astype(np.float32)
        labels[::7, 1] = np.nan
        return labels, "roc_auc"
    values = np.stack([x[:, 0], 100 * x[:, 1]], 1).astype(np.float32)
    values[::9, 0] = np.nan
    return values, kind


def test_those_that_are_asked_for_score_as_among_all() -> None:
    labels = _classes()
    data, split = NodeData(replace(_graph(labels), y=labels), "graph"), random_split(labels, "50/25/25", 0)
    every, one = (score_baselines(data, ClassTask.of(labels, "accuracy"), split, only=each) for each in ((), (SPREAD,)))
    assert list(one) == [SPREAD]
    assert (one[SPREAD]["val"], one[SPREAD]["test"]) == (every[SPREAD]["val"], every[SPREAD]["test"])


# The most frequent class, the mean and the median


def test_the_most_frequent_class_scores_its_share() -> None:
    labels = _classes()
    split = random_split(labels, "50/25/25", 0)
    assert np.bincount(labels[split.train]).argmax() == 1
    assert _score(_graph(), labels)[MAJORITY]["test"] == pytest.approx(np.mean(labels[split.test] == 1))
    assert _score(_graph(), (labels == 1).astype(np.int64), "roc_auc")[MAJORITY]["test"] == pytest.approx(0.5)


def test_the_most_frequent_class_is_found_in_training_alone() -> None:
    labels = np.array([5, 5, 5, 7, 7, 7, 7, 7])
    split = Split(np.arange(3), np.array([3, 4]), np.array([5, 6, 7]), "by hand")
    graph = Graph.from_edges(np.array([[0], [1]]), 8, y=labels)
    assert score_baselines(NodeData(graph, "graph"), ClassTask.of(labels, "accuracy"), split)[MAJORITY]["test"] == 0


def test_labels_of_their_own_are_each_what_most_have() -> None:
    labels = np.stack([_classes() != 0, _classes() == 2], 1).astype(np.float32)
    labels[::7, 0] = np.nan
    split = random_split(labels, "50/25/25", 0)
    known = ~np.isnan(labels[split.test])
    right = labels[split.test] == [1.0, 0.0]
    assert _score(_graph(), labels)["label frequencies"]["test"] == pytest.approx(right[known].mean())


@pytest.mark.parametrize(("metric", "name", "middle"), [("mae", "median", np.nanmedian), ("rmse", "mean", np.nanmean)])
def test_numbers_are_compared_with_what_is_best_for_their_metric(metric: str, name: str, middle: Any) -> None:
    values = np.random.default_rng(0).lognormal(3, 1, NODES).astype(np.float32)
    split = random_split(values, "50/25/25", 0)
    error = values[split.test] - middle(values[split.train])
    expected = np.abs(error).mean() if metric == "mae" else np.sqrt(np.square(error).mean())
    assert _score(_graph(), values, metric)[name]["test"] == pytest.approx(expected, rel=1e-5)


# Label propagation


def test_labels_spread_where_neighbours_agree() -> None:
    labels = _classes()
    scores = _score(_graph(labels), labels)
    assert scores[SPREAD]["test"] > 0.9 > scores[MAJORITY]["test"] + 0.2


@given(st.integers(0, 1000), st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_propagation_is_the_sum_over_powers(seed: int, directed: bool, weighted: bool) -> None:
    random = np.random.default_rng(seed)
    nodes, ends = 9, random.integers(0, 9, (2, 14))
    weight = random.uniform(0.1, 2, 14) if weighted else None
    graph = Graph.from_edges(ends, nodes, undirected=not directed, edge_weight=weight)
    labels = random.permutation(np.arange(nodes) % 2)
    task = ClassTask.of(labels, "accuracy")
    split = Split(np.arange(4), np.arange(4, 6), np.arange(6, 9), "by hand")
    matrix = np.zeros((nodes, nodes))
    np.add.at(matrix, tuple(graph.edge_index()), 1 if graph.edge_weight is None else graph.edge_weight)
    matrix = np.maximum(matrix, matrix.T)
    root = np.sqrt(np.maximum(matrix.sum(1), 1e-12))
    law = matrix / root[:, None] / root
    start = np.zeros((nodes, 2))
    start[np.arange(4), labels[:4]] = 1
    for alpha, logits in zip(
        simple_baselines.ALPHAS, propagate_labels(Question.of(graph, "node", task, split)), strict=True
    ):
        total, power = np.zeros_like(start), start
        for step in range(1, simple_baselines.MOST_PRODUCTS + 1):
            power = law @ power
            total += alpha**step * power
        expected = total / np.maximum(total.sum(1, keepdims=True), 1e-12)
        reached = total[4:].sum(1) > 1e-6
        assert np.exp(logits[reached]) == pytest.approx(expected[4:][reached], abs=1e-4)


def test_what_no_label_reaches_has_the_prior() -> None:
    labels = np.array([0, 0, 1, 0, 1, 1])
    graph = Graph.from_edges(np.array([[0, 1], [1, 2]]), 6, undirected=True)
    split = Split(np.arange(3), np.array([3, 4]), np.array([5]), "by hand")
    question = Question.of(graph, "node", ClassTask.of(labels, "accuracy"), split)
    for logits in propagate_labels(question):
        assert np.exp(logits) == pytest.approx(np.tile([2 / 3, 1 / 3], (3, 1)))


def test_numbers_spread_as_weighted_means() -> None:
    values = np.arange(6, dtype=np.float32)
    graph = Graph.from_edges(np.array([[0, 1, 0], [2, 2, 3]]), 6, undirected=True, edge_weight=[3.0, 1.0, 1.0])
    split = Split(np.array([0, 1]), np.array([2, 4]), np.array([3, 5]), "by hand")
    task = ValueTask.of(values, "mae", split.train)
    for logits in propagate_labels(Question.of(graph, "node", task, split)):
        near = logits[:, 0] * task.scale[0] + task.mean[0]
        assert 0 < near[0] < 0.5  # node 2 has more of node 0 than of node 1
        assert near[2] < near[0]  # node 3 is beside node 0
        assert near[[1, 3]] == pytest.approx(0.5)  # nodes without edges


# What is not read


@pytest.mark.parametrize("kind", ["classes", "labels", "mae", "rmse"])
def test_permuted_test_labels_change_test_figures_alone(kind: str) -> None:
    x = np.random.default_rng(3).normal(size=(NODES, 4))
    labels, metric = _targets(kind, x)
    split = random_split(labels, "50/25/25", 0)
    turned = labels.copy()
    turned[split.test] = np.roll(labels[split.test], 5, axis=0)
    before, after = (_score(_graph(x=x), each, metric, trees=True) for each in (labels, turned))
    assert before.keys() == after.keys()
    assert {name: row["val"] for name, row in before.items()} == {name: row["val"] for name, row in after.items()}
    assert before[LINEAR]["test"] != after[LINEAR]["test"]


@pytest.mark.parametrize("kind", ["classes", "labels", "mae"])
def test_a_question_holds_no_label_but_those_of_training(kind: str) -> None:
    x = np.random.default_rng(3).normal(size=(NODES, 4))
    labels, metric = _targets(kind, x)
    split = random_split(labels, "50/25/25", 0)
    scrambled = labels.copy()
    held = np.concatenate([split.val, split.test])
    scrambled[held] = np.roll(labels[held], 3, axis=0)

    def ask(labels: NDArray) -> Question:
        task: Any = ValueTask.of(labels, metric, split.train) if metric == "mae" else ClassTask.of(labels, metric)
        return Question.of(_graph(x=x), "node", task, split)

    for baseline in (predict_constant, propagate_labels, simple_baselines.fit_linear):
        for one, other in zip(baseline(ask(labels)), baseline(ask(scrambled)), strict=True):
            assert np.array_equal(one, other)


# Links


def _links(protocol: Any) -> tuple[LinkData, LinkSplit, Task]:
    data = LinkData(_graph(_classes()), "graph")
    split = data.make_split(0, protocol=protocol)
    return data, split, make_task(data, split, Config(metric="roc_auc", task="link", protocol=protocol))


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_links_are_scored_by_neighbours_and_degrees(protocol: str) -> None:
    data, split, task = _links(protocol)
    scores = score_baselines(data, task, split)
    assert set(scores) == {"common neighbours", "Adamic-Adar", "preferential attachment"}
    assert scores["common neighbours"]["test"] > 0.55


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_held_out_edges_are_in_no_neighbourhood(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, split, task = _links(protocol)
    seen: list[Graph] = []
    monkeypatch.setattr(
        simple_baselines, "score_pairs", lambda graph, *rest: seen.append(graph) or score_pairs(graph, *rest)
    )
    score_baselines(data, task, split)
    held = {frozenset(pair) for pair in split.edges_of("val", "test").tolist() if pair[0] != pair[1]}
    assert len(seen) == 3
    assert not held & {frozenset(pair) for pair in seen[0].edge_index().T.tolist()}


@given(st.integers(0, 1000), st.booleans())
@settings(max_examples=20, deadline=None)
def test_pairs_are_scored_as_networkx_does(seed: int, directed: bool) -> None:
    import networkx as nx

    random = np.random.default_rng(seed)
    graph = Graph.from_edges(random.integers(0, 10, (2, 20)), 10, undirected=not directed)
    peer = nx.Graph(graph.edge_index().T.tolist())
    peer.add_nodes_from(range(10))
    peer.remove_edges_from(nx.selfloop_edges(peer))
    pairs = np.array([(a, b) for a in range(10) for b in range(a)])
    (common,) = score_pairs(graph, pairs, "common neighbours")
    (adamic,) = score_pairs(graph, pairs, "Adamic-Adar")
    (attachment,) = score_pairs(graph, pairs, "preferential attachment")
    assert common[:, 0].tolist() == [len(list(nx.common_neighbors(peer, *pair))) for pair in pairs.tolist()]
    assert adamic[:, 0] == pytest.approx([score for *_, score in nx.adamic_adar_index(peer, pairs.tolist())])
    degrees = np.array([[peer.degree(a), peer.degree(b)] for a, b in pairs.tolist()])
    assert attachment[:, 0] == pytest.approx(np.log1p(degrees).sum(1))


def test_pairs_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = np.random.default_rng(0).integers(0, NODES, (500, 2))
    (whole,) = score_pairs(_graph(), pairs, "Adamic-Adar")
    monkeypatch.setattr(simple_baselines, "BLOCK", 50)
    assert np.array_equal(next(score_pairs(_graph(), pairs, "Adamic-Adar")), whole)


# Failures and time


@pytest.mark.parametrize("fault", [ValueError("odd\nin detail"), MemoryError()])
def test_a_baseline_that_fails_is_left_out(
    fault: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Question) -> Any:
        raise fault

    caplog.set_level(logging.INFO, logger="gpm")
    monkeypatch.setattr(simple_baselines, "propagate_labels", fail)
    assert set(_score(_graph(), _classes())) == {MAJORITY, LINEAR}
    reason = "odd" if str(fault) else "MemoryError"
    assert caplog.messages == [f"label propagation is left out of the comparison: {reason}."]


def test_what_would_take_too_long_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    monkeypatch.setattr(simple_baselines, "MOST_WORK", 1000)
    monkeypatch.setattr("gpm.training.instance_columns.MOST_WORK", 1000)
    assert set(_score(_graph(), _classes())) == {MAJORITY}
    assert all("would take too long" in message for message in caplog.messages)


def test_a_large_graph_takes_seconds() -> None:
    random, nodes = np.random.default_rng(0), 60_000
    labels = random.integers(0, 10, nodes)
    x = random.normal(size=(nodes, 64)).astype(np.float32) + 0.1 * labels[:, None]
    graph = Graph.from_edges(random.integers(0, nodes, (2, 300_000)), nodes, undirected=True, x=x, y=labels)
    data, split = NodeData(graph, "graph"), random_split(labels, "60/20/20", 0)
    began = time.perf_counter()
    scores = score_baselines(data, ClassTask.of(labels, "accuracy"), split)
    assert set(scores) == {MAJORITY, SPREAD, LINEAR}
    assert sum(row["seconds"] for row in scores.values()) <= time.perf_counter() - began < 30
