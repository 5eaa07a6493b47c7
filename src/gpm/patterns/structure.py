"""Structure: what a node's surroundings look like without its features, as a few columns of numbers."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.graph.graph import Graph
from gpm.patterns.walk_means import links_of

COLUMNS = (
    "degree (log)",
    "rank of the degree",
    "core number (log)",
    "clustering",
    "triangles (log)",
    "degree of the neighbours (log)",
    "return in 2 steps",
    "return in 3 steps",
)
MOST_WORK = 2e10  # steps that counting triangles may take: about a minute


def describe_structure(graph: Graph) -> NDArray[np.float32]:
    """Return the columns `COLUMNS` of every node, `[N, 8]`. Edges count in both directions, and once; no weights.

    Degrees, core numbers and triangles are logarithms, log(1 + x). The rank lies between 0 and 1 in each graph of a
    collection. Of a graph whose triangles would take long to count, their columns are 0.
    """
    both = links_of(graph)
    both.sort_indices()
    indptr, indices = both.indptr.astype(np.int64), both.indices.astype(np.int64)
    degree = np.diff(indptr)
    inverse = 1 / np.maximum(degree, 1)
    few = float(degree[indices].sum()) < MOST_WORK
    triangles, thirds = _count_triangles(indptr, indices, inverse) if few else np.zeros((2, len(degree)))
    columns = [
        np.log1p(degree),
        _rank(degree, graph),
        np.log1p(_find_cores(indptr, indices)),
        2 * triangles / np.maximum(degree * (degree - 1), 1),
        np.log1p(triangles),
        inverse * (both @ np.log1p(degree)),
        inverse * (both @ inverse),
        inverse * thirds,
    ]
    return np.column_stack(columns).astype(np.float32)


def _rank(degree: NDArray, graph: Graph) -> NDArray:
    """Return the share of nodes of the same graph that have a smaller degree, counting half of those with the same."""
    pointer = np.array([0, len(degree)]) if graph.graph_ptr is None else graph.graph_ptr
    owner = np.repeat(np.arange(len(pointer) - 1), np.diff(pointer))
    key = owner * (int(degree.max(initial=0)) + 1) + degree
    ordered = np.sort(key)
    first, last = (np.searchsorted(ordered, key, side) for side in ("left", "right"))
    return np.asarray(((first + last) / 2 - pointer[owner]) / np.maximum(np.diff(pointer)[owner], 1))


@njit(cache=True, nogil=True)
def _count_triangles(indptr, indices, inverse):  # pragma: no cover - compiled
    """Return the triangles at each node, and twice the sum over them of the product of the others' inverse degrees."""
    found = np.zeros((2, indptr.size - 1))
    for v in range(indptr.size - 1):
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if u <= v:
                continue
            a, b = e + 1, np.searchsorted(indices[indptr[u] : indptr[u + 1]], u + 1) + indptr[u]
            while a < indptr[v + 1] and b < indptr[u + 1]:  # common neighbours above both
                if indices[a] < indices[b]:
                    a += 1
                elif indices[a] > indices[b]:
                    b += 1
                else:
                    w = indices[a]
                    for node in (v, u, w):
                        found[0, node] += 1
                    found[1, v] += 2 * inverse[u] * inverse[w]
                    found[1, u] += 2 * inverse[v] * inverse[w]
                    found[1, w] += 2 * inverse[v] * inverse[u]
                    a += 1
                    b += 1
    return found


@njit(cache=True, nogil=True)
def _find_cores(indptr, indices):  # pragma: no cover - compiled
    """Return core numbers: nodes are removed by degree, the lowest first, from bins (Batagelj and Zaversnik)."""
    count = indptr.size - 1
    core = np.diff(indptr)
    most = core.max() if count else 0
    begin = np.zeros(most + 2, dtype=np.int64)
    for v in range(count):
        begin[core[v] + 1] += 1
    begin = np.cumsum(begin)
    order, place, filled = np.empty(count, np.int64), np.empty(count, np.int64), begin.copy()
    for v in range(count):
        place[v] = filled[core[v]]
        order[place[v]] = v
        filled[core[v]] += 1
    for i in range(count):
        v = order[i]
        for e in range(indptr[v], indptr[v + 1]):
            u = indices[e]
            if core[u] > core[v]:
                first = max(begin[core[u]], i + 1)
                w = order[first]
                order[first], order[place[u]] = u, w
                place[w], place[u] = place[u], first
                begin[core[u]] = first + 1
                core[u] -= 1
    return core
