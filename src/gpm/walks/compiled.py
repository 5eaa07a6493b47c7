"""Walks on the CPU, compiled by numba, written for memory latency.

On a graph larger than the cache a walk is a chain of cache misses. A block of walks therefore advances one step at a
time, in short loops that each do one thing (read row pointers; draw; read columns), so that many misses are under
way at once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numba
import numpy as np
from numba import njit, prange
from numpy.typing import ArrayLike, NDArray

from gpm.errors import GpmError
from gpm.graph import Graph
from gpm.hashing import GOLDEN_U, make_key, mix
from gpm.walks.rule import WalkRule

BLOCK = 256  # walks that advance together; speed is flat from 128 to 512
CHUNK = 4 * BLOCK  # walks handed to a thread at once
_LOW = np.uint64(0xFFFFFFFF)
_32, _12, _ONE = np.uint64(32), np.uint64(12), np.uint64(1)
_UNIT = 2.0**-52

_lock = threading.Lock()  # numba's fallback threading layer must not be entered twice
_owner = os.getpid()  # and OpenMP must not be entered in a forked child

# --------------------------------------------------------------------------------------------------------------------
# Compiled code. W walks of L steps; `rows` = (indptr, indices, cdf or empty), `jobs` = (starts [W], numbers [W],
# forbidden [W, 2] or empty), `out` = (nodes [W, L+1], edges [W, L] or empty), `law` = (1/p, 1/q, turn back only at dead
# ends, look back at all).


@njit(nogil=True)
def _bits(state, step, draw):  # pragma: no cover - compiled
    return mix(state + ((np.uint64(step) << _32) + np.uint64(draw) + _ONE) * GOLDEN_U)


@njit(nogil=True)
def _unit(bits):  # pragma: no cover - compiled
    return np.float64(bits >> _12) * _UNIT  # 52 bits, so that the product with any mass stays below that mass


@njit(nogil=True)
def _draw(bits, mass, weighted):  # pragma: no cover - compiled
    if weighted:
        return np.int64(_unit(bits) * np.float64(mass))
    count = np.uint64(mass)
    return np.int64(((bits >> _32) * count + (((bits & _LOW) * count) >> _32)) >> _32)


@njit(nogil=True)
def _lower(values, low, high, wanted):  # pragma: no cover - compiled
    """First position in [low, high) whose value is not below the wanted one."""
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True)
def _run_end(values, first, high, wanted):  # pragma: no cover - compiled
    """One past the last of the entries from `first` on that equal the wanted one."""
    while first < high and values[first] == wanted:
        first += 1
    return first


@njit(nogil=True)
def contains(indptr, indices, node, wanted):  # pragma: no cover - compiled
    stop = indptr[node + 1]
    at = _lower(indices, indptr[node], stop, wanted)
    return at < stop and indices[at] == wanted


@njit(nogil=True)
def _bisect(values, low, size, wanted, count):  # pragma: no cover - compiled
    """`_lower` for `count` searches in step: `low` becomes the answer. `size` is used up.

    Without branches, so that nothing is mispredicted and the loads of a round are under way together.
    """
    longest = 0
    for i in range(count):
        longest = max(longest, size[i])
    while longest > 1:
        for i in range(count):
            half = size[i] >> 1
            probe = max(low[i] + half - 1, 0)
            low[i] += half if values[np.uint64(probe)] < wanted[i] else 0
            size[i] -= half
        longest -= longest >> 1
    for i in range(count):
        low[i] += np.int64(size[i] > 0 and values[low[i]] < wanted[i])


@njit(nogil=True)
def _mass(cdf, weighted, start, at):  # pragma: no cover - compiled
    """Mass of a row's entries before `at`."""
    if not weighted:
        return at - start
    return cdf[at - 1] if at > start else np.int64(0)


@njit(nogil=True)
def _start(jobs, key, first, now, state, nodes):  # pragma: no cover - compiled
    starts, numbers, _ = jobs
    for i in range(now.size):
        now[i] = starts[first + i]
        state[i] = mix(mix(key ^ np.uint64(now[i])) + np.uint64(numbers[first + i]))
        nodes[first + i, 0] = now[i]


