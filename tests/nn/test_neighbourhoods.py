"""Neighbourhoods: equal where all within so many steps is alike, counted exactly, chosen in training graphs alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError, Graph, Run, train
from gpm.config import Config
from gpm.explain.bag import Bag
from gpm.explain.expected_content import find_contents
from gpm.explain.explainer import class_names
from gpm.nn import counts, neighbourhoods
from gpm.nn.expected_table import ExpectedTable
from gpm.nn.neighbourhoods import NEIGHBOURHOODS, count_neighbourhoods, find_neighbourhoods
from tests.nn.test_star_features import coloured_graphs, describe_star

STEPS = 3
OPTIONS = Config(neighbourhoods=STEPS, linear="base")
SMALL: dict[str, Any] = {
    "preset": "plain", "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "epochs": 2,
    "linear": "base", "split": "50/30/20", "neighbourhoods": 2, "expected": 1, "quiet": True, "device": "cpu",
}  # fmt: skip


def _rings(sizes: Any, seed: int = 0) -> Graph:
    """Rings with two kinds of nodes; the class says whether two nodes of kind 1 are neighbours."""
    pointer = np.concatenate([[0], np.cumsum(sizes)])
    edges = [[a + i, a + (i + 1) % n] for a, n in zip(pointer, sizes, strict=False) for i in range(n)]
    x, y = np.zeros((int(pointer[-1]), 1), dtype=np.int64), np.arange(len(sizes)) % 2
    for first, size, near in zip(pointer, sizes, y, strict=False):
        start = int(np.random.default_rng(seed + int(first)).integers(size))
        x[first + np.array([start, (start + 2 - near) % size])] = 1
    return Graph.from_edges(np.array(edges).T, len(x), undirected=True, graph_ptr=pointer, x=x, y=y)


@given(coloured_graphs(), st.integers(1, STEPS))
def test_two_nodes_have_the_same_neighbourhood_if_and_only_if_all_around_them_is_alike(
    graph: Graph, steps: int
) -> None:
    found = find_neighbourhoods(graph, graph.x, steps)
    assert len(found) == steps
    slow: Any = graph.x
    for _ in range(steps):  # a star of stars, with numbers in place of hashes
        stars = [describe_star(graph, slow, node) for node in range(graph.num_nodes)]
        numbers = {star: i for i, star in enumerate(dict.fromkeys(stars))}
        slow = np.array([[numbers[star]] for star in stars])
    pairs = set(zip(slow[:, 0].tolist(), found[-1].tolist(), strict=True))
    assert len(pairs) == len(set(slow[:, 0].tolist())) == len(set(found[-1].tolist()))


def test_counts_are_those_of_the_nodes_of_each_graph() -> None:
    graph = _rings([4, 6, 5, 7, 6, 4])
    hashes = find_neighbourhoods(graph, graph.x, STEPS)
    found = count_neighbourhoods(graph, OPTIONS)
    assert graph.graph_ptr is not None
    for g, (first, last) in enumerate(zip(graph.graph_ptr, graph.graph_ptr[1:], strict=False)):
        for column, (steps, code) in enumerate(found.vocabulary):
            count = (hashes[steps - 1][first:last] == code).sum()
            assert found.counts.toarray()[g, column] == pytest.approx(np.log1p(count))
    for (steps, code), example in zip(found.vocabulary, found.examples, strict=True):
        assert example == np.flatnonzero(hashes[steps - 1] == code)[0]


def test_the_most_frequent_of_the_training_graphs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of at least two graphs; other graphs change nothing, whatever they hold."""
    graph = _rings([4, 6, 5, 7, 6, 4])
    assert graph.graph_ptr is not None
    seen = np.arange(graph.graph_ptr[4])
    hashes = find_neighbourhoods(graph, graph.x, STEPS)
    found = count_neighbourhoods(graph, OPTIONS, seen)
    for steps, code in found.vocabulary:
        graphs = np.searchsorted(graph.graph_ptr, np.flatnonzero(hashes[steps - 1][seen] == code), side="right")
        assert len(set(graphs)) >= neighbourhoods.LEAST
    other = replace(graph, x=np.where(np.arange(len(graph.x))[:, None] < len(seen), graph.x, 5))  # type: ignore[arg-type]
    changed = count_neighbourhoods(other, OPTIONS, seen)
    np.testing.assert_array_equal(changed.vocabulary, found.vocabulary)
    np.testing.assert_array_equal(changed.counts.toarray()[:4], found.counts.toarray()[:4])
    monkeypatch.setattr(counts, "MOST_COUNTS", 6 * STEPS * 2)
    assert count_neighbourhoods(graph, OPTIONS, seen).counts.shape == (6, 2 * STEPS)


