"""Metrics of links against their definitions written out."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from gpm import GpmError
from gpm.tasks import LinkTask
from gpm.tasks.link_prediction import HITS
from tests.tasks.test_classification import count_pairs

ALL = ("hits@20", "hits@50", "hits@100", "mrr", "roc_auc", "ap")


def count_hits(yes: list[float], no: list[float], k: int) -> float:
    """The share of edges above which fewer than k non-edges stand; one with an equal score stands above."""
    return sum(sum(n >= y for n in no) < min(k, len(no)) for y in yes) / len(yes)


def rank_mean(yes: list[float], no: list[float]) -> float:
    """The mean over edges of 1 / rank among the non-edges, those of equal score counting half."""
    return sum(1 / (1 + sum(n > y for n in no) + sum(n == y for n in no) / 2) for y in yes) / len(yes)


def step_precision(yes: list[float], no: list[float]) -> float:
    """Average precision: at each distinct score from the top, the recall gained times the precision so far."""
    total, before = 0.0, 0
    for score in sorted({*yes, *no}, reverse=True):
        hits = sum(y >= score for y in yes)
        total += (hits - before) / len(yes) * hits / (hits + sum(n >= score for n in no))
        before = hits
    return total


def _score(yes: Any, no: Any, metric: str = "mrr") -> dict[str, float]:
    said = torch.tensor([*yes, *no], dtype=torch.float32)[:, None]
    return LinkTask(metric).score(said, torch.tensor([1] * len(yes) + [0] * len(no)))


scores = st.lists(st.integers(-8, 8).map(lambda n: n / 4), min_size=1, max_size=30)  # exact, so that there are ties


@settings(max_examples=60)
@given(scores, scores, st.randoms(use_true_random=False))
def test_every_metric_is_what_it_is_defined_to_be(yes: list[float], no: list[float], random: Any) -> None:
    found = _score(yes, no)
    for k in HITS:
        assert found[f"hits@{k}"] == pytest.approx(count_hits(yes, no, k))
    assert found["mrr"] == pytest.approx(rank_mean(yes, no))
    assert found["roc_auc"] == pytest.approx(count_pairs(yes + no, [True] * len(yes) + [False] * len(no)), abs=1e-6)
    assert found["ap"] == pytest.approx(step_precision(yes, no), abs=1e-6)
    order = list(range(len(yes) + len(no)))
    random.shuffle(order)
    said, wanted = torch.tensor(yes + no)[order], torch.tensor([1] * len(yes) + [0] * len(no))[order]
    assert LinkTask("mrr").score(said[:, None], wanted) == pytest.approx(found)


@pytest.mark.parametrize("count", [10, 20, 60, 150])
def test_hits_with_more_non_edges_than_k(count: int) -> None:
    rng = torch.Generator().manual_seed(count)
    yes, no = ((torch.randn(n, generator=rng) * 4).round().div(4).tolist() for n in (40, count))
    found = _score([y + 1 for y in yes], no)
    for k in HITS:
        assert found[f"hits@{k}"] == pytest.approx(count_hits([y + 1 for y in yes], no, k))
    assert found["hits@20"] <= found["hits@50"] <= found["hits@100"]


def test_an_edge_that_only_equals_the_kth_non_edge_is_no_hit() -> None:
    no = [float(n) for n in range(30)]  # the 20th best is 10
    assert _score([10.0], no)["hits@20"] == 0
    assert _score([10.5], no)["hits@20"] == 1
    assert _score([0.5], no)["hits@50"] == 1  # with fewer than k the worst is what counts
    assert _score([0.0], no)["hits@50"] == 0


def test_a_constant_scorer_hits_nothing_and_ranks_in_the_middle() -> None:
    found = _score([3.0] * 10, [3.0] * 40)
    assert [found[f"hits@{k}"] for k in HITS] == [0, 0, 0]
    assert found["mrr"] == pytest.approx(1 / 21)
    assert found["roc_auc"] == pytest.approx(0.5)
    assert found["ap"] == pytest.approx(0.2)


def test_a_perfect_scorer_has_everything() -> None:
    found = _score([1.0, 2.0, 5.0], [0.5, -3.0, 0.0])
    assert all(found[name] == pytest.approx(1) for name in ALL)
    assert found["loss"] > 0
    assert _score([-1.0], [3.0, 2.0])["roc_auc"] == 0


def test_a_random_scorer_has_half_of_the_area() -> None:
    rng = torch.Generator().manual_seed(0)
    said = torch.randn(2000, 1, generator=rng)
    found = LinkTask("ap").score(said, torch.arange(2000) % 2)
    assert found["roc_auc"] == pytest.approx(0.5, abs=0.03)
    assert found["ap"] == pytest.approx(0.5, abs=0.04)
    assert found["hits@20"] == pytest.approx(0.02, abs=0.02)
    assert found["mrr"] < 0.02


def test_sure_answers_are_still_ranked() -> None:
    """Probabilities of 1 - 1e-18 and 1 - 1e-22 are equal in any float; the ranking must see that the logits are not."""
    found = _score([27.0, 60.0, -50.0], [25.0, 45.0, -55.0])
    expected = count_pairs([27.0, 60.0, -50.0, 25.0, 45.0, -55.0], [True] * 3 + [False] * 3)
    assert found["roc_auc"] == pytest.approx(expected)
    assert found["ap"] == pytest.approx(step_precision([27.0, 60.0, -50.0], [25.0, 45.0, -55.0]))


@pytest.mark.parametrize("metric", ALL)
def test_the_chosen_metric_comes_first(metric: str) -> None:
    found = _score([1.0], [0.0], metric)
    assert next(iter(found)) == metric
    assert set(found) == {*ALL, "loss"}


def _loss(logits: Tensor, targets: Tensor, smoothing: float) -> float:
    total = 0.0
    for logit, target in zip(logits[:, 0].tolist(), targets.tolist(), strict=True):
        wanted = target * (1 - smoothing) + smoothing / 2
        total += wanted * math.log(1 + math.exp(-logit)) + (1 - wanted) * math.log(1 + math.exp(logit))
    return total / len(logits)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_the_cross_entropy(smoothing: float) -> None:
    logits, targets = torch.tensor([[1.5], [-0.5], [0.25]]), torch.tensor([1, 0, 1])
    task = LinkTask("ap", smoothing=smoothing)
    assert float(task.loss(logits, targets)) == pytest.approx(_loss(logits, targets, smoothing), rel=1e-5)
    assert task.score(logits, targets)["loss"] == pytest.approx(_loss(logits, targets, smoothing), rel=1e-5)
    assert float(LinkTask("ap").loss(torch.zeros(4, 1), torch.tensor([1, 0, 0, 0]))) == pytest.approx(math.log(2))


def test_answers_are_probabilities() -> None:
    task = LinkTask("mrr")
    assert task.answers(torch.tensor([[0.0], [math.log(3)]]))[:, 0].tolist() == pytest.approx([0.5, 0.75])
    assert task.table(torch.zeros(2, 1))["probability"].tolist() == [0.5, 0.5]
    assert list(task.table(torch.zeros(2, 1))) == ["probability"]
    assert task.outputs == 1


def test_a_link_task_names_its_protocol() -> None:
    assert LinkTask("hits@20").describe() == "links, Hits@20, protocol strict"
    assert LinkTask("roc_auc", "paper").describe() == "links, ROC-AUC, protocol paper"
    assert LinkTask("mrr", "paper").facts()["protocol"] == "paper"


@pytest.mark.parametrize("metric", ["accuracy", "mae", "hits@10", "loss"])
def test_a_metric_of_something_else_gets_a_sentence(metric: str) -> None:
    with pytest.raises(GpmError, match=f"{metric} is not a metric of links; choose hits@20, hits@50, hits@100, mrr"):
        LinkTask(metric)


@pytest.mark.parametrize("label", [0, 1])
def test_a_part_without_edges_or_non_edges_cannot_be_scored(label: int) -> None:
    with pytest.raises(GpmError, match="Links are scored by edges against non-edges; this split lacks one of them"):
        LinkTask("mrr").score(torch.zeros(3, 1), torch.full((3,), label))
