"""Sort numbers that do not fit into memory, by splitting them on disk into piles that do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray]  # arrays of equal length: "key", and optionally "row" and "weight"
MOST = 2**22  # entries to sort in memory, and to read or write at once
_DIGIT = 8  # bits of a key by which a pile is split
_ROW_BITS = 48


class Pile:
    """Columns in files, in order of arrival; `path` is the prefix of their names."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, 0
        self.types: dict[str, np.dtype] = {}

    def append(self, columns: Columns) -> None:
        """Add entries."""
        if not len(columns["key"]):
            return
        self.count += len(columns["key"])
        for name, values in columns.items():
            self.types[name] = values.dtype
            with self._file(name).open("ab") as file:
                file.write(np.ascontiguousarray(values).data)

    def read(self) -> Iterator[Columns]:
        """Yield the entries, some at a time; the files are removed at the end."""
        for begin in range(0, self.count, MOST):
            yield {
                name: np.fromfile(self._file(name), dtype, min(MOST, self.count - begin), offset=begin * dtype.itemsize)
                for name, dtype in self.types.items()
            }
        for name in self.types:
            self._file(name).unlink()

    def _file(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")


def sort_pile(pile: Pile, bits: int, by: str = "key") -> Iterator[Columns]:
    """Yield the entries of a pile sorted by key, and then by row if there are rows; at most a few million at a time.

    Only the lowest `bits` of the column `by` differ.
    """
    if pile.count <= MOST:
        yield from map(sort_columns, pile.read())
    elif bits:
        bits = max(0, bits - _DIGIT)
        for part in _split(pile, bits, by):
            yield from sort_pile(part, bits, by)
    elif by == "key" and "row" in pile.types:
        yield from sort_pile(pile, _ROW_BITS, "row")
    else:
        yield from pile.read()


def _split(pile: Pile, bits: int, by: str) -> list[Pile]:
    """Split a pile by the digit above the lowest bits."""
    parts = [Pile(pile.path.with_name(f"{pile.path.name}-{i}")) for i in range(1 << _DIGIT)]
    for columns in pile.read():
        digit = ((columns[by] >> bits) & (len(parts) - 1)).astype(np.uint8)
        order = np.argsort(digit, kind="stable")
        bounds = np.concatenate([[0], np.cumsum(np.bincount(digit, minlength=len(parts)))])
        for i, part in enumerate(parts):
            chosen = order[bounds[i] : bounds[i + 1]]
            part.append({name: values[chosen] for name, values in columns.items()})
    return parts


def sort_columns(columns: Columns) -> Columns:
    """Sort columns in memory by key, then by row."""
    key = columns["key"]
    if "row" not in columns:
        return {"key": np.sort(key)}
    if (columns["row"][1:] < columns["row"][:-1]).any():  # a stable sort profits from the existing order
        order = np.argsort(columns["row"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        key = columns["key"]
    if not len(key):
        return columns
    low, bits = int(key.min()), (len(key) - 1).bit_length()
    if (int(key.max()) - low).bit_length() + bits <= 63:  # sorting key and index as one number is much faster
        packed = np.sort(((key - low) << bits) | np.arange(len(key)))
        order = packed & ((1 << bits) - 1)
    else:
        order = np.argsort(key, kind="stable")
    return {name: values[order] for name, values in columns.items()}
