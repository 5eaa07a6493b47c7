"""Regression: one or several numbers per node or graph, standardised for training, reported in their own units."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError
from gpm.io.table_files import distinct
from gpm.tasks.metrics import METRICS

MARGIN = 0.1  # by which a prediction may leave the range of the training targets, as a share of the range


@dataclass(frozen=True, eq=False)
class ValueTask:
    """Predict one or several numbers.

    A prediction far outside the range of the training targets comes from an input unlike any in training, and is nearly
    always wrong. So predictions are limited to that range and a margin.
    """

    metric: str  # mae or rmse; the loss is the absolute or the squared error that goes with it
    mean: list[float]  # of each number in the training split [C]
    scale: list[float]  # the standard deviation likewise
    targets: Tensor = field(default_factory=lambda: torch.zeros(0, 1))  # in their own units [N, C], NaN where unknown
    target_names: tuple[str, ...] = ()  # empty if the numbers have no names
    low: list[float] = field(
        default_factory=list
    )  # limits of the predictions [C]; models of earlier versions have none
    high: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, values: NDArray, metric: str, train: NDArray) -> ValueTask:
        """Make the task of numbers `[N]` or `[N, C]`; statistics are those of the training split."""
        targets = _columns(values)
        if metric not in ("mae", "rmse"):
            raise GpmError(f"{metric} is for classes, but the targets are numbers; choose --metric mae or rmse.")
        known = targets[torch.from_numpy(np.array(train))].double()
        if known.isnan().all(0).any():
            raise GpmError("A target is unknown for all instances of the training split; leave it out.")
        mean = known.nanmean(0)
        scale = (known - mean).square().nanmean(0).sqrt()
        low, high = known.nan_to_num(math.inf).amin(0), known.nan_to_num(-math.inf).amax(0)
        margin = MARGIN * (high - low)
        return cls(
            metric, mean.tolist(), torch.where(scale > 0, scale, 1.0).tolist(), targets,
            low=(low - margin).tolist(), high=(high + margin).tolist(),
        )  # fmt: skip

    @classmethod
    def from_facts(cls, facts: dict[str, Any], values: NDArray | None) -> ValueTask:
        """Make the task of a trained model, with targets or without."""
        targets = torch.zeros(0, len(facts["mean"])) if values is None else _columns(values)
        names = tuple(map(str, facts.get("target_names") or ()))
        limits = {key: facts.get(key, []) for key in ("low", "high")}
        return cls(facts["metric"], facts["mean"], facts["scale"], targets, names, **limits)

    def facts(self) -> dict[str, Any]:
        """Return what a run folder stores of the task."""
        return {
            "kind": "values", "metric": self.metric, "mean": self.mean, "scale": self.scale, "low": self.low,
            "high": self.high, "target_names": list(self.target_names),
        }  # fmt: skip

    @property
    def outputs(self) -> int:
        return len(self.mean)

    @property
    def names(self) -> list[Any]:
        """Names of the numbers; indices if they have no names."""
        return list(self.target_names) if len(self.target_names) == self.outputs else list(range(self.outputs))

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean absolute or squared error of the known targets, in standard deviations."""
        wanted = (targets - targets.new_tensor(self.mean)) / targets.new_tensor(self.scale)
        known = ~targets.isnan()
        measure = functional.l1_loss if self.metric == "mae" else functional.mse_loss
        return measure(logits[known], wanted[known].to(logits.dtype))

    def count(self, targets: Tensor) -> int:
        """Return the number of terms of the loss: known targets."""
        return int((~targets.isnan()).sum())

    def answers(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """Return numbers in their own units `[B, C]`, within the limits; they have no temperature."""
        numbers = self.unlimited(logits)
        if not self.low:
            return numbers
        return numbers.clamp(*(torch.tensor(each, dtype=torch.float64) for each in (self.low, self.high)))

    def unlimited(self, logits: Tensor) -> Tensor:
        """Return numbers in their own units `[B, C]`, before the limits: an explanation has to see what raises them."""
        mean, scale = (torch.tensor(each, dtype=torch.float64) for each in (self.mean, self.scale))
        return logits.double() * scale + mean

    def in_units(self, spread: Tensor) -> Tensor:
        """Convert a spread of logits `[B, C]` to the numbers' own units."""
        return spread.double() * torch.tensor(self.scale, dtype=torch.float64)

    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """Return MAE and RMSE in the targets' own units, the mean over columns, and the loss."""
        error = self.answers(logits) - targets
        each = {"mae": error.abs().nanmean(0), "rmse": error.square().nanmean(0).sqrt()}
        order = [self.metric, *(name for name in each if name != self.metric)]
        return {name: float(each[name].nanmean()) for name in order} | {"loss": float(self.loss(logits, targets))}

    def table(self, logits: Tensor, temperature: float = 1.0) -> dict[str, Any]:
        """Return the predictions by column."""
        answers = self.answers(logits).float().numpy()
        return {name: answers[:, i] for i, name in enumerate(self.columns("prediction"))}

    def truth(self, targets: Tensor) -> dict[str, Any]:
        """Return the true numbers by column, NaN where they are unknown."""
        return {name: targets[:, i].float().numpy() for i, name in enumerate(self.columns("label_true"))}

    def columns(self, what: str) -> list[str]:
        """Return the name of a column for each number."""
        return [what] if self.outputs == 1 else distinct([f"{what}_{name}" for name in self.names])

    def describe(self) -> str:
        """Describe the task: how many numbers, and the metric."""
        what = "a number" if self.outputs == 1 else f"{self.outputs} numbers"
        return f"{what}, {METRICS[self.metric].title}"


def _columns(values: NDArray) -> Tensor:
    wide = values[:, None] if values.ndim == 1 else values
    return torch.from_numpy(np.array(wide, dtype=np.float32))
