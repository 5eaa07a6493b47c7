"""Calibration on the validation part: a temperature for probabilities, a width for the intervals of numbers.

A temperature divides the logits before they become probabilities (Guo et al., 2017): the one that makes the labels of
the validation part most likely. It never changes what is predicted. Probabilities of links are among as many non-edges
as the validation part has.

The interval of a number is its spread over draws of patterns plus the usual error, times a factor: the one with which 9
in 10 numbers of the validation part lie inside (split conformal prediction). It covers the errors of the model as they
are there. It does not cover graphs that are unlike it, and as the epoch was chosen on the same part, it may be a little
narrow.

Both are found once and kept as `calibration.json` in the run folder.
"""

from __future__ import annotations

import hashlib
import logging
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from torch import Tensor

from gpm.errors import GpmError
from gpm.inference.redraws import LEVEL, measure_spread, spread_factor
from gpm.io.atomic import write_json
from gpm.io.json_schema import read_checked
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask
from gpm.tasks.metrics import cool

if TYPE_CHECKING:
    from gpm.run.run import Run

FILE = "calibration.json"
COLDEST, HOTTEST = 1 / 20, 20.0  # of a validation part without a mistake, the likeliest temperature would be 0
BINS = 15
_Factor = Annotated[float, Meta(ge=0, lt=1e300)]
_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class Calibration:
    """What was found on the validation part.

    Attributes:
        key: What it belongs to: weights, patterns and draws.
        temperature: Of probabilities.
        floor, factor: Of intervals, for each number `[C]`: what is added to its spread, and what the sum is times.
        figures: How many instances it was found on, and what it changed there.
    """

    key: dict[str, Any]
    temperature: Annotated[float, Meta(ge=COLDEST, le=HOTTEST)] = 1.0
    floor: list[_Factor] = field(default_factory=list)
    factor: list[_Factor] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def widths(self, spread: Tensor) -> Tensor:
        """Half the widths of intervals `[B, C]` from spreads in the numbers' own units."""
        return (spread + spread.new_tensor(self.floor)) * spread.new_tensor(self.factor)


def calibrate(run: Run, *, draws: int, patterns: int | None = None, progress: bool = False) -> Calibration:
    """Find the calibration of a run, or read it where it was found before.

    Args:
        run: The run; opened on other data, it is calibrated on the validation part of its own.
        draws: Of patterns, for intervals.
        patterns: Per instance; by default the whole pool.
        progress: Show a bar.
    """
    from gpm.run.run import WEIGHTS

    weights = hashlib.sha256((run.folder / WEIGHTS).read_bytes()).hexdigest()
    key = {"weights": weights, "patterns": patterns, "draws": draws if run.predicts_values else None}
    if (kept := _read(run.folder / FILE, key, run)) is not None:
        return kept
    home = run.home
    try:
        home.data  # noqa: B018 - whether it is there
    except GpmError as error:
        raise GpmError(f"calibration needs the validation part of what {run.folder} was trained on: {error}") from None
    logits, task = home.read("val", patterns=patterns, progress=progress), home.task
    targets = task.targets[torch.tensor(home.split.val)]
    if isinstance(task, ValueTask):
        inputs = home.inputs(home.split.val)
        spread = measure_spread(home.predictor, inputs, logits, draws=draws, patterns=patterns, progress=progress)
        found = fit_intervals(task, logits, targets, task.in_units(spread), draws)
    else:
        found = fit_temperature(task, logits, targets)
    found = replace(found, key=key)
    try:
        write_json(run.folder / FILE, asdict(found))
    except GpmError as error:
        _log.warning("the calibration is not kept: %s", error)
    return found


