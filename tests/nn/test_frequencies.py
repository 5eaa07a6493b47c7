"""Frequencies: shares of walks by topology, drawn anew for every graph, over topologies of the training graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from gpm import GpmError, Graph, Run, train
from gpm.config import Config
from gpm.explain.bag import Bag
from gpm.explain.expected_content import find_contents
from gpm.explain.explainer import class_names
from gpm.nn import counts, frequencies
from gpm.nn.expected_table import ExpectedTable
from gpm.nn.frequencies import FREQUENCIES, count_topologies, make_tokenizer
from gpm.patterns.shape_names import shape_key

OPTIONS = Config(frequencies=600, linear="base", lengths=[2, 3], topology="shape", non_backtracking=True)
SMALL: dict[str, Any] = {
    "preset": "plain", "width": 8, "heads": 2, "lengths": [2, 3], "patterns": 6, "pool": 12, "epochs": 2,
    "linear": "base", "split": "50/30/20", "frequencies": 512, "topology": "shape", "quiet": True, "device": "cpu",
}  # fmt: skip
CLIQUE, PATH = np.ones((3, 3)) - np.eye(3), np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def _regular(count: int, seed: int = 0) -> Graph:
    """Graphs of 12 nodes of degree 3, alike but for their triangles: four of them in class 1, none in class 0."""
    truncated = nx.truncated_tetrahedron_graph()
    plain = nx.circular_ladder_graph(6)
    rng, parts = np.random.default_rng(seed), []
    for label in np.arange(count) % 2:
        part = truncated if label else plain
        parts.append(nx.relabel_nodes(part, dict(zip(part, rng.permutation(12).tolist(), strict=True))))
    edges = np.concatenate([np.array(list(part.edges)) + 12 * i for i, part in enumerate(parts)])
    pointer = np.arange(0, 12 * count + 1, 12)
    return Graph.from_edges(edges.T, 12 * count, undirected=True, graph_ptr=pointer, y=np.arange(count) % 2)


def test_columns_are_roots_of_the_shares_of_walks() -> None:
    """A step on from the second node of a truncated tetrahedron closes a triangle by one half."""
    graph = _regular(4)
    found = count_topologies(graph, OPTIONS)
    for graph_id in range(4):
        patterns = make_tokenizer(graph, OPTIONS).graphs([graph_id])
        keys = patterns.table.keys[patterns.topology[0].numpy()]
        for column, (steps, key) in enumerate(found.vocabulary.tolist()):
            mine = keys[patterns.scales.numpy() == steps]
            assert found.counts.toarray()[graph_id, column] == pytest.approx(np.sqrt((mine == key).mean()))
    np.testing.assert_allclose(found.counts.power(2).toarray().sum(1), len(OPTIONS.lengths), rtol=1e-5)
    triangle = found.vocabulary.tolist().index([2, shape_key(CLIQUE > 0)])
    shares = found.counts.toarray()[:, triangle] ** 2
    assert shares[0] == shares[2] == 0
    np.testing.assert_allclose(shares[[1, 3]], 1 / 3, atol=0.06)


def test_the_most_drawn_of_two_training_graphs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other graphs change nothing; a topology that only one training graph has says which graph it is, no more."""
    graph = _regular(6)
    seen = np.arange(0, 36)  # of classes 0, 1, 0
    found = count_topologies(graph, OPTIONS, seen)
    assert [2, shape_key(PATH > 0)] in found.vocabulary.tolist()
    assert [2, shape_key(CLIQUE > 0)] not in found.vocabulary.tolist()
    monkeypatch.setattr(counts, "MOST_COUNTS", 6 * 2 * 2)
    assert count_topologies(graph, OPTIONS).counts.shape == (6, 4)


def test_a_trained_model_counts_what_it_keeps_in_other_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn in blocks of any size, alone or together, a graph has the same shares but for its own number."""
    graph = _regular(4)
    found = count_topologies(graph, OPTIONS)
    monkeypatch.setattr(frequencies, "POSITIONS", 1)
    again = count_topologies(graph, OPTIONS, vocabulary=found.vocabulary)
    np.testing.assert_array_equal(again.counts.toarray(), found.counts.toarray())
    alone = count_topologies(_regular(1), OPTIONS, vocabulary=found.vocabulary)
    np.testing.assert_allclose(alone.counts.toarray()[0] ** 2, found.counts.toarray()[0] ** 2, atol=0.06)
    np.testing.assert_array_equal(alone.examples, np.where(alone.counts.toarray()[0] > 0, 0, -1))


def test_a_graph_without_nodes_has_no_walks() -> None:
    graph = Graph.from_edges([[0, 2], [1, 3]], 4, undirected=True, graph_ptr=np.array([0, 2, 2, 4]))
    found = count_topologies(graph, Config(frequencies=4, linear="base", lengths=[1]))
    assert found.counts.toarray().tolist() == [[1.0], [0.0], [1.0]]


def test_without_a_common_topology_there_is_no_group() -> None:
    graph = Graph.from_edges([[0, 2, 3, 2], [1, 3, 4, 4]], 5, undirected=True, graph_ptr=np.array([0, 2, 5]))
    config = OPTIONS.with_(frequencies=4, lengths=[2], structure=True)
    table = ExpectedTable.build(config, graph, "graph")
    assert table is not None
    assert FREQUENCIES not in dict(table.groups)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    found = train(_regular(60), out=tmp_path_factory.mktemp("regular") / "run", task="graph", **SMALL)
    assert isinstance(found, Run)
    return found


def test_a_model_predicts_by_them_and_the_same_when_it_is_opened(run: Run) -> None:
    assert run.result["test"]["accuracy"] == 1
    again = Run.open(run.folder, run.data)
    np.testing.assert_array_equal(again.predict().logits.numpy(), run.predict().logits.numpy())
    others = again.predictor_for(_regular(2, seed=5))
    assert others.logits(np.arange(2)).argmax(1).tolist() == [0, 1]


def test_their_columns_are_explained_by_the_names_of_shapes(run: Run) -> None:
    bag = Bag.draw(run.pattern_predictor, run.task, np.array([1]))
    content = find_contents(run, bag, np.array([1]), 1, class_names(run))[FREQUENCIES]
    assert any(column.name == "share of walks of 2 steps: triangle" for column in content.columns)
    assert content.text.startswith(("high share of walks", "low share of walks"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"linear": "none"}, "--frequencies are read by the linear part of a model; add --linear base"),
        ({"frequencies": 1}, r"frequencies must be 0 or at least the number of lengths \(2\), got 1"),
    ],
)
def test_mistakes_get_a_sentence(tmp_path: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        train(_regular(8), out=tmp_path / "run", task="graph", **SMALL | options)


def test_frequencies_are_for_graphs(tmp_path: Any) -> None:
    graph = Graph.from_networkx(nx.karate_club_graph())
    with pytest.raises(GpmError, match="--frequencies is for predicting graphs, but here nodes are predicted"):
        train(replace(graph, y=np.arange(34) % 2), out=tmp_path / "run", task="node", **SMALL)
