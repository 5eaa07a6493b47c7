"""Options chosen from the data: only those that are not given, by what the data has, without its test labels."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from gpm import GpmError
from gpm.config import Config
from gpm.data.graph_data import GraphData, build_graph_data
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData, build_node_data
from gpm.data.task_data import TaskData
from gpm.graph.graph import Graph
from gpm.run.run import Run
from gpm.training.auto_options import LINK_STEPS, LINK_TRAINING, PASSES, STEPS, choose_options
from gpm.training.choose import choose_recipe
from gpm.training.recipes import CHOSEN
from gpm.training.start import train

pytestmark = pytest.mark.usefixtures("one_thread")


def _nodes(count: int = 80, columns: int = 4) -> NodeData:
    random = np.random.default_rng(0)
    y = np.arange(count) % 2
    x = random.normal(size=(count, columns)) + y[:, None]
    edges = random.integers(0, count, (2, 3 * count))
    return build_node_data(Graph.from_edges(edges, count, undirected=True, x=x, y=y), "toy")


def _graphs(x: Any = None) -> TaskData:
    graphs = [nx.cycle_graph(5 + i % 3) if i % 2 else nx.path_graph(5 + i % 3) for i in range(40)]
    joined = Graph.from_networkx(nx.disjoint_union_all(graphs))
    pointer = np.cumsum([0, *(len(graph) for graph in graphs)])
    features = None if x is None else np.full((pointer[-1], 1), 0, dtype=x)
    return build_graph_data(replace(joined, graph_ptr=pointer, x=features, y=np.arange(40) % 2), "toys")


def _choose(data: TaskData, **options: Any) -> Config:
    return choose_options(Config(**options), data, options)


def test_what_is_given_is_kept() -> None:
    given = {"lr": 0.5, "labels": "off", "epochs": 3, "dropout": 0.0, "batch": 7}
    chosen = _choose(_nodes(), **given)
    assert {name: getattr(chosen, name) for name in given} == given
    assert chosen.expected > 0


@pytest.mark.parametrize(("agree", "chosen"), [(True, "on"), (False, "off")])
def test_few_known_labels_are_inputs_where_neighbours_agree(agree: bool, chosen: str) -> None:
    """An option that is given as auto is not given."""
    y = np.arange(80) % 2
    order = np.argsort(y, kind="stable") if agree else np.random.default_rng(0).permutation(80)
    ring = np.stack([order, np.roll(order, -1)])
    data = build_node_data(Graph.from_edges(ring, 80, undirected=True, y=y), "ring")
    assert _choose(data, labels="auto").labels == chosen
    assert _choose(data, labels="on").labels == "on"


def test_many_known_labels_are_inputs_whatever_they_say() -> None:
    assert _choose(_nodes(2000)).labels == "on"


@pytest.mark.parametrize("options", [{"preset": "plain"}, {"model": "gcn"}], ids=str)
def test_fixed_options_and_baselines_stay_as_they_are(options: dict[str, Any]) -> None:
    assert _choose(_nodes(), **options) == Config(**options)


@pytest.mark.parametrize("preset", ["fast", "auto", "best"])
@pytest.mark.parametrize("count", [20, 400, 5000])
def test_a_training_takes_about_as_many_steps_whatever_its_size(preset: str, count: int) -> None:
    data = _nodes(count)
    chosen, train_count = _choose(data, preset=preset), round(0.6 * count)
    passes = -(-train_count // chosen.batch)
    steps = chosen.epoch_steps or passes
    assert chosen.batch <= max(16, train_count)
    assert 20 <= steps <= max(20, passes)
    assert STEPS[preset] <= steps * chosen.epochs <= max(STEPS[preset] + steps, PASSES[preset] * passes)
    assert 0 < chosen.patience < chosen.epochs


def test_test_labels_decide_nothing() -> None:
    data = _nodes()
    y = data.labels.copy()
    test = data.make_split(0).test
    y[test] = 1 - y[test]
    other = replace(data, graph=replace(data.graph, y=y))
    assert _choose(data) == _choose(other)


def test_training_starts_from_the_linear_part_of_narrow_features_and_small_splits() -> None:
    assert _choose(_nodes(2000, columns=4)).linear == "base"
    assert _choose(_nodes(80, columns=400)).linear == "base"
    assert _choose(_nodes(2000, columns=400)).linear == "blend"


def test_graphs_of_categories_are_read_by_their_neighbourhoods_and_rings() -> None:
    chosen = _choose(_graphs(np.int64))
    assert (chosen.neighbourhoods, chosen.pe, chosen.path, chosen.readout) == (3, "rings", "conv", "sum")
    bare = _choose(_graphs())
    assert (bare.neighbourhoods, bare.features, bare.pe) == (0, "degree", "rwse")


def test_neighbourhoods_are_not_counted_without_the_linear_part_that_reads_them() -> None:
    for none in ("none", False):  # False is the spelling of earlier versions
        chosen = _choose(_graphs(np.int64), linear=none)
        assert (chosen.linear, chosen.neighbourhoods) == ("none", 0)


def test_graphs_have_expected_patterns_and_molecules_descriptors() -> None:
    pytest.importorskip("rdkit")
    data = _graphs(np.int64)
    chosen = _choose(data)
    assert (chosen.expected, chosen.structure, chosen.descriptors) == (2, True, False)
    assert isinstance(data, GraphData)
    assert _choose(replace(data, smiles=["C"] * data.num_instances)).descriptors


def test_numbers_of_graphs_are_learned_with_little_dropout() -> None:
    data = _graphs(np.int64)
    values = replace(data, graph=replace(data.graph, y=np.arange(40) / 7), metric="mae")
    assert _choose(values).dropout < _choose(data).dropout


def test_a_run_stores_what_was_chosen_and_predicts_the_same_when_opened(tmp_path: Path) -> None:
    run = train(_nodes(), out=tmp_path / "run", quiet=True, device="cpu", width=8, heads=2, epochs=3)
    assert isinstance(run, Run)
    assert run.config.labels == "on"
    again = Run.open(tmp_path / "run", _nodes())
    assert again.config == run.config
    np.testing.assert_array_equal(again.predict().logits.numpy(), run.predict().logits.numpy())


def _links(count: int = 80) -> LinkData:
    return LinkData(_nodes(count).graph, "toy")


def test_links_read_what_is_known_exactly_where_their_ends_are_read_together() -> None:
    chosen = _choose(_links(), patterns=12)
    assert (chosen.expected, chosen.structure, chosen.patterns) == (3, True, 12)
    alone = _choose(_links(), pair="product")
    assert (alone.expected, alone.structure) == (0, False)
    assert alone.patience > 0
    assert _choose(_links(), protocol="paper") == Config(protocol="paper")
    assert _choose(_links(), lengths=list(range(9))).patterns == 9


@pytest.mark.parametrize("count", [20, 400, 5000])
def test_a_training_on_links_takes_no_more_steps_the_more_there_are(count: int) -> None:
    chosen, edges = _choose(_links(count)), round(0.8 * 3 * count)
    steps = chosen.epoch_steps or math.ceil(edges / chosen.batch)
    assert 20 <= steps <= LINK_STEPS
    assert steps * (chosen.epochs - 1) < LINK_TRAINING["auto"] <= steps * chosen.epochs


@pytest.mark.parametrize("data", [_nodes(), _nodes(columns=300), _graphs(), _graphs(np.int64), _graphs(np.float32)])
def test_recipes_know_which_options_may_be_chosen(data: TaskData) -> None:
    before, after = Config().to_dict(), _choose(data).to_dict()
    assert {name for name, value in after.items() if value != before[name]} <= CHOSEN[data.level]


def test_a_recipe_may_leave_options_to_the_data(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("data: karate\nauto: true\nlr: 0.5\n", encoding="utf-8")
    recipe, data = choose_recipe(str(file), {})
    assert recipe.config == choose_options(Config(data="karate", lr=0.5), data, {"lr": 0.5})
    assert recipe.config.lr == 0.5
    assert recipe.config.linear != "none"  # chosen
    given, _ = choose_recipe(str(file), {"linear": "none", "lr": 0.25})
    assert (given.config.linear, given.config.lr) == ("none", 0.25)
    plain, _ = choose_recipe(str(file), {"preset": "plain"})
    assert plain.config == Config(data="karate", preset="plain", lr=0.5)
    file.write_text("data: karate\nlr: 0.5\n", encoding="utf-8")
    fixed, _ = choose_recipe(str(file), {})
    assert fixed.config == Config(data="karate", lr=0.5)


def test_a_recipe_says_auto_as_true_or_false(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("data: karate\nauto: 3\n", encoding="utf-8")
    with pytest.raises(GpmError, match=r"mine\.yaml: auto must be true or false, got 3\."):
        choose_recipe(str(file), {})
