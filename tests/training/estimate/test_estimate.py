"""Predictions of trainings: what is counted, what is told from it, and what makes a training fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from gpm import train
from gpm.cli.main import main
from gpm.config import Config
from gpm.data.sources import load_task_data
from gpm.errors import GpmError
from gpm.io.cache import data_root
from gpm.io.environment import available_bytes, peak_bytes, private_bytes
from gpm.training.estimate import machine_costs as kept
from gpm.training.estimate.estimate import Team, count_instances, estimate
from gpm.training.estimate.forecast import fewest, make_plan
from gpm.training.estimate.machine_costs import KEPT, STATE, Constants, find_costs
from gpm.training.estimate.measure import (
    Bench,
    Costs,
    Line,
    LiveBytes,
    measure,
)
from gpm.training.estimate.subject import Stated, Subject
from tests.small_runs import SMALL, make_graph

pytestmark = pytest.mark.usefixtures("one_thread")
GRAPH = Stated(300, 900, 4, 3)
MACHINE = Constants(process=5e8, factor=1.25, overhead=0.001)
STEP = 1e6  # bytes of an instance in the costs below


@pytest.fixture
def subject() -> Subject:
    return Subject.of(Config(**SMALL), GRAPH.sample())


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose constants are known, and on which nothing is measured twice."""
    monkeypatch.setattr(kept, "measure_constants", lambda threads: MACHINE)
    monkeypatch.setattr(kept, "time_block", lambda: 0.01)
    monkeypatch.setattr("gpm.training.estimate.measure.SPENT", 0.0)


def make_costs(**changes: Any) -> Costs:
    line = Line(1, 0.001, 2, 0.002)
    plain: dict[str, Any] = {
        "parameters": 1000, "step_bytes": Line(16, 16 * STEP, 32, 32 * STEP), "sampling": line, "gathering": line,
        "computing": line, "updating": 0.001, "flops": 1e6, "read_bytes": Line(1, 10, 2, 20), "reading": line,
        "map_bytes": 0, "mapping": 0.0, "val_patterns": 6,
    }  # fmt: skip
    return Costs(**plain | changes)


# what is counted


def test_live_bytes_are_those_of_tensors_that_are_there() -> None:
    given = torch.ones(1000)
    live = LiveBytes()
    with live:
        first = given + 1
        assert live.now == 4000
        view = first[10:]
        view += 1
        assert live.now == 4000  # neither a view nor a change in place is a new tensor
        second = first * 2
        del first, view
        assert (live.now, live.most) == (4000, 8000)
        del second
    assert (live.now, live.most) == (0, 8000)


def test_live_bytes_see_what_is_saved_for_gradients() -> None:
    weight = torch.ones(1000, requires_grad=True)
    live = LiveBytes()
    with live:
        loss = (weight * 2).exp().exp().sum()  # each exp keeps its result, of which no name is left
        assert live.now == 2 * 4000 + 4
        loss.backward()
    assert live.now == 4000 + 4  # the gradient and the loss


def test_a_process_knows_its_memory() -> None:
    assert 0 < private_bytes() < peak_bytes() < available_bytes() + peak_bytes()


def test_a_line_is_exact_where_it_was_measured() -> None:
    line = Line(10, 5.0, 20, 7.0)
    assert (line.at(10), line.at(20)) == (5.0, 7.0)
    assert line.at(15) == pytest.approx(6.0)
    assert line.at(40) == pytest.approx(11.0)
    assert line.at(5) == pytest.approx(2.5)  # below, in proportion


@pytest.mark.parametrize("line", [Line(10, 5.0, 10, 5.0), Line(10, 6.0, 20, 5.0)])
def test_a_line_never_falls(line: Line) -> None:
    found = [line.at(size) for size in range(1, 60)]
    assert all(0 < low <= high for low, high in pairwise(found))
    assert line.at(line.large) == line.high


