r"""A linear model in closed form: ridge regression, with what it would have said of each row that it was fitted on.

.. math:: W = (X^T X + \lambda I)^{-1} X^T Y

Leaving a row out of the fit moves its own prediction from :math:`\hat y` to :math:`y - (y - \hat y) / (1 - h)`, where h
is the row's leverage. So a network that is trained on top of the linear model can be shown, on every training row, the
errors that the linear model makes on rows it has not seen. These errors, beside those on held-out rows, also choose the
columns and the penalty. The mean of the few best fits is kept: on small data it varies less than the best one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

STRENGTHS = np.logspace(-3, 2, 11)  # of the penalty, in units of the mean eigenvalue
KEPT = 5  # fits that are averaged at most
NEAR = 1.1  # times the least error that a fit may have to be one of them
MOST_ROWS = 50_000  # rows to fit; a sample of more
MOST_WORK = 4e11  # multiplications of all fits: about 15 seconds
LEAST = 1e-3  # of 1 - h


@dataclass(frozen=True)
class LinearPart:
    """Weights `[D, C]`, an intercept `[C]`, and predictions of the fitted rows as if they had been left out."""

    weight: NDArray[np.float64]
    intercept: NDArray[np.float64]
    rows: NDArray[np.int64]  # which rows were fitted [n]
    left_out: NDArray[np.float64]  # [n, C]


@dataclass(frozen=True)
class _Fit:
    error: float
    weight: NDArray[np.float64]  # [D, C]
    intercept: NDArray[np.float64]  # [C]
    left_out: NDArray[np.float64]  # [n, C]


def fit_linear(
    x: NDArray, y: NDArray, held_x: NDArray, held_y: NDArray, choices: Sequence[NDArray[np.floating]]
) -> LinearPart:
    """Fit targets `y [n, C]` and average the fits with the least squared error on rows that they have not seen.

    Args:
        x: Columns `[n, D]` of about the same scale.
        y: Targets `[n, C]`; NaN where unknown.
        held_x, held_y: Held-out rows, to choose by beside the left-out ones; they are not fitted.
        choices: Scales of the columns `[D]` to choose from; 0 leaves a column out. Where columns are many, choices that
            would exceed `MOST_WORK` together with those before them are not fitted.
    """
    rows = np.arange(len(x))
    if len(x) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(len(x), MOST_ROWS, replace=False))
    best: list[_Fit] = []
    left = MOST_WORK
    with threadpool_limits(1):  # sums in the same order for any number of threads
        for scale in choices:
            work = _count_work(len(rows), int(np.count_nonzero(scale)))
            if best and work > left:
                continue
            left -= work
            for fit in _fit_all(x[rows], y[rows], held_x, held_y, scale):
                best = sorted([*best, fit], key=lambda each: each.error)[:KEPT]
    best = [each for each in best if each.error <= NEAR * best[0].error]
    if not best:  # nothing to choose by
        centre = np.nan_to_num(np.nanmean(y[rows], 0))
        return LinearPart(np.zeros((x.shape[1], y.shape[1])), centre, rows[:0], np.zeros((0, y.shape[1])))
    means = (np.mean([getattr(each, name) for each in best], 0) for name in ("weight", "intercept", "left_out"))
    weight, intercept, left_out = means
    return LinearPart(weight, intercept, rows, left_out)


def _count_work(rows: int, columns: int) -> float:
    """Return about how many multiplications `_solve` takes: a product and its eigenvectors."""
    size = float(min(rows, columns))
    return rows * columns * size + 9 * size**3


def _fit_all(x: NDArray, y: NDArray, held_x: NDArray, held_y: NDArray, scale: NDArray) -> Iterator[_Fit]:
    """Yield a fit of scaled columns for every strength of the penalty; none if there are no held-out rows."""
    if not len(held_x):
        return
    columns, centre = np.flatnonzero(scale), np.nan_to_num(np.nanmean(y, 0))
    some = x[:, columns] * scale[columns].astype(np.float64)
    middle = some.mean(0)
    held = held_x[:, columns] * scale[columns] - middle
    for weight, left_out in _solve(some - middle, np.where(np.isnan(y), 0.0, y - centre)):
        errors = np.concatenate([held @ weight + centre - held_y, left_out + centre - y])
        error, whole = float(np.nanmean(errors**2)), np.zeros((x.shape[1], y.shape[1]))
        whole[columns] = scale[columns][:, None] * weight
        if np.isfinite(error):
            yield _Fit(error, whole, centre - middle @ weight, left_out + centre)


def _solve(x: NDArray, y: NDArray) -> Iterator[tuple[NDArray, NDArray]]:
    """Yield weights `[D, C]` and left-out predictions `[n, C]` of centred rows, for every strength of the penalty.

    The eigenvectors of the smaller of the two products of x serve all of them.
    """
    n, columns = x.shape
    if columns <= n:
        values, vectors = np.linalg.eigh(x.T @ x)
        turned = x @ vectors
        answers = turned.T @ y
    else:
        values, turned = np.linalg.eigh(x @ x.T)
        answers = turned.T @ y
    values = np.maximum(values, 0)
    unit = max(float(values.mean()), 1e-12)
    for strength in STRENGTHS:
        inverse = 1 / (values + strength * unit)
        if columns <= n:
            weight = vectors @ (inverse[:, None] * answers)
            fitted, leverage = turned @ (inverse[:, None] * answers), np.square(turned) @ inverse
        else:
            weight = x.T @ (turned @ (inverse[:, None] * answers))
            fitted = turned @ ((values * inverse)[:, None] * answers)
            leverage = np.square(turned) @ (values * inverse)
        yield weight, y - (y - fitted) / np.maximum(1 - leverage - 1 / n, LEAST)[:, None]
