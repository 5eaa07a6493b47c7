"""SQL that reads cells: whether a cell is missing, a number, a date, or yes or no.

Columns are read in long form, one row per cell: a single set of expressions serves a table of two columns and one of
two thousand. One set of expressions per column would take DuckDB minutes to plan.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gpm.data.tables.detect_header import UNKNOWN
from gpm.data.tables.session import literal, quote, text
from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

_Item = TypeVar("_Item")
FLOATS = ("FLOAT", "DOUBLE")
LARGEST = 1e37  # features are 32-bit floats, which hold no larger numbers
YES, NO = ("true", "yes", "t", "y"), ("false", "no", "f", "n")  # pairs, in this order
WORD_COUNT = "length(x) - length(replace(x, ' ', '')) + 1"
WORDS = {"number": "a number (in 32 bits)", "date": "a date such as 2024-12-31", "flag": "yes or no"}
_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(12288)"
_WIDEST = 2_000  # columns that are read in one pass: DuckDB holds thousands of rows of them


def _listed(words: Sequence[str]) -> str:
    return ", ".join(literal(word) for word in words)


_MISSING = _listed(sorted(UNKNOWN))
_DAYS = "^[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}([T ][0-9:.]+ ?(Z|UTC|[+-][0-9:]+)?)?$"
DAYLIKE = "({0} LIKE '____-%' OR {0} LIKE '____/%' OR {0} LIKE '%._.____' OR {0} LIKE '%.__.____')"
DAY = f"""
CASE WHEN regexp_matches({{0}}, '^[0-9]{{{{4}}}}/[0-9]{{{{1,2}}}}/[0-9]{{{{1,2}}}}$')
THEN epoch(TRY_STRPTIME({{0}}, '%Y/%m/%d')) / 86400
WHEN regexp_matches({{0}}, '^[0-9]{{{{1,2}}}}[.][0-9]{{{{1,2}}}}[.][0-9]{{{{4}}}}$')
THEN epoch(TRY_STRPTIME({{0}}, '%d.%m.%Y')) / 86400
WHEN NOT regexp_matches({{0}}, '{_DAYS}') THEN NULL
WHEN regexp_matches({{0}}, ':[0-9.]+ ?[+-][0-9:]+$') THEN epoch(TRY_CAST({{0}} AS TIMESTAMPTZ)) / 86400
ELSE epoch(TRY_CAST({{0}} AS TIMESTAMP)) / 86400 END"""


def _flag(x: str, yes: Sequence[str], no: Sequence[str]) -> str:
    return f"CASE WHEN lower({x}) IN ({_listed(yes)}) THEN 1.0 WHEN lower({x}) IN ({_listed(no)}) THEN 0.0 END"


FLAG = _flag("{0}", YES, NO)


def number(table: Table, x: str) -> str:
    """Convert a cell to a number or NULL; in a file separated by semicolons a comma is a decimal comma."""
    plain = f"TRY_CAST({x} AS DOUBLE)"
    if table.options.get("delimiter") == ";":
        plain = f"CASE WHEN contains({x}, '.') THEN {plain} ELSE TRY_CAST(replace({x}, ',', '.') AS DOUBLE) END"
    return f"CASE WHEN NOT contains({x}, '_') THEN nullif({plain}, 'nan'::DOUBLE) END"


def value(table: Table, x: str, kind: str) -> str:
    """Convert a cell to a number by its kind, which is another column; NULL if it is not of that kind."""
    as_flag = _flag(x, (*YES, "1", "1.0"), (*NO, "0", "0.0"))
    return f"CASE {kind} WHEN 'date' THEN {DAY.format(x)} WHEN 'flag' THEN {as_flag} ELSE {number(table, x)} END"


def raw(table: Table, name: str) -> str:
    """Convert a cell to text; a whole number has no decimal point, even in a column of floats."""
    column = quote(name)
    if table.types.get(name, "VARCHAR") not in FLOATS:
        return text(name)
    whole = f"{column} = trunc({column}) AND abs({column}) < 1e15"
    return f"CASE WHEN {whole} THEN CAST(TRY_CAST({column} AS BIGINT) AS VARCHAR) ELSE {text(name)} END"


def cell(table: Table, name: str) -> str:
    """Convert a cell to text without blanks around it."""
    return _strip(raw(table, name))


def filled(x: str) -> str:
    """Replace a missing cell by NULL."""
    return f"CASE WHEN lower({x}) NOT IN ({_MISSING}) THEN {x} END"


def cells(
    table: Table, names: Sequence[str], kinds: Sequence[str] = (), *, beside: str = "", rows: bool = False
) -> str:
    """Select the cells of some columns, one row per cell.

    The columns of the result are `c`, the index among `names`; `kind`, if `kinds` are given; `t`, the cell; `x`, the
    same or NULL if it is missing; `gpm_row`, if `rows`; and `y`, the cell of the column `beside`, if there is one.
    """
    listed = ", ".join(raw(table, name) for name in names)
    parts = [f"unnest(range({len(names)})) AS c", f"unnest([{listed}]::VARCHAR[]) AS t"]
    parts += [f"unnest([{_listed(kinds)}]::VARCHAR[]) AS kind"] if kinds else []
    parts += [f"{filled(cell(table, beside))} AS y"] if beside else []
    parts += ["gpm_row"] if rows else []
    read = f"SELECT {', '.join(parts)} FROM {table.numbered() if rows else table.view} AS gpm_source"
    return f"SELECT *, {filled('t')} AS x FROM (SELECT * REPLACE ({_strip('t')} AS t) FROM ({read}))"


def floats(table: Table, names: Sequence[str]) -> str:
    """Select the cells of columns of floats, one row per cell: the index `c` among the names, and a number `n` or NULL.

    Such cells need not become text and numbers again, which takes most of the time.
    """
    listed = ", ".join(f"CAST({quote(name)} AS DOUBLE)" for name in names)
    read = f"SELECT unnest(range({len(names)})) AS c, unnest([{listed}]::DOUBLE[]) AS n FROM {table.view}"
    return f"SELECT * REPLACE (nullif(n, 'nan'::DOUBLE) AS n) FROM ({read})"


def split_floats(table: Table, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Separate the columns that are floats in their file from the others."""
    listed = list(names)
    floats = [name for name in listed if table.types.get(name) in FLOATS]
    return floats, [name for name in listed if name not in set(floats)]