@njit(cache=True, nogil=True)
def _walk_uniform(rows, jobs, key, first, last, out):  # pragma: no cover - compiled
    indptr, indices, _ = rows
    nodes, edges = out
    all_now, all_state = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.uint64)
    at, degree = np.empty(BLOCK, np.int64), np.empty(BLOCK, np.int64)
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        now, state = all_now[:size], all_state[:size]
        _start(jobs, key, block, now, state, nodes)
        for step in range(nodes.shape[1] - 1):
            for i in range(size):
                begin = indptr[now[i]]
                at[i] = begin
                degree[i] = indptr[now[i] + 1] - begin
            for i in range(size):
                at[i] += _draw(_bits(state[i], step, 0), degree[i], False)
            for i in range(size):
                if degree[i] > 0:
                    now[i] = indices[at[i]]
            for i in range(size):
                nodes[block + i, step + 1] = now[i]
            if edges.size:
                for i in range(size):
                    edges[block + i, step] = at[i] if degree[i] > 0 else -1


@njit(cache=True, nogil=True)
def _open_step(rows, law, block, ints, floats):  # pragma: no cover - compiled
    """Weigh the exits of every walk of a block; list the walks that have one. Returns their number.

    The edge back is weighed apart from the others, which it may outweigh by far. Masses are integers, so that what is
    taken away (a forbidden edge, the edge back) leaves exactly nothing.
    """
    _, indices, cdf = rows
    back, far, turn, _ = law
    weighted = cdf.size > 0
    _, came_from, banned, begin, stop, before_f, mass_f, before_b, mass_b, rest, at, open_, low, size, _, _, _ = ints
    weight_b, total, _ = floats
    if came_from[0] >= 0:
        for i in range(block):
            low[i], size[i] = begin[i], stop[i] - begin[i]
        _bisect(indices, low, size, came_from, block)
    count = np.int64(0)
    for i in range(block):
        before_f[i] = mass_f[i] = before_b[i] = mass_b[i] = 0
        if banned[i] >= 0:
            first = _lower(indices, begin[i], stop[i], banned[i])
            before_f[i] = _mass(cdf, weighted, begin[i], first)
            end = _run_end(indices, first, stop[i], banned[i])
            mass_f[i] = _mass(cdf, weighted, begin[i], end) - before_f[i]
        if came_from[i] >= 0 and came_from[i] != banned[i]:
            before_b[i] = _mass(cdf, weighted, begin[i], low[i])
            end = _run_end(indices, low[i], stop[i], came_from[i])
            mass_b[i] = _mass(cdf, weighted, begin[i], end) - before_b[i]
        rest[i] = _mass(cdf, weighted, begin[i], stop[i]) - mass_f[i] - mass_b[i]
        weight_b[i] = 0.0 if turn and rest[i] > 0 else np.float64(mass_b[i]) * back
        total[i] = weight_b[i] + np.float64(rest[i]) * max(1.0, far)
        at[i] = -1
        open_[count] = i
        count += np.int64(total[i] > 0)
    return count


@njit(cache=True, nogil=True)
def _draw_step(rows, law, count, step, state, ints, floats):  # pragma: no cover - compiled
    """Draw an exit for each of the `count` open walks: position in `indices`, by rejection until all have one.

    A neighbour test is made only where the draw depends on it.
    """
    indptr, indices, cdf = rows
    far = law[1]
    weighted = cdf.size > 0
    ceiling, floor = max(1.0, far), min(1.0, far)
    _, came_from, _, begin, stop, before_f, mass_f, before_b, mass_b, rest, at, open_, low, size, wanted, test, end = (
        ints
    )
    weight_b, total, luck = floats
    draw = 0
    while count > 0:
        for k in range(count):
            i = open_[k]
            bits = _bits(state[i], step, draw)
            if weight_b[i] > 0 and _unit(_bits(state[i], step, draw + 1)) * total[i] < weight_b[i]:
                r = before_b[i] + _draw(bits, mass_b[i], weighted)
                luck[k] = -1.0  # certain
            else:
                r = _draw(bits, rest[i], weighted)
                first_f = before_f[i] <= before_b[i]
                r += mass_f[i] if first_f and r >= before_f[i] else 0
                r += mass_b[i] if r >= before_b[i] else 0
                r += mass_f[i] if not first_f and r >= before_f[i] else 0
                certain = came_from[i] < 0 or ceiling == floor
                luck[k] = -1.0 if certain else _unit(_bits(state[i], step, draw + 2)) * ceiling
            at[i] = begin[i] + r
            low[k], size[k], wanted[k] = begin[i], stop[i] - begin[i], r + 1
        if weighted:
            _bisect(cdf, low, size, wanted, count)
            for k in range(count):
                at[open_[k]] = low[k]
        tests = np.int64(0)
        for k in range(count):
            test[tests] = k
            tests += np.int64(luck[k] >= floor)
        for j in range(tests):
            i = open_[test[j]]
            wanted[j] = indices[at[i]]
            low[j] = indptr[came_from[i]]
            end[j] = indptr[came_from[i] + 1]
            size[j] = end[j] - low[j]
        _bisect(indices, low, size, wanted, tests)
        count = np.int64(0)
        for j in range(tests):
            near = low[j] < end[j] and indices[low[j]] == wanted[j]
            open_[count] = open_[test[j]]
            count += np.int64(luck[test[j]] >= (1.0 if near else far))
        draw += 3


