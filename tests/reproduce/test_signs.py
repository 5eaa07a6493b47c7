"""Differences of ablations: their sign is compared where the paper's exceeds its deviation, seed by seed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpm.reproduce.paper_tables import Column, Ours, Published, Table
from gpm.reproduce.signs import compare_signs, describe_signs

TABLE = Table(
    "Table 9", "Parts", (Column("Blog", "blog"), Column("Cora", "cora")),
    (Published("GPM", ((96.0, 0.5), (81.0, 1.0))), Published("w/o AP", ((92.0, 1.7), (80.5, 0.2)))),
    (Ours("GPM", {}, "GPM"), Ours("w/o AP", {"anonymous": "none"}, "w/o AP"), Ours("alone", {"pe": "none"})),
    ablation=True,
)  # fmt: skip


def _cells(*, base: dict[int, float], changed: dict[int, float]) -> dict[tuple[str, str], Any]:
    def records(values: dict[int, float]) -> list[dict[str, Any]]:
        return [{"seed": seed, "metric": "accuracy", "test": {"accuracy": x}} for seed, x in values.items()]

    cells = {(row.name, column.title): records({}) for row in TABLE.ours for column in TABLE.columns}
    return cells | {
        (name, title): records(values)
        for name, values in (("GPM", base), ("w/o AP", changed)) for title in ("Blog", "Cora")
    }  # fmt: skip


def test_only_differences_beyond_the_papers_deviation_count_and_only_seeds_that_both_have() -> None:
    cells = _cells(base={0: 0.95, 1: 0.97, 2: 0.9}, changed={0: 0.94, 1: 0.94})
    (sign,) = compare_signs(TABLE, cells)
    assert (sign.column, sign.row, sign.paper) == ("Blog", "w/o AP", -4.0)
    assert (sign.here, sign.error) == (pytest.approx(-2.0), pytest.approx(1.0))
    assert sign.verdict == "same"
    assert "Sign here, of 1: same 1." in describe_signs(TABLE, cells)
    assert "| Blog | w/o AP | -4.00 | -2.00 ± 1.00 | same |" in describe_signs(TABLE, cells)


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({0: 0.96, 1: 0.98}, "opposite"),
        ({0: 0.97, 1: 0.96}, "opposite, within one standard error"),
        ({0: 0.96}, "opposite, one seed"),
        ({0: 0.95}, "none, one seed"),
        ({0: 0.945, 1: 0.972}, "same, within one standard error"),
    ],
)
def test_another_sign_is_called_so(changed: dict[int, float], verdict: str) -> None:
    (sign,) = compare_signs(TABLE, _cells(base={0: 0.95, 1: 0.97}, changed=changed))
    assert sign.verdict == verdict


def test_opposite_signs_are_named_and_sizes_compared() -> None:
    lines = describe_signs(TABLE, _cells(base={0: 0.95, 1: 0.97}, changed={0: 0.96, 1: 0.98}))
    assert (
        "Opposite to the paper by more than a standard error: Blog w/o AP. The mean size of the differences is 1.00 "
        "here and 4.00 in the paper: with this training the parts matter less."
    ) in lines
    large = describe_signs(TABLE, _cells(base={0: 0.95, 1: 0.97}, changed={0: 0.91, 1: 0.92}))
    assert (
        "Opposite to the paper by more than a standard error: none. The mean size of the differences is 4.50 here and "
        "4.00 in the paper."
    ) in large


def test_what_is_no_ablation_or_was_not_run_has_no_signs() -> None:
    assert describe_signs(TABLE, _cells(base={}, changed={0: 0.9})) == []
    assert describe_signs(replace(TABLE, ablation=False), _cells(base={0: 0.9}, changed={0: 0.8})) == []
