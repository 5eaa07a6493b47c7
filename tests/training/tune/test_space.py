from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import yaml

from gpm import Config, GpmError
from gpm.data.sources import TaskData, load_task_data
from gpm.training.tune.space import Choices, Range, Space, default_space, read_space
from tests.training.tune.toys import make_graph
from tests.whole.test_graph_task import rings_and_trees

LEVELS = ("node", "link", "graph")


def _data(level: str) -> TaskData:
    return load_task_data(rings_and_trees() if level == "graph" else make_graph(), level)


def _base(level: str, **options: Any) -> Config:
    data = _data(level)
    return Config.from_dict({"task": level, "metric": data.metric} | options)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("options", [{}, {"lr": 0.5, "decay": 0.0, "lengths": [7], "width": 48, "pe": "rings"}])
def test_the_usual_space_holds_the_options_that_it_begins_with(level: str, options: dict[str, Any]) -> None:
    base = _base(level, **options)
    space = default_space(_data(level), base)
    assert base.with_(**space.decode(space.encode(base))) == base


@pytest.mark.parametrize("level", LEVELS)
def test_options_of_the_usual_space_go_together(level: str) -> None:
    base = _base(level, pool=16, anonymous="mean")  # which 32 patterns, and topology shape, do not go with
    space = default_space(_data(level), base)
    assert "shape" not in space.facts()["topology"]
    sampler = optuna.samplers.RandomSampler(seed=0)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=sampler)
    drawn = [base.with_(**space.decode(study.ask(space.distributions()).params)) for _ in range(100)]
    assert len({str(config) for config in drawn}) > 50


def test_each_task_has_its_own_options() -> None:
    spaces = {level: default_space(_data(level), _base(level)).entries for level in LEVELS}
    assert "pair" in spaces["link"]
    assert "pair" not in spaces["node"]
    assert "sum" in spaces["graph"]["readout"].facts()
    assert "sum" not in spaces["node"]["readout"].facts()
    values = rings_and_trees(np.linspace(-1, 1, rings_and_trees().num_graphs))
    numbers = load_task_data(values, "graph", metric="mae")
    assert "smoothing" not in default_space(numbers, Config(metric="mae")).entries
    baseline = default_space(_data("node"), _base("node", model="gcn")).entries
    assert {"layers", "gnn_norm"} < set(baseline)
    assert "topology" not in baseline


def test_embeddings_that_take_long_are_left_out() -> None:
    data = _data("node")
    assert default_space(data, _base("node")).facts()["pe"] == ["none", "rwse", "lap"]
    ring = np.arange(30_000)
    large = type(data.graph).from_edges(np.stack([ring, (ring + 1) % 30_000]), 30_000, undirected=True, y=ring % 2)
    assert "pe" not in default_space(replace(data, graph=large), _base("node")).entries


def test_what_the_user_gives_is_not_tuned() -> None:
    space = default_space(_data("node"), _base("node"), ["lr", "pe"])
    assert not {"lr", "pe"} & set(space.entries)
    with pytest.raises(GpmError, match=r"^There is nothing left to tune; fix fewer options\.$"):
        default_space(_data("node"), _base("node"), default_space(_data("node"), _base("node")).entries)


def test_a_space_of_the_users_is_read_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("lr: {low: 1e-3, high: 0.02, log: true}\npatterns: {low: 8, high: 64}\nlengths: [[1, 2], [4]]\n")
    space = read_space(path, Config())
    assert space.entries["lr"] == Range(0.001, 0.02, log=True)
    assert space.entries["patterns"] == Range(8, 64, whole=True)
    assert space.entries["lengths"] == Choices(([1, 2], [4]))
    assert isinstance(space.decode({"lr": 0.01, "patterns": 9, "lengths": "[4]"})["patterns"], int)
    assert space.encode(Config()) == {"lr": 0.005, "patterns": 16, "lengths": "[1, 2]"}  # the nearest there is
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(space.facts()))
    assert read_space(again, Config()) == space


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no options"),
        ("{}", "must hold options as"),
        ("- lr", "holds no options"),
        ("lr: [", ": not YAML ("),
        ("a: &a [1]\nb: *a", "line 1: a word that begins with '&', '*' or '!' must be in quotes"),
        ("lrr: [0.1]", "there is no option 'lrr'. Did you mean 'lr'?"),
        ("seed: [0, 1]", "figures with another seed cannot be compared; leave seed out"),
        ("epochs: [2]", "epochs is also given as a flag, which fixes it; leave out one of them"),
        ("lr: []", "lr must be a list of values, or a range with low, high and perhaps log"),
        ("lr: 0.1", "lr must be a list of values"),
        ("lr: {low: 1}", "lr must be a list of values"),
        ("lr: {low: 0.1, high: 0.2, step: 0.1}", "lr must be a list of values"),
        ("lr: {low: 0.2, high: 0.1}", "the range of lr must rise from low to high"),
        ("lr: {low: 0, high: 0.1, log: true}", "begin above 0"),
        ("lr: {low: .nan, high: 0.1}", "lr must lie between 0 and 100"),
        ("lr: [fast]", "lr must be of type float, got 'fast'"),
        ("pe: [rwse, lapp]", "pe must be one of none, lap, rwse, rings, got 'lapp'. Did you mean 'lap'?"),
        ("pe: {low: 1, high: 2}", "pe is not a number and has no range; give a list of values"),
        ("width: [30]", "width (30) must be a multiple of heads (4)"),
        ("1: [2]", "there is no option '1'"),
    ],
)
def test_mistakes_in_a_space_are_told_with_the_file(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(text)
    with pytest.raises(GpmError) as caught:
        read_space(path, Config(), ["epochs"])
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)


def test_digests_tell_spaces_apart() -> None:
    one, two = Space({"lr": Range(0.001, 0.02)}), Space({"lr": Range(0.001, 0.02, log=True)})
    assert one.digest == Space(dict(one.entries)).digest != two.digest


@pytest.mark.parametrize("stored", [{"lr": 1.0}, {"lr": "x"}, {}, {"lr": 0.01, "pe": "lapp"}])
def test_a_trial_outside_the_space_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(GpmError):
        Space({"lr": Range(0.001, 0.02), "pe": Choices(("lap", "none"))}).decode(stored)