@njit(cache=True, nogil=True)
def _walk_ruled(rows, jobs, key, law, first, last, out):  # pragma: no cover - compiled
    indptr, indices, _ = rows
    forbidden = jobs[2]
    nodes, edges = out
    ints, floats, state = np.empty((17, BLOCK), np.int64), np.empty((3, BLOCK)), np.empty(BLOCK, np.uint64)
    now, came_from, banned, begin, stop, at = ints[0], ints[1], ints[2], ints[3], ints[4], ints[10]
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        _start(jobs, key, block, now[:size], state[:size], nodes)
        came_from[:] = -1
        banned[:] = -1
        for step in range(nodes.shape[1] - 1):
            for i in range(size):
                begin[i] = indptr[now[i]]
                stop[i] = indptr[now[i] + 1]
            if forbidden.size:
                for i in range(size):
                    a, b = forbidden[block + i, 0], forbidden[block + i, 1]
                    banned[i] = b if now[i] == a else (a if now[i] == b else -1)
            count = _open_step(rows, law, size, ints, floats)
            _draw_step(rows, law, count, step, state, ints, floats)
            if law[3]:
                came_from[:size] = now[:size]
            for i in range(size):
                if at[i] >= 0:
                    now[i] = indices[at[i]]
            for i in range(size):
                nodes[block + i, step + 1] = now[i]
                if edges.size:
                    edges[block + i, step] = at[i]


