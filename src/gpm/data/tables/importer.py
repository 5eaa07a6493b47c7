"""Import: tables of edges, nodes and graphs become a graph folder with features, labels, parts and the user's names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.data.splits import is_labelled
from gpm.data.tables.encode import encode
from gpm.data.tables.fit_encoding import fit_encoding
from gpm.data.tables.inputs import gather
from gpm.data.tables.node_ids import Ends, Ids, Listed, Unlisted
from gpm.data.tables.node_order import find_order, reorder_rows
from gpm.data.tables.number_nodes import number_nodes
from gpm.data.tables.open_table import Table, reading
from gpm.data.tables.progress import watching
from gpm.data.tables.reuse_schema import Origin
from gpm.data.tables.schema import Schema
from gpm.data.tables.session import connect, text
from gpm.data.tables.settle_schema import Opened, Wishes, open_tables
from gpm.data.tables.targets import Targets, check_parts, read_parts, read_targets
from gpm.data.tables.write_csr import map_part
from gpm.data.tables.write_edges import write_edges
from gpm.errors import GpmError
from gpm.graph.base_graph import SPARSE
from gpm.graph.folder import GraphWriter, writing_graph
from gpm.io.yaml_files import dump_yaml

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = "import.yaml"
_FEATURES = {"node": ("nodes", "x"), "edge": ("edges", "edge_attr")}  # the table of each, and the array
Encoding = dict[str, list[dict[str, Any]]]


def import_tables(
    edges: str | Path | pd.DataFrame,
    out: str | Path,
    *,
    nodes: str | Path | pd.DataFrame | None = None,
    graphs: str | Path | pd.DataFrame | None = None,
    target: str | Sequence[str] = "",
    task: str = "auto",
    graph: str = "",
    split: str = "",
    directed: bool = False,
    unlisted: str = "",
    order: str = "",
    values: bool = False,
    schema: str | Path | Schema | None = None,
    like: str | Path | None = None,
    memory: str = "",
    overwrite: bool = False,
    progress: bool = False,
) -> Path:
    """Read tables, check them, and write a graph folder that `gpm.train` takes.

    Args:
        edges: A table of edges, a network file (GraphML, GEXF, GML, node-link JSON), or a folder with a file per graph.
        out: The folder to write: it is there complete, or not at all.
        nodes: A table with a row per node; without one, nodes are what the edges name.
        graphs: A table with a row per graph.
        target: The column to predict, or several: a list, or with commas between.
        task: node, link or graph; by default as the tables have it.
        graph: The column that says which graph a row belongs to.
        split: The column that says train, val or test.
        directed: Edges go one way.
        unlisted: An edge's end that the nodes table does not list: error (the default), add or drop.
        order: How nodes lie on disk: given (the default, as the tables have them), degree (those of most edges first)
            or locality (those that walks visit together near each other). Names stay; numbers, and so walks, differ.
        values: The target is a number, also where its cells could be classes.
        schema: The YAML of an earlier import, changed by hand; what it says of columns holds.
        like: An imported folder, or a run of one: columns are read and encoded as there, which a model needs that was
            trained there. Targets may be missing.
        memory: The most that DuckDB may hold, such as 4GB.
        overwrite: Replace a graph that is there.
        progress: Show bars on a terminal.
    """
    wishes = Wishes.read(
        target, schema, like, task=task, graph=graph, split=split, directed=directed, unlisted=unlisted, order=order,
        values=values,
    )  # fmt: skip
    gathered = gather(edges, nodes, graphs, wishes.schema.edges.options)
    with (
        writing_graph(Path(out), overwrite=overwrite) as writer,
        connect(memory=memory, folder=writer.scratch / "spill") as base,
    ):
        with watching(base, "looking at columns", progress):
            opened = open_tables(base, gathered, wishes)
        _write(opened, writer, wishes.origin, progress)
    return Path(out)


def show_tables(edges: Any, *, nodes: Any = None, graphs: Any = None, **wishes: Any) -> Schema:
    """Say what the columns would be taken for, and write nothing; arguments are those of `import_tables`."""
    wished = Wishes.read(**wishes)
    gathered = gather(edges, nodes, graphs, wished.schema.edges.options)
    with connect() as base:
        return open_tables(base, gathered, wished).schema


def _write(opened: Opened, writer: GraphWriter, origin: Origin | None, progress: bool) -> None:
    schema, ends = opened.schema, _ends(opened)
    ids = number_nodes(
        ends, _listed(opened, "nodes", "id"), _listed(opened, "graphs", "graph"),
        unlisted=cast(Unlisted, schema.unlisted), progress=progress,
    )  # fmt: skip
    base = opened.edges.base
    with watching(base, "reading features", progress):
        encoding = _fit(opened, ids) if origin is None else origin.encoding
    census = write_edges(
        ends, ids, writer, keep_ids=bool(encoding["edge"]), directed=schema.directed, duplicates=schema.duplicates,
        self_loops=schema.self_loops, progress=progress,
    )  # fmt: skip
    if schema.order != "given":
        _reorder(schema.order, writer, ids)
    ids.write(writer)
    with watching(base, "writing features", progress):
        sparse, unseen = _write_features(opened, writer, ids, encoding, origin)
    facts: dict[str, Any] = {"task": schema.task, "title": opened.title, "targets": [], "kind": "", "classes": []}
    facts |= {"encoding": encoding, "graphs": list(ids.graph_names), "schema": schema.to_dict(), "order": schema.order}
    facts |= _write_labels(opened, writer, ids, origin, unseen) | {"unseen": unseen}
    writer.finish(census, sparse=sparse, facts=facts, files={SCHEMA: dump_yaml(schema.to_dict())})


def _reorder(kind: str, writer: GraphWriter, ids: Ids) -> None:
    """Give the nodes other numbers, in the rows that are written and in what is written from now on."""
    order = find_order(kind, map_part(writer.path("indptr")), map_part(writer.path("indices")), ids.graph_ptr)
    reorder_rows(writer, order)
    ids.renumber(order)


def _ends(opened: Opened) -> Ends:
    said = opened.schema.edges
    return Ends(opened.edges, said.one("source"), said.one("target"), said.one("weight"), said.one("graph"))


def _listed(opened: Opened, name: str, role: str) -> Listed | None:
    if name not in opened.tables:
        return None
    said = opened.schema.tables()[name]
    return Listed(opened.tables[name], said.one(role), said.one("graph") if name == "nodes" else "")


def _fit(opened: Opened, ids: Ids) -> Encoding:
    """How features are made of the columns of the nodes and of the edges."""
    known, encoding = opened.schema.tables(), Encoding()
    for kind, (name, _) in _FEATURES.items():
        table, nodes = opened.tables.get(name), kind == "node"
        gaps = nodes and table is not None and ids.count > table.count()
        encoding[kind] = [] if table is None else fit_encoding(table, known[name].columns, bags=nodes, gaps=gaps)
    return encoding


def _write_features(
    opened: Opened, writer: GraphWriter, ids: Ids, encoding: Encoding, origin: Origin | None
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Write features of nodes and edges; returns the shapes of sparse ones, and what is new in the tables."""
    sparse: dict[str, tuple[int, ...]] = {}
    unseen: list[str] = []
    for kind, (name, key) in _FEATURES.items():
        if not encoding[kind]:
            continue
        table, nodes = opened.tables[name], kind == "node"
        rows, place = (ids.count, _places(ids, table)) if nodes else (table.count(), None)
        features, news = encode(
            table, encoding[kind], rows=rows, place=place, path=writer.path(key), may_be_sparse=nodes,
            known=() if origin is None else origin.columns(name),
        )  # fmt: skip
        unseen += [f"{table.title}: {sentence}" for sentence in news.sentences()] if origin is not None else []
        if sp.issparse(features):  # dense ones are in their file already
            sparse[key] = features.shape
            for part in SPARSE:
                writer.put(f"{key}.{part}", getattr(features, part))
    return sparse, unseen


