"""Tables of edges, nodes and graphs, and NetworkX graphs with attributes: imported as `gpm import` does it.

Labels and splits of a DataFrame are taken out first, so that labels stay the user's own values; those of a file are
read by the importer.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gpm.data.graph_data import GraphData
from gpm.data.imported import load_imported
from gpm.data.node_data import NodeData
from gpm.data.sources import bare_data
from gpm.data.splits import PARTS, Masks
from gpm.data.tables.importer import import_tables
from gpm.data.tables.read_network import tabulate
from gpm.data.tables.schema import Column, Schema, TableSchema
from gpm.data.tables.targets import PART_WORDS
from gpm.errors import GpmError, nearest
from gpm.estimators.fit_inputs import FitInput, align
from gpm.graph.folder import read_extras
from gpm.graph.graph import Graph

if TYPE_CHECKING:
    import networkx as nx

_PARTS = {"split", "part", "set", "partition", "subset"}
_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class Tables:
    """Options of tables of edges."""

    level: str  # node, link or graph
    folder: Path  # imports are written below it
    nodes: Any = None  # a frame or a file
    graphs: Any = None  # a frame or a file
    target: str | Sequence[str] = ""  # the column or columns of labels
    graph: str = ""  # the column that says which graph an edge or a node belongs to
    split: str = ""  # the column that says train, val or test
    directed: bool = False  # edges go one way
    like: Path | None = None  # a run, or an import, whose encoding of columns is applied
    without: tuple[str, ...] = ()  # columns of labels that are no features of a graph to predict on
    numbers: bool = False  # labels in files are numbers, not classes
    parallel: bool = False  # keep parallel edges

    def read(self, edges: Any) -> FitInput:
        """Import a table of edges and those beside it."""
        if self.level == "graph":
            return self._read_collection(edges)
        rest, labels = self._take_labels(self.nodes)
        if self.target and labels is None:
            return self._import(edges, rest, task="node", target=self._targets(), split=self.split)
        rest, parts = self._take_parts(rest)
        read = self._import(edges, rest, task="link")
        if self.level == "link":
            return read
        data = NodeData(read.data.graph, read.data.title)
        if labels is None and parts is None:
            return replace(read, data=data, ordered=self.nodes is not None)
        ids = self.nodes[find_columns(read.metadata, "nodes", "id")[0]]
        masks = None if parts is None else _read_masks(parts.set_axis(ids), data)
        read = replace(read, data=replace(data, masks=masks))
        return read if labels is None else read.with_labels(labels.set_axis(ids, axis=0))

    def refuse(self, *names: str) -> None:
        """Refuse options of tables, which would be ignored."""
        for name in names:
            value = getattr(self, name)
            if isinstance(value, pd.DataFrame) or value:
                raise GpmError(f"{name} goes with a DataFrame or a file of edges; leave it out.")

    def _read_collection(self, edges: Any) -> FitInput:
        rest, labels = self._take_labels(self.graphs)
        targets = self._targets() if self.like is None else []
        if self.like is None and not targets:
            raise GpmError("Labels of graphs in tables are a column of the table of graphs; name it with target.")
        graphs = self.graphs if targets else rest
        nodes = self._strip(self.nodes)
        read = self._import(edges, nodes, graphs, task="graph", target=targets, split=self.split)
        if labels is None:
            return read
        ids = self.graphs[find_columns(read.metadata, "graphs", "graph")[0]]
        return read.with_labels(labels.set_axis(ids, axis=0))

    def read_network(self, graph: nx.Graph) -> FitInput:
        """Read a NetworkX graph; attributes other than labels and weights are imported."""
        nodes, edges = tabulate(graph)
        if _is_bare(nodes, edges, {*self._targets(), *self.without}):
            read = FitInput(bare_data(Graph.from_networkx(graph), self.level, "graph"))
            return read.with_labels(self._take_labels(nodes)[1])
        return replace(self, nodes=nodes, directed=graph.is_directed(), parallel=graph.is_multigraph()).read(edges)

    def read_networks(self, graphs: Sequence[nx.Graph]) -> FitInput:
        """Read NetworkX graphs as a collection, in their order; labels are attributes of the graphs."""
        if len({graph.is_directed() for graph in graphs}) > 1:
            raise GpmError("Some of the graphs are directed and some are not; give graphs of one kind.")
        bounds = np.concatenate([[0], np.cumsum([len(graph) for graph in graphs])])
        nodes, edges = _tabulate_all(graphs, bounds.tolist())
        labels = self._take_labels(pd.DataFrame([graph.graph for graph in graphs]))[1]
        if _is_bare(nodes, edges, set()):
            plain = Graph.from_pyg([Graph.from_networkx(graph).to_pyg() for graph in graphs])
            return FitInput(GraphData(plain, "graphs")).with_labels(labels)
        parallel = any(graph.is_multigraph() for graph in graphs)
        read = replace(self, directed=graphs[0].is_directed(), parallel=parallel)._import(edges, nodes, task="link")
        whole = replace(read.data.graph, graph_ptr=bounds, names=None)
        return replace(read, data=GraphData(whole, "graphs")).with_labels(labels)

    def encode(self, rows: pd.DataFrame) -> FitInput:
        """Make features of nodes from the rows of a table in the order of the nodes."""
        count = np.arange(len(rows))
        key = next(name for name in ("id", "node", "gpm node") if name not in rows.columns)
        nodes = rows.reset_index(drop=True)
        nodes.insert(0, key, count)
        read = self._import(pd.DataFrame({"source": count, "target": count}), nodes, task="link")
        for name, column in read.metadata["schema"]["nodes"]["columns"].items():
            if column["role"] not in ("feature", "id"):
                _log.warning("x: column %r is left out: %s", name, column.get("why") or f"it is a {column['role']}")
        return read

    def _targets(self) -> list[str]:
        return ([self.target] if self.target else []) if isinstance(self.target, str) else list(self.target)

    def _take_labels(self, table: Any) -> tuple[Any, Any]:
        """Return a table without its labels, and the labels if it is a frame."""
        names = self._targets()
        if names and table is None:
            raise GpmError("target names a column of the nodes (or of the graphs); give that table too.")
        if not names or not isinstance(table, pd.DataFrame):
            return self._strip(table), None
        if len(names) == 1 and names[0] not in table.columns:
            names = [name.strip() for name in str(names[0]).split(",")]
        for name in names:
            if name not in table.columns:
                columns = [*map(str, table.columns)]
                near = nearest(str(name), columns)
                raise GpmError(f"There is no column {name!r}.{near} Columns: {', '.join(columns)}.")
        return self._strip(table.drop(columns=names)), table[names[0]] if len(names) == 1 else table[names]

    def _strip(self, table: Any) -> Any:
        """Return a table of a graph to predict on without its labels."""
        return table.drop(columns=[*self.without], errors="ignore") if isinstance(table, pd.DataFrame) else table

    def _take_parts(self, table: Any) -> tuple[Any, Any]:
        """Return a table without its column of splits, and that column: the named one, or one called and filled so."""
        if not isinstance(table, pd.DataFrame):
            return table, None
        if self.split and self.split not in table.columns:
            raise GpmError(f"There is no column {self.split!r}.{nearest(self.split, [*map(str, table.columns)])}")
        named = [self.split] if self.split else [c for c in table.columns if str(c).lower() in _PARTS]
        for name in named:
            if self.split or set(table[name].dropna().astype(str).str.lower()) <= set(PART_WORDS):
                return table.drop(columns=name), table[name]
        return table, None

    def _import(
        self, edges: Any, nodes: Any, graphs: Any = None, *, task: str, target: Sequence[str] = (), split: str = ""
    ) -> FitInput:
        out = next(path for i in range(1_000_000) if not (path := self.folder / f"import-{i}").exists())
        options: dict[str, Any] = {"like": self.like}
        if self.like is None:  # else that decides what columns are
            options = {"target": target, "task": task, "graph": self.graph, "split": split, "values": self.numbers}
            options["schema"] = self._make_schema(target)
        import_tables(edges, out, nodes=nodes, graphs=graphs, directed=self.directed, **options)
        return FitInput(load_imported(out), metadata=read_extras(out)[0], like=out)

    def _make_schema(self, target: Sequence[str]) -> Schema:
        """State what the importer must not guess: labels in a file are classes, parallel edges are kept."""
        schema = Schema(duplicates="keep" if self.parallel else "merge")
        if self.numbers or not target or any("," in name for name in target):
            return schema
        column = Column("target", "category" if len(target) == 1 else "flag")
        table = TableSchema(columns=dict.fromkeys(target, column))
        of_graphs = self.level == "graph" and self.graphs is not None
        return replace(schema, graphs=table) if of_graphs else replace(schema, nodes=table)


def _tabulate_all(graphs: Sequence[nx.Graph], bounds: list[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the nodes and the edges of all graphs, with nodes numbered throughout."""
    parts = []
    for graph, first in zip(graphs, bounds, strict=False):
        nodes, edges = tabulate(graph)
        number = dict(zip(nodes["id"], range(first, first + len(nodes)), strict=True))
        ends = {end: edges[end].map(number).astype("int64") for end in ("source", "target")}
        parts.append((nodes.assign(id=range(first, first + len(nodes))), edges.assign(**ends)))
    nodes, edges = (pd.concat([part[at] for part in parts], ignore_index=True) for at in (0, 1))
    return nodes, edges


