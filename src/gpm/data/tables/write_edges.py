"""Write the edges of a table as the compressed sparse rows of a graph on disk, with bounded memory.

DuckDB reads the table and joins the node numbers, which are sorted on disk, merged, counted and written in one pass.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gpm.data.tables.cell_sql import number
from gpm.data.tables.external_sort import MOST, Columns, Pile, sort_pile
from gpm.data.tables.node_ids import BARE, Ends, Ids, alike, id_of, suggest
from gpm.data.tables.schema import CHOICES
from gpm.data.tables.session import VECTORS, quote, show_bar, text
from gpm.errors import GpmError
from gpm.graph import csr
from gpm.graph.coerce import check_choice
from gpm.graph.folder import GraphWriter
from gpm.graph.graph import Census
from gpm.io.npy import map_array

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = {"edge_ids": "row", "edge_weight": "weight"}  # the column of the entries for each array
_NUMBERS = ("DOUBLE", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_log = logging.getLogger("gpm")
UNLISTED, _EMPTY, _CROSSING = -1, -2, -3  # instead of the number of a node


def write_edges(
    ends: Ends,
    ids: Ids,
    writer: GraphWriter,
    *,
    keep_ids: bool = False,
    directed: bool = False,
    duplicates: str = "merge",
    self_loops: str = "keep",
    progress: bool = False,
) -> Census:
    """Write the rows of a graph: the same arrays as `Graph.from_edges` makes of the same edges.

    `keep_ids` writes the row of the table of each entry, which edge features need. Unless edges are directed, each is
    written in both directions. To "merge" duplicates keeps the first of equal edges and adds up their weights.
    """
    check_choice("duplicates", duplicates, CHOICES["duplicates"])
    check_choice("self_loops", self_loops, CHOICES["self_loops"])
    bits = max(1, (ids.count - 1).bit_length())
    if 2 * bits > 62:
        raise GpmError(f"{ids.count:,} nodes exceed the limit of {2**31:,} for an import.")
    folder = writer.scratch / "sorting"
    folder.mkdir()
    pile = Pile(folder / "edges")
    numbered = keep_ids or bool(ends.weight)
    chosen = ["s", "t"] + (["gpm_row"] if numbered else []) + (["coalesce(w, -1) AS w"] if ends.weight else [])
    rows = dropped = 0
    with show_bar("reading edges", progress) as bar:
        for frame in ends.table.chunks(f"SELECT {', '.join(chosen)} FROM ({join_ends(ends, ids, numbered)})", VECTORS):
            rows += len(frame)
            bar.update(len(frame))
            columns = _checked(frame, ends, ids)
            dropped += len(frame) - len(columns["s"])
            pile.append(_as_entries(columns, bits, both=not directed))
    if dropped:
        _report_dropped(dropped, rows, ends, ids)
    weight = np.dtype(np.float32 if ends.table.types[ends.weight] == "FLOAT" else np.float64) if ends.weight else None
    writing = RowWriter(writer, ids.count, bits, rows, keep_ids, weight, duplicates == "merge", self_loops == "drop")
    with show_bar("sorting edges", progress, pile.count) as bar:
        writing.write(sort_pile(pile, 2 * bits), bar)
    shutil.rmtree(folder)
    return writing.census(undirected=not directed)


def _as_weight(ends: Ends) -> str:
    """Return SQL of the weight of an edge; NULL if the cell is not a number."""
    kind, column = ends.table.types[ends.weight], quote(ends.weight)
    if kind == "FLOAT":
        return column
    return f"CAST({column} AS DOUBLE)" if kind in _NUMBERS else number(ends.table, f"trim({text(ends.weight)})")


def join_ends(ends: Ends, ids: Ids, rows: bool) -> str:
    """Return SQL of the edges with the numbers `s` and `t` of their ends, their weight `w`, and if `rows` their row."""
    columns = [
        f"{id_of(ends.table, name, ids.kind)} AS {end}" for name, end in ((ends.source, "a"), (ends.target, "b"))
    ]
    columns += ["gpm_row"] if rows else []
    columns += [f"{_as_weight(ends)} AS w"] if ends.weight else []
    columns += [f"{text(ends.graph)} AS g"] if ids.by_graph else []
    table = f"(SELECT {', '.join(columns)} FROM {ends.table.numbered() if rows else ends.table.view}) AS e"
    if ids.by_graph:
        table += f" LEFT JOIN {ids.table}_graphs AS g ON g.graph = e.g"
    for end, alias in (("a", "x"), ("b", "y")):
        same = f" AND {alias}.graph = g.number" if ids.by_graph else ""
        table += f" LEFT JOIN {ids.table} AS {alias} ON {alias}.name = e.{end}{same}"
    source = f"CASE WHEN e.a IS NULL OR e.b IS NULL THEN {_EMPTY} ELSE coalesce(x.number, {UNLISTED}) END"
    if ids.graph_ptr is not None and not ids.by_graph:
        source = f"CASE WHEN x.graph <> y.graph THEN {_CROSSING} ELSE {source} END"
    return f"SELECT e.*, {source} AS s, coalesce(y.number, {UNLISTED}) AS t FROM {table}"


def _checked(frame: pd.DataFrame, ends: Ends, ids: Ids) -> Columns:
    """Return the columns of the edges to write; raise the error of the first invalid row of the table."""
    columns = {name: frame[name].to_numpy() for name in frame}
    wrong = (columns["s"] < 0) | (columns["t"] < 0)
    if ids.unlisted == "drop":
        keep = ~(wrong & (columns["s"] >= UNLISTED))
        columns = {name: values[keep] for name, values in columns.items()}
        wrong = wrong[keep]
    if ends.weight:
        wrong |= ~(np.isfinite(columns["w"]) & (columns["w"] >= 0))
    if wrong.any():
        raise _explain(ends, ids)
    return columns


def _report_dropped(dropped: int, rows: int, ends: Ends, ids: Ids) -> None:
    """Log how many edges were dropped; refuse to drop one for an id that differs only in looks."""
    assert ids.nodes is not None
    title = ids.nodes.table.title
    if ids.kind == "VARCHAR":
        ends_of = f"SELECT unnest([a, b]) AS name, unnest([s, t]) AS number FROM ({join_ends(ends, ids, False)})"
        missing = f"SELECT DISTINCT name, {BARE.format('name')} AS bare FROM ({ends_of}) WHERE number = {UNLISTED}"
        listed = f"SELECT name, {BARE.format('name')} AS bare FROM {ids.table}"
        query = f"SELECT m.name, k.name FROM ({missing}) AS m JOIN ({listed}) AS k USING (bare) LIMIT 1"
        for name, twin in ids.base.execute(query).fetchall():
            raise alike(f"{ends.table.title} and {title}", name, twin)
    _log.warning(
        "%s: %s of %s edges were dropped because %s does not list their ends.",
        ends.table.title, f"{dropped:,}", f"{rows:,}", title,
    )  # fmt: skip


def _as_entries(columns: Columns, bits: int, *, both: bool) -> Columns:
    """Make the entries of edges: two per undirected edge, but one for a self-loop."""
    source, target = columns["s"].astype(np.int64), columns["t"].astype(np.int64)
    entries = {"key": (source << bits) | target}
    if "gpm_row" in columns:
        entries["row"] = columns["gpm_row"].astype(np.int64)
    if "w" in columns:
        entries["weight"] = columns["w"]
    if not both:
        return entries
    back = source != target
    mirrored = {name: values[back] for name, values in entries.items()} | {"key": ((target << bits) | source)[back]}
    return {name: np.concatenate([values, mirrored[name]]) for name, values in entries.items()}


def _explain(ends: Ends, ids: Ids) -> GpmError:
    wrong = [f"s <= {_EMPTY}"] + (["s < 0", "t < 0"] if ids.unlisted != "drop" else [])
    wrong += ["w IS NULL", "w < 0", "isinf(w)"] if ends.weight else []
    query = f"SELECT gpm_row, a, b, s, t FROM ({join_ends(ends, ids, True)}) WHERE {' OR '.join(wrong)}"
    row, a, b, s, t = ends.table.fetch(f"{query} ORDER BY gpm_row LIMIT 1")[0]
    where = ends.table.where(row)
    if s == _EMPTY:
        return GpmError(f"{where}: an end of the edge is empty; fix or remove the row.")
    if s == _CROSSING:
        return GpmError(f"{where}: the edge joins {a!r} and {b!r} of two different graphs; fix or remove the row.")
    if min(s, t) == UNLISTED and ids.unlisted != "drop":
        return _explain_unlisted(where, a if s == UNLISTED else b, ids)
    query = f"SELECT {text(ends.weight)} FROM {ends.table.numbered()} WHERE gpm_row = {row}"
    cell = ids.base.execute(query).fetchall()[0][0] or ""
    return GpmError(f"{where}: weight {cell!r} is not a number of 0 or more; fix the cell, or ignore the column.")


def _explain_unlisted(where: str, name: Any, ids: Ids) -> GpmError:
    if ids.nodes is None:  # then all ends are nodes, unless the file has changed
        return GpmError(f"{where}: node {name!r} is new since the last read; the file is damaged or was changed.")
    title = ids.nodes.table.title
    if ids.kind == "VARCHAR":
        query = f"SELECT name FROM {ids.table} WHERE {BARE.format('name')} = {BARE.format('?')} LIMIT 1"
        if twin := [other for (other,) in ids.base.execute(query, [name]).fetchall() if other != name]:
            return alike(f"{where} and {title}", name, twin[0])
    if ids.by_graph and ids.base.execute(f"SELECT 1 FROM {ids.table} WHERE name = ? LIMIT 1", [name]).fetchall():
        return GpmError(f"{where}: {title} lists node {name!r} only in other graphs; fix or remove the row.")
    fix = "list it, or set unlisted to add (the node) or drop (the edge)"
    return GpmError(f"{where}: {title} does not list node {name!r}; {fix}.{suggest(ids, name)}")


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

    def write(self, batches: Iterator[Columns], bar: Any) -> None:
        """Write the entries, sorted by key and then by row; `bar` counts them."""
        self.degree, self.reached = np.zeros(self.num_nodes + 1, dtype=np.int64), np.zeros(self.num_nodes, dtype=bool)
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
            end = int(np.searchsorted(indptr, indptr[row] + MOST, side="right")) - 1
            end = min(nodes, max(end, row + 1))
            part = np.array(weight[indptr[row] : indptr[end]])
            file.append(csr.cumulate_weights(indptr[row : end + 1] - indptr[row], part))
            row = end


def map_part(path: Path) -> NDArray:
    """Map an array of a graph that is being written."""
    with path.open("rb") as file:
        return map_array(file, path).view(np.ndarray)
