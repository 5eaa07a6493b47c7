"""What stands in a cell, as SQL: nothing, a number, a day, a yes or no.

Columns are read in long form, a row per cell: one set of expressions serves a table of two columns and of two thousand,
where a set per column would take DuckDB minutes to plan.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gpm.data.tables.detect_header import UNKNOWN
from gpm.data.tables.open_table import reading
from gpm.data.tables.session import literal, quote, text
from gpm.errors import GpmError

if TYPE_CHECKING:
    import pandas as pd

    from gpm.data.tables.open_table import Table

_Item = TypeVar("_Item")
FLOATS = ("FLOAT", "DOUBLE")
LARGEST = 1e37  # numbers beyond it leave what features hold, 32 bits
YES, NO = ("true", "yes", "t", "y"), ("false", "no", "f", "n")  # pairs, in this order
WORDS = {"number": "a number (in 32 bits)", "date": "a date such as 2024-12-31", "flag": "yes or no"}
_BLANKS = "' ' || chr(9) || chr(10) || chr(13) || chr(160) || chr(12288)"
_VECTORS = 32
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


def is_pair(x: str, place: int) -> str:
    """Whether a cell is one of a pair of words for yes and no: F and N together are no flag, but two categories."""
    return f"lower({x}) IN ({_listed((YES[place], NO[place]))})"


def number(table: Table, x: str) -> str:
    """A number, or NULL; between semicolons its comma is a decimal one."""
    plain = f"TRY_CAST({x} AS DOUBLE)"
    if table.options.get("delimiter") == ";":
        plain = f"CASE WHEN contains({x}, '.') THEN {plain} ELSE TRY_CAST(replace({x}, ',', '.') AS DOUBLE) END"
    return f"CASE WHEN NOT contains({x}, '_') THEN nullif({plain}, 'nan'::DOUBLE) END"


def value(table: Table, x: str, kind: str) -> str:
    """The number that a cell of some kind stands for, by the kind in another column; NULL if it is none."""
    as_flag = _flag(x, (*YES, "1", "1.0"), (*NO, "0", "0.0"))
    return f"CASE {kind} WHEN 'date' THEN {DAY.format(x)} WHEN 'flag' THEN {as_flag} ELSE {number(table, x)} END"


def cell(table: Table, name: str) -> str:
    """A cell as text without blanks around it."""
    return _strip(_raw(table, name))


def known(x: str) -> str:
    """A cell that says something, else NULL."""
    return f"CASE WHEN lower({x}) NOT IN ({_MISSING}) THEN {x} END"


def cells(
    table: Table, names: Sequence[str], kinds: Sequence[str] = (), *, beside: str = "", rows: bool = False
) -> str:
    """SQL of the cells of some columns, a row per cell.

    Its columns are `c`, the place among the names; `kind`, if there are kinds; `t`, the cell; `x`, the same or NULL if
    it is missing; `gpm_row`, if asked for; and `y`, the cell of the column beside, if there is one.
    """
    listed = ", ".join(_raw(table, name) for name in names)
    parts = [f"unnest(range({len(names)})) AS c", f"unnest([{listed}]::VARCHAR[]) AS t"]
    parts += [f"unnest([{_listed(kinds)}]::VARCHAR[]) AS kind"] if kinds else []
    parts += [f"{known(cell(table, beside))} AS y"] if beside else []
    parts += ["gpm_row"] if rows else []
    read = f"SELECT {', '.join(parts)} FROM {table.numbered() if rows else table.view} AS gpm_source"
    return f"SELECT *, {known('t')} AS x FROM (SELECT * REPLACE ({_strip('t')} AS t) FROM ({read}))"


def part_floats(table: Table, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """The columns whose cells are floats in their file, and the others."""
    listed = list(names)
    floats = [name for name in listed if table.types.get(name) in FLOATS]
    return floats, [name for name in listed if name not in set(floats)]


def floats(table: Table, names: Sequence[str]) -> str:
    """SQL of the cells of columns of floats, a row per cell: the place `c` among the names, and the number `n` or NULL.

    Numbers that are such in their file need not become text and numbers again, which takes most of the time.
    """
    listed = ", ".join(f"CAST({quote(name)} AS DOUBLE)" for name in names)
    read = f"SELECT unnest(range({len(names)})) AS c, unnest([{listed}]::DOUBLE[]) AS n FROM {table.view}"
    return f"SELECT * REPLACE (nullif(n, 'nan'::DOUBLE) AS n) FROM ({read})"


def _raw(table: Table, name: str) -> str:
    """A cell as text; a whole number is written as one, also where a column holds floats."""
    column = quote(name)
    if table.types.get(name, "VARCHAR") not in FLOATS:
        return text(name)
    whole = f"{column} = trunc({column}) AND abs({column}) < 1e15"
    return f"CASE WHEN {whole} THEN CAST(TRY_CAST({column} AS BIGINT) AS VARCHAR) ELSE {text(name)} END"


def _strip(x: str) -> str:
    """Text without blanks around it; most has none, which is quick to see."""
    seen = f"{x}[1] BETWEEN '!' AND '~' AND {x}[-1] BETWEEN '!' AND '~'"
    return f"CASE WHEN {seen} THEN {x} ELSE trim(trim({x}), {_BLANKS}) END"


def passes(columns: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Columns, as many at a time as are read in one pass over a table."""
    for first in range(0, len(columns), _WIDEST):
        yield columns[first : first + _WIDEST]


