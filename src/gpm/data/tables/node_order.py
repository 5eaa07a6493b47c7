"""Order the nodes on disk so that nodes that walks visit together are close, and fewer pages are read."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.data.tables.external_sort import MOST, sort_columns
from gpm.data.tables.write_edges import map_part, write_sums
from gpm.graph.folder import GraphWriter

_GROUP, _ROUNDS = 256, 3  # maximum nodes of a group, and how often each node may choose its group


def find_order(kind: str, indptr: NDArray, indices: NDArray, graph_ptr: NDArray | None = None) -> NDArray[np.int64]:
    """Return the nodes in another order `[N]`; in a collection each graph keeps its position.

    "degree" sorts by descending degree. "locality" forms groups of nodes that share most of their edges: each node
    joins the group of most of its neighbours, a few times. Groups are in the order in which a breadth-first search from
    the first node finds them, component by component; within a group nodes are sorted by descending degree. It takes
    time in proportion to the edges.
    """
    degree = np.diff(indptr)
    if kind == "locality":
        group = _group(indptr, indices, _GROUP, _ROUNDS)
        first = np.full(len(group), len(group), dtype=np.int64)  # rank of the first node of each group in the search
        np.minimum.at(first, group, rank_of(_search(indptr, indices)))
        return np.lexsort((-degree, first[group]))
    if kind != "degree":
        raise ValueError(kind)
    sizes = [len(degree)] if graph_ptr is None else np.diff(graph_ptr)
    return np.lexsort((-degree, np.repeat(np.arange(len(sizes)), sizes)))


def reorder_rows(writer: GraphWriter, order: NDArray[np.int64]) -> None:
    """Reorder the rows of a graph that is being written, some millions of entries at a time."""
    indptr = np.array(map_part(writer.path("indptr")))
    rank = rank_of(order)
    there = [key for key in ("indices", "edge_ids", "edge_weight") if writer.path(key).exists()]
    moved = {key: writer.path(key).rename(writer.scratch / f"given-{key}.npy") for key in there}
    old = {key: map_part(path) for key, path in moved.items()}
    with ExitStack() as stack:
        new = {key: stack.enter_context(writer.grow(key, array.dtype)) for key, array in old.items()}
        for entries, columns in _permuted(indptr, old["indices"], order, rank, with_index=len(there) > 1):
            for key in there:
                new[key].append(columns if key == "indices" else old[key][entries])
    indptr = np.concatenate([[0], np.cumsum(np.diff(indptr)[order])])
    writer.put("indptr", indptr)
    if "edge_weight" in there:
        write_sums(writer, indptr)
    del old
    for path in moved.values():
        path.unlink()


def rank_of(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the new number of each node `[N]`."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank


def _permuted(
    indptr: NDArray, indices: NDArray, order: NDArray, rank: NDArray, *, with_index: bool
) -> Iterator[tuple[NDArray, NDArray]]:
    """Yield the entries of the new rows, some rows at a time: their old index, if `with_index`, and their columns."""
    degree = np.diff(indptr)[order]
    stop, bits = np.cumsum(degree), max(1, (len(order) - 1).bit_length())
    row = done = 0
    while row < len(order):
        end = max(row + 1, int(np.searchsorted(stop, done + MOST, side="right")))
        count = degree[row:end]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        index = np.repeat(indptr[order[row:end]], count) + within
        key = (np.repeat(np.arange(len(count)), count) << bits) | rank[indices[index]]
        entries = sort_columns({"key": key} | ({"row": np.arange(len(key))} if with_index else {}))
        yield index[entries["row"]] if with_index else index[:0], entries["key"] & ((1 << bits) - 1)
        row, done = end, int(stop[end - 1])


@njit(cache=True, nogil=True)
def _search(indptr, indices):  # pragma: no cover - compiled
    """Return the nodes in breadth-first order, restarting at the first node not visited."""
    count = indptr.size - 1
    order, seen = np.empty(count, np.int64), np.zeros(count, np.bool_)
    head = tail = 0
    for start in range(count):
        if seen[start]:
            continue
        seen[start] = True
        order[tail] = start
        tail += 1
        while head < tail:
            v = order[head]
            head += 1
            for i in range(indptr[v], indptr[v + 1]):
                u = indices[i]
                if not seen[u]:
                    seen[u] = True
                    order[tail] = u
                    tail += 1
    return order


@njit(cache=True, nogil=True)
def _group(indptr, indices, most, rounds):  # pragma: no cover - compiled
    """Return the group of each node: one by one, nodes join the group of most of their neighbours that has space."""
    count = indptr.size - 1
    group, size = np.arange(count), np.ones(count, np.int64)
    votes, voted = np.zeros(count, np.int64), np.empty(count, np.int64)
    for _ in range(rounds):
        for v in range(count):
            kinds = 0
            for i in range(indptr[v], indptr[v + 1]):
                other = group[indices[i]]
                if votes[other] == 0:
                    voted[kinds] = other
                    kinds += 1
                votes[other] += 1
            best = group[v]
            for k in range(kinds):
                if votes[voted[k]] > votes[best] and size[voted[k]] < most:
                    best = voted[k]
            for k in range(kinds):
                votes[voted[k]] = 0
            size[group[v]] -= 1
            size[best] += 1
            group[v] = best
    return group
