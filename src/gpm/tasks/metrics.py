"""The metrics: their names, which direction is better, and how they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Metric:
    """How to read the value of a metric."""

    title: str  # in print
    larger: bool = True  # is better
    share: bool = True  # printed in percent; else it has the target's own units

    def show(self, value: float) -> str:
        """Format a value for print."""
        return f"{value:.2%}" if self.share else f"{value:.4f}"

    def scaled(self, value: float) -> float:
        """Return a value as tables have it: in percent, or in the target's own units."""
        return round(100 * value, 2) if self.share else round(value, 4)


METRICS = {
    "accuracy": Metric("accuracy"),
    "roc_auc": Metric("ROC-AUC"),
    "f1": Metric("F1"),
    "ap": Metric("average precision"),
    "mrr": Metric("MRR"),
    "hits@20": Metric("Hits@20"),
    "hits@50": Metric("Hits@50"),
    "hits@100": Metric("Hits@100"),
    "mae": Metric("MAE", larger=False, share=False),
    "rmse": Metric("RMSE", larger=False, share=False),
    "loss": Metric("loss", larger=False, share=False),
}


def show_scores(scores: dict[str, float]) -> str:
    """Format scores in one line."""
    return ", ".join(f"{METRICS[name].title} {METRICS[name].show(value)}" for name, value in scores.items())


def cool(logits: Tensor, temperature: float) -> Tensor:
    """Divide logits by a temperature, in double precision so that none become tied; above 1 they are less certain."""
    return logits if temperature == 1 else logits.double() / temperature


def chance(logits: Tensor) -> Tensor:
    """Return the probability of yes, `1 / (1 + exp(-x))`, to the same last bit at every index of a tensor.

    torch's own sigmoid rounds the last few entries of a tensor, or of a thread's share of it, differently.
    """
    return logits.sigmoid() if logits.requires_grad else 1 / (1 + (-logits).exp())
