"""Positional embeddings of nodes: Laplacian eigenvectors, return probabilities of random walks, and rings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.positional import large_eigenvectors as spectrum
from gpm.nn.positional import rwse_by_walks as returns
from gpm.nn.positional.eigenvector_cache import keep_positions
from gpm.patterns.walk_means import symmetric_law, walk_law, weight_matrix

BATCH = 2**18  # matrix entries of a batch of small graphs
MOST_DENSE = 2048  # nodes of a graph whose eigenvectors may all be computed
KEPT_FROM = 500  # nodes of a graph whose eigenvectors are worth caching
KEPT_EDGES = 100_000  # edges of a single graph whose Laplacian eigenvectors are worth caching: some seconds
MOST_EDGES = 5_000_000  # edges of a single graph whose eigenvectors are exact
MOST_WORK = 2e12  # multiplications that exact return probabilities may take: about ten minutes

Positional = Literal["none", "lap", "rwse", "rings"]


def embed_positions(graph: Graph, kind: Positional, dim: int) -> NDArray[np.float32] | None:
    """Return the positional embeddings that the options name, `[N, dim]`; None for none."""
    if kind == "none":
        return None
    return {"lap": embed_laplacian, "rwse": embed_returns, "rings": embed_rings}[kind](graph, dim)


def embed_laplacian(graph: Graph, dim: int) -> NDArray[np.float32]:
    r"""Return the eigenvectors of :math:`I - D^{-1/2} A D^{-1/2}` for the `dim` smallest eigenvalues after the first.

    Edges count in both directions. The sign of a vector is chosen so that its entry farthest from zero is positive.
    Columns that a small graph does not have are zero. In a collection every graph has its own vectors.

    Those of a single graph of more than `MOST_EDGES` edges are computed to a residual of
    `gpm.nn.positional.large_eigenvectors.TOLERANCE`. Those of more than `KEPT_EDGES` are cached in the data folder.
    """
    single = graph.num_graphs == 1 and graph.num_nodes > MOST_DENSE
    if single and graph.num_edges > MOST_EDGES:
        name = f"lap-{dim}-{spectrum.TOLERANCE:g}-{spectrum.MOST_PRODUCTS}"
        return keep_positions(graph, name, dim, lambda: spectrum.embed_spectrum(graph, dim))
    if single and graph.num_edges > KEPT_EDGES:
        return keep_positions(graph, f"lap-{dim}", dim, lambda: _find_vectors(graph, 1, dim))
    return _find_vectors(graph, 1, dim)


def find_modes(graph: Graph, count: int) -> NDArray[np.float32]:
    """Return the eigenvectors of `embed_laplacian` for the `count` smallest eigenvalues, with the first `[N, count]`.

    They are slow to compute: those of each graph that is not small are cached in the data folder.
    """

    def find(part: Graph) -> NDArray[np.float32]:
        if part.num_nodes < KEPT_FROM:
            return _find_vectors(part, 0, count)
        return keep_positions(part, f"modes-{count}", count, lambda: _find_vectors(part, 0, count))

    return np.concatenate([find(_take_graph(graph, index)) for index in range(graph.num_graphs)])


def _take_graph(graph: Graph, index: int) -> Graph:
    """Return one graph of a collection, with its edges and weights alone."""
    if graph.graph_ptr is None:
        return graph
    first, last = graph.graph_ptr[index : index + 2]
    rows = slice(graph.indptr[first], graph.indptr[last])
    weight = None if graph.edge_weight is None else graph.edge_weight[rows]
    indices = graph.indices[rows] - first.astype(graph.indices.dtype)
    return Graph(graph.indptr[first : last + 1] - graph.indptr[first], indices, graph.census, edge_weight=weight)


def _find_vectors(graph: Graph, first: int, dim: int) -> NDArray[np.float32]:
    """Return the leading eigenvectors of every graph from index `first` on, `[N, dim]`."""
    law = symmetric_law(graph)
    embedding = np.zeros((graph.num_nodes, dim), dtype=np.float32)
    for nodes in _equal_graphs(graph, lambda size: size * size):
        size = nodes.shape[1]
        found = min(first + dim, size)
        matrix = _cut(law, nodes)
        with threadpool_limits(1):  # the same bits for any number of threads
            if size <= 64 or found >= size - 1:
                _, vectors = np.linalg.eigh(_stack(matrix, size))
            else:
                starts = range(0, matrix.shape[0], size)
                vectors = np.stack([_solve(matrix[s : s + size, s : s + size], found, dim) for s in starts])
        vectors = vectors[:, :, ::-1][:, :, first:found]  # (graphs, size, found - first)
        farthest = np.take_along_axis(vectors, np.abs(vectors).argmax(1)[:, None], 1)
        embedding[nodes, : vectors.shape[2]] = vectors * np.where(farthest < 0, -1, 1)
    return embedding


def _solve(matrix: sp.csr_array, found: int, dim: int) -> NDArray:
    """Return the leading eigenvectors of a large graph, by iteration; if that fails, as on a clique, by all of them."""
    random = np.random.default_rng(0)  # fixed, so that the result is
    start = random.standard_normal(matrix.shape[0])
    restarts = {"rng": random} if "rng" in inspect.signature(sp.linalg.eigsh).parameters else {}  # SciPy 1.17 on
    try:
        return np.asarray(sp.linalg.eigsh(matrix, found, which="LA", v0=start, **restarts)[1])
    except sp.linalg.ArpackError as error:
        if matrix.shape[0] <= MOST_DENSE:
            return np.linalg.eigh(matrix.toarray())[1][:, -found:]
        reason = str(error).rstrip(".")
        raise GpmError(f"The {dim} Laplacian eigenvectors do not converge ({reason}); lower pe_dim or modes.") from None


def embed_returns(graph: Graph, dim: int, block: int = 512) -> NDArray[np.float32]:
    r"""Return the probabilities :math:`(P^t)_{vv}`, t = 1 to `dim`, that a walk is back at its start (RWSE).

    P is applied to blocks of columns of the identity, so memory is N x block, and time is proportional to N x E x dim,
    summed over the graphs of a collection. Above `MOST_WORK` multiplications the probabilities are estimated by
    `gpm.nn.positional.rwse_by_walks` and cached in the data folder.
    """
    if count_work(graph, dim) > MOST_WORK:
        name = f"rwse-{dim}-{returns.count_walks()}"
        return keep_positions(graph, name, dim, lambda: returns.estimate_returns(graph, dim))
    law = walk_law(graph)
    embedding = np.zeros((graph.num_nodes, dim), dtype=np.float32)
    for nodes in _equal_graphs(graph, lambda size: size * min(size, block)):
        step = _cut(law, nodes)
        for rows, starts, state in _columns(nodes, block):
            for power in range(dim):
                state = step @ state  # state[i, j]: from i to node j of the same graph in so many steps
                embedding[nodes.reshape(-1)[rows], power] = state[rows, starts]
    return embedding


def embed_rings(graph: Graph, dim: int, block: int = 512) -> NDArray[np.float32]:
    r"""Return :math:`\log(1 + c_t)`, t = 1 to `dim`, where :math:`c_t` counts the non-backtracking closed walks.

    The first of them round a ring has as many steps as the ring, so that rings of different sizes are told apart, which
    return probabilities blur. Edges count in both directions, and once. Cost and memory are those of exact return
    probabilities; a graph that would take hours is refused.
    """
    if count_work(graph, dim) > MOST_WORK:
        graphs = "" if graph.graph_ptr is None else f"{graph.num_graphs:,} graphs with "
        raise GpmError(
            f"Rings of {graphs}{graph.num_nodes:,} nodes and {graph.num_edges:,} edges would take hours; use rwse."
        )
    adjacency = weight_matrix(graph)
    adjacency = sp.csr_array(((adjacency + adjacency.T) > 0).astype(np.float64))
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    embedding = np.zeros((graph.num_nodes, dim), dtype=np.float32)
    for nodes in _equal_graphs(graph, lambda size: size * min(size, block)):
        step = _cut(adjacency, nodes)
        degree = step.sum(1)[:, None]
        for rows, starts, identity in _columns(nodes, block):
            before, state = identity, step @ identity
            for power in range(dim):
                embedding[nodes.reshape(-1)[rows], power] = np.log1p(state[rows, starts])
                # One more step, minus the walks that turn straight back: degree - 1 ways after the first step.
                back = degree if power == 0 else degree - 1
                before, state = state, step @ state - back * before
    return embedding


def _columns(nodes: NDArray, block: int) -> Iterator[tuple[NDArray, NDArray, NDArray]]:
    """Yield the identity of graphs of one size in blocks of columns: rows and columns of its ones, and the block."""
    size = nodes.shape[1]
    for first in range(0, size, block):
        columns = np.arange(min(block, size - first))
        rows = (np.arange(len(nodes))[:, None] * size + first + columns).ravel()  # the node of each column
        starts = np.tile(columns, len(nodes))
        state = np.zeros((nodes.size, len(columns)))
        state[rows, starts] = 1
        yield rows, starts, state


def count_work(graph: Graph, dim: int) -> float:
    """Return the multiplications of exact return probabilities: nodes times edges of every graph, `dim` times."""
    pointer = _pointer(graph)
    return float(np.diff(pointer) @ np.diff(graph.indptr[pointer]).astype(float)) * dim


def _pointer(graph: Graph) -> NDArray:
    return np.array([0, graph.num_nodes]) if graph.graph_ptr is None else graph.graph_ptr


def _equal_graphs(graph: Graph, cost: Callable[[int], int]) -> Iterator[NDArray]:
    """Yield nodes `[graphs, size]` of graphs of one size, as many at a time as fit into a batch by the cost of each."""
    pointer = _pointer(graph)
    sizes = np.diff(pointer)
    for size in np.unique(sizes[sizes > 0]).tolist():
        firsts = pointer[:-1][sizes == size]
        many = max(1, BATCH // cost(size))
        for at in range(0, len(firsts), many):
            yield firsts[at : at + many, None] + np.arange(size)


def _cut(matrix: sp.csr_array, nodes: NDArray) -> sp.csr_array:
    """Return the rows and columns of some graphs of a block-diagonal matrix."""
    rows = nodes.reshape(-1)
    return matrix if nodes.size == matrix.shape[0] else sp.csr_array(matrix[rows][:, rows])


def _stack(matrix: sp.csr_array, size: int) -> NDArray:
    """Return the dense blocks `[graphs, size, size]` of a block-diagonal matrix."""
    stack = np.zeros((matrix.shape[0] // size, size, size))
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    stack[rows // size, rows % size, matrix.indices % size] = matrix.data
    return stack
