"""The distinct nodes of a batch, found in time that does not grow with the graph."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

import threading

import numpy as np
from numba import njit
from numpy.typing import NDArray

_held = threading.local()  # a number per node, kept from one batch to the next: all zeros in between


@njit(cache=True, nogil=True)
def _mark(nodes, marks, found):  # pragma: no cover - compiled
    count = 0
    for i in range(nodes.size):
        if nodes[i] >= 0 and marks[nodes[i]] == 0:
            marks[nodes[i]] = 1
            found[count] = nodes[i]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _place(nodes, distinct, marks, places):  # pragma: no cover - compiled
    for i in range(distinct.size):
        marks[distinct[i]] = i + 1
    for i in range(nodes.size):
        places[i] = marks[nodes[i]] - 1 if nodes[i] >= 0 else -1
    for i in range(distinct.size):
        marks[distinct[i]] = 0


def find_places(nodes: NDArray, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct numbers among some, ascending, and the place of each among them.

    Args:
        nodes: Numbers below `count`, of any shape; negative ones stand for nothing, and have place -1.
        count: How many there may be.

    Returns:
        The distinct numbers `[U]`, and their places in the shape of `nodes`.
    """
    flat = np.ascontiguousarray(nodes).reshape(-1)
    marks = getattr(_held, "marks", None)
    if marks is None or len(marks) != count:
        marks = _held.marks = np.zeros(count, dtype=np.int32 if count < 2**31 - 1 else np.int64)
    found = np.empty(min(flat.size, count), dtype=np.int64)
    distinct = np.sort(found[: _mark(flat, marks, found)])
    places = np.empty(flat.size, dtype=np.int64)
    _place(flat, distinct, marks, places)
    return distinct, places.reshape(nodes.shape)
