"""The user's node ids beside the numbers that nodes get: a table in DuckDB, and the names that a graph keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from gpm.data.tables.open_table import Table
from gpm.data.tables.session import quote, text
from gpm.errors import GpmError, nearest
from gpm.graph.folder import GraphWriter
from gpm.graph.names import encode_names

Unlisted = Literal["error", "add", "drop"]
VECTORS = 512  # of 2,048 rows, that are fetched at once
_BLANKS = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13) || chr(160) || chr(12288)"
BARE = f"nfc_normalize(trim(CAST({{0}} AS VARCHAR), {_BLANKS}))"  # what ids must not have in common
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


@dataclass(frozen=True)
class Ends:
    """The table of edges, and which of its columns are what; a column that there is none of is empty."""

    table: Table
    source: str
    target: str
    weight: str = ""
    graph: str = ""


@dataclass(frozen=True)
class Listed:
    """A table with a row per node, or per graph: the column of its ids, and for nodes that of their graph, if any."""

    table: Table
    id: str
    graph: str = ""


@dataclass(frozen=True, eq=False)
class Ids:
    """Nodes 0..N-1 and what the user calls them.

    Attributes:
        table: A table in the connection with columns `number`, `name`, `row` (of the nodes table; NULL for a node that
            it does not list) and `graph` (its number; NULL where there is a single graph), in the order of `number`.
        count: N.
        kind: The type of `name`: VARCHAR, or BIGINT where all ids are integers in their files.
        whole: Whether all ids are whole numbers.
        nodes: The nodes table.
        unlisted: What is done with an edge's end that it does not list: error, add (the node) or drop (the edge).
        graph_ptr: `[G+1]`; None for a single graph.
        graph_names: What the user calls the graphs; empty for a single one.
        by_graph: Edges name their graph, and ids need to differ within it only.
    """

    base: duckdb.DuckDBPyConnection
    table: str
    count: int
    kind: str
    whole: bool
    nodes: Listed | None = None
    unlisted: Unlisted = "error"
    graph_ptr: NDArray[np.int64] | None = None
    graph_names: tuple[str, ...] = ()
    by_graph: bool = False

    def rows(self) -> NDArray[np.int64]:
        """The row of the nodes table that each node has `[N]`; -1 for those that it does not list."""
        found = self.base.execute(f"SELECT coalesce(row, -1) AS row FROM {self.table} ORDER BY number").fetchnumpy()
        return np.asarray(found["row"], dtype=np.int64)

    def renumber(self, order: NDArray[np.int64]) -> None:
        """Give the nodes new numbers: what was node `order[0]` is node 0 from now on."""
        frame = f"{self.table}_order"
        self.base.register(frame, pd.DataFrame({"old": order, "new": np.arange(len(order))}))
        self.base.execute(
            f"CREATE TEMP TABLE {self.table}_moved AS SELECT o.new AS number, t.name, t.row, t.graph "
            f"FROM {self.table} AS t JOIN {frame} AS o ON o.old = t.number ORDER BY 1"
        )
        self.base.unregister(frame)
        self.base.execute(f"DROP TABLE {self.table}")
        self.base.execute(f"ALTER TABLE {self.table}_moved RENAME TO {self.table}")

    def write(self, writer: GraphWriter) -> None:
        """Write names, where they are not the numbers themselves, and the bounds of the graphs.

        In a collection where ids come again in another graph, a node's name is that of its graph, a colon, and its id.
        """
        if self.graph_ptr is not None:
            writer.put("graph_ptr", self.graph_ptr)
        if self._is_counted():
            return
        if self.graph_ptr is None or self._ask("count(DISTINCT name) = count(*)"):
            self._write_names(writer)
            return
        label = f"(SELECT graph FROM {self.table}_graphs AS g WHERE g.number = {self.table}.graph)"
        name = f"{label} || ':' || CAST(name AS VARCHAR)"
        if not self._ask(f"count(DISTINCT {name}) = count(*)"):
            raise GpmError("two nodes would have the same name 'graph:id', for a colon in an id; rename the graphs.")
        _write_texts(self.base, f"SELECT {name} AS name FROM {self.table} ORDER BY number", writer)

    def _write_names(self, writer: GraphWriter) -> None:
        if not self.whole:
            query = f"SELECT CAST(name AS VARCHAR) AS name FROM {self.table} ORDER BY number"
            _write_texts(self.base, query, writer)
            return
        with writer.grow("names.integers", np.int64) as integers:
            for frame in fetch(self.base, f"SELECT CAST(name AS BIGINT) AS name FROM {self.table} ORDER BY number"):
                integers.append(frame["name"].to_numpy())

    def _is_counted(self) -> bool:
        """Whether ids are what `Graph.name` says without names: the numbers, in a collection those in each graph."""
        if not self.whole or self.graph_names != tuple(map(str, range(len(self.graph_names)))):
            return False
        begin = "0" if self.graph_ptr is None else "first_value(number) OVER (PARTITION BY graph ORDER BY number)"
        counted = f"SELECT CAST(name AS BIGINT) = number - {begin} AS counted FROM {self.table}"
        return bool(self.base.execute(f"SELECT bool_and(counted) FROM ({counted})").fetchall()[0][0])

    def _ask(self, expression: str) -> bool:
        return bool(self.base.execute(f"SELECT {expression} FROM {self.table}").fetchall()[0][0])


def kind_of_ids(ends: Ends, nodes: Listed | None) -> str:
    """BIGINT if ids are integers wherever they stand, else VARCHAR."""
    types = [ends.table.types[name] for name in (ends.source, ends.target)]
    types += [nodes.table.types[nodes.id]] if nodes is not None else []
    return "BIGINT" if all(kind in _INTEGERS for kind in types) else "VARCHAR"


def id_of(table: Table, column: str, kind: str) -> str:
    """SQL of a column's ids, NULL where they are empty; a whole number is written as one, also if it is a float."""
    if kind == "BIGINT":
        return f"CAST({quote(column)} AS BIGINT)"
    if table.types[column] not in ("FLOAT", "DOUBLE"):
        return text(column)
    name = quote(column)
    whole = f"{name} = trunc({name}) AND abs({name}) < 1e15"
    return f"CASE WHEN {whole} THEN CAST(TRY_CAST({name} AS BIGINT) AS VARCHAR) ELSE {text(column)} END"


