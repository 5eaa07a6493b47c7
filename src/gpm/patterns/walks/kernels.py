"""The compiled walk kernels, written for memory latency.

On a graph larger than the cache a walk is a chain of cache misses. A block of walks therefore advances one step at a
time, in short loops that each do one thing (read row pointers; draw; read columns), so that many misses are under
way at once. Binary searches advance together too, and unpredictable choices are computed rather than branched on.
Indices read from arrays are made unsigned in hot loops: numba checks signed ones for being negative.

W walks of L steps; `rows` = (indptr, indices, cdf or empty), `jobs` = (starts [W], numbers [W], forbidden [W, 2] or
empty), `out` = (nodes [W, L+1], edges [W, L] or empty), `law` = (1/p, 1/q, turn back only at dead ends, look back at
all, no parallel edges). The kernels share a file because numba's cache does not see a change in another one: after
editing `gpm.random_bits` or `gpm.compute`, touch this one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpm.compute import CHUNK
from gpm.random_bits import GOLDEN_U, mix

BLOCK = 256  # walks that advance together; speed is flat from 128 to 512
_LOW = np.uint64(0xFFFFFFFF)
_32, _12, _ONE = np.uint64(32), np.uint64(12), np.uint64(1)
_UNIT = 2.0**-52


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
    """Run `count` searches like `_lower` together, without branches: `low` becomes the result, `size` is consumed."""
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
def walk_uniform(rows, jobs, key, law, first, last, out):  # pragma: no cover - compiled
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


class _Block(NamedTuple):
    """The state of the walks of a block, one array per quantity.

    A walk is at `now`, whose row is [begin, stop), and came from `back` (-1: from nowhere), whose row is
    [back_begin, back_stop) less the entries to `back_banned`. Its own row has mass `mass_f` of forbidden entries (to
    `banned`; -1: none) behind `before_f`, mass `mass_b` of entries back behind `before_b`, and `rest`. `at` is the
    chosen entry, -1 if there is no exit.
    """

    now: NDArray
    back: NDArray
    banned: NDArray
    back_banned: NDArray
    begin: NDArray
    stop: NDArray
    back_begin: NDArray
    back_stop: NDArray
    before_f: NDArray
    mass_f: NDArray
    before_b: NDArray
    mass_b: NDArray
    rest: NDArray
    at: NDArray


class _Search(NamedTuple):
    """Walks that have not yet chosen (`open`), how they drew (`kind`), and searches in step on their behalf."""

    open: NDArray
    kind: NDArray
    test: NDArray
    low: NDArray
    size: NDArray
    high: NDArray
    wanted: NDArray


_TAKEN, _IN_ROW, _IN_BACK_ROW = 0, 1, 2  # kinds of draws: accepted; to be tested, drawn from one row or the other


@njit(cache=True, nogil=True)
def _open_step(rows, law, count, block, search, weights):  # pragma: no cover - compiled
    """Weigh the exits of every walk of a block; list the walks that have one, and return their number.

    A draw is from one of three parts, of which `weights` holds running sums: the way back (which may outweigh all
    others); the rest, each entry with the lesser of 1 and 1/q, always accepted; and the difference between 1 and 1/q,
    accepted for neighbours of `back` if q > 1, for the others if q < 1. Masses are integers, so differences are exact.
    """
    _, indices, cdf = rows
    back_weight, far, turn, _, simple = law
    weighted = cdf.size > 0
    if block.back[0] >= 0:
        for i in range(count):
            search.low[i] = block.begin[i]
            search.size[i] = block.stop[i] - block.begin[i]
        _bisect(indices, search.low, search.size, block.back, count)
    opened = np.int64(0)
    for i in range(count):
        begin, stop = block.begin[i], block.stop[i]
        before_f = mass_f = before_b = mass_b = np.int64(0)
        if block.banned[i] >= 0:
            first = _lower(indices, begin, stop, block.banned[i])
            before_f = _mass(cdf, weighted, begin, first)
            mass_f = _mass(cdf, weighted, begin, _run_end(indices, first, stop, block.banned[i])) - before_f
        if block.back[i] >= 0 and block.back[i] != block.banned[i]:
            first = search.low[i]
            before_b = _mass(cdf, weighted, begin, first)
            mass_b = _mass(cdf, weighted, begin, _run_end(indices, first, stop, block.back[i])) - before_b
        rest = _mass(cdf, weighted, begin, stop) - mass_f - mass_b
        block.before_f[i], block.mass_f[i], block.before_b[i], block.mass_b[i] = before_f, mass_f, before_b, mass_b
        block.rest[i] = rest
        weights[0, i] = 0.0 if turn and rest > 0 else np.float64(mass_b) * back_weight
        if block.back[i] < 0:
            weights[1, i] = weights[2, i] = np.float64(rest)
        else:
            span = rest
            if far < 1.0 and simple and not weighted:
                span = min(rest, block.back_stop[i] - block.back_begin[i])  # common neighbours stand in both rows
            weights[1, i] = weights[0, i] + np.float64(rest) * min(1.0, far)
            weights[2, i] = weights[1, i] + np.float64(span) * abs(1.0 - far)
        block.at[i] = -1
        search.open[opened] = i
        opened += np.int64(weights[2, i] > 0)
    return opened


@njit(cache=True, nogil=True)
def _draw_step(rows, law, count, step, state, block, search, weights):  # pragma: no cover - compiled
    """Draw an exit for each of the `count` open walks, again for those whose draw a test rejects."""
    _, indices, cdf = rows
    far, simple = law[1], law[4]
    weighted = cdf.size > 0
    draw = 0
    while count > 0:
        for k in range(count):
            i = search.open[k]
            bits = _bits(state[i], step, draw)
            luck = _unit(_bits(state[i], step, draw + 1)) * weights[2, i]
            kind = _TAKEN if luck < weights[1, i] else _IN_ROW
            back_degree = block.back_stop[i] - block.back_begin[i]
            if luck < weights[0, i]:
                r = block.before_b[i] + _draw(bits, block.mass_b[i], weighted)
            elif kind == _IN_ROW and far < 1.0 and simple and not weighted and back_degree < block.rest[i]:
                kind = _IN_BACK_ROW
                r = block.back_begin[i] - block.begin[i] + _draw(bits, back_degree, False)
            else:
                r = _draw(bits, block.rest[i], weighted)
                first_f = block.before_f[i] <= block.before_b[i]
                r += block.mass_f[i] if first_f and r >= block.before_f[i] else 0
                r += block.mass_b[i] if r >= block.before_b[i] else 0
                r += block.mass_f[i] if not first_f and r >= block.before_f[i] else 0
            search.kind[k] = kind
            block.at[i] = block.begin[i] + r
            if weighted:
                search.low[k], search.size[k] = block.begin[i], block.stop[i] - block.begin[i]
                search.wanted[k] = r + 1
        if weighted:
            _bisect(cdf, search.low, search.size, search.wanted, count)
            for k in range(count):
                block.at[search.open[k]] = search.low[k]
        count = _test_draws(indices, far, count, block, search)
        draw += 2


@njit(cache=True, nogil=True)
def _test_draws(indices, far, count, block, search):  # pragma: no cover - compiled
    """Accept the draws that hit the right kind of neighbour; list the other walks, and return their number."""
    tests = np.int64(0)
    for k in range(count):
        search.test[tests] = k
        tests += np.int64(search.kind[k] != _TAKEN)
    for j in range(tests):
        k = search.test[j]
        i = search.open[k]
        in_row = search.kind[k] == _IN_ROW
        search.wanted[j] = indices[block.at[i]]
        search.low[j] = block.back_begin[i] if in_row else block.begin[i]
        search.high[j] = block.back_stop[i] if in_row else block.stop[i]
        search.size[j] = search.high[j] - search.low[j]
    _bisect(indices, search.low, search.size, search.wanted, tests)
    still_open = np.int64(0)
    for j in range(tests):
        k = search.test[j]
        i = search.open[k]
        wanted = search.wanted[j]
        found = search.low[j] < search.high[j] and indices[search.low[j]] == wanted
        if search.kind[k] == _IN_ROW:
            accepted = (found and wanted != block.back_banned[i]) == (far < 1.0)
        else:
            banned = wanted == block.banned[i] or wanted == block.back_banned[i]
            accepted = found and not banned and wanted != block.back[i]
            block.at[i] = search.low[j]
        search.open[still_open] = i
        still_open += np.int64(not accepted)
    return still_open


@njit(cache=True, nogil=True)
def walk_ruled(rows, jobs, key, law, first, last, out):  # pragma: no cover - compiled
    indptr, indices, _ = rows
    forbidden = jobs[2]
    nodes, edges = out
    f, s = np.empty((14, BLOCK), np.int64), np.empty((7, BLOCK), np.int64)
    block = _Block(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9], f[10], f[11], f[12], f[13])
    search = _Search(s[0], s[1], s[2], s[3], s[4], s[5], s[6])
    weights, state = np.empty((3, BLOCK)), np.empty(BLOCK, np.uint64)
    for start in range(first, last, BLOCK):
        count = min(BLOCK, last - start)
        _start(jobs, key, start, block.now[:count], state[:count], nodes)
        for i in range(count):
            block.back[i] = block.banned[i] = block.back_banned[i] = -1
            block.begin[i] = block.stop[i] = 0
        for step in range(nodes.shape[1] - 1):
            for i in range(count):
                block.back_begin[i], block.back_stop[i] = block.begin[i], block.stop[i]
                block.begin[i] = indptr[block.now[i]]
                block.stop[i] = indptr[block.now[i] + 1]
            if forbidden.size:
                for i in range(count):
                    block.back_banned[i] = block.banned[i]
                    a, b = forbidden[start + i, 0], forbidden[start + i, 1]
                    block.banned[i] = b if block.now[i] == a else (a if block.now[i] == b else -1)
            opened = _open_step(rows, law, count, block, search, weights)
            _draw_step(rows, law, opened, step, state, block, search, weights)
            for i in range(count):
                if law[3]:
                    block.back[i] = block.now[i]
                if block.at[i] >= 0:
                    block.now[i] = indices[block.at[i]]
            for i in range(count):
                nodes[start + i, step + 1] = block.now[i]
                if edges.size:
                    edges[start + i, step] = block.at[i]


@njit(cache=True, nogil=True)
def walk_plain(rows, jobs, key, law, first, last, out):  # pragma: no cover - compiled
    """Second-order walks on plain rows: undirected, unweighted, no parallel edges, nothing forbidden.

    Then the way back is in the row exactly once and need not be searched: every entry has the lesser of 1 and 1/q; if
    the way back weighs more, the excess is a part of its own, and if it weighs less, some of its draws are rejected.
    """
    indptr, indices, _ = rows
    nodes, edges = out
    back_weight, far, turn = law[0], law[1], law[2]
    floor, gap = min(1.0, far), abs(1.0 - far)
    extra = 0.0 if turn else max(0.0, back_weight - floor)
    kept = 0.0 if turn else min(1.0, back_weight / floor)
    f, s = np.empty((8, BLOCK), np.int64), np.empty((7, BLOCK), np.int64)
    now, back, begin, degree, back_begin, back_degree, then, at = f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]
    search = _Search(s[0], s[1], s[2], s[3], s[4], s[5], s[6])
    luck, state = np.empty(BLOCK), np.empty(BLOCK, np.uint64)
    for start in range(first, last, BLOCK):
        count = min(BLOCK, last - start)
        _start(jobs, key, start, now[:count], state[:count], nodes)
        for step in range(nodes.shape[1] - 1):
            for i in range(count):
                back_begin[i], back_degree[i] = begin[i], degree[i]
                begin[i] = indptr[now[i]]
                degree[i] = indptr[now[i] + 1] - begin[i]
            opened = np.int64(0)
            for i in range(count):
                then[i] = now[i]
                at[i] = begin[i]
                search.open[opened] = i
                opened += np.int64(degree[i] > 0)
            draw = 0
            while opened > 0:
                for k in range(opened):
                    o = np.uint64(search.open[k])
                    span = degree[o] if far >= 1.0 else min(degree[o], back_degree[o])
                    certain = extra + np.float64(degree[o]) * floor
                    free = (step == 0) | (degree[o] == 1)  # the only exit needs no luck
                    chance = _unit(_bits(state[o], step, draw + 1)) * (certain + np.float64(span) * gap)
                    luck[k] = -1.0 if free else chance
                    tested = luck[k] >= certain
                    theirs = tested & (span < degree[o])
                    search.kind[k] = np.int64(tested) + np.int64(theirs)
                    at[o] = (back_begin[o] if theirs else begin[o]) + _draw(
                        _bits(state[o], step, draw), span if theirs else degree[o], False
                    )
                for k in range(opened):
                    o = np.uint64(search.open[k])
                    then[o] = indices[np.uint64(at[o])]
                opened = _test_plain(indices, far, extra, kept * floor, opened, search, luck, then, f)
                draw += 2
            for i in range(count):
                nodes[start + i, step + 1] = then[i]
                if edges.size:
                    there = _lower(indices, begin[i], begin[i] + degree[i], then[i])
                    edges[start + i, step] = there if degree[i] > 0 else -1
                back[i], now[i] = now[i], then[i]


@njit(nogil=True)
def _test_plain(indices, far, extra, kept, count, search, luck, then, f):  # pragma: no cover - compiled
    """As `_test_draws`, for plain rows."""
    back, begin, degree, back_begin, back_degree = f[1], f[2], f[3], f[4], f[5]
    tests = still_open = np.int64(0)
    for k in range(count):  # without branches: which way a draw goes cannot be predicted
        o = np.uint64(search.open[k])
        taken, in_row = search.kind[k] == _TAKEN, search.kind[k] == _IN_ROW
        then[o] = back[o] if (luck[k] >= 0.0) & (luck[k] < extra) else then[o]
        returns = (then[o] == back[o]) & (luck[k] >= extra)
        rejected = returns & ((not taken) | (luck[k] - extra >= kept * np.float64(degree[o])))
        search.test[tests] = o
        search.wanted[tests] = then[o]
        search.low[tests] = back_begin[o] if in_row else begin[o]
        search.size[tests] = back_degree[o] if in_row else degree[o]
        search.high[tests] = search.low[tests] + search.size[tests]
        tests += np.int64((not taken) & (not returns))
        search.open[still_open] = o
        still_open += np.int64(rejected)
    _bisect(indices, search.low, search.size, search.wanted, tests)
    for j in range(tests):
        found = search.low[j] < search.high[j] and indices[search.low[j]] == search.wanted[j]
        search.open[still_open] = search.test[j]
        still_open += np.int64(found != (far < 1.0))
    return still_open


@njit(cache=True, parallel=True)
def walk_plain_parallel(rows, jobs, key, law, out):  # pragma: no cover - compiled
    count = jobs[0].size
    for chunk in prange((count + CHUNK - 1) // CHUNK):
        walk_plain(rows, jobs, key, law, chunk * CHUNK, min(count, (chunk + 1) * CHUNK), out)


@njit(cache=True, parallel=True)
def walk_uniform_parallel(rows, jobs, key, law, out):  # pragma: no cover - compiled
    count = jobs[0].size
    for chunk in prange((count + CHUNK - 1) // CHUNK):
        walk_uniform(rows, jobs, key, law, chunk * CHUNK, min(count, (chunk + 1) * CHUNK), out)


@njit(cache=True, parallel=True)
def walk_ruled_parallel(rows, jobs, key, law, out):  # pragma: no cover - compiled
    count = jobs[0].size
    for chunk in prange((count + CHUNK - 1) // CHUNK):
        walk_ruled(rows, jobs, key, law, chunk * CHUNK, min(count, (chunk + 1) * CHUNK), out)


@njit(cache=True, nogil=True)
def has_edges(indptr, indices, source, target, found):  # pragma: no cover - compiled
    for i in range(source.size):
        found[i] = contains(indptr, indices, source[i], target[i])
