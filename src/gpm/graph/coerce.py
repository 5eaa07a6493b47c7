"""Convert and check what a graph is built from: arrays, tensors and sparse matrices of many kinds."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gpm.errors import GpmError, whole_number
from gpm.graph import csr
from gpm.graph.names import Names

Features: TypeAlias = NDArray | sp.csr_array  # floats: dense, or sparse rows; integers: one category per column


def as_array(values: Any) -> NDArray:
    """Return a NumPy view of an array or tensor."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().numpy()
    return np.asarray(values)


def as_endpoints(edge_index: ArrayLike) -> tuple[NDArray, NDArray]:
    """Return the sources and targets `[E]` of edges `[2, E]`."""
    pairs = as_array(edge_index)
    if pairs.size == 0:
        pairs = np.zeros((2, 0), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[0] != 2:
        raise GpmError(f"edge_index must have shape [2, E], got {list(pairs.shape)}; transpose a list of pairs.")
    if not np.issubdtype(pairs.dtype, np.integer):
        raise GpmError(f"edge_index must hold integers, got {pairs.dtype}; map your node names to 0..N-1 first.")
    if pairs.dtype not in (np.int32, np.int64):
        pairs = pairs.astype(np.int64)
    return np.ascontiguousarray(pairs[0]), np.ascontiguousarray(pairs[1])


def check_range(source: NDArray, target: NDArray, num_nodes: int | None) -> int:
    """Return the number of nodes after checking that every edge joins two of them."""
    largest = max((int(a.max()) for a in (source, target) if a.size), default=-1)
    count = largest + 1 if num_nodes is None else whole_number(num_nodes, "num_nodes")
    if count < 0:
        raise GpmError(f"num_nodes must not be negative, got {count}.")
    for name, ends in (("starts at", source), ("ends at", target)):
        if ends.size and (int(ends.min()) < 0 or int(ends.max()) >= count):
            at = int(np.flatnonzero((ends < 0) | (ends >= count))[0])
            raise GpmError(f"Edge {at} {name} node {int(ends[at])}, but nodes are numbered 0 to {count - 1}.")
    return count


def as_weights(edge_weight: ArrayLike, num_edges: int) -> NDArray:
    """Return weights `[E]`, which must be finite and not negative."""
    weight = as_array(edge_weight)
    weight = weight.reshape(-1) if weight.size == num_edges else weight
    if weight.shape != (num_edges,):
        raise GpmError(f"edge_weight must have one entry per edge ({num_edges:,}), got shape {list(weight.shape)}.")
    weight = weight.astype(np.float32 if weight.dtype == np.float32 else np.float64, copy=False)
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if bad.size:
        raise GpmError(f"Edge {bad[0]} has weight {weight[bad[0]]}; weights must be finite and not negative.")
    return weight


def as_features(values: Any, rows: int, name: str) -> Features | None:
    """Return features `[rows, d]`: dense, sparse (SciPy or torch), or integer categories."""
    if values is None:
        return None
    if getattr(values, "is_sparse", False) or str(getattr(values, "layout", "")) == "torch.sparse_csr":
        values = sparse_to_scipy(values)
    if sp.issparse(values):
        sparse = sp.csr_array(values)
        sparse.sum_duplicates()
        features: Features = sparse if sparse.dtype == np.float64 else sparse.astype(np.float32)
    else:
        features = as_array(values)
        features = features[:, None] if features.ndim == 1 else features
        if features.dtype == bool:
            features = features.astype(np.int64)
        if not (np.issubdtype(features.dtype, np.integer) or np.issubdtype(features.dtype, np.floating)):
            raise GpmError(f"{name} must hold numbers, got {features.dtype}; encode text before building the graph.")
    if features.ndim != 2 or features.shape[0] != rows:
        raise GpmError(f"{name} must have {rows:,} rows, got shape {list(features.shape)}.")
    return features


def one_hot(categories: NDArray) -> tuple[sp.csr_array, list[NDArray]]:
    """Return categories `[n, k]` as columns of 0 and 1, one per value that occurs, and the values of each column."""
    found = [np.unique(column, return_inverse=True) for column in categories.T]
    values = [each[0] for each in found]
    ends = np.cumsum([0, *map(len, values)])
    columns = np.stack([each[1].reshape(-1) + first for each, first in zip(found, ends[:-1], strict=True)], axis=1)
    rows, width = categories.shape
    parts = np.ones(columns.size), columns.reshape(-1), np.arange(rows + 1) * width
    return sp.csr_array(parts, shape=(rows, int(ends[-1]))), values


def sparse_to_scipy(tensor: Any) -> sp.csr_array:
    """Convert a torch sparse tensor (COO or CSR) to SciPy CSR."""
    tensor = tensor.detach().cpu()
    if tensor.is_sparse:
        tensor = tensor.coalesce()
        return sp.csr_array((tensor.values().numpy(), tuple(tensor.indices().numpy())), shape=tuple(tensor.shape))
    parts = (tensor.values().numpy(), tensor.col_indices().numpy(), tensor.crow_indices().numpy())
    return sp.csr_array(parts, shape=tuple(tensor.shape))


def check_graph_ptr(graph_ptr: ArrayLike, indptr: NDArray, indices: NDArray) -> NDArray:
    """Return the node ranges `[G+1]` of a collection after checking that no edge joins two graphs."""
    pointer = as_array(graph_ptr).astype(np.int64)
    count = len(indptr) - 1
    if pointer.ndim != 1 or pointer.size < 1 or pointer[0] != 0 or pointer[-1] != count or (np.diff(pointer) < 0).any():
        raise GpmError(f"graph_ptr must rise from 0 to the number of nodes ({count:,}).")
    crossing = csr.find_crossing(indptr, indices, pointer)
    if crossing >= 0:
        source = int(np.searchsorted(indptr, crossing, side="right")) - 1
        raise GpmError(f"The edge from node {source} to node {indices[crossing]} joins two graphs of the collection.")
    return pointer


def check_choice(name: str, choice: str, choices: tuple[str, ...]) -> None:
    """Refuse an option that does not exist."""
    if choice not in choices:
        raise GpmError(f"{name} must be one of {', '.join(choices)}, got {choice!r}.")


def check_labels(labels: NDArray, num_nodes: int, graph_ptr: ArrayLike | None) -> NDArray:
    """Return labels with a row per node or per graph."""
    num_graphs = 1 if graph_ptr is None else len(as_array(graph_ptr)) - 1
    labels = labels[None] if labels.ndim == 0 else labels
    if (rows := len(labels)) not in (num_nodes, num_graphs):
        raise GpmError(f"y must have a row per node ({num_nodes:,}) or per graph ({num_graphs:,}), got {rows:,}.")
    return labels


def check_names(names: Names, count: int) -> Names:
    """Return names after checking that there are as many as nodes, all different."""
    if len(names) != count:
        raise GpmError(f"{len(names):,} names for {count:,} nodes; give one name per node.")
    if (twice := names.first_duplicate()) is not None:
        raise GpmError(f"Two nodes are named {twice!r}; names must differ.")
    return names


def column_ends(features: Any, end: str) -> NDArray:
    """Return the "min" or the "max" of each column, dense or sparse."""
    extreme = getattr(features, end)(axis=0)
    return np.asarray(extreme.toarray() if sp.issparse(extreme) else extreme).reshape(-1)