def chunks(table: Table, sql: str, vectors: int = _VECTORS) -> Iterator[pd.DataFrame]:
    """The rows of a query, some vectors of 2,048 at a time."""
    with reading(table):
        table.base.execute(sql)
        while len(frame := table.base.fetch_df_chunk(vectors)):
            yield frame


def fetch(table: Table, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query that gives few."""
    with reading(table):
        return list(table.base.execute(sql).fetchall())


@contextmanager
def coded(table: Table, names: Sequence[str], values: Sequence[Sequence[str]]) -> Iterator[str]:
    """SQL of the cells of some columns that say something, with the place `k` of each among its column's values.

    Its columns are `gpm_row`, `c`, `t` and `k`, which is -1 for a cell that is none of the values. A value that reads
    as missing, such as none, is one all the same.
    """
    import pandas as pd

    rows = [(c, v, k) for c, listed in enumerate(values) for k, v in enumerate(listed)]
    name = f"gpm_codes_{secrets.token_hex(8)}"
    frame = pd.DataFrame(
        {
            "c": np.array([c for c, _, _ in rows], dtype=np.int64),
            "v": pd.Series([v for _, v, _ in rows], dtype=object),
            "k": np.array([k for _, _, k in rows], dtype=np.int64),
        }
    )
    table.base.register(name, frame)
    read = f"SELECT l.gpm_row, l.c, l.t, coalesce(r.k, -1) AS k, l.x FROM ({cells(table, names, rows=True)}) AS l"
    try:
        yield f"SELECT * FROM ({read} LEFT JOIN {name} AS r ON l.c = r.c AND l.t = r.v) WHERE x IS NOT NULL OR k >= 0"
    finally:
        table.base.unregister(name)


def refuse(table: Table, name: str, kind: str) -> GpmError:
    """The error that names the first cell of a column that is not of a kind."""
    wrong = f"x IS NOT NULL AND (v IS NULL OR abs(v) > {LARGEST})"
    read = f"SELECT gpm_row, x, {value(table, 'x', 'kind')} AS v FROM ({cells(table, [name], [kind], rows=True)})"
    row, found = fetch(table, f"SELECT min(gpm_row), arg_min(x, gpm_row) FROM ({read}) WHERE {wrong}")[0]
    fix = "mend the cell, empty it if it is unknown, or say another kind of the column in the YAML"
    return GpmError(f"{table.where(row)}: {found[:60]!r} in column {name!r} is not {WORDS[kind]}; {fix}.")
