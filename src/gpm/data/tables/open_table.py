"""Any file or frame as a table: a relation in a DuckDB connection, its cells as the user wrote them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from gpm.data.tables.read_frame import plain_frame
from gpm.data.tables.read_jsonl import JSON_FILES, check_records, record_line, select_records
from gpm.data.tables.read_network import network_tables
from gpm.data.tables.read_text import MOST_COLUMNS, TEXT_FILES, Form, find_line, is_text, read_form, read_rows
from gpm.data.tables.scan_text import check_file
from gpm.data.tables.session import connect, file_literal, literal, quote, text
from gpm.errors import GpmError

__all__ = ["TABLE_FILES", "Table", "connect", "network_tables", "open_table", "quote", "reading", "text"]

TABLE_FILES = (*TEXT_FILES, ".parquet", *JSON_FILES)
_LONGEST = 2**21  # bytes that a line may have where DuckDB cuts it
_BLOCK = 100_000  # cells that are handed to DuckDB at once
_BUGS = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Table:
    """A relation in a DuckDB connection.

    Attributes:
        base: The connection.
        view: What to select from; its columns are exactly `columns`.
        columns: Names of the columns as the user spells them; "column 1", "column 2", ... where they have none.
        types: DuckDB's types of them: VARCHAR for all columns of a text file.
        title: What sentences call it: the file's name.
        path: The file, if it is one.
        options: Of a text file: delimiter, header and trim.
    """

    base: duckdb.DuckDBPyConnection
    view: str
    columns: tuple[str, ...]
    types: dict[str, str]
    title: str
    path: Path | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def numbered(self) -> str:
        """A relation with `columns` and a BIGINT column gpm_row: 0, 1, 2, ... in the order of the file."""
        return f"{self.view}_numbered"

    def where(self, row: int) -> str:
        """Where a row is: "edges.csv, line 18", or "edges.parquet, row 17" counted from 1."""
        if self.path is not None and self.options:
            return f"{self.title}, line {find_line(self.path, read_form(self.path, self.options), row)}"
        if self.path is not None and self.path.suffix.lower() in JSON_FILES:
            return f"{self.title}, line {record_line(self.path, row)}"
        return f"{self.title}, row {row + 1}"

    def count(self) -> int:
        """The number of rows."""
        with reading(self):
            return int(self.base.execute(f"SELECT count(*) FROM {self.view}").fetchall()[0][0])


def open_table(
    base: duckdb.DuckDBPyConnection,
    source: Path | pd.DataFrame,
    *,
    options: Mapping[str, Any] | None = None,
    names: Collection[str] = (),
    title: str = "",
) -> Table:
    """Open a file or a frame as a table; its cells are read later.

    Args:
        base: What `connect` gave.
        source: A text, Parquet or JSON lines file, or a frame of pandas.
        options: Of a text file: delimiter, header or trim, where they are known. All else is found out.
        names: Names that columns have if there is a header: a first row with one of them is one.
        title: What sentences call it; by default the file's name.
    """
    if isinstance(source, pd.DataFrame):
        return _open_frame(base, source, title or "the frame")
    path = Path(source)
    check_file(path)
    suffix, title = path.suffix.lower(), title or path.name
    if not is_text(path) and suffix not in TABLE_FILES:
        raise GpmError(f"{path} is no kind of table that is read here; give one of {', '.join(TABLE_FILES)}.")
    with reading(path):
        if is_text(path):
            return _open_text(base, path, title, read_form(path, options or {}, names))
        if suffix == ".parquet":
            return _open_parquet(base, path, title)
        return _finish(base, _name(), select_records(base, path), title, path)


@contextmanager
def reading(source: Table | Path | str) -> Iterator[None]:
    """Turn what DuckDB says while it reads a table into one sentence with the file, the line and the fix."""
    path = source if isinstance(source, Path) else source.path if isinstance(source, Table) else None
    title = source if isinstance(source, str) else source.name if isinstance(source, Path) else source.title
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        if isinstance(error, _BUGS):
            raise
        if "No space left" in str(error) or "max_temp_directory_size" in str(error):
            raise GpmError(f"{title}: the disk for temporary files is full; free some space.") from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise GpmError(f"{title} needs more memory than is allowed; allow more, such as 4GB.") from None
        if path is not None:
            _find_mistake(path, source.options if isinstance(source, Table) else {})
        if line := re.search(r"CSV Error on Line: (\d+)", str(error)):
            raise GpmError(f"{title}, line {line[1]} is no row like the others; mend or remove the line.") from None
        said = str(error).split("\n")[0].removeprefix("Invalid Input Error: ").rstrip(".")
        raise GpmError(f"{title} cannot be read ({said}); write it again.") from None
    except MemoryError:
        raise GpmError(f"{title} needs more memory than there is.") from None


def _find_mistake(path: Path, options: Mapping[str, Any]) -> None:
    """Read a file again, row by row, and raise what is wrong with the first that is wrong."""
    check_file(path)
    if is_text(path):
        for _ in read_rows(path, read_form(path, options)):
            pass
    elif path.suffix.lower() in JSON_FILES:
        check_records(path)


def _name() -> str:
    return f"gpm_table_{next(_numbers)}"


def _finish(
    base: duckdb.DuckDBPyConnection, view: str, select: str, title: str, path: Path | None = None, number: str = ""
) -> Table:
    """Make the views of a table: as it is, and with its rows numbered.

    Args:
        select: SQL that selects the columns.
        number: SQL that selects them and their number as gpm_row, where there is a better way than counting.
    """
    base.execute(f"CREATE TEMP VIEW {view} AS {select}")
    count = f"SELECT *, row_number() OVER () - 1 AS gpm_row FROM {view}"
    base.execute(f"CREATE TEMP VIEW {view}_numbered AS {number or count}")
    types = {name: kind for name, kind, *_ in base.execute(f"DESCRIBE {view}").fetchall()}
    return Table(base, view, tuple(types), types, title, path)


def _open_frame(base: duckdb.DuckDBPyConnection, frame: pd.DataFrame, title: str) -> Table:
    view, plain = _name(), plain_frame(frame, title)
    if not len(plain.columns):
        raise GpmError(f"{title} has no columns; give one with some.")
    with reading(title):
        base.register(f"{view}_frame", plain)
        return _finish(base, view, f"SELECT * FROM {view}_frame", title)


def _open_text(base: duckdb.DuckDBPyConnection, path: Path, title: str, form: Form) -> Table:
    view, columns = _name(), [quote(name) for name in form.columns]
    if form.plain:
        select = _select_plain(path, form)
        table = _finish(base, view, select, title, path)
    else:
        base.execute(f"CREATE TEMP TABLE {view}_cells ({', '.join(f'{column} VARCHAR' for column in columns)})")
        _fill(base, f"{view}_cells", path, form)
        number = f"SELECT *, rowid AS gpm_row FROM {view}_cells"
        table = _finish(base, view, f"SELECT * FROM {view}_cells", title, path, number)
    return Table(base, view, form.columns, table.types, title, path, form.options)


def _select_plain(path: Path, form: Form) -> str:
    """SQL that has DuckDB read a file whose rows are lines cut at delimiters, without finding out anything itself."""
    cells = [f"c{i}" for i in range(len(form.columns))]
    kinds = "{" + ", ".join(f"{cell}: 'VARCHAR'" for cell in cells) + "}"
    packed = "gzip" if path.suffix.lower() == ".gz" else "none"
    scan = (
        f"read_csv({file_literal(path)}, columns = {kinds}, delim = {literal(form.cut.delimiter)}, "
        f"skip = {form.below}, header = false, auto_detect = false, quote = '', escape = '', nullstr = '', "
        f"null_padding = false, strict_mode = true, compression = '{packed}', encoding = 'utf-8', "
        f"max_line_size = {_LONGEST}, hive_partitioning = false)"
    )
    if form.cut.trim:
        cells = [f"nullif(trim({cell}, ' \t'), '')" for cell in cells]
    columns = ", ".join(f"{cell} AS {quote(name)}" for cell, name in zip(cells, form.columns, strict=True))
    filled = f" WHERE coalesce({', '.join(cells)}) IS NOT NULL" if form.hollow else ""
    return f"SELECT {columns} FROM {scan}{filled}"


def _fill(base: duckdb.DuckDBPyConnection, table: str, path: Path, form: Form) -> None:
    """Read a file's rows here, for their quotes and line ends, and hand them to DuckDB."""
    names = [f"c{i}" for i in range(len(form.columns))]
    cells = ", ".join(f"nullif({name}, '')" for name in names)
    rows = (row for _, row in read_rows(path, form))
    while block := list(itertools.islice(rows, max(1, _BLOCK // len(names)))):
        columns = zip(names, zip(*block, strict=True), strict=True)
        base.register(f"{table}_block", pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in columns}))
        base.execute(f"INSERT INTO {table} SELECT {cells} FROM {table}_block")
        base.unregister(f"{table}_block")


def _open_parquet(base: duckdb.DuckDBPyConnection, path: Path, title: str) -> Table:
    scan = f"read_parquet({file_literal(path)}, hive_partitioning = false, binary_as_string = true"
    found = base.execute(f"DESCRIBE SELECT * FROM {scan})").fetchall()
    if len(found) > MOST_COLUMNS:
        raise GpmError(f"{title} has {len(found):,} columns; at most {MOST_COLUMNS:,} are read.")
    spelled = {name for (name,) in base.execute(f"SELECT name FROM parquet_schema({file_literal(path)})").fetchall()}
    for name, *_ in found:
        if name not in spelled or name.lower() == "gpm_row":
            raise GpmError(f"{title}: the name of column {name!r} is there twice, or reserved; rename the column.")
    columns = ", ".join(_plain_column(name, kind) for name, kind, *_ in found)
    number = f"SELECT {columns}, file_row_number AS gpm_row FROM {scan}, file_row_number = true)"
    taken = any(name.lower() == "file_row_number" for name, *_ in found)
    return _finish(base, _name(), f"SELECT {columns} FROM {scan})", title, path, "" if taken else number)


def _plain_column(name: str, kind: str) -> str:
    """A column without NaN, which is a missing value, and with times in UTC."""
    column = quote(name)
    if kind in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END AS {column}"
    return f"CAST({column} AS TIMESTAMP) AS {column}" if kind == "TIMESTAMP WITH TIME ZONE" else column
