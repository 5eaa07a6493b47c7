from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gpm import GpmError, Graph, WalkRule
from gpm.config import ModelOptions
from gpm.nn import FeatureTable, GraphPatternMachine
from gpm.nn.positional import encodings as positional
from gpm.nn.positional import large_eigenvectors as spectrum
from gpm.nn.positional import rwse_by_walks as returns
from gpm.nn.positional.encodings import embed_laplacian, embed_positions, embed_returns, embed_rings
from gpm.nn.positional.large_eigenvectors import embed_spectrum
from gpm.nn.positional.rwse_by_walks import estimate_returns
from tests.graphs import edge_lists, graphs, step_law, weight_matrix


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
    # In many pieces: the solver, which then has to start anew, must not do so at random.
    pieces = Graph.from_edges(np.random.default_rng(0).integers(0, 300, (2, 150)), 300)
    for _ in range(3):
        np.testing.assert_array_equal(embed_laplacian(pieces, 10), embed_laplacian(pieces, 10))


@pytest.mark.parametrize("kind", [nx.complete_graph(100), nx.complete_bipartite_graph(40, 60), nx.empty_graph(90)])
def test_graphs_whose_eigenvalues_are_nearly_all_equal(kind: nx.Graph) -> None:
    _check_eigenvectors(Graph.from_networkx(kind), 8)


