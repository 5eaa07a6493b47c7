"""Pace of a training: seconds per epoch, measured on its first steps and then on whole epochs."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable

FEWEST, MOST = 3, 20  # steps that are measured before the first estimate
ENOUGH = 10.0  # seconds of steps that suffice for it
RECENT = 10  # epochs whose median is taken
VALIDATION = 0.25  # validation in units of the steps of an epoch, before one was measured


class Pace:
    """Measures how long an epoch takes.

    Args:
        batches: Steps of an epoch, or parts of steps.
        clock: Returns the time in seconds.
    """

    def __init__(self, batches: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.batches, self.clock = batches, clock
        self._began, self._first, self._ended = clock(), 0.0, 0
        self._epochs = deque[float](maxlen=RECENT)

    def end_step(self) -> float | None:
        """Note the end of a step; once, after the first few, return the estimated seconds of an epoch.

        The first step is left out: it compiles and allocates.
        """
        if self._ended < 0:
            return None
        self._ended += 1
        if self._ended == 1:
            self._first = self.clock()
            return None
        spent, steps = self.clock() - self._first, self._ended - 1
        if steps < FEWEST or (steps < MOST and spent < ENOUGH):
            return None
        validated = self._ended > self.batches  # the steps that were measured had a validation between them
        self._ended = -1
        return spent / steps * self.batches * (1 if validated else 1 + VALIDATION)

    def end_epoch(self) -> float:
        """Note the end of an epoch; return the median seconds of the last ones."""
        now = self.clock()
        self._epochs.append(now - self._began)
        self._began = now
        return statistics.median(self._epochs)


def show_time(seconds: float) -> str:
    """Return a time as people say it: 2.1 s, 35 s, 12 min, 1.5 h."""
    unit, size = ("s", 1) if seconds < 90 else ("min", 60) if seconds < 5400 else ("h", 3600)
    value = seconds / size
    return f"{value:.2g} {unit}" if value < 10 else f"{value:.0f} {unit}"
