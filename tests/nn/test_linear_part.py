from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gpm.nn import linear_part
from gpm.nn.linear_part import STRENGTHS, _solve, fit_linear


def _make(rows: int, columns: int) -> tuple[NDArray, NDArray]:
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, columns))
    return x, x[:, :3] @ random.normal(size=(3, 2)) + 0.3 * random.normal(size=(rows, 2))


def _refit(x: NDArray, y: NDArray, penalty: float, row: int) -> NDArray:
    """Ridge regression with an intercept, without one row, asked of that row."""
    kept = np.arange(len(x)) != row
    middle, centre = x[kept].mean(0), y[kept].mean(0)
    some = x[kept] - middle
    weight = np.linalg.solve(some.T @ some + penalty * np.eye(x.shape[1]), some.T @ (y[kept] - centre))
    return (x[row] - middle) @ weight + centre


@pytest.mark.parametrize(("rows", "columns"), [(40, 5), (12, 30)])
def test_left_out_predictions_are_those_of_a_refit_without_the_row(rows: int, columns: int) -> None:
    x, y = _make(rows, columns)
    middle, centre = x.mean(0), y.mean(0)
    some = x - middle
    values = np.maximum(np.linalg.eigvalsh(some.T @ some if columns <= rows else some @ some.T), 0)
    for strength, (weight, left_out) in zip(STRENGTHS, _solve(some, y - centre), strict=True):
        penalty = strength * values.mean()
        wanted = np.linalg.solve(some.T @ some + penalty * np.eye(columns), some.T @ (y - centre))
        np.testing.assert_allclose(weight, wanted, atol=1e-8)
        for row in range(0, rows, 3):
            np.testing.assert_allclose(left_out[row] + centre, _refit(x, y, penalty, row), atol=1e-6)


def test_the_best_columns_and_penalty_on_held_out_rows_are_chosen() -> None:
    x, y = _make(60, 12)
    choices = [np.arange(3, 12), np.arange(3), np.arange(12)]
    part = fit_linear(x[:40], y[:40], x[40:], y[40:], choices)
    assert not part.weight[3:].any()
    assert np.abs(part.weight[:3]).min() > 0
    error = ((x[40:] @ part.weight + part.intercept - y[40:]) ** 2).mean()
    assert error < 0.15
    np.testing.assert_array_equal(part.rows, np.arange(40))


def test_held_out_rows_choose_but_are_not_fitted() -> None:
    """Moving them all alike, so that the choice stays, moves nothing."""
    x, y = _make(60, 4)
    one = fit_linear(x[:40], y[:40], x[40:50], y[40:50], [np.arange(4)])
    two = fit_linear(x[:40], y[:40], np.concatenate([x[40:50]] * 2), np.concatenate([y[40:50]] * 2), [np.arange(4)])
    np.testing.assert_array_equal(one.weight, two.weight)


def test_without_held_out_rows_there_is_nothing_to_choose_by() -> None:
    x, y = _make(20, 4)
    with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        part = fit_linear(x, y, x[:0], y[:0], [np.arange(4)])
    assert not part.weight.any()
    assert not len(part.rows)


def test_unknown_targets_pull_to_the_mean() -> None:
    x, y = _make(40, 4)
    y[::3, 1] = np.nan
    part = fit_linear(x, y, x[:10], np.nan_to_num(y[:10]), [np.arange(4)])
    assert np.isfinite(part.weight).all()
    assert np.isfinite(part.left_out).all()


def test_of_many_rows_a_sample_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_part, "MOST_ROWS", 25)
    x, y = _make(60, 4)
    part = fit_linear(x, y, x[:10], y[:10], [np.arange(4)])
    assert len(part.rows) == len(part.left_out) == len(set(part.rows.tolist())) == 25


def test_threads_do_not_change_bits() -> None:
    x, y = _make(300, 120)
    before, parts = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with threadpool_limits(threads):
                parts.append(fit_linear(x[:250], y[:250], x[250:], y[250:], [np.arange(120)]))
    finally:
        torch.set_num_threads(before)
    assert parts[0].weight.tobytes() == parts[1].weight.tobytes()
    assert parts[0].left_out.tobytes() == parts[1].left_out.tobytes()