def _is_bare(nodes: pd.DataFrame, edges: pd.DataFrame, labels: set[str]) -> bool:
    """Check whether nodes have no attributes but labels, and edges none but weights."""
    return set(edges.columns) <= {"source", "target", "weight"} and set(nodes.columns) <= {"id", *labels}


def _read_masks(column: pd.Series, data: NodeData) -> Masks:
    """Return the split that a column names, by the name of the node."""
    aligned = align(column.astype(object), data.instance_names)
    words = ["" if word is None or word != word else str(word).lower() for word in aligned]
    if strange := next((word for word in words if word and word not in PART_WORDS), ""):
        raise GpmError(
            f"{strange!r} in column {column.name!r} is not a split; write train, val or test, or leave it empty."
        )
    numbers = np.array([PART_WORDS.get(word, -1) for word in words])
    for part, name in enumerate(PARTS):
        if not (numbers == part).any():
            raise GpmError(f"No node is {name} in column {column.name!r}; all of {', '.join(PARTS)} are needed.")
    return Masks(*(numbers == part for part in range(3)))


def find_columns(metadata: dict[str, Any], table: str, role: str) -> list[str]:
    """Return the columns of a table, as it was imported, that have a role."""
    columns = ((metadata.get("schema") or {}).get(table) or {}).get("columns", {})
    return [name for name, column in columns.items() if column["role"] == role]
