"""Distances between two samples: of values, of frequencies, and of columns of features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.random_bits import make_key
from gpm.shift.result import Word

HALVINGS = 10  # of the source, and of the target, whose distances are averaged
CLEAR, SLIGHT = (0.1, 2.0), (0.03, 1.3)  # at least so much above the reference, and so many times as much
CLEAR_AUC, SLIGHT_AUC = 0.75, 0.6


def halve(count: int, seed: int, times: int = HALVINGS) -> Iterator[tuple[NDArray, NDArray]]:
    """Places of two random halves of `count` things, so many times; the seed names the draws."""
    random = np.random.Generator(np.random.PCG64(make_key(seed)))
    for _ in range(times):
        order = random.permutation(count)
        yield order[: count // 2], order[count // 2 :]


def compare(source: Any, target: Any, measure: Callable[[Any, Any], float], seed: int) -> tuple[float, float]:
    """The distance of two samples, and the reference: the distance of two random halves of the source.

    Distances grow as samples shrink, by chance alone. So the first is also that of halves, one of the source and one of
    the target, all of the same size; both are the mean over ten draws.

    Args:
        source, target: Arrays, or sparse matrices, whose rows are the nodes.
        measure: The distance of two such.
        seed: Of the halves.
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
    """Kolmogorov and Smirnov's distance of values: the largest gap between their cumulative shares, 0 to 1."""
    one, two = np.sort(source), np.sort(target)
    every = np.concatenate([one, two])
    below = (np.searchsorted(each, every, side="right") / len(each) for each in (one, two))
    return float(np.abs(np.subtract(*below)).max())


def total_variation(source: NDArray, target: NDArray) -> float:
    """Total variation of two histograms over the same bins: the share of one that would have to move, 0 to 1."""
    one, two = (each / max(each.sum(), 1e-300) for each in (source, target))
    return float(np.abs(one - two).sum() / 2)


def compare_columns(source: Any, target: Any) -> NDArray[np.float64]:
    """How far apart the means of columns are, in standard deviations over both samples `[C]`; NaN if none varies.

    Each sample counts alike, however large. The difference lies between -2 and 2, and is positive where the target has
    the larger mean.

    Args:
        source, target: Features `[n, C]` and `[m, C]`, dense or sparse.
    """
    first, second = (_moments(each) for each in (source, target))
    mean, square = (first[0] + second[0]) / 2, (first[1] + second[1]) / 2
    variance = square - mean**2
    varies = variance > 1e-10 * np.maximum(square, 1e-20)  # below, it is rounding
    found = np.full(len(mean), np.nan)
    found[varies] = (second[0] - first[0])[varies] / np.sqrt(variance[varies])
    return found


def column_distance(source: Any, target: Any) -> float:
    """The mean absolute difference of `compare_columns` over columns that vary; 0 if none does."""
    found = np.abs(compare_columns(source, target))
    return float(np.nanmean(found)) if np.isfinite(found).any() else 0.0


def _moments(values: Any) -> tuple[NDArray, NDArray]:
    """Means of columns, and of their squares."""
    squares = values.multiply(values) if sp.issparse(values) else np.square(values)
    return tuple(np.asarray(each.mean(axis=0), dtype=np.float64).reshape(-1) for each in (values, squares))  # type: ignore[return-value]


def judge(value: float, reference: float) -> Word:
    """Call a distance clear if it is 0.1 above the reference and twice as large, slight if 0.03 and 1.3 times."""

    def exceeds(least: float, times: float) -> bool:
        return value - reference >= least and value >= times * reference

    return "clear" if exceeds(*CLEAR) else "slight" if exceeds(*SLIGHT) else "none"


def judge_area(value: float) -> Word:
    """Call a difference that a classifier sees clear from an AUC of 0.75 on, and slight from 0.6 on."""
    return "clear" if value >= CLEAR_AUC else "slight" if value >= SLIGHT_AUC else "none"
