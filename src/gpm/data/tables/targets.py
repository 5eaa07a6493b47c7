"""Read targets and splits as arrays, in the order of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.labels import check_precision
from gpm.data.splits import PARTS
from gpm.data.tables.cell_sql import LARGEST, cells, coded, first_cell, number, read_values, refuse
from gpm.data.tables.column_kinds import MOST_CLASSES
from gpm.errors import GpmError, nearest

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table
    from gpm.data.tables.schema import Column

PART_WORDS = {
    "train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "validate": 1, "dev": 1, "test": 2, "testing": 2,
}  # fmt: skip
KINDS = {"category": "classes", "number": "values", "flag": "labels"}


@dataclass(frozen=True, eq=False)
class Targets:
    """The targets `y` of the rows of a table.

    Classes are int64 `[R]`, -1 if unknown; values float32 `[R]`, or `[R, C]` for several columns, NaN if unknown;
    labels float32 `[R, C]` of 0, 1 and NaN.
    """

    y: NDArray
    kind: str  # classes, values or labels
    classes: list[str]
    names: list[str]  # the target columns


def read_targets(table: Table, columns: Mapping[str, Column], *, known: Mapping[str, Any] | None = None) -> Targets:
    """Read the columns of role target, all of one kind.

    `known` has the `kind`, `classes` and `targets` that a model was trained on; any other class is an error.
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
    """Read a column of train, val and test as 0, 1 and 2, and -1 where it is empty."""
    parts = np.full(table.count(), -1, dtype=np.int8)
    cases = " ".join(f"WHEN '{word}' THEN {part}" for word, part in PART_WORDS.items())
    read = f"SELECT gpm_row, t, x, CASE lower(x) {cases} ELSE 9 END AS part FROM ({cells(table, [column], rows=True)})"
    read = f"{read} WHERE x IS NOT NULL"
    for frame in table.chunks(f"SELECT gpm_row, part FROM ({read})"):
        parts[frame["gpm_row"].to_numpy()] = part = frame["part"].to_numpy()
        if (part == 9).any():
            where, cell = first_cell(table, read, "part = 9")
            fix = "write train, val or test, or leave it empty"
            raise GpmError(f"{where}: {cell[:60]!r} in column {column!r} is not a split; {fix}.")
    return parts


def check_parts(parts: NDArray, title: str, column: str, what: str = "labelled row") -> None:
    """Refuse a split column without labelled rows in train, val or test."""
    for index, part in enumerate(PARTS):
        if not (parts == index).any():
            raise GpmError(
                f"{title}: no {what} has {part!r} in column {column!r}; assign some rows, or set 'role: ignore' "
                "for the column in the YAML to split at random."
            )


def _read_numbers(table: Table, names: Sequence[str], kind: str) -> NDArray[np.float32]:
    each = "flag" if kind == "labels" else "number"
    y = np.full((table.count(), len(names)), np.nan)
    for row, column, values in read_values(table, names, [each] * len(names)):
        if (wrong := np.flatnonzero(np.abs(values) > LARGEST)).size:
            raise refuse(table, names[int(column[wrong[0]])], each)
        y[row, column] = values
    if kind == "values":
        check_precision(y, f"{table.title}, {', '.join(names)}")
    taken = y.astype(np.float32)
    return taken[:, 0] if kind == "values" and len(names) == 1 else taken


def _find_classes(table: Table, name: str) -> list[str]:
    """Return the classes of a column, sorted as numbers if all are, else as text."""
    values = f"SELECT DISTINCT x, {number(table, 'x')} AS n FROM ({cells(table, [name])}) WHERE x IS NOT NULL"
    pairs = table.fetch(f"{values} LIMIT {MOST_CLASSES + 1}")
    if len(pairs) > MOST_CLASSES:
        raise GpmError(f"{table.title}: the target {name!r} has more than {MOST_CLASSES:,} classes; set kind: number.")
    if any(n is None for _, n in pairs):
        return sorted(x for x, _ in pairs)
    return [x for x, n in sorted(pairs, key=lambda pair: (pair[1], pair[0]))]


def _read_classes(table: Table, name: str, classes: list[str]) -> NDArray[np.int64]:
    y = np.full(table.count(), -1, dtype=np.int64)
    with coded(table, [name], [classes]) as read:
        for frame in table.chunks(f"SELECT gpm_row, k FROM ({read})"):
            y[frame["gpm_row"].to_numpy()] = index = frame["k"].to_numpy()
            if (index < 0).any():
                where, cell = first_cell(table, read, "k < 0")
                near = nearest(cell, classes) or f" The classes are {', '.join(classes[:10])}."
                raise GpmError(f"{where}: {cell[:60]!r} in column {name!r} is not a class of the training data.{near}")
    return y
