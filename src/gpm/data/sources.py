"""Resolve what the user named, and load it as the data of a task: nodes, links, graphs, or two domains."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import scipy.sparse as sp

from gpm.config import Config
from gpm.data.align_columns import align, find_times
from gpm.data.catalog import find_named
from gpm.data.domain_data import DomainData, divide, unite
from gpm.data.graph_data import GraphData, load_graph_data
from gpm.data.graph_files import PYG_FILES, load_graph
from gpm.data.imported import is_imported, load_imported
from gpm.data.link_data import LinkData, load_link_data
from gpm.data.molecules import load_molecules
from gpm.data.node_data import NodeData, build_node_data, load_node_data
from gpm.data.tables.inputs import title_of
from gpm.data.tables.read_network import is_network
from gpm.data.tables.table_source import Tables, find_tables, is_table
from gpm.data.task_data import TaskData as TaskData  # where others look for it
from gpm.errors import GpmError
from gpm.graph.coerce import check_choice
from gpm.graph.folder import read_extras
from gpm.graph.graph import Graph

# A ready `TaskData` ("data"); a graph folder with a task ("imported") or without ("folder"); "tables" of edges, nodes
# and graphs (files, frames, a network file, a folder of files); a name or file of no kind ("unknown"); Python objects.
Kind = Literal[
    "data", "dataset", "imported", "folder", "pyg file", "tables", "molecules", "unknown", "graph", "graphs", "pyg",
    "networkx", "networkx list", "matrix", "smiles", "object",
]  # fmt: skip
_CLASSES: dict[str, type[TaskData]] = {"node": NodeData, "link": LinkData, "graph": GraphData}


@dataclass(frozen=True, eq=False)
class Source:
    """What the user named, not yet loaded. Made by `resolve`."""

    kind: Kind
    value: Any  # a name, a path or an object; lists and arrays as a list
    name: str = "graph"  # default name of a run on it
    path: str = ""  # name or absolute path by which it is found again from any folder; empty for objects in memory
    tables: Tables | None = None  # how to import tables; None for other kinds
    smiles: str = ""  # column of the SMILES in a table of molecules
    columns: str = ""  # columns to predict in a table of molecules
    target: Any = None  # another graph, which the model is to be used on
    shift: str = "none"  # "degree" or "time" divides the graph into a source and a target

    def load(self, task: str = "auto", metric: str = "auto") -> TaskData:
        """Load the data of a task: node, link or graph; auto takes the one that the data is known for.

        The metrics mae and rmse read labels as numbers, others as classes; auto decides by the labels.
        """
        check_choice("task", task, ("auto", *_CLASSES))
        if self.target is not None or self.shift != "none":
            return self._load_domains(task, metric)
        if self.kind == "data":
            return self.value  # type: ignore[no-any-return]
        if self.kind == "imported":
            return self._load_imported(task, metric)
        if self.kind == "molecules":
            return self._load_molecules(task, metric)
        if self.tables is not None:
            return self._load_tables(task, metric)
        if task == "auto":
            graph, task = self._guess_task()
            if graph is not None:  # it is read already; the file gives it its name
                return replace(_load_level(graph, task, metric), title=self.name)
        return _load_level(self.value, task, metric)

    def load_to_predict(self, task: str, metric: str = "auto") -> TaskData:
        """Load data to predict on: labels are not needed, and dropped if they cannot be read."""
        if self.kind == "data":
            return self.value  # type: ignore[no-any-return]
        if self.kind == "molecules":
            return load_molecules(self.value, smiles=self.smiles, target=self.columns, metric=metric)
        if task == "graph":
            return bare_data(self.load_graph(), task, "graphs")
        try:
            return self.load(task, metric)
        except GpmError:
            if task == "link" or self.kind in ("unknown", "object"):
                raise
            return bare_data(replace(self.load_graph(), y=None), task, self.name)

    def load_graph(self) -> Graph:
        """Load the graph alone."""
        if isinstance(self.value, (str, Path)):
            return load_graph(self.value)
        if isinstance(self.value, (Graph, TaskData)):
            return self.value if isinstance(self.value, Graph) else self.value.graph
        if self.kind == "matrix":
            return Graph.from_scipy(self.value)
        several = [each.to_pyg() for each in self.value] if self.kind == "graphs" else self.value
        return Graph.from_pyg(several)

    def _guess_task(self) -> tuple[Graph | None, str]:
        """Guess the task; return the graph too if it had to be read and reading it again would take long."""
        if entry := find_named(self.value):
            return None, entry.task
        if not isinstance(self.value, (str, Path, Graph)):
            value = self.value
            several = isinstance(value, list) or (hasattr(value, "__getitem__") and hasattr(value, "get_summary"))
            return None, "graph" if several or (hasattr(value, "keys") and "ptr" in value) else "node"
        graph = self.load_graph()
        whole = graph.graph_ptr is not None and graph.y is not None and len(graph.y) == graph.num_graphs
        reread = self.kind != "pyg file" or graph.graph_ptr is None
        return None if reread else graph, "graph" if whole else "node"

    def _load_imported(self, task: str, metric: str) -> TaskData:
        data = load_imported(Path(self.value).expanduser(), task, metric)
        if data.level != "link" and data.graph.y is None:
            raise GpmError(
                f"{self.value} has no target, which is enough to predict only; import its tables with --target."
            )
        return data

    def _load_molecules(self, task: str, metric: str) -> TaskData:
        if not isinstance(self.value, (str, Path)) or task not in ("auto", "graph"):
            raise GpmError("smiles and target are columns of a table of molecules; give the table's file.")
        if not self.columns:
            raise GpmError(f"{self.value}: say which of its columns to predict with --target.")
        chosen = "" if metric == "auto" else metric
        data = load_molecules(Path(self.value).expanduser(), smiles=self.smiles, target=self.columns, metric=chosen)
        several = [name.strip() for name in self.columns.split(",") if name.strip()]
        return replace(data, targets=(self.columns.strip(),) if data.labels.ndim == 1 else tuple(several))

    def _load_tables(self, task: str, metric: str) -> TaskData:
        """Import tables into a scratch folder; the arrays stay mapped when its files are gone."""
        assert self.tables is not None
        if not self.tables.options:
            if task not in ("auto", "link"):
                return _load_level(self.value, task, metric)  # which says what is missing
            task = "link"
        with tempfile.TemporaryDirectory(prefix="gpm-") as scratch:
            return load_imported(self.tables.import_to(Path(scratch) / "graph", task=task, metric=metric), task, metric)

    def _load_domains(self, task: str, metric: str) -> TaskData:
        """Load a source and a target as one."""
        what = f"--shift {self.shift}" if self.target is None else f"--target_graph {self.target}"
        if self.target is not None and self.shift != "none":
            raise GpmError(f"--shift {self.shift} makes a target of the source's own nodes; leave out {what}.")
        data = replace(self, target=None, shift="none").load("node" if task == "auto" else task, metric)
        if data.has_domains:
            raise GpmError("The data has a source and a target already; leave out target and shift.")
        if not isinstance(data, NodeData):
            raise GpmError(f"{what} is for tasks on nodes, not on {data.level}s; leave it out.")
        if self.target is not None:
            return load_domains(data, self.target)
        return divide(data, self.shift, find_times(data, self.value) if self.shift == "time" else None)


def resolve(value: Any, *, smiles: str = "", target: Any = "", shift: str = "none", **options: Any) -> Source:
    """Find out what the user named. Little is read: errors about contents come from `Source.load`.

    Args:
        value: A dataset's name, a graph folder, a PyG file (.pt), a table of edges, a network file, a folder of files,
            a table of molecules; a list of the tables of edges, nodes and graphs; or an object: ready `TaskData`, a
            `Graph`, PyG data, a NetworkX graph, a sparse matrix, a DataFrame of edges, a list of such or of SMILES.
        smiles: Column of the SMILES, if the value is a table of molecules.
        target: Column or columns to predict of tables. For other sources: another graph, which the model is to be used
            on, as a dataset's name, a path or an object.
        shift: Divide a graph by degree or time into a source and a target, see `gpm.data.domain_data.divide`.
        options: nodes, graphs, graph, directed, unlisted and schema: of `import_tables`, for tables of edges only.
    """
    kind, value = _classify(value)
    first = value[0] if kind == "tables" and isinstance(value, list) else value
    tables = find_tables(first, target=target, smiles=smiles, **options)
    path = find_again(value)
    name = title_of(Path(path)) if path else "graph"
    source = Source(kind, value, name, path, shift=shift)
    if tables is not None:
        return replace(source, kind="tables", tables=tables, name=tables.name)
    if kind == "imported" and smiles:
        raise GpmError(f"{value} has its own target; leave out {target or smiles!r}, or import its tables again.")
    if smiles or (target and has_columns(value)):
        return replace(source, kind="molecules", smiles=smiles or "smiles", columns=str(target or ""))
    nothing = target is None or (isinstance(target, (str, Path)) and not str(target))
    return source if nothing else replace(source, target=find_again(target) or target)


def load_task_data(
    source: Any, task: str = "auto", *, metric: str = "auto", smiles: str = "", target: str = "", shift: str = "none"
) -> TaskData:
    """Load the data of a task, see `resolve` and `Source.load`; the column of SMILES is "smiles" unless named."""
    if target and not smiles and has_columns(source):
        smiles = "smiles"
    return resolve(source, smiles=smiles, target=target, shift=shift).load(task, metric)


def load_by(source: Any, config: Config) -> TaskData:
    """Load a source as the options say."""
    target = config.target_graph or config.target
    return load_task_data(
        source, config.task, metric=config.metric, smiles=config.smiles, target=target, shift=config.shift
    )


def load_domains(source: NodeData, target: Any) -> DomainData:
    """Put a loaded source and a target side by side; the target is named as in `resolve`."""
    return unite(source, _load_target(source, target))


def bare_data(graph: Graph, level: str, title: str) -> TaskData:
    """Make the data of a task without labels, which is enough to predict on."""
    return _CLASSES[level](graph, title)


def has_columns(source: Any) -> bool:
    """Check whether a source is a file with columns: any file that is not one of PyG's."""
    path = Path(source).expanduser() if isinstance(source, (str, Path)) else None
    return path is not None and path.suffix.lower() not in PYG_FILES and (path.is_file() or is_table(source))


