"""Tables of edges, nodes and graphs, and NetworkX graphs with attributes: imported just as `gpm import` does it.

Labels and parts of a DataFrame are taken out before, so that labels stay the user's own values; those of a file are the
importer's to read.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpm.data.graph_data import GraphData
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData
from gpm.data.splits import PARTS, Masks
from gpm.errors import GpmError, nearest
from gpm.estimators.classes import align
from gpm.estimators.fit_source import Given, is_frame, name_all
from gpm.estimators.nx_frames import is_bare, tabulate, tabulate_all
from gpm.graph.graph import Graph

_log = logging.getLogger("gpm")

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from gpm.data.tables.schema import Schema

_PARTS = {"split", "part", "set", "partition", "subset"}


@dataclass(frozen=True)
class Tables:
    """How tables are read.

    Attributes:
        level: node, link or graph.
        folder: Imports are written below it.
        nodes, graphs: Tables beside that of the edges: frames or files; None if there are none.
        target: The column or columns of labels.
        graph: The column that says which graph an edge or a node belongs to.
        split: The column of parts.
        directed: Edges go one way.
        like: A run, or an import, whose encoding of columns is applied.
        without: Columns of labels that are no features of a graph to predict on.
        numbers: Labels in files are numbers, not classes.
        parallel: Several edges between two nodes stay several.
    """

    level: str
    folder: Path
    nodes: Any = None
    graphs: Any = None
    target: str | Sequence[str] = ""
    graph: str = ""
    split: str = ""
    directed: bool = False
    like: Path | None = None
    without: tuple[str, ...] = ()
    numbers: bool = False
    parallel: bool = False

    def read(self, edges: Any) -> Given:
        """Import a table of edges and those beside it."""
        if self.level == "graph":
            return self._read_collection(edges)
        rest, labels = self._take_labels(self.nodes)
        if self.target and labels is None:
            return self._import(edges, rest, task="node", target=self._targets(), split=self.split)
        rest, parts = self._take_parts(rest)
        given = self._import(edges, rest, task="link")
        if self.level == "link":
            return given
        data = NodeData(given.data.graph, given.data.title)
        if labels is None and parts is None:
            return replace(given, data=data, ordered=self.nodes is not None)
        ids = self.nodes[_find_role(given.facts, "nodes", "id")]
        masks = None if parts is None else _read_masks(parts.set_axis(ids), data)
        given = replace(given, data=replace(data, masks=masks))
        return given if labels is None else given.with_labels(labels.set_axis(ids, axis=0))

    def refuse(self, *names: str) -> None:
        """Refuse what goes with tables alone, and would be passed over."""
        for name in names:
            value = getattr(self, name)
            if is_frame(value) or value:
                raise GpmError(f"{name} goes with a DataFrame or a file of edges; leave it out.")

    def _read_collection(self, edges: Any) -> Given:
        rest, labels = self._take_labels(self.graphs)
        targets = self._targets() if self.like is None else []
        if self.like is None and not targets:
            raise GpmError("labels of graphs in tables are a column of the table of graphs; name it with target.")
        graphs = self.graphs if targets else rest
        given = self._import(
            edges, self._strip(self.nodes), graphs=graphs, task="graph", target=targets, split=self.split
        )
        if labels is None:
            return given
        ids = self.graphs[_find_role(given.facts, "graphs", "graph")]
        return given.with_labels(labels.set_axis(ids, axis=0))

    def read_network(self, graph: nx.Graph) -> Given:
        """Take a NetworkX graph; attributes beside labels and weights are imported."""
        nodes, edges = tabulate(graph)
        if is_bare(nodes, edges, {*self._targets(), *self.without}):
            plain = Graph.from_networkx(graph)
            given = Given(NodeData(plain, "graph") if self.level == "node" else LinkData(plain, "graph"))
            return given.with_labels(self._take_labels(nodes)[1])
        return replace(self, nodes=nodes, directed=graph.is_directed(), parallel=graph.is_multigraph()).read(edges)

    def read_networks(self, graphs: Sequence[nx.Graph]) -> Given:
        """Take NetworkX graphs as a collection, in their order; labels are attributes of the graphs."""
        import pandas as pd

        if len({graph.is_directed() for graph in graphs}) > 1:
            raise GpmError("some of the graphs are directed and some are not; give graphs of one kind.")
        nodes, edges, bounds = tabulate_all(graphs)
        labels = self._take_labels(pd.DataFrame([graph.graph for graph in graphs]))[1]
        if is_bare(nodes, edges, set()):
            plain = Graph.from_pyg([Graph.from_networkx(graph).to_pyg() for graph in graphs])
            return Given(GraphData(plain, "graphs")).with_labels(labels)
        parallel = any(graph.is_multigraph() for graph in graphs)
        given = replace(self, directed=graphs[0].is_directed(), parallel=parallel)._import(edges, nodes, task="link")
        whole = replace(given.data.graph, graph_ptr=bounds, names=None)
        return replace(given, data=GraphData(whole, "graphs")).with_labels(labels)

    def encode(self, rows: pd.DataFrame) -> Given:
        """Features of nodes alone, made of the rows of a table in the order of the nodes."""
        import pandas as pd

        count = np.arange(len(rows))
        key = next(name for name in ("id", "node", "gpm node") if name not in rows.columns)
        nodes = rows.reset_index(drop=True)
        nodes.insert(0, key, count)
        given = self._import(pd.DataFrame({"source": count, "target": count}), nodes, task="link")
        for name, column in given.facts["schema"]["nodes"]["columns"].items():
            if column["role"] not in ("feature", "id"):
                _log.warning("x: column %r is left out: %s", name, column.get("why") or f"it is a {column['role']}")
        return given

    def _targets(self) -> list[str]:
        return ([self.target] if self.target else []) if isinstance(self.target, str) else list(self.target)

    def _take_labels(self, table: Any) -> tuple[Any, Any]:
        """A table without its labels, and those if it is a frame."""
        names = self._targets()
        if names and table is None:
            raise GpmError("target names a column of the nodes (or of the graphs); give that table too.")
        if not names or not is_frame(table):
            return self._strip(table), None
        if len(names) == 1 and names[0] not in table.columns:
            names = [name.strip() for name in str(names[0]).split(",")]
        for name in names:
            if name not in table.columns:
                columns = [str(column) for column in table.columns]
                near = nearest(str(name), columns)
                raise GpmError(f"there is no column {name!r}.{near} Columns: {', '.join(columns)}.")
        return self._strip(table.drop(columns=names)), table[names[0]] if len(names) == 1 else table[names]

    def _strip(self, table: Any) -> Any:
        """A table of a graph to predict on without the labels that it may hold."""
        if not is_frame(table):
            return table
        return table.drop(columns=[name for name in self.without if name in table.columns])

    def _take_parts(self, table: Any) -> tuple[Any, Any]:
        """A table without the column of parts, and that: the one that is named, or that is called and filled so."""
        if not is_frame(table):
            return table, None
        if self.split and self.split not in table.columns:
            columns = [str(column) for column in table.columns]
            raise GpmError(f"there is no column {self.split!r}.{nearest(self.split, columns)}")
        named = [self.split] if self.split else [c for c in table.columns if str(c).lower() in _PARTS]
        found = [name for name in named if self.split or _are_parts(table[name])]
        if not found:
            return table, None
        return table.drop(columns=found[0]), table[found[0]]

    def _import(
        self, edges: Any, nodes: Any, graphs: Any = None, *, task: str, target: Sequence[str] = (), split: str = ""
    ) -> Given:
        from gpm.data.imported import load_imported
        from gpm.data.tables.importer import import_tables
        from gpm.graph.folder import read_extras

        out = next(path for i in range(1_000_000) if not (path := self.folder / f"import-{i}").exists())
        said: dict[str, Any] = {"like": self.like}
        if self.like is None:  # else that says what columns are
            said = {"target": target, "task": task, "graph": self.graph, "split": split, "values": self.numbers}
            said |= {"schema": self._say(target)}
        import_tables(edges, out, nodes=nodes, graphs=graphs, directed=self.directed, **said)
        return Given(load_imported(out), facts=read_extras(out)[0], like=out)

    def _say(self, target: Sequence[str]) -> Schema:
        """What the importer shall not guess: that labels in a file are classes, that parallel edges are meant."""
        from gpm.data.tables.schema import Column, Schema, TableSchema

        known = Schema(duplicates="keep" if self.parallel else "merge")
        if self.numbers or not target or any("," in name for name in target):
            return known
        columns = {name: Column("target", "category" if len(target) == 1 else "flag") for name in target}
        said = TableSchema(columns=columns)
        of_graphs = self.level == "graph" and self.graphs is not None
        return replace(known, graphs=said) if of_graphs else replace(known, nodes=said)


def _are_parts(column: pd.Series) -> bool:
    from gpm.data.tables.targets import PART_WORDS

    return set(column.dropna().astype(str).str.lower()) <= set(PART_WORDS)


def _read_masks(parts: pd.Series, data: NodeData) -> Masks:
    """The parts that a column names, by the name of the node."""
    from gpm.data.tables.targets import PART_WORDS

    found = align(parts.astype(object), name_all(data))
    words = ["" if part is None or part != part else str(part).lower() for part in found]
    strange = next((word for word in words if word and word not in PART_WORDS), "")
    if strange:
        raise GpmError(f"{strange!r} in column {parts.name!r} is no part; write train, val or test, or leave it empty.")
    numbers = np.array([PART_WORDS.get(word, -1) for word in words])
    for part, name in enumerate(PARTS):
        if not (numbers == part).any():
            raise GpmError(f"no node is {name} in column {parts.name!r}; all of {', '.join(PARTS)} are needed.")
    return Masks(*(numbers == part for part in range(3)))


def _find_role(facts: dict[str, Any], table: str, role: str) -> str:
    columns = (facts["schema"].get(table) or {}).get("columns", {})
    return next(str(name) for name, column in columns.items() if column["role"] == role)


def name_features(facts: dict[str, Any]) -> tuple[str, ...]:
    """The columns of a table of nodes that features were made of."""
    columns = ((facts.get("schema") or {}).get("nodes") or {}).get("columns", {})
    return tuple(name for name, column in columns.items() if column["role"] == "feature")
