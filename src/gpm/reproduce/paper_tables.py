"""The tables of the paper, from `tables.yaml`: its figures, and the runs that belong beside them."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from gpm.errors import GpmError
from gpm.io.yaml_files import parse_yaml

UNKNOWN = 60.0  # minutes that a run is expected to take whose cost is not known

Cell = tuple[float, float] | str | None  # mean and standard deviation; a word such as OOM; nothing


@dataclass(frozen=True)
class Column:
    """A dataset, and the recipe that stands for it."""

    title: str
    recipe: str


@dataclass(frozen=True)
class Published:
    """A row of figures copied from the paper, one per column."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Ours:
    """A row of runs: every recipe with the same options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    beside: str = ""  # the row of the paper that it compares with; empty if none does
    cost: float = 1.0  # of a run, in units of the recipe's


@dataclass(frozen=True)
class Table:
    """A table of the paper, with our rows."""

    number: int
    title: str
    columns: tuple[Column, ...]
    paper: tuple[Published, ...]
    ours: tuple[Ours, ...]
    note: str = ""

    def published(self, name: str) -> Published | None:
        """Return the row of the paper with a name."""
        return next((row for row in self.paper if row.name == name), None)


def _read() -> dict[str, Any]:
    text = (resources.files("gpm.reproduce") / "tables.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = parse_yaml(text, "tables.yaml")
    return content


@functools.cache
def read_tables() -> tuple[Table, ...]:
    """Return all tables, by number."""
    return tuple(_make(entry) for entry in _read()["tables"])


def _make(entry: dict[str, Any]) -> Table:
    columns = tuple(Column(**column) for column in entry["columns"])
    paper = tuple(
        Published(row["name"], tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row["cells"]))
        for row in entry["paper"]
    )
    ours = tuple(Ours(**row) for row in entry["ours"])
    return Table(entry["number"], entry["title"], columns, paper, ours, entry.get("note", ""))


@functools.cache
def _minutes() -> dict[str, float]:
    return {name: float(value) for name, value in _read()["minutes"].items()}


def estimate_minutes(recipe: str, cost: float) -> float:
    """Return about how long a run takes on one core."""
    return _minutes().get(recipe, UNKNOWN) * cost


def is_measured(recipe: str) -> bool:
    """Return whether it is known how long a run takes."""
    return recipe in _minutes()


def choose_tables(numbers: str) -> list[Table]:
    """Return the tables with some numbers, such as "1,9"; all if there are none."""
    tables = {str(table.number): table for table in read_tables()}
    wanted = [number.strip().removeprefix("table-") for number in numbers.split(",") if number.strip()]
    for number in wanted:
        if number not in tables:
            raise GpmError(f"Table {number!r} is not among those that can be reproduced: {', '.join(tables)}.")
    return [tables[number] for number in wanted] if wanted else list(tables.values())


def deviations(mean: float, cell: Cell, larger: bool) -> float:
    """Return by how many of the paper's standard deviations a mean is better than its mean; NaN if it has none."""
    if not isinstance(cell, tuple) or cell[1] <= 0:
        return math.nan
    return (mean - cell[0]) / cell[1] * (1 if larger else -1)