def alike(where: str, name: str, other: str, things: str = "ids") -> GpmError:
    """The error on two ids that are not the same, though they look so."""
    what = "blanks around them" if name.strip() != name or other.strip() != other else "how their letters are encoded"
    return GpmError(
        f"{where}: {things} {name!r} and {other!r} differ only in {what}; mend the file, or set trim for blanks."
    )


def suggest(ids: Ids, name: object) -> str:
    """A word on the id that a mistaken one may have meant."""
    some = ids.base.execute(f"SELECT CAST(name AS VARCHAR) FROM {ids.table} LIMIT 10000").fetchall()
    return nearest(str(name), [known for (known,) in some])


def fetch(base: duckdb.DuckDBPyConnection, query: str) -> Iterator[pd.DataFrame]:
    """The rows of a query, a million at a time."""
    base.execute(query)
    while len(frame := base.fetch_df_chunk(VECTORS)):
        yield frame


def _write_texts(base: duckdb.DuckDBPyConnection, query: str, writer: GraphWriter) -> None:
    with writer.grow("names.bytes", np.uint8) as buffer, writer.grow("names.pointer", np.int64) as pointer:
        pointer.append(np.zeros(1, dtype=np.int64))
        for frame in fetch(base, query):
            encoded, lengths = encode_names(frame["name"].astype(object).tolist())
            pointer.append(buffer.length + np.cumsum(lengths))
            buffer.append(encoded)
