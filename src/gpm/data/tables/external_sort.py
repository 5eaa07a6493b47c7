"""Sort numbers that do not fit into memory, by splitting them on disk into piles that do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray]  # arrays of equal length: "key", and optionally "row" and "weight"
MOST = 2**22  # entries to sort in memory, and to read or write at once
_BINS, _PARTS = 4096, 256


class Pile:
    """Columns in files, in order of arrival, and a histogram of their keys.

    Args:
        path: Prefix of the file names.
        low, high: Bounds of the keys, both included.
        by: The column to sort by.
    """

    def __init__(self, path: Path, low: int, high: int, by: str = "key") -> None:
        self.path, self.low, self.high, self.by, self.count = path, low, high, by, 0
        self._width = (high - low) // _BINS + 1
        self._bins = np.zeros(_BINS, dtype=np.int64)
        self.types: dict[str, np.dtype] = {}

    def append(self, columns: Columns) -> None:
        """Add entries."""
        keys = columns[self.by]
        if not len(keys):
            return
        self._bins += np.bincount((keys - self.low) // self._width, minlength=_BINS)
        self.count += len(keys)
        for name, values in columns.items():
            self.types[name] = values.dtype
            with self._file(name).open("ab") as file:
                file.write(np.ascontiguousarray(values).data)

    def read(self) -> Iterator[Columns]:
        """Yield the entries, some at a time; the files are removed at the end."""
        for begin in range(0, self.count, MOST):
            yield {name: self._piece(name, begin) for name in self.types}
        for name in self.types:
            self._file(name).unlink()

    def split(self) -> list[Pile]:
        """Split into piles that fit into memory if the keys allow, in order of their keys."""
        part = _group(self._bins, max(MOST, self.count * 2 // _PARTS))
        piles = []
        for i in range(int(part[-1]) + 1):
            used = np.flatnonzero((part == i) & (self._bins > 0))
            low, high = (self.low + int(edge) * self._width for edge in (used[0], used[-1] + 1))
            piles.append(Pile(self.path.with_name(f"{self.path.name}-{i}"), low, min(high - 1, self.high), self.by))
        for columns in self.read():
            where = part[(columns[self.by] - self.low) // self._width].astype(np.uint16)
            order = np.argsort(where, kind="stable")
            bounds = np.searchsorted(where[order], np.arange(len(piles) + 1))
            for i, pile in enumerate(piles):
                chosen = order[bounds[i] : bounds[i + 1]]
                pile.append({name: values[chosen] for name, values in columns.items()})
        return piles

    def turned(self) -> Pile:
        """Return the same entries, all of one key, to be sorted by row."""
        high = max(int(self._piece("row", begin).max()) for begin in range(0, self.count, MOST))
        pile = Pile(self.path.with_name(f"{self.path.name}-rows"), 0, high, "row")
        for columns in self.read():
            pile.append(columns)
        return pile

    def _piece(self, name: str, begin: int) -> NDArray:
        dtype, length = self.types[name], min(MOST, self.count - begin)
        return np.fromfile(self._file(name), dtype=dtype, count=length, offset=begin * dtype.itemsize)

    def _file(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")


def sort_pile(pile: Pile) -> Iterator[Columns]:
    """Yield the entries of a pile sorted by key, and then by row if there are rows; a few million at a time."""
    if pile.count <= MOST:
        yield from (sort_columns(columns) for columns in pile.read())
    elif pile.low < pile.high:
        for part in pile.split():
            yield from sort_pile(part)
    elif pile.by == "key" and "row" in pile.types:
        yield from sort_pile(pile.turned())
    else:
        yield from pile.read()


def _group(bins: NDArray, most: int) -> NDArray:
    """Return the part of each bin: adjacent bins share a part up to a total of `most` entries."""
    part, filled, parts = 0, 0, np.zeros(len(bins), dtype=np.int64)
    for i, count in enumerate(bins.tolist()):
        if filled and count and filled + count > most:
            part, filled = part + 1, 0
        filled += count
        parts[i] = part
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