def test_where_the_iteration_fails_all_vectors_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does on some graphs that are made of cliques."""

    def fail(*_: Any, **__: Any) -> None:
        raise sp.linalg.ArpackError(3, {3: "No shifts could be applied."})

    monkeypatch.setattr(sp.linalg, "eigsh", fail)
    graph = Graph.from_networkx(nx.random_regular_graph(4, 100, seed=0))
    _check_eigenvectors(graph, 8)
    monkeypatch.setattr(positional, "MOST_DENSE", 99)
    with pytest.raises(GpmError, match=r"The 8 Laplacian eigenvectors do not converge \(.*[^.]\); lower pe_dim"):
        embed_laplacian(graph, 8)


def test_a_lone_node_has_a_position() -> None:
    lone = Graph.from_edges([[], []], 1)
    assert embed_laplacian(lone, 3).tolist() == [[0, 0, 0]]
    assert embed_returns(lone, 3).tolist() == [[1, 1, 1]]
    assert embed_rings(lone, 3).tolist() == [[0, 0, 0]]


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


def _count_rings(graph: Graph, dim: int) -> NDArray:
    """Closed walks of 1 to `dim` steps from every node, found one by one, that never go back where they came from."""
    edges = {(a, b) for a, b in graph.edge_index().T.tolist() if a != b}
    edges |= {(b, a) for a, b in edges}
    around = [[b for a, b in edges if a == node] for node in range(graph.num_nodes)]
    counts = np.zeros((graph.num_nodes, dim))
    for node in range(graph.num_nodes):
        walks = [[node]]
        for step in range(dim):
            walks = [[*walk, b] for walk in walks for b in around[walk[-1]] if len(walk) < 2 or b != walk[-2]]
            counts[node, step] = sum(walk[-1] == node for walk in walks)
    return counts


@given(
    edge_lists(6, 12),
    st.booleans(),
    st.sampled_from(["merge", "keep"]),
    st.integers(1, 6),
    st.sampled_from([1, 4, 512]),
)
def test_rings_are_closed_walks_that_never_turn_back(
    given_edges: tuple[int, NDArray], undirected: bool, duplicates: Any, dim: int, block: int
) -> None:
    """Every edge is one edge both ways, however often and in whichever direction it is given; loops are none."""
    nodes, edges = given_edges
    graph = Graph.from_edges(edges, nodes, undirected=undirected, duplicates=duplicates)
    found = embed_rings(graph, dim, block)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.log1p(_count_rings(graph, dim)), atol=1e-5)


@pytest.mark.parametrize("size", [3, 4, 5, 6, 8, 11])
def test_a_ring_shows_at_its_own_size_first(size: int) -> None:
    """Both ways round; then again after as many steps, and nowhere between."""
    found = embed_rings(Graph.from_networkx(nx.cycle_graph(size)), 12)
    expected = np.zeros(12)
    expected[size - 1 :: size] = np.log(3)
    np.testing.assert_allclose(found, np.tile(expected, (size, 1)), rtol=1e-6)


def test_trees_have_no_rings_and_change_none() -> None:
    """What hangs on a ring is no part of it; who hangs there sees it at the end of the way there and back."""
    tree = nx.balanced_tree(2, 3)
    tree.add_edge(3, 3)  # a loop is no ring
    assert not embed_rings(Graph.from_networkx(tree), 10).any()
    ring = nx.cycle_graph(5)
    alone = embed_rings(Graph.from_networkx(ring), 10)
    ring.add_edges_from([(0, 5), (5, 6), (2, 7)])
    found = embed_rings(Graph.from_networkx(ring), 10)
    np.testing.assert_array_equal(found[:5], alone)
    assert [int(np.flatnonzero(row)[0]) + 1 for row in found[5:]] == [7, 9, 7]


def test_directions_and_weights_make_no_other_rings() -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 20, (2, 40))
    both = embed_rings(Graph.from_edges(ends, 20, undirected=True), 6)
    np.testing.assert_array_equal(embed_rings(Graph.from_edges(ends, 20), 6), both)
    weight = rng.random(40) + 0.1
    np.testing.assert_array_equal(embed_rings(Graph.from_edges(ends, 20, edge_weight=weight), 6), both)


def test_too_much_work_is_refused() -> None:
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 300_000, (2, 1_000_000)), 300_000)
    with pytest.raises(GpmError, match=r"Rings of 300,000 nodes .* would take hours; use rwse"):
        embed_rings(graph, 8)


def test_returns_that_would_take_hours_are_estimated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_networkx(nx.karate_club_graph())
    exact = embed_returns(graph, 4)
    work = 34 * graph.num_edges * 4
    monkeypatch.setattr(positional, "MOST_WORK", work)
    np.testing.assert_array_equal(embed_returns(graph, 4), exact)
    monkeypatch.setattr(positional, "MOST_WORK", work - 1)
    found = embed_returns(graph, 4)
    np.testing.assert_array_equal(found, estimate_returns(graph, 4))
    assert not (found == exact).all()
    monkeypatch.setattr(returns, "estimate_returns", None)  # another time nothing is estimated
    np.testing.assert_array_equal(embed_returns(graph, 4), found)


def test_threads_change_no_bit_of_eigenvectors() -> None:
    """At this size the products with vectors are divided among threads."""
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 25_000, (2, 48_000)), 25_000, undirected=True)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(embed_laplacian(graph, 2))
    np.testing.assert_array_equal(found[0], found[1])


def test_exact_eigenvectors_of_a_graph_that_is_not_small_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_networkx(nx.random_regular_graph(4, 200, seed=0))
    exact = embed_laplacian(graph, 4)
    monkeypatch.setattr(positional, "MOST_DENSE", 199)
    monkeypatch.setattr(positional, "KEPT_EDGES", graph.num_edges - 1)
    np.testing.assert_array_equal(embed_laplacian(graph, 4), exact)
    monkeypatch.setattr(positional, "_find_vectors", None)  # another time nothing is computed
    np.testing.assert_array_equal(embed_laplacian(graph, 4), exact)
    with pytest.raises(TypeError):
        embed_laplacian(graph, 5)


def test_eigenvectors_of_many_edges_are_iterated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_networkx(nx.random_regular_graph(4, 200, seed=0))
    exact = embed_laplacian(graph, 4)
    monkeypatch.setattr(positional, "MOST_DENSE", 199)
    monkeypatch.setattr(positional, "MOST_EDGES", graph.num_edges)
    np.testing.assert_array_equal(embed_laplacian(graph, 4), exact)
    monkeypatch.setattr(positional, "MOST_EDGES", graph.num_edges - 1)
    found = embed_laplacian(graph, 4)
    np.testing.assert_array_equal(found, embed_spectrum(graph, 4))
    assert not (found == exact).all()
    monkeypatch.setattr(spectrum, "embed_spectrum", None)  # another time nothing is iterated
    np.testing.assert_array_equal(embed_laplacian(graph, 4), found)


def _collect(parts: list[tuple[int, NDArray]], order: NDArray | None = None, **options: Any) -> Graph:
    """Graphs, each a number of nodes and edges, as a collection."""
    parts = parts if order is None else [parts[i] for i in order]
    pointer = np.concatenate([[0], np.cumsum([nodes for nodes, _ in parts], dtype=np.int64)])
    edges = [part + first for (_, part), first in zip(parts, pointer, strict=False)]
    together = np.concatenate([np.zeros((2, 0), dtype=np.int64), *edges], axis=1)
    return Graph.from_edges(together, int(pointer[-1]), graph_ptr=pointer, **options)


_EMPTY = (0, np.zeros((2, 0), dtype=np.int64))


@given(
    st.lists(st.just(_EMPTY) | edge_lists(9, 20), max_size=8),
    st.fixed_dictionaries({"undirected": st.booleans(), "duplicates": st.sampled_from(["merge", "keep"])}),
    st.integers(1, 9),
    st.sampled_from([1, 3, 512]),
)
def test_a_graph_of_a_collection_is_embedded_as_if_it_were_alone(
    parts: list[tuple[int, NDArray]], how: dict[str, Any], dim: int, block: int
) -> None:
    """To the last bit, and so whatever the order of the graphs."""
    together = _collect(parts, **how)
    assert together.graph_ptr is not None
    alone = [Graph.from_edges(edges, nodes, **how) for nodes, edges in parts]
    returns, vectors = embed_returns(together, dim, block), embed_laplacian(together, dim)
    rings = embed_rings(together, dim, block)
    assert (returns.shape, vectors.shape, rings.shape) == ((together.num_nodes, dim),) * 3
    for graph, first, last in zip(alone, together.graph_ptr, together.graph_ptr[1:], strict=False):
        np.testing.assert_array_equal(returns[first:last], embed_returns(graph, dim))
        np.testing.assert_array_equal(vectors[first:last], embed_laplacian(graph, dim))
        np.testing.assert_array_equal(rings[first:last], embed_rings(graph, dim))


@pytest.mark.parametrize("batch", [1, 2**9, 2**18])
def test_large_graphs_among_small_ones(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes beyond a block of columns and beyond what is solved densely; batches of one graph and of several."""
    rng = np.random.default_rng(0)
    sizes = [5, 70, 3, 70, 5, 20, 130, 5, 1, 20, 70]
    parts = [(n, rng.integers(0, n, (2, 3 * n))) for n in sizes]
    order = rng.permutation(len(parts))
    weight = [rng.random(3 * n) for n in sizes]
    together = _collect(parts, order, edge_weight=np.concatenate([weight[i] for i in order]))
    assert together.graph_ptr is not None
    monkeypatch.setattr(positional, "BATCH", batch)
    returns, vectors = embed_returns(together, 5, block=32), embed_laplacian(together, 4)
    for place, i in enumerate(order):
        graph = Graph.from_edges(parts[i][1], sizes[i], edge_weight=weight[i])
        mine = slice(together.graph_ptr[place], together.graph_ptr[place + 1])
        np.testing.assert_array_equal(returns[mine], embed_returns(graph, 5))
        np.testing.assert_array_equal(vectors[mine], embed_laplacian(graph, 4))


