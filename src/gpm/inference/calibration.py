"""Calibration on the validation split: a temperature for probabilities, a width for the intervals of numbers.

A temperature divides the logits before they become probabilities (Guo et al., 2017): the one that makes the labels of
the validation split most likely. It never changes which class is predicted. Probabilities of links assume as many
non-edges as the validation split has.

The interval of a number is its spread over independent draws of patterns plus the median error, times a factor: the one
with which 9 in 10 numbers of the validation split lie inside (split conformal prediction). It covers the errors of the
model on data like the validation split. As the epoch was chosen on the same split, it may be a little narrow.

Both are computed once and kept as `calibration.json` in the run folder.
"""

from __future__ import annotations

import hashlib
import logging
import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from torch import Tensor

from gpm.errors import GpmError, whole_number
from gpm.inference.opened import OpenedRun
from gpm.io.atomic import write_json
from gpm.io.json_schema import read_checked
from gpm.io.run_files import WEIGHTS
from gpm.nn.predictor import Predictor, Predicts
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask
from gpm.tasks.metrics import cool

FILE = "calibration.json"
DRAWS = 8
LEVEL = 0.9  # share of intervals that must hold the value
COLDEST, HOTTEST = 1 / 20, 20.0  # on a validation split without a mistake, the likeliest temperature would be 0
BINS = 15
_Factor = Annotated[float, Meta(ge=0, lt=1e300)]
_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class Calibration:
    """A calibration fitted on the validation split."""

    key: dict[str, Any]  # the weights, patterns and draws it belongs to
    temperature: Annotated[float, Meta(ge=COLDEST, le=HOTTEST)] = 1.0  # the divisor of the logits
    floor: list[_Factor] = field(default_factory=list)  # [C]: half an interval is (spread + floor) * factor
    factor: list[_Factor] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)  # number of instances, and measures before and after

    def widths(self, spread: Tensor) -> Tensor:
        """Return half the widths of intervals `[B, C]`, from spreads in the units of the numbers."""
        return (spread + spread.new_tensor(self.floor)) * spread.new_tensor(self.factor)


def calibrate_run(run: OpenedRun, *, draws: int, patterns: int | None = None, progress: bool = False) -> Calibration:
    """Fit the calibration of a run on the validation split of its training data, or read it if it was fitted before.

    `draws` of patterns are for intervals; each instance has so many `patterns`, by default the whole pool.
    """
    weights = hashlib.sha256((run.folder / WEIGHTS).read_bytes()).hexdigest()
    key = {"weights": weights, "patterns": patterns, "draws": draws if run.predicts_values else None}
    if (kept := _read(run.folder / FILE, key, run)) is not None:
        return kept
    home = run.home
    try:
        home.data  # noqa: B018 - fails if the data cannot be read
    except GpmError as error:
        raise GpmError(f"Calibration needs the validation split that {run.folder} was trained with: {error}") from None
    logits, task = home.read("val", patterns=patterns, progress=progress), home.task
    targets = task.targets[torch.tensor(home.split.val)]
    if isinstance(task, ValueTask):
        inputs = home.inputs(home.split.val)
        spread = measure_spread(home.predictor, inputs, logits, draws=draws, patterns=patterns, progress=progress)
        fitted = fit_intervals(task, logits, targets, task.in_units(spread), draws)
    else:
        fitted = fit_temperature(task, logits, targets)
    fitted = replace(fitted, key=key)
    try:
        write_json(run.folder / FILE, asdict(fitted))
    except GpmError as error:
        _log.warning("The calibration is not saved: %s", error)
    return fitted


def measure_spread(
    predictor: Predicts, inputs: Any, logits: Tensor, *, draws: int = DRAWS, patterns: int | None = None,
    progress: bool = False,
) -> Tensor:  # fmt: skip
    """Compute the standard deviation `[B, C]` of logits over draws of patterns, the first of which gave `logits`.

    A baseline draws no patterns: its spread is 0.
    """
    if whole_number(draws, "draws") < 2:
        raise GpmError(f"draws must be at least 2, since one draw has no spread, got {draws}.")
    if not isinstance(predictor, Predictor):
        return torch.zeros_like(logits, dtype=torch.float64)
    own = predictor.tokenizer
    others = (replace(predictor, tokenizer=own.redraw(own.seed + i)) for i in range(1, draws))
    drawn = [logits, *(other.logits(inputs, patterns=patterns, progress=progress) for other in others)]
    return torch.stack(drawn).double().std(0)


