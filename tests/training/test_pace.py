"""The pace of a training: estimates from a clock that the test moves."""

from __future__ import annotations

import pytest

from gpm.training.pace import ENOUGH, MOST, VALIDATION, Pace, show_time


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _run_steps(pace: Pace, clock: _Clock, seconds: float, validation: float, steps: int) -> list[float]:
    """End so many steps, of which the first is a hundred times as slow; return the estimates."""
    found = []
    for step in range(steps):
        clock.now += 100 * seconds if step == 0 else seconds
        estimate = pace.end_step()
        found += [] if estimate is None else [estimate]
        if (step + 1) % pace.batches == 0:
            clock.now += validation
            pace.end_epoch()
    return found


@pytest.mark.parametrize("seconds", [1e-3, 0.4, 30.0])
def test_the_first_estimate_is_made_once_without_the_slow_first_step(seconds: float) -> None:
    clock = _Clock()
    found = _run_steps(Pace(1000, clock), clock, seconds, 0.0, 3000)
    assert found == pytest.approx([1000 * seconds * (1 + VALIDATION)])


@pytest.mark.parametrize("batches", [1, 5, MOST])
def test_the_estimate_of_short_epochs_has_their_validation(batches: int) -> None:
    clock = _Clock()
    found = _run_steps(Pace(batches, clock), clock, 0.1, 0.3, 100)
    assert found == pytest.approx([batches * 0.1 + 0.3], rel=0.05)


def test_slow_steps_are_estimated_after_few_of_them() -> None:
    clock = _Clock()
    assert _run_steps(Pace(1000, clock), clock, ENOUGH, 0.0, 4)
    assert not _run_steps(Pace(1000, clock), clock, 1e-3, 0.0, 4)


def test_one_slow_epoch_does_not_move_the_pace() -> None:
    clock = _Clock()
    pace = Pace(1, clock)
    for seconds in (50.0, 2.0, 2.0):
        clock.now += seconds
        found = pace.end_epoch()
    assert found == 2.0


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0123, "0.012 s"),
        (2.13, "2.1 s"),
        (35.2, "35 s"),
        (118, "2 min"),
        (750, "12 min"),
        (5500, "1.5 h"),
        (9e4, "25 h"),
    ],
)
def test_times_are_rounded_as_people_say_them(seconds: float, shown: str) -> None:
    assert show_time(seconds) == shown
