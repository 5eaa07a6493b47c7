"""Open a file or a data frame as a table: a DuckDB relation whose cells are as the user wrote them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np

from gpm.data.tables.read_jsonl import JSON_FILES, check_records, record_line, select_records
from gpm.data.tables.read_text import (
    MOST_COLUMNS,
    TEXT_FILES,
    Form,
    check_file,
    check_names,
    find_line,
    is_text,
    read_form,
    read_rows,
)  # fmt: skip
from gpm.data.tables.session import fetch_frames, file_literal, literal, quote
from gpm.errors import GpmError

if TYPE_CHECKING:
    import pandas as pd

TABLE_FILES = (*TEXT_FILES, ".parquet", *JSON_FILES)
_LONGEST = 2**21  # bytes of the longest line that DuckDB splits
_BLOCK = 100_000  # cells inserted into DuckDB at once
_BUGS = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
_counter = itertools.count(1)


@dataclass(frozen=True)
class Table:
    """A relation in a DuckDB connection."""

    base: duckdb.DuckDBPyConnection
    view: str  # the relation; its columns are exactly `columns`
    columns: tuple[str, ...]  # names as the user spells them; "column 1", "column 2", ... without a header
    types: dict[str, str]  # DuckDB type of each column; VARCHAR for all columns of a text file
    title: str  # name of the table in messages: the file name
    path: Path | None = None  # the file; None for a data frame
    options: dict[str, Any] = field(default_factory=dict)  # of a text file: delimiter, header and trim
    locate: Callable[[int], str] | None = field(default=None, compare=False)  # a row's location, if of several files

    def numbered(self) -> str:
        """Return a relation with `columns` and a BIGINT column gpm_row: 0, 1, 2, ... in file order."""
        return f"{self.view}_numbered"

    def where(self, row: int) -> str:
        """Return the location of a row: "edges.csv, line 18", or "edges.parquet, row 17" counted from 1."""
        if self.locate is not None:
            return self.locate(row)
        if self.path is not None and self.options:
            return f"{self.title}, line {find_line(self.path, read_form(self.path, self.options), row)}"
        if self.path is not None and self.path.suffix.lower() in JSON_FILES:
            return f"{self.title}, line {record_line(self.path, row)}"
        return f"{self.title}, row {row + 1}"

    def count(self) -> int:
        """Return the number of rows."""
        return int(self.fetch(f"SELECT count(*) FROM {self.view}")[0][0])

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query with a small result."""
        with reading(self):
            return list(self.base.execute(query).fetchall())

    def chunks(self, query: str, vectors: int = 32) -> Iterator[pd.DataFrame]:
        """Yield the rows of a query, at most `vectors` times 2,048 at a time."""
        with reading(self):
            yield from fetch_frames(self.base, query, vectors)


def open_table(
    base: duckdb.DuckDBPyConnection,
    source: Path | pd.DataFrame,
    *,
    options: Mapping[str, Any] | None = None,
    names: Collection[str] = (),
    title: str = "",
) -> Table:
    """Open a text, Parquet or JSON Lines file, or a data frame as a table; its cells are read later.

    Options (delimiter, header, trim) of a text file that are not given are detected; a first row with one of the
    expected `names` is a header. The title names the table in messages, by default with the name of the file.
    """
    if not isinstance(source, (str, Path)):
        return _open_frame(base, source, title or "the data frame")
    path = Path(source)
    check_file(path)
    suffix, title = path.suffix.lower(), title or path.name
    if not is_text(path) and suffix not in TABLE_FILES:
        raise GpmError(f"{path} is not a supported table file; use one of {', '.join(TABLE_FILES)}.")
    with reading(path):
        if is_text(path):
            return _open_text(base, path, title, read_form(path, options or {}, names))
        if suffix == ".parquet":
            return _open_parquet(base, path, title)
        return _create_views(base, _new_view(), select_records(base, path), title, path)


