"""A baseline is trained by options of its own, not by those that were chosen for the pattern machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import Config, Graph, NodeClassifier, Run, train
from gpm.data.graph_data import build_graph_data
from gpm.data.task_data import TaskData
from gpm.io.run_files import read_config
from gpm.training.baseline_options import (
    GRAPHS,
    LINKS,
    NODES,
    PASSES,
    SHARE,
    STEPS,
    baseline_config,
    fill_baseline,
)
from gpm.training.batches import Batches
from gpm.training.choose import choose_recipe

pytestmark = pytest.mark.usefixtures("one_thread")
COUNT = 60


def make_graph() -> Graph:
    rng = np.random.default_rng(0)
    ends, x = rng.integers(0, COUNT, (2, 150)), rng.normal(size=(COUNT, 3))
    return Graph.from_edges(ends, COUNT, undirected=True, x=x, y=np.arange(COUNT) % 3)


def choose(source: Any = None, **options: Any) -> Config:
    return choose_recipe(make_graph() if source is None else source, options)[0].config


@pytest.mark.parametrize("model", ["gcn", "sage", "gcnii", "mlp"])
def test_a_step_on_nodes_learns_from_all_of_them(model: str) -> None:
    config = choose(model=model)
    steps = list(Batches(36, config.batch, 0, steps=config.epoch_steps))
    assert len(steps) == config.epoch_steps == NODES["epoch_steps"]
    assert all(sorted(step.whole) == list(range(36)) for step in steps)


def test_what_the_user_gives_is_kept() -> None:
    given = {"epochs": 60, "lr": 0.005, "dropout": 0.3, "gnn_norm": "batch", "patience": 0, "layers": 3, "width": 8}
    config = choose(model="gcn", **given)
    assert {name: getattr(config, name) for name in given} == given
    assert config.decay == NODES["decay"]
    assert (choose(model="gcn", size="m").layers, choose(model="gcn", size="m").width) == (3, 256)


@pytest.mark.parametrize("task", ["node", "link"])
def test_beside_a_run_a_baseline_has_the_options_that_it_has_alone(task: str) -> None:
    """Nothing of what is chosen from the data for the pattern machine, such as constant features."""
    bare = Graph.from_edges(make_graph().edge_index(), COUNT, y=np.arange(COUNT) % 3)
    for given in ({}, {"dropout": 0.2, "features": "degree", "width": 8, "heads": 2}):
        recipe, data = choose_recipe(bare, {"task": task, **given})
        beside = baseline_config(recipe.config, recipe, "gcn", data)
        assert beside.to_dict() == choose(bare, task=task, model="gcn", **given).to_dict()


def test_batches_of_the_user_are_passes_over_the_training_split() -> None:
    config = choose(model="gcn", batch=16)
    assert (config.batch, config.epoch_steps) == (16, 0)


def test_auto_is_what_is_done_without_it() -> None:
    assert choose(model="gat", gnn_norm="auto", gnn_residual="auto") == choose(model="gat")
    assert choose(model="gat").gnn_residual == "linear"


@pytest.mark.parametrize(("given", "meant"), [({}, "off"), ({"labels": "auto"}, "off"), ({"labels": "on"}, "on")])
def test_a_baseline_reads_labels_only_if_it_is_told_to(given: dict[str, Any], meant: str) -> None:
    assert choose(model="gcn", **given).labels == meant


def test_a_recipe_of_the_pattern_machine_says_what_is_learned_but_not_how() -> None:
    ours, theirs = choose("motifs"), choose("motifs", model="gcn")
    assert {name: getattr(theirs, name) for name in NODES} == NODES
    assert all(getattr(ours, name) == getattr(theirs, name) for name in ("data", "features", "pe", "split", "metric"))


def test_a_recipe_of_a_baseline_is_taken_as_written(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("data: karate\nmodel: gcn\nepochs: 7\n", encoding="utf-8")
    assert choose(str(tmp_path / "mine.yaml")) == Config(data="karate", model="gcn", epochs=7)


def test_the_pattern_machine_keeps_its_options() -> None:
    options: dict[str, Any] = {"model": "gpm", "preset": "plain"}
    assert choose("karate", **options) == Config(data="karate", **options)


@pytest.mark.parametrize("source", ["karate", "cora-link"])
def test_a_step_on_links_learns_from_few_of_them_and_sees_the_others(source: str) -> None:
    if source != "karate" and not os.environ.get("GPM_RAW"):
        pytest.skip("needs the raw files of Cora")
    config = choose(source, model="gcn", task="link")
    assert {name: getattr(config, name) for name in LINKS} == LINKS
    edges = {"karate": 78, "cora-link": 5278}[source]
    assert config.batch == max(32, round(SHARE * edges))
    assert choose(source, model="gcn", task="link", batch=7).epoch_steps == 0


def make_collection(count: int, x: Any = None) -> TaskData:
    edges = np.concatenate([np.array([[0, 1], [1, 2]]) + 3 * i for i in range(count)], axis=1)
    given: dict[str, Any] = {"x": x, "y": np.arange(count) % 2, "graph_ptr": np.arange(0, 3 * count + 1, 3)}
    return build_graph_data(Graph.from_edges(edges, 3 * count, undirected=True, **given), "toys")


@pytest.mark.parametrize("count", [40, 600, 20_000])
def test_on_graphs_a_small_split_has_as_many_steps_as_a_large_one(count: int) -> None:
    config, learned = fill_baseline(Config(model="gin"), {}, make_collection(count)), round(0.8 * count)
    assert {name: getattr(config, name) for name in GRAPHS} == GRAPHS
    passes = -(-learned // config.batch)
    steps = config.epoch_steps or passes
    assert 20 <= steps <= max(20, passes)
    assert STEPS <= steps * config.epochs <= max(STEPS + steps, PASSES * passes)
    assert 0 < config.patience < config.epochs


def test_graphs_without_features_have_their_degrees() -> None:
    assert fill_baseline(Config(model="gin"), {}, make_collection(40)).features == "degree"
    assert fill_baseline(Config(model="gin"), {}, make_collection(40, np.ones((120, 1)))).features == "auto"
    assert (
        fill_baseline(Config(model="gin", features="constant"), {"features": "constant"}, make_collection(40)).features
        == "constant"
    )


def test_options_of_the_user_are_kept_on_graphs() -> None:
    given = {"batch": 8, "dropout": 0.1, "epochs": 3}
    config = fill_baseline(Config(model="gcn", **given), given, make_collection(40))
    assert {name: getattr(config, name) for name in given} == given
    assert (config.epoch_steps, config.gnn_jump) == (0, GRAPHS["gnn_jump"])


def test_an_estimator_fills_them_in_too() -> None:
    model = NodeClassifier(model="gcn", epochs=1, width=8, heads=2).fit(make_graph())
    config = model.run_.config
    assert (config.epochs, config.width, config.gnn_residual, config.batch) == (1, 8, "linear", COUNT)


def test_a_run_folder_has_all_that_was_filled_in(tmp_path: Path) -> None:
    run = train(make_graph(), out=tmp_path / "run", model="gcn", epochs=1, quiet=True)
    assert isinstance(run, Run)
    stored = read_config(tmp_path / "run/config.yaml")
    assert {name: getattr(stored, name) for name in NODES} == NODES | {"epochs": 1}
    assert "skips.0.weight" in run.predictor.model.state_dict()


def test_options_that_a_recipe_left_to_the_data_are_not_those_of_a_baseline_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("data: karate\nauto: true\nfeature_dropout: 0.25\n", encoding="utf-8")
    recipe, data = choose_recipe(str(file), {"pe": "rwse"})
    assert (recipe.config.expected, recipe.config.position) == (3, 16)  # chosen
    beside = baseline_config(recipe.config, recipe, "gcn", data)
    alone = choose_recipe(str(file), {"pe": "rwse", "model": "gcn"})[0].config
    assert beside == alone
    assert (beside.expected, beside.position, beside.pe) == (0, 0, "rwse")
