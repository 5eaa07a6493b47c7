"""A trial: the figure that training would have, without the test part, and its early ends."""

from __future__ import annotations

import csv
import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpm import Config, GpmError, Graph, train
from gpm.data.sources import load_task_data
from gpm.nn.predictor import Predictor
from gpm.tasks import make_task
from gpm.training.callbacks import Stop, StoppedError
from gpm.training.tune.trial import Bench, Course, hide_test
from tests.training.tune.toys import SMALL, make_graph
from tests.whole.test_graph_task import rings_and_trees

pytestmark = pytest.mark.usefixtures("one_thread")

OPTIONS = {key: value for key, value in SMALL.items() if key != "device"}
BASE = Config.from_dict(OPTIONS | {"metric": "accuracy", "task": "node"})


def _bench(graph: Graph | None = None, config: Config = BASE) -> Bench:
    data = load_task_data(graph or make_graph(), config.task)
    return Bench(data, data.make_split(config.seed), "cpu")


def _fit(bench: Bench, give_up: Any = lambda epoch, value: "", stop: Stop | None = None, **options: Any) -> Course:
    course = Course()
    bench.fit(BASE.with_(**options), course, give_up, stop or Stop())
    return course


@pytest.mark.parametrize("select", ["metric", "loss", "last"])
def test_the_figure_is_that_of_the_epoch_which_training_keeps(tmp_path: Path, select: str) -> None:
    course = _fit(_bench(), select=select, epochs=5, lr=0.02)
    train(make_graph(), out=tmp_path / "run", quiet=True, device="cpu", **OPTIONS | {"epochs": 5, "lr": 0.02})
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    figures = [float(row["val_accuracy"]) for row in rows]
    losses = [float(row["val_loss"]) for row in rows]
    equal = [loss if figure == max(figures) else math.inf for figure, loss in zip(figures, losses, strict=True)]
    kept = {"metric": equal.index(min(equal)), "loss": losses.index(min(losses)), "last": 4}[select]
    assert (course.epoch, course.epochs, course.why) == (kept + 1, 5, "")
    assert course.value == pytest.approx(figures[kept], abs=1e-6)


def test_answers_of_the_test_part_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, float]] = []

    def listen(epoch: int, value: float) -> str:
        heard.append((epoch, value))
        return ""

    graph, bench = make_graph(), _bench()
    assert graph.y is not None
    y = graph.y.copy()
    y[bench.split.test] = (y[bench.split.test] + 1) % 3
    poisoned = _bench(replace(graph, y=y))
    assert poisoned.split.digest == bench.split.digest
    asked: list[int] = []
    said = Predictor.logits

    def note(self: Predictor, inputs: Any, **options: Any) -> Any:
        asked.extend(np.asarray(inputs).tolist())
        return said(self, inputs, **options)

    monkeypatch.setattr(Predictor, "logits", note)
    one, two = (_fit(each, listen, lr=0.02) for each in (bench, poisoned))
    assert one == two
    assert heard[: len(heard) // 2] == heard[len(heard) // 2 :] != []
    assert set(asked) == set(bench.split.val.tolist())


def test_the_test_part_has_no_answers() -> None:
    values = rings_and_trees(np.linspace(-1, 1, rings_and_trees().num_graphs))
    for graph, level, metric in (
        (make_graph(), "node", "accuracy"),
        (make_graph(), "link", "ap"),
        (values, "graph", "mae"),
    ):
        data = load_task_data(graph, level, metric=metric)
        split = data.make_split(0)
        config = Config.from_dict({"metric": metric, "task": level})
        whole, task = make_task(data, split, config), hide_test(make_task(data, split, config), split)
        test, others = torch.tensor(split.test), torch.tensor(np.concatenate([split.train, split.val]))
        unknown = task.targets[test].isnan() if task.targets.is_floating_point() else task.targets[test] == -1
        assert unknown.all()
        assert torch.equal(task.targets[others], whole.targets[others])


def test_a_trial_that_diverges_is_ended() -> None:
    course = _fit(_bench(), lr=100.0, clip=1e9, warmup=0, epochs=50, decay=100.0)
    assert course.why == "diverged"
    assert course.epochs < 50
    assert course.value is None or math.isfinite(course.value)


def test_a_trial_that_is_given_up_ends_there() -> None:
    course = _fit(_bench(), lambda epoch, value: "pruned" if epoch == 2 else "", epochs=9)
    assert (course.epochs, course.why) == (2, "pruned")


def test_patience_ends_a_trial_as_it_ends_training() -> None:
    course = _fit(_bench(), lr=0.0, epochs=50, patience=2)
    assert (course.epoch, course.epochs, course.why) == (1, 3, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_trial_after_its_step(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def interrupt(epoch: int, value: float) -> str:
        if epoch == 2:
            os.kill(os.getpid(), number)
        return ""

    with Stop().listening() as stop:
        with pytest.raises(StoppedError):
            _fit(_bench(), interrupt, stop, epochs=50)
        assert stop.asked
    assert signal.getsignal(number) is before


def test_too_little_memory_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Bench, config: Config) -> Any:
        raise RuntimeError("CUDA out of memory. Tried to allocate")

    monkeypatch.setattr(Bench, "build", full)
    with pytest.raises(GpmError, match=r"^Not enough memory for these options\.$"):
        _fit(_bench())
