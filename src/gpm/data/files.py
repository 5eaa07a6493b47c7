"""A graph from whatever the user has: a dataset's name, a saved graph, an edge list or a PyG file."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from gpm.data.catalog import CATALOG, load_dataset
from gpm.errors import GpmError, nearest
from gpm.graph import Graph
from gpm.storage import HEADER

EDGE_LISTS = (".csv", ".tsv", ".txt", ".edges", ".edgelist")
PYG_FILES = (".pt", ".pth")
_SOURCES = {"source", "src", "from", "u", "node1", "source_id", "id1", "head"}
_TARGETS = {"target", "dst", "to", "v", "node2", "target_id", "id2", "tail"}


def load_graph(source: str | Path, *, directed: bool = False) -> Graph:
    """Load a graph.

    Args:
        source: A dataset's name, a folder written by `Graph.save`, an edge list (.csv, .tsv, .txt) or a PyG file (.pt).
        directed: Read an edge list as directed edges; by default each row is an edge in both directions.
    """
    path = Path(source)
    if path.is_dir() and ((path / HEADER).exists() or str(source).lower() not in CATALOG):
        return Graph.open(path)
    if path.suffix.lower() in EDGE_LISTS and path.is_file():
        return read_edge_list(path, directed=directed)
    if path.suffix.lower() in PYG_FILES and path.is_file():
        return _read_pyg(path)
    if str(source).lower() in CATALOG:
        dataset = load_dataset(str(source))
        return Graph.from_pyg(list(dataset) if len(dataset) > 1 else dataset[0])
    if path.exists():
        kinds = ", ".join((*EDGE_LISTS, *PYG_FILES))
        raise GpmError(
            f"{path} is not a kind of file that is read here; give a saved graph's folder or one of {kinds}."
        )
    near = nearest(str(source).lower(), CATALOG)
    raise GpmError(f"{str(source)!r} is neither a file nor a dataset.{near} Datasets: {', '.join(CATALOG)}.")


def read_edge_list(path: Path, *, directed: bool = False) -> Graph:
    """Read a table of edges: source, target and, if there is one, weight.

    The delimiter (comma, semicolon, tab, blanks) is found in the first row. A header is recognised by its words, or
    because it is text above numbers; with a header the columns may stand in any order, without one a third column of
    numbers is the weight. Blank lines, and lines that begin with # above the first row, are passed over. Whole numbers
    as ids stay numbers; all else is text.
    """
    rows = _rows(path)
    first_line, first = next(rows, (0, []))
    second_line, second = next(rows, (0, []))
    if not first:
        raise GpmError(f"{path} holds no edges; write one 'source,target' per line.")
    columns, is_header = _columns(path, first, second)
    body = ([] if is_header else [(first_line, first)]) + ([(second_line, second)] if second else [])
    ends: list[tuple[str, str]] = []
    weights: list[float] = []
    a, b, w = columns
    needed = max(a, b, -1 if w is None else w) + 1
    for line, row in itertools.chain(body, rows):
        if len(row) < needed:
            raise GpmError(
                f"{path}, line {line}: {len(row)} column(s) where {needed} are needed; mend or remove the line."
            )
        if not row[a] or not row[b]:
            raise GpmError(f"{path}, line {line}: an end of the edge is empty; mend or remove the line.")
        ends.append((row[a], row[b]))
        if w is not None:
            weights.append(_weight(path, line, row[w]))
    pairs, names = _number(ends)
    return Graph.from_edges(
        pairs, len(names), edge_weight=weights if w is not None else None, undirected=not directed,
        names=None if names == list(range(len(names))) else names,
    )  # fmt: skip


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table with their line numbers, cells stripped, blank lines and comments left out."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            delimiter: str | None = None
            for number, line in _logical_lines(iter(file)):
                if delimiter is None:
                    delimiter = _delimiter(line)
                cells = line.split() if delimiter == " " else next(csv.reader([line], delimiter=delimiter, strict=True))
                yield number, [cell.strip() for cell in cells]
    except UnicodeDecodeError as error:
        raise GpmError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    except csv.Error as error:
        raise GpmError(f"{path}: a row cannot be read ({error}); check its quotes.") from None
    except OSError as error:
        raise GpmError(f"{path} cannot be read: {error.strerror}.") from None


def _delimiter(line: str) -> str:
    return "\t" if "\t" in line else max((" ", ",", ";"), key=lambda d: line.count(d) if d != " " else 0.5)


def _logical_lines(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; a quoted cell may run over several. Comments stand above the first row."""
    number, begun = 0, False
    for line in lines:
        number += 1
        start = number
        if not line.strip() or (not begun and line.lstrip().startswith("#")):
            continue
        begun = True
        while line.count('"') % 2 and (more := next(lines, None)) is not None:
            line += more
            number += 1
        yield start, line.rstrip("\r\n")


def _columns(path: Path, first: list[str], second: list[str]) -> tuple[tuple[int, int, int | None], bool]:
    """Where source, target and weight stand, and whether the first row is a header."""
    words = [cell.lower() for cell in first]
    source = next((i for i, word in enumerate(words) if word in _SOURCES), None)
    target = next((i for i, word in enumerate(words) if word in _TARGETS), None)
    if source is not None and target is not None:
        return (source, target, words.index("weight") if "weight" in words else None), True
    if len(first) < 2:
        raise GpmError(
            f"{path}: a row has one column; write 'source,target' with a comma, semicolon, tab or blank between."
        )
    text_above_numbers = bool(second) and all(map(_is_whole, second[:2])) and not any(map(_is_whole, first[:2]))
    sample = second if text_above_numbers else first
    weighted = len(sample) > 2 and _is_number(sample[2])
    return (0, 1, 2 if weighted else None), text_above_numbers


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


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _weight(path: Path, line: int, cell: str) -> float:
    value = float(cell) if _is_number(cell) else float("nan")
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
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            data = torch.load(path, weights_only=True)
    except Exception as error:
        raise GpmError(
            f"{path} cannot be read as a PyG file ({type(error).__name__}: more than plain data in it, or damaged); "
            "torch.save a Data or a list of them (batch.to_data_list() of a Batch)."
        ) from None
    if isinstance(data, (list, tuple)) and data and all(isinstance(d, Data) for d in data):
        return Graph.from_pyg(list(data))
    if not isinstance(data, Data):
        raise GpmError(f"{path} holds a {type(data).__name__}, not a PyG Data or a list of them.")
    return Graph.from_pyg(data)
