from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from gpm import Graph
from gpm.patterns import structure
from gpm.patterns.structure import COLUMNS, describe_structure

NODES = 40


def _edges(seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, NODES - 3, (2, 110))  # with self-loops; the last three are isolated


def _column(graph: Graph, name: str) -> NDArray:
    return describe_structure(graph)[:, COLUMNS.index(name)]


def _plain(edges: NDArray) -> nx.Graph:
    plain = nx.Graph()
    plain.add_nodes_from(range(NODES))
    plain.add_edges_from((a, b) for a, b in edges.T.tolist() if a != b)
    return plain


@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted"])
def test_structure_is_that_of_the_simple_graph(kind: str) -> None:
    """Compared with NetworkX: edges count in both directions, once, without weights and self-loops."""
    edges = _edges()
    weight = np.random.default_rng(1).random(edges.shape[1]) + 0.1 if kind == "weighted" else None
    graph = Graph.from_edges(edges, NODES, undirected=kind == "undirected", edge_weight=weight)
    plain, nodes = _plain(edges), range(NODES)
    cores, triangles, clustering = nx.core_number(plain), nx.triangles(plain), nx.clustering(plain)
    np.testing.assert_allclose(np.expm1(_column(graph, "degree (log)")), [plain.degree(v) for v in nodes], atol=1e-4)
    np.testing.assert_allclose(np.expm1(_column(graph, "core number (log)")), [cores[v] for v in nodes], atol=1e-4)
    np.testing.assert_allclose(np.expm1(_column(graph, "triangles (log)")), [triangles[v] for v in nodes], atol=1e-4)
    np.testing.assert_allclose(_column(graph, "clustering"), [clustering[v] for v in nodes], atol=1e-5)
    around = [np.mean([np.log1p(plain.degree(u)) for u in plain[v]]) if plain[v] else 0.0 for v in nodes]
    np.testing.assert_allclose(_column(graph, "degree of the neighbours (log)"), around, atol=1e-5)


def test_returns_are_powers_of_the_walk_matrix() -> None:
    edges = _edges()
    graph = Graph.from_edges(edges, NODES, undirected=True)
    matrix = nx.to_numpy_array(_plain(edges), nodelist=range(NODES))
    law = matrix / np.maximum(matrix.sum(1, keepdims=True), 1)
    for steps in (2, 3):
        wanted = np.diag(np.linalg.matrix_power(law, steps))
        np.testing.assert_allclose(_column(graph, f"return in {steps} steps"), wanted, atol=1e-6)


def test_a_rank_is_that_among_the_nodes_of_the_same_graph() -> None:
    one = Graph.from_edges([[0, 0, 1], [1, 2, 2]], 4, undirected=True)
    np.testing.assert_allclose(_column(one, "rank of the degree"), [0.625, 0.625, 0.625, 0.125])
    both = Graph.from_edges([[0, 0, 1, 4], [1, 2, 2, 5]], 6, undirected=True, graph_ptr=[0, 4, 6])
    np.testing.assert_allclose(_column(both, "rank of the degree"), [0.625, 0.625, 0.625, 0.125, 0.5, 0.5])


def test_graphs_of_a_collection_do_not_touch() -> None:
    edges = _edges()
    alone = Graph.from_edges(edges, NODES, undirected=True)
    pair = np.concatenate([edges, edges + NODES], 1)
    both = Graph.from_edges(pair, 2 * NODES, undirected=True, graph_ptr=[0, NODES, 2 * NODES])
    np.testing.assert_array_equal(describe_structure(both), np.concatenate([describe_structure(alone)] * 2))


def test_a_graph_without_edges_or_nodes_has_zeros() -> None:
    columns = describe_structure(Graph.from_edges(np.zeros((2, 0)), 3))
    columns[:, COLUMNS.index("rank of the degree")] -= 0.5
    assert not columns.any()
    assert describe_structure(Graph.from_edges(np.zeros((2, 0)), 0)).shape == (0, len(COLUMNS))


def test_triangles_that_would_take_long_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_edges(_edges(), NODES, undirected=True)
    whole = describe_structure(graph)
    monkeypatch.setattr(structure, "MOST_WORK", 1)
    few = describe_structure(graph)
    counted = [COLUMNS.index(name) for name in ("clustering", "triangles (log)", "return in 3 steps")]
    assert not few[:, counted].any()
    np.testing.assert_array_equal(np.delete(few, counted, 1), np.delete(whole, counted, 1))
