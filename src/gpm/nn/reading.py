"""The patterns of a batch with the features that they touch, gathered in time that does not grow with the graph."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

from gpm.nn.feature_table import FeatureTable
from gpm.patterns.tokenizer import Patterns

_thread = threading.local()  # holds `marks`, an entry per node, from one batch to the next: all zeros in between


@dataclass(frozen=True)
class Reading:
    """The patterns of some instances and the features that they touch, and no more of the graph."""

    patterns: Patterns  # their nodes and edges are rows of the table
    table: FeatureTable

    @classmethod
    def of(cls, patterns: Patterns, table: FeatureTable) -> Reading:
        """Gather what patterns touch from the table of the whole graph."""
        rows = patterns.table_rows(table.num_nodes).numpy()
        distinct, nodes = map(torch.from_numpy, index_nodes(rows, table.num_rows))
        patterns = replace(patterns, nodes=nodes, own=None)
        if patterns.edges is None or table.edge is None:
            part = table.take(distinct)
            part.exact = True
            return cls(patterns, part)
        ids = patterns.edges.long()
        crossed = ids >= 0
        taken = ids[crossed] if table.edge_row is None else table.edge_row[ids[crossed]]
        edges, inverse = torch.unique(taken, return_inverse=True)
        ids = torch.full(crossed.shape, -1, dtype=torch.int64).masked_scatter_(crossed, inverse)
        return cls(replace(patterns, edges=ids), table.take(distinct, edges))

    def to(self, device: torch.device | str) -> Reading:
        """Return the same on another device."""
        return Reading(self.patterns.to(device), self.table.to(device))


@njit(cache=True, nogil=True)
def _mark(nodes, marks, distinct):  # pragma: no cover - compiled
    count = 0
    for i in range(nodes.size):
        if nodes[i] >= 0 and marks[nodes[i]] == 0:
            marks[nodes[i]] = 1
            distinct[count] = nodes[i]
            count += 1
    return count


@njit(cache=True, nogil=True)
def _index(nodes, distinct, marks, inverse):  # pragma: no cover - compiled
    for i in range(distinct.size):
        marks[distinct[i]] = i + 1
    for i in range(nodes.size):
        inverse[i] = marks[nodes[i]] - 1 if nodes[i] >= 0 else -1
    for i in range(distinct.size):
        marks[distinct[i]] = 0


def index_nodes(nodes: NDArray, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct nodes `[U]`, ascending, and the index of each entry among them; -1 for a negative id."""
    flat = np.ascontiguousarray(nodes).reshape(-1)
    marks = getattr(_thread, "marks", None)
    if marks is None or len(marks) != count:
        marks = _thread.marks = np.zeros(count, dtype=np.int32 if count < 2**31 - 1 else np.int64)
    distinct = np.empty(min(flat.size, count), dtype=np.int64)
    distinct = np.sort(distinct[: _mark(flat, marks, distinct)])
    inverse = np.empty(flat.size, dtype=np.int64)
    _index(flat, distinct, marks, inverse)
    return distinct, inverse.reshape(nodes.shape)
