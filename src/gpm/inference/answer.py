"""What a run says of some instances: probabilities, or numbers with intervals; calibrated if asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.inference.calibration import Calibration
from gpm.inference.calibration import calibrate as find_calibration
from gpm.inference.predictions import Predictions
from gpm.inference.redraws import DRAWS, measure_spread, spread_factor
from gpm.nn.predictor import Predicts
from gpm.tasks import Task, ValueTask, load_task

if TYPE_CHECKING:
    from gpm.run.run import Run


def answer(
    run: Run,
    inputs: NDArray,
    *,
    patterns: int | None = None,
    interval: bool = False,
    draws: int = DRAWS,
    calibrate: bool = False,
    progress: bool = False,
) -> Predictions:
    """Predict nodes or graphs `[B]` or pairs `[B, 2]`.

    Without calibration an interval says how far chance moves an answer: had more and more patterns been drawn, the
    answer would have come to lie inside 9 times in 10. It says nothing of how far that is from the truth. With
    calibration it does: 9 in 10 numbers of the validation part lie inside.

    Args:
        run: The run.
        inputs: What to predict, by number.
        patterns: Per instance; by default the whole pool.
        interval: Also find intervals, which numbers alone have.
        draws: Of patterns, from which an interval is found: so many times the work.
        calibrate: Fit probabilities, or the intervals of numbers, to the validation split first.
        progress: Show a bar.
    """
    asked: dict[str, Any] = {"patterns": patterns, "interval": interval, "draws": draws, "calibrate": calibrate}
    return open_answers(run, progress=progress, **asked).of(inputs)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a run says, ready to be asked for one instance after another. Made by `open_answers`.

    Attributes:
        run: The run.
        predictor: Its model on the graph.
        task: What the logits mean.
        calibration: Found on the validation part; None if it is not asked for.
        interval, draws, patterns, progress: As in `answer`.
    """

    run: Run
    predictor: Predicts
    task: Task
    calibration: Calibration | None
    interval: bool
    draws: int
    patterns: int | None
    progress: bool

    def of(self, inputs: NDArray) -> Predictions:
        """Predict nodes or graphs `[B]` or pairs `[B, 2]`."""
        keys, found, task = self.run.name(inputs), self.calibration, self.task
        given: dict[str, Any] = {"patterns": self.patterns, "progress": self.progress}
        logits = self.predictor.logits(inputs, **given)
        if not isinstance(task, ValueTask):
            return Predictions(keys, logits, task, temperature=1.0 if found is None else found.temperature)
        if not self.interval and found is None:
            return Predictions(keys, logits, task)
        spread = task.in_units(measure_spread(self.predictor, inputs, logits, draws=self.draws, **given))
        width = (spread_factor(self.draws) * spread if found is None else found.widths(spread)).numpy()
        middle = task.answers(logits).numpy()
        return Predictions(keys, logits, task, low=middle - width, high=middle + width)


def open_answers(
    run: Run,
    *,
    patterns: int | None = None,
    interval: bool = False,
    draws: int = DRAWS,
    calibrate: bool = False,
    progress: bool = False,
    total: int = 0,
) -> Answers:
    """Make ready to answer.

    Args:
        run: The run.
        patterns, interval, draws, calibrate, progress: As in `answer`.
        total: So many instances will be asked for, a few at a time; 0 if all at once.
    """
    task = load_task(run.facts, None)
    if interval and not isinstance(task, ValueTask):
        raise GpmError(f"{run.folder} predicts no numbers, which alone have intervals; leave out the interval.")
    if interval and not calibrate and run.config.model != "gpm":
        raise GpmError(f"{run.folder} holds a {run.config.model}, which draws no patterns; calibrate its intervals.")
    found = find_calibration(run, draws=draws, patterns=patterns, progress=progress) if calibrate else None
    predictor = run.predictor.look_ahead(total, patterns) if total else run.predictor
    return Answers(run, predictor, task, found, interval, draws, patterns, progress)
