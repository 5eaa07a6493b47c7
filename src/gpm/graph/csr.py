"""Compiled passes over an edge list: compressed sparse rows in linear time and little memory.

Each thread handles a range of *rows*, so the result is the same for any number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpm.compute import count_threads, threaded

INT32_MAX = 2**31 - 1  # above this many nodes (or edges) ids are stored in 64 bits


def index_dtype(count: int) -> type[np.signedinteger]:
    """Return int32 if it can index `count` items, else int64."""
    return np.int32 if count <= INT32_MAX else np.int64


@threaded
def _count(source, target, num_nodes, both, loops, parts, indptr):  # pragma: no cover - compiled
    width = (num_nodes + parts - 1) // parts
    for part in prange(parts):
        low, high = part * width, min(num_nodes, (part + 1) * width)
        for i in range(source.size):
            a, b = source[i], target[i]
            if a == b and not loops:
                continue
            if low <= a < high:
                indptr[a + 1] += 1
            if both and a != b and low <= b < high:
                indptr[b + 1] += 1


@threaded
def _scatter(source, target, num_nodes, both, loops, parts, indptr, indices, ids):  # pragma: no cover - compiled
    width = (num_nodes + parts - 1) // parts
    for part in prange(parts):
        low, high = part * width, min(num_nodes, (part + 1) * width)
        cursor = indptr[low : max(low, high)].copy()
        for i in range(source.size):
            a, b = source[i], target[i]
            if a == b and not loops:
                continue
            if low <= a < high:
                at = cursor[a - low]
                indices[at] = b
                if ids.size:
                    ids[at] = i
                cursor[a - low] = at + 1
            if both and a != b and low <= b < high:
                at = cursor[b - low]
                indices[at] = a
                if ids.size:
                    ids[at] = i
                cursor[b - low] = at + 1


@threaded
def _transpose(from_indptr, from_indices, from_ids, parts, indptr, indices, ids):  # pragma: no cover - compiled
    # Rows of the source ascend, so every row of the result comes out sorted, equal columns in their order.
    num_nodes = indptr.size - 1
    width = (num_nodes + parts - 1) // parts
    for part in prange(parts):
        low, high = part * width, min(num_nodes, (part + 1) * width)
        cursor = indptr[low : max(low, high)].copy()
        for v in range(num_nodes):
            for i in range(from_indptr[v], from_indptr[v + 1]):
                u = from_indices[i]
                if low <= u < high:
                    at = cursor[u - low]
                    indices[at] = v
                    if ids.size:
                        ids[at] = from_ids[i]
                    cursor[u - low] = at + 1


@threaded
def _distinct_per_row(indptr, indices, counts):  # pragma: no cover - compiled
    for v in prange(indptr.size - 1):
        distinct = 0
        for i in range(indptr[v], indptr[v + 1]):
            if i == indptr[v] or indices[i] != indices[i - 1]:
                distinct += 1
        counts[v + 1] = distinct


@threaded
def _merge_rows(indptr, indices, ids, weight, to_indptr, to_indices, to_ids, to_weight):  # pragma: no cover - compiled
    for v in prange(indptr.size - 1):
        at = to_indptr[v] - 1
        for i in range(indptr[v], indptr[v + 1]):
            if i == indptr[v] or indices[i] != indices[i - 1]:
                at += 1
                to_indices[at] = indices[i]
                if ids.size:
                    to_ids[at] = ids[i]
                if weight.size:
                    to_weight[at] = weight[i]
            elif weight.size:
                to_weight[at] += weight[i]


@njit(cache=True)
def is_symmetric(indptr, indices):  # pragma: no cover - compiled
    """Return True if every edge has its reverse, with the same multiplicity. One pass; rows must be sorted."""
    # While u ascends, the entries u of row v are met in the order in which row v lists them.
    cursor = indptr[:-1].copy()
    for u in range(indptr.size - 1):
        for i in range(indptr[u], indptr[u + 1]):
            v = indices[i]
            at = cursor[v]
            if at >= indptr[v + 1] or indices[at] != u:
                return False
            cursor[v] = at + 1
    return True


@njit(cache=True, nogil=True)
def find_crossing(indptr, indices, graph_ptr):  # pragma: no cover - compiled
    """Return the first entry that joins two graphs of a collection, or -1."""
    for g in range(graph_ptr.size - 1):
        for i in range(indptr[graph_ptr[g]], indptr[graph_ptr[g + 1]]):
            if indices[i] < graph_ptr[g] or indices[i] >= graph_ptr[g + 1]:
                return i
    return -1


@threaded
def _quantise(indptr, weight, cdf):  # pragma: no cover - compiled
    for v in prange(indptr.size - 1):
        start, stop = indptr[v], indptr[v + 1]
        largest, total = 0.0, 0.0
        for i in range(start, stop):
            largest = max(largest, np.float64(weight[i]))
        for i in range(start, stop):
            total += weight[i] / largest if largest > 0 else 0.0  # a sum of the weights themselves might overflow
        running = np.int64(0)
        for i in range(start, stop):
            if weight[i] > 0:
                running += max(np.int64(1), np.int64(np.rint(weight[i] / largest / total * 2.0**51)))
            cdf[i] = running


def build(
    source: NDArray, target: NDArray, num_nodes: int, *, undirected: bool, self_loops: bool, with_ids: bool
) -> tuple[NDArray, NDArray, NDArray | None]:
    """Sort edges `[E]` into rows; if undirected, each edge is entered in both rows, a self-loop once.

    Returns row pointers `[N+1]`, columns and (or None) the input position of each entry. Columns ascend in each row,
    and equal ones stand in input order.
    """
    parts = max(1, min(count_threads(), 16))
    how = num_nodes, undirected, self_loops, parts
    entries_in, entries_out = np.zeros(num_nodes + 1, dtype=np.int64), np.zeros(num_nodes + 1, dtype=np.int64)
    _count(target, source, *how, entries_in)
    np.cumsum(entries_in, out=entries_in)
    total = int(entries_in[-1])
    # Bucket by target, then by source: two linear passes, and the rows are sorted.
    halfway = np.empty(total, dtype=index_dtype(num_nodes))
    halfway_ids = np.empty(total if with_ids else 0, dtype=index_dtype(len(source)))
    _scatter(target, source, *how, entries_in, halfway, halfway_ids)
    _count(source, target, *how, entries_out)
    np.cumsum(entries_out, out=entries_out)
    indices, ids = np.empty_like(halfway), np.empty_like(halfway_ids)
    _transpose(entries_in, halfway, halfway_ids, parts, entries_out, indices, ids)
    return entries_out, indices, ids if with_ids else None


def count_duplicates(indptr: NDArray, indices: NDArray) -> tuple[int, NDArray]:
    """Return the number of entries that repeat another of their row, and the row pointers without them."""
    merged = np.zeros_like(indptr)
    _distinct_per_row(indptr, indices, merged)
    np.cumsum(merged, out=merged)
    return int(indptr[-1] - merged[-1]), merged


def merge_duplicates(
    indptr: NDArray, indices: NDArray, ids: NDArray | None, weight: NDArray | None, merged: NDArray
) -> tuple[NDArray, NDArray | None, NDArray | None]:
    """Keep the first of equal entries of a row (its id) and the sum of their weights."""
    entries, none = int(merged[-1]), np.empty(0, dtype=np.int32)
    to_indices = np.empty(entries, dtype=indices.dtype)
    to_ids = None if ids is None else np.empty(entries, dtype=ids.dtype)
    to_weight = None if weight is None else np.empty(entries, dtype=weight.dtype)
    _merge_rows(
        indptr, indices, none if ids is None else ids, np.empty(0) if weight is None else weight,
        merged, to_indices, none if to_ids is None else to_ids, np.empty(0) if to_weight is None else to_weight,
    )  # fmt: skip
    return to_indices, to_ids, to_weight


def count_isolated(indptr: NDArray, indices: NDArray, symmetric: bool) -> int:
    """Return the number of nodes without any edge, in or out."""
    alone = np.diff(indptr) == 0
    if not symmetric:
        alone[indices] = False
    return int(alone.sum())


def cumulate_weights(indptr: NDArray, weight: NDArray) -> NDArray:
    """Turn weights into per-row running sums of integers, each row's total near 2^51.

    Integers make weighted draws exact and equal on every device: masses add and subtract without rounding, so an
    excluded edge has exactly no mass left, and an edge of positive weight at least one unit.
    """
    cdf = np.empty(len(weight), dtype=np.int64)
    _quantise(indptr, weight, cdf)
    return cdf
