"""Turn the arguments of an import (files, data frames, a network file, or a folder of graphs) into tables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.data.tables.open_table import TABLE_FILES, Table, open_table, reading
from gpm.data.tables.read_network import NETWORK_FILES, PICKLES, network_tables
from gpm.data.tables.session import connect
from gpm.errors import GpmError, kind_of

if TYPE_CHECKING:
    import duckdb
    import pandas as pd

MOST_FILES = 1_000_000
GRAPH = "graph"  # column with the name of the file that a row comes from
_GENERIC = {
    "edges", "edge", "edgelist", "edge_list", "links", "nodes", "graph", "graphs", "network", "data", "dataset",
    "train", "training", "table", "tables", "input", "raw", "processed", "csv",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Stack:
    """The rows of several files, one file after the other."""

    frame: pd.DataFrame
    files: Sequence[Path]
    starts: Sequence[int]  # the first row of each file
    options: dict[str, Any]  # options of the files, if they are text

    def open(self, base: duckdb.DuckDBPyConnection, title: str) -> Table:
        """Open all rows as one table."""
        return replace(open_table(base, self.frame, title=title), options=self.options, locate=self.locate)

    def locate(self, row: int) -> str:
        """Return the file of a row, and the line in it."""
        index = bisect_right(self.starts, row) - 1
        with connect() as base:
            table = open_table(base, self.files[index], options=self.options)
            return table.where(row - self.starts[index])


@dataclass(frozen=True)
class Gathered:
    """The inputs of an import."""

    edges: Path | pd.DataFrame | Stack
    nodes: Path | pd.DataFrame | None
    graphs: Path | pd.DataFrame | None
    directed: bool = False  # a network file declares its edges directed
    graph: str = ""  # column with the name of the graph, for a folder with one file per graph
    title: str = "graph"
    file: str = ""  # the network file or folder that was read; empty for plain tables
    is_network: bool = False

    def open(self, base: Any, name: str, options: Mapping[str, Any], names: Sequence[str]) -> Table | None:
        """Open one of the tables with `open_table`; None if it is absent."""
        source = getattr(self, name)
        title = f"{Path(self.file).name}, {name}" if self.file else f"the table of {name}"
        if source is None or isinstance(source, Path):
            return None if source is None else open_table(base, source, options=options, names=names)
        return source.open(base, title) if isinstance(source, Stack) else open_table(base, source, title=title)


def gather(edges: Any, nodes: Any = None, graphs: Any = None, options: Mapping[str, Any] | None = None) -> Gathered:
    """Recognise the inputs of an import: the first three arguments of `gpm.data.tables.import_tables`.

    The options are those of the text files in a folder, see `open_table`.
    """
    nodes, graphs = _table(nodes), _table(graphs)
    if not isinstance(edges, (str, Path)):
        if not hasattr(edges, "columns"):
            raise GpmError(f"Give edges as a file or a DataFrame, not as a {kind_of(edges)}.")
        return Gathered(edges, nodes, graphs)
    path = Path(edges).expanduser()
    if not path.exists():
        raise GpmError(f"There is no file {path}; give a table of edges.")
    if path.is_dir():
        return _gather_folder(path, nodes, graphs, options or {})
    if suffix_of(path) not in (*NETWORK_FILES, *PICKLES):
        return Gathered(path, nodes, graphs, title=title_of(path))
    if nodes is not None:
        raise GpmError(f"{path} contains its own nodes; leave out --nodes.")
    nodes, edges, directed = network_tables(path)
    return Gathered(edges, nodes, graphs, directed, title=title_of(path), file=str(path), is_network=True)


def suffix_of(path: Path) -> str:
    """Return the suffix that tells the kind of a file: ".csv" for edges.CSV.gz."""
    return _unpacked(path).suffix.lower()


def name_of(path: Path) -> str:
    """Return the name of a file without its suffixes: "edges" for edges.csv.gz."""
    return _unpacked(path).stem


def title_of(path: Path) -> str:
    """Return what to call the graph in a file or folder: "bank" for bank/edges.csv, whose own name is generic."""
    path = path.expanduser().absolute()
    names = [name_of(path), *(folder.name for folder in path.parents if folder.name)]
    return next((name for name in names if name.lower() not in _GENERIC), names[0])


def brings_nodes(source: Any) -> bool:
    """Return whether a source is a network file, or a folder of them, which contains its own nodes."""
    if not isinstance(source, (str, Path)):
        return False
    path = Path(source).expanduser()
    return any(suffix_of(file) in NETWORK_FILES for file in (path.iterdir() if path.is_dir() else [path]))


def _unpacked(path: Path) -> Path:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name)


def _table(source: Any) -> Path | pd.DataFrame | None:
    if source is None or hasattr(source, "columns"):
        return source
    if not isinstance(source, (str, Path)):
        raise GpmError(f"Give a table as a file or a DataFrame, not as a {kind_of(source)}.")
    return Path(source).expanduser() if str(source) else None


def _gather_folder(folder: Path, nodes: Any, graphs: Any, options: Mapping[str, Any]) -> Gathered:
    """Read one graph per file, named after the file: network files only, or tables of edges only."""
    beside = [table for table in (nodes, graphs) if isinstance(table, Path)]
    files = list(_list_files(folder, beside))
    if not files:
        raise GpmError(f"{folder} has no graphs; add one file per graph ({', '.join((*TABLE_FILES, *NETWORK_FILES))}).")
    networks = {suffix_of(file) in NETWORK_FILES for file in files}
    if len(networks) > 1:
        raise GpmError(f"{folder} mixes tables of edges with network files; use one kind of file.")
    directed = False
    edges: pd.DataFrame | Stack
    if networks == {False}:
        edges = _stack_tables(files, options, alone=nodes is None)
    elif nodes is not None:
        raise GpmError(f"The files in {folder} contain their own nodes; leave out --nodes.")
    else:
        nodes, edges, directed = _join_networks(folder, files)
    return Gathered(edges, nodes, graphs, directed, GRAPH, folder.resolve().name, str(folder))


def _join_networks(folder: Path, files: Sequence[Path]) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    import pandas as pd

    nodes, edges, directed = zip(*map(network_tables, files), strict=True)
    for table, file in zip(nodes, files, strict=True):
        if not len(table):
            raise GpmError(f"{file} has no nodes; remove the file.")
    if len(set(directed)) > 1:
        raise GpmError(f"{folder} mixes directed and undirected graphs; use one kind.")
    marked = ([_mark(*pair) for pair in zip(tables, files, strict=True)] for tables in (nodes, edges))
    all_nodes, all_edges = (pd.concat(frames, ignore_index=True) for frames in marked)
    return all_nodes, all_edges, directed[0]


def _list_files(folder: Path, beside: list[Path]) -> Iterator[Path]:
    """Yield the files with graphs, sorted by name; symbolic links are refused and hidden files are skipped."""
    listed = sorted(folder.iterdir())
    if len(listed) > MOST_FILES:
        raise GpmError(f"{folder} has more than {MOST_FILES:,} files; give one table with a column of graphs.")
    names: dict[str, Path] = {}
    for file in listed:
        if file.name.startswith(".") or suffix_of(file) not in (*TABLE_FILES, *NETWORK_FILES):
            continue
        if file.is_symlink() or not file.is_file():
            raise GpmError(f"{file} is a link or not a file; put the files themselves into {folder}.")
        if any(other.exists() and other.samefile(file) for other in beside):
            continue
        if name_of(file) in names:
            raise GpmError(f"{names[name_of(file)].name} and {file.name} name the same graph; rename one of them.")
        names[name_of(file)] = file
        yield file


def _stack_tables(files: list[Path], options: Mapping[str, Any], *, alone: bool) -> Stack:
    """Read the edges of all files, which must have the same columns; if `alone`, no other table lists the nodes."""
    import pandas as pd

    frames: list[pd.DataFrame] = []
    detected: dict[str, Any] = {}
    for file in files:
        with connect() as base:
            table = open_table(base, file, options=options, names=list(frames[0].columns) if frames else ())
            with reading(table):
                frame = base.sql(f"SELECT * FROM {table.view}").df()
        if frames and [*frame.columns, GRAPH] != list(frames[0].columns):
            columns = f"{', '.join(frame.columns)} here, {', '.join(frames[0].columns[:-1])} there"
            raise GpmError(f"{file} and {files[0].name} have different columns ({columns}); write all files alike.")
        if alone and not len(frame):
            raise GpmError(f"{file} has no edges; remove the file, or list all nodes with --nodes.")
        detected = detected if frames else table.options
        frames.append(_mark(frame, file))
    starts = [*accumulate(map(len, frames[:-1]), initial=0)]
    return Stack(pd.concat(frames, ignore_index=True), files, starts, dict(detected))


def _mark(frame: pd.DataFrame, file: Path) -> pd.DataFrame:
    if GRAPH in frame.columns:
        raise GpmError(f"{file}: column {GRAPH!r} is reserved for the names of files; rename it.")
    return frame.assign(**{GRAPH: name_of(file)})
