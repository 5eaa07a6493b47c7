"""Reports: a result is beside its baselines, and one that is not ahead of them says so."""

from __future__ import annotations

from typing import Any

import pytest

from gpm.training.score import find_ahead


def _result(metric: str, val: float, test: float, **baselines: tuple[float, float]) -> dict[str, Any]:
    scores = {name: {"val": pair[0], "test": pair[1], "seconds": 0.1} for name, pair in baselines.items()}
    return {"metric": metric, "val": {metric: val}, "test": {metric: test}, "baselines": scores}


@pytest.mark.parametrize(
    ("model", "linear", "where"),
    [
        ((0.8, 0.8), (0.7, 0.7), ""),
        ((0.8, 0.8), (0.9, 0.85), "validation (90.00%) and test (85.00%)"),
        ((0.8, 0.8), (0.9, 0.7), "validation (90.00%)"),
        ((0.8, 0.8), (0.7, 0.8), "test (80.00%)"),
    ],
)
def test_a_model_that_is_not_ahead_says_so(model: tuple[float, float], linear: tuple[float, float], where: str) -> None:
    said = find_ahead(_result("accuracy", *model, majority=(0.3, 0.99), linear=linear))  # validation names the best
    assert said == (f"linear is at least as good on {where}; gpm tune searches for better options" if where else "")


def test_of_errors_the_smaller_is_better() -> None:
    assert find_ahead(_result("mae", 1.0, 1.0, mean=(2.0, 2.0))) == ""
    assert "mean is at least as good on validation (0.5000) and" in find_ahead(_result("mae", 1, 1, mean=(0.5, 0.9)))
    assert find_ahead(_result("mae", 1.0, 1.0)) == ""
