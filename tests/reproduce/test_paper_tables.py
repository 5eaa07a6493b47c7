"""The paper's figures as they were copied, and the runs beside them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpm.reproduce.paper_tables import MEASURES, Table, deviations, estimate_minutes, read_tables
from gpm.reproduce.records import Job
from gpm.training.paper_options import choose_paper
from gpm.training.recipes import find_recipe

TABLES = pytest.mark.parametrize("table", read_tables(), ids=lambda table: table.id)


@TABLES
def test_every_row_has_a_cell_per_column_and_every_column_a_recipe(table: Table) -> None:
    for row in table.paper:
        assert len(row.cells) == len(table.columns), row.name
    for column in table.columns:
        assert bool(column.mean_of) != (find_recipe(column.recipe) is not None)
        assert set(column.mean_of) <= {other.title for other in table.columns}
    assert set(table.show) <= set(MEASURES)
    for ours in table.ours:
        assert ours.beside == "" or table.published(ours.beside) is not None
    assert len({row.name for row in table.ours}) == len(table.ours)


@TABLES
def test_options_of_our_rows_fit_every_recipe(table: Table) -> None:
    for column in (each for each in table.columns if each.recipe):
        recipe = find_recipe(column.recipe)
        assert recipe is not None
        for row in table.ours:
            options = Job.of(table, column, row).options
            if options.get("preset") == "paper":
                choose_paper(recipe, options, "node")
            else:
                recipe.config.with_(**options)


@TABLES
def test_the_papers_own_row_is_the_figure_of_the_recipe(table: Table) -> None:
    """Copied twice, independently: from the table and into the recipe."""
    row = table.published("GPM") or table.published("Train=16 Infer=128")
    for column, cell in zip(table.columns, row.cells if row else (), strict=bool(row)):
        recipe = find_recipe(column.recipe) if column.recipe else None
        if recipe is not None and isinstance(cell, tuple):
            assert cell == (recipe.paper_mean, recipe.paper_std), column.title


@pytest.mark.parametrize(
    ("table", "row", "column", "cell"),
    [
        ("Table 4", "GPM + SSReg", "D → A", (67.30, 1.94)), ("Table 4", "GCN", "Twitch", 56.68),
        ("Table 8", "3-GNN", "EXP", 99.7), ("Table 8", "GIN-AK+", "CSL", None),
        ("Table 12", "Train=128", "Arxiv", 179.78),
        ("Table 12", "Train=16", "WikiCS", 0.08), ("Table 3", "GPS", "ZINC", (0.070, 0.004)),
    ],
)  # fmt: skip
def test_cells_are_those_of_the_paper(table: str, row: str, column: str, cell: Any) -> None:
    """Copied once more, from the paper."""
    found = next(each for each in read_tables() if each.name == table)
    published = found.published(row)
    assert published is not None
    assert published.cells[[each.title for each in found.columns].index(column)] == cell


@pytest.mark.parametrize(
    ("mean", "cell", "larger", "apart"),
    [(92.0, (90.0, 0.5), True, 4.0), (0.08, (0.06, 0.01), False, -2.0), (92.0, (90.0, 0.0), True, math.nan)],
)
def test_a_difference_is_in_the_papers_standard_deviations(
    mean: float, cell: tuple[float, float], larger: bool, apart: float
) -> None:
    assert deviations(mean, cell, larger) == pytest.approx(apart, nan_ok=True)
    assert math.isnan(deviations(mean, "OOM", larger))


def test_what_was_not_measured_comes_after_what_takes_minutes() -> None:
    assert estimate_minutes("blog", 1) < estimate_minutes("reddit-m5k", 1)
    assert estimate_minutes("blog", 8) == 8 * estimate_minutes("blog", 1)