def spread_factor(draws: int) -> float:
    """Return how many standard deviations, estimated from so many draws, reach `LEVEL` to both sides."""
    from scipy.special import stdtrit

    return float(stdtrit(draws - 1, (1 + LEVEL) / 2))


def fit_temperature(task: Task, logits: Tensor, targets: Tensor) -> Calibration:
    """Fit the temperature, between 1/20 and 20, that makes the labels most likely."""
    from scipy.optimize import minimize_scalar

    assert isinstance(task, (ClassTask, LinkTask))
    plain = task.without_costs() if isinstance(task, ClassTask) else replace(task, smoothing=0.0)
    logits = logits.double()
    wanted = targets.double() if targets.is_floating_point() else targets

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
        "Calibrated on %d instances of the validation split: temperature %.3f; ECE %.4f before, %.4f after; "
        "NLL %.4f before, %.4f after",
        len(logits), temperature, *list(figures.values())[1:],
    )  # fmt: skip
    return Calibration({}, temperature, figures=figures)


def calibration_error(task: Task, logits: Tensor, targets: Tensor, temperature: float = 1.0) -> float:
    """Compute the expected calibration error: the mean gap between confidence and accuracy over 15 bins of confidence.

    Confidence is the probability of the predicted class; for labels and links, the probability of yes.
    """
    chances = task.answers(logits, temperature).double().numpy()
    if isinstance(task, ClassTask) and not task.multilabel:
        confidence, right = chances.max(1), chances.argmax(1) == targets.numpy()
    else:
        wanted = targets.double().reshape(chances.shape).numpy()
        labelled = ~np.isnan(wanted)
        confidence, right = chances[labelled], wanted[labelled]
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    gaps = np.bincount(bins, confidence - right, BINS)
    return float(np.abs(gaps).sum() / max(1, len(confidence)))


def fit_intervals(task: ValueTask, logits: Tensor, targets: Tensor, spread: Tensor, draws: int) -> Calibration:
    """Fit the widths with which 9 in 10 true values lie inside their intervals.

    Targets (NaN where unknown) and spreads `[B, C]` are in the units of the values.
    """
    errors = (task.answers(logits) - targets).abs().numpy()
    floor, factor = [], []
    for off, width, scale in zip(errors.T, spread.numpy().T, task.scale, strict=True):
        labelled = ~np.isnan(off)
        floor.append(max(float(np.median(off[labelled])) if labelled.any() else 0.0, 1e-9 * scale))
        factor.append(_find_quantile(off[labelled] / (width[labelled] + floor[-1])))
    fitted = Calibration({}, floor=floor, factor=factor)
    inside = {"before": spread_factor(draws) * spread, "after": fitted.widths(spread)}
    held = {when: (errors <= width.numpy() * (1 + 1e-9))[~np.isnan(errors)] for when, width in inside.items()}
    figures = {"count": len(logits)} | {f"inside_{when}": float(within.mean()) for when, within in held.items()}
    _log.info(
        "Calibrated on %d instances of the validation split: interval coverage %.1f%% before, %.1f%% after",
        len(logits), 100 * figures["inside_before"], 100 * figures["inside_after"],
    )  # fmt: skip
    return replace(fitted, figures=figures)


def _find_quantile(scores: NDArray) -> float:
    """Return the smallest of n scores that a new score exceeds at most once in ten times."""
    rank = math.ceil((len(scores) + 1) * LEVEL)
    if rank > len(scores):
        raise GpmError(
            f"The validation split has {len(scores)} labelled values, and calibration needs 9; choose a larger "
            "validation split with --split, or predict with --calibrate false."
        )
    return float(np.sort(scores)[rank - 1])


def _read(path: Path, key: dict[str, Any], run: OpenedRun) -> Calibration | None:
    """Read the calibration in a file; None if there is none, it is damaged or belongs to another model."""
    try:
        kept = read_checked(path, Calibration)
    except GpmError:
        return None
    columns = len(run.metadata["mean"]) if run.predicts_values else 0
    return kept if kept.key == key and len(kept.floor) == len(kept.factor) == columns else None
