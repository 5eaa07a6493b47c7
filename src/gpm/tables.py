"""Tables out: CSV, TSV or Parquet, complete or not at all."""

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
