"""Sorting on disk: numbers that do not fit into memory, by splitting them into piles that do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray]  # of equal length: "key", and if they matter "row" and "weight"
MOST = 2**22  # entries that are sorted in memory, and read or written at once
_BINS, _PARTS = 4096, 256


class Pile:
    """Columns in files, one after the other as they came, and how their keys are spread.

    Args:
        path: Beginning of the files' names.
        low, high: Bounds of the keys, both included.
        by: The column that is the key here.
    """

    def __init__(self, path: Path, low: int, high: int, by: str = "key") -> None:
        self.path, self.low, self.high, self.by, self.count = path, low, high, by, 0
        self._width = (high - low) // _BINS + 1
        self._bins = np.zeros(_BINS, dtype=np.int64)
        self._types: dict[str, np.dtype] = {}

    @property
    def has_rows(self) -> bool:
        return "row" in self._types

    def append(self, columns: Columns) -> None:
        """Add entries."""
        keys = columns[self.by]
        if not len(keys):
            return
        self._bins += np.bincount((keys - self.low) // self._width, minlength=_BINS)
        self.count += len(keys)
        for name, values in columns.items():
            self._types[name] = values.dtype
            with self._file(name).open("ab") as file:
                file.write(np.ascontiguousarray(values).data)

    def read(self) -> Iterator[Columns]:
        """The entries again, some at a time; their files are gone when all are read."""
        for begin in range(0, self.count, MOST):
            yield {name: self._piece(name, begin) for name in self._types}
        for name in self._types:
            self._file(name).unlink()

    def split(self) -> list[Pile]:
        """Piles that can be sorted in memory, if keys allow, the keys of each above those before."""
        part = _group(self._bins, max(MOST, self.count * 2 // _PARTS))
        piles = []
        for i in range(int(part[-1]) + 1):
            used = np.flatnonzero((part == i) & (self._bins > 0))
            low, high = (self.low + int(place) * self._width for place in (used[0], used[-1] + 1))
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
        """The same entries, all of one key, with their rows as keys."""
        high = max(int(self._piece("row", begin).max()) for begin in range(0, self.count, MOST))
        pile = Pile(self.path.with_name(f"{self.path.name}-rows"), 0, high, "row")
        for columns in self.read():
            pile.append(columns)
        return pile

    def _piece(self, name: str, begin: int) -> NDArray:
        dtype, length = self._types[name], min(MOST, self.count - begin)
        return np.fromfile(self._file(name), dtype=dtype, count=length, offset=begin * dtype.itemsize)

    def _file(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}.{name}")


def sort_pile(pile: Pile) -> Iterator[Columns]:
    """The entries of a pile by key, and where there are rows, equal keys by row; a few million at a time."""
    if pile.count <= MOST:
        yield from (sort_columns(columns) for columns in pile.read())
    elif pile.low < pile.high:
        for part in pile.split():
            yield from sort_pile(part)
    elif pile.by == "key" and pile.has_rows:
        yield from sort_pile(pile.turned())
    else:
        yield from pile.read()


def _group(bins: NDArray, most: int) -> NDArray:
    """The part of each bin: neighbours share one while they have at most so many entries together."""
    part, filled, parts = 0, 0, np.zeros(len(bins), dtype=np.int64)
    for i, count in enumerate(bins.tolist()):
        if filled and count and filled + count > most:
            part, filled = part + 1, 0
        filled += count
        parts[i] = part
    return parts


def sort_columns(columns: Columns) -> Columns:
    """Sort what is in memory by key, then by row."""
    key = columns["key"]
    if "row" not in columns:
        return {"key": np.sort(key)}
    if (columns["row"][1:] < columns["row"][:-1]).any():  # the stable sort makes use of the order that there is
        order = np.argsort(columns["row"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        key = columns["key"]
    if not len(key):
        return columns
    low, places = int(key.min()), (len(key) - 1).bit_length()
    if (int(key.max()) - low).bit_length() + places <= 63:  # sorting key and place as one number is much faster
        packed = np.sort(((key - low) << places) | np.arange(len(key)))
        order = packed & ((1 << places) - 1)
    else:
        order = np.argsort(key, kind="stable")
    return {name: values[order] for name, values in columns.items()}
