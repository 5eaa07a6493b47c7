"""A graph from whatever the user has: a dataset's name, a saved graph, an edge list or a PyG file."""

from __future__ import annotations

import csv
import itertools
import logging
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from gpm.data.catalog import CATALOG, allow_pyg_data, load_dataset, spell
from gpm.data.cells import read_cells
from gpm.errors import GpmError, nearest
from gpm.graph import Graph
from gpm.storage import HEADER

EDGE_LISTS = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
PYG_FILES = (".pt", ".pth")
_SOURCES = {
    "source",
    "src",
    "from",
    "u",
    "i",
    "start",
    "head",
    "node1",
    "node_1",
    "id1",
    "id_1",
    "from_node",
    "source_id",
}
_TARGETS = {"target", "dst", "to", "v", "j", "end", "tail", "node2", "node_2", "id2", "id_2", "to_node", "target_id"}
_TARGETS |= {"destination", "dest"}
_WEIGHTS = {"weight", "weights", "w", "edge_weight"}
_log = logging.getLogger("gpm")


def load_graph(source: str | Path, *, directed: bool = False) -> Graph:
    """Load a graph.

    Args:
        source: A dataset's name, a folder written by `Graph.save`, an edge list (.csv, .tsv, .txt) or a PyG file (.pt).
        directed: Read an edge list as directed edges; by default each row is an edge in both directions.
    """
    path = Path(source).expanduser()
    table = path.suffix.lower() in EDGE_LISTS and path.is_file()
    if directed and not table:
        raise GpmError(f"directed is for edge lists; {str(source)!r} says by itself which way its edges go.")
    if path.is_dir() and ((path / HEADER).exists() or spell(str(source)) not in CATALOG):
        return Graph.open(path)
    if table:
        return read_edge_list(path, directed=directed)
    if path.suffix.lower() in PYG_FILES and path.is_file():
        return _read_pyg(path)
    if spell(str(source)) in CATALOG:
        dataset = load_dataset(str(source))
        return Graph.from_pyg(dataset if len(dataset) > 1 else dataset[0])
    if path.exists():
        kinds = ", ".join((*EDGE_LISTS, *PYG_FILES))
        raise GpmError(
            f"{path} is not a kind of file that is read here; give a saved graph's folder or one of {kinds}."
        )
    near = nearest(str(source).lower(), CATALOG)
    raise GpmError(f"{str(source)!r} is neither a file nor a dataset.{near} Datasets: {', '.join(CATALOG)}.")