def _classify(value: Any) -> tuple[Kind, Any]:
    """Return the kind of a source, and the source with arrays and tuples as lists."""
    if isinstance(value, TaskData):
        return "data", value
    if isinstance(value, (str, Path)):
        return _classify_path(value), value
    if isinstance(value, Graph):
        return "graph", value
    if is_table(value):
        return "tables", value
    if is_network(value):
        return "networkx", value
    if sp.issparse(value):
        return "matrix", value
    if hasattr(value, "edge_index") or hasattr(value, "get_summary"):
        return "pyg", value
    listed = hasattr(value, "__iter__") and getattr(value, "ndim", 1) == 1 and not isinstance(value, (dict, set))
    return _classify_list(list(value)) if listed else ("object", value)


def _classify_path(value: str | Path) -> Kind:
    path = Path(value).expanduser()
    if is_imported(value):
        return "imported"
    if is_table(value):
        return "tables"
    if find_named(value):
        return "dataset"
    if path.is_dir():
        return "folder"
    return "pyg file" if path.suffix.lower() in PYG_FILES and path.is_file() else "unknown"


def _classify_list(values: list[Any]) -> tuple[Kind, list[Any]]:
    if not values:
        return "object", values
    if all(isinstance(each, (str, Path)) or is_table(each) for each in values):
        return "tables" if any(map(is_table, values)) else "smiles", values
    if isinstance(values[0], str) or values[0] is None:
        return "smiles", values
    if is_network(values[0]):
        return "networkx list", values
    return "graphs" if isinstance(values[0], Graph) else "pyg", values


