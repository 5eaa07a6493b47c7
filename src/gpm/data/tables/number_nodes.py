"""Number the nodes: DuckDB collects, checks and sorts their ids, with bounded memory."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.tables.node_ids import BARE, Ends, Ids, Listed, alike, id_of, kind_of_ids
from gpm.data.tables.open_table import reading
from gpm.data.tables.schema import CHOICES
from gpm.data.tables.session import fetch_value, text, watching
from gpm.errors import GpmError
from gpm.graph.coerce import check_choice

_WHOLE = "regexp_full_match(name, '0|-?[1-9][0-9]{0,17}')"  # an integer in its canonical form; 007 is text
_MOST = 10**18 - 1  # largest integer of 18 digits
_counter = itertools.count(1)


def number_nodes(
    ends: Ends,
    nodes: Listed | None = None,
    graphs: Listed | None = None,
    *,
    unlisted: str = "error",
    progress: bool = False,
) -> Ids:
    """Number the nodes of a graph, or of a collection of graphs.

    Nodes are numbered in the order of their table, followed by added nodes in order of appearance. Without a table,
    integers are sorted, and other ids are in order of appearance: row by row, the source before the target. In a
    collection, graphs are in the order of their table or of appearance, and nodes are numbered so within each graph; if
    edges and nodes both name their graph, ids need to differ only within a graph. An end of an edge that the nodes
    table does not list is an error, is added, or its edge is dropped.
    """
    check_choice("unlisted", unlisted, CHOICES["unlisted"])
    with reading(ends.table), watching(ends.table.base, "finding nodes", progress):
        return _Numbering(ends, nodes, graphs, unlisted).run()


class _Numbering:
    """A numbering in progress: tables `T_collected` of ids and `T_graphs` become the table `T`."""

    def __init__(self, ends: Ends, nodes: Listed | None, graphs: Listed | None, unlisted: str) -> None:
        self.ends, self.nodes, self.graphs, self.unlisted = ends, nodes, graphs, unlisted
        self.base, self.table = ends.table.base, f"gpm_ids_{next(_counter)}"
        self.kind = kind_of_ids(ends, nodes)
        self.collection = bool(ends.graph if nodes is None else nodes.graph)
        if nodes is not None and ends.graph and not nodes.graph:
            raise GpmError(f"{ends.table.title} has a column of graphs, but {nodes.table.title} has none; add one.")
        if graphs is not None and not self.collection:
            raise GpmError(f"{graphs.table.title} lists graphs, but no other table has a column of graphs; add one.")
        self.by_graph = bool(ends.graph and self.collection)  # ids need to differ only within a graph
        self.keys = "graph, name" if self.by_graph else "name"

    def run(self) -> Ids:
        # the place of an id is its row in the nodes table, or twice its row in the edges (plus one for a target)
        columns = f"name {self.kind}, graph VARCHAR, place BIGINT, listed BOOLEAN"
        self.base.execute(f"CREATE TEMP TABLE {self.table}_collected ({columns})")
        if self.nodes is not None:
            self._collect_listed(self.nodes)
        if self.nodes is None or self.unlisted == "add":
            self._collect_found()
        self._number_graphs()
        test = _WHOLE if self.kind == "VARCHAR" else f"name BETWEEN -{_MOST} AND {_MOST}"
        whole = bool(self._value(f"SELECT coalesce(bool_and({test}), true) FROM {self.table}_collected"))
        within = "CAST(name AS BIGINT)" if whole and self.nodes is None else "c.place"
        graph = "g.number" if self.collection else "NULL::BIGINT"
        join = f"JOIN {self.table}_graphs AS g ON g.graph = c.graph" if self.collection else ""
        self.base.execute(
            f"CREATE TEMP TABLE {self.table} AS "
            f"SELECT row_number() OVER (ORDER BY {graph}, listed DESC, {within}) - 1 AS number, name, "
            f"CASE WHEN listed THEN c.place END AS row, {graph} AS graph "
            f"FROM {self.table}_collected AS c {join} ORDER BY 1"
        )
        count = int(self._value(f"SELECT count(*) FROM {self.table}"))
        if not count:
            raise GpmError(f"{(self.nodes or self.ends).table.title} has no rows, so there are no nodes; add some.")
        self._check_alike()
        bounds = self._bounds()
        self.base.execute(f"DROP TABLE {self.table}_collected")
        return Ids(self.base, self.table, count, self.kind, whole, self.nodes, self.unlisted, *bounds, self.by_graph)

    def _collect_listed(self, nodes: Listed) -> None:
        graph = text(nodes.graph) if nodes.graph else "NULL"
        with reading(nodes.table):
            chosen = f"{id_of(nodes.table, nodes.id, self.kind)}, {graph}, gpm_row, true"
            self.base.execute(f"INSERT INTO {self.table}_collected SELECT {chosen} FROM {nodes.table.numbered()}")
        self._check_filled("collected", nodes, {"name": nodes.id, "graph": nodes.graph})
        fix = "ids must differ" if self.by_graph or not self.collection else "name the graph of each edge too"
        self._check_distinct("collected", nodes, self.keys, "node", fix)

    def _check_filled(self, table: str, listed: Listed, columns: dict[str, str]) -> None:
        for column, name in columns.items():
            row = self._value(f"SELECT min(place) FROM {self.table}_{table} WHERE {column} IS NULL") if name else None
            if row is not None:
                raise GpmError(f"{listed.table.where(row)}: column {name!r} is empty; fix or remove the row.")

    def _check_distinct(self, table: str, listed: Listed, keys: str, what: str, fix: str) -> None:
        """Refuse the first id that occurs twice."""
        source, last = f"{self.table}_{table}", keys.split(", ")[-1]
        twice = f"SELECT {keys}, min(place) AS first FROM {source} GROUP BY {keys} HAVING count(*) > 1"
        rows = self.base.execute(
            f"SELECT {last}, place FROM {source} JOIN (SELECT * FROM ({twice}) ORDER BY first LIMIT 1) USING ({keys}) "
            "ORDER BY place LIMIT 2"
        ).fetchall()
        if rows:
            both = " and ".join(listed.table.where(place) for _, place in rows)
            raise GpmError(f"{both}: both are {what} {rows[0][0]!r}; {fix}.")

    def _collect_found(self) -> None:
        ends, found = self.ends, f"{self.table}_found"
        self.base.execute(
            f"CREATE TEMP TABLE {found} AS SELECT {self.keys}, min(place) AS place "
            f"FROM ({_stack(ends, self.kind)}) GROUP BY {self.keys}"
        )
        for column in self.keys.split(", "):
            row = self._value(f"SELECT min(place) // 2 FROM {found} WHERE {column} IS NULL")
            if row is not None:
                what = "an end of the edge is empty" if column == "name" else "the edge names no graph"
                raise GpmError(f"{ends.table.where(row)}: {what}; fix or remove the row.")
        new = f"{found} ANTI JOIN {self.table}_collected AS c USING ({self.keys})" if self.nodes is not None else found
        if self.collection and not self.by_graph:
            for row, name in self.base.execute(f"SELECT place // 2, name FROM {new} ORDER BY place LIMIT 1").fetchall():
                where = ends.table.where(row)
                raise GpmError(f"{where}: node {name!r} is not listed, so its graph is unknown; list the node.")
        graph = "graph" if self.by_graph else "NULL"
        self.base.execute(f"INSERT INTO {self.table}_collected SELECT name, {graph}, place, false FROM {new}")
        self.base.execute(f"DROP TABLE {found}")

    def _number_graphs(self) -> None:
        """Make `T_graphs`: name and index of each graph."""
        if not self.collection:
            return
        table, collected = f"{self.table}_graphs", f"{self.table}_collected"
        if self.graphs is None:
            place = "CASE WHEN listed THEN place - 9e18::BIGINT ELSE place END"  # graphs of listed nodes come first
            source = f"SELECT graph, min({place}) AS place FROM {collected} GROUP BY graph"
        else:
            source = f"SELECT {text(self.graphs.id)} AS graph, gpm_row AS place FROM {self.graphs.table.numbered()}"
        with reading((self.graphs or self.ends).table):
            self.base.execute(
                f"CREATE TEMP TABLE {table} AS SELECT graph, place, row_number() OVER (ORDER BY place) - 1 AS number "
                f"FROM ({source})"
            )
        if self.graphs is not None:
            self._check_graphs(self.graphs)
        bare = BARE.format("graph")
        twins = f"SELECT {bare} AS bare FROM {table} GROUP BY 1 HAVING count(*) > 1 LIMIT 1"
        names = self.base.execute(f"SELECT graph FROM {table} WHERE {bare} IN ({twins}) LIMIT 2").fetchall()
        if names:
            raise alike((self.graphs or self.nodes or self.ends).table.title, names[0][0], names[1][0], "graphs")

    def _check_graphs(self, graphs: Listed) -> None:
        table, collected, title = f"{self.table}_graphs", f"{self.table}_collected", graphs.table.title
        self._check_filled("graphs", graphs, {"graph": graphs.id})
        self._check_distinct("graphs", graphs, "graph", "graph", "ids must differ")
        other = self.base.execute(
            f"SELECT graph, listed, place FROM {collected} ANTI JOIN {table} USING (graph) ORDER BY place LIMIT 1"
        ).fetchall()
        if other:
            graph, listed, place = other[0]
            raise GpmError(f"{self._where(listed, place)}: {title} does not list graph {graph!r}; list it there.")
        empty = self._value(f"SELECT min(place) FROM {table} ANTI JOIN {collected} USING (graph)")
        if empty is not None:
            name = self.base.execute(f"SELECT graph FROM {table} WHERE place = {empty}").fetchall()[0][0]
            raise GpmError(f"{graphs.table.where(empty)}: graph {name!r} has no nodes; list them, or remove the row.")

    def _check_alike(self) -> None:
        """Refuse ids that look the same to a reader."""
        if self.kind == "BIGINT":
            return
        collected = f"(SELECT *, {BARE.format('name')} AS bare FROM {self.table}_collected)"
        if not self._value(f"SELECT count(*) FROM {collected} WHERE bare <> name"):
            return
        keys = "graph, bare" if self.by_graph else "bare"
        twins = f"SELECT {keys} FROM {collected} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
        rows = self.base.execute(
            f"SELECT name, listed, place FROM {collected} SEMI JOIN ({twins}) USING ({keys}) "
            "ORDER BY listed DESC, place LIMIT 2"
        ).fetchall()
        if rows:
            (name, *first), (other, *second) = rows
            raise alike(f"{self._where(*first)} and {self._where(*second)}", name, other)

    def _where(self, listed: bool, place: int) -> str:
        return self.nodes.table.where(place) if listed and self.nodes else self.ends.table.where(place // 2)

    def _bounds(self) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
        if not self.collection:
            return None, ()
        query = f"SELECT count(*) AS size FROM {self.table} GROUP BY graph ORDER BY graph"
        sizes = self.base.execute(query).fetchnumpy()["size"]
        names = self.base.execute(f"SELECT graph FROM {self.table}_graphs ORDER BY number").fetchall()
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), tuple(name for (name,) in names)

    def _value(self, query: str) -> Any:
        return fetch_value(self.base, query)


def _stack(ends: Ends, kind: str) -> str:
    """Return SQL of all ends of edges with graph and place; a text file is read once, other tables column by column."""
    source, target = (id_of(ends.table, column, kind) for column in (ends.source, ends.target))
    rows = ends.table.numbered()
    graph = f", {text(ends.graph)} AS graph" if ends.graph else ""
    if ends.table.path is not None and ends.table.path.suffix.lower() != ".parquet":
        stacked = f"unnest([{source}, {target}]) AS name, unnest([2 * gpm_row, 2 * gpm_row + 1]) AS place"
        return f"SELECT {stacked}{graph} FROM {rows}"
    first = f"SELECT {source} AS name, 2 * gpm_row AS place{graph} FROM {rows}"
    return f"{first} UNION ALL SELECT {target}, 2 * gpm_row + 1{graph} FROM {rows}"
