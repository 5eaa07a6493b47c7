"""Unordered pairs of nodes: numbered without gaps, drawn among the non-edges, removed from a graph.

The pair {u, v} with u < v has the number v (v - 1) / 2 + u, so the pairs of N nodes are 0 to N (N - 1) / 2 - 1. Of the
pairs outside a sorted list of numbers b, the one of rank r has the number r + |{i : b[i] - i <= r}|. A uniform draw
among non-edges is therefore a uniform draw of a rank: it needs no second try, however dense the graph.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError, whole_number
from gpm.graph import csr
from gpm.graph.graph import Census, Graph
from gpm.random_bits import GOLDEN, MASK, below_array, make_key, mix_array

_NEGATIVES = 0x6E65676174697665  # what the key is for: none of the small numbers in `gpm.random_bits`
_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)


def number_pairs(pairs: NDArray) -> NDArray[np.int64]:
    """Return the numbers of pairs `[..., 2]`, the same for either order; -1 for a node with itself."""
    first, second = pairs[..., 0].astype(np.int64), pairs[..., 1].astype(np.int64)
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.where(low == high, -1, high * (high - 1) // 2 + low)


def name_pairs(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pairs `[..., 2]`, smaller node first, that have these numbers."""
    high = ((1 + np.sqrt(8.0 * numbers + 1)) / 2).astype(np.int64)
    high -= high * (high - 1) // 2 > numbers  # the root is rounded: one too high, or one too low
    high += high * (high + 1) // 2 <= numbers
    return np.stack([numbers - high * (high - 1) // 2, high], axis=-1)


def number_edges(graph: Graph) -> NDArray[np.int64]:
    """Return the numbers of all pairs with an edge in either direction, ascending; self-loops are no pairs."""
    return distinct(number_pairs(graph.edge_index().T))


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of pairs, ascending, each once and without -1."""
    ordered = np.sort(numbers, axis=None)  # np.unique would take fifty times as long
    first: NDArray[np.bool_] = np.diff(ordered, prepend=-1) != 0
    return np.asarray(ordered[first & (ordered >= 0)])


def contains(numbers: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Check which of the wanted numbers are among ascending ones."""
    if not len(numbers):
        return np.zeros(wanted.shape, dtype=np.bool_)
    index = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.asarray(numbers[index] == wanted, dtype=np.bool_)


class FreePairs:
    """The unordered pairs of different nodes that are not taken; numbers of taken ones come in any order and number.

    With `sides`, 0 or 1 of each node `[N]`, only pairs of a node of side 0 and one of side 1 are meant. The pair of the
    i-th and the j-th node of the two then has the number i |side 1| + j.
    """

    def __init__(self, num_nodes: int, taken: NDArray[np.int64], sides: NDArray | None = None) -> None:
        listed, total = distinct(taken), num_nodes * (num_nodes - 1) // 2
        self._sides = None if sides is None else [np.flatnonzero(sides == side) for side in (0, 1)]
        if sides is not None and self._sides is not None:
            index = np.zeros(num_nodes, dtype=np.int64)
            for nodes in self._sides:
                index[nodes] = np.arange(len(nodes))
            pairs = name_pairs(listed)
            pairs = pairs[sides[pairs].astype(np.int64).sum(1) == 1]
            pairs = np.where(sides[pairs[:, :1]] == 0, pairs, pairs[:, ::-1])
            wide = len(self._sides[1])
            listed, total = distinct(index[pairs[:, 0]] * wide + index[pairs[:, 1]]), len(self._sides[0]) * wide
        self.size = total - len(listed)
        self._before = listed - np.arange(len(listed))  # free pairs below each taken one

    def pick(self, ranks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the free pairs `[..., 2]` of ranks 0 to size - 1, smaller node first."""
        numbers = ranks + np.searchsorted(self._before, ranks, side="right")
        if self._sides is None:
            return name_pairs(numbers)
        one, two = self._sides
        return np.sort(np.stack([one[numbers // len(two)], two[numbers % len(two)]], axis=-1), axis=-1)

    def sample(self, count: int, seed: int) -> NDArray[np.int64]:
        """Draw different free pairs `[count, 2]`, in random order."""
        random = np.random.Generator(np.random.PCG64([seed, 1]))  # not the stream that draws the parts
        return self.pick(random.permutation(random.choice(self.size, count, replace=False, shuffle=False)))

    def draw(self, count: int, seed: int, turn: int) -> NDArray[np.int64]:
        """Draw independent uniform free pairs `[count, 2]`: pair i is a function of (seed, turn, i)."""
        if self.size < 1:
            raise GpmError("Every pair of nodes is an edge or a saved negative; nothing is left to draw.")
        return self.pick(_below(_bits(seed, turn, count, 0), self.size))


def draw_any(num_nodes: int, count: int, seed: int, turn: int) -> NDArray[np.int64]:
    """Draw ordered pairs `[count, 2]` of any nodes, an edge or not: pair i is a function of (seed, turn, i)."""
    nodes = np.array(num_nodes)
    return np.stack([below_array(_bits(seed, turn, count, end), nodes) for end in (0, 1)], axis=-1)


def drop_edges(graph: Graph, pairs: NDArray) -> Graph:
    """Return the graph without the edges between pairs of nodes `[P, 2]`, in both directions, parallel ones too."""
    gone = distinct(number_pairs(pairs))
    kept = ~contains(gone, number_pairs(graph.edge_index().T))
    indptr, indices = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[graph.indptr], graph.indices[kept]
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    attributes, ids = graph.edge_attr, None if graph.edge_ids is None else graph.edge_ids[kept]
    if attributes is not None:
        used, ids = np.unique(np.flatnonzero(kept) if ids is None else ids, return_inverse=True)
        attributes, ids = attributes[used], ids.astype(csr.index_dtype(len(used)))
    left = _replace_entries(graph, indptr, indices, ids, weight)
    return replace(left, census=_recount(graph, indptr, indices), edge_attr=attributes)


def hide_edges(graph: Graph, pairs: NDArray) -> Graph:
    """Drop a few edges of a graph that may have very many: edges keep their ids and attributes, the census stays."""
    rows = []
    for source, target in np.concatenate([pairs, pairs[:, ::-1]]).tolist():
        first, last = graph.indptr[source] + np.searchsorted(graph.neighbors(source), [target, target + 1])
        rows.append(np.arange(first, last))
    gone = np.unique(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.int64)
    indptr = graph.indptr - np.searchsorted(gone, graph.indptr)
    ids, weight = graph.edge_ids, graph.edge_weight
    if ids is None and graph.edge_attr is not None:
        ids = np.arange(graph.num_edges)
    ids, weight = (None if array is None else np.delete(array, gone) for array in (ids, weight))
    return _replace_entries(graph, indptr, np.delete(graph.indices, gone), ids, weight)


def _replace_entries(
    graph: Graph, indptr: NDArray, indices: NDArray, ids: NDArray | None, weight: NDArray | None
) -> Graph:
    cdf = None if weight is None else csr.cumulate_weights(indptr, weight)
    return replace(graph, indptr=indptr, indices=indices, edge_ids=ids, edge_weight=weight, edge_cdf=cdf)


def _recount(graph: Graph, indptr: NDArray, indices: NDArray) -> Census:
    """Count the census of the remaining entries."""
    loops = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)) == indices
    repeats, mirrored = csr.count_duplicates(indptr, indices)[0], graph.census.mirrored
    symmetric = csr.is_symmetric(indptr, indices)
    found = int(np.count_nonzero(loops))
    if mirrored:  # all but the loops are entered twice
        repeats = (repeats + found - len(np.unique(indices[loops]))) // 2
    return Census(
        directed=not symmetric,
        isolated=csr.count_isolated(indptr, indices, symmetric),
        self_loops=found,
        duplicates=repeats,
        loop_entries=found,
        dropped_loops=False,
        merged=False,
        mirrored=mirrored,
    )


def _bits(seed: int, turn: int, count: int, step: int) -> NDArray[np.uint64]:
    """Return 64 random bits for each of `count` draws, by the generator of `gpm.random_bits`."""
    key = make_key(seed, _NEGATIVES) ^ whole_number(turn, "turn")
    mixed = mix_array(np.array([key & MASK], dtype=np.uint64))
    numbers: NDArray[np.uint64] = np.arange(count).astype(np.uint64)
    state = mix_array(mixed + numbers)
    return mix_array(state + np.uint64((((step << 32) + 1) * GOLDEN) & MASK))


def _below(bits: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Map 64 random bits to 0..count-1, `(bits * count) >> 64`, in halves: there are more pairs than 2^32."""
    top, bottom = np.uint64(count >> 32), np.uint64(count & 0xFFFFFFFF)
    high, low = bits >> _HALF, bits & _LOW
    middle = high * bottom + ((low * bottom) >> _HALF)
    lower = low * top + (middle & _LOW)
    drawn: NDArray[np.uint64] = high * top + (middle >> _HALF) + (lower >> _HALF)
    return drawn.astype(np.int64)
