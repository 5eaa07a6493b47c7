import logging

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import Graph
from gpm.compute import count_threads, set_threads
from gpm.nn.positional import large_eigenvectors as spectrum
from gpm.nn.positional.large_eigenvectors import embed_spectrum, find_eigenvectors, read_rows
from tests.graphs import graphs, weight_matrix


def _both_ways(graph: Graph) -> NDArray:
    weight = weight_matrix(graph)
    return np.maximum(weight, weight.T)


def _laplacian(graph: Graph) -> NDArray:
    adjacency = _both_ways(graph)
    degree = adjacency.sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return np.eye(len(adjacency)) - scale[:, None] * adjacency * scale


def _planted(nodes: int, parts: int, edges: int) -> Graph:
    """Nine edges of ten stay in a part."""
    random = np.random.default_rng(0)
    source, size = random.integers(0, nodes, edges), nodes // parts
    inside = source // size * size + random.integers(0, size, edges)
    target = np.where(random.random(edges) < 0.9, inside, random.integers(0, nodes, edges))
    return Graph.from_edges(np.stack([source, target]), nodes, undirected=True)


@settings(max_examples=40)
@given(graphs())
def test_rows_are_those_of_both_directions(graph: Graph) -> None:
    """`max(A, A^T)` up to one factor, whatever parallel edges and weights there are."""
    rows = read_rows(graph)
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    ends = np.repeat(np.arange(graph.num_nodes), np.diff(rows.indptr)), rows.indices
    np.add.at(matrix, ends, rows.weight if rows.weight.size else 1.0)
    expected = _both_ways(graph)
    factor = expected.max() / matrix.max() if matrix.any() else 1.0
    np.testing.assert_allclose(matrix * factor, expected, rtol=1e-6)
    np.testing.assert_allclose(rows.degree, np.where(matrix.any(1), matrix.sum(1), 1), rtol=1e-6)


def test_symmetric_rows_are_not_copied() -> None:
    ends, weight = np.random.default_rng(0).integers(0, 50, (2, 100)), np.random.default_rng(1).random(100)
    for given_weight in (None, weight):
        graph = Graph.from_edges(ends, 50, undirected=True, edge_weight=given_weight)
        assert np.shares_memory(read_rows(graph).indices, graph.indices)
    assert not np.shares_memory(read_rows(Graph.from_edges(ends, 50)).indices, graph.indices)


@settings(max_examples=20)
@given(graphs(), st.integers(1, 14))
def test_columns_are_eigenvectors_of_small_graphs(graph: Graph, dim: int) -> None:
    """All of them are in the block, so they are exact."""
    found = embed_spectrum(graph, dim).astype(np.float64)
    matrix, there = _laplacian(graph), min(dim, graph.num_nodes - 1)
    assert not found[:, there:].any()
    vectors = found[:, :there]
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(there), atol=1e-4)
    values = np.einsum("ij,ij->j", vectors, matrix @ vectors)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[1 : there + 1], atol=1e-4)
    assert (vectors.max(0, initial=0) >= np.abs(vectors).max(0, initial=0) - 1e-6).all()


@pytest.mark.parametrize("kind", ["planted", "directed", "weighted", "complete", "bipartite", "ring", "pieces", "none"])
def test_residuals_are_what_they_are_said_to_be(kind: str) -> None:
    random = np.random.default_rng(0)
    ends, weight = random.integers(0, 400, (2, 1600)), random.random(1600) * 1e60
    graph = {
        "planted": lambda: _planted(400, 4, 4000),
        "directed": lambda: Graph.from_edges(ends, 405),
        "weighted": lambda: Graph.from_edges(ends, 405, edge_weight=weight),
        "complete": lambda: Graph.from_networkx(nx.complete_graph(100)),
        "bipartite": lambda: Graph.from_networkx(nx.complete_bipartite_graph(40, 60)),
        "ring": lambda: Graph.from_networkx(nx.cycle_graph(300)),
        "pieces": lambda: Graph.from_edges(ends[:, :200], 400, undirected=True),
        "none": lambda: Graph.from_edges([[], []], 100),
    }[kind]()
    matrix = _laplacian(graph)
    found = find_eigenvectors(read_rows(graph), 7)
    vectors = found.vectors.astype(np.float64)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(7), atol=1e-5)
    residuals = np.linalg.norm(matrix @ vectors - vectors * found.values, axis=0)
    np.testing.assert_allclose(residuals, found.residuals, atol=1e-5)
    assert found.residuals.max() <= spectrum.TOLERANCE
    np.testing.assert_allclose(found.values, np.linalg.eigvalsh(matrix)[:7], atol=2e-3)


def test_a_smaller_tolerance_is_reached_and_vectors_are_those_of_the_parts() -> None:
    graph = _planted(500, 5, 8000)
    found = find_eigenvectors(read_rows(graph), 5, tolerance=1e-5)
    assert found.residuals.max() <= 1e-5
    exact = np.linalg.eigh(_laplacian(graph))[1][:, :5]
    np.testing.assert_allclose(np.linalg.svd(exact.T @ found.vectors)[1], 1, atol=1e-5)  # the same space


def test_vectors_do_not_depend_on_threads() -> None:
    graph, before = _planted(6000, 3, 30_000), count_threads()
    found = embed_spectrum(graph, 3)
    try:
        for threads in (1, 2):
            set_threads(threads)
            np.testing.assert_array_equal(embed_spectrum(graph, 3), found)
    finally:
        set_threads(before)


def test_what_was_reached_is_told(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _planted(500, 4, 4000)
    with caplog.at_level(logging.INFO, "gpm"):
        embed_spectrum(graph, 3)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "3 Laplacian eigenvectors: " in caplog.text
    monkeypatch.setattr(spectrum, "MOST_PRODUCTS", 2)
    embed_spectrum(graph, 3)
    assert caplog.records[-1].levelname == "WARNING"
    assert "which is above 0.001" in caplog.text
