"""Classes of unequal frequency: which one is rare, weights in the loss, and when the rarer of two is predicted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RARE = 0.1  # share of the training instances below which a class is rare, if it is also below half of an even share
FOCAL = 2.0  # exponent of the focal loss (Lin et al., 2017)
Weights = list[list[float]]  # a row for the classes `[1, C]`; of several labels, for no and for yes `[2, C]`


class Rarest(NamedTuple):
    """The class with the fewest instances."""

    label: int
    share: float  # of all instances
    rare: bool  # it is so rare that a model which never predicts it seems good


def find_rarest(labels: NDArray) -> Rarest:
    """Find the rarest of the classes that occur among some labels `[N]`; of equal ones the last."""
    classes, counts = np.unique(labels, return_counts=True)
    at = len(counts) - 1 - int(counts[::-1].argmin())
    share = float(counts[at] / counts.sum())
    return Rarest(int(classes[at]), share, len(counts) > 1 and share < min(RARE, 0.5 / len(counts)))


def balance(targets: Tensor, outputs: int) -> Weights:
    """Return weights by which all classes, or the yes and the no of each label, count equally in the training split.

    A class with n of the N instances has weight :math:`N / (C n)`. The mean of the weights over the instances is 1, so
    that the mean of the weighted terms of a step does not depend on how the step is divided into parts or ranks.

    Args:
        targets: Of the training split: indices of classes `[N]`, or labels `[N, C]`, NaN where unknown.
        outputs: Number of classes or labels.
    """
    if targets.is_floating_point():
        counts = torch.stack([(targets == answer).sum(0) for answer in (0, 1)])  # (2, C)
    else:
        counts = torch.bincount(targets, minlength=outputs)[:, None]  # (C, 1)
    present = (counts > 0).sum(0)
    weights = counts.sum(0) / (present * counts).clamp(min=1)
    weights = torch.where(counts > 0, weights, 1.0)  # of what training never sees
    rows: Weights = (weights if targets.is_floating_point() else weights.T).double().tolist()
    return rows


def find_cut(margin: NDArray, positive: NDArray[np.bool_], metric: str) -> float | None:
    """Find the margin from which the positive class is best predicted; None if the margins tell nothing apart.

    For ROC-AUC that is where balanced accuracy is highest (the mean of the shares of positives and of negatives that
    are predicted right), for other metrics where the F1 of the positive class is highest. The cut lies halfway between
    two neighbouring margins; of equally good ones it is the highest.

    Args:
        margin: Log-odds of the positive class `[N]`.
        positive: Mask of the instances of the positive class `[N]`.
        metric: The metric of the task.
    """
    order = np.argsort(-margin, kind="stable")
    falling, right = margin[order], np.cumsum(positive[order])  # positives among the first 1, 2, ...
    steps = np.flatnonzero(falling[:-1] > falling[1:])
    total, count = int(positive.sum()), len(margin)
    if not len(steps) or not 0 < total < count or not np.isfinite(margin).all():
        return None
    hits, chosen = right[steps], steps + 1
    quality = 2 * hits / (chosen + total)
    if metric == "roc_auc":
        quality = hits / total - (chosen - hits) / (count - total)
    best = steps[quality.argmax()]
    return float(falling[best] + falling[best + 1]) / 2
