"""Columns of a table with a header (CSV, TSV or Parquet) as text, and what of it is a number."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError, nearest
from gpm.io.table_files import SUFFIXES

UNKNOWN = {"", "nan", "na", "n/a", "#n/a", "<na>", "none", "null", "?"}
WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
Choose = Callable[[list[str]], list[str]]


def read_cells(path: Path, choose: Choose) -> tuple[list[int], list[list[str]]]:
    """Read some columns of a table; lines without any text are passed over.

    Args:
        path: A .csv, .tsv or .parquet file. A .csv file may also have semicolons or tabs between its columns.
        choose: Takes the header and returns the names of the columns to read.

    Returns:
        Where each row stands, and its cells without the blanks around them. A row stands at a line, of which the header
        is the first; rows of a Parquet file count from 1.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise GpmError(f"{path}: a table is read as {', '.join(SUFFIXES)}; name the file so.")
    if not path.is_file():
        raise GpmError(f"there is no file {path}; give a table.")
    return _read_parquet(path, choose) if suffix == ".parquet" else _read_text(path, choose)


def find_column(path: Path, header: list[str], name: str) -> str:
    """A column as the header spells it; capitals may differ where that leaves no doubt."""
    alike = [column for column in header if column.lower() == name.lower()]
    if name in header or len(alike) == 1:
        return name if name in header else alike[0]
    near = nearest(name.lower(), [column.lower() for column in header])
    columns = f"Its columns are {', '.join(header)}." if any(header) else "Its first line is empty."
    raise GpmError(f"{path} has no column {name!r}.{near} {columns}")


def as_numbers(path: Path, lines: list[int], rows: list[list[str]]) -> NDArray[np.float64]:
    """The numbers in rows of cells, `[R, C]`: true and yes are 1, false and no are 0, an empty cell is NaN."""
    numbers = np.full((len(rows), len(rows[0]) if rows else 0), np.nan)
    for place, (line, row) in enumerate(zip(lines, rows, strict=True)):
        for column, cell in enumerate(row):
            if cell.lower() not in UNKNOWN:
                numbers[place, column] = _as_number(path, line, cell)
    return numbers


def _as_number(path: Path, line: int, cell: str) -> float:
    try:
        number = WORDS[cell.lower()] if cell.lower() in WORDS else float(cell)
    except ValueError:
        number = np.inf
    if not np.isfinite(number):
        raise GpmError(f"{path}, line {line}: {cell!r} is not a number; mend the cell, or empty it if it is unknown.")
    return number


def _read_text(path: Path, choose: Choose) -> tuple[list[int], list[list[str]]]:
    lines, rows = [], []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=first.count)
            reader = csv.reader(itertools.chain([first], file), delimiter=delimiter, strict=True)
            header = [cell.strip() for cell in next(reader, [])]
            places = [header.index(name) for name in choose(header)]
            line = reader.line_num
            for row in reader:
                begun, line = line + 1, reader.line_num  # a cell in quotes may go over several lines
                if any(row[len(header) :]):
                    raise GpmError(f"{path}, line {begun}: more cells than columns; quote what holds {delimiter!r}.")
                if any(cell.strip() for cell in row):
                    lines.append(begun)
                    rows.append([row[place].strip() if place < len(row) else "" for place in places])
    except UnicodeDecodeError as error:
        raise GpmError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    except csv.Error as error:
        raise GpmError(f"{path}: a row cannot be read ({error}); check its quotes.") from None
    except OSError as error:
        raise GpmError(f"{path} cannot be read: {error.strerror}.") from None
    return lines, rows


def _read_parquet(path: Path, choose: Choose) -> tuple[list[int], list[list[str]]]:
    import duckdb

    try:
        with duckdb.connect() as base:
            table = base.read_parquet(str(path))
            quoted = (name.replace('"', '""') for name in choose(table.columns))
            found = table.project(", ".join(f'CAST("{name}" AS VARCHAR)' for name in quoted)).fetchall()
    except duckdb.Error as error:
        raise GpmError(f"{path} cannot be read as Parquet ({type(error).__name__}); write it again.") from None
    return list(range(1, len(found) + 1)), [[(cell or "").strip() for cell in row] for row in found]
