"""Walks on the CPU, by the compiled kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpm.compute import threads_for
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.patterns.walks import kernels
from gpm.patterns.walks.rule import WalkRule
from gpm.random_bits import make_key

_NO_WEIGHTS = np.empty(0, dtype=np.int64)
_NO_WEIGHTS.flags.writeable = False  # the same compiled type as a graph's own arrays


def walk(
    graph: Graph,
    starts: ArrayLike,
    numbers: ArrayLike,
    length: int,
    *,
    seed: int = 0,
    rule: WalkRule = WalkRule(),
    forbidden: ArrayLike | None = None,
    edges: bool = False,
    threads: int | None = None,
) -> tuple[NDArray, NDArray | None]:
    """Draw walks on the CPU. Walk j of node v under a seed is the same in any call and order.

    Args:
        graph: The graph to walk on.
        starts: Start nodes, any shape `S`.
        numbers: Indices j >= 0 of the walks of a node; broadcast against `starts`.
        length: Steps L of a walk; 0 gives the start alone.
        seed: Random seed.
        rule: The law of a step.
        forbidden: Per walk an edge `(a, b)`, shape `S + [2]` or `[2]`, treated as absent in both directions; negative
            for none. Under a second-order rule a call with `forbidden` draws other walks than one without, of the same
            law.
        edges: Also return the ids of the edges crossed.
        threads: Largest number of threads; by default numba's. The result does not depend on it.

    Returns:
        Nodes `S + [L+1]` and, on request, edge ids `S + [L]` (-1 where the walk stayed in place), else None.
    """
    begin, number, banned = _check_jobs(graph, starts, numbers, forbidden, length)
    shape, count = begin.shape, begin.size
    cdf = graph.edge_cdf if rule.weighted else None
    nodes = np.empty((count, length + 1), dtype=graph.indices.dtype)
    crossed = np.empty((count, length) if edges else (0, 0), dtype=np.int64)
    rows = graph.indptr, graph.indices, _NO_WEIGHTS if cdf is None else cdf
    jobs = begin.reshape(-1), number.reshape(-1), banned.reshape(-1, 2)
    key, out = np.uint64(make_key(seed)), (nodes, crossed)
    law = 1.0 / rule.p, 1.0 / rule.q, rule.non_backtracking, rule.second_order, graph.is_simple
    bare = cdf is None and not banned.size
    serial, threaded = kernels.walk_ruled, kernels.walk_ruled_parallel
    if bare and not rule.second_order:
        serial, threaded = kernels.walk_uniform, kernels.walk_uniform_parallel
    elif bare and graph.is_simple and not graph.census.directed:
        serial, threaded = kernels.walk_plain, kernels.walk_plain_parallel
    with threads_for(threads, count) as parallel:
        if parallel:
            threaded(rows, jobs, key, law, out)
        else:
            serial(rows, jobs, key, law, 0, count, out)
    if edges and graph.edge_ids is not None and len(graph.edge_ids):
        crossed = np.where(crossed < 0, -1, graph.edge_ids[crossed]).astype(np.int64)
    return nodes.reshape(*shape, length + 1), crossed.reshape(*shape, length) if edges else None


def has_edge(graph: Graph, source: ArrayLike, target: ArrayLike) -> NDArray[np.bool_]:
    """Return whether the graph has the edges from `source` to `target` (broadcast)."""
    a, b = np.broadcast_arrays(_integers(source, "source"), _integers(target, "target"))
    if a.size and not (min(a.min(), b.min()) >= 0 and max(a.max(), b.max()) < graph.num_nodes):
        raise GpmError(f"An end of an edge is outside 0 to {graph.num_nodes - 1}.")
    found = np.empty(a.size, dtype=np.bool_)
    kernels.has_edges(graph.indptr, graph.indices, a.ravel(), b.ravel(), found)
    return found.reshape(a.shape)


def _check_jobs(
    graph: Graph, starts: ArrayLike, numbers: ArrayLike, forbidden: ArrayLike | None, length: int
) -> tuple[NDArray, NDArray, NDArray]:
    begin, number = _integers(starts, "starts"), _integers(numbers, "numbers")
    shape = np.broadcast_shapes(begin.shape, number.shape)
    if number.size and number.min() < 0:
        raise GpmError(f"numbers must not be negative, got {number.min()}.")
    if length < 0:
        raise GpmError(f"The length of a walk must not be negative, got {length}.")
    if begin.size and not (int(begin.min()) >= 0 and int(begin.max()) < graph.num_nodes):
        bad = int(begin[(begin < 0) | (begin >= graph.num_nodes)].flat[0])
        raise GpmError(f"No start node {bad}: nodes are numbered 0 to {graph.num_nodes - 1}.")
    banned = np.empty((0, 2), dtype=np.int64)
    if forbidden is not None and begin.size:
        banned = _integers(forbidden, "forbidden")
        if banned.ndim not in (1, len(shape) + 1) or banned.shape[-1] != 2:
            raise GpmError(f"forbidden must have shape [2] or {[*shape, 2]}, got {list(banned.shape)}.")
        banned = _spread(banned, (*shape, 2))
    return _spread(begin, shape), _spread(number, shape), banned


def _integers(values: ArrayLike, name: str) -> NDArray:
    array = np.asarray(values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise GpmError(f"{name} must be integers, got {array.dtype}.")
    return array


def _spread(values: NDArray, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Broadcast values to a shape, as contiguous int64; copy only if necessary."""
    spread = values if values.shape == shape else np.array(np.broadcast_to(values, shape), order="C")
    return np.ascontiguousarray(spread, dtype=np.int64).reshape(shape)
