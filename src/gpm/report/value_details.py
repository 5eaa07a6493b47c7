"""Details of predicted numbers: errors, intervals from validation errors, the largest mistakes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gpm.inference.opened import OpenedRun
from gpm.report.charts import Chart, Figure, Series, widen
from gpm.report.content import MOST_SHOWN, Details, Section, Table, name_instances, show_name
from gpm.report.diagnostics import COVERAGE, Statistic, describe_residuals
from gpm.tasks import ValueTask

MOST_DOTS = 1500  # of a scatter plot
MOST_NUMBERS = 4  # predicted columns with charts of their own
BLOCKS = 30  # of a histogram


def describe_values(
    run: OpenedRun, task: ValueTask, logits: Mapping[str, Tensor], truth: Mapping[str, Tensor]
) -> Details:  # fmt: skip
    said = {part: task.answers(logits[part]).numpy() for part in logits if part in truth}
    names = [str(name) for name in task.target_names] or [
        f"value {i}" if task.outputs > 1 else "value" for i in range(task.outputs)
    ]
    figures: list[Figure] = []
    rows, numbers = [], []
    for i, name in enumerate(names):
        true, held = truth["test"][:, i].numpy(), truth["val"][:, i].numpy()
        found = describe_residuals(name, true, said["test"][:, i], held, said["val"][:, i])
        shown = [f"{found.mae:.4g}", f"{found.rmse:.4g}", "-" if found.r2 is None else f"{found.r2:.3f}"]
        shown += ["-", "-"] if found.width is None else [f"± {found.width:.4g}", f"{found.coverage:.1%}"]
        rows.append([name, f"{len(found.true):,}", *shown])
        numbers.append({
            "name": name, "count": len(found.true), "mae": found.mae, "rmse": found.rmse, "r2": found.r2,
            "interval": found.width, "coverage": found.coverage,
        })  # fmt: skip
        if i < MOST_NUMBERS and len(found.true):
            figures += _draw_residuals(found.true, found.predicted, name, f"-{i}" if i else "")
    first = truth["test"][:, 0].numpy()
    error = np.abs(said["test"][:, 0] - first)
    known = np.flatnonzero(np.isfinite(error))
    order = known[np.argsort(-error[known], kind="stable")][:MOST_SHOWN]
    told = name_instances(run, run.split.test[order])
    worst = Table(
        [run.data.level, "true", "predicted", "error"],
        [[show_name(name), f"{first[i]:.4g}", f"{said['test'][i, 0]:.4g}", f"{said['test'][i, 0] - first[i]:+.4g}"]
         for name, i in zip(told, order, strict=True)],
        instances=told,
        flags=["--target", names[0]] if len(names) > 1 else [],
    )  # fmt: skip
    about = (
        f"The interval holds {COVERAGE:.0%} of the validation errors; coverage is the share of the test split inside."
    )
    head = ["target", "in test", "MAE", "RMSE", "R²", "interval", "coverage"]
    sections = [
        Section("Errors", about, figures, [Table(head, rows)]),
        Section("Largest errors", "" if len(names) == 1 else f"Of {names[0]}.", tables=[worst]),
    ]
    return Details(sections, numbers={"targets": numbers})


def _draw_residuals(true: NDArray, predicted: NDArray, name: str, suffix: str) -> list[Figure]:
    some = np.linspace(0, len(true) - 1, min(len(true), MOST_DOTS)).astype(np.int64)
    both = np.concatenate([true, predicted[np.isfinite(predicted)]])
    span = widen(float(both.min()), float(both.max()))
    ends = np.array(span)
    error = (predicted - true)[np.isfinite(predicted)]
    widest = float(np.abs(error).max(initial=0.0)) or 1.0
    counts, edges = np.histogram(error, BLOCKS, (-widest, widest))
    return [
        Chart(f"predicted{suffix}", f"{name}: predicted and true", "true", "predicted",
              [Series(true[some], predicted[some], kind="dots"), Series(ends, ends, kind="dashed")], span, span),
        Chart(f"errors{suffix}", f"{name}: errors", "predicted minus true", "instances",
              [Series(edges, counts, kind="blocks")], marks=[(0.0, "")]),
    ]  # fmt: skip


def find_value_statistic(task: ValueTask, logits: Tensor, truth: Tensor) -> Statistic | None:
    """Return the metric as a function of how often each test instance is drawn; None if it is not resampled."""
    error = (task.answers(logits) - truth).numpy()
    if error.shape[1] > 1 or not np.isfinite(error).all() or not len(error):
        return None
    power = 1 if task.metric == "mae" else 2
    size = np.abs(error[:, 0]) ** power
    return Statistic(lambda drawn: float(((drawn @ size) / drawn.sum()) ** (1 / power)), len(size))
