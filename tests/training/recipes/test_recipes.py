from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpm import Config, GpmError
from gpm.data.catalog import CATALOG
from gpm.tasks.metrics import METRICS
from gpm.training.recipes import Recipe, find_recipe, recipe_names

GIVEN = ("lr", "dropout", "decay", "pe", "pe_dim", "anonymous", "anonymous_weight")
# The tables of the paper, and the hyper-parameters of its appendix, in the order of GIVEN; for links and graphs the
# batch too, which is 256 for all nodes.
PAPER: dict[str, tuple[float, float, tuple[Any, ...]]] = {
    "products": (82.62, 0.39, (0.01, 0.3, 0, "lap", 4, "mean", 0.5)),
    "computers": (92.28, 0.39, (0.01, 0.1, 0.01, "lap", 8, "gru", 0.5)),
    "arxiv": (72.89, 0.68, (0.01, 0.1, 0, "lap", 4, "gru", 1)),
    "wikics": (80.19, 0.41, (0.01, 0.5, 0.01, "lap", 8, "gru", 1)),
    "corafull": (71.23, 0.51, (0.01, 0.1, 0, "lap", 8, "gru", 1)),
    "deezer": (67.26, 0.22, (0.01, 0.1, 0, "lap", 16, "gru", 0.5)),
    "blog": (96.71, 0.59, (0.001, 0.1, 0.01, "lap", 16, "gru", 0.1)),
    "flickr": (52.22, 0.19, (0.01, 0.5, 0.01, "lap", 8, "mean", 0.5)),
    "flickr-s": (89.41, 0.47, (0.005, 0.3, 0.01, "lap", 4, "gru", 0.5)),
    "cora-link": (92.85, 0.54, (0.001, 0.3, 0, "lap", 4, "gru", 0.5, 256)),
    "pubmed-link": (88.29, 5.15, (0.01, 0.3, 0.01, "lap", 4, "gru", 1, 256)),
    "ogbl-collab": (49.70, 0.59, (0.01, 0.1, 0, "lap", 4, "gru", 0.5, 256)),
    "imdb-b": (82.67, 0.47, (0.001, 0.1, 0, "rwse", 8, "mean", 0.1, 1024)),
    "collab": (80.70, 0.74, (0.01, 0.1, 0, "rwse", 4, "mean", 0.1, 1024)),
    "reddit-m5k": (51.87, 1.04, (0.001, 0.1, 0, "rwse", 8, "mean", 0.1, 1024)),
    "reddit-m12k": (43.07, 0.29, (0.005, 0.1, 0.01, "rwse", 8, "gru", 0.1, 256)),
    "zinc": (0.064, 0.004, (0.01, 0.1, 0, "rwse", 8, "gru", 1, 1024)),
    "zinc-full": (0.021, 0.002, (0.01, 0.1, 0, "rwse", 8, "gru", 1, 1024)),
}
PAPER["deezer-artists"] = PAPER["deezer"]


SHIFT = {"acm-dblp": (74.91, 5.07), "dblp-acm": (59.57, 2.97)}  # of which the appendix has no hyper-parameters


def _recipe(name: str) -> Recipe:
    recipe = find_recipe(name)
    assert recipe is not None
    return recipe


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_can_be_trained(name: str) -> None:
    recipe = _recipe(name)
    assert recipe.name == name
    task = CATALOG[recipe.config.data].task
    assert recipe.config.task in ("auto", "link") or recipe.config.task == task
    assert recipe.about.endswith(".")
    assert "\n" not in recipe.about
    assert (
        (recipe.paper_mean is None) == (recipe.paper_std is None) == (not recipe.paper) == (name not in PAPER | SHIFT)
    )
    assert recipe.changed == []


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_figures_stand_beside_ours(name: str) -> None:
    mean, std, options = PAPER[name]
    recipe = _recipe(name)
    assert (recipe.paper_mean, recipe.paper_std) == (mean, std)
    metric = "mae" if name.startswith("zinc") else "accuracy"
    shown = f"{mean:.2f} ± {std:.2f}" if METRICS[metric].share else f"{mean:.3f} ± {std:.3f}"
    config = recipe.config.with_(metric=metric, protocol="paper")
    assert recipe.beside_paper(config) == f"; the paper has {shown}"
    assert recipe.beside_paper(config.with_(model="gcn")) == ""
    assert recipe.paper == dict(zip((*GIVEN, "batch"), options, strict=False))
    Config(**recipe.paper)  # its words are options of ours


@pytest.mark.parametrize("name", SHIFT)
def test_so_do_those_of_a_source_and_a_target(name: str) -> None:
    recipe = _recipe(name)
    assert (recipe.paper_mean, recipe.paper_std) == SHIFT[name]
    assert recipe.config.validate == "target"
    assert recipe.config.adapt == "none"
    assert recipe.note
    Config(**recipe.paper)


def test_other_recipes_have_nothing_beside_them() -> None:
    assert _recipe("motifs").beside_paper(Config(metric="accuracy")) == ""


def test_names_are_found_in_any_case_and_others_are_none() -> None:
    assert find_recipe("MOTIFS") == find_recipe("motifs")
    assert find_recipe("motif") is None
    assert find_recipe("../recipes/motifs") is None


def test_your_own_file_is_a_recipe(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "data: karate\nlr: 5e-3\nlengths: [2, 4]\npaper_result: [80, 0.5]\nabout: Größe.\n", encoding="utf-8"
    )
    recipe = _recipe(str(file))
    stated = ("data", "lengths", "lr")
    assert recipe == Recipe("mine", Config(data="karate", lr=0.005, lengths=[2, 4]), "Größe.", 80, 0.5, stated=stated)
    file.rename(tmp_path / "mine.yml")
    assert _recipe(str(tmp_path / "mine.yml")) == recipe


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"data: karate\nwidht: 8", r"mine\.yaml: There is no option 'widht'\. Did you mean 'width'\?"),
        (b"data: karate\nwidth: -8", r"mine\.yaml: width must lie between 1 and 65536, got -8"),
        (b"data: karate\nepochs: many", r"mine\.yaml: epochs must be of type int, got 'many'"),
        (b"data: karate\npaper_result: 80", r"mine\.yaml: paper_result must be \[mean, standard deviation\]"),
        (b"data: karate\npaper: 3", r"mine\.yaml: paper must hold options, as in \{lr: 0\.01, dropout: 0\.1\}, got 3"),
        (b"data: karate\npaper_code: {q: no}", r"mine\.yaml, paper_code: q must be"),
        (b"width: 8", r"mine\.yaml must hold options as 'key: value', with data among them"),
        (b"- data", r"mine\.yaml must hold options"),
        (b"", r"mine\.yaml must hold options"),
        (b"data: [", r"mine\.yaml, line \d: not YAML "),
        (b"data: \xff", r"Cannot read .*mine\.yaml \(UnicodeDecodeError\)"),
    ],
)
def test_a_mistake_in_it_names_file_and_key(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "mine.yaml").write_bytes(content)
    with pytest.raises(GpmError, match=sentence) as caught:
        find_recipe(str(tmp_path / "mine.yaml"))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"There is no recipe file .*none\.yaml"):
        find_recipe(str(tmp_path / "none.yaml"))