def test_many_small_graphs_are_little_work() -> None:
    """As one graph of 300,000 nodes they would be refused."""
    ring = np.stack([np.arange(300_000), np.arange(300_000) // 10 * 10 + (np.arange(300_000) + 1) % 10])
    rings = Graph.from_edges(ring, graph_ptr=np.arange(0, 300_001, 10), undirected=True)
    with pytest.raises(GpmError, match=r"Rings of 300,000 nodes"):
        embed_rings(Graph.from_edges(ring, undirected=True), 16)
    alone = embed_returns(Graph.from_edges(ring[:, :10], undirected=True), 16)
    np.testing.assert_array_equal(embed_returns(rings, 16), np.tile(alone, (30_000, 1)))


def test_too_much_work_in_a_collection_is_refused() -> None:
    edges = np.random.default_rng(0).integers(0, 300_000, (2, 1_000_000))
    with pytest.raises(GpmError, match=r"of 2 graphs with 300,001 nodes .* would take hours"):
        embed_rings(Graph.from_edges(edges, 300_001, graph_ptr=[0, 300_000, 300_001]), 8)


def test_the_options_name_the_embedding() -> None:
    graph = Graph.from_networkx(nx.karate_club_graph())
    assert embed_positions(graph, "none", 4) is None
    np.testing.assert_array_equal(embed_positions(graph, "lap", 4), embed_laplacian(graph, 4))
    np.testing.assert_array_equal(embed_positions(graph, "rwse", 4), embed_returns(graph, 4))
    np.testing.assert_array_equal(embed_positions(graph, "rings", 4), embed_rings(graph, 4))


@pytest.mark.parametrize(
    ("kind", "asked", "flips"),
    [("lap", True, True), ("lap", False, False), ("rwse", True, False), ("rings", True, False)],
)
def test_signs_flip_while_training_only(kind: str, asked: bool, flips: bool) -> None:
    """The sign of an eigenvector means nothing: training shows both, for a whole batch at once; prediction one."""
    graph = Graph.from_networkx(nx.karate_club_graph())
    table = FeatureTable(graph, embed_positions(graph, kind, 3))
    options = ModelOptions(width=8, layers=1, heads=1, pe=kind, pe_dim=3, flip_signs=asked)
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