def most_frequent(read: str, column: str, limit: int) -> str:
    """Select the most frequent values of each column: `c`, the value, its count, its rank, and the count of all."""
    counts = f"SELECT c, {column} AS v, count(*) AS n FROM ({read}) GROUP BY ALL"
    rank = "row_number() OVER (PARTITION BY c ORDER BY n DESC, v)"
    ranked = f"SELECT c, v, n, {rank} AS nth, sum(n) OVER (PARTITION BY c) AS total FROM ({counts})"
    return f"SELECT * FROM ({ranked}) WHERE nth <= {limit} ORDER BY c, nth"


def _strip(x: str) -> str:
    """Strip blanks around a text; most texts have none, which is quick to see."""
    bare = f"{x}[1] BETWEEN '!' AND '~' AND {x}[-1] BETWEEN '!' AND '~'"
    return f"CASE WHEN {bare} THEN {x} ELSE trim(trim({x}), {_BLANKS}) END"


def passes(columns: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield the columns in groups that are read in one pass over a table."""
    for first in range(0, len(columns), _WIDEST):
        yield columns[first : first + _WIDEST]


def distinct(table: Table, name: str, limit: int) -> set[str]:
    """Return some of the distinct filled cells of a column."""
    query = f"SELECT DISTINCT {filled(cell(table, name))} FROM {table.view} LIMIT {limit}"
    return {row[0] for row in table.fetch(query)} - {None}


def read_values(
    table: Table, names: Sequence[str], kinds: Sequence[str], *, zeros: bool = True
) -> Iterator[tuple[NDArray, NDArray, NDArray]]:
    """Yield the row, the index among `names` and the number of every cell, or of nonzero ones.

    The number is NaN where the cell is missing, and infinite where the cell is not of its kind.
    """
    marked = f"CASE WHEN x IS NOT NULL THEN coalesce({value(table, 'x', 'kind')}, 'inf'::DOUBLE) END"
    read = f"SELECT gpm_row, c, {marked} AS v FROM ({cells(table, names, kinds, rows=True)})"
    some = "" if zeros else " WHERE v IS NULL OR v <> 0"
    for frame in table.chunks(f"SELECT gpm_row, c, v FROM ({read}){some}"):
        yield frame["gpm_row"].to_numpy(), frame["c"].to_numpy(), frame["v"].to_numpy(dtype=np.float64)


@contextmanager
def coded(table: Table, names: Sequence[str], values: Sequence[Sequence[str]]) -> Iterator[str]:
    """Select the filled cells of some columns, with the index `k` of each among the values of its column.

    The columns of the result are `gpm_row`, `c`, `t` and `k`, which is -1 for a cell that is none of the values. A
    value that reads as missing, such as none, counts as filled.
    """
    import pandas as pd

    rows = [(c, v, k) for c, listed in enumerate(values) for k, v in enumerate(listed)]
    name = f"gpm_codes_{secrets.token_hex(8)}"
    frame = pd.DataFrame(rows, columns=["c", "v", "k"], dtype=object)
    table.base.register(name, frame.astype({"c": np.int64, "k": np.int64}))
    read = f"SELECT l.gpm_row, l.c, l.t, coalesce(r.k, -1) AS k, l.x FROM ({cells(table, names, rows=True)}) AS l"
    try:
        yield f"SELECT * FROM ({read} LEFT JOIN {name} AS r ON l.c = r.c AND l.t = r.v) WHERE x IS NOT NULL OR k >= 0"
    finally:
        table.base.unregister(name)


def first_cell(table: Table, read: str, test: str) -> tuple[str, Any]:
    """Return the location and the cell `t` of the first row of a query that meets a test."""
    row, t = table.fetch(f"SELECT min(gpm_row), arg_min(t, gpm_row) FROM ({read}) WHERE {test}")[0]
    return table.where(row), t


def wrong(table: Table) -> str:
    """Test whether a cell `x` is filled and not of its `kind`."""
    return f"x IS NOT NULL AND coalesce(abs({value(table, 'x', 'kind')}) > {LARGEST}, TRUE)"


def refuse(table: Table, name: str, kind: str) -> GpmError:
    """Make the error that names the first cell of a column that is not of a kind."""
    where, wrong_cell = first_cell(table, cells(table, [name], [kind], rows=True), wrong(table))
    fix = "fix the cell, empty it if it is unknown, or set another kind for the column in the YAML"
    return GpmError(f"{where}: {wrong_cell[:60]!r} in column {name!r} is not {WORDS[kind]}; {fix}.")
