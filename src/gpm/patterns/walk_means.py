"""Walk means: the expected features of the node that a random walk reaches, exactly, without drawing walks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.graph.graph import Graph

BLOCK = 1 << 22  # edges, or entries of a result, of the rows that are computed at a time
Matrix = TypeVar("Matrix", NDArray, sp.csr_array)


def weight_matrix(graph: Graph, first: int = 0, last: int | None = None) -> sp.csr_array:
    """Return the sparse `[N, N]` matrix of edge weights; 1 per edge if the graph has none. Parallel edges add up.

    From row `first` up to row `last`, it has these rows alone.
    """
    last = graph.num_nodes if last is None else last
    indptr = graph.indptr[first : last + 1]
    edges = slice(int(indptr[0]), int(indptr[-1]))
    size = edges.stop - edges.start
    weight = np.ones(size) if graph.edge_weight is None else graph.edge_weight[edges].astype(np.float64)
    return sp.csr_array((weight, graph.indices[edges], indptr - indptr[0]), shape=(last - first, graph.num_nodes))


def links_of(graph: Graph) -> sp.csr_array:
    """Return which nodes are linked, in either direction: a symmetric matrix of ones without a diagonal."""
    weights = weight_matrix(graph)
    links = sp.csr_array((weights + weights.T) > 0).astype(np.float64)
    links.setdiag(0)
    links.eliminate_zeros()
    return links


def walk_law(graph: Graph, first: int = 0, last: int | None = None) -> sp.csr_array:
    r"""Return the transition matrix P of a walk, `[N, N]` in float64, or its rows from `first` up to `last`.

    .. math:: P_{uv} = w_{uv} / \sum_z w_{uz}

    A walk follows the direction of the edges. At a node without an exit it stays.
    """
    weights = weight_matrix(graph, first, last)
    total = weights.sum(1)
    step = sp.csr_array(sp.diags_array(np.where(total > 0, 1 / np.maximum(total, 1e-300), 0.0)) @ weights)
    stay = sp.diags_array((total == 0).astype(float), offsets=first, shape=weights.shape)
    return sp.csr_array(step + stay)


def symmetric_law(graph: Graph) -> sp.csr_array:
    """Return `D^-1/2 A D^-1/2` with edges in both directions, `[N, N]`; of two weights between nodes, the larger."""
    weights = weight_matrix(graph)
    weights = weights.maximum(weights.T).tocsr()
    degree = weights.sum(1)
    scale = sp.diags_array(np.where(degree > 0, np.maximum(degree, 1e-12) ** -0.5, 0.0))
    return sp.csr_array(scale @ weights @ scale)


def walk_means(graph: Graph, x: Matrix, steps: int) -> list[Matrix]:
    r"""Return `[x, P x, ..., P^steps x]`: entry t is the mean of x where a walk of t steps ends, see `walk_law`.

    Args:
        graph: N nodes, or a collection of graphs with N nodes in all.
        x: `[N, d]`, dense or sparse; the means are of the same form, in float32 unless x is of a wider type.
        steps: Number of products with P.
    """
    dtype = np.result_type(x.dtype, np.float32)
    law = walk_law(graph).astype(dtype)
    means = [x.astype(dtype)]
    for _ in range(steps):
        means.append(law @ means[-1])
    return means


def fill_walk_means(graph: Graph, out: NDArray[np.float32]) -> None:
    """Fill `out[t]` with the walk means of t steps, `out [steps + 1, N, d]`, from x in `out[0]`.

    Only a block of rows of P and of the result is in memory, beside `out` and the graph, which may be on disk.
    """
    for step in range(1, len(out)):
        for first, last in row_blocks(graph, out.shape[2]):
            out[step, first:last] = walk_law(graph, first, last).astype(np.float32) @ out[step - 1]


def row_blocks(graph: Graph, columns: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of nodes with about `BLOCK` edges at most, and as many entries in so many columns."""
    first, indptr = 0, graph.indptr
    while first < graph.num_nodes:
        most = indptr[first] + indptr.dtype.type(BLOCK)
        last = int(np.searchsorted(indptr, most, side="right")) - 1
        last = max(first + 1, min(last, first + BLOCK // max(columns, 1), graph.num_nodes))
        yield first, last
        first = last
