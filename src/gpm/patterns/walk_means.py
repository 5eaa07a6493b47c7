"""Walk means: the expected features of the node that a random walk reaches, exactly, without drawing walks."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.graph.graph import Graph

Matrix = TypeVar("Matrix", NDArray, sp.csr_array)


def weight_matrix(graph: Graph) -> sp.csr_array:
    """Return the sparse `[N, N]` matrix of edge weights; 1 per edge if the graph has none. Parallel edges add up."""
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.astype(np.float64)
    return sp.csr_array((weight, graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes))


def links_of(graph: Graph) -> sp.csr_array:
    """Return which nodes are linked, in either direction: a symmetric matrix of ones without a diagonal."""
    weights = weight_matrix(graph)
    links = sp.csr_array((weights + weights.T) > 0).astype(np.float64)
    links.setdiag(0)
    links.eliminate_zeros()
    return links


def walk_law(graph: Graph) -> sp.csr_array:
    r"""Return the transition matrix P of a walk, `[N, N]` in float64.

    .. math:: P_{uv} = w_{uv} / \sum_z w_{uz}

    A walk follows the direction of the edges. At a node without an exit it stays.
    """
    weights = weight_matrix(graph)
    total = weights.sum(1)
    step = sp.csr_array(sp.diags_array(np.where(total > 0, 1 / np.maximum(total, 1e-300), 0.0)) @ weights)
    return sp.csr_array(step + sp.diags_array((total == 0).astype(float)))


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
