"""The rows of several files as one table, which still knows in which file a row stands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from gpm.data.tables.open_table import Table, open_table
from gpm.data.tables.session import connect

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, eq=False)
class Stack:
    """The rows of files, one after the other.

    Attributes:
        frame: The rows.
        files: Where they come from.
        starts: The first row of each file.
        options: How the files are read, if they are text.
    """

    frame: pd.DataFrame
    files: tuple[Path, ...]
    starts: tuple[int, ...]
    options: dict[str, Any]

    @classmethod
    def of(cls, frames: Sequence[pd.DataFrame], files: Sequence[Path], options: Mapping[str, Any]) -> Stack:
        """Put frames with the same columns on top of each other."""
        starts = [0]
        for frame in frames[:-1]:
            starts.append(starts[-1] + len(frame))
        return cls(pd.concat(frames, ignore_index=True), tuple(files), tuple(starts), dict(options))

    def open(self, base: duckdb.DuckDBPyConnection, title: str) -> Table:
        """All rows as a table."""
        plain = open_table(base, self.frame, title=title)
        return StackedTable(base, plain.view, plain.columns, plain.types, title, None, self.options, self)


@dataclass(frozen=True)
class StackedTable(Table):
    """A table whose rows stand in several files."""

    stack: Stack | None = field(default=None, compare=False)

    def where(self, row: int) -> str:
        """Where a row is: the file, and the line in it."""
        assert self.stack is not None
        place = bisect_right(self.stack.starts, row) - 1
        with connect() as base:
            table = open_table(base, self.stack.files[place], options=self.stack.options)
            return table.where(row - self.stack.starts[place])
