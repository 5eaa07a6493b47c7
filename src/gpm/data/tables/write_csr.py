"""Write sorted entries as compressed sparse rows on disk, merging and counting them in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpm.data.tables.external_sort import Columns
from gpm.errors import GpmError
from gpm.graph import csr
from gpm.graph.folder import GraphWriter
from gpm.graph.graph import Census
from gpm.io.npy import map_array

_COLUMNS = {"edge_ids": "row", "edge_weight": "weight"}  # the column of the entries for each array
_BLOCK = 2**22  # entries whose weights are summed at once


@dataclass
class RowWriter:
    """Writer of `indptr`, `indices` and optionally `edge_ids`, `edge_weight` and `edge_cdf` of a graph."""

    writer: GraphWriter
    num_nodes: int
    bits: int  # a key is `source << bits | target`
    edges: int  # rows of the table of edges
    ids: bool  # write `edge_ids`
    weight: np.dtype | None  # type of the weights; None without weights
    merge: bool  # merge equal edges
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

    def write(self, batches: Iterator[Columns], bar: Any) -> None:
        """Write the entries, which are sorted by key and then by row; `bar` counts them."""
        types: dict[str, DTypeLike] = {"indices": csr.index_dtype(self.num_nodes)}
        types |= {"edge_ids": csr.index_dtype(self.edges)} if self.ids else {}
        types |= {"edge_weight": self.weight} if self.weight is not None else {}
        with ExitStack() as stack:
            files = {key: stack.enter_context(self.writer.grow(key, dtype)) for key, dtype in types.items()}
            for columns in self._merged(batches, bar):
                source, target = columns["key"] >> self.bits, columns["key"] & ((1 << self.bits) - 1)
                self._count(source, target)
                for key, file in files.items():
                    file.append(columns[_COLUMNS[key]] if key in _COLUMNS else target)
        self.writer.put("indptr", np.cumsum(self.degree))
        if self.weight is not None:
            write_sums(self.writer, np.cumsum(self.degree))

    def census(self, *, undirected: bool) -> Census:
        """Return the counts, as `Graph.from_edges` does."""
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

    def _merged(self, batches: Iterator[Columns], bar: Any) -> Iterator[Columns]:
        """Yield the entries to write. The last of a batch is held back, as the next may be equal to it."""
        held: Columns = {}
        for batch in batches:
            bar.update(len(batch["key"]))
            loop = (batch["key"] >> self.bits) == (batch["key"] & ((1 << self.bits) - 1))
            self.loops += int(np.count_nonzero(loop))
            columns = {name: values[~loop] for name, values in batch.items()} if self.drop_loops else batch
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

    def _count_repeats(self, key: NDArray) -> NDArray:
        """Return which entries differ from the one before."""
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
            index = np.cumsum(new) - 1
            with np.errstate(over="ignore"):
                np.add.at(merged["weight"], index[~new], columns["weight"][~new])  # one by one, in order
            if not np.isfinite(merged["weight"]).all():
                raise GpmError("The weights of equal edges add up to infinity; scale the weights down.")
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
    """Write `edge_cdf`, the cumulative weights of each row, some rows at a time."""
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
    """Map an array of a graph that is being written."""
    with path.open("rb") as file:
        return map_array(file, path).view(np.ndarray)
