"""Regression: numbers of graphs, standardised for training and reported in their own units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError


@dataclass(frozen=True, eq=False)
class ValueTask:
    """What is predicted is one or several numbers.

    Attributes:
        metric: mae or rmse; the loss is the absolute or the squared error that goes with it.
        mean, scale: Of each number in the training part, by which it is standardised `[C]`.
        targets: In their own units `[N, C]`, NaN where unknown.
    """

    metric: str
    mean: list[float]
    scale: list[float]
    targets: Tensor = field(default_factory=lambda: torch.zeros(0, 1))

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
        return cls(facts["metric"], facts["mean"], facts["scale"], targets)

    def facts(self) -> dict[str, Any]:
        """What a run folder remembers."""
        return {"kind": "values", "metric": self.metric, "mean": self.mean, "scale": self.scale}

    @property
    def outputs(self) -> int:
        return len(self.mean)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Absolute or squared error in standard deviations, over the targets that are known."""
        wanted = (targets - targets.new_tensor(self.mean)) / targets.new_tensor(self.scale)
        known = ~targets.isnan()
        measure = functional.l1_loss if self.metric == "mae" else functional.mse_loss
        return measure(logits[known], wanted[known].to(logits.dtype))

    def answers(self, logits: Tensor) -> Tensor:
        """Numbers in their own units `[B, C]`."""
        mean, scale = (torch.tensor(each, dtype=torch.float64) for each in (self.mean, self.scale))
        return logits.double() * scale + mean

    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """The errors in the targets' own units, the mean over columns, and the loss."""
        off = self.answers(logits) - targets
        each = {"mae": off.abs().nanmean(0), "rmse": off.square().nanmean(0).sqrt()}
        order = [self.metric, *(name for name in each if name != self.metric)]
        return {name: float(each[name].nanmean()) for name in order} | {"loss": float(self.loss(logits, targets))}

    def table(self, logits: Tensor) -> dict[str, Any]:
        """The answers by column."""
        answers = self.answers(logits).float().numpy()
        names = ["prediction"] if self.outputs == 1 else [f"prediction_{i}" for i in range(self.outputs)]
        return {name: answers[:, i] for i, name in enumerate(names)}

    def describe(self) -> str:
        """In words."""
        from gpm.tasks.metrics import METRICS

        what = "a number" if self.outputs == 1 else f"{self.outputs} numbers"
        return f"{what}, {METRICS[self.metric].title}"


def _columns(values: NDArray) -> Tensor:
    wide = values[:, None] if values.ndim == 1 else values
    return torch.from_numpy(np.array(wide, dtype=np.float32))
