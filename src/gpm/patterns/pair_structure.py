"""Structure of a pair of nodes: what leads from one to the other, in the graph without an edge between them."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.graph.graph import Graph
from gpm.patterns.walk_means import links_of

PAIR_COLUMNS = (
    "degrees (log)",
    "difference of degrees (log)",
    "common neighbours (log)",
    "Adamic-Adar (log)",
    "resource allocation (log)",
    "Jaccard",
    "paths of 3 steps (log)",
    "weighted paths of 3 steps (log)",
)
MOST_WORK = 100_000  # neighbours of neighbours to look at for a pair; of more, an even sample


@dataclass(frozen=True)
class PairStructure:
    """The links of a graph in both directions, once each and without loops: sorted rows."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]

    @classmethod
    def of(cls, graph: Graph) -> PairStructure:
        both = links_of(graph)
        both.sort_indices()
        return cls(both.indptr.astype(np.int64), both.indices.astype(np.int64))

    def take(self, pairs: NDArray[np.int64], hide: bool) -> NDArray[np.float32]:
        """Return the columns `PAIR_COLUMNS` of pairs, `[B, 8]`, the same for (u, v) and (v, u).

        With `hide` an edge between the two ends counts as absent. All but Jaccard are logarithms: of degrees the sum
        and the difference of log(1 + d), of the others log(1 + x). Paths of three steps are counted, and summed with
        the weight 1 / sqrt(d_a d_b) of the two nodes between.
        """
        found = np.zeros((len(pairs), len(PAIR_COLUMNS)))
        marks = np.zeros(len(self.indptr) - 1, dtype=np.bool_)
        _describe(self.indptr, self.indices, np.ascontiguousarray(pairs, dtype=np.int64), hide, MOST_WORK, marks, found)
        return found.astype(np.float32)


@njit(nogil=True)
def _has(indptr, indices, node, wanted):  # pragma: no cover - compiled
    at = indptr[node] + np.searchsorted(indices[indptr[node] : indptr[node + 1]], wanted)
    return at < indptr[node + 1] and indices[at] == wanted


@njit(nogil=True)
def _count_paths(indptr, indices, u, v, work, most, marks):  # pragma: no cover - compiled
    """Return the number of paths u, a, b, v, and their weight; neighbours of v are marked."""
    count, total, seen = 0.0, 0.0, 0
    every = 1 + work // most
    for e in range(indptr[u], indptr[u + 1]):
        a = indices[e]
        if a == v:
            continue
        seen += 1
        if (seen - 1) % every:
            continue
        mine, paths = 0.0, 0
        for f in range(indptr[a], indptr[a + 1]):
            b = indices[f]
            if marks[b] and b != u:
                paths += 1
                mine += (indptr[b + 1] - indptr[b]) ** -0.5
        count += paths
        total += mine * (indptr[a + 1] - indptr[a]) ** -0.5
    return count * every, total * every


@njit(cache=True, nogil=True)
def _describe(indptr, indices, pairs, hide, most, marks, found):  # pragma: no cover - compiled
    for row in range(len(pairs)):
        u, v = min(pairs[row, 0], pairs[row, 1]), max(pairs[row, 0], pairs[row, 1])
        gone = 1 if hide and _has(indptr, indices, u, v) else 0
        one, two = indptr[u + 1] - indptr[u] - gone, indptr[v + 1] - indptr[v] - gone
        common, adamic, allocated = 0, 0.0, 0.0
        i, j = indptr[u], indptr[v]
        while i < indptr[u + 1] and j < indptr[v + 1]:
            if indices[i] < indices[j]:
                i += 1
            elif indices[i] > indices[j]:
                j += 1
            else:
                degree = indptr[indices[i] + 1] - indptr[indices[i]]
                common += 1
                adamic += 1 / np.log(max(degree, 2))
                allocated += 1 / degree
                i += 1
                j += 1
        work = np.zeros(2, np.int64)  # from each end
        for side, end, other in ((0, u, v), (1, v, u)):
            for e in range(indptr[end], indptr[end + 1]):
                if indices[e] != other:
                    work[side] += indptr[indices[e] + 1] - indptr[indices[e]]
        start, stop = (u, v) if work[0] <= work[1] else (v, u)
        for e in range(indptr[stop], indptr[stop + 1]):
            marks[indices[e]] = indices[e] != start
        paths, weighted = _count_paths(indptr, indices, start, stop, work.min(), most, marks)
        for e in range(indptr[stop], indptr[stop + 1]):
            marks[indices[e]] = False
        found[row, 0] = np.log1p(one) + np.log1p(two)
        found[row, 1] = abs(np.log1p(one) - np.log1p(two))
        found[row, 2] = np.log1p(common)
        found[row, 3] = np.log1p(adamic)
        found[row, 4] = np.log1p(allocated)
        found[row, 5] = common / max(one + two - common, 1)
        found[row, 6] = np.log1p(paths)
        found[row, 7] = np.log1p(weighted)
