r"""A linear model in closed form: ridge regression, with what it would have said of each row that it was fitted on.

.. math:: W = (X^T X + \lambda I)^{-1} X^T Y

Leaving a row out of the fit moves its own prediction from :math:`\hat y` to :math:`y - (y - \hat y) / (1 - h)`, where h
is the row's leverage. So a network that is trained on top of the linear model can be shown, on every training row, the
errors that the linear model makes on rows it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

STRENGTHS = np.logspace(-3, 2, 11)  # of the penalty, in units of the mean eigenvalue
MOST_ROWS = 50_000  # rows to fit; a sample of more
LEAST = 1e-3  # of 1 - h


@dataclass(frozen=True)
class LinearPart:
    """Weights `[D, C]`, an intercept `[C]`, and predictions of the fitted rows as if they had been left out."""

    weight: NDArray[np.float64]
    intercept: NDArray[np.float64]
    rows: NDArray[np.int64]  # which rows were fitted [n]
    left_out: NDArray[np.float64]  # [n, C]


def fit_linear(
    x: NDArray, y: NDArray, held_x: NDArray, held_y: NDArray, choices: Sequence[NDArray[np.int64]]
) -> LinearPart:
    """Fit targets `y [n, C]`; columns and penalty are those with the least squared error on held-out rows.

    Args:
        x: Columns `[n, D]` of about the same scale.
        y: Targets `[n, C]`; NaN where unknown.
        held_x, held_y: Held-out rows, to choose by; they are not fitted.
        choices: Sets of columns to choose from.
    """
    rows = np.arange(len(x))
    if len(x) > MOST_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(len(x), MOST_ROWS, replace=False))
    centre = np.nan_to_num(np.nanmean(y[rows], 0))
    wanted = np.where(np.isnan(y[rows]), 0.0, y[rows] - centre)
    best, least = None, np.inf
    with threadpool_limits(1):  # sums in the same order for any number of threads
        for columns in choices:
            some = x[np.ix_(rows, columns)].astype(np.float64)
            middle = some.mean(0)
            held = held_x[:, columns] - middle
            for weight, left_out in _solve(some - middle, wanted):
                error = float(np.nanmean((held @ weight + centre - held_y) ** 2))
                if error < least:
                    best, least = (columns, middle, weight, left_out), error
    if best is None:  # nothing to choose by
        return LinearPart(np.zeros((x.shape[1], y.shape[1])), centre, rows[:0], np.zeros((0, y.shape[1])))
    columns, middle, weight, left_out = best
    whole = np.zeros((x.shape[1], y.shape[1]))
    whole[columns] = weight
    return LinearPart(whole, centre - middle @ weight, rows, left_out + centre)


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