def test_bytes_of_a_step_grow_with_its_instances_and_shrink_with_checkpointing(subject: Subject) -> None:
    bench = Bench(subject)
    small, large = bench.step_bytes(16), bench.step_bytes(64)
    assert 2 * small < large < 5 * small
    assert Bench(subject.with_(layers=3, checkpointing=True)).step_bytes(64) < (
        0.7 * Bench(subject.with_(layers=3)).step_bytes(64)
    )


@pytest.mark.parametrize("task", ["node", "link"])
def test_every_cost_is_measured(task: str, machine: None) -> None:
    source = GRAPH.sample() if task == "node" else load_task_data(make_graph(), "link")
    found = measure(Subject.of(Config(**SMALL), source), 32)
    assert all(getattr(found, name).at(32) > 0 for name in ("step_bytes", "sampling", "computing", "reading"))
    assert found.parameters > 0
    assert found.updating > 0
    assert found.flops > 0
    assert msgspec.convert(json.loads(json.dumps(asdict(found))), Costs) == found


def test_what_is_planned_is_what_is_trained(subject: Subject, tmp_path: Path) -> None:
    run = train(subject.data.graph, out=tmp_path / "run", quiet=True, **SMALL)
    assert not isinstance(run, list)
    assert subject.count_parameters() == run.facts["parameters"] == subject.build().model.count_parameters()
    assert [subject.count(part) for part in ("train", "val")] == [len(run.split.train), len(run.split.val)]
    assert 0 < run.result["seconds_per_step"] < run.result["train_seconds"] + 1


# what is told from it


def test_ranks_share_a_batch_and_parts_share_that(subject: Subject) -> None:
    train_part = subject.count("train")
    assert count_instances(subject.with_(batch=64), Team(4)) == 16
    assert count_instances(subject.with_(batch=64, accumulate=3), Team(2, 2)) == 6
    assert count_instances(subject.with_(batch=100_000), Team(1)) == train_part


def test_memory_adds_up(subject: Subject) -> None:
    costs = make_costs()
    memory = estimate(subject, Team(), costs, MACHINE, 1e6).memory
    assert memory.weights == STATE * costs.parameters
    assert memory.step == pytest.approx(1.25 * 64 * STEP)
    parts = memory.process + memory.graph + memory.weights + memory.averaged + max(memory.step, memory.reading)
    assert memory.total == pytest.approx(parts)
    assert estimate(subject.with_(average=2), Team(), costs, MACHINE, 1e6).memory.averaged == 4 * costs.parameters


def test_a_model_in_pieces_takes_less_of_each_rank(subject: Subject) -> None:
    costs = make_costs(parameters=10**9)
    whole, pieces = (estimate(subject, Team(8, strategy=s), costs, MACHINE, 0) for s in ("ddp", "fsdp"))
    assert pieces.memory.weights < whole.memory.weights / 2
    assert pieces.times.communicating > whole.times.communicating


def test_times_of_a_training(subject: Subject) -> None:
    times = estimate(subject.with_(epoch_steps=10, epochs=3), Team(), make_costs(), MACHINE, 0).times
    parts = times.sampling + times.gathering + times.computing + times.communicating
    assert times.step == pytest.approx(parts + MACHINE.overhead)
    assert times.communicating == 0  # one rank has nobody to talk to
    assert times.epoch == pytest.approx(10 * times.step + times.validation)
    assert times.whole == pytest.approx(3 * times.epoch + times.scoring)


def test_workers_take_drawing_out_of_a_step(subject: Subject) -> None:
    alone, ahead = (estimate(subject, Team(workers=w), make_costs(), MACHINE, 0).times for w in (0, 4))
    assert ahead.step == pytest.approx(alone.step - alone.sampling - alone.gathering)


def test_a_graph_that_is_not_there_counts_as_large_as_it_is_stated() -> None:
    stated = Stated(10**9, 10**10, 100, 5)
    subject = Subject.of(Config(**SMALL), GRAPH.sample(), stated=stated)
    held, files = subject.graph_bytes()
    assert (held, stated.held_bytes) == (0, 0)  # mapped from files
    assert files > 4 * (10**9 * 100 + 2 * 10**10)
    assert subject.count("train") == pytest.approx(10**9 / 2, rel=0.02)


