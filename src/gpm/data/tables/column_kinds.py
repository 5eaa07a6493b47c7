"""Count what columns contain, over all rows and with bounded memory; choose the kinds of features and targets by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpm.data.tables import cell_sql as sql
from gpm.data.tables.schema import KEPT, Column
from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

MOST_VALUES = 64  # categories with a column each; rarer ones share one
MOST_CLASSES = 10_000
BUCKETS = 64  # columns of hashed text
_FEW = 16  # up to this many distinct values are categories in any table
_MOST_NUMBERED = 20  # up to this many distinct integers are classes, even if they are not 0, 1, 2, ... or 1, 2, 3, ...
_WORDS = 4  # average words in a cell from which a column is text
_BAG = 4  # least columns of a bag of words; fewer are standardised
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
    """Find columns that equal the target, and columns whose values correspond to its values one to one.

    Only rows where the target is filled count.
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


def feature_column(p: Profile, given: Column | None = None) -> Column:
    """Make a column a feature, or ignore it with the reason; what the user gave is kept.

    A column is numbers or dates if all cells are. Text is a category if its values repeat, text if it has many words,
    and is ignored if every row has a value of its own.
    """
    if given is not None and given.role == "ignore":
        return Column("ignore", why=given.why)
    if given is not None and (given.kind or given.values):
        return Column("feature", kind := given.kind or "category", given.values, given.buckets, _describe(p, kind))
    kind, why = _find_kind(p)
    if given is None:
        return Column("ignore", why=why) if why else Column("feature", kind, why=_describe(p, kind))
    return Column("feature", kind, given.values, given.buckets, _describe(p, kind))


def _find_kind(p: Profile) -> tuple[str, str]:
    """Return a kind, and a reason to ignore the column or an empty string."""
    kind = "number" if p.is_number else "flag" if p.is_flag else "date" if p.is_date else ""
    many = p.words >= _WORDS and p.distinct > min(MOST_VALUES, p.filled / 2)
    kind = kind or ("text" if many else "category")
    if not p.filled:
        return kind, "empty"
    if p.distinct == 1 and not p.missing:
        return kind, "the same in every row"
    if kind == "number" and p.is_whole and p.differs and p.filled >= 10 and p.high - p.low + 1 == p.filled:
        return kind, "numbers the rows"
    if kind == "category" and p.differs:
        return kind, f"different in every row{_odd(p)}"
    if kind == "category" and p.distinct > max(_FEW, p.filled / 2):
        return kind, f"{p.distinct:,} values in {p.filled:,} rows{_odd(p)}"
    return kind, ""


def _odd(p: Profile) -> str:
    """Describe the cells that keep a column from being numbers."""
    if not 0.8 * p.filled <= p.numbers < p.filled:
        return ""
    return f"; {p.filled - p.numbers:,} of {p.filled:,} cells are not numbers, such as {p.odd[:20]!r}"


def _describe(p: Profile, kind: str) -> str:
    rule = {"number": "mean and a flag", "date": "mean and a flag", "flag": "0 and a flag"}.get(kind, "zeros")
    parts = [f"{p.distinct:,} value(s){_odd(p)}"] if kind == "category" else []
    return "; ".join(parts + ([f"{_missing(p)}: {rule}"] if p.missing else []))


def _missing(p: Profile) -> str:
    words = f" ({', '.join(map(repr, p.absent))})" if p.absent else ""
    return f"{p.missing:,} missing{words}"


def is_bag(columns: Iterable[tuple[float, bool, int, int]]) -> bool:
    """Return whether columns of numbers and flags are a bag of words or one-hot: not negative, and mostly zero.

    The model scales such tables itself, and keeps their zeros. Other numbers among them would dominate the rest, so
    each column must contain only 0 and 1, or be mostly zero itself. A column is given as its minimum, whether it
    contains only 0 and 1, its count of zeros, and of rows.
    """
    listed = list(columns)
    zeros, cells = sum(zeros for *_, zeros, _ in listed), sum(rows for *_, rows in listed)
    fits = all(low >= 0 and (bits or 2 * zero > rows) for low, bits, zero, rows in listed)
    return len(listed) >= _BAG and fits and 2 * zeros > cells