def fit_temperature(task: Task, logits: Tensor, targets: Tensor) -> Calibration:
    """The temperature that makes some labels most likely, between 1/20 and 20."""
    assert isinstance(task, (ClassTask, LinkTask))
    plain = replace(task, smoothing=0.0)
    wanted = targets.double() if targets.is_floating_point() else targets
    logits = logits.double()

    def loss(logarithm: float) -> float:
        return float(plain.loss(cool(logits, math.exp(logarithm)), wanted))

    best = minimize_scalar(loss, bounds=(math.log(COLDEST), math.log(HOTTEST)), method="bounded").x
    temperature = math.exp(best) if loss(best) < loss(0.0) else 1.0
    figures = {
        "count": len(logits),
        "ece_before": calibration_error(task, logits, targets),
        "ece_after": calibration_error(task, logits, targets, temperature),
        "nll_before": loss(0.0),
        "nll_after": loss(math.log(temperature)),
    }
    _log.info(
        "calibrated on %d of the validation part: temperature %.3f; ECE %.4f before, %.4f after; NLL %.4f, %.4f",
        len(logits), temperature, *list(figures.values())[1:],
    )  # fmt: skip
    return Calibration({}, temperature, figures=figures)


def calibration_error(task: Task, logits: Tensor, targets: Tensor, temperature: float = 1.0) -> float:
    """ECE: how far sureness is from the share of right answers, the mean over answers in 15 bins of sureness.

    Of classes it is the sureness of the predicted one; of labels and links, the probability of yes.
    """
    chances = task.answers(logits, temperature).double().numpy()
    if isinstance(task, ClassTask) and not task.multilabel:
        sure, right = chances.max(1), chances.argmax(1) == targets.numpy()
    else:
        wanted = targets.double().reshape(chances.shape).numpy()
        known = ~np.isnan(wanted)
        sure, right = chances[known], wanted[known]
    bins = np.minimum((sure * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, sure - right, BINS)
    return float(np.abs(gaps).sum() / max(1, len(sure)))


def fit_intervals(task: ValueTask, logits: Tensor, targets: Tensor, spread: Tensor, draws: int) -> Calibration:
    """The widths with which 9 in 10 of some numbers lie inside.

    Args:
        task: What the numbers are.
        logits: `[B, C]`.
        targets: `[B, C]` in their own units, NaN where unknown.
        spread: Of the answers `[B, C]`, in their own units.
        draws: That it was found from.
    """
    errors = (task.answers(logits) - targets).abs().numpy()
    spreads = spread.numpy()
    floor, factor = [], []
    for column, scale in enumerate(task.scale):
        known = ~np.isnan(errors[:, column])
        least = max(float(np.median(errors[known, column])) if known.any() else 0.0, 1e-9 * scale)
        scores = errors[known, column] / (spreads[known, column] + least)
        floor.append(least)
        factor.append(_find_quantile(scores))
    found = Calibration({}, floor=floor, factor=factor)
    inside = {"before": spread_factor(draws) * spread, "after": found.widths(spread)}
    figures = {f"inside_{when}": _share_inside(errors, width.numpy()) for when, width in inside.items()}
    figures = {"count": len(logits)} | figures
    _log.info(
        "calibrated on %d of the validation part: %.1f%% of its numbers were inside their intervals, %.1f%% are",
        len(logits), 100 * figures["inside_before"], 100 * figures["inside_after"],
    )  # fmt: skip
    return replace(found, figures=figures)


def _find_quantile(scores: NDArray) -> float:
    """The smallest of n scores that a new one exceeds at most once in ten times."""
    place = math.ceil((len(scores) + 1) * LEVEL)
    if place > len(scores):
        raise GpmError(
            f"the validation part has {len(scores)} known numbers, and 9 are needed to calibrate; choose a larger part "
            "with --split, or leave out --calibrate."
        )
    return float(np.sort(scores)[place - 1])


def _share_inside(errors: NDArray, widths: NDArray) -> float:
    known = ~np.isnan(errors)
    return float((errors <= widths * (1 + 1e-9))[known].mean())


def _read(path: Path, key: dict[str, Any], run: Run) -> Calibration | None:
    """The calibration in a file, if it is what is wanted; a file that is damaged is found anew."""
    if not path.is_file():
        return None
    try:
        found = read_checked(path, Calibration)
    except GpmError:
        return None
    wanted = len(run.facts["mean"]) if run.predicts_values else 0
    return found if found.key == key and len(found.floor) == len(found.factor) == wanted else None
