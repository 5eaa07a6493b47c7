"""Regression: statistics of the training part, errors in the targets' own units."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import GpmError
from gpm.tasks import ValueTask

NAN = float("nan")
METRIC = st.sampled_from(["mae", "rmse"])


def _values(seed: int, count: int, columns: int, missing: float = 0.0) -> NDArray:
    """Numbers of a column have a mean and scale of their own; the first row is always known."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, columns)) * 10.0 ** rng.integers(-2, 3, columns) + rng.normal(0, 50, columns)
    values[1:][rng.random((count - 1, columns)) < missing] = NAN
    return values


def _error(metric: str, off: list[float]) -> float:
    """Of one column, over what is known."""
    known = [value for value in off if not math.isnan(value)]
    if metric == "mae":
        return sum(abs(value) for value in known) / len(known)
    return math.sqrt(sum(value**2 for value in known) / len(known))


@settings(max_examples=30)
@given(st.integers(0, 99), METRIC, st.integers(1, 3))
def test_statistics_are_those_of_the_training_part(seed: int, metric: str, columns: int) -> None:
    values = _values(seed, 30, columns, missing=0.2)
    train = np.arange(0, 30, 2)
    task = ValueTask.of(values, metric, train)
    known = values[train]
    np.testing.assert_allclose(task.mean, np.nanmean(known, 0), rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(task.scale, np.nanstd(known, 0), rtol=1e-3)
    other = values.copy()
    other[1::2] = 1e6  # all else
    again = ValueTask.of(other, metric, train)
    assert (again.mean, again.scale) == (task.mean, task.scale)
    assert (again.low, again.high) == (task.low, task.high)
    np.testing.assert_allclose(task.targets, values.astype(np.float32))


@settings(max_examples=30)
@given(st.integers(0, 99), METRIC, st.integers(1, 3))
def test_errors_are_in_the_targets_own_units(seed: int, metric: str, columns: int) -> None:
    values, train = _values(seed, 20, columns, missing=0.3), np.arange(10)
    task = ValueTask.of(values, metric, train)
    logits = torch.from_numpy(np.random.default_rng(seed).normal(size=(20, columns))).float()
    said = np.clip(logits.double().numpy() * task.scale + task.mean, task.low, task.high)
    off = said - task.targets.double().numpy()
    found = task.score(logits, task.targets)
    assert list(found) == [metric, "rmse" if metric == "mae" else "mae", "loss"]
    for name in ("mae", "rmse"):
        each = [_error(name, column.tolist()) for column in off.T]
        assert found[name] == pytest.approx(sum(each) / columns, rel=1e-4)
    np.testing.assert_allclose(task.answers(logits), said, rtol=1e-6, atol=1e-5)


@settings(max_examples=30)
@given(st.integers(0, 99), METRIC, st.integers(1, 3))
def test_the_loss_is_in_standard_deviations_over_what_is_known(seed: int, metric: str, columns: int) -> None:
    values = _values(seed, 20, columns, missing=0.3)
    task = ValueTask.of(values, metric, np.arange(20))
    logits = torch.from_numpy(np.random.default_rng(seed).normal(size=(20, columns))).float()
    wanted = (task.targets.double().numpy() - task.mean) / task.scale
    off = (logits.numpy() - wanted)[~np.isnan(values)]
    expected = np.abs(off).mean() if metric == "mae" else np.square(off).mean()
    assert float(task.loss(logits, task.targets)) == pytest.approx(expected, rel=1e-3)
    assert task.score(logits, task.targets)["loss"] == pytest.approx(expected, rel=1e-3)


def test_what_is_said_of_an_unknown_target_does_not_matter() -> None:
    values = np.array([[1.0, NAN], [NAN, 2.0], [3.0, 6.0]])
    task = ValueTask.of(values, "mae", np.arange(3))
    logits = torch.zeros(3, 2, requires_grad=True)
    wild = torch.tensor([[0.0, 1e9], [-1e9, 0.0], [0.0, 0.0]])
    assert task.score(logits.detach(), task.targets) == task.score(wild, task.targets)
    task.loss(logits, task.targets).backward()
    assert logits.grad is not None
    assert (logits.grad != 0).tolist() == (~np.isnan(values)).tolist()


def test_a_perfect_answer_has_no_error_and_the_mean_has_the_deviation() -> None:
    values = np.array([1.0, 2.0, 6.0, 7.0])
    task = ValueTask.of(values, "rmse", np.arange(4))
    perfect = (torch.tensor(values)[:, None] - 4) / math.sqrt(6.5)
    assert task.score(perfect.float(), task.targets) == pytest.approx({"rmse": 0, "mae": 0, "loss": 0}, abs=1e-6)
    guess = task.score(torch.zeros(4, 1), task.targets)
    assert guess == pytest.approx({"rmse": math.sqrt(6.5), "mae": 2.5, "loss": 1.0})


@pytest.mark.parametrize("metric", ["mae", "rmse"])
def test_a_constant_target_is_learned_as_it_is(metric: str) -> None:
    for value in (0.0, 0.1, -1e7):
        task = ValueTask.of(np.array([value, value, value, value + 3]), metric, np.arange(3))
        assert task.scale == [1.0]
        found = task.score(torch.zeros(3, 1), task.targets[:3])
        assert found == pytest.approx({"mae": 0, "rmse": 0, "loss": 0}, abs=1e-6 * max(1, abs(value)))
        assert float(task.answers(torch.zeros(1, 1))) == pytest.approx(value)


def test_a_column_that_a_part_does_not_know_is_left_out_of_its_score() -> None:
    values = np.array([[1.0, 10.0], [3.0, 30.0], [5.0, NAN], [5.0, NAN]])
    task = ValueTask.of(values, "mae", np.arange(2))
    assert task.score(torch.zeros(2, 2), task.targets[2:])["mae"] == pytest.approx(3.0)


def test_targets_that_cannot_be_learned_get_a_sentence() -> None:
    values = np.array([[1.0, NAN], [2.0, NAN], [3.0, 1.0]])
    with pytest.raises(GpmError, match="A target is unknown for all instances of the training split; leave it out"):
        ValueTask.of(values, "mae", np.arange(2))
    with pytest.raises(GpmError, match="accuracy is for classes, but the targets are numbers; choose --metric mae or"):
        ValueTask.of(values, "accuracy", np.arange(3))


def test_a_prediction_stays_near_the_range_of_the_training_targets() -> None:
    values = np.array([[0.0, 5.0], [10.0, NAN], [4.0, 7.0], [99.0, -99.0]])
    task = ValueTask.of(values, "rmse", np.arange(3))
    wild = torch.tensor([[-500.0, 500.0], [500.0, -500.0], [0.0, 0.0]])
    assert task.answers(wild).tolist() == [[-1.0, pytest.approx(7.2)], [11.0, pytest.approx(4.8)], task.mean]
    assert (task.unlimited(wild)[:2].abs() > 50).all()
    earlier = {key: value for key, value in task.facts().items() if key not in ("low", "high")}
    assert torch.equal(ValueTask.from_facts(earlier, values).answers(wild), task.unlimited(wild))


@pytest.mark.parametrize("columns", [1, 3])
def test_a_run_folder_remembers_the_statistics(columns: int) -> None:
    values = _values(0, 12, columns)
    task = ValueTask.of(values if columns > 1 else values[:, 0], "rmse", np.arange(6))
    facts = json.loads(json.dumps(task.facts()))
    logits = torch.randn(12, columns, generator=torch.Generator().manual_seed(0))
    again = ValueTask.from_facts(facts, values)
    assert again.score(logits, again.targets) == task.score(logits, task.targets)
    bare = ValueTask.from_facts(facts, None)
    assert (bare.outputs, tuple(bare.targets.shape)) == (columns, (0, columns))
    torch.testing.assert_close(bare.answers(logits), task.answers(logits))


def test_a_table_has_a_column_per_target() -> None:
    one = ValueTask.of(np.array([1.0, 3.0]), "mae", np.arange(2))
    assert list(one.table(torch.zeros(2, 1))) == ["prediction"]
    assert one.table(torch.tensor([[0.0], [1.0]]))["prediction"].tolist() == [2.0, 3.0]
    assert one.describe() == "a number, MAE"
    two = ValueTask.of(np.array([[1.0, 3.0], [2.0, 5.0]]), "rmse", np.arange(2))
    assert list(two.table(torch.zeros(2, 2))) == ["prediction_0", "prediction_1"]
    assert two.describe() == "2 numbers, RMSE"
