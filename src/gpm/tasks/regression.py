"""Regression: numbers of nodes or graphs, standardised for training and reported in their own units."""

from __future__ import annotations

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


@dataclass(frozen=True, eq=False)
class ValueTask:
    """What is predicted is one or several numbers.

    Attributes:
        metric: mae or rmse; the loss is the absolute or the squared error that goes with it.
        mean, scale: Of each number in the training part, by which it is standardised `[C]`.
        targets: In their own units `[N, C]`, NaN where unknown.
        target_names: What the user calls the numbers; empty if they have no names.
    """

    metric: str
    mean: list[float]
    scale: list[float]
    targets: Tensor = field(default_factory=lambda: torch.zeros(0, 1))
    target_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: NDArray, metric: str, train: NDArray) -> ValueTask:
        """Read the task off numbers `[N]` or `[N, C]`; only those of the training part are looked at for statistics."""
        targets = _columns(values)
        if metric not in ("mae", "rmse"):
            raise GpmError(f"{metric} is for classes, but the targets are numbers; choose --metric mae or rmse.")
        known = targets[torch.from_numpy(np.array(train))].double()
        if known.isnan().all(0).any():
            raise GpmError("a target is unknown for all instances of the training part; leave it out.")
        mean = known.nanmean(0)
        scale = (known - mean).square().nanmean(0).sqrt()
        return cls(metric, mean.tolist(), torch.where(scale > 0, scale, 1.0).tolist(), targets)

    @classmethod
    def from_facts(cls, facts: dict[str, Any], values: NDArray | None) -> ValueTask:
        """The task of a trained model, on some targets or on none."""
        targets = torch.zeros(0, len(facts["mean"])) if values is None else _columns(values)
        names = tuple(map(str, facts.get("target_names") or ()))
        return cls(facts["metric"], facts["mean"], facts["scale"], targets, names)

    def facts(self) -> dict[str, Any]:
        """What a run folder remembers."""
        names = list(self.target_names)
        return {"kind": "values", "metric": self.metric, "mean": self.mean, "scale": self.scale, "target_names": names}

    @property
    def outputs(self) -> int:
        return len(self.mean)

    @property
    def names(self) -> list[Any]:
        """What each number is called: its name, or its place if it has none."""
        return list(self.target_names) if len(self.target_names) == self.outputs else list(range(self.outputs))

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Absolute or squared error in standard deviations, over the targets that are known."""
        wanted = (targets - targets.new_tensor(self.mean)) / targets.new_tensor(self.scale)
        known = ~targets.isnan()
        measure = functional.l1_loss if self.metric == "mae" else functional.mse_loss
        return measure(logits[known], wanted[known].to(logits.dtype))

    def count(self, targets: Tensor) -> int:
        """How many terms the loss has: targets that are known."""
        return int((~targets.isnan()).sum())

    def answers(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """Numbers in their own units `[B, C]`; they have no temperature."""
        mean, scale = (torch.tensor(each, dtype=torch.float64) for each in (self.mean, self.scale))
        return logits.double() * scale + mean

    def in_units(self, spread: Tensor) -> Tensor:
        """A spread of logits `[B, C]` in the numbers' own units."""
        return spread.double() * torch.tensor(self.scale, dtype=torch.float64)

    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """The errors in the targets' own units, the mean over columns, and the loss."""
        off = self.answers(logits) - targets
        each = {"mae": off.abs().nanmean(0), "rmse": off.square().nanmean(0).sqrt()}
        order = [self.metric, *(name for name in each if name != self.metric)]
        return {name: float(each[name].nanmean()) for name in order} | {"loss": float(self.loss(logits, targets))}

    def table(self, logits: Tensor, temperature: float = 1.0) -> dict[str, Any]:
        """The answers by column."""
        answers = self.answers(logits).float().numpy()
        return {name: answers[:, i] for i, name in enumerate(self.columns("prediction"))}

    def columns(self, what: str) -> list[str]:
        """Names of a column for each number."""
        return [what] if self.outputs == 1 else distinct([f"{what}_{name}" for name in self.names])

    def describe(self) -> str:
        """In words."""
        what = "a number" if self.outputs == 1 else f"{self.outputs} numbers"
        return f"{what}, {METRICS[self.metric].title}"


def _columns(values: NDArray) -> Tensor:
    wide = values[:, None] if values.ndim == 1 else values
    return torch.from_numpy(np.array(wide, dtype=np.float32))
