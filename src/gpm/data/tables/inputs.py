"""The tables of an import from whatever the user names: files, frames, a network file, or a folder of graphs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.data.tables.open_table import TABLE_FILES as TABLES
from gpm.data.tables.open_table import Table, open_table, reading
from gpm.data.tables.read_network import NETWORK_FILES as NETWORKS
from gpm.data.tables.read_network import PICKLES, network_tables
from gpm.data.tables.session import connect
from gpm.data.tables.stacked import Stack
from gpm.errors import GpmError, kind_of

if TYPE_CHECKING:
    import pandas as pd

MOST_FILES = 1_000_000
GRAPH = "graph"  # the column that says which file a row comes from


@dataclass(frozen=True)
class Gathered:
    """What is imported.

    Attributes:
        edges, nodes, graphs: A file, a frame, or the rows of several files; None if there is none.
        directed: Whether a network file says that edges go one way.
        graph: The column of graphs, where a file each makes them.
        title: What it is called.
        file: The network file, or the folder, that tables were made of.
    """

    edges: Path | pd.DataFrame | Stack
    nodes: Path | pd.DataFrame | None
    graphs: Path | pd.DataFrame | None
    directed: bool = False
    graph: str = ""
    title: str = "graph"
    file: str = ""
    is_network: bool = False

    def open(self, base: Any, name: str, options: Mapping[str, Any], names: Sequence[str]) -> Table | None:
        """One of the tables in a connection, see `open_table`; None if there is none."""
        source = getattr(self, name)
        title = f"{Path(self.file).name}, {name}" if self.file else f"the table of {name}"
        if source is None or isinstance(source, Path):
            return None if source is None else open_table(base, source, options=options, names=names)
        return source.open(base, title) if isinstance(source, Stack) else open_table(base, source, title=title)


def gather(edges: Any, nodes: Any = None, graphs: Any = None, options: Mapping[str, Any] | None = None) -> Gathered:
    """Sort out what was given.

    Args:
        edges: A table of edges (a file or a DataFrame); a network file (GraphML, GEXF, GML, node-link JSON), which has
            nodes of its own; or a folder with one such file, or one table of edges, per graph.
        nodes: A table of nodes.
        graphs: A table of graphs.
        options: How the text files of a folder are read, see `open_table`.
    """
    nodes, graphs = _table(nodes), _table(graphs)
    if not isinstance(edges, (str, Path)):
        if not hasattr(edges, "columns"):
            raise GpmError(f"give edges as a file or a DataFrame, not as a {kind_of(edges)}.")
        return Gathered(edges, nodes, graphs)
    path = Path(edges).expanduser()
    if not path.exists():
        raise GpmError(f"there is no file {path}; give a table of edges.")
    if path.is_dir():
        return _gather_folder(path, nodes, graphs, options or {})
    if suffix_of(path) not in (*NETWORKS, *PICKLES):
        return Gathered(path, nodes, graphs, title=name_of(path))
    if nodes is not None:
        raise GpmError(f"{path} has nodes of its own; leave out --nodes.")
    found_nodes, found_edges, directed = network_tables(path)
    named: dict[str, Any] = {"title": name_of(path), "file": str(path), "is_network": True}
    return Gathered(found_edges, found_nodes, graphs, directed, **named)


def suffix_of(path: Path) -> str:
    """The ending that tells the kind of a file: ".csv" of edges.CSV.gz."""
    return _unpacked(path).suffix.lower()


def name_of(path: Path) -> str:
    """The name of a file without the ending: "edges" of edges.csv.gz."""
    return _unpacked(path).stem


def brings_nodes(source: Any) -> bool:
    """Whether a source is a network file, or a folder of them, and has nodes of its own."""
    if not isinstance(source, (str, Path)):
        return False
    path = Path(source).expanduser()
    return any(suffix_of(file) in NETWORKS for file in (path.iterdir() if path.is_dir() else [path]))


def _unpacked(path: Path) -> Path:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name)


def _table(given: Any) -> Path | pd.DataFrame | None:
    if given is None or hasattr(given, "columns"):
        return given
    if not isinstance(given, (str, Path)):
        raise GpmError(f"give a table as a file or a DataFrame, not as a {kind_of(given)}.")
    return Path(given).expanduser() if str(given) else None


def _gather_folder(folder: Path, nodes: Any, graphs: Any, options: Mapping[str, Any]) -> Gathered:
    """A graph per file, named by the file; all network files, or all tables of edges."""
    import pandas as pd

    beside = [table for table in (nodes, graphs) if isinstance(table, Path)]
    files = list(_list_files(folder, beside))
    if not files:
        known = ", ".join((*TABLES, *NETWORKS))
        raise GpmError(f"{folder} holds no graphs; put one file per graph into it ({known}).")
    networks = {suffix_of(file) in NETWORKS for file in files}
    if len(networks) > 1:
        raise GpmError(f"{folder} mixes tables of edges with network files; keep to one kind of file.")
    named: dict[str, Any] = {"graph": GRAPH, "title": folder.resolve().name, "file": str(folder)}
    if networks == {False}:
        return Gathered(_stack_tables(files, options, alone=nodes is None), nodes, graphs, **named)
    if nodes is not None:
        raise GpmError(f"the files in {folder} have nodes of their own; leave out --nodes.")
    found = [network_tables(file) for file in files]
    for (nodes, _, _), file in zip(found, files, strict=True):
        if not len(nodes):
            raise GpmError(f"{file} holds no nodes, so that it is no graph; remove it.")
    ways = {directed for _, _, directed in found}
    if len(ways) > 1:
        raise GpmError(f"{folder} mixes directed with undirected graphs; keep to one kind.")
    all_nodes, all_edges = (
        pd.concat([_mark(parts[at], file) for parts, file in zip(found, files, strict=True)], ignore_index=True)
        for at in (0, 1)
    )
    return Gathered(all_edges, all_nodes, graphs, ways.pop(), **named)


def _list_files(folder: Path, beside: list[Path]) -> Iterator[Path]:
    """The files with graphs, by name; links out of the folder are refused, and what is hidden is passed over."""
    listed = sorted(folder.iterdir())
    if len(listed) > MOST_FILES:
        raise GpmError(f"{folder} holds more than {MOST_FILES:,} files; give one table with a column of graphs.")
    names: dict[str, Path] = {}
    for file in listed:
        if file.name.startswith(".") or suffix_of(file) not in (*TABLES, *NETWORKS):
            continue
        if file.is_symlink() or not file.is_file():
            raise GpmError(f"{file} is a link or no file; put the files themselves into {folder}.")
        if any(other.exists() and other.samefile(file) for other in beside):
            continue
        if name_of(file) in names:
            raise GpmError(f"{names[name_of(file)].name} and {file.name} name the same graph; rename one of them.")
        names[name_of(file)] = file
        yield file


def _stack_tables(files: list[Path], options: Mapping[str, Any], *, alone: bool) -> Stack:
    """The edges of all files, which must have the same columns, and some rows if no other table lists the nodes."""
    frames: list[pd.DataFrame] = []
    found = dict(options)
    for file in files:
        with connect() as base:
            table = open_table(base, file, options=options, names=list(frames[0].columns) if frames else ())
            with reading(table):
                frame = base.sql(f"SELECT * FROM {table.view}").df()
        if frames and [*frame.columns, GRAPH] != list(frames[0].columns):
            columns = f"{', '.join(frame.columns)} here, {', '.join(frames[0].columns[:-1])} there"
            raise GpmError(f"{file} and {files[0].name} have different columns ({columns}); write all files alike.")
        if alone and not len(frame):
            raise GpmError(f"{file} holds no edges, so that it is no graph; remove it, or list all nodes with --nodes.")
        found = found if frames else table.options
        frames.append(_mark(frame, file))
    return Stack.of(frames, files, found)


def _mark(frame: pd.DataFrame, file: Path) -> pd.DataFrame:
    if GRAPH in frame.columns:
        raise GpmError(f"{file}: the column {GRAPH!r} is needed for the names of files; rename it.")
    return frame.assign(**{GRAPH: name_of(file)})
