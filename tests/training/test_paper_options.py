"""`--preset paper`: the model and the training of the paper, with its hyper-parameters for a dataset."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import Config, Run, train
from gpm.cli.main import main
from gpm.data.catalog import CATALOG
from gpm.data.synthetic import planted_motifs
from gpm.nn.build import build_model
from gpm.nn.feature_table import InputSpec
from gpm.training.choose import choose_recipe
from gpm.training.paper_options import choose_paper
from gpm.training.recipes import Recipe, find_recipe, recipe_names
from tests.training.recipes.test_recipes import PAPER

SHAPES = {"arxiv": (128, 40), "products": (100, 47)}  # columns of the features, classes

pytestmark = pytest.mark.usefixtures("one_thread")


def _recipe(name: str) -> Recipe:
    recipe = find_recipe(name)
    assert recipe is not None
    return recipe


def _choose(name: str, **given: Any) -> Config:
    recipe = _recipe(name)
    task = recipe.config.task
    return choose_paper(recipe, given, CATALOG[recipe.config.data].task if task == "auto" else task)


@pytest.mark.parametrize("name", PAPER)
def test_hyper_parameters_are_those_of_the_table(name: str) -> None:
    config, recipe = _choose(name), _recipe(name)
    for key, value in {**recipe.paper, **recipe.paper_code}.items():
        if key != "lr":
            assert getattr(config, key) == value, key
    assert config.lr == pytest.approx(recipe.paper["lr"] / 160)  # the peak of the Noam schedule at width 256
    assert (config.width, config.heads, config.layers, config.layer) == (256, 4, 1, "literal")
    assert (config.lengths, config.patterns, config.pool) == ([2, 4, 6, 8], 16, 128)


@pytest.mark.parametrize("name", recipe_names())
def test_data_and_split_stay_and_nothing_of_ours_is_left(name: str) -> None:
    config, recipe = _choose(name, preset="paper"), _recipe(name)
    for key in ("data", "task", "split", "metric", "features", "protocol", "target_graph", "adapt"):
        assert getattr(config, key) == getattr(recipe.config, key)
    ours = {"expected": 0, "labels": "off", "structure": False, "position": 0, "linear": "none", "stars": False}
    ours |= {"average": 0, "feature_dropout": 0.0, "epoch_steps": 0, "scale_inputs": False, "flip_signs": False}
    assert {key: getattr(config, key) for key in ours} == ours
    assert config.preset == "paper"


def test_what_is_given_is_kept() -> None:
    config = _choose("blog", lr=0.5, lengths=[1], width=32, readout="class")
    assert (config.lr, config.lengths, config.width, config.readout) == (0.5, [1], 32, "class")
    larger = _choose("blog", size="l")
    assert (larger.width, larger.layers, larger.heads) == (512, 3, 8)
    assert larger.lr == pytest.approx(0.001 / (512 * 100) ** 0.5)


@pytest.mark.parametrize("source", ["recipe", "graph"])
def test_it_trains_with_a_recipe_and_without(source: str, tmp_path: Path) -> None:
    small: dict[str, Any] = {"width": 8, "heads": 2, "epochs": 1, "pool": 16, "quiet": True, "device": "cpu"}
    data = "motifs" if source == "recipe" else planted_motifs(num_houses=4, num_cycles=2, base_nodes=30, seed=1).graph
    run = train(data, out=tmp_path / "run", preset="paper", **small)
    assert isinstance(run, Run)
    assert (run.config.preset, run.config.layer, run.config.schedule) == ("paper", "literal", "noam")
    assert (run.config.linear, run.config.expected) == ("none", 0)
    assert np.isfinite(run.predict().logits.numpy()).all()


def test_a_recipe_that_was_made_with_the_preset_states_its_own_options(tmp_path: Path) -> None:
    """As gpm tune writes it, from trials that changed them."""
    file = tmp_path / "tuned.yaml"
    file.write_text("data: karate\npreset: paper\nwidth: 16\nlr: 0.003\nlengths: [2, 4]\n", encoding="utf-8")
    chosen, _ = choose_recipe(str(file), {})
    assert (chosen.config.width, chosen.config.lr, chosen.config.lengths) == (16, 0.003, [2, 4])


def test_data_of_your_own_may_take_the_hyper_parameters_of_a_recipe() -> None:
    graph = planted_motifs(num_houses=4, num_cycles=2, base_nodes=30, seed=1).graph
    blog, _ = choose_recipe(graph, {"preset": "paper"}, "blog")
    usual, _ = choose_recipe(graph, {"preset": "paper"})
    assert (blog.config.pe_dim, blog.config.decay, blog.config.lr) == (16, 0.01, pytest.approx(0.001 / 160))
    assert (usual.config.pe_dim, usual.config.decay, usual.config.lr) == (8, 0.0, pytest.approx(0.01 / 160))


def test_a_network_keeps_its_own_options(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="gpm")
    chosen, _ = choose_recipe("motifs", {"preset": "paper", "model": "gcn"})
    assert chosen.config.lr != pytest.approx(0.01 / 160)
    assert "--preset paper is for --model gpm; gcn takes its own options" in caplog.messages


def test_a_recipe_is_shown_beside_the_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes", "imdb-b"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {line[4:].split()[0]: line for line in lines if re.match(r"  [* ] \w", line)}
    assert re.match(r"  \* batch +auto +1024$", shown["batch"])
    assert re.match(r"  \* pe_dim +auto +8$", shown["pe_dim"])
    assert re.match(r"  \* width +64 +256$", shown["width"])


@pytest.mark.parametrize("name", SHAPES)
def test_the_docs_have_the_parameter_counts(name: str) -> None:
    """Millions of parameters of the five sizes, as a row of the table in the docs has them."""
    (columns, classes), counts = SHAPES[name], []
    for size in ("xs", "s", "m", "l", "xl"):
        config = _choose(name, size=size)
        model = build_model(config, InputSpec(node="dense", node_dim=columns, pe_dim=4), classes, "node")
        counts.append(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}")
    text = (Path(__file__).parents[2] / "docs" / "paper.md").read_text(encoding="utf-8")
    assert f"| {name} | this implementation | {' | '.join(counts)} |" in text
