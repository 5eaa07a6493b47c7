"""Targets and parts as arrays, in the order of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.labels import check_precision
from gpm.data.splits import PARTS
from gpm.data.tables.cell_sql import LARGEST, cells, chunks, coded, fetch, number, refuse, value
from gpm.errors import GpmError, nearest

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table
    from gpm.data.tables.schema import Column

PART_WORDS = {
    "train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "validate": 1, "dev": 1, "test": 2, "testing": 2,
}  # fmt: skip
KINDS = {"category": "classes", "number": "values", "flag": "labels"}
MOST_CLASSES = 10_000


@dataclass(frozen=True, eq=False)
class Targets:
    """What is predicted, per row of a table.

    Attributes:
        y: Classes are int64 `[R]`, -1 where unknown; values float32 `[R]`, or `[R, C]` for several columns, NaN where
            unknown; labels float32 `[R, C]` of 0, 1 and NaN.
        kind: classes, values or labels.
        classes: Names of the classes by number.
        names: The target columns.
    """

    y: NDArray
    kind: str
    classes: list[str]
    names: list[str]


def read_targets(table: Table, columns: Mapping[str, Column], *, known: Mapping[str, Any] | None = None) -> Targets:
    """Read the columns that are predicted.

    Args:
        table: The table they are in.
        columns: Its columns; those of role target are read, all of one kind.
        known: What a model was trained on: its `kind`, `classes` and `targets`. A class that is not among them is an
            error.
    """
    chosen = {name: column for name, column in columns.items() if column.role == "target"}
    kinds = {column.kind for column in chosen.values()}
    names = list(chosen)
    if len(kinds) != 1 or not kinds <= set(KINDS):
        raise GpmError(f"{table.title}: the targets {', '.join(names)} must be of one kind: {', '.join(KINDS)}.")
    kind = KINDS[kinds.pop()]
    if known is not None and (kind, names) != (known["kind"], list(known["targets"])):
        raise GpmError(
            f"{table.title}: the targets {', '.join(names)} ({kind}) are not those that the model was trained on, "
            f"{', '.join(known['targets'])} ({known['kind']})."
        )
    if kind != "classes":
        return Targets(_read_numbers(table, names, kind), kind, [], names)
    if len(names) > 1:
        raise GpmError(f"{table.title}: {', '.join(names)} cannot all be classes; predict one of them.")
    listed = chosen[names[0]].values
    classes = list(known["classes"]) if known is not None else list(listed or _find_classes(table, names[0]))
    return Targets(_read_classes(table, names[0], classes), kind, classes, names)


def read_parts(table: Table, column: str) -> NDArray[np.int8]:
    """Read a column of train, val and test: 0, 1 and 2, and -1 where it is empty."""
    parts = np.full(table.count(), -1, dtype=np.int8)
    cases = " ".join(f"WHEN '{word}' THEN {part}" for word, part in PART_WORDS.items())
    read = f"SELECT gpm_row, x, CASE lower(x) {cases} ELSE 9 END AS part FROM ({cells(table, [column], rows=True)})"
    read = f"{read} WHERE x IS NOT NULL"
    for frame in chunks(table, f"SELECT gpm_row, part FROM ({read})"):
        parts[frame["gpm_row"].to_numpy()] = found = frame["part"].to_numpy()
        if (found == 9).any():
            row, wrong = fetch(table, f"SELECT min(gpm_row), arg_min(x, gpm_row) FROM ({read}) WHERE part = 9")[0]
            fix = "write train, val or test, or leave it empty"
            raise GpmError(f"{table.where(row)}: {wrong[:60]!r} in column {column!r} is no part; {fix}.")
    return parts


def check_parts(parts: NDArray, title: str, column: str) -> None:
    """Refuse a split that lacks a part, among rows that have a label: nothing could be trained, chosen or scored."""
    for place, part in enumerate(PARTS):
        if not (parts == place).any():
            raise GpmError(
                f"{title}: no row with a label is in the part {part} of column {column!r}; put some there, or say in "
                "the YAML 'role: ignore' of it, to have the parts drawn."
            )


def _read_numbers(table: Table, names: Sequence[str], kind: str) -> NDArray[np.float32]:
    each = "flag" if kind == "labels" else "number"
    y = np.full((table.count(), len(names)), np.nan)
    read = f"({cells(table, names, [each] * len(names), rows=True)})"
    marked = f"CASE WHEN x IS NOT NULL THEN coalesce({value(table, 'x', 'kind')}, 'inf'::DOUBLE) END"
    for frame in chunks(table, f"SELECT gpm_row, c, {marked} AS v FROM {read} WHERE x IS NOT NULL"):
        found = frame["v"].to_numpy(dtype=np.float64)
        places = frame["c"].to_numpy()
        if (wrong := np.flatnonzero(np.abs(found) > LARGEST)).size:
            raise refuse(table, names[int(places[wrong[0]])], each)
        y[frame["gpm_row"].to_numpy(), places] = found
    if kind == "values":
        check_precision(y, f"{table.title}, {', '.join(names)}")
    taken = y.astype(np.float32)
    return taken[:, 0] if kind == "values" and len(names) == 1 else taken


def _find_classes(table: Table, name: str) -> list[str]:
    """The classes of a column: numbers in their order, else in that of the alphabet."""
    values = f"SELECT DISTINCT x, {number(table, 'x')} AS n FROM ({cells(table, [name])}) WHERE x IS NOT NULL"
    found = fetch(table, f"{values} LIMIT {MOST_CLASSES + 1}")
    if len(found) > MOST_CLASSES:
        raise GpmError(f"{table.title}: the target {name!r} has more than {MOST_CLASSES:,} classes; say kind: number.")
    if any(n is None for _, n in found):
        return sorted(x for x, _ in found)
    return [x for x, n in sorted(found, key=lambda pair: (pair[1], pair[0]))]


def _read_classes(table: Table, name: str, classes: list[str]) -> NDArray[np.int64]:
    y = np.full(table.count(), -1, dtype=np.int64)
    with coded(table, [name], [classes]) as read:
        for frame in chunks(table, f"SELECT gpm_row, k FROM ({read})"):
            y[frame["gpm_row"].to_numpy()] = found = frame["k"].to_numpy()
            if (found < 0).any():
                row, found_text = fetch(table, f"SELECT min(gpm_row), arg_min(t, gpm_row) FROM ({read}) WHERE k < 0")[0]
                near = nearest(found_text, classes) or f" The classes are {', '.join(classes[:10])}."
                raise GpmError(
                    f"{table.where(row)}: {found_text[:60]!r} in column {name!r} is not a known class.{near}"
                )
    return y