# what makes it fit


@pytest.mark.parametrize("least", [1, 2, 7, 64])
def test_the_fewest_that_fit_are_found(least: int) -> None:
    assert fewest(lambda count: count >= least, 1, 64) == least


def test_nothing_fits_where_the_most_does_not() -> None:
    assert fewest(lambda count: False, 1, 64) is None


def plan_with(
    monkeypatch: pytest.MonkeyPatch, subject: Subject, memory: float, team: Team = Team(), **costs: Any
) -> Any:
    """A plan from costs that are given: checkpointing saves half, and a model of size xs a tenth of that of others."""

    def find(changed: Subject, instances: int, threads: int, again: bool = False) -> Costs:
        small = 0.1 if changed.config.width == 64 else 1
        share = small * (0.5 if changed.config.checkpointing else 1)
        found = make_costs(**costs)
        step = Line(16, share * found.step_bytes.low, 32, share * found.step_bytes.high)
        return replace(found, step_bytes=step, parameters=round(found.parameters * small))

    monkeypatch.setattr("gpm.training.estimate.forecast.find_costs", find)
    monkeypatch.setattr("gpm.training.estimate.forecast.find_constants", lambda *_: Constants(0.0, 1.0, 0.0))
    return make_plan(subject, team, memory, 0)


def test_what_fits_needs_nothing(monkeypatch: pytest.MonkeyPatch, subject: Subject) -> None:
    plan = plan_with(monkeypatch, subject, 1e9)
    assert plan.fits
    assert plan.remedy is None
    assert plan.verdict.startswith("It fits")


def test_the_smallest_number_of_parts_is_named(monkeypatch: pytest.MonkeyPatch, subject: Subject) -> None:
    plan = plan_with(monkeypatch, subject, 23 * STEP)  # of 64 instances, at most 22 beside the graph and the weights
    assert not plan.fits
    assert plan.remedy.flags == "--accumulate 3"
    assert plan.batch == 22
    assert "--accumulate 3 would make it fit" in plan.verdict
    assert plan.remedy.found.memory.total <= 23 * STEP
    assert plan_with(monkeypatch, subject.with_(accumulate=3), 23 * STEP).fits
    assert not plan_with(monkeypatch, subject.with_(accumulate=2), 23 * STEP).fits


def test_checkpointing_comes_where_parts_are_not_enough(monkeypatch: pytest.MonkeyPatch, subject: Subject) -> None:
    plan = plan_with(monkeypatch, subject, 0.9 * STEP)
    assert plan.remedy.flags == "--checkpointing --accumulate 64"
    assert plan.batch == 0


def test_pieces_come_where_weights_are_too_large(monkeypatch: pytest.MonkeyPatch, subject: Subject) -> None:
    costs = {"parameters": 10**7}  # 160 MB
    with_ranks = plan_with(monkeypatch, subject, 1.2e8, Team(4), **costs)
    assert with_ranks.remedy.flags.startswith("--strategy fsdp")
    assert plan_with(monkeypatch, subject.with_(average=1), 1.2e8, Team(4), **costs).remedy is None
    assert plan_with(monkeypatch, subject, 1.2e8, **costs).remedy is None  # one rank has no pieces


def test_a_smaller_model_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject.of(Config(**SMALL | {"width": None, "heads": None, "size": "m"}), GRAPH.sample())
    plan = plan_with(monkeypatch, subject, 1e8, parameters=10**7)
    assert plan.remedy.flags == "--model xs"
    assert "no flag" in plan_with(monkeypatch, subject, 1e4, parameters=10**7).verdict


# what is kept


