"""The parts that a report is made of: sections with figures and tables, and the training curves."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.inference.opened import OpenedRun
from gpm.io.run_files import HISTORY
from gpm.report.charts import Chart, Figure, Series
from gpm.report.diagnostics import Ranked
from gpm.tasks.metrics import METRICS

MOST_SHOWN = 12  # mistakes
Name = tuple[str, ...]  # of a node or a graph, or of the two ends of a link


@dataclass(frozen=True)
class Table:
    """A table of a section. Cells are text; numbers among them are formatted."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    texts: int = 1  # columns from the left that hold text; the others hold numbers
    instances: Sequence[Name] = ()  # one per row, of which an explanation can be asked
    flags: Sequence[str] = ()  # that `gpm explain` needs for them


@dataclass(frozen=True)
class Section:
    """A part of a report."""

    title: str
    about: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True)
class Details:
    """What a report adds to the scores of a run."""

    sections: Sequence[Section]
    interval: tuple[float, float] | None = None  # 95%, of the metric on the test split
    numbers: dict[str, Any] = field(default_factory=dict)  # the same as plain values


def name_instances(run: OpenedRun, ids: NDArray) -> list[Name]:
    """Name some instances of the split as the commands take them."""
    if not len(ids):
        return []
    columns = list(run.name(run.inputs(ids)).values())
    return [tuple(map(str, names)) for names in zip(*columns[: 2 if run.data.level == "link" else 1], strict=True)]


def show_name(name: Name) -> str:
    """Return the name of an instance as it is shown."""
    return " and ".join(name)


def draw_curves(classes: Sequence[tuple[str, NDArray, NDArray]]) -> list[Chart]:
    ranked = [(name, Ranked.of(true, score)) for name, true, score in classes if true.any() and not true.all()]
    if not ranked:
        return []
    guess = Series(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "a guess", "dashed")
    share = (0.0, 1.0)
    roc = [Series(*each.roc(), name) for name, each in ranked]
    found = [Series(*each.precision_recall(), name) for name, each in ranked]
    return [
        Chart("roc", "ROC curve", "false-positive rate", "true-positive rate", [*roc, guess], share, share),
        Chart("precision-recall", "Precision and recall", "recall", "precision", found, share, share),
    ]


def read_curves(folder: Path, metric: str, best: int | None) -> list[Chart]:
    """Draw the training curves: the loss, and the validation metric with the epoch that was kept."""
    path = folder / HISTORY
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    charts, kind = [], METRICS[metric]
    marks = [(float(best), f"kept: {best}")] if best else []
    wanted = {"train_loss": "training", "val_loss": "validation"}
    losses = [_read_series(rows, column, name) for column, name in wanted.items()]
    if any(losses):
        charts.append(Chart("loss", "Loss", "epoch", "loss", [s for s in losses if s], marks=marks))
    if metric != "loss" and (scores := _read_series(rows, f"val_{metric}", "validation")):
        charts.append(Chart("metric", f"Validation {kind.title}", "epoch", kind.title, [scores], marks=marks))
    return charts


def _read_series(rows: Sequence[Mapping[str, str]], column: str, name: str) -> Series | None:
    points = [(float(row["epoch"]), float(row[column])) for row in rows if row.get(column)]
    points = [point for point in points if np.isfinite(point[1])]
    if not points:
        return None
    x, y = np.array(points).T
    return Series(x, y, name)
