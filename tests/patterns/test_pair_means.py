"""Walk means of a link's ends: those of the graph that never had the link."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import Graph
from gpm.data.non_edges import drop_edges
from gpm.patterns.pair_means import MOST_STEPS, PairMeans
from gpm.patterns.walk_means import walk_means
from tests.graphs import graphs


def _all_pairs(graph: Graph) -> np.ndarray:
    nodes = range(graph.num_nodes)
    return np.array([(u, v) for u in nodes for v in nodes if u != v], dtype=np.int64).reshape(-1, 2)


@given(graphs(max_nodes=7), st.integers(0, MOST_STEPS))
@settings(max_examples=60, deadline=None)
def test_means_without_a_link_are_those_of_the_graph_that_never_had_it(graph: Graph, steps: int) -> None:
    """Weighted and directed graphs, loops, parallel edges, nodes without an exit."""
    x = np.random.default_rng(0).standard_normal((graph.num_nodes, 3)).astype(np.float32)
    pairs = _all_pairs(graph)
    found = PairMeans.of(graph, x, steps).take(pairs, hide=True)
    for pair, mine in zip(pairs, found, strict=True):
        means = np.concatenate(walk_means(drop_edges(graph, pair[None]), x.astype(float), steps), axis=1)
        assert mine == pytest.approx(means[pair], rel=1e-5, abs=1e-5)


def test_a_link_that_outweighs_all_others_is_taken_out_exactly() -> None:
    graph = Graph.from_edges(np.array([[0, 1, 0, 2, 1, 2], [1, 0, 2, 0, 2, 1]]), 3, edge_weight=[1e9, 1e9, 1, 1, 3, 3])
    x = np.random.default_rng(1).standard_normal((3, 2)).astype(np.float32)
    left = drop_edges(graph, np.array([[0, 1]]))
    found = PairMeans.of(graph, x, 3).take(np.array([[0, 1]]), hide=True)[0]
    assert found == pytest.approx(np.concatenate(walk_means(left, x.astype(float), 3), axis=1)[:2], rel=1e-5)


@given(graphs(max_nodes=6))
@settings(max_examples=30, deadline=None)
def test_means_of_links_that_are_not_hidden_are_those_of_their_nodes(graph: Graph) -> None:
    x = np.eye(graph.num_nodes, dtype=np.float32)
    pairs = _all_pairs(graph)
    found = PairMeans.of(graph, x, 2)
    assert found.take(pairs, hide=False) == pytest.approx(np.concatenate(walk_means(graph, x, 2), axis=1)[pairs])
    assert found.width == 3 * graph.num_nodes
