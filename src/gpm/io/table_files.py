"""Write tables as CSV, TSV, Parquet or JSON lines, complete or not at all, so that they can be read back exactly."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpm.errors import GpmError
from gpm.io.atomic import replacing

SUFFIXES = (".csv", ".tsv", ".parquet")
WRITTEN = (*SUFFIXES, ".jsonl")
_BLOCK = 65_536  # rows that are converted to text at a time


def check_table(path: Path, suffixes: tuple[str, ...] = WRITTEN) -> None:
    """Refuse, before any work, a path to which no table can be written."""
    if path.suffix.lower() not in suffixes:
        raise GpmError(f"{path}: a table is written as {', '.join(suffixes)}; name the file so.")
    if path.is_dir():
        raise GpmError(f"{path} is a folder; name a file.")


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """Write columns of equal length, see `write_blocks`."""
    check_table(path)
    with replacing(path) as scratch:
        try:
            if path.suffix.lower() == ".parquet":
                write_parquet(scratch, columns)
            else:
                write_blocks(scratch, [columns])
        except UnicodeEncodeError as error:
            raise GpmError(f"Cannot write {path}: {error.object!r:.60} cannot be stored as text.") from None


def write_blocks(path: Path, blocks: Iterable[dict[str, Any]]) -> None:
    """Write a text table block by block; there must be at least one block, possibly without rows.

    Names are written unchanged, also those that a spreadsheet would take for a formula or a number. Text that is not
    Unicode is read back from CSV and TSV by `surrogateescape`. Numbers have as many digits as they need to be exact.
    """
    if path.suffix.lower() == ".jsonl":
        with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:  # which JSON reads
            file.writelines(row for columns in blocks for row in _as_json(columns))
    else:
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            for number, columns in enumerate(blocks):
                file.writelines(_as_text(columns, delimiter, header=not number))


def distinct(names: Iterable[str]) -> list[str]:
    """Return names of columns made distinct: a repeated name gets a number."""
    taken: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}_{i}" if i > 1 else name for i in itertools.count(1))
        taken[next(each for each in numbered if each not in taken)] = None
    return list(taken)


def write_parquet(path: Path, columns: dict[str, Any], fix: str = "try a .csv file") -> None:
    """Write columns of equal length as Parquet; `fix` tells what to do about text that cannot be stored."""
    import duckdb
    import pandas as pd

    frame = pd.DataFrame(columns)
    texts = [name for name, values in columns.items() if isinstance(values, list) and None in values]
    frame = frame.astype(dict.fromkeys(texts, "string"))  # else the type would depend on the rows
    try:
        with duckdb.connect() as base:
            base.register("frame", frame)
            base.sql("SELECT * FROM frame").write_parquet(str(path))
    except duckdb.Error as error:  # a full disk, or text that is no Unicode
        raise GpmError(f"Cannot write Parquet ({str(error).splitlines()[0]}); {fix}.") from None


def _as_text(columns: dict[str, Any], delimiter: str, header: bool) -> Iterator[str]:
    """Yield the rows of a text file."""
    if header:
        yield delimiter.join(_quote(columns, delimiter)) + "\n"
    for block in _blocks(columns):
        cells = [_numbers(values) if _is_float(values) else _quote(values, delimiter) for values in block]
        if len(cells) == 1:
            cells = [[cell or '""' for cell in cells[0]]]  # else the line would be empty
        yield from (delimiter.join(row) + "\n" for row in zip(*cells, strict=True))


def _as_json(columns: dict[str, Any]) -> Iterator[str]:
    """Yield the rows of a file of JSON lines; NaN and infinity become null."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    heads = [encode(name) + ": " for name in columns]
    for block in _blocks(columns):
        cells = []
        for head, values in zip(heads, block, strict=True):
            if _is_float(values):
                cells.append([head + (cell if cell[-1:].isdigit() else "null") for cell in _numbers(values)])
            else:
                plain = values.tolist() if isinstance(values, np.ndarray) else values
                cells.append([head + encode(value) for value in plain])
        yield from ("{" + ", ".join(row) + "}\n" for row in zip(*cells, strict=True))


def _blocks(columns: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield the columns, which must have the same length, in blocks of rows."""
    sizes = {name: len(values) for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise ValueError(f"The columns of a table must be of the same length, got {sizes}.")
    for first in range(0, max(sizes.values(), default=0), _BLOCK):
        yield [values[first : first + _BLOCK] for values in columns.values()]


def _is_float(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "f"


def _numbers(values: Any) -> list[str]:
    """Write floats with the fewest digits that give back the same float of that width, and NaN as nothing."""
    shortest: list[str] = values.astype("U32").tolist()
    return [text.removesuffix(".0") if text != "nan" else "" for text in shortest]


def _quote(values: Any, delimiter: str) -> list[str]:
    """Write cells of a text file, in quotes where they contain a quote, a delimiter or the end of a line."""
    special = re.compile(f'["\r\n{delimiter}]')
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    texts = [value if isinstance(value, str) else "" if value is None else str(value) for value in plain]
    return ['"' + text.replace('"', '""') + '"' if special.search(text) else text for text in texts]
