"""The verb `train`, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import gpm.compute
import gpm.training.start
from gpm import Config
from gpm.cli.main import main
from gpm.config import (
    ComputeOptions,
    ModelOptions,
    OutputOptions,
    PatternOptions,
    RankOptions,
    ShiftOptions,
    TableOptions,
    TaskOptions,
    TrainOptions,
)
from gpm.io.run_files import read_config
from gpm.training.recipes import find_recipe
from tests.cli.conftest import SMALL

pytestmark = pytest.mark.usefixtures("one_thread")


class Asked(list[tuple[Any, dict[str, Any]]]):
    """What `train` was asked for."""

    def config(self, recipe: str) -> Config:
        found = find_recipe(recipe)
        assert found is not None
        given = {key: value for key, value in self[-1][1].items() if key in Config().to_dict()}
        return found.config.with_(**given)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Let the command line reach no further than `train`."""
    calls = Asked()
    monkeypatch.setattr(gpm.training.start, "train", lambda source, **given: calls.append((source, given)))
    return calls


def test_lengths_are_a_list(tmp_path: Path, trained: Path) -> None:
    assert read_config(trained / "config.yaml").lengths == [0, 1, 2]
    graph = str(trained.parent / "ring")
    for number, form in enumerate((["--lengths", "0", "1", "4", "8"], ["--lengths=[0,1,4,8]"])):  # the last one counts
        out = tmp_path / str(number)
        assert main(["train", graph, "--out", str(out), *SMALL, *form]) == 0
        assert read_config(out / "config.yaml").lengths == [0, 1, 4, 8]


def test_flags_reach_the_training(asked: Asked) -> None:
    arguments = [
        "karate",
        "--epochs",
        "7",
        "--lr",
        "5e-3",
        "--fusion",
        "--feature-dropout=0.5",
        "--threads",
        "2",
        "--quiet",
    ]
    assert main(["train", *arguments]) == 0
    source, given = asked[-1]
    assert source == "karate"
    options = {key: value for key, value in given.items() if key in Config().to_dict()}
    assert options == {"epochs": 7, "lr": 0.005, "fusion": True, "feature_dropout": 0.5}
    assert (given["threads"], given["quiet"], given["recipe"]) == (2, True, "")
    assert "seeds" not in given  # only what is named is passed on


def test_the_source_may_stand_anywhere(asked: Asked) -> None:
    for arguments in (["motifs", "--epochs", "3"], ["--epochs", "3", "motifs"], ["--epochs=3", "--source", "motifs"]):
        assert main(["train", *arguments]) == 0
        assert asked[-1][0] == "motifs"
        assert asked.config("motifs").epochs == 3
    for lengths in (["--lengths", "[2, 4]"], ["--lengths", "2", "4"], ["--lengths=2,4"]):
        assert main(["train", *lengths, "motifs"]) == 0
        assert asked[-1][0] == "motifs"
        assert asked.config("motifs").lengths == [2, 4]


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--readout", "mean"], {"readout": "mean"}),
        (["--epochs", "60"], {"epochs": 60}),
        (["--topology=loops"], {"topology": "loops"}),
        (["--non-backtracking", "false"], {"non_backtracking": False}),
        (["--width", "64"], {"width": 64}),
        (["--size", "xs"], {"width": 64, "heads": 4}),
        (["--size", "m", "--width", "32"], {"width": 32, "layers": 3}),
        (["--lengths", "0", "1", "4", "8"], {"lengths": [0, 1, 4, 8]}),
    ],
)
def test_flags_go_before_the_recipe(asked: Asked, flags: list[str], options: dict[str, Any]) -> None:
    """Also where they say what would be the default without a recipe, or what the recipe says already."""
    before = find_recipe("motifs")
    assert before is not None
    assert main(["train", "motifs", *flags]) == 0
    found = asked.config("motifs")
    assert {key: getattr(found, key) for key in options} == options
    untouched = set(Config().to_dict()) - {*options, "size", "layers", "heads", "width"}
    assert all(getattr(found, key) == getattr(before.config, key) for key in untouched)


def test_without_flags_the_recipe_decides(asked: Asked) -> None:
    for name in ("motifs", "blog"):
        assert main(["train", name]) == 0
        recipe = find_recipe(name)
        assert recipe is not None
        assert asked.config(name) == recipe.config


def test_your_own_recipe_is_trained(tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text(f"data: {trained.parent}/ring\nwidth: 8\nlengths: [1, 3]\nepochs: 1\n")
    arguments = ["train", str(tmp_path / "mine.yaml"), "--heads", "1", "--out", str(tmp_path / "run"), "--quiet"]
    assert main(arguments) == 0
    config = read_config(tmp_path / "run/config.yaml")
    assert (config.width, config.lengths, config.heads, config.data) == (8, [1, 3], 1, f"{trained.parent}/ring")
    assert json.loads((tmp_path / "run/recipe.json").read_text())["changed"] == ["heads"]
    (tmp_path / "mine.yaml").write_text("data: karate\nwidht: 8\n")
    assert main(arguments) == 2
    complaint = capsys.readouterr().err
    assert complaint.endswith("mine.yaml: There is no option 'widht'. Did you mean 'width'?\n")


def test_an_existing_folder_needs_leave(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in trained.iterdir()}
    assert main(["train", str(trained.parent / "ring"), "--out", str(trained), *SMALL, "--seed", "1"]) == 2
    assert "exists; name another folder, or add --overwrite" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in trained.iterdir()} == before


def test_threads_are_those_that_are_asked_for_and_given_back(trained: Path, tmp_path: Path) -> None:
    graph, before = str(trained.parent / "ring"), torch.get_num_threads()
    assert main(["train", graph, "--out", str(tmp_path / "run"), *SMALL, "--threads", "3"]) == 0
    assert torch.get_num_threads() == before
    assert json.loads((tmp_path / "run/environment.json").read_text())["threads"]["torch"] == 3


def test_the_help_of_train_has_every_option_and_the_recipes_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "motifs", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert all(f"--{name}" in words for name in Config().to_dict() if name != "data")
    assert "Maximum number of epochs. Between 1 and 1000000. (type: int, default: 15)" in words
    classes = (OutputOptions, TableOptions, ComputeOptions, RankOptions, PatternOptions, ModelOptions, TrainOptions)
    titles = [f"{each.__doc__}:" for each in (*classes, ShiftOptions, TaskOptions)]
    places = [words.index(title) for title in titles]
    assert places == sorted(places)
