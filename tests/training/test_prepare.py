"""Preparing: a training, a trial of a study and a plan are of the same model, examples and statistics."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpm import Config, GpmError, Graph, train
from gpm.__main__ import main
from gpm.data.domain_data import DomainData, unite
from gpm.data.node_data import build_node_data
from gpm.data.synthetic import shifted_pair
from gpm.training.callbacks import Stop
from gpm.training.estimate.estimate import Team, count_instances, estimate
from gpm.training.estimate.forecast import make_plan
from gpm.training.estimate.machine_costs import Constants
from gpm.training.estimate.measure import Bench as Measured
from gpm.training.estimate.measure import Costs, Line
from gpm.training.estimate.subject import Subject
from gpm.training.lightning_module import Learner
from gpm.training.tune import tune
from gpm.training.tune.trial import Bench, Course

pytestmark = pytest.mark.usefixtures("one_thread")
SMALL: dict[str, Any] = {
    "preset": "plain",
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 32, "epochs": 2, "modes": 7,
    "lr": 0.01,
}  # fmt: skip


def _pair(nodes: int = 60) -> DomainData:
    one, two = (build_node_data(graph, title) for graph, title in zip(shifted_pair(3.0, nodes), "ab", strict=True))
    return unite(replace(one, title="a"), replace(two, title="b"))


def _bench(data: DomainData) -> Bench:
    return Bench(data, data.make_split(0), "cpu")


def _config(**options: Any) -> Config:
    return Config(**SMALL | {"metric": "accuracy", "task": "node"} | options)


@pytest.mark.parametrize(
    "options", [{"adapt": "none"}, {"adapt": "dann"}, {"adapt": "dann+ssreg"}, {"accumulate": 2}], ids=str
)
def test_a_trial_learns_the_weights_that_training_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    last: list[dict[str, torch.Tensor]] = []

    def note(self: Learner) -> None:
        last.append({key: value.clone() for key, value in self.state_dict().items()})

    monkeypatch.setattr(Learner, "on_train_end", note)
    data, course = _pair(), Course()
    _bench(data).fit(_config(**options), course, lambda epoch, value: "", Stop())
    train(data, out=tmp_path / "run", device="cpu", quiet=True, **SMALL | options)  # type: ignore[arg-type]
    assert last[0].keys() == last[1].keys()
    for key, value in last[0].items():
        assert torch.equal(value, last[1][key]), key
    assert course.epochs == 2


def test_statistics_of_a_trial_are_the_sources() -> None:
    data = _pair()
    x = np.array(data.graph.x)
    x[data.away] = 100 * x[data.away] + 7
    other = replace(data, graph=replace(data.graph, x=x))
    one, two = (_bench(each).build(_config())[1].model.state_dict() for each in (data, other))
    for key, value in one.items():
        assert torch.equal(value, two[key]), key


def _save(folder: Path) -> list[str]:
    return [str(graph.save(folder / name)) for graph, name in zip(shifted_pair(nodes=60), ("one", "two"), strict=True)]


REFUSED = [
    ({"adapt": "dann"}, "--adapt dann needs a target: name one with --target_graph, or try --shift degree."),
    ({"validate": "target"}, "--validate target needs a target: name one with --target_graph, or try --shift degree."),
    ({"adapt": "dann", "target": "two", "accumulate": 2}, "leave out --devices"),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED)
def test_tuning_refuses_what_training_refuses(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    one, two = _save(tmp_path)
    options = options | ({"target": two} if "target" in options else {})
    with pytest.raises(GpmError) as caught:
        tune(one, out=tmp_path / "tuned", trials=1, device="cpu", quiet=True, **SMALL | options)
    assert sentence in str(caught.value)
    with pytest.raises(GpmError) as again:
        train(one, out=tmp_path / "run", device="cpu", quiet=True, **SMALL | options)
    assert str(again.value) == str(caught.value)
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [*REFUSED, ({"adapt": "dann", "target": "two", "devices": 2}, "leave out --devices")],
)
def test_planning_refuses_what_training_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], sentence: str
) -> None:
    one, two = _save(tmp_path)
    options = options | ({"target": two} if "target" in options else {})
    assert main(["plan", one, *(f"--{key}={value}" for key, value in options.items())]) == 2
    assert sentence in capsys.readouterr().err


def test_a_study_trains_with_the_adaptation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapted: list[bool] = []
    usual = Learner.training_step

    def note(self: Learner, batch: Any, batch_idx: int) -> torch.Tensor:
        adapted.append(self.adaptation is not None and len(batch.inputs) == 2 * len(batch.targets))
        return usual(self, batch, batch_idx)

    monkeypatch.setattr(Learner, "training_step", note)
    one, two = _save(tmp_path)
    options = SMALL | {"target": two, "adapt": "dann", "epochs": 1}
    recipe = tune(one, out=tmp_path / "tuned", trials=1, device="cpu", quiet=True, **options)
    assert "adapt: dann" in recipe.read_text()
    assert adapted
    assert all(adapted)


@pytest.mark.parametrize("method", ["dann", "ssreg"])
def test_a_plan_counts_the_nodes_of_the_target(method: str) -> None:
    data = _pair(200)
    alone, adapted = (Measured(Subject.of(_config(adapt=each), data)) for each in ("none", method))
    assert 1.5 < adapted.step_bytes(32) / alone.step_bytes(32) < 3
    assert 1.5 < adapted.flops(32) / alone.flops(32) < 3


COSTS = Costs(
    1000, Line(16, 16e6, 32, 32e6), *[Line(1, 0.001, 2, 0.002)] * 3, 0.001, 1e6, Line(1, 10, 2, 20),
    Line(1, 0.001, 2, 0.002), 0, 0.0, 6,
)  # fmt: skip
MACHINE = Constants(0.0, 1.0, 0.0)


def test_a_plan_counts_the_validation_of_both_domains() -> None:
    data = _pair()
    both = Subject.of(_config(), data)
    home = replace(both, split=replace(both.split, other=np.zeros(0, dtype=np.int64)))  # type: ignore[type-var]
    assert both.count_held_out() == ([12, 12], [12, 48, 12, 48])
    one, two = (estimate(each, Team(), COSTS, MACHINE, 0).times for each in (both, home))
    assert one.validation == pytest.approx(2 * two.validation)
    unknown = Subject.of(_config(), replace(data, graph=replace(data.graph, y=np.where(data.away, -1, data.labels))))
    assert unknown.count_held_out() == ([12], [12, 12, 60])


def test_no_flag_is_named_that_adaptation_does_not_go_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpm.training.estimate.forecast.find_costs", lambda *_: COSTS)
    monkeypatch.setattr("gpm.training.estimate.forecast.find_constants", lambda *_: MACHINE)
    for method, flags in (("none", "--accumulate 2"), ("dann", "")):
        plan = make_plan(Subject.of(_config(adapt=method), _pair()), Team(), 2e7, 0)
        assert count_instances(plan.found.subject, Team()) == 32
        assert not plan.fits
        assert ("" if plan.remedy is None else plan.remedy.flags) == flags


@pytest.mark.parametrize(
    ("level", "options", "why"),
    [
        ("link", {"labels": "on"}, "--labels is for predicting nodes, but here links are predicted"),
        ("link", {"linear": "base"}, "--linear is for predicting nodes and graphs"),
        ("graph", {"position": 4}, "--position is for predicting nodes"),
        ("link", {"neighbourhoods": 2}, "--neighbourhoods is for predicting graphs"),
        ("graph", {"neighbourhoods": 2}, "--neighbourhoods are read by the linear part of a model; add --linear base"),
        ("graph", {"model": "gin", "descriptors": True}, "--descriptors are read by --model gpm, not by gin"),
    ],
)
def test_inputs_that_a_task_or_model_does_not_have_are_refused(
    level: str, options: dict[str, Any], why: str, tmp_path: Path
) -> None:
    ring = np.stack([np.arange(30), (np.arange(30) + 1) % 30])
    pointer = {"graph_ptr": np.arange(0, 31, 3), "y": np.arange(10) % 2} if level == "graph" else {}
    if level == "graph":
        ring = ring[:, ring[0] // 3 == ring[1] // 3]
    graph = Graph.from_edges(ring, 30, undirected=True, **pointer)
    with pytest.raises(GpmError, match=why):
        train(graph, out=tmp_path / "run", task=level, quiet=True, **SMALL | options)
