"""Columns of numbers for nodes or graphs: features, their means over walks, and structure. Nothing is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.coerce import one_hot
from gpm.graph.graph import Graph
from gpm.nn.feature_rows import SPARSE_BELOW
from gpm.nn.feature_table import nodes_of
from gpm.patterns.structure import describe_structure
from gpm.patterns.walk_means import walk_means, weight_matrix

STEPS = 2  # of the walks whose means are columns
WIDEST = 256  # columns that are read as they are; more may be reduced to so many
MOST_ENTRIES = 20_000_000  # of all columns before wide features are reduced
MOST_WORK = 2e9  # multiplications of the walk means: some seconds
MOST_ROWS = 20_000  # of the training split that are fitted


def neighbourhood_columns(graph: Graph, level: str, train: NDArray, widest: int = WIDEST) -> Any:
    """Return `[x, Px, P²x]` of every node, or their means over every graph beside its number of nodes.

    A graph without features has the logarithm of the degree. Above a size, wide features are reduced by an SVD that is
    fitted to the training split.

    Args:
        graph: The walked graph.
        level: "node" or "graph".
        train: Ids of the training split.
        widest: Columns of x from which it may be reduced.

    Returns:
        An array `[N, C]`, or a sparse one where the features are wide and sparse.
    """
    x = _limit(graph, _read_features(graph), _nodes_of(graph, level, train), widest)
    means = walk_means(graph, x, STEPS)
    if level == "graph":
        return _over_graphs(graph, means)
    return sp.csr_array(sp.hstack(means)) if sp.issparse(x) else np.concatenate(means, axis=1)


def structure_columns(graph: Graph, level: str) -> NDArray[np.float32]:
    """Return the structure of every node, see `describe_structure`, or the means over every graph."""
    columns = describe_structure(graph)
    return columns if level == "node" else np.asarray(_mean_matrix(graph) @ columns)


def _read_features(graph: Graph) -> Any:
    """Return the features as float32: dense, or sparse where most entries are zero."""
    x: Any = graph.x
    if x is None:
        return np.log1p(graph.degree().astype(np.float32))[:, None]
    size = x.nnz if sp.issparse(x) else x.size
    if size > 10 * MOST_ENTRIES:
        raise GpmError(f"{graph.num_nodes:,} nodes with {x.shape[1]:,} features are too many for a quick comparison.")
    if sp.issparse(x):
        return x.astype(np.float32)
    if np.issubdtype(x.dtype, np.integer):
        return one_hot(x)[0].astype(np.float32)
    mostly_zero = np.count_nonzero(x) < SPARSE_BELOW * x.size
    return sp.csr_array(x, dtype=np.float32) if mostly_zero else np.asarray(x, dtype=np.float32)


def _limit(graph: Graph, x: Any, rows: NDArray, widest: int) -> Any:
    """Return features that are narrow, or whose walk means stay small; refuse what would take too long."""
    width = x.shape[1]
    if width > widest and (widest < WIDEST or _count_entries(graph, x) > MOST_ENTRIES):
        from sklearn.decomposition import TruncatedSVD

        width = min(widest, len(rows))
        x = TruncatedSVD(width, random_state=0).fit(x[rows]).transform(x).astype(np.float32)
    elif sp.issparse(x) and width > widest:
        return x
    if max(graph.num_edges * STEPS, 10 * graph.num_nodes) * width > MOST_WORK:
        edges = f"{graph.num_edges:,} edges with {width:,} columns"
        raise GpmError(f"The walk means of {edges} would take too long for a quick comparison.")
    return x.toarray() if sp.issparse(x) else x


def _count_entries(graph: Graph, x: Any) -> float:
    """Return a bound on the entries of x and its walk means, and on the work for them."""
    if not sp.issparse(x):
        return float(x.size * (STEPS + 1))
    weights = weight_matrix(graph)
    weights.data[:] = 1
    row = np.diff(x.indptr).astype(float)
    total = float(row.sum())
    for _ in range(STEPS):
        row = np.minimum(weights @ row, 10.0 * x.shape[1])  # each neighbour's row is read, however many are equal
        total += float(row.sum())
    return total


def _nodes_of(graph: Graph, level: str, train: NDArray) -> NDArray:
    """Return nodes of the training split, at most `MOST_ROWS`."""
    nodes = nodes_of(graph, train) if level == "graph" else train
    return sample_rows(nodes, MOST_ROWS)


def sample_rows(rows: NDArray, most: int) -> NDArray:
    """Return at most so many of some rows, drawn once and for all."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def _mean_matrix(graph: Graph) -> sp.csr_array:
    """Return the matrix `[G, N]` that averages over the nodes of each graph."""
    assert graph.graph_ptr is not None
    sizes = np.diff(graph.graph_ptr)
    share = np.repeat(1 / np.maximum(sizes, 1), sizes).astype(np.float32)
    shape = graph.num_graphs, graph.num_nodes
    return sp.csr_array((share, np.arange(graph.num_nodes), graph.graph_ptr), shape=shape)


def _over_graphs(graph: Graph, means: list[Any]) -> Any:
    """Return the means over each graph, and the logarithm of its number of nodes."""
    average = _mean_matrix(graph)
    blocks = [average @ each for each in means]
    sizes = np.log1p(np.diff(average.indptr)).astype(np.float32)[:, None]
    if sp.issparse(blocks[0]):
        return sp.csr_array(sp.hstack([*blocks, sp.csr_array(sizes)]))
    return np.concatenate([*blocks, sizes], axis=1)