@njit(cache=True, parallel=True)
def _walk_uniform_parallel(rows, jobs, key, out):  # pragma: no cover - compiled
    count = jobs[0].size
    for chunk in prange((count + CHUNK - 1) // CHUNK):
        _walk_uniform(rows, jobs, key, chunk * CHUNK, min(count, (chunk + 1) * CHUNK), out)


@njit(cache=True, parallel=True)
def _walk_ruled_parallel(rows, jobs, key, law, out):  # pragma: no cover - compiled
    count = jobs[0].size
    for chunk in prange((count + CHUNK - 1) // CHUNK):
        _walk_ruled(rows, jobs, key, law, chunk * CHUNK, min(count, (chunk + 1) * CHUNK), out)


# --------------------------------------------------------------------------------------------------------------------


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
    """Draw walks on the CPU. Walk j of node v under a seed is always the same walk, whoever asks, in whatever company.

    Args:
        graph: The graph to walk on.
        starts: Start nodes, any shape `S`.
        numbers: Pattern numbers j >= 0; broadcast against `starts`.
        length: Steps L of a walk; 0 gives the start alone.
        seed: Names the random bits.
        rule: The law of a step.
        forbidden: Per walk an edge `(a, b)`, shape `S + [2]`, crossed in neither direction; negative for none.
        edges: Also return the ids of the edges crossed.
        threads: At most so many; by default numba's number. The result does not depend on it.

    Returns:
        Nodes `S + [L+1]` and, on request, edge ids `S + [L]` (-1 where the walk stayed in place), else None.
    """
    begin, number, banned = _check_jobs(graph, starts, numbers, forbidden, length)
    shape, count = begin.shape, begin.size
    cdf = graph.edge_cdf if rule.weighted and graph.edge_cdf is not None else None
    nodes = np.empty((count, length + 1), dtype=graph.indices.dtype)
    crossed = np.empty((count, length) if edges else (0, 0), dtype=np.int64)
    rows = graph.indptr, graph.indices, _frozen_empty() if cdf is None else cdf
    jobs = begin.reshape(-1), number.reshape(-1), banned.reshape(-1, 2)
    key, out = np.uint64(make_key(seed)), (nodes, crossed)
    uniform = cdf is None and not rule.second_order and not banned.size
    law = 1.0 / rule.p, 1.0 / rule.q, rule.non_backtracking, rule.second_order
    with threads_for(threads, count) as parallel:
        if uniform and parallel:
            _walk_uniform_parallel(rows, jobs, key, out)
        elif uniform:
            _walk_uniform(rows, jobs, key, 0, count, out)
        elif parallel:
            _walk_ruled_parallel(rows, jobs, key, law, out)
        else:
            _walk_ruled(rows, jobs, key, law, 0, count, out)
    if edges and graph.edge_ids is not None and len(graph.edge_ids):
        crossed = np.where(crossed < 0, -1, graph.edge_ids[crossed]).astype(np.int64)
    return nodes.reshape(*shape, length + 1), crossed.reshape(*shape, length) if edges else None


def has_edge(graph: Graph, source: ArrayLike, target: ArrayLike) -> NDArray[np.bool_]:
    """Whether the graph has the edges from `source` to `target` (broadcast)."""
    a, b = np.broadcast_arrays(np.asarray(source, dtype=np.int64), np.asarray(target, dtype=np.int64))
    found = np.empty(a.size, dtype=np.bool_)
    _has_edges(graph.indptr, graph.indices, a.ravel(), b.ravel(), found)
    return found.reshape(a.shape)


@njit(cache=True, nogil=True)
def _has_edges(indptr, indices, source, target, found):  # pragma: no cover - compiled
    for i in range(source.size):
        found[i] = contains(indptr, indices, source[i], target[i])


def _frozen_empty() -> NDArray[np.int64]:
    empty = np.empty(0, dtype=np.int64)
    empty.flags.writeable = False  # the same compiled type as a graph's own arrays
    return empty


def _check_jobs(
    graph: Graph, starts: ArrayLike, numbers: ArrayLike, forbidden: ArrayLike | None, length: int
) -> tuple[NDArray, NDArray, NDArray]:
    begin, number = np.asarray(starts), np.asarray(numbers)
    shape = np.broadcast_shapes(begin.shape, number.shape)
    for name, values in (("starts", begin), ("numbers", number)):
        if values.size and not np.issubdtype(values.dtype, np.integer):
            raise GpmError(f"{name} must be integers, got {values.dtype}.")
    if length < 0:
        raise GpmError(f"the length of a walk must not be negative, got {length}.")
    if begin.size and not (int(begin.min()) >= 0 and int(begin.max()) < graph.num_nodes):
        bad = int(begin[(begin < 0) | (begin >= graph.num_nodes)].flat[0])
        raise GpmError(f"no start node {bad}: nodes are numbered 0 to {graph.num_nodes - 1}.")
    banned = np.empty((0, 2), dtype=np.int64)
    if forbidden is not None and begin.size:
        banned = _spread(np.asarray(forbidden), (*shape, 2))
    return _spread(begin, shape), _spread(number, shape), banned


def _spread(values: NDArray, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """`values` broadcast to a shape, as contiguous int64; copied only if need be."""
    spread = values if values.shape == shape else np.array(np.broadcast_to(values, shape), order="C")
    return np.ascontiguousarray(spread, dtype=np.int64).reshape(shape)


@contextmanager
def threads_for(threads: int | None, count: int) -> Iterator[bool]:
    """Hold numba's threads; gives whether to use them. One chunk is not worth it, and a forked child may not."""
    wanted = numba.get_num_threads() if threads is None else min(threads, numba.config.NUMBA_NUM_THREADS)
    if wanted <= 1 or count <= CHUNK or os.getpid() != _owner:
        yield False
        return
    with _lock:
        usual = numba.get_num_threads()
        numba.set_num_threads(wanted)
        try:
            yield True
        finally:
            numba.set_num_threads(usual)
