"""Layout: positions of the nodes of a neighbourhood, and of a pattern."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

from gpm.patterns.draw_shapes import layout

_SMALL, _SPARSE = 60, 3  # a component is laid out with care up to so many nodes, and so many edges per node
_TURNS, _STEPS = 20, 60  # iterations towards the first positions, and from there to the last
_GAP = 1.0  # between components, in lengths of an edge


def place_nodes(num_nodes: int, edges: NDArray, starts: Sequence[int]) -> NDArray:
    """Place nodes in the unit square `[n, 2]`: neighbours near each other, components side by side.

    The same edges `[E, 2]`, each once, get the same positions, around the starts where the graph leaves a choice.
    The time grows with the square of the number of nodes.
    """
    if not num_nodes:
        return np.empty((0, 2))
    ends = np.concatenate([edges, edges[:, ::-1]]) if len(edges) else np.empty((0, 2), dtype=np.int64)
    matrix = sp.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(num_nodes, num_nodes))
    count, part = csgraph.connected_components(matrix, directed=False)
    members = [np.flatnonzero(part == i) for i in range(count)]
    members.sort(key=lambda nodes: (-len(nodes), int(nodes[0])))
    boxes = [_place_part(matrix[nodes][:, nodes], np.flatnonzero(np.isin(nodes, starts))) for nodes in members]
    points = np.empty((num_nodes, 2))
    for nodes, placed in zip(members, _pack(boxes), strict=True):
        points[nodes] = placed
    points -= (points.max(axis=0) + points.min(axis=0)) / 2
    return np.clip(0.5 + points / max(float(np.ptp(points, axis=0).max()), 1e-9), 0, 1)


def places(nodes: int, edges: Iterable[tuple[int, int]]) -> NDArray:
    """Place the nodes of a small graph around the origin `[n, 2]`, its longer side of length 1."""
    adjacency = np.zeros((nodes, nodes), dtype=np.bool_)
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = a != b
    points = layout(adjacency) - 0.5
    if nodes >= 5 and float(np.ptp(points[:, 1])) < 1e-6:  # a long path in zigzag, so that its edges have room
        rank = np.argsort(np.argsort(points[:, 0]))
        height = math.sqrt(max(0.35**2 - 1 / (nodes - 1) ** 2, 0.04))
        points[:, 1] = height * (rank % 2 - 0.5)
    return points


def nearest(points: NDArray, share: float = 0.0) -> float:
    """Return the distance of the nearest two nodes, or a quantile of the distances to the nearest; 1 for one node."""
    if len(points) < 2:
        return 1.0
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    np.fill_diagonal(distance, np.inf)
    return max(float(np.quantile(distance.min(axis=1), share)), 1e-6)


def _place_part(matrix: sp.csr_array, starts: NDArray) -> NDArray:
    """Place a connected component, with edges of about length 1."""
    n, edges = matrix.shape[0], matrix.nnz // 2
    careful = n <= _SMALL and edges <= _SPARSE * n
    points = layout(matrix.toarray() > 0) if careful else _spread(matrix, starts)
    source, target = matrix.nonzero()
    lengths = np.linalg.norm(points[source] - points[target], axis=1)
    return points / np.median(lengths) if len(lengths) else points


def _spread(matrix: sp.csr_array, starts: NDArray) -> NDArray:
    """Place nodes about as far apart as they are in the graph: stress majorisation with damped steps."""
    far = _distances(matrix)
    wish = np.where(far > 0, 1 / np.maximum(far, 1e-9) ** 2, 0)
    wish /= wish.sum(axis=1, keepdims=True)
    points = _unfold(far, _sunflower(matrix, starts))
    for _ in range(_STEPS):
        ratio = wish * far / np.maximum(cdist(points, points), 1e-6)
        points = (points + _times(wish - ratio, points) + ratio.sum(axis=1)[:, None] * points) / 2
    return points


def _unfold(far: NDArray, points: NDArray) -> NDArray:
    """Find the two directions in which a graph is longest, by classical scaling."""
    square = far**2
    mean = square.mean(axis=0)
    inner = (mean + mean[:, None] - square - mean.mean()) / 2
    inner[np.diag_indices_from(inner)] += 0.1 * square.mean()  # a straight path has no second direction
    stretch = np.ones(2)
    for _ in range(_TURNS):
        points = _times(inner, points)
        points[:, 1] -= points[:, 0] * (points[:, 0] @ points[:, 1]) / (points[:, 0] @ points[:, 0])
        stretch = np.linalg.norm(points, axis=0)
        points = points / stretch
    return np.asarray(points * np.sqrt(stretch))


def _times(matrix: NDArray, points: NDArray) -> NDArray:
    """Multiply; unlike BLAS, to the last bit the same for any number of threads."""
    return np.asarray(np.einsum("ij,jk->ik", matrix, points))


def _distances(matrix: sp.csr_array) -> NDArray:
    """Compute shortest paths `[n, n]`, where an edge is longer the fewer neighbours its ends share."""
    around = (matrix + sp.eye_array(matrix.shape[0])).tocsr()
    degree = around.sum(axis=1)
    source, target = matrix.nonzero()
    shared = np.asarray((around @ around)[source, target]).ravel()
    length = 2 - shared / (degree[source] + degree[target] - shared)
    return np.asarray(csgraph.dijkstra(sp.csr_array((length, (source, target)), shape=matrix.shape)))


def _sunflower(matrix: sp.csr_array, starts: NDArray) -> NDArray:
    """Place nodes in a spiral: the starts in the middle, the others farther out the farther they are."""
    roots = starts if len(starts) else np.array([int(np.argmax(matrix.sum(axis=1)))])
    hop = csgraph.dijkstra(matrix, unweighted=True, indices=roots, min_only=True)
    rank = np.empty(len(hop))
    rank[np.argsort(hop, kind="stable")] = np.arange(len(hop))
    angle = rank * np.pi * (3 - np.sqrt(5))
    return np.stack([np.sqrt(rank) * np.cos(angle), np.sqrt(rank) * np.sin(angle)], axis=1)


def _pack(parts: list[NDArray]) -> list[NDArray]:
    """Move components side by side, in rows from the top, the largest first."""
    sizes = [np.ptp(points, axis=0) + _GAP for points in parts]
    width = max(*(size[0] for size in sizes), 1.25 * np.sqrt(sum(size[0] * size[1] for size in sizes)))
    moved, x, y, height = [], 0.0, 0.0, 0.0
    for points, size in zip(parts, sizes, strict=True):
        if x and x + size[0] > width:
            x, y, height = 0.0, y - height, 0.0
        moved.append(points - [points[:, 0].min(), points[:, 1].max()] + [x, y])
        x, height = x + size[0], max(height, size[1])
    return moved
