"""The metrics: what they are called, which way is better, and how they are printed."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Metric:
    """How a figure is to be read.

    Attributes:
        title: Its name in print.
        larger: Whether larger is better.
        share: Whether it is a share, printed in percent; else it is in the target's own units.
    """

    title: str
    larger: bool = True
    share: bool = True

    def show(self, value: float) -> str:
        """A figure in print."""
        return f"{value:.2%}" if self.share else f"{value:.4f}"

    def scaled(self, value: float) -> float:
        """A figure as tables have it: percent, or the target's own units."""
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
    """Some figures in one line."""
    return ", ".join(f"{METRICS[name].title} {METRICS[name].show(value)}" for name, value in scores.items())


def cool(logits: Tensor, temperature: float) -> Tensor:
    """Logits by a temperature: above 1 the probabilities are less sure. In double precision, so that none are tied."""
    return logits if temperature == 1 else logits.double() / temperature


def chance(logits: Tensor) -> Tensor:
    """The probability of yes, 1 / (1 + exp(-x)): the same to the last bit wherever in a tensor a number stands.

    Torch's own sigmoid rounds the last few numbers of a tensor, or of a thread's share of it, in another way.
    """
    return logits.sigmoid() if logits.requires_grad else 1 / (1 + (-logits).exp())
