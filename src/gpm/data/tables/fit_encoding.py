"""Compute the statistics by which columns become features, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpm.data.tables import cell_sql as sql
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
    """Compute the statistics of a table's features, as a dict of plain values per feature.

    Numbers and dates are standardised, categories get one column per value, text is hashed. A table of numbers and
    flags that are mostly zero, such as a bag of words or a one-hot table, is not standardised if `bags`: the model
    scales it. With `gaps` there are nodes that the table does not list; all their cells are missing.

    All entries have `column`, `kind` and `fill`, the average count of nonzero entries in a row. Numbers, dates and
    flags have `mean` and `std` (0 and 1 if not standardised; `std` is 0 if all values are equal), the range `low` to
    `high`, and `missing`, whether another column flags missing cells. Categories have `values` and `other`, whether
    the rarer values share another column; text has `buckets`.
    """
    features = {name: column for name, column in columns.items() if column.role == "feature"}
    of = {kind: {n: c for n, c in features.items() if c.kind == kind} for kind in ("category", "text")}
    numbers = {name: column.kind for name, column in features.items() if column.kind in NUMBERS}
    plain = bags and not (of["category"] or of["text"] or "date" in numbers.values())
    fitted = (
        _fit_numbers(table, numbers, plain) | _fit_categories(table, of["category"]) | _fit_texts(table, of["text"])
    )
    for name in numbers if gaps else ():
        fitted[name]["missing"] = True
    return [{"column": name, "kind": features[name].kind} | fitted[name] for name in features]


def check_encoding(values: Any, source: str) -> list[dict[str, Any]]:
    """Return an encoding read from a file; a damaged one is an error that names the source."""
    listed: list[Any] = values if isinstance(values, list) else [None]
    for number, entry in enumerate(listed, 1):
        if not (isinstance(entry, dict) and _is_entry(entry)):
            raise GpmError(f"{source}: entry {number} of its encoding is damaged; import the tables again.")
    return listed


def _is_entry(entry: dict[str, Any]) -> bool:
    kind = entry.get("kind")
    numbers: list[Any] = [entry.get("fill")]
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
    finite = all(type(number) in (int, float) and abs(number) <= sql.LARGEST for number in numbers)
    return fits and isinstance(entry.get("column"), str) and finite


def _fit_numbers(table: Table, kinds: Mapping[str, str], plain: bool) -> dict[str, dict[str, Any]]:
    counted: dict[str, list[Any]] = {}
    ones: dict[str, int] = {}
    for names, read in _read_numbers(table, kinds):
        wrong = f"count_if(x IS NOT NULL AND (v IS NULL OR abs(v) > {sql.LARGEST}))"
        zeros, bits = (f"coalesce(count_if(v = {number}), 0)" for number in (0, 1))
        counts = f"{wrong}, count(*), count(v), {zeros}, min(v), max(v), favg(v), stddev_pop(v), {bits}"
        for index, mistakes, *row in table.fetch(f"SELECT c, {counts} FROM ({read}) GROUP BY c ORDER BY c"):
            if mistakes:
                raise sql.refuse(table, names[index], kinds[names[index]])
            *counted[names[index]], ones[names[index]] = row
    binary = {name: row[2] + ones[name] == row[1] for name, row in counted.items()}
    keep = plain and is_bag((low or 0.0, binary[n], zeros, rows) for n, (rows, _, zeros, low, *_) in counted.items())
    none = [1, 1, 1, None, None, 0.0, 0.0]  # counts of a table without rows
    return {name: _scale(*counted.get(name, none), keep=keep or kind == "flag") for name, kind in kinds.items()}


def _read_numbers(table: Table, kinds: Mapping[str, str]) -> Iterator[tuple[Sequence[str], str]]:
    """Yield some columns at a time, and SQL of their cells: `c`, `x` (NULL if missing) and the number `v`."""
    plain, _ = sql.split_floats(table, (name for name, kind in kinds.items() if kind == "number"))
    for names in sql.passes(plain):
        yield names, f"SELECT c, n AS x, n AS v FROM ({sql.floats(table, names)})"
    for names in sql.passes([name for name in kinds if name not in set(plain)]):
        read = sql.cells(table, names, [kinds[name] for name in names])
        yield names, f"SELECT c, x, {sql.value(table, 'x', 'kind')} AS v FROM ({read})"


def _scale(
    rows: int, filled: int, zeros: int, low: float | None, high: float | None, mean: float, std: float, *, keep: bool
) -> dict[str, Any]:
    if low is None or high is None:
        low = high = mean = std = 0.0
    std = 0.0 if low == high else float(f"{std:.10g}")  # the last digits depend on the order in which threads add up
    mean = round(mean / std, 9) * std if std else mean
    if keep:
        mean, std = 0.0, 1.0
    dense = (filled - zeros) / rows if keep else float(std > 0)
    bounds = {"low": low, "high": high, "missing": filled < rows}
    return {"mean": mean, "std": std} | bounds | {"fill": dense + (1 - filled / rows)}


def _fit_categories(table: Table, columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """Return the sorted values of each column; only the most frequent ones if there are many."""
    fitted: dict[str, dict[str, Any]] = {}
    for name, column in columns.items():
        if column.values is not None:
            _check_values(table, name, column.values)
            fitted[name] = {"values": list(column.values), "other": False, "fill": 1.0}
    names = [name for name in columns if name not in fitted]
    if not names:
        return fitted
    read = f"SELECT c, x FROM ({sql.cells(table, names)}) WHERE x IS NOT NULL"
    kept = table.fetch(sql.most_frequent(read, "x", MOST_VALUES + 1))
    rows = max(table.count(), 1)
    for index, name in enumerate(names):
        mine = [(x, nth, total) for c, x, _, nth, total in kept if c == index]
        values = sorted(x for x, nth, _ in mine if nth <= MOST_VALUES)
        fill = float(mine[0][2]) / rows if mine else 0.0
        fitted[name] = {"values": values, "other": len(mine) > MOST_VALUES, "fill": fill}
    return fitted


def _check_values(table: Table, name: str, values: Sequence[str]) -> None:
    """Refuse a list of categories if the column has none of them: capitals, blanks or the column are wrong."""
    with sql.coded(table, [name], [values]) as read:
        listed, other = table.fetch(f"SELECT count_if(k >= 0), min(t) FILTER (k < 0) FROM ({read})")[0]
    if other is not None and not listed:
        raise GpmError(
            f"{table.title}: column {name!r} has none of the values that the YAML lists for it, but for example "
            f"{other[:60]!r}; write the values as in the column."
        )


def _fit_texts(table: Table, columns: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    if not columns:
        return {}
    read = sql.cells(table, list(columns))
    words = dict(table.fetch(f"SELECT c, sum({sql.WORD_COUNT}) / count(*) FROM ({read}) GROUP BY c"))
    sizes = [column.buckets or BUCKETS for column in columns.values()]
    return {
        name: {"buckets": size, "fill": float(min(words.get(index) or 0.0, size))}
        for index, (name, size) in enumerate(zip(columns, sizes, strict=True))
    }
