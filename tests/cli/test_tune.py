"""Tuning from end to end: the recipe, pruning, the clock, failures, and that it can be killed at any time."""

from __future__ import annotations

import csv
import importlib.util
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import gpm.training.tune
import gpm.training.tune.search
from gpm import GpmError, Run, train
from gpm.cli.main import main
from gpm.data.sources import load_task_data
from gpm.training.recipes import find_recipe
from gpm.training.tune import parse_time, tune
from gpm.training.tune.trial import Bench
from tests.training.tune.toys import SMALL, SPACE, make_graph, run_tune, save_graph

pytestmark = pytest.mark.usefixtures("one_thread")


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def _counted(folder: Path) -> list[dict[str, str]]:
    """The trials that ended by themselves, without their numbers and times."""
    lost = ("killed", "interrupted", "out of time")
    rows = [row for row in _rows(folder) if row["why"] not in lost]
    return [{key: value for key, value in row.items() if key not in ("trial", "seconds")} for row in rows]


# What a study leaves behind


def test_the_recipe_of_the_best_trial_can_be_trained(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gpm")
    recipe = run_tune(tmp_path, trials=4)
    assert {path.name for path in (tmp_path / "tuned").iterdir() if path.name != ".lock"} == {
        "study.db", "recipe.yaml", "trials.csv", "history.png",
    }  # fmt: skip
    rows = _rows(tmp_path / "tuned")
    assert [row["trial"] for row in rows] == ["1", "2", "3", "4"]
    assert float(rows[0]["lr"]) == 0.005  # the usual options come first
    best = max((row for row in rows if row["state"] == "complete"), key=lambda row: float(row["val_accuracy"]))
    run = train(recipe, out=tmp_path / "run", quiet=True, device="cpu")
    assert isinstance(run, Run)
    with (tmp_path / "run" / "metrics.csv").open() as file:
        figures = [float(row["val_accuracy"]) for row in csv.DictReader(file)]
    assert max(figures) == pytest.approx(float(best["val_accuracy"]), abs=1e-6)
    assert run.config.data == str(tmp_path / "data")
    content = yaml.safe_load(recipe.read_text())
    assert "4 trials" in content["note"]
    assert "The test split was not read." in content["note"]
    assert "seed 0" in content["note"]
    assert {"about", "note", "data", "task", "width"} <= set(content)
    assert f"gpm train {recipe} trains with these options" in caplog.text


def test_a_study_of_links_and_a_study_in_the_usual_space(tmp_path: Path) -> None:
    data = save_graph(tmp_path / "data")
    recipe = tune(data, out=tmp_path / "t", trials=2, task="link", epochs=1, pool=32, device="cpu", quiet=True)
    assert "pair" in _rows(tmp_path / "t")[0]
    found = find_recipe(str(recipe))
    assert found is not None
    assert found.config.task == "link"
    with pytest.raises(GpmError, match=r"^Protocol paper walks the test edges, which tuning must not see"):
        tune(data, out=tmp_path / "p", task="link", protocol="paper", device="cpu")
    assert not (tmp_path / "p").exists()


def test_a_recipe_is_where_tuning_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_graph(tmp_path / "data")
    mine = tmp_path / "mine.yaml"
    options = {key: value for key, value in SMALL.items() if key != "device"}
    mine.write_text(yaml.safe_dump(options | {"data": str(tmp_path / "data"), "lr": 0.0123, "size": "m", "layers": 1}))
    monkeypatch.setattr(Bench, "fit", _fit_at_once)
    recipe = tune(str(mine), out=tmp_path / "t", trials=1, device="cpu", quiet=True)
    found, given = find_recipe(str(recipe)), find_recipe(str(mine))
    assert found is not None
    assert given is not None
    assert found.config.with_(size="m", width=8, layers=1, heads=2) == given.config.with_(
        task="node", metric="accuracy"
    )


def test_answers_of_the_test_part_change_nothing(tmp_path: Path) -> None:
    run_tune(tmp_path, "one")
    graph = make_graph()
    assert graph.y is not None
    y = graph.y.copy()
    test = load_task_data(graph).make_split(0).test
    y[test] = (y[test] + 1) % 3
    poisoned = save_graph(tmp_path / "poisoned", type(graph).from_edges(graph.edge_index(), 60, x=graph.x, y=y))
    run_tune(tmp_path, "two", poisoned)
    assert _counted(tmp_path / "one") == _counted(tmp_path / "two")
    assert len(np.unique([row["lr"] for row in _rows(tmp_path / "one")])) == 3


def test_trials_that_lag_behind_are_pruned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gpm")
    options = SMALL | {"epochs": 8, "trials": 7, "startup": 2, "dropout": 0.0, "quiet": False}
    (tmp_path / "space.yaml").write_text("lr: [0.02, 1.0e-9]\nreadout: [mean, class]\n")
    tune(save_graph(tmp_path / "data"), out=tmp_path / "t", space=tmp_path / "space.yaml", **options)
    pruned = [row for row in _rows(tmp_path / "t") if row["state"] == "pruned"]
    assert pruned
    assert any(row["lr"] == "1e-09" for row in pruned)
    assert all(2 <= int(row["epochs"]) < 8 for row in pruned)
    found = find_recipe(str(tmp_path / "t" / "recipe.yaml"))
    assert found is not None
    assert found.config.lr == 0.02
    assert "pruned at epoch" in caplog.text


# Interrupted, killed, out of time


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, one_thread_for_all: None) -> Path:
    """A study that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    run_tune(folder, trials=4)
    return folder


def test_an_interrupted_study_goes_on_as_it_would_have(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, calls = Bench.fit, []

    def interrupt(self: Bench, *arguments: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        fit(self, *arguments)

    monkeypatch.setattr(Bench, "fit", interrupt)
    source = str(whole / "data")
    with pytest.raises(KeyboardInterrupt):
        run_tune(tmp_path, source=source, trials=4)
    assert len(_rows(tmp_path / "tuned")) == 2
    assert _rows(tmp_path / "tuned")[-1]["why"] == "interrupted"
    assert find_recipe(str(tmp_path / "tuned" / "recipe.yaml")) is not None
    run_tune(tmp_path, source=source, trials=4)
    assert _counted(tmp_path / "tuned") == _counted(whole / "tuned")
    before = _rows(tmp_path / "tuned")
    run_tune(tmp_path, source=source, trials=4)  # all are made
    assert _rows(tmp_path / "tuned") == before


PROGRAM = "import sys; from pathlib import Path; from tests.training.tune.toys import run_tune; import torch; \
torch.set_num_threads(1); run_tune(Path(sys.argv[1]), source=sys.argv[2], trials=4)"


@pytest.mark.slow
def test_a_killed_study_goes_on_as_it_would_have(whole: Path, tmp_path: Path) -> None:
    source, trials = str(whole / "data"), tmp_path / "tuned" / "trials.csv"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path), source], cwd=Path(__file__).parents[2])
    try:
        until = time.monotonic() + 60
        while not trials.is_file() or len(_rows(tmp_path / "tuned")) < 1:
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.005)
        with pytest.raises(GpmError, match="Another process tunes in"):
            run_tune(tmp_path, source=source, trials=4)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    run_tune(tmp_path, source=source, trials=4)
    assert _counted(tmp_path / "tuned") == _counted(whole / "tuned")
    recipes = [yaml.safe_load((folder / "tuned" / "recipe.yaml").read_text()) for folder in (whole, tmp_path)]
    assert {**recipes[0], "note": ""} == {**recipes[1], "note": ""}


def test_a_study_ends_when_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def fit(self: Bench, config: Any, course: Any, give_up: Any, stop: Any) -> None:
        for epoch in range(1, 4):
            clock[0] += 1.0
            course.value, course.epoch, course.epochs = config.lr, epoch, epoch
            course.why = give_up(epoch, config.lr) if epoch < 3 else ""
            if course.why:
                return

    monkeypatch.setattr(gpm.training.tune, "monotonic", lambda: clock[0])
    monkeypatch.setattr(gpm.training.tune.search, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Bench, "fit", fit)
    with pytest.raises(GpmError, match=r"^No trial was trained to its end; give more --time"):
        run_tune(tmp_path, time="2s", trials=9)
    rows = _rows(tmp_path / "tuned")
    assert [(row["state"], row["why"], row["seconds"]) for row in rows] == [("pruned", "out of time", "2.0")]
    run_tune(tmp_path, time="11s", trials=9, startup=99)  # of which 2 were used
    rows = _rows(tmp_path / "tuned")
    assert [row["why"] for row in rows] == ["out of time", "", "", ""]
    assert rows[1]["lr"] == rows[0]["lr"] == "0.005"  # the options given are tried again, first
    assert clock[0] == 11.0
    run_tune(tmp_path, time="11s", trials=9, startup=99)
    assert clock[0] == 11.0


# What does not work


def _fit_at_once(self: Bench, config: Any, course: Any, give_up: Any, stop: Any) -> None:
    course.value, course.epoch, course.epochs = config.lr, 1, 1


def test_options_that_do_not_go_together_are_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "fit", _fit_at_once)
    options = {key: value for key, value in SMALL.items() if key not in ("lengths", "patterns", "pool")}
    (tmp_path / "space.yaml").write_text("lengths: [[0, 1, 4, 8], [0, 1, 2, 3, 4, 5, 6, 7]]\npatterns: [16, 6]\n")
    data = save_graph(tmp_path / "data")
    tune(data, out=tmp_path / "t", space=tmp_path / "space.yaml", trials=12, startup=12, quiet=True, **options)
    failed = [row for row in _rows(tmp_path / "t") if row["state"] == "fail"]
    assert 0 < len(failed) < 12
    assert all("patterns (6) must lie between the number of lengths (8)" in row["why"] for row in failed)


def test_a_study_in_which_nothing_works_ends_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise GpmError("it is Monday.")

    monkeypatch.setattr(Bench, "fit", fail)
    with pytest.raises(GpmError, match=r"^All 3 trials failed: it is Monday\.$"):
        run_tune(tmp_path, trials=50)


def test_without_optuna_the_fix_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GpmError, match=r"^gpm tune needs Optuna: pip install 'graph-pattern-machine\[tuning\]'\.$"):
        tune("motifs")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"trials": 0}, "trials must be at least 1, got 0"),
        ({"startup": 0}, "startup must be at least 1, got 0"),
        ({"threads": -1}, "threads must be at least 0, got -1"),
        ({"time": "soon"}, "time must be written as 45s, 30m, 2h or 1h30m, got 'soon'"),
        ({"metric": "hits@20"}, "hits@20 is not a metric of classes"),
        ({"source": "nowhere"}, "nowhere"),
        ({"lr": "fast"}, "lr is also given as a flag"),
    ],
)
def test_a_mistake_leaves_nothing_behind(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GpmError) as caught:
        run_tune(tmp_path, **{"space": SPACE} | ({"lr": 0.1} if "lr" in options else options))
    assert sentence in str(caught.value)
    assert not (tmp_path / "tuned").exists()


def test_the_command_line_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = save_graph(tmp_path / "data")
    assert main(["tune", data, "--time", "1x", "-o", str(tmp_path / "t")]) == 2
    assert "gpm tune: time must be written as 45s" in capsys.readouterr().err
    assert main(["tune", data, "-o", str(tmp_path / "data")]) == 2
    assert "exists and holds no study" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("45s", 45), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("0.5s", 0.5), ("", float("inf"))]
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["30", "m", "30 m", "30m1h", "1h1h", "-5m", "0s", "1d", "5mm"])
def test_times_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(GpmError, match="time must be written as"):
        parse_time(text)
