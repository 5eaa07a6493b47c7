"""A copy is the same graph with its nodes in another order."""

from __future__ import annotations

import networkx as nx
import numpy as np

from gpm import Graph
from gpm.graph.copies import copy_graphs

SIZES = (5, 1, 6, 4)


def _collection() -> Graph:
    """Graphs whose nodes, edges and labels are numbered, so that each can be found again."""
    pointer = np.concatenate([[0], np.cumsum(SIZES)])
    parts = [nx.gnm_random_graph(size, size * (size - 1) // 3, seed=size) for size in SIZES]
    ends = [np.array(list(part.edges), dtype=np.int64).reshape(-1, 2) + first
            for part, first in zip(parts, pointer, strict=False)]  # fmt: skip
    edges = np.concatenate(ends).T
    count = edges.shape[1]
    return Graph.from_edges(
        edges, int(pointer[-1]), undirected=True, graph_ptr=pointer, y=np.arange(len(SIZES)),
        x=np.arange(pointer[-1], dtype=np.float32)[:, None], edge_attr=np.arange(count, dtype=np.float32)[:, None],
        edge_weight=np.arange(count) + 1.0,
    )  # fmt: skip


def _edges(graph: Graph) -> set[tuple[float, ...]]:
    """Edges by the numbers of their ends, which copies keep, with their features and weights."""
    source, target = graph.edge_index()
    assert graph.edge_attr is not None
    assert graph.edge_weight is not None
    rows = np.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids
    columns = graph.x[source, 0], graph.x[target, 0], graph.edge_attr[rows, 0], graph.edge_weight
    return set(zip(*(np.asarray(column).tolist() for column in columns), strict=True))


def test_copies_have_the_same_nodes_edges_and_labels() -> None:
    graph = _collection()
    copies = copy_graphs(graph, np.arange(len(SIZES)), seed=1)
    assert copies.graph_ptr is not None
    assert copies.y is not None
    assert np.diff(copies.graph_ptr).tolist() == list(SIZES)
    assert copies.y.tolist() == [0, 1, 2, 3]
    for first, last in zip(copies.graph_ptr, copies.graph_ptr[1:], strict=False):
        assert sorted(copies.x[first:last, 0]) == list(range(first, last))
    assert copies.x[:, 0].tolist() != graph.x[:, 0].tolist()
    assert _edges(copies) == _edges(graph)


def test_a_graph_may_be_copied_several_times_in_orders_that_differ() -> None:
    copies = copy_graphs(_collection(), np.array([2, 0, 2]), seed=1)
    assert copies.graph_ptr is not None
    assert copies.y is not None
    assert np.diff(copies.graph_ptr).tolist() == [6, 5, 6]
    assert copies.y.tolist() == [2, 0, 2]
    one, other = copies.x[:6, 0].tolist(), copies.x[11:, 0].tolist()
    assert sorted(one) == sorted(other)
    assert one != other


def test_the_seed_is_the_order() -> None:
    graph, ids = _collection(), np.arange(len(SIZES))
    one, same, other = (copy_graphs(graph, ids, seed).x.tolist() for seed in (1, 1, 2))
    assert one == same != other