def test_a_graph_has_the_same_counts_alone_as_in_its_collection() -> None:
    graph = _rings([4, 6, 5, 7])
    whole = count_neighbourhoods(graph, OPTIONS)
    alone = _rings([4, 6, 5, 7][:1])
    again = count_neighbourhoods(alone, OPTIONS, vocabulary=whole.vocabulary)
    np.testing.assert_array_equal(again.counts.toarray()[0], whole.counts.toarray()[0])
    np.testing.assert_array_equal(again.examples >= 0, whole.counts.toarray()[0] > 0)


def test_without_a_frequent_neighbourhood_there_is_no_group() -> None:
    graph = Graph.from_edges([[0], [1]], 3, x=np.array([[0], [1], [2]]), graph_ptr=np.array([0, 2, 3]))
    table = ExpectedTable.build(Config(neighbourhoods=2, linear="base", structure=True), graph, "graph")
    assert table is not None
    assert NEIGHBOURHOODS not in dict(table.groups)


def test_numbers_have_no_neighbourhoods() -> None:
    graph = replace(_rings([4, 5]), x=np.random.default_rng(0).normal(size=(9, 2)))
    with pytest.raises(GpmError, match="node features are numbers; leave out --neighbourhoods"):
        ExpectedTable.build(Config(neighbourhoods=2, linear="base"), graph, "graph")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    sizes = np.random.default_rng(1).integers(6, 12, 80)
    found = train(_rings(sizes), out=tmp_path_factory.mktemp("rings") / "run", task="graph", **SMALL)
    assert isinstance(found, Run)
    return found


def test_a_model_predicts_by_them_and_the_same_when_it_is_opened(run: Run) -> None:
    """Where two nodes of one kind are neighbours is no matter of the means of nodes, nor of two steps of walks."""
    assert run.result["test"]["accuracy"] == 1
    again = Run.open(run.folder, run.data)
    np.testing.assert_array_equal(again.predict().logits.numpy(), run.predict().logits.numpy())
    others = again.predictor_for(_rings([7, 9], seed=5))
    assert others.logits(np.arange(2)).argmax(1).tolist() == [0, 1]


def test_their_token_says_nothing_and_their_columns_are_explained(run: Run) -> None:
    model = run.pattern_predictor.model
    assert model.expected is not None
    at = model.expected.names.index(NEIGHBOURHOODS)
    tokens = model.expected(model.expected.standardise(run.pattern_predictor.expected.take(np.arange(4))))  # type: ignore[union-attr]
    assert (tokens[:, at] == tokens[0, at]).all()
    bag = Bag.draw(run.pattern_predictor, run.task, np.array([1]))
    content = find_contents(run, bag, np.array([1]), 1, class_names(run))[NEIGHBOURHOODS]
    assert any("t1(t0,t1)" in column.name for column in content.columns)
    assert content.text.startswith(("high number of", "low number of"))


@torch.no_grad()
def test_leaving_them_out_takes_their_evidence_away(run: Run) -> None:
    """The weight of the pattern holds for its linear part, so fidelity counts it."""
    bag = Bag.draw(run.pattern_predictor, run.task, np.array([1]))
    whole = bag.logits()[0, 1]
    assert bag.expected[-1] == NEIGHBOURHOODS
    weights = torch.ones(1, len(bag))
    weights[0, -1] = 0
    assert float(whole) > float(bag.logits(weights)[0, 1])
