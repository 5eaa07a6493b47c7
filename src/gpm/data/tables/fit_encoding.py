"""The statistics by which columns become features, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpm.data.tables.cell_sql import LARGEST, cells, coded, fetch, floats, part_floats, passes, refuse, value
from gpm.data.tables.column_kinds import BUCKETS, MOST_VALUES, is_bag
from gpm.data.tables.schema import MOST_BUCKETS
from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table
    from gpm.data.tables.schema import Column

NUMBERS = ("number", "date", "flag")


def fit_encoding(
    table: Table, columns: Mapping[str, Column], *, bags: bool = True, gaps: bool = False
) -> list[dict[str, Any]]:
    """Take the statistics of a table's features.

    Numbers and dates are standardised, categories get a column each, text is hashed. A table of numbers and flags that
    are mostly zero, as bags of words and one-hot tables are, is kept as it is: the model scales such tables by itself.

    Args:
        table: The table.
        columns: What its columns are.
        bags: It may be a bag of words; the model does not scale those of edges.
        gaps: There are nodes that it does not list, of which all cells are missing.

    Returns:
        A dict of plain values per feature. All have `column`, `kind` and `fill`, the entries of a row that are not zero
        on average. Numbers, dates and flags have `mean` and `std` (0 and 1 where they are kept as they are; `std` is 0
        where all are equal), the range `low` to `high`, and `missing`, whether a further column says that a cell is
        missing; categories have `values` and `other`, whether the rarer ones share a further column; text has
        `buckets`.
    """
    features = {name: column for name, column in columns.items() if column.role == "feature"}
    of = {kind: {n: c for n, c in features.items() if c.kind == kind} for kind in (*NUMBERS, "category", "text")}
    plain = bags and not (of["date"] or of["category"] or of["text"])
    found = _fit_numbers(table, {name: c.kind for name, c in features.items() if c.kind in NUMBERS}, plain)
    found |= _fit_categories(table, of["category"]) | _fit_texts(table, of["text"])
    for name in found if gaps else ():
        found[name] |= {"missing": True} if "missing" in found[name] else {}
    return [{"column": name, "kind": features[name].kind} | found[name] for name in features]


def check_encoding(values: Any, source: str) -> list[dict[str, Any]]:
    """An encoding that comes from a file, if it is one; a damaged or strange one is an error that names the source."""
    listed: list[Any] = values if isinstance(values, list) else [None]
    for place, entry in enumerate(listed):
        if not (isinstance(entry, dict) and _is_entry(entry)):
            raise GpmError(f"{source}: entry {place + 1} of its encoding is damaged; import the tables again.")
    return listed


def _is_entry(entry: dict[str, Any]) -> bool:
    kind, numbers = entry.get("kind"), [entry.get("fill")]
    if kind == "category":
        values = entry.get("values")
        fits = isinstance(values, list) and all(isinstance(text, str) for text in values)
        fits &= isinstance(entry.get("other"), bool)
    elif kind == "text":
        buckets = entry.get("buckets")
        fits = type(buckets) is int and 0 < buckets <= MOST_BUCKETS
    else:
        fits = kind in NUMBERS and isinstance(entry.get("missing"), bool)
        numbers += [entry.get(key) for key in ("mean", "std", "low", "high")]
    return fits and isinstance(entry.get("column"), str) and all(map(_is_finite, numbers))


def _is_finite(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= LARGEST


def _fit_numbers(table: Table, kinds: Mapping[str, str], plain: bool) -> dict[str, dict[str, Any]]:
    counted: dict[str, list[Any]] = {}
    ones: dict[str, int] = {}
    for names, read in _read_numbers(table, kinds):
        wrong = f"count_if(x IS NOT NULL AND (v IS NULL OR abs(v) > {LARGEST}))"
        zeros, bits = (f"coalesce(count_if(v = {number}), 0)" for number in (0, 1))
        facts = f"{wrong}, count(*), count(v), {zeros}, min(v), max(v), favg(v), stddev_pop(v), {bits}"
        for place, mistakes, *found in fetch(table, f"SELECT c, {facts} FROM ({read}) GROUP BY c ORDER BY c"):
            if mistakes:
                raise refuse(table, names[place], kinds[names[place]])
            *counted[names[place]], ones[names[place]] = found
    binary = {name: found[2] + ones[name] == found[1] for name, found in counted.items()}
    keep = plain and is_bag((low or 0.0, binary[n], zeros, rows) for n, (rows, _, zeros, low, *_) in counted.items())
    none = [1, 1, 1, None, None, 0.0, 0.0]  # of a table without rows
    return {name: _scale(*counted.get(name, none), keep=keep or kind == "flag") for name, kind in kinds.items()}


def _read_numbers(table: Table, kinds: Mapping[str, str]) -> Iterator[tuple[Sequence[str], str]]:
    """Some columns at a time, and SQL of their cells: `c`, `x` that is NULL where one is missing, the number `v`."""
    plain, _ = part_floats(table, (name for name, kind in kinds.items() if kind == "number"))
    for names in passes(plain):
        yield names, f"SELECT c, n AS x, n AS v FROM ({floats(table, names)})"
    for names in passes([name for name in kinds if name not in set(plain)]):
        read = cells(table, names, [kinds[name] for name in names])
        yield names, f"SELECT c, x, {value(table, 'x', 'kind')} AS v FROM ({read})"


def _scale(
    rows: int, filled: int, zeros: int, low: float | None, high: float | None, mean: float, std: float, *, keep: bool
) -> dict[str, Any]:
    gone = 1 - filled / rows
    if low is None or high is None:
        low = high = mean = std = 0.0
    elif low == high:
        std = 0.0
    facts = {"mean": mean, "std": std} | ({"mean": 0.0, "std": 1.0} if keep else _rounded(mean, std))
    dense = (filled - zeros) / rows if keep else float(facts["std"] > 0)
    return facts | {"low": low, "high": high, "missing": filled < rows, "fill": dense + gone}


def _rounded(mean: float, std: float) -> dict[str, float]:
    """Mean and deviation without the last digits, which depend on the order in which threads add up."""
    std = float(f"{std:.10g}")
    return {"mean": round(mean / std, 9) * std if std else mean, "std": std}


def _fit_categories(table: Table, columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """The values of each column, sorted; of many the most frequent ones."""
    found: dict[str, dict[str, Any]] = {
        name: {"values": list(column.values), "other": False, "fill": 1.0}
        for name, column in columns.items()
        if column.values is not None
    }
    _check_values(table, {name: column.values for name, column in columns.items() if column.values is not None})
    names = [name for name in columns if name not in found]
    if not names:
        return found
    counts = f"SELECT c, x, count(*) AS n FROM ({cells(table, names)}) WHERE x IS NOT NULL GROUP BY c, x"
    order = "row_number() OVER (PARTITION BY c ORDER BY n DESC, x)"
    ranked = f"SELECT c, x, {order} AS place, sum(n) OVER (PARTITION BY c) AS filled FROM ({counts})"
    kept = fetch(table, f"SELECT c, x, place, filled FROM ({ranked}) WHERE place <= {MOST_VALUES + 1}")
    rows = max(table.count(), 1)
    for place, name in enumerate(names):
        mine = [(x, at, filled) for c, x, at, filled in kept if c == place]
        values = sorted(x for x, at, _ in mine if at <= MOST_VALUES)
        fill = float(mine[0][2]) / rows if mine else 0.0
        found[name] = {"values": values, "other": len(mine) > MOST_VALUES, "fill": fill}
    return found


def _check_values(table: Table, listed: Mapping[str, Sequence[str]]) -> None:
    """Refuse a list of categories of which a column has none: capitals, blanks or the column are wrong."""
    for name, values in listed.items():
        with coded(table, [name], [values]) as read:
            known, other = fetch(table, f"SELECT count_if(k >= 0), min(t) FILTER (k < 0) FROM ({read})")[0]
        if other is not None and not known:
            raise GpmError(
                f"{table.title}: none of the values that the YAML lists for {name!r} is in the column, which holds "
                f"{other[:60]!r}; write them as the column does."
            )


def _fit_texts(table: Table, columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    if not columns:
        return {}
    names = list(columns)
    words = "sum(length(x) - length(replace(x, ' ', '')) + 1) / count(*)"
    found = dict(fetch(table, f"SELECT c, {words} FROM ({cells(table, names)}) GROUP BY c"))
    sizes = {name: columns[name].buckets or BUCKETS for name in names}
    return {
        name: {"buckets": sizes[name], "fill": float(min(found.get(place) or 0.0, sizes[name]))}
        for place, name in enumerate(names)
    }
