"""Topologies of two domains: how frequent each is, how much attention it has, and which both share."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from torch import Tensor

from gpm.patterns.shape_names import name_shape, shape_of
from gpm.patterns.tokenizer import Patterns
from gpm.patterns.topologies import Topologies
from gpm.shift.distances import compare, halve, total_variation
from gpm.shift.result import Length, Shares, TopologyShare, Where, rounded

RARE = 0.1  # a topology at most so frequent as in the other domain counts as that domain's only
SHOWN = 12
WHERES: tuple[Where, ...] = ("shared", "source only", "target only")


class Census:
    """Counts the topologies of nodes' patterns; the same topology of walks of two lengths counts as two."""

    def __init__(self) -> None:
        self._columns_of: dict[tuple[int, int], int] = {}
        self._examples: list[tuple[Topologies, int]] = []
        self._rows: list[NDArray] = []
        self._columns: list[NDArray] = []
        self._weights: list[NDArray] = []
        self._nodes = 0

    def add(self, patterns: Patterns, weights: Tensor | None) -> None:
        """Count the m patterns of each of the next b nodes, with the attention on them `[b, m]`, if any."""
        ids, table = patterns.topology.cpu().numpy(), patterns.table
        lengths = np.broadcast_to(patterns.scales.cpu().numpy(), ids.shape)
        pairs, inverse = np.unique(ids.reshape(-1) * 64 + lengths.reshape(-1), return_inverse=True)  # lengths < 64
        columns = np.array([self._find(table, *divmod(pair, 64)) for pair in pairs.tolist()], dtype=np.int64)
        self._columns.append(columns[inverse.reshape(-1)])
        self._rows.append(np.repeat(np.arange(self._nodes, self._nodes + len(ids)), ids.shape[1]))
        self._nodes += len(ids)
        if weights is not None:
            self._weights.append(weights.double().cpu().numpy().reshape(-1))

    def _find(self, table: Topologies, row: int, length: int) -> int:
        key = length, int(table.keys[row])
        if key not in self._columns_of:
            self._columns_of[key] = len(self._columns_of)
            self._examples.append((table, row))
        return self._columns_of[key]

    def __len__(self) -> int:
        return len(self._columns_of)

    @property
    def kind(self) -> str:
        """The kind of topology."""
        return self._examples[0][0].kind

    @property
    def attention(self) -> bool:
        """True if patterns have attention weights."""
        return bool(self._weights)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The length of each topology's walks `[T]`."""
        return np.array([length for length, _ in self._columns_of], dtype=np.int64)

    @cached_property
    def counts(self) -> Any:
        """Number of patterns by node and topology, a sparse matrix `[n, T]`."""
        return self._matrix(np.ones(sum(map(len, self._rows))))

    @cached_property
    def weights(self) -> Any:
        """Attention by node and topology, a sparse matrix `[n, T]`; without attention, shares of patterns."""
        if self.attention:
            return self._matrix(np.concatenate(self._weights))
        return self.counts * (self._nodes / self.counts.sum())  # all nodes have as many patterns

    @property
    def telling(self) -> Any:
        """The counts of topologies of lengths that have several `[n, t]`."""
        lengths, several = np.unique(self.lengths, return_counts=True)
        return self.counts[:, np.flatnonzero(np.isin(self.lengths, lengths[several > 1]))]

    def _matrix(self, values: NDArray) -> Any:
        rows, columns = np.concatenate(self._rows), np.concatenate(self._columns)
        return sp.coo_array((values, (rows, columns)), shape=(self._nodes, len(self))).tocsr()

    def describe(self, column: int) -> tuple[str, tuple[int, ...], int, tuple[tuple[int, int], ...]]:
        """Return a topology's name, anonymous walk (empty if it has none), number of nodes, and edges."""
        table, row = self._examples[column]
        graph = shape_of(table, row)
        code = () if table.codes is None else tuple(int(c) for c in table.codes[row] if c >= 0)
        edges = tuple((int(a), int(b)) for a, b in zip(*np.nonzero(np.triu(graph, 1)), strict=True))
        return name_shape(graph), code, len(graph), edges


def _total(matrix: Any) -> NDArray[np.float64]:
    """Sum over all nodes, by topology `[T]`."""
    return np.asarray(matrix.sum(axis=0), dtype=np.float64).reshape(-1)


def _share(matrix: Any) -> NDArray[np.float64]:
    total = _total(matrix)
    return np.asarray(total / max(total.sum(), 1e-300))


def topology_distance(source: Any, target: Any) -> float:
    """Compute the total variation of the frequencies of topologies, from counts `[n, T]` and `[m, T]`."""
    return total_variation(_total(source), _total(target))


def compare_lengths(census: Census, source: NDArray, target: NDArray, seed: int) -> tuple[Length, ...]:
    """Measure the distance of topologies among the walks of each length."""
    distances, counts = [], census.counts.tocsc()
    for length in np.unique(census.lengths).tolist():
        mine = counts[:, np.flatnonzero(census.lengths == length)].tocsr()
        value, reference = compare(mine[source], mine[target], topology_distance, seed)
        distances.append(Length(length, rounded(value), rounded(reference)))
    return tuple(distances)


def find_where(source: NDArray, target: NDArray) -> NDArray[np.int64]:
    """Return the indices in `WHERES` of topologies, by their frequencies `[T]` in both domains."""
    return np.where(target <= RARE * source, 1, np.where(source <= RARE * target, 2, 0))


def _divide(where: NDArray, weights: NDArray) -> Shares:
    """Divide weights among topologies of both domains or of one; the last share is the remainder to 1."""
    shares = np.bincount(where, weights=weights, minlength=len(WHERES)) / max(weights.sum(), 1e-300)
    shared, source = rounded(shares[0]), rounded(shares[1])
    return Shares(shared, source, rounded(abs(1 - shared - source)) if shares[2] > 0 else 0.0)


def share_out(census: Census, source: NDArray, target: NDArray, seed: int) -> tuple[Shares, Shares, float]:
    """Divide the attention of source and target by where topologies occur; also that of two halves of the source."""
    where = find_where(_share(census.counts[source]), _share(census.counts[target]))
    shares = [_divide(where, _total(census.weights[nodes])) for nodes in (source, target)]
    halves = [
        _divide(find_where(_share(census.counts[one]), _share(census.counts[two])), _total(census.weights[one])).shared
        for one, two in ((source[one], source[two]) for one, two in halve(len(source), seed))
    ]
    return shares[0], shares[1], rounded(np.mean(halves))


def list_topologies(census: Census, source: NDArray, target: NDArray, top: int = SHOWN) -> tuple[TopologyShare, ...]:
    """List the topologies with the most attention, the mean of both domains; without attention, the most frequent."""
    often = [_share(census.counts[nodes]) for nodes in (source, target)]
    heavy = [_share(census.weights[nodes]) for nodes in (source, target)]
    where = find_where(*often)
    order = np.lexsort((census.lengths, -np.round(heavy[0] + heavy[1], 9)))[:top]
    topologies = []
    for column in order.tolist():
        shape, code, nodes, edges = census.describe(column)
        lifts = [
            rounded(w[column] / f[column]) if census.attention and f[column] else None
            for w, f in zip(heavy, often, strict=True)
        ]
        topologies.append(
            TopologyShare(
                shape, code, int(census.lengths[column]), WHERES[where[column]], rounded(often[0][column]),
                rounded(often[1][column]), lifts[0], lifts[1], nodes, edges,
            )
        )  # fmt: skip
    return tuple(topologies)
