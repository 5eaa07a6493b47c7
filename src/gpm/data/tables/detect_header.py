"""Detect whether the first row of a table is a header; the usual names of columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from gpm.errors import GpmError, nearest

UNKNOWN = {"", "nan", "na", "n/a", "#n/a", "<na>", "none", "null", "?"}  # cells without a value
SOURCES = {
    "source", "src", "from", "u", "i", "start", "head", "node1", "node_1", "id1", "id_1", "from_node", "source_id",
    "fromnodeid", "from_id", "sender", "follower", "citing", "parent", "caller",
}  # fmt: skip
TARGETS = {
    "target", "dst", "to", "v", "j", "end", "tail", "node2", "node_2", "id2", "id_2", "to_node", "target_id",
    "tonodeid", "to_id", "destination", "dest", "receiver", "followee", "followed", "cited", "child", "callee",
}  # fmt: skip
WEIGHTS = {"weight", "weights", "w", "edge_weight"}
IDS = {"id", "ids", "node", "nodes", "node_id", "nodeid", "name", "key", "index", "uid", "user", "user_id"}
GRAPHS = {"graph", "graph_id", "graphid", "smiles", "molecule"}
OTHERS = {
    "label", "labels", "class", "y", "type", "kind", "category", "split", "part", "fold", "value", "score", "date",
    "time", "timestamp", "year", "text", "title", "age",
}  # fmt: skip
_KNOWN = SOURCES | TARGETS | WEIGHTS | IDS | GRAPHS | OTHERS
_TYPED = re.compile(
    r"[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?|\d{4}-\d\d?-\d\d?([T ].*)?|\d\d?[./]\d\d?[./]\d{4}|true|false|yes|no",
    re.IGNORECASE,
)
_CODE = re.compile(r"(\D*)\d+")


def is_header(first: Sequence[str], body: Sequence[Sequence[str]], names: Collection[str] = ()) -> bool:
    """Return whether the first row is a header: it has an expected name, usual names, or text above numbers or codes.

    A row with numbers, dates or yes/no cells is not a header, nor is one whose cells are node names further down. Codes
    are cells that all have the same letters in front of digits, such as p001 and p002. Of the rows below it, the
    `body`, a hundred suffice.
    """
    words = [cell.lower() for cell in first]
    if {name.lower() for name in names} & set(words):
        return True
    below = {cell for row in body for cell in row[:2]}
    again = [cell in below for cell in first[:2]]
    if _are_usual(words):
        return not (len(first) > 1 and all(again))
    if any(map(_TYPED.fullmatch, first)) or any(again):
        return False
    columns = [(cell, [row[i] for row in body if i < len(row)]) for i, cell in enumerate(first) if cell]
    if any(_are_typed(column) for _, column in columns):
        return True
    codes = [(cell, letters) for cell, column in columns if (letters := _find_letters(column)) is not None]
    return bool(codes) and not any(re.fullmatch(rf"{re.escape(letters)}\d+", cell) for cell, letters in codes)


def find_column(path: Path, header: list[str], name: str) -> str:
    """Return a column as the header spells it; capitals may differ if that is unambiguous."""
    alike = [column for column in header if column.lower() == name.lower()]
    if name in header or len(alike) == 1:
        return name if name in header else alike[0]
    near = nearest(name.lower(), [column.lower() for column in header])
    columns = f"Its columns are {', '.join(header)}." if any(header) else "Its first line is empty."
    raise GpmError(f"{path} has no column {name!r}.{near} {columns}")


def _are_usual(words: list[str]) -> bool:
    """Return whether a row has usual names: both ends of an edge, an id in front, a weight, or any two of them."""
    if set(words) & SOURCES and set(words) & TARGETS:
        return True
    if words[0] in IDS | GRAPHS or set(words[2:]) & WEIGHTS:
        return True
    return sum(word in _KNOWN for word in words if len(word) > 1) > 1


def _are_typed(column: list[str]) -> bool:
    filled = [cell for cell in column if cell.lower() not in UNKNOWN]
    return bool(filled) and all(map(_TYPED.fullmatch, filled))


def _find_letters(column: list[str]) -> str | None:
    """Return the letters that all cells of a column have in front of digits; None if they differ, or are all alike."""
    filled = {cell for cell in column if cell.lower() not in UNKNOWN}
    codes = [_CODE.fullmatch(cell) for cell in filled]
    letters = {code[1] if code else None for code in codes}
    return letters.pop() if len(filled) > 1 and len(letters) == 1 else None
