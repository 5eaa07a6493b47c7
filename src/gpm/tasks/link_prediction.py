"""Link prediction: loss, and metrics over the held-out edges and non-edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError
from gpm.tasks.metrics import METRICS, chance, cool

HITS = (20, 50, 100)
_METRICS = (*(f"hits@{k}" for k in HITS), "mrr", "roc_auc", "ap")


@dataclass(frozen=True, eq=False)
class LinkTask:
    """Predict whether a pair of nodes is linked."""

    metric: str
    protocol: str = "strict"  # or paper; named wherever a score is printed
    smoothing: float = 0.0  # of the labels in the loss
    # 1 for an edge, 0 for a non-edge, of all pairs of the split [P]
    targets: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    outputs: int = 1

    def __post_init__(self) -> None:
        if self.metric not in _METRICS:
            raise GpmError(f"{self.metric} is not a metric of links; choose {', '.join(_METRICS)}.")

    @classmethod
    def from_facts(cls, facts: dict[str, Any], labels: NDArray | None) -> LinkTask:
        """Make the task of a trained model, with labels or without."""
        targets = torch.zeros(0, dtype=torch.int64) if labels is None else torch.tensor(labels)
        return cls(facts["metric"], facts["protocol"], facts.get("smoothing", 0.0), targets)

    def facts(self) -> dict[str, Any]:
        """Return what a run folder stores of the task."""
        return {"kind": "links", "metric": self.metric, "protocol": self.protocol, "smoothing": self.smoothing}

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the binary cross-entropy."""
        wanted = targets.to(logits.dtype) * (1 - self.smoothing) + self.smoothing / 2
        return functional.binary_cross_entropy_with_logits(logits[:, 0], wanted)

    def count(self, targets: Tensor) -> int:
        """Return the number of terms of the loss."""
        return len(targets)

    def answers(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """Return probabilities `[B, 1]`."""
        return chance(cool(logits, temperature))

    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        r"""Return all metrics, the chosen one first.

        Hits@K is the share of edges that score higher than the K-th best non-edge, and MRR is the mean over edges of
        :math:`1 / (1 + a + e / 2)`, where a non-edges of the split score higher than the edge, and e the same.
        """
        from torchmetrics.functional.classification import binary_auroc, binary_average_precision

        score = logits[:, 0].double()
        if not score.isfinite().all():  # the model has diverged; its infinite scores are no confidence
            return dict.fromkeys([self.metric, *_METRICS, "loss"], math.nan)
        yes, no = score[targets == 1], score[targets == 0].sort(descending=True).values
        if not len(yes) or not len(no):
            raise GpmError("Links are scored by edges against non-edges; this split lacks one of them.")
        rising = no.flip(0)
        above = len(no) - torch.searchsorted(rising, yes, right=True)
        equal = torch.searchsorted(rising, yes, right=True) - torch.searchsorted(rising, yes)
        found = {f"hits@{k}": float((yes > no[min(k, len(no)) - 1]).double().mean()) for k in HITS}
        found["mrr"] = float((1 / (1 + above + equal / 2)).mean())
        rank = torch.unique(score, return_inverse=True)[1].double() / len(score)  # probabilities might all round to 1
        found["roc_auc"] = float(binary_auroc(rank, targets))
        found["ap"] = float(binary_average_precision(rank, targets))
        return {self.metric: found[self.metric]} | found | {"loss": float(self.loss(logits, targets))}

    def table(self, logits: Tensor, temperature: float = 1.0) -> dict[str, Any]:
        """Return the probability as a column."""
        return {"probability": self.answers(logits, temperature)[:, 0].numpy()}

    def truth(self, targets: Tensor) -> dict[str, Any]:
        """Return 1 for an edge and 0 for a non-edge as a column."""
        return {"label_true": targets.numpy()}

    def describe(self) -> str:
        """Describe the task: the metric, and the protocol."""
        return f"links, {METRICS[self.metric].title}, protocol {self.protocol}"
