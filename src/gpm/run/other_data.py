"""What a run is opened with in place of what it was trained on: read as its model reads, labels or none."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.data.graph_data import GraphData
from gpm.data.graph_files import load_graph
from gpm.data.imported import describe_encoding, is_imported, load_imported
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData
from gpm.data.sources import TaskData, load_task_data
from gpm.data.tables.table_source import is_table, locate
from gpm.errors import GpmError
from gpm.graph.folder import read_extras
from gpm.graph.graph import Graph

if TYPE_CHECKING:
    from gpm.inference.opened import OpenedRun as Run


def read_given(run: Run, data: Any) -> TaskData:
    """Data that a run is opened with; to predict, it needs no labels.

    Args:
        run: The run.
        data: A ready `NodeData`, `LinkData` or `GraphData`; a graph, a PyG `Data` or list, a dataset's name, a folder,
            a file; or the tables of edges, nodes and graphs, as a list.
    """
    config, level = run.config, run.facts["task"]
    if isinstance(data, (NodeData, LinkData, GraphData)):
        return data
    if (config.smiles or config.target) and level == "graph" and isinstance(data, (str, Path)):
        from gpm.data.molecules import load_molecules

        target = "" if run.other else config.target
        return load_molecules(data, smiles=config.smiles or "smiles", target=target, metric=config.metric)
    if tables := _find_tables(data):
        return _read_tables(run, tables)
    if is_imported(data):
        return _read_imported(run, Path(data).expanduser())
    if level == "node" and isinstance(data, Graph) and data.y is None:
        return NodeData(data, "graph")
    if run.other and level != "link":
        return _without_labels(data, level, config.metric)
    return load_task_data(data, level, metric=config.metric)


def _find_tables(data: Any) -> list[Any]:
    """The tables among what is given, or none."""
    if is_table(data):
        return [data]
    if not isinstance(data, (list, tuple)) or not all(isinstance(one, (str, Path)) or is_table(one) for one in data):
        return []
    for one in data:
        if not is_table(one):
            raise GpmError(f"{one}: several names are the tables of edges, nodes and graphs, and this is no such file.")
    return list(data)


def _without_labels(data: Any, level: str, metric: str) -> TaskData:
    graph = data if isinstance(data, Graph) else load_graph(data) if isinstance(data, (str, Path)) else None
    graph = Graph.from_pyg(data) if graph is None else graph
    title = Path(data).stem if isinstance(data, (str, Path)) else "graph"
    if level == "graph":
        return GraphData(graph, "graphs")
    try:
        return load_task_data(data, level, metric=metric)
    except GpmError:  # labels that are none, or that the model could not be scored by
        return NodeData(replace(graph, y=None), title)


def _read_tables(run: Run, tables: list[Any]) -> TaskData:
    """Tables, read and encoded as those were that the run was trained on."""
    from gpm.data.tables.importer import import_tables
    from gpm.data.tables.inputs import brings_nodes

    own = locate(run.config.data, run.folder)
    known = read_extras(Path(own))[0].get("schema") if is_imported(own) else None
    if not known:
        return _read_bare(run, tables)
    beside = [name for name in ("nodes", "graphs") if known.get(name) is not None]
    beside = [name for name in beside if name != "nodes" or not brings_nodes(tables[0])]
    if len(tables) > 1 + len(beside):
        listed = ", ".join(["edges", *beside])
        raise GpmError(f"{len(tables)} tables are given, but {run.folder} was trained on {listed}; give these.")
    options = dict(zip(beside, tables[1:], strict=False))
    with tempfile.TemporaryDirectory(prefix="gpm-") as scratch:
        folder = import_tables(tables[0], Path(scratch) / "graph", like=own, **options)
        return _read_imported(run, folder)  # its arrays stay mapped, though the files are gone


def _read_bare(run: Run, tables: list[Any]) -> TaskData:
    """A table of edges alone, for a model that knows no columns."""
    why = f"{run.folder} was not trained on tables that are at hand"
    if len(tables) > 1 or not isinstance(tables[0], (str, Path)):
        raise GpmError(f"{why}, so that columns cannot be read as it did; give a graph.")
    graph = load_graph(tables[0])
    if graph.x is not None or graph.edge_attr is not None:
        raise GpmError(f"{why}, so that the columns of {tables[0]} cannot be read as it did; give edges alone.")
    level = run.facts["task"]
    if level == "link":
        return load_task_data(graph, "link")
    return NodeData(graph, Path(tables[0]).stem) if level == "node" else GraphData(graph, "graphs")


def _read_imported(run: Run, folder: Path) -> TaskData:
    """An imported graph, if its columns were encoded as the run's own; its labels, if they have the same names."""
    facts, level = read_extras(folder)[0], run.facts["task"]
    own = locate(run.config.data, run.folder)
    origin = read_extras(Path(own))[0] if is_imported(own) else {}
    if describe_encoding(facts) != describe_encoding(origin):
        raise GpmError(
            f"the columns of {folder} were not encoded as those of {run.folder}, so that its model would misread them; "
            f"import the tables again with --like {run.folder}."
        )
    same = all(facts.get(key) == origin.get(key) for key in ("task", "kind", "classes", "targets"))
    data = load_imported(folder, level, run.config.metric, labels=same or not run.other)
    return replace(data, unseen=tuple(facts.get("unseen", ())))
