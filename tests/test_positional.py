import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import GpmError, Graph, WalkRule
from gpm.config import ModelOptions
from gpm.nn import FeatureTable, GraphPatternMachine
from gpm.positional import embed_laplacian, embed_positions, embed_returns
from tests.graphs import graphs, step_law, weight_matrix


def _laplacian(graph: Graph) -> NDArray:
    """`I - D^-1/2 A D^-1/2` with edges in both directions; the row of an isolated node is that of the identity."""
    weight = weight_matrix(graph)
    adjacency = np.maximum(weight, weight.T)
    degree = adjacency.sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    return np.eye(len(adjacency)) - scale[:, None] * adjacency * scale


def _check_eigenvectors(graph: Graph, dim: int) -> None:
    """Columns are orthonormal eigenvectors of the smallest eigenvalues but the first, ascending, or zero."""
    found = embed_laplacian(graph, dim).astype(np.float64)
    matrix = _laplacian(graph)
    exact = np.linalg.eigvalsh(matrix)
    there = min(dim, graph.num_nodes - 1)
    assert found.shape == (graph.num_nodes, dim)
    assert (found[:, there:] == 0).all()
    vectors = found[:, :there]
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(there), atol=1e-5)
    values = np.einsum("ij,ij->j", vectors, matrix @ vectors)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-5)
    np.testing.assert_allclose(values, exact[1 : there + 1], atol=1e-5)
    # Where two entries are as far from zero as each other, either may have been taken.
    assert (vectors.max(0) >= np.abs(vectors).max(0) - 1e-5).all()


@given(graphs(), st.integers(1, 14))
def test_laplacian_columns_are_eigenvectors_of_small_graphs(graph: Graph, dim: int) -> None:
    _check_eigenvectors(graph, dim)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_laplacian_columns_are_eigenvectors_of_larger_graphs(directed: bool, weighted: bool) -> None:
    """More than 64 nodes are solved by iteration."""
    rng = np.random.default_rng(0)
    ends, weight = rng.integers(0, 150, (2, 600)), rng.random(600) if weighted else None
    _check_eigenvectors(Graph.from_edges(ends, 153, undirected=not directed, edge_weight=weight), 8)


@pytest.mark.parametrize("size", [10, 60])
def test_two_components_have_a_column_that_tells_them_apart(size: int) -> None:
    """Eigenvalue 0 has two eigenvectors; the one that is kept may mix them, but is constant on each up to degree."""
    one, two = nx.random_regular_graph(4, size, seed=0), nx.random_regular_graph(3, size, seed=1)
    graph = Graph.from_networkx(nx.disjoint_union(one, two))
    _check_eigenvectors(graph, 4)
    column = embed_laplacian(graph, 4)[:, 0]
    assert np.ptp(column[:size]) < 1e-4
    assert np.ptp(column[size:]) < 1e-4
    assert abs(column[0] - column[-1]) > 1e-2


def test_positions_are_the_same_every_time() -> None:
    graph = Graph.from_networkx(nx.random_regular_graph(4, 200, seed=0))
    np.testing.assert_array_equal(embed_laplacian(graph, 6), embed_laplacian(graph, 6))


def test_a_lone_node_has_a_position() -> None:
    lone = Graph.from_edges([[], []], 1)
    assert embed_laplacian(lone, 3).tolist() == [[0, 0, 0]]
    assert embed_returns(lone, 3).tolist() == [[1, 1, 1]]


@given(graphs(), st.integers(1, 6), st.sampled_from([1, 3, 512]))
def test_returns_are_the_diagonals_of_powers(graph: Graph, dim: int, block: int) -> None:
    """Of the law by which walks step: along the direction of edges, by weight, staying where there is no way out."""
    step = np.stack([step_law(graph, WalkRule(), node, None) for node in range(graph.num_nodes)])
    expected = np.stack([np.diag(np.linalg.matrix_power(step, k)) for k in range(1, dim + 1)], 1)
    found = embed_returns(graph, dim, block)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_returns_by_hand() -> None:
    triangle_and_more = Graph.from_edges([[0, 1, 2], [1, 2, 0]], 4, undirected=True)  # node 3 is isolated
    np.testing.assert_allclose(embed_returns(triangle_and_more, 3)[[0, 3]], [[0, 1 / 2, 1 / 4], [1, 1, 1]])
    ring = Graph.from_edges([[0, 1, 2], [1, 2, 0]])  # one way round
    np.testing.assert_allclose(embed_returns(ring, 6), np.tile([0, 0, 1, 0, 0, 1], (3, 1)))
    to_a_dead_end = Graph.from_edges([[0], [1]])
    np.testing.assert_allclose(embed_returns(to_a_dead_end, 2), [[0, 0], [1, 1]])


def test_too_much_work_is_refused() -> None:
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 300_000, (2, 1_000_000)), 300_000)
    with pytest.raises(GpmError, match=r"return probabilities of 300,000 nodes .* would take hours"):
        embed_returns(graph, 8)


def test_the_options_name_the_embedding() -> None:
    graph = Graph.from_networkx(nx.karate_club_graph())
    assert embed_positions(graph, "none", 4) is None
    np.testing.assert_array_equal(embed_positions(graph, "lap", 4), embed_laplacian(graph, 4))
    np.testing.assert_array_equal(embed_positions(graph, "rwse", 4), embed_returns(graph, 4))


@pytest.mark.parametrize(("kind", "flips"), [("lap", True), ("rwse", False)])
def test_signs_flip_while_training_only(kind: str, flips: bool) -> None:
    """The sign of an eigenvector means nothing: training shows both, for a whole batch at once; prediction one."""
    graph = Graph.from_networkx(nx.karate_club_graph())
    table = FeatureTable(graph, embed_positions(graph, kind, 3))
    options = ModelOptions(width=8, layers=1, heads=1, pe=kind, pe_dim=3)
    inputs = GraphPatternMachine(table.spec(), options, 2, 8).input_map
    inputs.fit(table)
    assert inputs.pe is not None
    ids = torch.arange(34)
    torch.manual_seed(0)
    with torch.no_grad():
        inputs.eval()
        assert torch.equal(inputs.nodes(table, ids), inputs.nodes(table, ids))
        inputs.pe.weight.copy_(torch.eye(3, 8))
        inputs.node.weight.zero_()
        plain = inputs.nodes(table, ids)[:, :3]
        inputs.train()
        seen = set()
        for _ in range(40):
            shown = inputs.nodes(table, ids)[:, :3]
            signs = (shown * plain).sum(0).sign()
            torch.testing.assert_close(shown, plain * signs)
            seen.add(tuple(signs.tolist()))
    assert len(seen) == (8 if flips else 1)