@contextmanager
def reading(source: Table | Path | str) -> Iterator[None]:
    """Turn DuckDB's errors while it reads a table into one sentence with the file, the line and the fix."""
    path = source if isinstance(source, Path) else source.path if isinstance(source, Table) else None
    title = source if isinstance(source, str) else source.name if isinstance(source, Path) else source.title
    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except _BUGS:
        raise
    except duckdb.Error as error:
        if "No space left" in str(error) or "max_temp_directory_size" in str(error):
            raise GpmError(f"{title}: the disk for temporary files is full; free some space.") from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise GpmError(
                f"{title} needs more memory than the limit allows; raise the limit, such as to 4GB."
            ) from None
        if path is not None:
            _find_mistake(path, source.options if isinstance(source, Table) else {})
        if line := re.search(r"CSV Error on Line: (\d+)", str(error)):
            raise GpmError(f"{title}, line {line[1]} differs from the other rows; fix or remove the line.") from None
        reason = str(error).split("\n")[0].removeprefix("Invalid Input Error: ").rstrip(".")
        raise GpmError(f"{title} cannot be read ({reason}); write the file again.") from None
    except MemoryError:
        raise GpmError(f"{title} needs more memory than is available.") from None


def _find_mistake(path: Path, options: Mapping[str, Any]) -> None:
    """Read a file again, row by row, and raise the error of the first invalid row."""
    check_file(path)
    if is_text(path):
        for _ in read_rows(path, read_form(path, options)):
            pass
    elif path.suffix.lower() in JSON_FILES:
        check_records(path)


def _new_view() -> str:
    return f"gpm_table_{next(_counter)}"


def _create_views(
    base: duckdb.DuckDBPyConnection, view: str, select: str, title: str, path: Path | None = None, number: str = ""
) -> Table:
    """Create the views of a table: `select` its columns, and `number` its rows (by default by counting them)."""
    base.execute(f"CREATE TEMP VIEW {view} AS {select}")
    count = f"SELECT *, row_number() OVER () - 1 AS gpm_row FROM {view}"
    base.execute(f"CREATE TEMP VIEW {view}_numbered AS {number or count}")
    types = {name: kind for name, kind, *_ in base.execute(f"DESCRIBE {view}").fetchall()}
    return Table(base, view, tuple(types), types, title, path)


def _open_frame(base: duckdb.DuckDBPyConnection, frame: pd.DataFrame, title: str) -> Table:
    view, plain = _new_view(), _plain_frame(frame, title)
    if not len(plain.columns):
        raise GpmError(f"{title} has no columns; give one with some.")
    with reading(title):
        base.register(f"{view}_frame", plain)
        return _create_views(base, view, f"SELECT * FROM {view}_frame", title)


def _open_text(base: duckdb.DuckDBPyConnection, path: Path, title: str, form: Form) -> Table:
    view = _new_view()
    select, number = f"SELECT * FROM {view}_cells", f"SELECT *, rowid AS gpm_row FROM {view}_cells"
    if form.plain:
        select, number = _select_plain(path, form), ""
    else:
        base.execute(f"CREATE TEMP TABLE {view}_cells ({', '.join(f'{quote(name)} VARCHAR' for name in form.columns)})")
        _insert_rows(base, f"{view}_cells", path, form)
    table = _create_views(base, view, select, title, path, number)
    return replace(table, columns=form.columns, options=form.options)


def _select_plain(path: Path, form: Form) -> str:
    """Return SQL that reads a file without quoted cells, with every option of DuckDB's reader set."""
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


