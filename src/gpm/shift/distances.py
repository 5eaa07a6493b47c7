"""Distances between two samples: of values, of frequencies, of columns of features, and as a classifier sees them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.random_bits import make_key

HALVINGS = 10  # random halvings of the source, and of the target, over which distances are averaged
DECAY = 0.01  # weight decay of the classifier, for columns with mean 0 and variance 1
STEPS = 200


def halve(count: int, seed: int, times: int = HALVINGS) -> Iterator[tuple[NDArray, NDArray]]:
    """Yield the indices of two random halves of `count` items, `times` times."""
    random = np.random.Generator(np.random.PCG64(make_key(seed)))
    for _ in range(times):
        order = random.permutation(count)
        yield order[: count // 2], order[count // 2 :]


def compare(source: Any, target: Any, measure: Callable[[Any, Any], float], seed: int) -> tuple[float, float]:
    """Compute the distance of two samples, and as a reference that of two random halves of the source.

    Distances grow as samples shrink, by chance alone. So both are measured between halves of the same size, and are
    means over ten draws. The samples are arrays or sparse matrices with a row per node.
    """
    half = min(source.shape[0], target.shape[0]) // 2
    values, references = [], []
    draws = zip(halve(source.shape[0], seed), halve(target.shape[0], seed + 1), strict=True)
    for (one, two), (other, _) in draws:
        first = source[one[:half]]
        values.append(measure(first, target[other[:half]]))
        references.append(measure(first, source[two[:half]]))
    return float(np.mean(values)), float(np.mean(references))


def find_gap(source: NDArray, target: NDArray) -> float:
    """Compute the Kolmogorov-Smirnov distance: the largest gap between the cumulative shares of values, 0 to 1."""
    one, two = np.sort(source), np.sort(target)
    every = np.concatenate([one, two])
    below = (np.searchsorted(each, every, side="right") / len(each) for each in (one, two))
    return float(np.abs(np.subtract(*below)).max())


def total_variation(source: NDArray, target: NDArray) -> float:
    """Compute the total variation of two histograms over the same bins, 0 to 1."""
    one, two = (each / max(each.sum(), 1e-300) for each in (source, target))
    return float(np.abs(one - two).sum() / 2)


def compare_columns(source: Any, target: Any) -> NDArray[np.float64]:
    """Compute how far apart the means of columns are, in standard deviations over both samples `[C]`.

    Each sample counts alike, however large. The difference lies between -2 and 2, is positive where the target has the
    larger mean, and is NaN where a column does not vary. Features may be dense or sparse.
    """
    first, second = (_moments(each) for each in (source, target))
    mean, square = (first[0] + second[0]) / 2, (first[1] + second[1]) / 2
    variance = square - mean**2
    varies = variance > 1e-10 * np.maximum(square, 1e-20)  # below, it is rounding
    apart = np.full(len(mean), np.nan)
    apart[varies] = (second[0] - first[0])[varies] / np.sqrt(variance[varies])
    return apart


def column_distance(source: Any, target: Any) -> float:
    """Average the absolute difference of `compare_columns` over columns that vary; 0 if none does."""
    apart = np.abs(compare_columns(source, target))
    return float(np.nanmean(apart)) if np.isfinite(apart).any() else 0.0


def _moments(values: Any) -> tuple[NDArray, NDArray]:
    """Return the means of columns, and of their squares."""
    squares = values.multiply(values) if sp.issparse(values) else np.square(values)
    return tuple(np.asarray(each.mean(axis=0), dtype=np.float64).reshape(-1) for each in (values, squares))  # type: ignore[return-value]


def cross_fit(x: NDArray, away: NDArray, fold: NDArray, used: NDArray) -> tuple[NDArray[np.float64], float]:
    """Fit a logistic regression of the domain on one half (a fold) of the nodes and score the other, and vice versa.

    Only the nodes `used` are fitted on and count in the AUC. Returns the log-odds `[n]` that each node is of the target
    (away), and the mean AUC of the halves: 0.5 for a guess.
    """
    scores, areas = np.zeros(len(x)), []
    for half in (0, 1):
        fitted, scored = used & (fold != half), fold == half
        scores[scored] = _fit_and_score(x[fitted], away[fitted], x[scored])
        areas.append(find_area(scores[used & scored], away[used & scored]))
    return scores, float(np.mean(areas))


def find_area(scores: NDArray, positive: NDArray) -> float:
    """Compute the ROC-AUC: the probability that a positive scores higher than a negative; equal scores count half."""
    from scipy.stats import rankdata

    yes = int(positive.sum())
    no = len(positive) - yes
    if not yes or not no:
        return 0.5
    return float((rankdata(scores)[positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def _fit_and_score(x: NDArray, away: NDArray, others: NDArray) -> NDArray[np.float64]:
    """Fit on some nodes and return the log-odds of others; both domains count alike, however many nodes they have."""
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 1e-9 * np.maximum(np.abs(mean), 1e-9), scale, np.inf)  # a constant column says nothing
    train, test = (torch.from_numpy((each - mean) / scale) for each in (x, others))
    truth = torch.from_numpy(away.astype(np.float64))
    share = float(truth.mean().clamp(1e-9, 1 - 1e-9))
    each = torch.where(truth > 0, 0.5 / share, 0.5 / (1 - share))
    weight = torch.zeros(x.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight], max_iter=STEPS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        odds = train @ weight[:-1] + weight[-1]
        value = functional.binary_cross_entropy_with_logits(odds, truth, each) + DECAY / 2 * weight[:-1].square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return np.asarray((test @ weight[:-1] + weight[-1]).detach().numpy())
