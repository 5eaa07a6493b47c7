"""Sorted entries become compressed sparse rows on disk: merged, counted and written as they pass by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.data.tables.external_sort import Columns
from gpm.errors import GpmError
from gpm.graph import csr
from gpm.graph.folder import GraphWriter
from gpm.graph.graph import Census
from gpm.io.npy import map_array

_BLOCK = 2**22  # entries whose weights are added up at once


@dataclass
class RowWriter:
    """Writes `indptr`, `indices` and, where they are wanted, `edge_ids`, `edge_weight` and `edge_cdf` of a graph.

    Args:
        writer: Of the graph's folder.
        num_nodes: N.
        bits: A key is the source shifted by so many bits, and the target.
        edges: Rows of the table of edges.
        ids: Write `edge_ids`.
        weight: The type of the weights; None without weights.
        merge, drop_loops: What to do with equal edges and with self-loops.
    """

    writer: GraphWriter
    num_nodes: int
    bits: int
    edges: int
    ids: bool
    weight: np.dtype | None
    merge: bool
    drop_loops: bool
    loops: int = 0  # entries that are self-loops
    repeats: int = 0
    repeated_loops: int = 0
    loop_entries: int = 0
    degree: NDArray = field(init=False)
    reached: NDArray = field(init=False)

    def __post_init__(self) -> None:
        self.degree = np.zeros(self.num_nodes + 1, dtype=np.int64)
        self.reached = np.zeros(self.num_nodes, dtype=bool)

    def write(self, batches: Iterator[Columns]) -> None:
        """Write the entries, which come by key and then by row."""
        files = {"indices": self.writer.grow("indices", csr.index_dtype(self.num_nodes))}
        if self.ids:
            files["edge_ids"] = self.writer.grow("edge_ids", csr.index_dtype(self.edges))
        if self.weight is not None:
            files["edge_weight"] = self.writer.grow("edge_weight", self.weight)
        try:
            for columns in self._merged(batches):
                source, target = columns["key"] >> self.bits, columns["key"] & ((1 << self.bits) - 1)
                self._count(source, target)
                files["indices"].append(target)
                if self.ids:
                    files["edge_ids"].append(columns["row"])
                if self.weight is not None:
                    files["edge_weight"].append(columns["weight"])
        finally:
            for file in files.values():
                file.close()
        self.writer.put("indptr", np.cumsum(self.degree))
        if self.weight is not None:
            write_sums(self.writer, np.cumsum(self.degree))

    def census(self, *, undirected: bool) -> Census:
        """What was found, as `Graph.from_edges` says it."""
        indptr = np.cumsum(self.degree)
        symmetric = undirected or csr.is_symmetric(indptr, map_part(self.writer.path("indices")))
        repeats = (self.repeats + self.repeated_loops) // 2 if undirected else self.repeats
        return Census(
            directed=not symmetric,
            isolated=int(np.count_nonzero((self.degree[1:] == 0) & ~self.reached)),
            self_loops=self.loops,
            duplicates=repeats,
            loop_entries=self.loop_entries,
            dropped_loops=bool(self.loops and self.drop_loops),
            merged=bool(self.repeats and self.merge),
            mirrored=undirected,
        )

    def _merged(self, batches: Iterator[Columns]) -> Iterator[Columns]:
        """The entries that stay. The last one is held back until it is seen that the next is another."""
        held: Columns = {}
        for found in batches:
            columns = self._without_loops(found)
            if held:
                columns = {name: np.concatenate([held[name], values]) for name, values in columns.items()}
            if not len(columns["key"]):
                continue
            if self.merge:
                columns = self._merge(columns)
            else:
                self._count_repeats(columns["key"])
            yield {name: values[:-1] for name, values in columns.items()}
            held = {name: values[-1:] for name, values in columns.items()}
        if held:
            yield held

    def _without_loops(self, columns: Columns) -> Columns:
        loop = (columns["key"] >> self.bits) == (columns["key"] & ((1 << self.bits) - 1))
        self.loops += int(np.count_nonzero(loop))
        return {name: values[~loop] for name, values in columns.items()} if self.drop_loops else columns

    def _count_repeats(self, key: NDArray) -> NDArray:
        """Which entries are not equal to the one before."""
        new = np.concatenate([[True], key[1:] != key[:-1]])
        again = key[~new]
        self.repeats += len(again)
        self.repeated_loops += int(np.count_nonzero((again >> self.bits) == (again & ((1 << self.bits) - 1))))
        return new

    def _merge(self, columns: Columns) -> Columns:
        new = self._count_repeats(columns["key"])
        if new.all():
            return columns
        merged = {name: values[new] for name, values in columns.items()}
        if self.weight is not None:
            places = np.cumsum(new) - 1
            with np.errstate(over="ignore"):
                np.add.at(merged["weight"], places[~new], columns["weight"][~new])  # one by one, in their order
            if not np.isfinite(merged["weight"]).all():
                raise GpmError("the weights of equal edges add up to infinity; scale the weights down.")
        return merged

    def _count(self, source: NDArray, target: NDArray) -> None:
        if not len(source):
            return
        first = int(source[0])
        counts = np.bincount(source - first)
        self.degree[first + 1 : first + 1 + len(counts)] += counts
        self.reached[target] = True
        self.loop_entries += int(np.count_nonzero(source == target))


def write_sums(writer: GraphWriter, indptr: NDArray) -> None:
    """Write `edge_cdf`, the running sums of the weights in each row, some rows at a time."""
    weight, nodes = map_part(writer.path("edge_weight")), len(indptr) - 1
    with writer.grow("edge_cdf", np.int64) as file:
        row = 0
        while row < nodes:
            end = int(np.searchsorted(indptr, indptr[row] + _BLOCK, side="right")) - 1
            end = min(nodes, max(end, row + 1))
            part = np.array(weight[indptr[row] : indptr[end]])
            file.append(csr.cumulate_weights(indptr[row : end + 1] - indptr[row], part))
            row = end


def map_part(path: Path) -> NDArray:
    """Map an array that was just written."""
    with path.open("rb") as file:
        return map_array(file, path).view(np.ndarray)
