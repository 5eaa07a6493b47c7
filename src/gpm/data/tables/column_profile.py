"""Count what the columns of a table contain, over all rows, in one pass and with bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpm.data.tables import cell_sql as sql

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

_COUNTED = 100_000  # up to this many distinct values are counted exactly in any table,
_ROWS = 2_000_000  # and any number of them in a table of at most this many rows
_CODE = "regexp_full_match(x, '[+-]?0[0-9]+|[+-]?[0-9]{16,}')"  # digits that a number would not give back
_DAY = f"CASE WHEN n IS NULL AND {sql.DAYLIKE.format('x')} THEN {sql.DAY.format('x')} END"
_FLAG = f"CASE WHEN n IS NULL AND strlen(x) < 6 THEN {sql.FLAG.format('x')} END"
_NAMED = f"CASE WHEN n IS NOT NULL AND (x LIKE '0_%' OR x LIKE '_0_%' OR strlen(x) > 15) THEN {_CODE} END"
_PAIRS = [  # F and N together are two categories, not a flag
    f"count_if(f IS NOT NULL AND lower(x) IN ('{yes}', '{no}'))" for yes, no in zip(sql.YES, sql.NO, strict=True)
]
_FLOAT_COUNTS = {
    "rows": "count(*)",
    "filled": "count(n)",
    "distinct": "approx_count_distinct(n)",
    "numbers": "count(n)",
    "huge": f"count_if(abs(n) > {sql.LARGEST})",
    "whole": "count_if(n = trunc(n))",
    "zeros": "count_if(n = 0)",
    "low": "min(n)",
    "high": "max(n)",
}
_COUNTS = _FLOAT_COUNTS | {
    "filled": "count(x)",
    "distinct": "approx_count_distinct(x)",
    "codes": "count_if(code)",
    "zeros": "count_if(coalesce(n, f) = 0)",
    "flags": f"greatest({', '.join(_PAIRS)})",
    "dates": "count(d)",
    "words": f"avg(CASE WHEN n IS NULL THEN {sql.WORD_COUNT} END)",
    "commas": "count_if(n IS NOT NULL AND contains(x, ','))",
    "points": "count_if(regexp_full_match(x, '[+-]?[0-9]{1,3}([.][0-9]{3})+'))",
    "absent": "[min(lower(t)) FILTER (x IS NULL), max(lower(t)) FILTER (x IS NULL)]",
    "odd": "min(x) FILTER (n IS NULL)",
}
_PARTNERS = "SELECT c, max(n) AS most FROM (SELECT c, count(*) AS n FROM pairs GROUP BY c, {0}) GROUP BY c"
_COMPARED = f"""
WITH pairs AS MATERIALIZED (
SELECT c, x, y, bool_or(x IS DISTINCT FROM y) AS differ FROM ({{0}}) WHERE y IS NOT NULL GROUP BY c, x, y)
SELECT c, differ, pairs > 1 AND filled = pairs AND of_x.most = 1 AND of_y.most = 1
FROM (SELECT c, bool_or(differ) AS differ, count(*) AS pairs, count(x) AS filled FROM pairs GROUP BY c)
JOIN ({_PARTNERS.format("x")}) AS of_x USING (c) JOIN ({_PARTNERS.format("y")}) AS of_y USING (c) ORDER BY c"""


@dataclass(frozen=True)
class Profile:
    """Counts of the cells of a column."""

    rows: int = 0  # of the table
    filled: int = 0  # cells that are not missing
    distinct: int = 0  # distinct values among them; within a few percent unless `exact`
    numbers: int = 0  # cells that are numbers
    huge: int = 0  # numbers that are too large
    codes: int = 0  # numbers with leading zeros or too many digits
    whole: int = 0  # numbers that are integers
    zeros: int = 0  # cells that are 0 or no
    low: float = 0.0  # range of the numbers
    high: float = 0.0
    flags: int = 0  # cells that are yes or no, all in the same pair of words
    dates: int = 0
    words: float = 0.0  # words per cell, on average
    commas: int = 0  # numbers with a decimal comma
    points: int = 0  # cells whose point may separate thousands
    absent: tuple[str, ...] = ()  # words that stand for a missing cell
    odd: str = ""  # a cell that is not a number
    exact: bool = False

    @property
    def missing(self) -> int:
        return self.rows - self.filled

    @property
    def is_number(self) -> bool:
        """Every cell is a number and none is a code."""
        return 0 < self.filled == self.numbers and not self.codes

    @property
    def is_whole(self) -> bool:
        return self.is_number and self.whole == self.filled

    @property
    def is_flag(self) -> bool:
        return 0 < self.filled == self.flags

    @property
    def is_date(self) -> bool:
        return 0 < self.filled == self.dates

    @property
    def is_bit(self) -> bool:
        """Every cell is 0 or 1, or yes or no."""
        return self.is_flag or (self.is_whole and self.low >= 0 and self.high <= 1)

    @property
    def differs(self) -> bool:
        """Every row has a value of its own, or nearly so in a table too large to be sure."""
        return self.filled > 1 and self.distinct >= (self.filled if self.exact else 0.95 * self.filled)


def profile(table: Table, names: Sequence[str]) -> dict[str, Profile]:
    """Count what some columns of a table contain."""
    profiles = {name: Profile(exact=True) for name in names}
    numbers, others = sql.split_floats(table, names)
    for group in sql.passes(others):
        read = f"SELECT c, t, x, {sql.number(table, 'x')} AS n FROM ({sql.cells(table, group)})"
        read = f"SELECT *, {_FLAG} AS f, {_DAY} AS d, {_NAMED} AS code FROM ({read})"
        profiles |= _count(table, group, read, _COUNTS)
    for group in sql.passes(numbers):
        profiles |= _count(table, group, sql.floats(table, group), _FLOAT_COUNTS)
    few = [name for name, p in profiles.items() if p.rows <= _ROWS or p.distinct <= _COUNTED]
    few = [n for n in few if not profiles[n].is_date and (profiles[n].is_whole or not profiles[n].is_number)]
    for group in sql.passes(few):
        values = f"SELECT c, x FROM ({sql.cells(table, group)}) WHERE x IS NOT NULL GROUP BY c, x"
        for index, count in table.fetch(f"SELECT c, count(*) FROM ({values}) GROUP BY c"):
            profiles[group[index]] = replace(profiles[group[index]], distinct=count, exact=True)
    return profiles


def _count(table: Table, names: Sequence[str], read: str, counts: Mapping[str, str]) -> dict[str, Profile]:
    profiles = {}
    for index, *row in table.fetch(f"SELECT c, {', '.join(counts.values())} FROM ({read}) GROUP BY c"):
        fields = {key: count for key, count in zip(counts, row, strict=True) if count is not None}
        fields["absent"] = tuple(dict.fromkeys(word for word in fields.get("absent", ()) if word))
        profiles[names[index]] = Profile(**fields)
    return profiles


def compare(table: Table, names: Sequence[str], target: str) -> tuple[list[str], list[str]]:
    """Find columns that repeat the target, among rows where the target is filled.

    Returns:
        Columns that equal the target in every row, and columns whose values correspond to the target's one to one.
    """
    copies, twins = [], []
    for group in sql.passes(names):
        query = _COMPARED.format(sql.cells(table, group, beside=target))
        for index, differ, one_to_one in table.fetch(query):
            if not differ:
                copies.append(group[index])
            elif one_to_one:
                twins.append(group[index])
    return copies, twins
