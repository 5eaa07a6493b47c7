"""Metrics in print."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest
import torch

from gpm.config import Config
from gpm.data.catalog import CATALOG
from gpm.tasks.metrics import METRICS, chance, show_scores

ERRORS = {"mae", "rmse", "loss"}


def test_every_metric_that_can_be_chosen_can_be_shown() -> None:
    choices = set(get_args(get_type_hints(Config)["metric"])) - {"auto"}
    assert choices
    assert choices | {"loss"} == set(METRICS)
    assert {entry.metric for entry in CATALOG.values()} <= choices


def test_shares_are_better_larger_and_errors_smaller() -> None:
    assert {name for name, metric in METRICS.items() if not metric.larger} == ERRORS
    assert {name for name, metric in METRICS.items() if not metric.share} == ERRORS


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_share_is_in_percent_and_an_error_in_its_own_units(name: str) -> None:
    metric = METRICS[name]
    assert metric.show(0.91234567) == ("0.9123" if name in ERRORS else "91.23%")
    assert metric.scaled(0.91234567) == (0.9123 if name in ERRORS else 91.23)


def test_titles_are_those_of_the_papers_and_all_differ() -> None:
    titles = [metric.title for metric in METRICS.values()]
    assert len(set(titles)) == len(titles)
    assert {"MAE", "RMSE", "MRR", "ROC-AUC", "Hits@20"} <= set(titles)


def test_scores_are_shown_in_one_line_in_their_order() -> None:
    assert show_scores({"mrr": 0.5, "hits@20": 0.25, "loss": 1.5}) == "MRR 50.00%, Hits@20 25.00%, loss 1.5000"
    assert show_scores({}) == ""


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_chance_does_not_depend_on_its_place_in_a_tensor(dtype: torch.dtype) -> None:
    logits = torch.randn(997, generator=torch.Generator().manual_seed(0), dtype=dtype) * 4
    whole = chance(logits)
    for size in (1, 7, 100):
        assert torch.equal(torch.cat([chance(part) for part in logits.split(size)]), whole)
    torch.testing.assert_close(whole, logits.sigmoid())
    assert chance(torch.tensor([-1e4, 1e4], dtype=dtype)).tolist() == [0, 1]
