"""Import tables of edges, nodes and graphs into a graph folder with features, labels, splits and the user's names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.data.splits import is_labelled
from gpm.data.tables.encode import encode
from gpm.data.tables.fit_encoding import fit_encoding
from gpm.data.tables.inputs import gather
from gpm.data.tables.link_parts import read_held_out, read_negatives
from gpm.data.tables.node_ids import Ends, Ids, Listed
from gpm.data.tables.node_order import find_order, reorder_rows
from gpm.data.tables.number_nodes import number_nodes
from gpm.data.tables.schema import Schema
from gpm.data.tables.session import connect, text, watching
from gpm.data.tables.settle_schema import Opened, Origin, Wishes, open_tables
from gpm.data.tables.targets import check_parts, read_parts, read_targets
from gpm.data.tables.write_edges import map_part, write_edges
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
    negatives: str | Path | pd.DataFrame | None = None,
    from_column: str = "",
    to_column: str = "",
    id_column: str = "",
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
    """Read tables, check them, and write a graph folder that `gpm.train` accepts.

    Args:
        edges: A table of edges, a network file (GraphML, GEXF, GML, node-link JSON), or a folder with one file per
            graph.
        out: The folder to write. It appears only when it is complete.
        nodes: A table with one row per node. Default: the nodes are the ends of the edges.
        graphs: A table with one row per graph.
        target: The column to predict, or several: a list, or separated by commas.
        task: node, link or graph. Default: inferred from the tables.
        graph: Column with the graph of a row.
        split: Column that says train, val or test.
        negatives: For links, a table of pairs without an edge, to validate and test with.
        from_column, to_column: Columns of the edges with the nodes where an edge starts and ends. Default: by name.
        id_column: Column of the nodes with the id that edges use. Default: by name.
        directed: Edges are directed.
        unlisted: An end of an edge that the nodes table does not list: error (the default), add or drop.
        order: Order of the nodes on disk: given (the default, as in the tables), degree (descending) or locality (nodes
            that walks visit together are close). Names stay the same; node numbers, and therefore walks, differ.
        values: The target is a number, even if its cells could be classes.
        schema: The edited YAML of an earlier import; what it says of columns is kept.
        like: An imported folder, or a run trained on one: read and encode columns as there, which its model needs.
            Targets may be absent.
        memory: Memory limit of DuckDB, such as 4GB.
        overwrite: Replace an existing graph.
        progress: Show progress bars on a terminal.
    """
    wishes = Wishes.read(
        target, schema, like, task=task, graph=graph, split=split, directed=directed, unlisted=unlisted, order=order,
        values=values, from_column=from_column, to_column=to_column, id_column=id_column,
    )  # fmt: skip
    gathered = gather(edges, nodes, graphs, wishes.schema.edges.options)
    with (
        writing_graph(Path(out), overwrite=overwrite) as writer,
        connect(memory=memory, folder=writer.scratch / "spill") as base,
    ):
        with watching(base, "looking at columns", progress):
            opened = open_tables(base, gathered, wishes)
        _write(opened, writer, wishes.origin, progress, negatives)
    return Path(out)


def show_tables(edges: Any, *, nodes: Any = None, graphs: Any = None, **options: Any) -> Schema:
    """Return the schema that `import_tables` would infer with the same arguments, and write nothing."""
    wishes = Wishes.read(**options)
    gathered = gather(edges, nodes, graphs, wishes.schema.edges.options)
    with connect() as base:
        return open_tables(base, gathered, wishes).schema


def _write(opened: Opened, writer: GraphWriter, origin: Origin | None, progress: bool, negatives: Any) -> None:
    schema, tables, roles = opened.schema, opened.tables, opened.schema.tables()
    base = tables["edges"].base
    ends = Ends(tables["edges"], *(roles["edges"].one(role) for role in ("source", "target", "weight", "graph")))
    nodes, graphs = (
        Listed(tables[name], *(roles[name].one(role) for role in columns)) if name in tables else None
        for name, columns in (("nodes", ("id", "graph")), ("graphs", ("graph",)))
    )
    ids = number_nodes(ends, nodes, graphs, unlisted=schema.unlisted, progress=progress)
    with watching(base, "reading features", progress):
        encoding = _fit(opened, ids) if origin is None else origin.encoding
    census = write_edges(
        ends, ids, writer, keep_ids=bool(encoding["edge"]), directed=schema.directed, duplicates=schema.duplicates,
        self_loops=schema.self_loops, progress=progress,
    )  # fmt: skip
    if schema.order != "given":
        indptr, indices = (map_part(writer.path(key)) for key in ("indptr", "indices"))
        order = find_order(schema.order, indptr, indices, ids.graph_ptr)
        reorder_rows(writer, order)
        ids.renumber(order)
    ids.write(writer)
    with watching(base, "writing features", progress):
        sparse, unseen = _write_features(opened, writer, ids, encoding, origin)
    facts: dict[str, Any] = {"task": schema.task, "title": opened.title, "targets": [], "kind": "", "classes": []}
    facts |= {"encoding": encoding, "graphs": list(ids.graph_names), "schema": schema.to_dict(), "order": schema.order}
    facts |= _write_labels(opened, writer, ids, origin, unseen) | {"unseen": unseen}
    if negatives is not None and (schema.task != "link" or origin is not None):
        raise GpmError("Negatives are for training on links; leave out --negatives, or add --task link.")
    if negatives is not None:
        writer.put("extra.negatives", read_negatives(base, negatives, ids))
    if schema.task == "link" and origin is None and (column := roles["edges"].one("split")):
        writer.put("extra.held_out", read_held_out(ends, ids, column))
    writer.finish(census, sparse=sparse, facts=facts, files={SCHEMA: dump_yaml(schema.to_dict())})


def _fit(opened: Opened, ids: Ids) -> Encoding:
    schemas, encoding = opened.schema.tables(), Encoding()
    for kind, (name, _) in _FEATURES.items():
        table, nodes = opened.tables.get(name), kind == "node"
        gaps = nodes and table is not None and ids.count > table.count()
        encoding[kind] = [] if table is None else fit_encoding(table, schemas[name].columns, bags=nodes, gaps=gaps)
    return encoding


def _write_features(
    opened: Opened, writer: GraphWriter, ids: Ids, encoding: Encoding, origin: Origin | None
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Write features of nodes and edges; return the shapes of sparse ones, and what training did not see."""
    sparse: dict[str, tuple[int, ...]] = {}
    unseen: list[str] = []
    for kind, (name, key) in _FEATURES.items():
        if not encoding[kind]:
            continue
        table, nodes = opened.tables[name], kind == "node"
        count, place = table.count(), None
        if nodes:  # the node of each row of the table
            rows = ids.rows()
            place = np.full(count, -1, dtype=np.int64)
            place[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
        features, news = encode(
            table, encoding[kind], rows=ids.count if nodes else count, place=place, path=writer.path(key),
            may_be_sparse=nodes, known=() if origin is None else origin.columns(name),
        )  # fmt: skip
        unseen += [f"{table.title}: {sentence}" for sentence in news.sentences()] if origin is not None else []
        if sp.issparse(features):  # dense features are already in their file
            sparse[key] = features.shape
            for part in SPARSE:
                writer.put(f"{key}.{part}", getattr(features, part))
    return sparse, unseen


def _write_labels(
    opened: Opened, writer: GraphWriter, ids: Ids, origin: Origin | None, unseen: list[str]
) -> dict[str, Any]:
    """Write labels and splits of nodes or graphs; return the metadata of the labels.

    Predictions need neither: if another import is followed, columns that cannot be read are reported and left out.
    """
    facts: dict[str, Any] = {}
    labelled: NDArray | None = None
    schemas = opened.schema.tables()
    for role in ("target", "split") if opened.schema.task != "link" else ():
        name = next((n for n in ("graphs", "nodes") if n in opened.tables and schemas[n].having(role)), "")
        if not name:
            continue
        table, schema = opened.tables[name], schemas[name]
        try:
            if role == "split":
                parts, rows = read_parts(table, schema.one("split")), _instance_rows(opened, name, ids)
                part = np.where(rows >= 0, parts[rows], -1).astype(np.int8)
                if origin is None:
                    check_parts(part if labelled is None else part[labelled], table.title, schema.one("split"))
                writer.put("extra.part", part)
                continue
            targets = read_targets(table, schema.columns, known=None if origin is None else origin.facts)
            rows = _instance_rows(opened, name, ids)
            y = targets.y[np.maximum(rows, 0)]
            y[rows < 0] = -1 if targets.kind == "classes" else np.nan
            labelled = is_labelled(y)
            writer.put("y", y)
            facts = {"targets": targets.names, "kind": targets.kind, "classes": targets.classes}
        except GpmError as error:
            if origin is None:
                raise
            unseen.append(f"{str(error).rstrip('.')}; the column is not read.")
    return facts


def _instance_rows(opened: Opened, home: str, ids: Ids) -> NDArray[np.int64]:
    """Return the row of a table with the label of each node, or of each graph; -1 if there is none."""
    if home == "nodes" and opened.schema.task == "node":
        return ids.rows()
    if home == "nodes":  # the first listed node of a graph stands for all
        assert ids.graph_ptr is not None
        rows, nothing = ids.rows(), np.iinfo(np.int64).max
        first = np.minimum.reduceat(np.where(rows < 0, nothing, rows), np.minimum(ids.graph_ptr[:-1], len(rows) - 1))
        return np.where((np.diff(ids.graph_ptr) > 0) & (first < nothing), first, -1)
    table, column = opened.tables[home], opened.schema.tables()[home].one("graph")
    row_of = dict(table.fetch(f"SELECT {text(column)}, gpm_row FROM {table.numbered()}"))
    return np.array([row_of.get(name, -1) for name in ids.graph_names], dtype=np.int64)
