"""Trial after trial, until enough were made or the time is used up."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from optuna.study import Study
from optuna.trial import Trial, TrialState

from gpm.config import Config
from gpm.errors import GpmError
from gpm.training.callbacks import StoppedError
from gpm.training.tune.space import Space
from gpm.training.tune.study import INTERRUPTED, LATE, ask, finished, options_of
from gpm.training.tune.trial import Bench, Course, Stop
from gpm.training.tune.tune_report import Report

PRUNED = "pruned"
ENOUGH = 3  # trials that fail for one and the same reason, with none that does not
_log = logging.getLogger("gpm")


@dataclass(frozen=True, eq=False)
class Search:
    """A search with all it needs.

    Attributes:
        study: What was tried.
        space: What may be chosen.
        base: The options where the study does not choose.
        bench: Trains a model.
        report: Tells of it.
        stop: Whether the user wants to stop.
        trials: How many, in total.
        startup: How many at random.
        quiet: No line for each.
    """

    study: Study
    space: Space
    base: Config
    bench: Bench
    report: Report
    stop: Stop
    trials: int
    startup: int
    quiet: bool

    @property
    def spent(self) -> float:
        """Seconds of the trials before."""
        return float(sum(trial.user_attrs.get("seconds", 0.0) for trial in self.study.get_trials(deepcopy=False)))

    @property
    def done(self) -> int:
        """Trials that count."""
        return len(finished(self.study))

    def announce(self) -> None:
        """Say what is tuned."""
        data, split = self.bench.data, self.bench.split
        _log.info("%s: %s", data.title, data.graph.summary())
        _log.info("split %s: %d train, %d val (%s)", split.name, len(split.train), len(split.val), split.digest)
        _log.info("tuning %s by validation %s", ", ".join(self.space.entries), self.base.metric)
        if self.done:
            _log.info("going on after %d trials", self.done)

    def run(self, deadline: float) -> None:
        """Make trials."""
        while self.done < self.trials and monotonic() < deadline and not self.stop.asked:
            self.try_one(deadline)
            self._check_failures()

    def try_one(self, deadline: float) -> None:
        """Make one trial, and write down what came of it."""
        began, course = monotonic(), Course()
        trial = ask(self.study, self.space, self.base, self.startup)

        def give_up(epoch: int, value: float) -> str:
            trial.report(value, epoch)
            if monotonic() >= deadline:
                return LATE
            return PRUNED if trial.should_prune() else ""

        try:
            config = options_of(self.space, trial, self.base)
            self.bench.fit(config, course, give_up, self.stop)
        except StoppedError:
            course.why, course.value = INTERRUPTED, None
        except GpmError as error:
            course.why, course.value = str(error), None
        self._tell(trial, course, monotonic() - began)
        self.report.write_trials()
        told = self.study.trials[trial.number]
        if course.why != INTERRUPTED and not self.quiet:
            _log.info(self.report.line(told, self.trials))
        if not course.why:
            self.report.write_recipe()

    def _tell(self, trial: Trial, course: Course, seconds: float) -> None:
        found = {"seconds": round(seconds, 2), "epoch": course.epoch, "epochs": course.epochs}
        for name, value in (found | ({"why": course.why} if course.why else {})).items():
            trial.set_user_attr(name, value)
        if course.why:
            state = TrialState.FAIL if course.value is None else TrialState.PRUNED
            self.study.tell(trial, state=state)
        else:
            self.study.tell(trial, course.value)

    def _check_failures(self) -> None:
        """End a study in which nothing works, with the reason."""
        told = finished(self.study)
        reasons = {trial.user_attrs.get("why") for trial in told}
        if len(told) >= ENOUGH and len(reasons) == 1 and all(trial.state == TrialState.FAIL for trial in told):
            raise GpmError(f"{len(told)} trials failed, and none did not: {reasons.pop()}")

    def finish(self, time: str) -> Path:
        """Write what is left to write, and say what was found."""
        self.report.write_trials()
        recipe = self.report.write_recipe()
        if self.stop.asked:
            _log.info("interrupted after %d trials; the same command goes on", self.done)
            raise KeyboardInterrupt
        if recipe is None:
            raise GpmError("no trial was trained to its end; give more --time or --trials, or fewer --epochs.")
        self.report.draw()
        for line in self.report.summary():
            _log.info(line)
        more = f"all {self.trials} trials are made" if self.done >= self.trials else f"{time} are used up"
        _log.info("%s; more --trials or --time go on in %s", more, self.report.folder)
        _log.info("gpm train %s trains with them, and reads the test part once", recipe)
        return recipe
