"""Link prediction: loss, and metrics over the held-out edges and non-edges."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from torchmetrics.functional import classification as scores

from gpm.errors import GpmError
from gpm.tasks.metrics import METRICS, chance, cool

HITS = (20, 50, 100)


@dataclass(frozen=True, eq=False)
class LinkTask:
    """Whether a pair of nodes is linked.

    Attributes:
        metric: hits@20, hits@50, hits@100, mrr, roc_auc or ap.
        protocol: strict or paper, named wherever a figure is printed.
        smoothing: Label smoothing of the loss.
        targets: 1 for an edge, 0 for a pair that is none, of all pairs of the split `[P]`.
    """

    metric: str
    protocol: str = "strict"
    smoothing: float = 0.0
    targets: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.int64))
    outputs: int = 1

    def __post_init__(self) -> None:
        if self.metric not in (*(f"hits@{k}" for k in HITS), "mrr", "roc_auc", "ap"):
            raise GpmError(
                f"{self.metric} is not a metric of links; choose hits@20, hits@50, hits@100, mrr, roc_auc, ap."
            )

    @classmethod
    def from_facts(cls, facts: dict[str, Any], labels: NDArray | None) -> LinkTask:
        """The task of a trained model."""
        targets = torch.zeros(0, dtype=torch.int64) if labels is None else torch.tensor(labels)
        return cls(facts["metric"], facts["protocol"], facts.get("smoothing", 0.0), targets)

    def facts(self) -> dict[str, Any]:
        """What a run folder remembers."""
        return {"kind": "links", "metric": self.metric, "protocol": self.protocol, "smoothing": self.smoothing}

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Binary cross-entropy."""
        wanted = targets.to(logits.dtype) * (1 - self.smoothing) + self.smoothing / 2
        return functional.binary_cross_entropy_with_logits(logits[:, 0], wanted)

    def count(self, targets: Tensor) -> int:
        """How many terms the loss has."""
        return len(targets)

    def answers(self, logits: Tensor, temperature: float = 1.0) -> Tensor:
        """Probabilities `[B, 1]`."""
        return chance(cool(logits, temperature))

    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]:
        """All metrics, the chosen one first.

        Hits@K is the share of edges that score higher than the K-th best non-edge. The rank behind MRR is that of an
        edge among all non-edges of the part, where equal scores count half.
        """
        said = logits[:, 0].double()
        if not said.isfinite().all():  # it has diverged, and must not be taken for sure of itself
            return dict.fromkeys([self.metric, *(f"hits@{k}" for k in HITS), "mrr", "roc_auc", "ap", "loss"], math.nan)
        yes, no = said[targets == 1], said[targets == 0].sort(descending=True).values
        if not len(yes) or not len(no):
            raise GpmError("links are scored by edges against non-edges; this part lacks one of them.")
        rising = no.flip(0)
        above = len(no) - torch.searchsorted(rising, yes, right=True)
        equal = torch.searchsorted(rising, yes, right=True) - torch.searchsorted(rising, yes)
        found = {f"hits@{k}": float((yes > no[min(k, len(no)) - 1]).double().mean()) for k in HITS}
        found["mrr"] = float((1 / (1 + above + equal / 2)).mean())
        place = torch.unique(said, return_inverse=True)[1]  # probabilities of sure answers would all be 1
        rank = place.double() / len(said)
        found["roc_auc"] = float(scores.binary_auroc(rank, targets))
        found["ap"] = float(scores.binary_average_precision(rank, targets))
        chosen = {self.metric: found[self.metric]}
        return chosen | found | {"loss": float(self.loss(logits, targets))}

    def table(self, logits: Tensor, temperature: float = 1.0) -> dict[str, Any]:
        """The answers by column."""
        return {"probability": self.answers(logits, temperature)[:, 0].numpy()}

    def describe(self) -> str:
        """In words."""
        return f"links, {METRICS[self.metric].title}, protocol {self.protocol}"
