"""A classifier of domains: a logistic regression that never scores a node that it has learned from."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata
from torch import Tensor
from torch.nn import functional

DECAY = 0.01  # of the weights of columns with mean 0 and variance 1
STEPS = 200


def cross_fit(x: NDArray, away: NDArray, fold: NDArray, used: NDArray) -> tuple[NDArray[np.float64], float]:
    """Learn from one half of the nodes and score the other, and the other way round.

    Args:
        x: What is read of the nodes `[n, d]`.
        away: Which are of the target `[n]`.
        fold: Which half each is in, 0 or 1 `[n]`.
        used: Which may be learned from and count in the AUC `[n]`; the others are scored alone.

    Returns:
        Log-odds that each node is of the target `[n]`, and the mean AUC of the halves: 0.5 if it is guessing.
    """
    scores, areas = np.zeros(len(x)), []
    for half in (0, 1):
        learned, asked = used & (fold != half), fold == half
        scores[asked] = _fit_and_read(x[learned], away[learned], x[asked])
        areas.append(find_area(scores[used & asked], away[used & asked]))
    return scores, float(np.mean(areas))


def find_area(scores: NDArray, positive: NDArray) -> float:
    """ROC-AUC: the probability that a positive scores higher than a negative; equal scores count half."""
    yes = int(positive.sum())
    no = len(positive) - yes
    if not yes or not no:
        return 0.5
    return float((rankdata(scores)[positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def _fit_and_read(x: NDArray, away: NDArray, asked: NDArray) -> NDArray[np.float64]:
    """Log-odds of others, by what was learned from some; both domains count alike, however many nodes they have."""
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-9 * np.maximum(np.abs(mean), 1e-9), scale, np.inf)  # what does not vary says nothing
    known, wanted = (torch.from_numpy((each - mean) / scale) for each in (x, asked))
    truth = torch.from_numpy(away.astype(np.float64))
    share = float(truth.mean().clamp(1e-9, 1 - 1e-9))
    each = torch.where(truth > 0, 0.5 / share, 0.5 / (1 - share))
    weight = torch.zeros(x.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        odds = known @ weight[:-1] + weight[-1]
        value = functional.binary_cross_entropy_with_logits(odds, truth, each) + DECAY / 2 * weight[:-1].square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return np.asarray((wanted @ weight[:-1] + weight[-1]).detach().numpy())
