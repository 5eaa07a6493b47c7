"""Report a study: the recipe, the table of its trials, a figure, and what is printed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import yaml
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from gpm.config import Config
from gpm.errors import GpmError
from gpm.explain.figure_sheet import ACCENT, INK, PALE, SOFT, new_sheet
from gpm.io.atomic import write_text
from gpm.io.table_files import write_table
from gpm.tasks.metrics import METRICS
from gpm.training.tune.space import Space
from gpm.training.tune.study import best_of, finished, options_of, why_lost

RECIPE, TRIALS, PICTURE = "recipe.yaml", "trials.csv", "history.png"
FEWEST = 10  # trained trials of which one may say what mattered


@dataclass(frozen=True, eq=False)
class Report:
    """Writes and prints the outcome of a study."""

    study: Study
    space: Space  # options that it tunes
    base: Config  # options that it began with
    folder: Path
    title: str  # of the data
    split: str  # in words

    def show(self, value: float) -> str:
        return METRICS[self.base.metric].show(value)

    def line(self, trial: FrozenTrial, trials: int) -> str:
        """Describe a trial in one line: its figure, what it changed, how long it took, and how it ended."""
        facts, best = trial.user_attrs, best_of(self.study)
        figure = "" if trial.value is None else f"val {self.show(trial.value)}, "
        when = f" at epoch {facts.get('epochs')}" if trial.state == TrialState.PRUNED else ""
        how = "" if trial.state == TrialState.COMPLETE else f"{facts.get('why')}{when}, "
        mark = "; the best so far" if best is not None and best.number == trial.number else ""
        said = f"{how}{figure}{facts.get('seconds', 0):.1f} s"
        lost = sum(why_lost(each) is not None for each in self.study.get_trials(deepcopy=False)[: trial.number])
        return f"trial {trial.number + 1} of {trials + lost}: {said}{mark} ({self.changes(trial)})"

    def changes(self, trial: FrozenTrial) -> str:
        """Return the options of a trial that differ from those the study began with."""
        options = self.space.decode(trial.params)
        changed = [f"{name} {value}" for name, value in options.items() if value != getattr(self.base, name)]
        return ", ".join(changed) or "the options as given"

    @property
    def first(self) -> FrozenTrial | None:
        """The trial with the options that the study began with, if it was trained to its end."""
        base = self.space.encode(self.base)
        done = self.study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        return next((trial for trial in done if trial.params == base), None)

    def counts(self) -> str:
        states = [trial.state for trial in finished(self.study)]
        kinds = {"trained": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
        each = [f"{states.count(state)} {word}" for word, state in kinds.items() if state in states]
        return f"{len(states)} trial{'s' * (len(states) != 1)} ({', '.join(each)})"

    def write_recipe(self) -> Path | None:
        best = best_of(self.study)
        if best is None or best.value is None:
            return None
        config, first = options_of(self.space, best, self.base), self.first
        begun = "" if first is None or first.value is None else f" (given options: {self.show(first.value)})"
        note = (
            f"Chosen by gpm tune among {self.counts()} by the validation {METRICS[config.metric].title}: "
            f"{self.show(best.value)} at epoch {best.user_attrs.get('epoch')} of trial {best.number + 1}{begun}. "
            f"Seed {config.seed}, split {self.split}, {time.strftime('%Y-%m-%d')}. The test split was not read."
        )
        content = {"about": f"{self.title}, with the options that validated best.", "note": note} | shorten(config)
        text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, allow_unicode=True, width=110)
        write_text(self.folder / RECIPE, text)
        return self.folder / RECIPE

    def write_trials(self) -> None:
        rows = [self._row(trial) for trial in self.study.get_trials(deepcopy=False) if trial.state.is_finished()]
        if rows:
            write_table(self.folder / TRIALS, {name: [row[name] for row in rows] for name in rows[0]})

    def _row(self, trial: FrozenTrial) -> dict[str, Any]:
        facts = trial.user_attrs
        try:
            options = self.space.decode(trial.params)
        except GpmError:  # killed while it was drawn
            options = dict.fromkeys(self.space.entries)
        return {
            "trial": trial.number + 1, "state": trial.state.name.lower(), f"val_{self.base.metric}": trial.value,
            "epoch": facts.get("epoch"), "epochs": facts.get("epochs"), "seconds": facts.get("seconds"),
        } | options | {"why": facts.get("why")}  # fmt: skip

    def summary(self) -> list[str]:
        best, first = best_of(self.study), self.first
        if best is None or best.value is None:
            return []
        title = METRICS[self.base.metric].title
        begun = "" if first is None or first.value is None else f"; the given options had {self.show(first.value)}"
        lines = [
            f"{self.counts()}; best validation {title} {self.show(best.value)} in trial {best.number + 1}{begun}",
            f"chosen: {self.changes(best)}",
        ]
        done = self.study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])
        if len(done) >= FEWEST and len({trial.value for trial in done}) > 1:
            shares = optuna.importance.get_param_importances(self.study)
            if weights := [f"{name} {share:.0%}" for name, share in shares.items() if share >= 0.05]:
                lines.append(f"importance: {', '.join(weights)}")
        return lines

    def draw(self) -> None:
        from matplotlib.ticker import MaxNLocator, PercentFormatter

        kind = METRICS[self.base.metric]
        trials = [t for t in self.study.get_trials(deepcopy=False) if t.state.is_finished() and t.value is not None]
        done = [t for t in trials if t.state == TrialState.COMPLETE]
        cut = [t for t in trials if t.state == TrialState.PRUNED and why_lost(t) is None]
        first, best = self.first, best_of(self.study)
        legend = [("trained", ACCENT, "o"), ("pruned", "white", "o"), ("best", INK, "*")]
        key = (
            "The line is the best figure so far, the dashed one that of the options as given. A pruned trial is shown "
            "by the figure that it had then. All figures are of the validation split."
        )
        with new_sheet(
            self.folder / PICTURE, 7.2, 3.4, title=f"{self.title}: validation {kind.title} of the trials",
            lines=[self.counts()], key=key, legend=legend,
        ) as sheet:  # fmt: skip
            width, height = sheet.figure.get_size_inches()
            axis = sheet.figure.add_axes((0.75 / width, (sheet.bottom + 0.5) / height, 6.25 / width, 2.8 / height))
            for some, fill, order in ((cut, "white", 2), (done, ACCENT, 3)):
                places, values = [t.number + 1 for t in some], [t.value for t in some]
                axis.scatter(places, values, s=26, fc=fill, ec=SOFT, lw=0.8, zorder=order)
            better, so_far = max if kind.larger else min, list[float]()
            for trial in done:
                so_far.append(better([*so_far[-1:], trial.value or 0.0]))
            ends = [t.number + 1 for t in (*done, *trials[-1:])]
            axis.step(ends, [*so_far, *so_far[-1:]], where="post", color=ACCENT, lw=1.2, zorder=1)
            if first is not None:
                axis.axhline(first.value, color=SOFT, lw=0.8, ls=(0, (4, 3)), zorder=0)
            if best is not None:
                axis.scatter([best.number + 1], [best.value], s=120, marker="*", fc=INK, ec="white", lw=0.8, zorder=4)
            axis.set_xlabel("trial", color=SOFT)
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.yaxis.set_major_locator(MaxNLocator(6))
            if kind.share:
                axis.yaxis.set_major_formatter(PercentFormatter(1.0))
            axis.grid(axis="y", color=PALE, lw=0.5)
            axis.set_axisbelow(True)
            axis.tick_params(colors=SOFT, length=3)
            axis.spines[["top", "right"]].set_visible(False)
            axis.spines[:].set_color(PALE)


def shorten(config: Config) -> dict[str, Any]:
    """Return the options that differ from the defaults, as a recipe has them: a size is spelled out."""
    usual, first = Config().to_dict(), {"data": config.data, "task": config.task}
    return first | {key: value for key, value in config.to_dict().items() if key != "size" and value != usual[key]}
