"""Several runs on the same split: ranked on validation, with intervals of how far each is behind the first on test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from gpm.errors import GpmError
from gpm.inference.opened import OpenedRun
from gpm.io.table_files import write_table
from gpm.report.details import find_statistic
from gpm.run.run import Run
from gpm.tasks.metrics import METRICS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Compared:
    """A run of a comparison. Intervals are 95%, from the same resamples of the test split; None where there is none."""

    run: str
    model: str
    val: float
    test: float
    low: float | None
    high: float | None
    behind: float | None  # the test score minus that of the run that is best on validation; None for that run
    behind_low: float | None
    behind_high: float | None
    parameters: int
    seconds: float

    @property
    def verdict(self) -> str:
        """Say whether the run differs from the one that is best on validation."""
        if self.behind is None:
            return "best on validation"
        if self.behind_low is None or self.behind_high is None:
            return ""
        return "may be chance" if self.behind_low <= 0 <= self.behind_high else "differs"


@dataclass(frozen=True)
class Comparison:
    """Runs on one split, the best on validation first."""

    metric: str
    split: str  # its name and digest
    rows: tuple[Compared, ...]

    def columns(self) -> dict[str, list[Any]]:
        """Return the table by column."""
        rows = [asdict(row) | {"verdict": row.verdict} for row in self.rows]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def frame(self) -> pd.DataFrame:
        """Return the table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def save(self, path: str | Path) -> None:
        """Write the table: .csv, .tsv, .parquet or .jsonl."""
        write_table(Path(path), self.columns())

    def lines(self) -> list[str]:
        """Return the table as lines to print."""
        kind = METRICS[self.metric]
        head = ["run", "model", "validation", "test", "95% interval", "difference on test", "", "parameters", "seconds"]
        rows = [head]
        for row in self.rows:
            interval = "-" if row.low is None or row.high is None else f"{kind.show(row.low)} to {kind.show(row.high)}"
            rows.append([
                row.run, row.model, kind.show(row.val), kind.show(row.test), interval, _show_gap(row, kind.share),
                row.verdict, f"{row.parameters:,}", f"{row.seconds:,.0f}",
            ])  # fmt: skip
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return [f"{kind.title}, split {self.split}", *table]


def compare(runs: Sequence[str | Path | Run], data: Any = None, *, device: str = "auto") -> Comparison:
    """Compare runs that were scored on the same split.

    Runs are ranked on validation, so that the test split chooses nothing. Differences on test are resampled in pairs:
    every resample of the instances scores both runs.

    Args:
        runs: Run folders, or opened runs.
        data: The data of the runs, if it was in memory.
        device: auto, cpu, cuda, cuda:1 or mps.
    """
    if len(runs) < 2:
        raise GpmError(f"A comparison needs at least two runs, got {len(runs)}.")
    opened = [run if isinstance(run, Run) else Run.open(run, data, device=device) for run in runs]
    _check_alike(opened)
    metric, found = opened[0].result["metric"], []
    for run in opened:
        logits = run.read("test")
        truth = run.task.targets[torch.tensor(run.split.test)]
        found.append((run, run.score("test", logits)[metric], find_statistic(run.task, logits, truth)))
    sign = 1 if METRICS[metric].larger else -1
    found.sort(key=lambda each: -sign * each[0].result["val"][metric])
    best_score, best = found[0][1], found[0][2]
    names = _name_runs([run for run, *_ in found])
    rows: list[Compared] = []
    for name, (run, score, mine) in zip(names, found, strict=True):
        interval, gap, first = None if mine is None else mine.interval(), None, not rows
        if not first and mine is not None and best is not None:
            gap = mine.interval_above(best)
        low, high = interval or (None, None)
        behind_low, behind_high = gap or (None, None)
        rows.append(
            Compared(
                run=name, model=run.config.model, val=run.result["val"][metric], test=score, low=low, high=high,
                behind=None if first else score - best_score, behind_low=behind_low, behind_high=behind_high,
                parameters=run.metadata["parameters"], seconds=run.result["train_seconds"],
            )
        )  # fmt: skip
    split = opened[0].split
    return Comparison(metric, f"{split.name} ({split.digest})", tuple(rows))


def _check_alike(runs: Sequence[OpenedRun]) -> None:
    """Refuse runs whose scores do not compare."""
    first = runs[0]
    for run in runs[1:]:
        for what in ("task", "metric", "split_digest"):
            mine, theirs = (each.result.get(what) for each in (first, run))
            if mine != theirs:
                named = what.replace("split_digest", "split")
                raise GpmError(
                    f"{first.folder} and {run.folder} do not compare: their {named} is {mine} and {theirs}; train them "
                    "on the same data with the same --seed, --split, --task and --metric."
                )


def _name_runs(runs: Sequence[OpenedRun]) -> list[str]:
    """Return the shortest names that tell the folders apart."""
    names = [run.folder.name for run in runs]
    return names if len(set(names)) == len(names) else [str(run.folder) for run in runs]


def _show_gap(row: Compared, share: bool) -> str:
    if row.behind is None:
        return ""

    def say(value: float) -> str:
        return f"{100 * value:+.2f}" if share else f"{value:+.4g}"

    if row.behind_low is None or row.behind_high is None:
        return say(row.behind)
    return f"{say(row.behind)} ({say(row.behind_low)} to {say(row.behind_high)})"
