"""Tables in and out: CSV, TSV or Parquet; what is written is there complete or not at all."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from gpm.errors import GpmError
from gpm.files import replacing

SUFFIXES = (".csv", ".tsv", ".parquet")


def check_table(path: Path) -> None:
    """Refuse, before any work, a path that no table can be written to."""
    if path.suffix.lower() not in SUFFIXES:
        raise GpmError(f"{path}: a table is written as {', '.join(SUFFIXES)}; name the file so.")
    if path.is_dir():
        raise GpmError(f"{path} is a folder; name a file.")


def write_table(path: Path, columns: dict[str, Any]) -> None:
    """Write columns of equal length."""
    check_table(path)
    with replacing(path) as scratch:
        if path.suffix.lower() == ".parquet":
            import duckdb
            import pandas as pd

            frame = pd.DataFrame(columns)
            with duckdb.connect() as base:
                base.register("frame", frame)
                base.sql("SELECT * FROM frame").write_parquet(str(scratch))
            return
        with scratch.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",", lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*(_plain(values) for values in columns.values()), strict=True))


def _plain(values: Any) -> Any:
    """Values as they are printed: numbers rounded to six digits, the rest as it is."""
    if hasattr(values, "dtype") and values.dtype.kind == "f":
        return [f"{value:.6g}" for value in values.tolist()]
    return values


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The first two columns of a table; a first row of CSV that names them (source, target) is a header."""
    if not path.is_file():
        raise GpmError(f"there is no file {path}.")
    pairs = []
    for line, row in enumerate(_read_rows(path), 1):
        if not row or (line == 1 and [cell.strip().lower() for cell in row[:2]] == ["source", "target"]):
            continue
        if len(row) < 2 or not row[0].strip() or not row[1].strip():
            raise GpmError(f"{path}, line {line}: a pair needs two names; mend or remove the line.")
        pairs.append((row[0].strip(), row[1].strip()))
    if not pairs:
        raise GpmError(f"{path} holds no pairs; write one 'source,target' per line.")
    return pairs


def _read_rows(path: Path) -> list[list[str]]:
    """All rows as text; the columns of a Parquet file have names of their own, which are no row."""
    if path.suffix.lower() == ".parquet":
        import duckdb

        try:
            with duckdb.connect() as base:
                found = base.read_parquet(str(path)).fetchall()
        except duckdb.Error as error:
            raise GpmError(f"{path} cannot be read as Parquet ({type(error).__name__}); write it again.") from None
        return [["" if cell is None else str(cell) for cell in row] for row in found]
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ","))
    except UnicodeDecodeError as error:
        raise GpmError(f"{path} is not UTF-8 text ({error.reason}); save it as UTF-8.") from None
    except csv.Error as error:
        raise GpmError(f"{path}: a row cannot be read ({error}); check its quotes.") from None
