"""Figures show every row or column that was run, by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpm.reproduce.figures import Cells, draw
from gpm.reproduce.paper_tables import Column, Ours, Table

COLUMNS = (Column("r = 2", "motifs", at=2), Column("r = 3", "motifs", at=3))
TABLE = Table("Figure 7", "Accuracy", COLUMNS, (), (Ours("GPM", {}), Ours("GIN", {})), plot="columns", axis="depth")


def _record(seed: int, test: float, parameters: int = 1000) -> dict[str, Any]:
    history = {"epoch": [1.0, 2.0], "train_loss": [1.0, 0.5], "val": [0.5, test]}
    return {
        "seed": seed,
        "metric": "accuracy",
        "test": {"accuracy": test},
        "parameters": parameters,
        "history": history,
    }


CELLS: Cells = {
    ("GPM", "r = 2"): [_record(0, 1.0), _record(1, 0.9)], ("GPM", "r = 3"): [_record(0, 0.8, 5000)],
    ("GIN", "r = 2"): [_record(0, 0.7)], ("GIN", "r = 3"): [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("plot", "names"),
    [("columns", ["GPM", "GIN", "depth"]), ("parameters", ["r = 2", "r = 3", "million parameters"]),
     ("curves", ["GPM", "GIN", "r = 2: training loss", "r = 3: validation metric"])],
)  # fmt: skip
def test_a_figure_names_what_was_run(plot: str, names: list[str], tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    assert draw(replace(TABLE, plot=plot), CELLS, path)
    text = path.read_text(encoding="utf-8")
    assert all(name in text for name in names)
    assert draw(replace(TABLE, plot=plot), CELLS, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text(encoding="utf-8") == text


def test_nothing_is_drawn_without_runs_or_for_a_table(tmp_path: Path) -> None:
    assert not draw(TABLE, {cell: [] for cell in CELLS}, tmp_path / "none.svg")
    assert not draw(replace(TABLE, plot=""), CELLS, tmp_path / "none.svg")
    assert not any(tmp_path.iterdir())
