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


def _flags(*columns: int, of: int) -> NDArray:
    return np.isin(np.arange(of), columns).astype(float)


def test_the_best_columns_and_penalty_on_unseen_rows_are_chosen() -> None:
    x, y = _make(60, 12)
    choices = [_flags(*range(3, 12), of=12), _flags(0, 1, 2, of=12)]
    part = fit_linear(x[:40], y[:40], x[40:], y[40:], choices)
    assert not part.weight[3:].any()
    assert np.abs(part.weight[:3]).min() > 0
    error = ((x[40:] @ part.weight + part.intercept - y[40:]) ** 2).mean()
    assert error < 0.15
    np.testing.assert_array_equal(part.rows, np.arange(40))


def test_a_scale_of_columns_is_a_penalty_of_their_own() -> None:
    x, y = _make(60, 4)
    halved = fit_linear(x[:40] / 2, y[:40], x[40:] / 2, y[40:], [np.full(4, 2.0)])
    plain = fit_linear(x[:40], y[:40], x[40:], y[40:], [np.ones(4)])
    np.testing.assert_allclose(halved.weight / 2, plain.weight, rtol=1e-9)


def test_the_best_fits_are_averaged_and_so_are_their_left_out_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _make(60, 12)
    data = x[:40], y[:40], x[40:], y[40:]
    monkeypatch.setattr(linear_part, "NEAR", np.inf)
    monkeypatch.setattr(linear_part, "KEPT", 2)
    monkeypatch.setattr(linear_part, "STRENGTHS", np.array([0.1]))
    choices = [_flags(0, 1, 2, of=12), np.ones(12)]
    both = fit_linear(*data, choices)
    one, two = (fit_linear(*data, [choice]) for choice in choices)
    np.testing.assert_allclose(both.weight, (one.weight + two.weight) / 2)
    np.testing.assert_allclose(both.left_out, (one.left_out + two.left_out) / 2)


def test_held_out_rows_choose_but_are_not_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing to choose, other held-out rows change nothing; with two choices, they decide."""
    x, y = _make(60, 4)
    monkeypatch.setattr(linear_part, "KEPT", 1)
    monkeypatch.setattr(linear_part, "STRENGTHS", np.array([0.1]))
    fitted = [fit_linear(x[:40], y[:40], x[40:], held, [np.ones(4)]) for held in (y[40:], -y[40:])]
    np.testing.assert_array_equal(fitted[0].weight, fitted[1].weight)
    choices = [_flags(3, of=4), np.ones(4)]
    chosen = [fit_linear(x[:40], y[:40], x[40:], held, choices) for held in (y[40:], -100 * y[40:])]
    assert chosen[0].weight[:3].any()
    assert not chosen[1].weight[:3].any()


def test_choices_that_would_take_long_are_left_out_but_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = _make(60, 12)
    whole, best = _flags(*range(12), of=12), _flags(0, 1, 2, of=12)
    narrow = fit_linear(x[:40], y[:40], x[40:], y[40:], [whole, best])
    assert not narrow.weight[3:].any()
    monkeypatch.setattr(linear_part, "MOST_WORK", linear_part._count_work(40, 12) + 1)
    wide = fit_linear(x[:40], y[:40], x[40:], y[40:], [whole, best])
    assert np.abs(wide.weight[3:]).min() > 0
    np.testing.assert_array_equal(wide.weight, fit_linear(x[:40], y[:40], x[40:], y[40:], [whole]).weight)


def test_without_held_out_rows_there_is_nothing_to_choose_by() -> None:
    x, y = _make(20, 4)
    part = fit_linear(x, y, x[:0], y[:0], [np.ones(4)])
    assert not part.weight.any()
    assert not len(part.rows)


def test_unknown_targets_pull_to_the_mean() -> None:
    x, y = _make(40, 4)
    y[::3, 1] = np.nan
    part = fit_linear(x, y, x[:10], np.nan_to_num(y[:10]), [np.ones(4)])
    assert np.isfinite(part.weight).all()
    assert np.isfinite(part.left_out).all()


def test_of_many_rows_a_sample_is_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_part, "MOST_ROWS", 25)
    x, y = _make(60, 4)
    part = fit_linear(x, y, x[:10], y[:10], [np.ones(4)])
    assert len(part.rows) == len(part.left_out) == len(set(part.rows.tolist())) == 25


def test_threads_do_not_change_bits() -> None:
    x, y = _make(300, 120)
    before, parts = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with threadpool_limits(threads):
                parts.append(fit_linear(x[:250], y[:250], x[250:], y[250:], [np.ones(120)]))
    finally:
        torch.set_num_threads(before)
    assert parts[0].weight.tobytes() == parts[1].weight.tobytes()
    assert parts[0].left_out.tobytes() == parts[1].left_out.tobytes()