def read_edge_list(path: Path, *, directed: bool = False) -> Graph:
    """Read a table of edges: source, target and, if there is one, weight.

    The delimiter is found in the first row: a tab, else a semicolon, else a comma, else blanks. The first row is a
    header if it names the columns (source and target, from and to, ..., weight), or is text above numbers; its columns
    may then stand in any order. Without a header a third column of numbers is the weight. What was taken for what is
    logged. Blank lines, and lines that begin with # above the first row, are passed over. Whole numbers as ids stay
    numbers; all else is text.
    """
    rows = _rows(path)
    first_line, first = next(rows, (0, []))
    second_line, second = next(rows, (0, []))
    if not first:
        raise GpmError(f"{path} holds no edges; write one 'source,target' per line.")
    columns, is_header = _columns(path, first, second)
    rest = itertools.chain([(second_line, second)] if second else [], rows)
    body = rest if is_header else itertools.chain([(first_line, first)], rest)
    ends: list[tuple[str, str]] = []
    weights: list[float] = []
    a, b, w = columns
    needed = max(a, b, -1 if w is None else w) + 1
    for line, row in body:
        if len(row) < needed:
            raise GpmError(
                f"{path}, line {line}: {len(row)} column(s) where {needed} are needed; mend or remove the line."
            )
        if not row[a] or not row[b]:
            raise GpmError(f"{path}, line {line}: an end of the edge is empty; mend or remove the line.")
        ends.append((row[a], row[b]))
        if w is not None:
            weights.append(_weight(path, line, row[w]))
    seen = {name for pair in ends for name in pair}
    if is_header and w is None and first[a] in seen and first[b] in seen:
        is_header = False  # its words are nodes: it was an edge
        ends.insert(0, (first[a], first[b]))
    _log.info("%s: %s", path.name, _describe(first, columns, is_header))
    pairs, names = _number(ends)
    return Graph.from_edges(
        pairs, len(names), edge_weight=weights if w is not None else None, undirected=not directed,
        names=None if names == list(range(len(names))) else names,
    )  # fmt: skip


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The first two columns of a table as pairs of names; a first row "source, target" is a header.

    Text is read as an edge list is; the columns of a Parquet file have names of their own, which are no row.
    """
    if not path.is_file():
        raise GpmError(f"there is no file {path}.")
    if path.suffix.lower() == ".parquet":
        rows: Iterable[tuple[int, list[str]]] = zip(*read_cells(path, lambda columns: columns[:2]), strict=True)
    else:
        rows = _rows(path)
    pairs = []
    for number, (line, row) in enumerate(rows):
        if number == 0 and [cell.lower() for cell in row[:2]] == ["source", "target"]:
            continue
        if len(row) < 2 or not row[0] or not row[1]:
            raise GpmError(f"{path}, line {line}: a pair needs two names; mend or remove the line.")
        pairs.append((row[0], row[1]))
    if not pairs:
        raise GpmError(f"{path} holds no pairs; write one 'source,target' per line.")
    return pairs


def _describe(first: list[str], columns: tuple[int, int, int | None], is_header: bool) -> str:
    a, b, w = columns
    named = [repr(first[c]) if is_header else str(c + 1) for c in (a, b) + (() if w is None else (w,))]
    roles = ["source", "target", "weight"][: len(named)]
    taken = ", ".join(f"{role} is column {name}" for role, name in zip(roles, named, strict=True))
    ignored = len(first) - len(named)
    more = f", {ignored} other column(s) ignored" if ignored > 0 else ""
    return f"{'a header' if is_header else 'no header'}, {taken}{more}"


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with their line numbers, cells stripped, blank lines and comments left out."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            skipped, first = 0, ""
            for line in file:
                if line.strip() and not line.lstrip().startswith("#"):
                    first = line
                    break
                skipped += 1
            delimiter, lines = _delimiter(first), itertools.chain([first], file)
            if delimiter == " ":
                yield from ((skipped + n, line.split()) for n, line in enumerate(lines, 1) if line.strip())
                return
            reader = csv.reader(lines, delimiter=delimiter, strict=True)
            for row in reader:
                if any(cell.strip() for cell in row):
                    yield skipped + reader.line_num, [cell.strip() for cell in row]
    except UnicodeDecodeError as error:
        raise GpmError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    except csv.Error as error:
        raise GpmError(f"{path}: a row cannot be read ({error}); check its quotes.") from None
    except OSError as error:
        raise GpmError(f"{path} cannot be read: {error.strerror}.") from None


def _delimiter(line: str) -> str:
    bare = re.sub(r'"[^"]*"', "", line)
    return next((d for d in ("\t", ";", ",") if d in bare), " ")


def _columns(path: Path, first: list[str], second: list[str]) -> tuple[tuple[int, int, int | None], bool]:
    """Where source, target and weight stand, and whether the first row is a header."""
    words = [cell.lower() for cell in first]
    source, target, weight = (
        next((i for i, word in enumerate(words) if word in known), None) for known in (_SOURCES, _TARGETS, _WEIGHTS)
    )
    if source is not None and target is not None:
        return (source, target, weight), True
    if len(first) < 2:
        raise GpmError(
            f"{path}: a row has one column; write 'source,target' with a comma, semicolon, tab or blank between."
        )
    above_numbers = bool(second) and all(map(_is_whole, second[:2])) and not any(map(_is_whole, first[:2]))
    if above_numbers or (weight is not None and weight >= 2):
        return (0, 1, weight if weight is not None and weight >= 2 else None), True
    return (0, 1, 2 if len(first) > 2 and _is_number(first[2]) else None), False


def _is_whole(cell: str) -> bool:
    """Whether a cell is an integer written in its one usual way (007 is text: its zeros must come back)."""
    digits = cell.removeprefix("-")
    return (
        digits.isascii()
        and digits.isdigit()
        and (digits == "0" or digits[0] != "0")
        and len(digits) < 19
        and cell != "-0"
    )


def _as_number(cell: str) -> float:
    """The number in a cell, with a decimal point or comma; NaN if there is none."""
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return float("nan")


def _is_number(cell: str) -> bool:
    return not np.isnan(_as_number(cell))


def _weight(path: Path, line: int, cell: str) -> float:
    value = _as_number(cell)
    if not (np.isfinite(value) and value >= 0):
        raise GpmError(f"{path}, line {line}: weight {cell!r} is not a number of 0 or more; mend the line.")
    return value


def _number(ends: list[tuple[str, str]]) -> tuple[np.ndarray, list[int] | list[str]]:
    """Number the names: whole numbers in ascending order, text in order of appearance."""
    seen = dict.fromkeys(name for pair in ends for name in pair)
    if all(map(_is_whole, seen)):
        whole = sorted(int(name) for name in seen)
        place = {str(value): i for i, value in enumerate(whole)}
        names: list[int] | list[str] = whole
    else:
        names = list(seen)
        place = {name: i for i, name in enumerate(names)}
    return np.array([(place[a], place[b]) for a, b in ends], dtype=np.int64).reshape(-1, 2).T, names


def _read_pyg(path: Path) -> Graph:
    """Read what `torch.save` made of a PyG `Data` or a list of them; nothing in the file is executed."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        allow_pyg_data()
        with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            data = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise GpmError(
            f"{path} cannot be read as a PyG file ({type(error).__name__}): it is damaged, or holds more than tensors, "
            "numbers and text; torch.save a plain Data or a list of them (batch.to_data_list() of a Batch)."
        ) from None
    if isinstance(data, (list, tuple)) and data and all(isinstance(d, Data) for d in data):
        return Graph.from_pyg(list(data))
    if not isinstance(data, Data):
        raise GpmError(f"{path} holds a {type(data).__name__}, not a PyG Data or a list of them.")
    return Graph.from_pyg(data)
