"""The user's ids of the nodes: a table in DuckDB, and the names that a graph keeps."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from gpm.data.tables.cell_sql import raw
from gpm.data.tables.open_table import Table
from gpm.data.tables.session import fetch_frames, fetch_value, quote
from gpm.errors import GpmError, nearest
from gpm.graph.folder import GraphWriter
from gpm.graph.names import encode_names

_BLANKS = "' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13) || chr(160) || chr(12288)"
BARE = f"nfc_normalize(trim(CAST({{0}} AS VARCHAR), {_BLANKS}))"  # must differ between ids
_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER")


@dataclass(frozen=True)
class Ends:
    """The table of edges and its columns by role; an absent column is empty."""

    table: Table
    source: str
    target: str
    weight: str = ""
    graph: str = ""


@dataclass(frozen=True)
class Listed:
    """A table with one row per node or per graph: the column of ids, and the column of the node's graph if any."""

    table: Table
    id: str
    graph: str = ""


@dataclass(frozen=True, eq=False)
class Ids:
    """Nodes 0..N-1 and the user's ids.

    The DuckDB table `table` is sorted by `number` and has the columns `number`, `name` (the user's id), `row` (in the
    nodes table; NULL for a node that it does not list) and `graph` (its index; NULL for a single graph).
    """

    base: duckdb.DuckDBPyConnection
    table: str
    count: int
    kind: str  # type of `name`: VARCHAR, or BIGINT if all ids are integers in their files
    whole: bool  # all ids are integers
    nodes: Listed | None = None
    unlisted: str = "error"  # for an end of an edge that is not listed: error, add (the node) or drop (the edge)
    graph_ptr: NDArray[np.int64] | None = None  # [G+1]; None for a single graph
    graph_names: tuple[str, ...] = ()  # empty for a single graph
    by_graph: bool = False  # edges name their graph, and ids need to differ only within a graph

    def rows(self) -> NDArray[np.int64]:
        """Return the row of each node in the nodes table `[N]`; -1 for nodes that it does not list."""
        columns = self.base.execute(f"SELECT coalesce(row, -1) AS row FROM {self.table} ORDER BY number").fetchnumpy()
        return np.asarray(columns["row"], dtype=np.int64)

    def renumber(self, order: NDArray[np.int64]) -> None:
        """Renumber the nodes: node `order[0]` becomes node 0."""
        import pandas as pd

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
        """Write the bounds of the graphs, and the names unless they are 0..N-1.

        In a collection where ids repeat in another graph, the name of a node is "graph:id".
        """
        if self.graph_ptr is not None:
            writer.put("graph_ptr", self.graph_ptr)
        if self._is_counted():
            return
        name = "CAST(name AS VARCHAR)"
        if self.graph_ptr is not None and not self._ask("count(DISTINCT name) = count(*)"):
            label = f"(SELECT graph FROM {self.table}_graphs AS g WHERE g.number = {self.table}.graph)"
            name = f"{label} || ':' || {name}"
            if not self._ask(f"count(DISTINCT {name}) = count(*)"):
                raise GpmError("Two nodes would have the same name 'graph:id' because of a colon; rename the graphs.")
        elif self.whole:
            with writer.grow("names.integers", np.int64) as integers:
                query = f"SELECT CAST(name AS BIGINT) AS name FROM {self.table} ORDER BY number"
                for frame in fetch_frames(self.base, query):
                    integers.append(frame["name"].to_numpy())
            return
        with writer.grow("names.bytes", np.uint8) as buffer, writer.grow("names.pointer", np.int64) as pointer:
            pointer.append(np.zeros(1, dtype=np.int64))
            for frame in fetch_frames(self.base, f"SELECT {name} AS name FROM {self.table} ORDER BY number"):
                encoded, lengths = encode_names(frame["name"].astype(object).tolist())
                pointer.append(buffer.length + np.cumsum(lengths))
                buffer.append(encoded)

    def _is_counted(self) -> bool:
        """Return whether ids are what `Graph.name` returns without names: 0..N-1, in a collection within each graph."""
        if not self.whole or self.graph_names != tuple(map(str, range(len(self.graph_names)))):
            return False
        begin = "0" if self.graph_ptr is None else "first_value(number) OVER (PARTITION BY graph ORDER BY number)"
        counted = f"SELECT CAST(name AS BIGINT) = number - {begin} AS counted FROM {self.table}"
        return bool(fetch_value(self.base, f"SELECT bool_and(counted) FROM ({counted})"))

    def _ask(self, expression: str) -> bool:
        return bool(fetch_value(self.base, f"SELECT {expression} FROM {self.table}"))


def kind_of_ids(ends: Ends, nodes: Listed | None) -> str:
    """Return BIGINT if ids are integers in all tables, else VARCHAR."""
    types = [ends.table.types[name] for name in (ends.source, ends.target)]
    types += [nodes.table.types[nodes.id]] if nodes is not None else []
    return "BIGINT" if all(kind in _INTEGERS for kind in types) else "VARCHAR"


def id_of(table: Table, column: str, kind: str) -> str:
    """Return SQL of the ids in a column, NULL where they are empty."""
    return f"CAST({quote(column)} AS BIGINT)" if kind == "BIGINT" else raw(table, column)


def alike(where: str, name: str, other: str, things: str = "ids") -> GpmError:
    """Make the error for two ids that differ but look the same."""
    what = "blanks around them" if name.strip() != name or other.strip() != other else "how their letters are encoded"
    return GpmError(
        f"{where}: {things} {name!r} and {other!r} differ only in {what}; fix the file, or set 'trim: true' for blanks."
    )


def suggest(ids: Ids, name: object) -> str:
    """Return a hint with the id that a misspelled one may have meant."""
    some = ids.base.execute(f"SELECT CAST(name AS VARCHAR) FROM {ids.table} LIMIT 10000").fetchall()
    return nearest(str(name), [other for (other,) in some])