def _insert_rows(base: duckdb.DuckDBPyConnection, table: str, path: Path, form: Form) -> None:
    """Read a file's rows in Python, which handles its quotes and line ends, and insert them into DuckDB."""
    import pandas as pd

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
    described = base.execute(f"DESCRIBE SELECT * FROM {scan})").fetchall()
    if len(described) > MOST_COLUMNS:
        raise GpmError(f"{title} has {len(described):,} columns; at most {MOST_COLUMNS:,} are supported.")
    spelled = {name for (name,) in base.execute(f"SELECT name FROM parquet_schema({file_literal(path)})").fetchall()}
    for name, *_ in described:
        if name not in spelled or name.lower() == "gpm_row":
            raise GpmError(f"{title}: column name {name!r} occurs twice or is reserved; rename the column.")
    columns = ", ".join(_plain_column(name, kind) for name, kind, *_ in described)
    number = f"SELECT {columns}, file_row_number AS gpm_row FROM {scan}, file_row_number = true)"
    taken = any(name.lower() == "file_row_number" for name, *_ in described)
    return _create_views(base, _new_view(), f"SELECT {columns} FROM {scan})", title, path, "" if taken else number)


def _plain_column(name: str, kind: str) -> str:
    """Return SQL for a column with NaN as NULL and times in UTC."""
    column = quote(name)
    if kind in ("FLOAT", "DOUBLE"):
        return f"CASE WHEN isnan({column}) THEN NULL ELSE {column} END AS {column}"
    return f"CAST({column} AS TIMESTAMP) AS {column}" if kind == "TIMESTAMP WITH TIME ZONE" else column


def _plain_frame(frame: pd.DataFrame, title: str) -> pd.DataFrame:
    """Return a frame of numbers, booleans, times and text, without the index.

    Columns of objects that are all integers, all numbers or all booleans are converted to that type; the values of all
    other columns are converted to text. None, NaN, NaT and NA are missing.
    """
    import pandas as pd

    if frame.columns.nlevels > 1:
        raise GpmError(f"{title} has columns of {frame.columns.nlevels} levels; give each column one name.")
    if frame.shape[1] > MOST_COLUMNS:
        raise GpmError(f"{title} has {frame.shape[1]:,} columns; at most {MOST_COLUMNS:,} are supported.")
    names = [str(name) for name in frame.columns]
    check_names(title, names)
    columns = [_plain_series(frame.iloc[:, i], f"{title}, column {name!r}") for i, name in enumerate(names)]
    return pd.DataFrame(dict(zip(names, columns, strict=True)), index=pd.RangeIndex(len(frame)))


def _plain_series(column: pd.Series, where: str) -> Any:
    import pandas as pd

    kind = column.dtype
    if isinstance(kind, pd.SparseDtype):
        return column.sparse.to_dense().to_numpy()
    if isinstance(kind, pd.DatetimeTZDtype):
        return column.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()
    if isinstance(kind, np.dtype) and kind.kind in "biufM":
        return column.to_numpy()
    if kind.kind in "biuf" and not isinstance(kind, np.dtype):
        return column.array  # pandas' own numbers with missing values
    values, missing = column.astype(object).to_numpy(), column.astype(object).isna().to_numpy()
    cells = list(zip(values, missing, strict=True))
    inferred = pd.api.types.infer_dtype(values[~missing], skipna=True)
    if inferred == "integer" and all(-(2**63) <= value < 2**63 for value in values[~missing]):
        return pd.array([pd.NA if gone else int(value) for value, gone in cells], dtype="Int64")
    if inferred == "boolean":
        return pd.array([pd.NA if gone else bool(value) for value, gone in cells], dtype="boolean")
    if inferred == "floating":
        return np.array([np.nan if gone else value for value, gone in cells], dtype=np.float64)
    if inferred != "string":
        values = [None if gone else _text(value, where) for value, gone in cells]
    return pd.array(values, dtype=pd.StringDtype("python"))


def _text(value: Any, where: str) -> str:
    """Convert a value to text, which must be UTF-8."""
    try:
        if isinstance(value, bytes):
            return value.decode()
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, (list, tuple, dict)) else str(value)
        text.encode()
    except UnicodeError:
        raise GpmError(f"{where}: {value!r} is not UTF-8 text; fix or remove it.") from None
    except (TypeError, ValueError, RecursionError):
        return str(value)
    return text
