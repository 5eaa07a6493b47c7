"""From whatever the user names to the data of a task: nodes, links or graphs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpm.data.align_columns import find_times
from gpm.data.catalog import CATALOG, spell
from gpm.data.domain_data import DomainData, divide, load_domains
from gpm.data.graph_data import GraphData, load_graph_data
from gpm.data.graph_files import PYG_FILES, load_graph
from gpm.data.imported import is_imported, load_imported
from gpm.data.link_data import LinkData, LinkSplit, load_link_data
from gpm.data.node_data import NodeData, load_node_data
from gpm.data.splits import Split
from gpm.data.tables.table_source import is_table
from gpm.errors import GpmError
from gpm.graph.coerce import check_choice
from gpm.graph.folder import HEADER
from gpm.graph.graph import Graph

TaskData = NodeData | LinkData | GraphData


def load_task_data(
    source: Any, task: str = "auto", *, metric: str = "auto", smiles: str = "", target: str = "", shift: str = "none"
) -> TaskData:
    """Load what a task is made of.

    Args:
        source: A dataset's name, a graph's folder, saved or imported, a PyG file (.pt), a table of molecules, or one of
            edges, whose links are predicted; in Python also a PyG `Data`, a list of them, or a `Graph`.
        task: node, link or graph; auto takes what the data is known for.
        metric: mae or rmse say that labels are numbers, not classes; auto reads it off them.
        smiles: Column of the SMILES in a table of molecules.
        target: Column or columns to predict there. Where the source is no table, another graph that the model is to be
            used on, as `gpm.data.domain_data` puts them side by side.
        shift: Divide a graph by degree or time into a source and a target, see `gpm.data.domain_data.divide`.
    """
    away = target if target and not smiles and not has_columns(source) else ""
    if away or shift != "none":
        return _load_domains(source, away, task, metric, shift)
    if isinstance(source, (NodeData, LinkData, GraphData)):
        return source
    if is_imported(source):
        return _load_imported(Path(source).expanduser(), task, metric, target or smiles)
    if smiles or target:
        return _load_molecules(source, task, metric, smiles or "smiles", target)
    check_choice("task", task, ("auto", "node", "link", "graph"))
    if task == "auto":
        chosen, task = _choose(source)
        if chosen is not source:  # it is read already, and has the name of its file
            return replace(load_task_data(chosen, task, metric=metric), title=Path(source).stem)
    if task == "link":
        return load_link_data(source)
    load = load_node_data if task == "node" else load_graph_data
    return load(source, "" if metric == "auto" else metric)


def has_columns(source: Any) -> bool:
    """Whether a source is a file, other than one of PyG's: such have columns."""
    path = Path(source).expanduser() if isinstance(source, (str, Path)) else None
    return path is not None and path.suffix.lower() not in PYG_FILES and (path.is_file() or is_table(source))


def _load_domains(source: Any, target: Any, task: str, metric: str, shift: str) -> NodeData:
    """A source and a target, as one."""
    if target and shift != "none":
        raise GpmError(f"--shift {shift} makes a target of the source's own nodes; leave out --target_graph {target}.")
    data = load_task_data(source, "node" if task == "auto" else task, metric=metric)
    if isinstance(data, DomainData):
        raise GpmError("the data has a source and a target already; leave out target and shift.")
    if not isinstance(data, NodeData):
        what = f"--target_graph {target}" if target else f"--shift {shift}"
        raise GpmError(f"{what} is for tasks on nodes, not on {data.level}s; leave it out.")
    if target:
        return load_domains(data, target, data.metric)
    return divide(data, shift, find_times(data, source) if shift == "time" else None)


def walked_graph(data: TaskData, split: Split) -> Graph:
    """The graph that may be walked, embedded and counted: for links, without what is held out."""
    if isinstance(data, LinkData):
        assert isinstance(split, LinkSplit)
        return data.walked(split)
    return data.graph


def _choose(source: Any) -> tuple[Any, str]:
    """What a source is known for, or looks like; what takes long to read is not read again."""
    if isinstance(source, (str, Path)):
        path = Path(source).expanduser()
        entry = CATALOG.get(spell(str(source)))
        if entry is not None and not path.is_file() and not (path / HEADER).exists():
            return source, entry.task
        if is_table(source):
            return source, "link"
        if path.suffix.lower() in PYG_FILES and path.is_file():
            graph = load_graph(path)
            return (source, "node") if graph.graph_ptr is None else (graph, _level(graph))
        return source, _level(load_graph(source))
    if isinstance(source, Graph):
        return source, _level(source)
    several = isinstance(source, (list, tuple)) or (hasattr(source, "__getitem__") and hasattr(source, "get_summary"))
    return source, "graph" if several or (hasattr(source, "keys") and "ptr" in source) else "node"


def _level(graph: Graph) -> str:
    """Labels of a collection are of graphs if there are as many as graphs."""
    if graph.graph_ptr is None or graph.y is None:
        return "node"
    return "graph" if len(graph.y) == graph.num_graphs else "node"


def _load_imported(folder: Path, task: str, metric: str, target: str) -> TaskData:
    if target:
        raise GpmError(f"{folder} knows what it was imported for; leave out {target!r}, or import its tables anew.")
    data = load_imported(folder, task, metric)
    if not isinstance(data, LinkData) and data.graph.y is None:
        raise GpmError(f"{folder} has no target, which is enough to predict alone; import its tables with --target.")
    return data


def _load_molecules(source: Any, task: str, metric: str, smiles: str, target: str) -> GraphData:
    from gpm.data.molecules import load_molecules

    if not isinstance(source, (str, Path)) or task not in ("auto", "graph"):
        raise GpmError("smiles and target are columns of a table of molecules; give the table's file.")
    if not target:
        raise GpmError(f"{source}: say which of its columns to predict with --target.")
    chosen = "" if metric == "auto" else metric
    data = load_molecules(Path(source).expanduser(), smiles=smiles, target=target, metric=chosen)
    several = [name.strip() for name in target.split(",") if name.strip()]
    return replace(data, targets=(target.strip(),) if data.labels.ndim == 1 else tuple(several))
