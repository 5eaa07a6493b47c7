"""What a run says of some instances: probabilities, or numbers with intervals; calibrated if asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from gpm.calibration import calibrate as find_calibration
from gpm.errors import GpmError
from gpm.predictions import Predictions
from gpm.spread import DRAWS, measure_spread, spread_factor
from gpm.tasks import ValueTask, load_task

if TYPE_CHECKING:
    from gpm.run import Run


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
        calibrate: Fit probabilities, or the intervals of numbers, to the validation part, see `gpm.calibration`.
        progress: Show a bar.
    """
    task, keys = load_task(run.facts, None), run.name(inputs)
    if interval and not isinstance(task, ValueTask):
        raise GpmError(f"{run.folder} predicts no numbers, which alone have intervals; leave out the interval.")
    if interval and not calibrate and run.config.model != "gpm":
        raise GpmError(f"{run.folder} holds a {run.config.model}, which draws no patterns; calibrate its intervals.")
    given: dict[str, Any] = {"patterns": patterns, "progress": progress}
    found = find_calibration(run, draws=draws, **given) if calibrate else None
    logits = run.predictor.logits(inputs, **given)
    if not isinstance(task, ValueTask):
        return Predictions(keys, logits, task, temperature=1.0 if found is None else found.temperature)
    if not interval and found is None:
        return Predictions(keys, logits, task)
    spread = task.in_units(measure_spread(run.predictor, inputs, logits, draws=draws, **given))
    width = (spread_factor(draws) * spread if found is None else found.widths(spread)).numpy()
    middle = task.answers(logits).numpy()
    return Predictions(keys, logits, task, low=middle - width, high=middle + width)
