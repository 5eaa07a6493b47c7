"""The tables and figures of the paper, and further ones, from `tables.yaml`: published values, and our runs."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from gpm.io.yaml_files import parse_yaml

UNKNOWN = 60.0  # minutes that a run is expected to take whose cost is not known

Cell = tuple[float, float] | float | str | None  # mean and standard deviation; mean alone; a word such as OOM; nothing

# What a table may show of a run, and how its rows are named then.
MEASURES = {
    "test": "",
    "train": "on the training split",
    "fresh": "on permuted copies, walks under another seed",
    "other": "epoch chosen on the source",
    "epoch": "seconds per epoch",
    "parameters": "million parameters",
}


@dataclass(frozen=True)
class Column:
    """A dataset, and the recipe that stands for it."""

    title: str
    recipe: str = ""
    seeds: int = 0  # number of seeds, where they choose published folds; 0: as asked for
    at: float = math.nan  # place on the axis of a figure
    mean_of: tuple[str, ...] = ()  # titles of columns whose mean this is, without runs of its own
    options: dict[str, Any] = field(default_factory=dict)  # of rows with patterns, beside those of the table
    networks: dict[str, Any] = field(default_factory=dict)  # of rows with another model


@dataclass(frozen=True)
class Published:
    """A row of published figures, one per column."""

    name: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Ours:
    """A row of runs: every recipe with the same options."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    beside: str = ""  # the row of the paper that it compares with; empty if none does
    cost: float = 1.0  # of a run, in units of the recipe's
    drawn: bool = True  # in the figure of its table

    @property
    def model(self) -> str:
        return str(self.options.get("model", "gpm"))


@dataclass(frozen=True)
class Table:
    """A table or figure of the paper, or a further one, with our rows."""

    name: str  # such as "Table 8" or "Figure 7"; without a number, it is not one of the paper's
    title: str
    columns: tuple[Column, ...]
    paper: tuple[Published, ...]
    ours: tuple[Ours, ...]
    note: str = ""
    source: str = "paper"  # where the published rows are copied from
    show: tuple[str, ...] = ("test",)  # of a run, see `MEASURES`
    base: dict[str, Any] = field(default_factory=dict)  # options of all rows with patterns, beside their own
    networks: dict[str, Any] = field(default_factory=dict)  # options of all rows with another model
    ablation: bool = False  # its runs come after those of other tables
    plot: str = ""  # "columns" (a line per row), "parameters" (a line per column) or "curves" (of the training)
    axis: str = ""  # what `Column.at` is

    @property
    def id(self) -> str:
        return self.name.lower().replace(" ", "-")

    @property
    def cited(self) -> str:
        """The source in a sentence."""
        return "the paper" if self.source == "paper" else self.source

    @property
    def rank(self) -> tuple[int, int]:
        """Place among all pages."""
        return rank_of(self.name)

    @property
    def extras(self) -> frozenset[str]:
        """What is measured of a run beyond its result."""
        return frozenset(self.show) & {"train", "fresh", "other"}

    def published(self, name: str) -> Published | None:
        """Return the row of the paper with a name."""
        return next((row for row in self.paper if row.name == name), None)


def rank_of(name: str) -> tuple[int, int]:
    """Return where a page stands by its name: tables of the paper, then its figures, by number, then all others."""
    kind, _, rest = name.partition(" ")
    kinds, number = ("Table", "Figure", "Figures"), rest.partition(" ")[0]
    return (kinds.index(kind) > 0, int(number)) if kind in kinds and number.isdigit() else (2, 0)


def _read() -> dict[str, Any]:
    text = (resources.files("gpm.reproduce") / "tables.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = parse_yaml(text, "tables.yaml")
    return content


@functools.cache
def read_tables() -> tuple[Table, ...]:
    """Return all tables and figures, in their order."""
    return tuple(sorted((_make(entry) for entry in _read()["tables"]), key=lambda table: table.rank))


def _make(entry: dict[str, Any]) -> Table:
    paper = tuple(
        Published(row["name"], tuple(tuple(cell) if isinstance(cell, list) else cell for cell in row["cells"]))
        for row in entry.get("paper", [])
    )
    rows = {
        "columns": tuple(
            Column(**column | {"mean_of": tuple(column.get("mean_of", ()))}) for column in entry["columns"]
        ),
        "paper": paper,
        "ours": tuple(Ours(**row) for row in entry["ours"]),
        "show": tuple(entry.get("show", ("test",))),
    }
    return Table(**entry | rows)


@functools.cache
def _minutes() -> dict[str, float]:
    return {name: float(value) for name, value in _read()["minutes"].items()}


def estimate_minutes(recipe: str, cost: float) -> float:
    """Return about how long a run takes on one core."""
    return _minutes().get(recipe, UNKNOWN) * cost


def is_measured(recipe: str) -> bool:
    """Return whether it is known how long a run takes."""
    return recipe in _minutes()


def deviations(mean: float, cell: Cell, larger: bool) -> float:
    """Return by how many of the paper's standard deviations a mean is better than its mean; NaN if it has none."""
    if not isinstance(cell, tuple) or cell[1] <= 0:
        return math.nan
    return (mean - cell[0]) / cell[1] * (1 if larger else -1)
