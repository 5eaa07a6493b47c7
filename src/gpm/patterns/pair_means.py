r"""Walk means of the two ends of a link, in the graph without the link itself.

Without the edges between u and v only two rows of the walk law P change. With the weight :math:`w` of the edge from u
to v, the weight :math:`l` of a loop at u, and the degrees :math:`d` and :math:`d' = d - w`, the means over walks of t
steps are :math:`m^0_u = x_u` and

.. math:: m^t_u = \frac{1}{d'_u} \Big( \sum_{a \ne u, v} w_{ua} m^{t-1}_a + l \, m^{t-1}_u \Big)

Those of any other node a change from the third step on, and by what comes back through u or v:
:math:`m^2_a = (P^2 X)_a + P_{au} (m^1_u - (PX)_u) + P_{av} (m^1_v - (PX)_v)`. So three steps are exact, from the means
of the whole graph and a few sums over the rows of u and v.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.graph.graph import Graph
from gpm.patterns.walk_means import walk_law, walk_means, weight_matrix

MOST_STEPS = 3


@dataclass(frozen=True)
class PairMeans:
    """The means of columns over all walks of 0, 1, ... steps from every node, and what taking a link out needs."""

    means: NDArray[np.float32]  # P^t X for t = 0, 1, ... [N, steps + 1, k]
    indptr: NDArray[np.int64]  # rows of weights, sorted, each neighbour once
    indices: NDArray[np.int64]
    weight: NDArray[np.float64]
    degree: NDArray[np.float64]  # sum of the weights of a row [N]
    returned: NDArray[np.float64]  # weight of walks of two steps that return by another node [N]

    @classmethod
    def of(cls, graph: Graph, x: NDArray, steps: int) -> PairMeans:
        """Compute the means of columns x `[N, k]`; at most 3 steps."""
        means = np.stack(walk_means(graph, np.asarray(x, dtype=np.float32), steps), axis=1)
        weights = weight_matrix(graph).copy()
        weights.sum_duplicates()
        degree, loops = np.asarray(weights.sum(1)).reshape(-1), weights.diagonal()
        back = np.asarray(weights.multiply(walk_law(graph).T).sum(1)).reshape(-1)
        returned = back - loops * loops / np.where(degree > 0, degree, 1.0)
        rows = weights.indptr.astype(np.int64), weights.indices.astype(np.int64), weights.data.astype(np.float64)
        return cls(means, *rows, degree, returned)

    @property
    def width(self) -> int:
        """Number of columns of one end: those of all steps."""
        return int(np.prod(self.means.shape[1:]))

    def take(self, pairs: NDArray[np.int64], hide: bool) -> NDArray[np.float32]:
        """Return the means of both ends `[B, 2, width]`; with `hide` as if the edges between them were not there."""
        if not hide:
            return self.means[pairs].reshape(len(pairs), 2, self.width)
        found = np.empty((len(pairs), 2, *self.means.shape[1:]))
        rows = self.indptr, self.indices, self.weight, self.degree, self.returned
        _take(rows, self.means, np.ascontiguousarray(pairs, dtype=np.int64), found)
        return found.reshape(len(pairs), 2, self.width).astype(np.float32)


@njit(nogil=True)
def _weigh(indptr, indices, weight, node, wanted):  # pragma: no cover - compiled
    """Return the weight of an edge; 0 if there is none."""
    at = indptr[node] + np.searchsorted(indices[indptr[node] : indptr[node + 1]], wanted)
    return weight[at] if at < indptr[node + 1] and indices[at] == wanted else 0.0


@njit(nogil=True)
def _add_others(rows, node, other, means, t, out):  # pragma: no cover - compiled
    """Sum weight times mean of t - 1 steps over the neighbours of a node, without itself and the other end."""
    indptr, indices, weight, degree, _ = rows
    own, loop = _weigh(indptr, indices, weight, node, other), _weigh(indptr, indices, weight, node, node)
    if own + loop <= 0.5 * degree[node]:
        for k in range(out.size):
            out[k] = degree[node] * means[node, t, k] - loop * means[node, t - 1, k] - own * means[other, t - 1, k]
        return
    out[:] = 0.0  # little is left: a difference would have lost its digits
    for e in range(indptr[node], indptr[node + 1]):
        a = indices[e]
        if a != node and a != other:
            for k in range(out.size):
                out[k] += weight[e] * means[a, t - 1, k]


@njit(nogil=True)
def _degree_without(rows, node, other):  # pragma: no cover - compiled
    indptr, indices, weight, degree, _ = rows
    own = _weigh(indptr, indices, weight, node, other)
    if own <= 0.5 * degree[node]:
        return degree[node] - own
    left = 0.0
    for e in range(indptr[node], indptr[node + 1]):
        if indices[e] != other:
            left += weight[e]
    return left


@njit(nogil=True)
def _cross(rows, node, other):  # pragma: no cover - compiled
    """Return the weight of walks of two steps from one end to the other, by a node that is neither."""
    indptr, indices, weight, degree, _ = rows
    total = 0.0
    for e in range(indptr[node], indptr[node + 1]):
        a = indices[e]
        if a != node and a != other and degree[a] > 0:
            total += weight[e] * _weigh(indptr, indices, weight, a, other) / degree[a]
    return total


@njit(cache=True, nogil=True)
def _take(rows, means, pairs, found):  # pragma: no cover - compiled
    indptr, indices, weight, degree, returned = rows
    steps, width = found.shape[2] - 1, found.shape[3]
    for b in range(len(pairs)):
        if pairs[b, 0] == pairs[b, 1]:  # no link
            found[b, 0] = found[b, 1] = means[pairs[b, 0]]
            continue
        for t in range(steps + 1):
            for side in range(2):
                u, v = pairs[b, side], pairs[b, 1 - side]
                left = _degree_without(rows, u, v)
                out = found[b, side, t]
                if t == 0 or not left > 0:  # a walk without an exit stays
                    out[:] = means[u, 0]
                    continue
                loop = _weigh(indptr, indices, weight, u, u)
                _add_others(rows, u, v, means, t, out)
                if t == 3:
                    back = returned[u]
                    if degree[v] > 0:
                        own, mirrored = _weigh(indptr, indices, weight, u, v), _weigh(indptr, indices, weight, v, u)
                        back -= own * mirrored / degree[v]
                    through = _cross(rows, u, v)
                    for k in range(width):
                        out[k] += back * (found[b, side, 1, k] - means[u, 1, k])
                        out[k] += through * (found[b, 1 - side, 1, k] - means[v, 1, k])
                for k in range(width):
                    out[k] = (out[k] + loop * found[b, side, t - 1, k]) / left