def mark_bag(columns: Mapping[str, Column], profiles: Mapping[str, Profile]) -> dict[str, Column]:
    """Add a note to features that are not standardised because they are a bag of words."""
    features = {name: column for name, column in columns.items() if column.role == "feature"}
    plain = all(column.kind in ("number", "flag") for column in features.values())
    listed = [profiles[name] for name in features]
    if not plain or not is_bag((p.low, p.is_bit, p.zeros, p.rows) for p in listed):
        return dict(columns)
    kept = {name: c.why.replace("mean and a flag", "0 and a flag") for name, c in features.items()}
    why = {name: f"{KEPT}: mostly zeros" + (f"; {more}" if more else "") for name, more in kept.items()}
    return {name: replace(column, why=why.get(name, column.why)) for name, column in columns.items()}


def target_columns(profiles: Mapping[str, Profile], given: Mapping[str, Column], title: str) -> dict[str, Column]:
    """Choose the kind of the targets: one is a class or a number, several are flags or numbers.

    Fractions and many distinct integers are numbers; a few integers, or consecutive ones from 0 or 1, are classes.
    """
    for name, p in profiles.items():
        if p.distinct < 2:
            what = "empty" if not p.filled else "the same in every row"
            raise GpmError(f"{title}: the target {name!r} is {what}: there is nothing to learn; choose another column.")
    kinds = {given[name].kind for name in profiles if name in given} - {""}
    if len(kinds) > 1:
        raise GpmError(f"{title}: all targets must be of one kind, not {' and '.join(sorted(kinds))}.")
    kind = next(iter(kinds)) if kinds else _target_kind(profiles, title)
    if kind == "category":
        _check_classes(profiles, title, sure=bool(kinds))
    columns = {}
    for name, p in profiles.items():
        parts = [f"{p.distinct:,} classes{_odd(p)}"] if kind == "category" else []
        why = "; ".join(parts + ([f"{_missing(p)}: unlabelled"] if p.missing else []))
        columns[name] = Column("target", kind, given[name].values if name in given else None, 0, why)
    return columns


def is_spoiled_number(p: Profile) -> bool:
    """Return whether a target is mostly numbers, too many for classes, with some other text among them."""
    return bool(_odd(p)) and (p.whole < p.numbers or p.distinct > _MOST_NUMBERED)


def _target_kind(profiles: Mapping[str, Profile], title: str) -> str:
    if len(profiles) > 1:
        if all(p.is_bit for p in profiles.values()):
            return "flag"
        for name, p in profiles.items():
            if not p.is_number:
                cell = f", such as {p.odd[:40]!r}" if p.odd else ""
                raise GpmError(
                    f"{title}: several targets must all be 0 or 1, or all numbers, but {name!r} contains other "
                    f"text{cell}; predict one of them."
                )
        return "number"
    (p,) = profiles.values()
    if not p.is_whole:
        return "number" if p.is_number else "category"
    numbered = p.low in (0, 1) and p.high - p.low + 1 == p.distinct and 2 * p.distinct <= p.filled
    few = p.distinct <= _MOST_NUMBERED and 5 * p.distinct <= p.filled
    return "category" if numbered or few or p.is_bit else "number"


def _check_classes(profiles: Mapping[str, Profile], title: str, *, sure: bool) -> None:
    for name, p in profiles.items():
        if len(profiles) > 1:
            raise GpmError(
                f"{title}: several targets cannot be classes; set kind: flag or number, or predict {name!r}."
            )
        if p.distinct > MOST_CLASSES or (p.differs and p.filled > _FEW and not sure):
            fix = f"{_odd(p).removeprefix('; ')}; " if _odd(p) else ""
            raise GpmError(
                f"{title}: the target {name!r} has {p.distinct:,} distinct values in {p.filled:,} rows, too many "
                f"for classes; {fix}choose another column, or set 'kind: number' for it in the YAML."
            )
