"""Topologies: the shape of a pattern as an integer key. There are four kinds:

- `loops`: which positions of the walk are the same node (the paper's anonymous walk).
- `induced`: also which visited nodes are adjacent in the graph.
- `shape`: the isomorphism class of the subgraph induced by the visited nodes, whatever the order of the visit.
- `refined`: the whole graph as seen from the visited nodes: they are marked, and colour refinement (1-WL) runs on the
  graph until it is stable. It tells apart far more than a walk sees by itself, and costs a pass over the graph's edges
  for each set of visited nodes: it is for collections of small graphs.

Keys are equal across graphs, runs and computers. Those of the first three kinds depend on the pattern alone. Self-loops
are ignored; in a directed graph `induced` keeps the direction of adjacency, `shape` ignores it and `refined` passes
colours against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from gpm.compute import CHUNK, threads_for
from gpm.config import MAX_POSITIONS, UNORDERED, Kind
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.patterns.walks.kernels import contains
from gpm.random_bits import GOLDEN_U, mix

KINDS: tuple[Kind, ...] = get_args(Kind)
EXACT_POSITIONS = 16  # up to here a `loops` key spells the anonymous walk out, four bits a position; above it is a hash
EXACT_SHAPE = 9  # up to here different shapes have different keys: the tests count all graphs of so many nodes

_ONE, _4, _60 = np.uint64(1), np.uint64(4), np.uint64(60)
_LOOPS, _INDUCED = 0, 1  # indices in KINDS
MOST_NODES = 4096  # of a graph that `refined` reads
REFINED_WORK = 64  # pieces of work that one `refined` key counts for


@dataclass(frozen=True)
class Topologies:
    """The distinct topologies of some patterns."""

    kind: Kind
    keys: NDArray[np.int64]  # (T)
    codes: NDArray[np.int8] | None  # anonymous walks (T, n), -1 past the end; None for the kinds without an order
    adjacency: NDArray[np.bool_] | None  # of the visited nodes (T, n, n), for `refined` of an example; None for `loops`
    sizes: NDArray[np.int64]  # number of visited nodes (T)

    def __len__(self) -> int:
        return len(self.keys)


@njit(nogil=True)
def _anonymise(walk, code):  # pragma: no cover - compiled
    """Number the nodes of a walk by first appearance; returns how many there are. Stops at a negative node."""
    distinct = 0
    for i in range(walk.size):
        if walk[i] < 0:
            for j in range(i, walk.size):
                code[j] = -1
            break
        code[i] = distinct
        for j in range(i):
            if walk[j] == walk[i]:
                code[i] = code[j]
                break
        if code[i] == distinct:
            distinct += 1
    return distinct


@njit(nogil=True)
def _loops_key(code):  # pragma: no cover - compiled
    positions = 0
    while positions < code.size and code[positions] >= 0:
        positions += 1
    if positions <= EXACT_POSITIONS:
        key = np.uint64(positions - 1) << _60  # position 0 is always 0, so four bits are free for the length
        for i in range(1, positions):
            key |= np.uint64(code[i]) << (_4 * np.uint64(i - 1))
        return key
    key = np.uint64(positions)
    for i in range(positions):
        key = mix(key + GOLDEN_U * np.uint64(code[i] + 1))
    return key


@njit(nogil=True)
def _adjacency(where, walk, code, distinct, banned, node, rows):  # pragma: no cover - compiled
    """Bit j of `rows[i]`: there is an edge from the i-th visited node to the j-th, other than a banned one."""
    indptr, indices, directed = where
    seen = 0
    for i in range(walk.size):
        if code[i] == seen:
            node[seen] = walk[i]
            rows[seen] = 0
            seen += 1
    for i in range(distinct):
        degree = indptr[node[i] + 1] - indptr[node[i]]
        for j in range(i):
            a, b = node[i], node[j]
            if directed:
                forth, back = contains(indptr, indices, a, b), contains(indptr, indices, b, a)
            elif degree <= indptr[b + 1] - indptr[b]:  # search the shorter row
                forth = back = contains(indptr, indices, a, b)
            else:
                forth = back = contains(indptr, indices, b, a)
            if banned.size and ((a == banned[0] and b == banned[1]) or (a == banned[1] and b == banned[0])):
                forth = back = False
            rows[i] |= np.uint64(forth) << np.uint64(j)
            rows[j] |= np.uint64(back) << np.uint64(i)


@njit(cache=True, nogil=True)
def _keys(where, walks, banned, kind, first, last, keys):  # pragma: no cover - compiled
    length = walks.shape[1]
    code, node, rows = np.empty(length, np.int8), np.empty(length, np.int64), np.empty(length, np.uint64)
    for w in range(first, last):
        distinct = _anonymise(walks[w], code)
        key = _loops_key(code)
        if kind != _LOOPS:
            _adjacency(where, walks[w], code, distinct, banned[w % banned.shape[0]], node, rows)
            key = mix(key) if kind == _INDUCED else np.uint64(distinct)
            for i in range(distinct):
                key = mix((key ^ rows[i]) + GOLDEN_U * np.uint64(i + 1))
        keys[w] = key


@njit(cache=True, parallel=True)
def _keys_parallel(where, walks, banned, kind, keys):  # pragma: no cover - compiled
    count = walks.shape[0]
    for chunk in prange((count + CHUNK - 1) // CHUNK):
        last = min(count, (chunk + 1) * CHUNK)
        _keys(where, walks, banned, kind, chunk * CHUNK, last, keys)


@njit(cache=True, nogil=True)
def _describe(where, walks, banned, codes, rows, sizes):  # pragma: no cover - compiled
    node = np.empty(walks.shape[1], np.int64)
    for w in range(walks.shape[0]):
        sizes[w] = _anonymise(walks[w], codes[w])
        if rows.size:
            _adjacency(where, walks[w], codes[w], sizes[w], banned[w % banned.shape[0]], node, rows[w])


@njit(nogil=True)
def _count_bits(bits):  # pragma: no cover - compiled
    count = 0
    while bits:
        bits &= bits - _ONE
        count += 1
    return count


@njit(nogil=True)
def _distinct_values(values):  # pragma: no cover - compiled
    count = 0
    for i in range(values.size):
        count += 1
        for j in range(i):
            if values[j] == values[i]:
                count -= 1
                break
    return count


@njit(nogil=True)
def _refine(rows, color, fresh):  # pragma: no cover - compiled
    """Refine colours by those of the neighbours and of the other nodes until no class splits; return their hash."""
    n, classes, last = color.size, _distinct_values(color), 0
    while True:
        for i in range(n):
            near, rest = np.uint64(0), np.uint64(0)
            for j in range(n):
                if (rows[i] >> np.uint64(j)) & _ONE:
                    near += mix(color[j] + GOLDEN_U)
                elif i != j:
                    rest += mix(color[j] ^ GOLDEN_U)
            fresh[i] = mix(mix(color[i] + np.uint64(3) * mix(near + _ONE)) + rest)
        for i in range(n):
            color[i] = fresh[i]
        if classes == last:
            break
        last, classes = classes, _distinct_values(color)
    total = np.uint64(n)
    for i in range(n):
        total += mix(color[i])
    return mix(total)


@njit(nogil=True)
def _first_colors(rows, color):  # pragma: no cover - compiled
    """Colour each node by its degree and its numbers of triangles and 4-cliques."""
    n = color.size
    for i in range(n):
        triangles, cliques = 0, 0
        for j in range(n):
            if (rows[i] >> np.uint64(j)) & _ONE:
                common = rows[i] & rows[j]
                triangles += _count_bits(common)
                for k in range(n):
                    if (common >> np.uint64(k)) & _ONE:
                        cliques += _count_bits(common & rows[k])
        seen = np.uint64(_count_bits(rows[i])) + (np.uint64(triangles) << np.uint64(8))
        color[i] = mix(seen + (np.uint64(cliques) << np.uint64(24)))


@njit(cache=True, nogil=True)
def shape_keys(given, sizes):  # pragma: no cover - compiled
    """Return the keys `[T]` of the isomorphism classes of graphs: adjacency bits `given [T, n]`, made symmetric, of
    `sizes [T]` nodes.

    If refinement leaves equal colours, each node in turn is singled out and refined again, and the hashes are summed.
    """
    keys = np.empty(given.shape[0], np.uint64)
    for t in range(given.shape[0]):
        n = sizes[t]
        rows, color = np.zeros(n, np.uint64), np.empty(n, np.uint64)
        own, fresh = np.empty(n, np.uint64), np.empty(n, np.uint64)
        for i in range(n):
            for j in range(n):
                if i != j and (given[t, i] >> np.uint64(j)) & _ONE:
                    rows[i] |= _ONE << np.uint64(j)
                    rows[j] |= _ONE << np.uint64(i)
        _first_colors(rows, own)
        key = _refine(rows, own, fresh)
        if _distinct_values(own) < n:
            for v in range(n):
                for i in range(n):
                    color[i] = own[i]
                color[v] = mix(color[v] ^ GOLDEN_U)
                key += mix(_refine(rows, color, fresh))
            key = mix(key)
        keys[t] = key
    return keys


@njit(nogil=True)
def _set_key(walk):  # pragma: no cover - compiled
    """Hash the set of visited nodes."""
    key = np.uint64(0)
    for i in range(walk.size):
        first = walk[i] >= 0
        for j in range(i):
            if walk[j] == walk[i]:
                first = False
        if first:
            key += mix(np.uint64(walk[i]) + GOLDEN_U)
    return key


@njit(nogil=True)
def _refine_graph(indptr, indices, begin, walk, color, fresh):  # pragma: no cover - compiled
    """Mark the nodes of a walk and refine the colours of the graph that begins at a node; return their hash."""
    n = color.size
    for i in range(n):
        color[i] = GOLDEN_U
    for i in range(walk.size):
        if walk[i] >= 0:
            color[walk[i] - begin] = mix(GOLDEN_U)
    classes = np.unique(color).size
    while True:
        total = np.uint64(n)
        for i in range(n):
            near = np.uint64(0)
            for e in range(indptr[begin + i], indptr[begin + i + 1]):
                if indices[e] != begin + i:
                    near += mix(color[indices[e] - begin] + GOLDEN_U)
            fresh[i] = mix(color[i] + np.uint64(3) * mix(near + _ONE))
            total += mix(fresh[i])
        color[:] = fresh
        last, classes = classes, np.unique(color).size
        if classes == last:
            return mix(total)


@njit(cache=True, nogil=True)
def _refined_keys(where, begins, sizes, walks, first, last, keys):  # pragma: no cover - compiled
    """Fill in the `refined` keys of walks; `begins` and `sizes` are those of the graph of each."""
    indptr, indices, _ = where
    for w in range(first, last):
        color, fresh = np.empty(sizes[w], np.uint64), np.empty(sizes[w], np.uint64)
        keys[w] = _refine_graph(indptr, indices, begins[w], walks[w], color, fresh)


@njit(cache=True, parallel=True)
def _refined_keys_parallel(where, begins, sizes, walks, keys):  # pragma: no cover - compiled
    count, size = walks.shape[0], CHUNK // REFINED_WORK
    for chunk in prange((count + size - 1) // size):
        _refined_keys(where, begins, sizes, walks, chunk * size, min(count, (chunk + 1) * size), keys)


@njit(cache=True, nogil=True)
def _set_keys(walks, keys):  # pragma: no cover - compiled
    for w in range(walks.shape[0]):
        keys[w] = _set_key(walks[w])


@njit(cache=True, nogil=True)
def distinct(keys):  # pragma: no cover - compiled
    """Return the index of the first occurrence of each distinct key, in that order, and the number of every key."""
    first, inverse = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    slots = 1
    while slots < 2 * keys.size:
        slots *= 2
    table, count = np.full(slots, -1, np.int64), 0
    for i in range(keys.size):
        slot = np.int64(mix(keys[i]) & np.uint64(slots - 1))
        while table[slot] >= 0 and keys[first[table[slot]]] != keys[i]:
            slot = (slot + 1) & (slots - 1)
        if table[slot] < 0:
            table[slot] = count
            first[count] = i
            count += 1
        inverse[i] = table[slot]
    return first[:count], inverse


def find_topologies(
    graph: Graph, walks: NDArray, kind: Kind, *, forbidden: NDArray | None = None, threads: int | None = None
) -> tuple[NDArray, Topologies]:
    """Find the topology of walks `[W, n]`, negative past the end of a shorter walk.

    `forbidden` has an edge per walk `[W, 2]` to treat as absent in both directions. `loops` does not read the graph.
    Return the index of each walk's topology `[W]`, and the distinct topologies in order of first appearance.
    """
    if kind not in KINDS:
        raise GpmError(f"Unknown topology {kind!r}; choose one of {', '.join(KINDS)}.")
    if walks.ndim != 2 or not np.issubdtype(walks.dtype, np.integer):
        raise GpmError(f"walks must be integers [W, n], got {walks.dtype} {list(walks.shape)}.")
    if not 1 <= walks.shape[1] <= MAX_POSITIONS:
        raise GpmError(f"Topologies are kept for walks of 0 to {MAX_POSITIONS - 1} steps, got {walks.shape[1] - 1}.")
    if walks.size and kind != "loops" and walks.max() >= graph.num_nodes:
        raise GpmError(f"A walk visits node {walks.max()}, but nodes are numbered 0 to {graph.num_nodes - 1}.")
    if forbidden is not None and forbidden.shape != (len(walks), 2):
        raise GpmError(f"forbidden must have shape {[len(walks), 2]}, got {list(forbidden.shape)}.")
    if kind == "refined" and forbidden is not None:
        raise GpmError("The topology 'refined' is for nodes and graphs, not for links; choose loops, induced or shape.")
    walks = np.ascontiguousarray(walks)
    banned = np.empty((1, 0), np.int64) if forbidden is None else np.ascontiguousarray(forbidden, dtype=np.int64)
    where = graph.indptr, graph.indices, graph.census.directed
    keys = np.empty(len(walks), dtype=np.uint64)
    if kind == "refined":
        _set_keys(walks, keys)
    else:
        with threads_for(threads, len(walks)) as parallel:
            if parallel:
                _keys_parallel(where, walks, banned, KINDS.index(kind), keys)
            else:
                _keys(where, walks, banned, KINDS.index(kind), 0, len(walks), keys)
    first, inverse = distinct(keys)
    table, codes = keys[first], np.empty((len(first), walks.shape[1]), dtype=np.int8)
    rows = np.zeros((len(first), walks.shape[1]) if kind != "loops" else (0, 0), dtype=np.uint64)
    sizes = np.empty(len(first), dtype=np.int64)
    _describe(where, walks[first], banned if forbidden is None else banned[first], codes, rows, sizes)
    if kind in UNORDERED:
        table = shape_keys(rows, sizes) if kind == "shape" else _find_refined(graph, walks[first], threads)
        chosen, renamed = distinct(table)
        inverse, table, rows, sizes = renamed[inverse], table[chosen], rows[chosen], sizes[chosen]
    return inverse, Topologies(
        kind=kind,
        keys=table.view(np.int64),
        codes=None if kind in UNORDERED else codes,
        adjacency=None if kind == "loops" else _unpack(rows, symmetric=kind in UNORDERED),
        sizes=sizes,
    )


def _find_refined(graph: Graph, walks: NDArray, threads: int | None) -> NDArray[np.uint64]:
    """Return the `refined` keys of walks, each of which stays in one graph of a collection."""
    pointer = np.array([0, graph.num_nodes]) if graph.graph_ptr is None else np.asarray(graph.graph_ptr)
    owner = np.searchsorted(pointer, walks[:, 0], side="right") - 1
    begins, sizes = pointer[owner], pointer[owner + 1] - pointer[owner]
    if len(walks) and (most := int(sizes.max())) > MOST_NODES:
        raise GpmError(
            f"The topology 'refined' reads the whole graph for every pattern, at most {MOST_NODES:,} nodes; this graph "
            f"has {most:,}. Choose loops, induced or shape."
        )
    keys = np.empty(len(walks), dtype=np.uint64)
    where = graph.indptr, graph.indices, graph.census.directed
    with threads_for(threads, len(walks) * REFINED_WORK) as parallel:
        if parallel:
            _refined_keys_parallel(where, begins, sizes, walks, keys)
        else:
            _refined_keys(where, begins, sizes, walks, 0, len(walks), keys)
    return keys


def _unpack(rows: NDArray[np.uint64], symmetric: bool) -> NDArray[np.bool_]:
    count, width = rows.shape
    octets = rows.astype("<u8").view(np.uint8).reshape(count, width, 8)
    adjacency = np.unpackbits(octets, axis=2, bitorder="little", count=width).view(np.bool_)
    return adjacency | adjacency.transpose(0, 2, 1) if symmetric else adjacency
