from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from matplotlib.image import imread
from optuna.trial import TrialState

from gpm import Config
from gpm.training.recipes import find_recipe
from gpm.training.tune.space import Choices, Range, Space
from gpm.training.tune.study import LATE, Facts, ask, open_study
from gpm.training.tune.tune_report import Report, shorten

SPACE = Space({"lr": Range(0.001, 0.1, log=True), "width": Choices((32, 64)), "pe": Choices(("none", "lap"))})


@pytest.fixture(params=["accuracy", "mae"], scope="module")
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    """A study of eleven trials that were trained, one that was pruned, one that failed and one that ran out of time."""
    base = Config(data="cora", metric=request.param, seed=5)
    larger, folder = request.param == "accuracy", tmp_path_factory.mktemp("study")
    facts = Facts("cora", "", request.param, base.to_dict(), "", SPACE.digest)
    with open_study(folder, facts, SPACE, larger) as study:
        for number in range(14):
            trial = ask(study, SPACE, base, startup=20)
            ends = {11: "pruned", 12: "the options do not fit.", 13: LATE}
            attributes = {"seconds": 1.5, "epoch": 2, "epochs": 3} | ({"why": ends[number]} if number in ends else {})
            for name, value in attributes.items():
                trial.set_user_attr(name, value)
            figure = trial.params["lr"] * (1 if larger else -1) + 0.2
            trial.report(figure, 3)
            if number < 11:
                study.tell(trial, figure)
            else:
                study.tell(trial, state=TrialState.FAIL if number == 12 else TrialState.PRUNED)
        yield Report(study, SPACE, base, folder, "Cora", "public")


def test_the_recipe_holds_the_best_options(report: Report) -> None:
    path = report.write_recipe()
    assert path is not None
    found = find_recipe(str(path))
    assert found is not None
    rates = [SPACE.decode(trial.params)["lr"] for trial in report.study.trials[:11]]
    assert found.config.lr == max(rates)
    assert (found.config.seed, found.config.data, found.config.metric) == (5, "cora", report.base.metric)
    assert "13 trials (11 trained, 1 pruned, 1 failed)" in found.note
    assert "Seed 5, split public" in found.note


def test_the_table_holds_every_trial(report: Report) -> None:
    report.write_trials()
    rows = (report.folder / "trials.csv").read_text().splitlines()
    assert rows[0] == f"trial,state,val_{report.base.metric},epoch,epochs,seconds,lr,width,pe,why"
    assert len(rows) == 15
    assert rows[1].startswith("1,complete,0.")
    assert ",0.005,64,none," in rows[1]
    assert rows[13].startswith("13,fail,,2,3,1.5,")
    assert rows[13].endswith("the options do not fit.")


def test_each_trial_is_told_in_a_line(report: Report) -> None:
    lines = [report.line(trial, 20) for trial in report.study.trials]
    assert lines[0].startswith("trial 1 of 20: val ")
    assert lines[0].endswith("(the options as given)")
    assert sum("; the best so far" in line for line in lines) == 1
    assert lines[11].startswith("trial 12 of 20: pruned at epoch 3, val ")
    assert lines[12].startswith("trial 13 of 20: the options do not fit., 1.5 s (lr ")


def test_the_summary_says_what_mattered(report: Report) -> None:
    told = report.summary()
    assert told[0].startswith("13 trials (11 trained, 1 pruned, 1 failed); best validation ")
    assert "; the given options had " in told[0]
    assert told[-1].startswith("importance: lr ")


def test_the_picture_is_drawn(report: Report) -> None:
    report.draw()
    picture = imread(report.folder / "history.png")
    assert picture.shape[0] > 500
    assert picture.std() > 0.01


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": "m"},
        {"size": "m", "layers": 1},
        {"size": "l", "width": 64, "heads": 4},
        {"lengths": [3], "lr": 0.0123, "pe": "lap", "seed": 9, "split": "10/20/70", "bag_of_words": "no"},
    ],
)
def test_a_short_recipe_means_the_same(options: dict[str, Any]) -> None:
    config = Config.from_dict(options | {"data": "x", "task": "node"})
    assert Config.from_dict(shorten(config)).with_(size=config.size, **_shape(config)) == config


def _shape(config: Config) -> dict[str, Any]:
    """Layers, heads and width as a short recipe gives them: a size would change them again."""
    again = Config.from_dict(shorten(config))
    return {name: getattr(again, name) for name in ("layers", "heads", "width")}