def test_costs_are_measured_once(subject: Subject, machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    first = find_costs(subject, 16, 1)
    monkeypatch.setattr(kept, "measure", lambda *_: pytest.fail("measured twice"))
    assert find_costs(subject.with_(epochs=99, lr=0.5), 16, 1) == first  # of no matter for a step
    monkeypatch.setattr(kept, "measure", lambda *_: make_costs())
    assert find_costs(subject.with_(patterns=9), 16, 1) == make_costs()
    assert find_costs(subject, 16, 1, again=True) == make_costs()


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}'])
def test_a_damaged_file_is_made_anew(text: str, machine: None, monkeypatch: pytest.MonkeyPatch) -> None:
    data_root().mkdir(parents=True)
    (data_root() / KEPT).write_text(text)
    assert kept.find_constants(1) == MACHINE
    monkeypatch.setattr(kept, "measure_constants", lambda threads: pytest.fail("measured twice"))
    assert kept.find_constants(1) == MACHINE


def test_a_measurement_is_used_with_the_same_threads_for_some_hours_while_the_computer_is_as_fast(
    machine: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="gpm")
    made: list[int] = []
    monkeypatch.setattr(kept, "measure_constants", lambda threads: made.append(threads) or MACHINE)
    for _ in range(2):
        kept.find_constants(1)
        kept.find_constants(2)
    assert made == [1, 2]
    assert "measured 0 minutes ago; the computer is about as fast now" in caplog.messages[-1]
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    kept.find_constants(1)
    assert made == [1, 2, 1]
    for block, said in ((0.003, "it is 3.3 times faster than"), (0.009, "it is 3.0 times slower than")):
        monkeypatch.setattr(kept, "time_block", lambda block=block: block)
        kept.find_constants(1)
        assert f"measuring this computer again: {said}" in caplog.text
    assert made == [1, 2, 1, 1, 1]
    later = kept.time.time() + 7 * 3600
    monkeypatch.setattr(kept.time, "time", lambda: later)
    kept.find_constants(1)
    assert "the last measurement is 7 hours old" in caplog.text
    assert len(made) == 6


def test_the_block_that_tells_the_speed_takes_less_than_a_second() -> None:
    began = kept.time.perf_counter()
    assert 0 < kept.time_block() < kept.time.perf_counter() - began < 5


def test_one_process_has_the_threads_that_the_environment_says() -> None:
    words = [sys.executable, "-c", "from gpm.compute import usual_threads; print(usual_threads(1))"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.stdout == "1\n"


# the command


def test_the_command_predicts(machine: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "plan.json"
    words = "plan --num_nodes 300 --num_edges 900 --features 4 --classes 3 --model xs --lengths 0 1 2 --patterns 6"
    assert (
        main([*words.split(), "--pool", "12", "--batch", "16", "--devices", "2", "--memory", "4", "-o", str(out)]) == 0
    )
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("memory per rank", "steps/s", "epoch", "It fits", "bandwidth"))
    found = json.loads(out.read_text())
    assert found["options"]["size"] == "xs"
    assert found["instances_at_once"] == 8
    assert found["fits"]
    assert found["memory_bytes"]["total"] < found["memory_of_a_rank"] == 4e9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("plan", "Say what to train on"),
        ("plan karate --num_nodes 50 --num_edges 100", "Say what to train on"),
        ("plan --num_nodes 50", "--num_edges must lie between 1 and"),
        ("plan karate --model l --size s", "two sizes"),
        ("plan karate --model gcn", "--model: expected"),
        ("plan karate --devices 0", "devices must be at least 1"),
        ("plan karate --device cuda", "--memory 80"),
        ("plan karate --devices 8 --batch 4", "raise --batch"),
        ("plan karate --width 65536", "cannot be measured here"),
        ("plan karate -o plan.txt", "name a .json file"),
        ("plan nowhere", "nowhere"),
    ],
)
def test_mistakes_are_one_sentence(words: str, said: str, machine: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert printed.count("\n") == 1


def test_a_stated_graph_is_checked() -> None:
    with pytest.raises(GpmError, match="--classes must lie between 2"):
        Stated(100, 100, 3, 1)
