"""Run trial after trial until their number or the time is used up."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from optuna.study import Study
from optuna.trial import TrialState

from gpm.errors import GpmError
from gpm.training.callbacks import Stop, StoppedError
from gpm.training.tune.study import INTERRUPTED, LATE, ask, finished, options_of
from gpm.training.tune.trial import Bench, Course
from gpm.training.tune.tune_report import Report

PRUNED = "pruned"
ENOUGH = 3  # trials that fail for the same reason, where none succeeded, end the study
_log = logging.getLogger("gpm")


@dataclass(frozen=True, eq=False)
class Search:
    """A search over a study."""

    report: Report  # the study, with its space and its base options, and the files that it leaves behind
    bench: Bench  # trains the trials
    stop: Stop  # tells when the user wants to stop
    trials: int  # in total
    startup: int  # of which are drawn at random
    quiet: bool  # no line for each trial

    @property
    def study(self) -> Study:
        return self.report.study

    @property
    def spent(self) -> float:
        return float(sum(trial.user_attrs.get("seconds", 0.0) for trial in self.study.get_trials(deepcopy=False)))

    @property
    def done(self) -> int:
        return len(finished(self.study))

    def announce(self) -> None:
        data, split = self.bench.data, self.bench.split
        _log.info("%s: %s", data.title, data.graph.summary())
        _log.info("split %s: %d train, %d val (%s)", split.name, len(split.train), len(split.val), split.digest)
        _log.info("tuning %s by validation %s", ", ".join(self.report.space.entries), self.report.base.metric)
        if self.done:
            _log.info("resuming after %d trials", self.done)

    def run(self, deadline: float) -> None:
        """Run trials until the deadline; end a study in which all trials fail for the same reason."""
        while self.done < self.trials and monotonic() < deadline and not self.stop.asked:
            self.try_one(deadline)
            ended = finished(self.study)
            reasons = {trial.user_attrs.get("why") for trial in ended}
            if len(ended) >= ENOUGH and len(reasons) == 1 and all(trial.state == TrialState.FAIL for trial in ended):
                raise GpmError(f"All {len(ended)} trials failed: {reasons.pop()}")

    def try_one(self, deadline: float) -> None:
        began, course, report = monotonic(), Course(), self.report
        trial = ask(self.study, report.space, report.base, self.startup)

        def give_up(epoch: int, value: float) -> str:
            trial.report(value, epoch)
            if monotonic() >= deadline:
                return LATE
            return PRUNED if trial.should_prune() else ""

        try:
            self.bench.fit(options_of(report.space, trial, report.base), course, give_up, self.stop)
        except StoppedError:
            course.why, course.value = INTERRUPTED, None
        except GpmError as error:
            course.why, course.value = str(error), None
        facts = {"seconds": round(monotonic() - began, 2), "epoch": course.epoch, "epochs": course.epochs}
        for name, value in (facts | ({"why": course.why} if course.why else {})).items():
            trial.set_user_attr(name, value)
        if course.why:
            self.study.tell(trial, state=TrialState.FAIL if course.value is None else TrialState.PRUNED)
        else:
            self.study.tell(trial, course.value)
        report.write_trials()
        if course.why != INTERRUPTED and not self.quiet:
            _log.info(report.line(self.study.trials[trial.number], self.trials))
        if not course.why:
            report.write_recipe()

    def finish(self, time: str) -> Path:
        """Write the files of the study and print its outcome; return the path of the recipe."""
        self.report.write_trials()
        recipe = self.report.write_recipe()
        if self.stop.asked:
            _log.info("interrupted after %d trials; the same command resumes the study", self.done)
            raise KeyboardInterrupt
        if recipe is None:
            raise GpmError("No trial was trained to its end; give more --time or --trials, or fewer --epochs.")
        self.report.draw()
        for line in self.report.summary():
            _log.info(line)
        end = f"{self.trials} trials are done" if self.done >= self.trials else f"{time} are used up"
        _log.info("%s; give more --trials or --time to continue in %s", end, self.report.folder)
        _log.info("gpm train %s trains with these options, and reads the test split once", recipe)
        return recipe
