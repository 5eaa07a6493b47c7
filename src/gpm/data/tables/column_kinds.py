"""Choose the kind of each feature and target by the contents of its column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpm.data.tables.column_profile import Profile
from gpm.data.tables.schema import KEPT, Column
from gpm.errors import GpmError

MOST_VALUES = 64  # categories with a column each; rarer ones share one
MOST_CLASSES = 10_000
BUCKETS = 64  # columns of hashed text
_FEW = 16  # up to this many distinct values are categories in any table
_MOST_NUMBERED = 20  # up to this many distinct integers are classes, even if they are not 0, 1, 2, ... or 1, 2, 3, ...
_WORDS = 4  # average words in a cell from which a column is text
_BAG = 4  # least columns of a bag of words; fewer are standardised


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
    each column must contain only 0 and 1, or be mostly zero itself.

    Args:
        columns: For each column its minimum, whether it contains only 0 and 1, its count of zeros, and of rows.
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