def _places(ids: Ids, nodes: Table) -> NDArray[np.int64]:
    """The node that each row of the nodes table is `[R]`."""
    rows = ids.rows()
    place = np.full(nodes.count(), -1, dtype=np.int64)
    listed = np.flatnonzero(rows >= 0)
    place[rows[listed]] = listed
    return place


def _write_labels(
    opened: Opened, writer: GraphWriter, ids: Ids, origin: Origin | None, unseen: list[str]
) -> dict[str, Any]:
    """Write labels and parts, per node or per graph; returns what is to be known of the labels.

    To predict neither is needed: where another import is followed, what cannot be read is said, and left out.
    """
    facts: dict[str, Any] = {}
    labelled: NDArray | None = None
    for role in ("target", "split") if opened.schema.task != "link" else ():
        name = next((name for name in ("graphs", "nodes") if _having(opened, name, role)), "")
        if not name:
            continue
        table, said = opened.tables[name], opened.schema.tables()[name]
        try:
            if role == "split":
                parts, rows = read_parts(table, said.one("split")), _instance_rows(opened, name, ids)
                part = np.where(rows >= 0, parts[rows], -1).astype(np.int8)
                if origin is None:
                    check_parts(part if labelled is None else part[labelled], table.title, said.one("split"))
                writer.put("extra.part", part)
                continue
            targets = read_targets(table, said.columns, known=None if origin is None else origin.facts)
            y = _take(targets, _instance_rows(opened, name, ids))
            labelled = is_labelled(y)
            writer.put("y", y)
            facts = {"targets": targets.names, "kind": targets.kind, "classes": targets.classes}
        except GpmError as error:
            if origin is None:
                raise
            unseen.append(f"{str(error).rstrip('.')}; the column is not read.")
    return facts


def _having(opened: Opened, name: str, role: str) -> bool:
    return name in opened.tables and bool(opened.schema.tables()[name].having(role))


def _instance_rows(opened: Opened, home: str, ids: Ids) -> NDArray[np.int64]:
    """The row of a table that each node, or each graph, has its label in; -1 if there is none."""
    if home == "nodes" and opened.schema.task == "node":
        return ids.rows()
    if home == "nodes":  # of a graph, the first that is listed says what holds for all
        assert ids.graph_ptr is not None
        rows, nothing = ids.rows(), np.iinfo(np.int64).max
        first = np.minimum.reduceat(np.where(rows < 0, nothing, rows), np.minimum(ids.graph_ptr[:-1], len(rows) - 1))
        return np.where((np.diff(ids.graph_ptr) > 0) & (first < nothing), first, -1)
    table, column = opened.tables[home], opened.schema.tables()[home].one("graph")
    with reading(table):
        listed = table.base.execute(f"SELECT {text(column)}, gpm_row FROM {table.numbered()}").fetchall()
    at = dict(listed)
    return np.array([at.get(name, -1) for name in ids.graph_names], dtype=np.int64)


def _take(targets: Targets, rows: NDArray) -> NDArray:
    """The targets in the order of nodes or graphs; unknown where there is no row."""
    taken: NDArray = targets.y[np.maximum(rows, 0)]
    taken[rows < 0] = -1 if targets.kind == "classes" else np.nan
    return taken
