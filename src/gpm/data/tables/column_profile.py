"""What is in the columns of a table: counts over all rows, in one pass and with bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpm.data.tables.cell_sql import (
    DAY,
    DAYLIKE,
    FLAG,
    LARGEST,
    YES,
    cells,
    fetch,
    floats,
    is_pair,
    number,
    part_floats,
    passes,
)

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

_COUNTED = 100_000  # so many different values are counted exactly in any table
_ROWS = 2_000_000  # and any number of them in a table of so many rows
_CODE = "regexp_full_match(x, '[+-]?0[0-9]+|[+-]?[0-9]{16,}')"  # digits that no number would give back
_DAY = f"CASE WHEN n IS NULL AND {DAYLIKE.format('x')} THEN {DAY.format('x')} END"
_FLAG = f"CASE WHEN n IS NULL AND strlen(x) < 6 THEN {FLAG.format('x')} END"
_NAMED = f"CASE WHEN n IS NOT NULL AND (x LIKE '0_%' OR x LIKE '_0_%' OR strlen(x) > 15) THEN {_CODE} END"
_WORDS = "CASE WHEN n IS NULL THEN length(x) - length(replace(x, ' ', '')) + 1 END"
_PAIRED = "greatest(" + ", ".join(f"count_if(f IS NOT NULL AND {is_pair('x', i)})" for i in range(len(YES))) + ")"
_COUNTS = f"""
count(*), count(x), approx_count_distinct(x), count(n), count_if(abs(n) > {LARGEST}), count_if(code),
count_if(n = trunc(n)), count_if(coalesce(n, f) = 0), min(n), max(n), {_PAIRED}, count(d), avg({_WORDS}),
count_if(n IS NOT NULL AND contains(x, ',')), count_if(regexp_full_match(x, '[+-]?[0-9]{{1,3}}([.][0-9]{{3}})+')),
min(lower(t)) FILTER (x IS NULL), max(lower(t)) FILTER (x IS NULL), min(x) FILTER (n IS NULL)"""


@dataclass(frozen=True)
class Profile:
    """Counts of a column.

    Attributes:
        rows: Of the table.
        filled: Cells that are not missing.
        distinct: Different values among them; within a few percent unless `exact`.
        numbers, huge, codes, whole: Cells that are numbers; of them, too large ones; digits with leading zeros or too
            many for a number; whole numbers.
        zeros: Cells that are 0 or no.
        low, high: Range of the numbers.
        flags, dates: Cells that are yes or no, all in the same words; dates.
        words: Words in a cell, on average.
        commas, points: Numbers with a decimal comma; cells whose point may part thousands.
        absent: Words that stand for a missing cell.
        odd: A cell that is no number.
    """

    rows: int
    filled: int
    distinct: int
    numbers: int
    huge: int
    codes: int
    whole: int
    zeros: int
    low: float
    high: float
    flags: int
    dates: int
    words: float
    commas: int
    points: int
    absent: tuple[str, ...]
    odd: str
    exact: bool = False

    @property
    def missing(self) -> int:
        return self.rows - self.filled

    @property
    def is_number(self) -> bool:
        """Every cell is a number and none of them a code."""
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
    """Count what is in some columns of a table."""
    found = {name: Profile(0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0, 0, 0.0, 0, 0, (), "", True) for name in names}
    numbers, others = part_floats(table, names)
    for some in passes(others):
        found |= _count(table, some)
    for some in passes(numbers):
        found |= _count_floats(table, some)
    few = [name for name, p in found.items() if p.rows <= _ROWS or p.distinct <= _COUNTED]
    few = [
        n for n in few if not found[n].is_date and (found[n].is_whole or not found[n].is_number)
    ]  # or else just numbers
    for some in passes(few):
        distinct = f"SELECT c, x FROM ({cells(table, some)}) WHERE x IS NOT NULL GROUP BY c, x"
        for place, count in fetch(table, f"SELECT c, count(*) FROM ({distinct}) GROUP BY c"):
            found[some[place]] = replace(found[some[place]], distinct=count, exact=True)
    return found


def _count(table: Table, names: Sequence[str]) -> dict[str, Profile]:
    read = f"SELECT c, t, x, {number(table, 'x')} AS n FROM ({cells(table, names)})"
    read = f"SELECT *, {_FLAG} AS f, {_DAY} AS d, {_NAMED} AS code FROM ({read})"
    found = {}
    for place, *counts in fetch(table, f"SELECT c, {_COUNTS} FROM ({read}) GROUP BY c"):
        *plain, least, most, odd = counts
        absent = tuple(dict.fromkeys(word for word in (least, most) if word))
        facts: list[Any] = [*(0 if count is None else count for count in plain), absent, odd or ""]
        found[names[place]] = Profile(*facts)
    return found


def _count_floats(table: Table, names: Sequence[str]) -> dict[str, Profile]:
    """The same of columns of floats: no cell of them is a code, a flag, a date or words."""
    counts = f"""
    count(*), count(n), approx_count_distinct(n), count(n), count_if(abs(n) > {LARGEST}), 0, count_if(n = trunc(n)),
    count_if(n = 0), coalesce(min(n), 0), coalesce(max(n), 0)"""
    nothing: list[Any] = [0, 0, 0.0, 0, 0, (), ""]
    found = fetch(table, f"SELECT c, {counts} FROM ({floats(table, names)}) GROUP BY c")
    return {names[place]: Profile(*plain, *nothing) for place, *plain in found}


def compare(table: Table, names: Sequence[str], target: str) -> tuple[list[str], list[str]]:
    """Which columns are the target over again, among rows where that is known.

    Returns:
        Those that are equal to it in every row, and those of which each value goes with one of the target's and each of
        the target's with one value.
    """
    copies, twins = [], []
    for some in passes(names):
        for place, differ, one_to_one in fetch(table, _compare(table, some, target)):
            if not differ:
                copies.append(some[place])
            elif one_to_one:
                twins.append(some[place])
    return copies, twins


def _compare(table: Table, names: Sequence[str], target: str) -> str:
    """SQL that finds, per column, whether it ever differs from the target, and whether it is one-to-one with it."""
    read = f"SELECT c, x, y FROM ({cells(table, names, beside=target)}) WHERE y IS NOT NULL"
    pairs = f"SELECT c, x, y, bool_or(x IS DISTINCT FROM y) AS differ FROM ({read}) GROUP BY ALL"
    partners = "SELECT c, max(n) AS most FROM (SELECT c, count(*) AS n FROM pairs GROUP BY c, {0}) GROUP BY c"
    facts = "SELECT c, bool_or(differ) AS differ, count(*) AS pairs, count(x) AS filled FROM pairs GROUP BY c"
    both = f"({facts}) JOIN ({partners.format('x')}) AS of_x USING (c) JOIN ({partners.format('y')}) AS of_y USING (c)"
    bound = "pairs > 1 AND filled = pairs AND of_x.most = 1 AND of_y.most = 1"
    return f"WITH pairs AS MATERIALIZED ({pairs}) SELECT c, differ, {bound} FROM {both} ORDER BY c"
