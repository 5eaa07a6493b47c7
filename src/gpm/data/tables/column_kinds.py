"""What kind of feature or target a column is, by what is in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpm.data.tables.column_profile import Profile
from gpm.data.tables.schema import KEPT, Column
from gpm.errors import GpmError

MOST_VALUES = 64  # categories that get a column each; rarer ones share one
MOST_CLASSES = 10_000
BUCKETS = 64  # columns of hashed text
_FEW = 16  # different values that are categories in the smallest table
_MOST_NUMBERED = 20  # whole numbers that are classes, if they do not count on from 0 or 1
_WORDS = 4  # as many words in a cell, on average, are a text
_BAG = 4  # columns that make a bag of words; fewer are standardised, of which the model makes more


def feature_column(found: Profile, given: Column | None = None) -> Column:
    """A column as a feature, or left out with the reason; what is given is kept.

    Numbers and dates are what all cells say they are. Text is a category if its values come again, a text if it has
    many words, and is left out if every row has its own.
    """
    if given is not None and (given.role == "ignore" or given.kind or given.values):
        kind, role = given.kind or "category", given.role
        why = given.why if given.role == "ignore" else ""
    else:
        kind, why = _find_kind(found)
        role = "ignore" if why and given is None else "feature"
    values, buckets = (None, 0) if given is None else (given.values, given.buckets)
    if role == "ignore":
        return Column("ignore", why=why)
    return Column("feature", kind, values, buckets, _say(found, kind))


def _find_kind(p: Profile) -> tuple[str, str]:
    """A kind, and a reason to leave the column out, if there is one."""
    kind = "number" if p.is_number else "flag" if p.is_flag else "date" if p.is_date else ""
    many = p.words >= _WORDS and p.distinct > min(MOST_VALUES, p.filled / 2)
    kind = kind or ("text" if many else "category")
    if not p.filled:
        return kind, "empty"
    if p.distinct == 1 and not p.missing:
        return kind, "the same in every row"
    if kind == "number" and p.is_whole and p.differs and p.filled >= 10 and p.high - p.low + 1 == p.filled:
        return kind, "counts the rows"
    if kind == "category" and p.differs:
        return kind, f"different in every row{_odd(p)}"
    if kind == "category" and p.distinct > max(_FEW, p.filled / 2):
        return kind, f"{p.distinct:,} values in {p.filled:,} rows{_odd(p)}"
    return kind, ""


def _odd(p: Profile) -> str:
    """A word on the cells that keep a column from being numbers."""
    if not 0.8 * p.filled <= p.numbers < p.filled:
        return ""
    return f"; {p.filled - p.numbers:,} of {p.filled:,} cells are no numbers, such as {p.odd[:20]!r}"


def _say(p: Profile, kind: str) -> str:
    """What is to be known of a feature."""
    rule = {"number": "mean and a flag", "date": "mean and a flag", "flag": "0 and a flag"}.get(kind, "zeros")
    parts = [f"{p.distinct:,} value(s){_odd(p)}"] if kind == "category" else []
    return "; ".join(parts + ([f"{_missing(p)}: {rule}"] if p.missing else []))


def _missing(p: Profile) -> str:
    words = f" ({', '.join(map(repr, p.absent))})" if p.absent else ""
    return f"{p.missing:,} missing{words}"


def is_bag(columns: Iterable[tuple[float, bool, int, int]]) -> bool:
    """Whether columns of numbers and flags are a bag of words or one-hot: none negative, and most of them zero.

    The model scales such tables by itself, and keeps their zeros. A column of other numbers among them would drown the
    rest: each must be 0 and 1 alone, or be mostly zero itself.

    Args:
        columns: Of each the least number, whether it holds 0 and 1 alone, its number of zeros and of rows.
    """
    listed = list(columns)
    zeros, cells = sum(zeros for *_, zeros, _ in listed), sum(rows for *_, rows in listed)
    fits = all(low >= 0 and (bits or 2 * zero > rows) for low, bits, zero, rows in listed)
    return len(listed) >= _BAG and fits and 2 * zeros > cells


def mark_bag(columns: Mapping[str, Column], found: Mapping[str, Profile]) -> dict[str, Column]:
    """The same columns, with a word on features that are kept as they are because they are a bag of words."""
    features = {name: column for name, column in columns.items() if column.role == "feature"}
    plain = all(column.kind in ("number", "flag") for column in features.values())
    counts = ((found[name].low, found[name].is_bit, found[name].zeros, found[name].rows) for name in features)
    if not plain or not is_bag(counts):
        return dict(columns)
    kept = {name: c.why.replace("mean and a flag", "0 and a flag") for name, c in features.items()}
    why = {name: f"{KEPT}: mostly zeros" + (f"; {more}" if more else "") for name, more in kept.items()}
    return {n: Column(c.role, c.kind, c.values, c.buckets, why.get(n, c.why)) for n, c in columns.items()}


def target_columns(found: Mapping[str, Profile], given: Mapping[str, Column], title: str) -> dict[str, Column]:
    """The kinds of the targets: one is a class or a number, several are yes or no, or numbers.

    Fractions and many different numbers are numbers; a few whole numbers, or all of them from 0 or 1 on, are classes.
    """
    for name, p in found.items():
        if p.distinct < 2:
            what = "empty" if not p.filled else "the same in every row"
            raise GpmError(f"{title}: the target {name!r} is {what}: there is nothing to learn; choose another column.")
    kinds = {name: given[name].kind if name in given else "" for name in found}
    said = set(kinds.values()) - {""}
    if len(said) > 1:
        raise GpmError(f"{title}: targets must be all of one kind, not {' and '.join(sorted(said))}.")
    kind = said.pop() if said else _target_kind(found, title)
    if kind == "category":
        _check_classes(found, title, sure=any(kinds.values()))
    columns = {}
    for name, p in found.items():
        parts = [f"{p.distinct:,} classes{_odd(p)}"] if kind == "category" else []
        why = "; ".join(parts + ([f"{_missing(p)}: unlabelled"] if p.missing else []))
        columns[name] = Column("target", kind, given[name].values if name in given else None, 0, why)
    return columns


def is_spoiled_number(p: Profile) -> bool:
    """Whether a target is mostly numbers, more than classes would have, and some other text."""
    return bool(_odd(p)) and (p.whole < p.numbers or p.distinct > _MOST_NUMBERED)


def _target_kind(found: Mapping[str, Profile], title: str) -> str:
    if len(found) > 1:
        if all(p.is_bit for p in found.values()):
            return "flag"
        wrong = next((name for name, p in found.items() if not p.is_number), None)
        if wrong is not None:
            cell = f", such as {found[wrong].odd[:40]!r}" if found[wrong].odd else ""
            raise GpmError(
                f"{title}: several targets must be all 0 or 1, or all numbers, but {wrong!r} holds other text{cell}; "
                "predict one of them."
            )
        return "number"
    (p,) = found.values()
    if not p.is_number:
        return "category"
    if not p.is_whole:
        return "number"
    numbered = p.low in (0, 1) and p.high - p.low + 1 == p.distinct and 2 * p.distinct <= p.filled
    few = p.distinct <= _MOST_NUMBERED and 5 * p.distinct <= p.filled
    return "category" if numbered or few or p.is_bit else "number"


def _check_classes(found: Mapping[str, Profile], title: str, *, sure: bool) -> None:
    for name, p in found.items():
        if len(found) > 1:
            raise GpmError(
                f"{title}: several targets cannot be classes; say kind: flag or number, or predict {name!r}."
            )
        if p.distinct > MOST_CLASSES or (p.differs and p.filled > _FEW and not sure):
            fix = f"{_odd(p).removeprefix('; ')}; " if _odd(p) else ""
            raise GpmError(
                f"{title}: the target {name!r} has {p.distinct:,} different values in {p.filled:,} rows, too many "
                f"for classes; {fix}choose another column, or say kind: number of it in the YAML."
            )
