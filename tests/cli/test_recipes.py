"""The verb `recipes`, as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpm.cli.main import main
from gpm.training.recipes import find_recipe, recipe_names


def test_a_recipe_for_data_of_your_own_is_shown_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("data: somewhere.pt\nwidth: 8\n", encoding="utf-8")
    assert main(["recipes", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "width             8" in shown
    assert "--preset paper" not in shown


def test_recipes_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["recipe", "the", "paper", "about"]
    assert [row.split()[0] for row in rows] == recipe_names()
    assert next(row for row in rows if row.startswith("blog ")).split()[1:4] == ["96.71", "±", "0.59"]
    assert main(["recipes", "blog"]) == 0
    shown = capsys.readouterr().out
    assert "the paper: 96.71 ± 0.59\nin its table: lr 0.001, dropout 0.1" in shown
    recipe = find_recipe("blog")
    assert recipe is not None
    rows = [line for line in shown.splitlines() if line.startswith(("    ", "  * "))][1:]  # without the head
    ours = {row[4:21].strip(): row[22:45].strip() for row in rows}
    open_ = recipe.left_open("node")
    assert {"linear", "labels"} <= open_
    assert ours == {k: "auto" if k in open_ else str(value) for k, value in recipe.config.to_dict().items()}
    assert {row[4:21].strip() for row in rows if row[45:].strip()} == {
        row[4:21].strip() for row in rows if row.startswith("  *")
    }
