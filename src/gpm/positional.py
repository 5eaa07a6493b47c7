"""Positional embeddings of nodes: Laplacian eigenvectors and return probabilities of random walks."""

from __future__ import annotations

import logging
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph import Graph

MOST_WORK = 2e12  # multiplications that exact return probabilities may take: some minutes
_log = logging.getLogger("gpm")


def embed_positions(graph: Graph, kind: Literal["none", "lap", "rwse"], dim: int) -> NDArray[np.float32] | None:
    """The positional embeddings that the options name, `[N, dim]`; None for none."""
    if kind == "none":
        return None
    return embed_laplacian(graph, dim) if kind == "lap" else embed_returns(graph, dim)


def embed_laplacian(graph: Graph, dim: int) -> NDArray[np.float32]:
    """Eigenvectors of the symmetric normalised Laplacian for the `dim` smallest eigenvalues after the first.

    Edges count in both directions. The sign of a vector, which is free, is chosen so that its entry farthest from zero
    is positive. Columns that a small graph does not have are zero.
    """
    count = graph.num_nodes
    found = min(dim + 1, count)
    matrix = _normalised(graph)
    if count <= 64 or found >= count - 1:
        _, vectors = np.linalg.eigh(matrix.toarray())
    else:
        start = np.random.default_rng(0).standard_normal(count)  # fixed, so that the answer is
        try:
            _, vectors = sp.linalg.eigsh(matrix, found, which="LA", v0=start)
        except sp.linalg.ArpackNoConvergence as error:
            raise GpmError(
                f"the {dim} Laplacian eigenvectors do not converge ({error}); ask for fewer by pe_dim."
            ) from None
    vectors = vectors[:, ::-1][:, 1:found]
    farthest = vectors[np.abs(vectors).argmax(0), np.arange(vectors.shape[1])] if vectors.size else np.ones(0)
    embedding = np.zeros((count, dim), dtype=np.float32)
    embedding[:, : vectors.shape[1]] = vectors * np.where(farthest < 0, -1, 1)
    return embedding


def _normalised(graph: Graph) -> sp.csr_array:
    adjacency = _adjacency(graph)
    adjacency = adjacency.maximum(adjacency.T).tocsr()
    degree = np.maximum(adjacency.sum(1), 1e-12)
    scale = sp.diags_array(np.where(adjacency.sum(1) > 0, degree**-0.5, 0.0))
    return sp.csr_array(scale @ adjacency @ scale)


def _adjacency(graph: Graph) -> sp.csr_array:
    weight = np.ones(graph.num_edges) if graph.edge_weight is None else graph.edge_weight.astype(np.float64)
    return sp.csr_array((weight, graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes))


def embed_returns(graph: Graph, dim: int, block: int = 512) -> NDArray[np.float32]:
    """Probabilities that a walk is back at its start after 1 to `dim` steps (RWSE), exact.

    The columns of the identity are moved along in blocks, so memory stays at N x block; time grows as N x E x dim.
    """
    count = graph.num_nodes
    if count * max(graph.num_edges, 1) * float(dim) > MOST_WORK:
        raise GpmError(
            f"exact return probabilities of {count:,} nodes and {graph.num_edges:,} edges would take hours; use lap."
        )
    adjacency = _adjacency(graph)
    degree = adjacency.sum(1)
    step = sp.csr_array(sp.diags_array(np.where(degree > 0, 1 / np.maximum(degree, 1e-300), 0.0)) @ adjacency)
    stay = sp.diags_array((degree == 0).astype(float))  # a walk without a way out stays
    step = sp.csr_array(step + stay)
    embedding = np.zeros((count, dim), dtype=np.float32)
    for first in range(0, count, block):
        mine = np.arange(first, min(first + block, count))
        state = np.zeros((count, len(mine)))
        state[mine, mine - first] = 1
        for power in range(dim):
            state = step @ state  # state[i, j]: from i to j in so many steps
            embedding[mine, power] = state[mine, mine - first]
    return embedding
