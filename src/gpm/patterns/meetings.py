"""Marks: where the patterns of a link's two endpoints meet.

Every position of a walk from one endpoint is marked by its distance from the other endpoint:

    0      neither a neighbour of the other endpoint nor on any of its walks
    1      the other endpoint itself
    2      a neighbour of it
    1 + s  first reached by its walks after s steps, s = 2, 3, ...

so that patterns show common neighbours, open triangles and short detours. The link's own edge is ignored if forbidden.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpm.compute import threads_for
from gpm.graph.graph import Graph
from gpm.patterns.walks.kernels import contains
from gpm.random_bits import mix

PAIRS = 32  # pairs per chunk of work of a thread


def count_marks(longest: int) -> int:
    """Return the number of different marks for walks of at most that many steps."""
    return max(longest, 1) + 2  # whether the ends are neighbours shows even without a step


def mark_meetings(
    graph: Graph,
    nodes: NDArray,
    sides: NDArray,
    ends: NDArray[np.int64],
    *,
    forbid: bool = False,
    threads: int | None = None,
) -> NDArray[np.int8]:
    """Mark every position of the patterns `[B, M, S]` of links `[B, 2]`; the mark past the end of a pattern is 0.

    `sides [M]` is the endpoint at which the patterns of a slot start. With `forbid` the link itself counts as absent.
    """
    marks = np.zeros(nodes.shape, dtype=np.int8)
    rows = graph.indptr, graph.indices, graph.census.directed
    side, ends = np.ascontiguousarray(sides, dtype=np.int64), np.ascontiguousarray(ends, dtype=np.int64)
    with threads_for(threads, nodes.shape[0] * nodes.shape[1]) as parallel:
        if parallel:
            _mark_parallel(rows, nodes, side, ends, forbid, marks)
        else:
            _mark(rows, nodes, side, ends, forbid, 0, len(nodes), marks)
    return marks


@njit(nogil=True)
def _place(node, keys):  # pragma: no cover - compiled
    """Return the slot of a node in a hash table of keys, or the free slot for it."""
    last = keys.size - 1
    at = np.int64(mix(np.uint64(node)) & np.uint64(last))
    while keys[at] >= 0 and keys[at] != node:
        at = (at + 1) & last
    return at


@njit(nogil=True)
def _is_neighbour(rows, node, other):  # pragma: no cover - compiled
    indptr, indices, directed = rows
    return contains(indptr, indices, node, other) or (directed and contains(indptr, indices, other, node))


@njit(cache=True, nogil=True)
def _mark(rows, nodes, sides, ends, forbid, first, last, marks):  # pragma: no cover - compiled
    slots, positions = nodes.shape[1], nodes.shape[2]
    size = 4
    while size < 2 * slots * positions:
        size *= 2
    keys, steps = np.empty(size, np.int64), np.empty(size, np.int64)
    for pair in range(first, last):
        for side in range(2):
            keys[:] = -1
            for slot in range(slots):
                if sides[slot] == side:
                    continue
                for step in range(positions):
                    node = nodes[pair, slot, step]
                    if node < 0:
                        break
                    at = _place(node, keys)
                    if keys[at] < 0 or steps[at] > step:
                        keys[at], steps[at] = node, step
            own, other = ends[pair, side], ends[pair, 1 - side]
            for slot in range(slots):
                if sides[slot] != side:
                    continue
                for step in range(positions):
                    node = nodes[pair, slot, step]
                    if node < 0:
                        break
                    if node == other:
                        marks[pair, slot, step] = 1
                    elif not (forbid and node == own) and _is_neighbour(rows, node, other):
                        marks[pair, slot, step] = 2
                    else:
                        at = _place(node, keys)
                        marks[pair, slot, step] = 0 if keys[at] < 0 else 1 + max(2, steps[at])


@njit(cache=True, parallel=True)
def _mark_parallel(rows, nodes, sides, ends, forbid, marks):  # pragma: no cover - compiled
    count = nodes.shape[0]
    for chunk in prange((count + PAIRS - 1) // PAIRS):
        _mark(rows, nodes, sides, ends, forbid, chunk * PAIRS, min(count, (chunk + 1) * PAIRS), marks)
