"""Columns of graphs: what a loop over the nodes of each graph finds."""

from __future__ import annotations

import numpy as np

from gpm.graph.graph import Graph
from gpm.nn.graph_columns import DESCRIPTORS, SIZE, SPREAD, describe_graphs

POINTER = np.array([0, 4, 4, 9])  # the second has no nodes


def make_collection() -> Graph:
    edges = np.array([[0, 1, 2, 4, 5, 6, 4], [1, 2, 3, 5, 6, 7, 8]])
    return Graph.from_edges(edges, 9, undirected=True, graph_ptr=POINTER)


def test_columns_are_those_of_a_loop_over_nodes() -> None:
    values = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    nodes = [("one", values), ("two", values**2)]
    parts = dict(describe_graphs(make_collection(), nodes, np.arange(6).reshape(3, 2), summed="one", spread="two"))
    assert list(parts) == ["one", "two", SPREAD, SIZE, DESCRIPTORS]
    np.testing.assert_array_equal(parts[DESCRIPTORS], [[0, 1], [2, 3], [4, 5]])
    for number, (first, last, edges) in enumerate([(0, 4, 6), (4, 4, 0), (4, 9, 8)]):
        rows = values[first:last] if last > first else np.zeros((1, 3))
        total = rows.sum(0)
        np.testing.assert_allclose(parts["one"][number], rows.mean(0), atol=1e-5)
        np.testing.assert_allclose(parts["two"][number], (rows**2).mean(0), atol=1e-5)
        np.testing.assert_allclose(parts[SPREAD][number], (rows**2).std(0), atol=1e-5)
        size = [np.log1p(last - first), np.log1p(edges), *np.sign(total) * np.log1p(np.abs(total))]
        np.testing.assert_allclose(parts[SIZE][number], size, atol=1e-5)


def test_only_wanted_groups_are_returned() -> None:
    nodes = [("one", np.ones((9, 2)))]
    assert [name for name, _ in describe_graphs(make_collection(), nodes, wanted={"one": 2})] == ["one"]
    assert [name for name, _ in describe_graphs(make_collection(), nodes)] == ["one", SIZE]