def find_again(value: Any) -> str:
    """Return the name or absolute path of a source; empty for an object in memory."""
    if not isinstance(value, (str, Path)):
        return ""
    path = Path(value).expanduser()
    there = path.is_file() or path.is_dir()
    return str(path.resolve()) if there and not find_named(value) else str(value)


def _load_level(value: Any, task: str, metric: str) -> TaskData:
    if task == "link":
        return load_link_data(value)
    metric = "" if metric == "auto" else metric
    return load_node_data(value, metric) if task == "node" else load_graph_data(value, metric)


def _load_target(source: NodeData, target: Any) -> NodeData:
    """Load the graph that a model of the source is to be used on, with its labels if it has any."""
    given, metric = resolve(target), source.metric
    if given.kind == "imported":
        folder = Path(given.path)
        data = load_imported(folder, "node", metric, labels="kind" in read_extras(folder)[0])
        assert isinstance(data, NodeData)
        return align(data, folder, source)
    if given.kind == "data":
        return given.value  # type: ignore[no-any-return]
    if given.kind == "dataset":
        data = load_node_data(target, metric)
    elif isinstance(target, (str, Path)) and not Path(target).expanduser().exists():
        raise GpmError(
            f"The target {str(target)!r} is not a dataset (gpm data lists them), graph folder or PyG file; columns to "
            "predict are named for tables only."
        )
    else:
        graph, title = given.load_graph(), given.name if given.path else "target"
        data = NodeData(graph, title) if graph.y is None else build_node_data(graph, title, metric)
    if is_imported(source.graph.folder) and data.graph.x is not None:
        raise GpmError(
            f"The columns of {source.title} have names, those of {data.title} have none; import its tables with "
            f"--like {source.graph.folder}."
        )
    return data
