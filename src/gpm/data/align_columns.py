"""Match the feature columns of one imported graph to those of another by name, whatever their order and scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.data.catalog import find_named
from gpm.data.graph_files import PYG_FILES, read_pyg
from gpm.data.imported import is_imported
from gpm.data.named_datasets import load_dataset
from gpm.data.node_data import NodeData
from gpm.data.ogb import read_years
from gpm.data.tables.encode import names
from gpm.errors import GpmError
from gpm.graph.folder import read_extras

TIMES = ("time", "year", "date", "node_year", "node_time")  # what says when a node came, the first that is there


def align(target: NodeData, folder: Path, source: NodeData) -> NodeData:
    """Return a target, imported into a folder, with its features in the order and scale of an imported source's."""
    origin = source.graph.folder
    if origin is None or not is_imported(origin):
        if target.graph.x is None and target.graph.edge_attr is None:
            return target
        raise GpmError(
            f"The columns of {folder} have names, those of {source.title} have none; import the tables of both, the "
            "second with --like the first."
        )
    wanted, given = (read_extras(Path(each))[0].get("encoding") or {} for each in (origin, folder))
    graph = target.graph
    x = _align(graph.x, wanted.get("node") or [], given.get("node") or [], folder, origin)
    edge_attr = _align(graph.edge_attr, wanted.get("edge") or [], given.get("edge") or [], folder, origin)
    return replace(target, graph=replace(graph, x=x, edge_attr=edge_attr))


def _align(values: Any, wanted: list[dict[str, Any]], given: list[dict[str, Any]], folder: Path, origin: Path) -> Any:
    if wanted == given:
        return values
    known = {entry["column"]: entry for entry in given}
    for entry in wanted:
        mine = known.get(entry["column"])
        if mine is None:
            raise GpmError(
                f"{folder} has no column {entry['column']!r} whose values differ, as {origin} has; import its tables "
                f"with --like {origin}, which also reads a column that is the same everywhere."
            )
        if entry["kind"] != mine["kind"] or entry.get("buckets") != mine.get("buckets"):
            raise GpmError(
                f"Column {entry['column']!r} is of kind {mine['kind']} in {folder} and of kind {entry['kind']} in "
                f"{origin}; import the tables with --like {origin}."
            )
    move, shift = _make_map(wanted, given)
    moved = values @ move
    if sp.issparse(moved) and not shift.any():
        return sp.csr_array(moved).astype(np.float32)
    dense = (moved.toarray() if sp.issparse(moved) else np.asarray(moved)) + shift
    for row, column in _find_gaps(values, wanted, given):  # what is missing is at the mean, of whoever it is missing to
        dense[row, column] = 0.0
    return np.asarray(dense, dtype=np.float32)


def _find_gaps(values: Any, wanted: list[dict[str, Any]], given: list[dict[str, Any]]) -> Iterator[tuple[NDArray, int]]:
    """Yield the rows that have no number in a column, and the index of the wanted column."""
    place, to = ({name: i for i, name in enumerate(names(part))} for part in (given, wanted))
    for entry in wanted:
        flag = place.get(f"{entry['column']} missing") if "std" in entry else None
        if flag is not None:
            column = values[:, [flag]]
            there = np.asarray(column.toarray() if sp.issparse(column) else column).reshape(-1)
            yield np.flatnonzero(there), to[entry["column"]]


def _make_map(wanted: list[dict[str, Any]], given: list[dict[str, Any]]) -> tuple[sp.csr_array, np.ndarray]:
    """Return the matrix that maps the given columns to the wanted ones, and the offset to add."""
    place = {name: i for i, name in enumerate(names(given))}
    known = {entry["column"]: entry for entry in given}
    rows, columns, factors = [], [], []
    shift, at = np.zeros(len(names(wanted))), 0

    def take(name: str, column: int, factor: float = 1.0) -> None:
        if name in place:
            rows.append(place[name])
            columns.append(column)
            factors.append(factor)

    for entry in wanted:
        mine, titles = known[entry["column"]], names([entry])
        for offset, title in enumerate(titles):
            take(title, at + offset)
        if entry["kind"] == "category" and entry["other"]:  # what the wanted ones do not have is another one to them
            for value in set(mine["values"]) - set(entry["values"]):
                take(f"{entry['column']} = {value}", at + len(titles) - 1)
        elif "std" in entry and "std" in mine:
            scale = mine["std"] / entry["std"] if entry["std"] else 1.0
            factors[rows.index(place[titles[0]])] = scale
            shift[at] = (mine["mean"] - entry["mean"]) / entry["std"] if entry["std"] else 0.0
        at += len(titles)
    shape = (len(place), len(shift))
    return sp.csr_array((factors, (rows, columns)), shape=shape), shift


def find_times(data: NodeData, source: Any) -> Any:
    """Return the time of each node `[N]`: a column of an imported graph, or an attribute of PyG's `Data`; None if
    unknown. Only the order counts, so a column may be scaled.
    """
    if is_imported(source):
        encoding = (read_extras(Path(source).expanduser())[0].get("encoding") or {}).get("node") or []
        columns = {name.lower(): i for i, name in reversed(list(enumerate(names(encoding))))}
        for name in TIMES:
            if name in columns and data.graph.x is not None:
                column: Any = data.graph.x[:, [columns[name]]]
                return np.asarray(column.toarray() if sp.issparse(column) else column).reshape(-1)
        return None
    if isinstance(source, (str, Path)):
        path = Path(source).expanduser()
        if path.suffix.lower() in PYG_FILES and path.is_file():
            source = read_pyg(path)[0]
        elif (entry := find_named(source)) is None or path.exists() or entry.task != "node":
            return None
        elif entry.loader == "ogb":
            return read_years(entry.option("name"))
        else:
            source = load_dataset(str(source))[0]
    times = (getattr(source, name, None) for name in TIMES)
    return next((np.asarray(values).reshape(-1) for values in times if values is not None), None)
