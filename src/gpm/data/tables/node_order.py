"""The order of the nodes on disk: nodes that walks visit together lie near each other, so that fewer pages are read."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.data.tables.external_sort import MOST, sort_columns
from gpm.data.tables.write_csr import map_part, write_sums
from gpm.graph.folder import GraphWriter

_GROUP, _ROUNDS = 256, 3  # nodes of a group at most, and how often each node may choose its group


def find_order(kind: str, indptr: NDArray, indices: NDArray, graph_ptr: NDArray | None = None) -> NDArray[np.int64]:
    """The nodes in another order `[N]`; in a collection each graph keeps its place.

    Args:
        kind: "degree" begins with the nodes of most edges. "locality" puts groups of nodes side by side that have most
            of their edges in common: each node joins the group of most of its neighbours, a few times over. Groups come
            as a breadth-first search from the first node finds them, component by component, and within a group nodes
            come by falling degree. It takes time in proportion to the edges.
        indptr, indices: The rows of the graph.
        graph_ptr: Bounds of the graphs of a collection.
    """
    degree = np.diff(indptr)
    if kind == "locality":
        found = _search(indptr, indices)
        group = _group(indptr, indices, _GROUP, _ROUNDS)
        return np.lexsort((-degree, _first_places(group, found)[group]))
    if kind != "degree":
        raise ValueError(kind)
    sizes = [len(degree)] if graph_ptr is None else np.diff(graph_ptr)
    return np.lexsort((-degree, np.repeat(np.arange(len(sizes)), sizes)))


def reorder_rows(writer: GraphWriter, order: NDArray[np.int64]) -> None:
    """Put the rows of a graph that is being written into another order, some millions of entries at a time.

    Args:
        writer: Of a folder that has `indptr` and `indices`, and maybe `edge_ids`, `edge_weight` and `edge_cdf`.
        order: The nodes in their new order.
    """
    indptr = np.array(map_part(writer.path("indptr")))
    rank = rank_of(order)
    there = [key for key in ("indices", "edge_ids", "edge_weight") if writer.path(key).exists()]
    for key in there:
        writer.path(key).rename(_old(writer, key))
    old = {key: map_part(_old(writer, key)) for key in there}
    new = {key: writer.grow(key, array.dtype) for key, array in old.items()}
    try:
        for entries, columns in _permuted(indptr, old["indices"], order, rank, with_places=len(there) > 1):
            for key in there:
                new[key].append(columns if key == "indices" else old[key][entries])
    finally:
        for file in new.values():
            file.close()
    moved = np.concatenate([[0], np.cumsum(np.diff(indptr)[order])])
    writer.put("indptr", moved)
    if "edge_weight" in there:
        write_sums(writer, moved)
    del old
    for key in there:
        _old(writer, key).unlink()


def rank_of(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The new number of each node `[N]`."""
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank


def _old(writer: GraphWriter, key: str) -> Path:
    return writer.scratch / f"given-{key}.npy"


def _permuted(
    indptr: NDArray, indices: NDArray, order: NDArray, rank: NDArray, *, with_places: bool
) -> Iterator[tuple[NDArray, NDArray]]:
    """The entries of the new rows, some rows at a time: where they stood, if that is asked for, and their columns."""
    degree = np.diff(indptr)[order]
    stop, bits = np.cumsum(degree), max(1, (len(order) - 1).bit_length())
    row = done = 0
    while row < len(order):
        end = max(row + 1, int(np.searchsorted(stop, done + MOST, side="right")))
        count = degree[row:end]
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        places = np.repeat(indptr[order[row:end]], count) + within
        key = (np.repeat(np.arange(len(count)), count) << bits) | rank[indices[places]]
        entries = sort_columns({"key": key} | ({"row": np.arange(len(key))} if with_places else {}))
        yield places[entries["row"]] if with_places else places[:0], entries["key"] & ((1 << bits) - 1)
        row, done = end, int(stop[end - 1])


def _first_places(group: NDArray, found: NDArray) -> NDArray[np.int64]:
    """The place of each group: that of the first of its nodes that is found."""
    first = np.full(len(group), len(group), dtype=np.int64)
    np.minimum.at(first, group, rank_of(found))
    return first


@njit(cache=True, nogil=True)
def _search(indptr, indices):  # pragma: no cover - compiled
    """The nodes as a breadth-first search finds them, which begins anew at the first that is left."""
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
    """The group of each node: one by one they join that of most of their neighbours which has room."""
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
