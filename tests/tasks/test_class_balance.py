"""Weights of classes and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpm import Config, GpmError, Graph
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData
from gpm.data.splits import Split
from gpm.tasks import ClassTask, make_task
from gpm.tasks.class_balance import balance, find_cut, find_rarest

NAN = float("nan")
SPLIT = Split(np.arange(20), np.arange(20, 25), np.arange(25, 30), "by hand")


def _make(labels: Any, **options: Any) -> ClassTask:
    """The task of 30 nodes, of which the first 20 are trained on."""
    graph = Graph.from_edges([[0], [1]], 30, y=labels)
    task = make_task(NodeData(graph, "g"), SPLIT, Config(**{"metric": "f1", "class_weight": "balanced"} | options))
    assert isinstance(task, ClassTask)
    return task


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_every_class_counts_the_same_and_the_mean_weight_is_one(classes: list[int]) -> None:
    (weights,) = balance(torch.tensor(classes), 4)
    each = [sum(weights[c] for c in classes if c == wanted) for wanted in set(classes)]
    assert each == pytest.approx([len(classes) / len(each)] * len(each))
    assert np.mean([weights[c] for c in classes]) == pytest.approx(1)
    assert all(weights[c] == 1 for c in set(range(4)) - set(classes))


@given(st.lists(st.tuples(*[st.sampled_from([0.0, 1.0, NAN])] * 2), min_size=1, max_size=30))
def test_yes_and_no_of_every_label_count_the_same(labels: list[tuple[float, float]]) -> None:
    no, yes = np.array(balance(torch.tensor(labels), 2))
    for column, answers in enumerate(np.array(labels).T):
        count = np.array([(answers == 0).sum(), (answers == 1).sum()])
        total = count * [no[column], yes[column]]
        if count.all():
            assert total[0] == pytest.approx(total[1])
        if count.any():
            assert total.sum() == pytest.approx(count.sum())


@pytest.mark.parametrize("several", [False, True])
def test_weights_are_of_the_training_split_only(several: bool) -> None:
    random = np.random.default_rng(0)
    labels: Any = random.choice(2, 30, p=[0.7, 0.3])
    labels[:2] = labels[28:] = 0, 1
    if several:
        labels = np.stack([labels, 1 - labels], 1).astype(np.float32)
    other = labels.copy()
    other[20:] = 1 - other[20:]
    one, two = _make(labels), _make(other)
    assert one.weights == two.weights
    assert not torch.equal(one.targets, two.targets)
    other[:5] = 1 - other[:5]
    assert _make(other).weights != one.weights
    assert not _make(labels, class_weight="none").weights


def test_weights_and_the_focal_loss_are_of_classes() -> None:
    graph = Graph.from_edges([np.arange(30), np.roll(np.arange(30), 1)], 30, y=np.linspace(0.5, 1.25, 30))
    for option in ({"class_weight": "balanced"}, {"loss": "focal"}):
        (name, value), *_ = option.items()
        said = f"--{name} {value} is for classes and yes-or-no labels; leave it out"
        config: Any = Config(metric="mae").with_(**option)
        with pytest.raises(GpmError, match=said):
            make_task(NodeData(graph, "g", metric="mae"), SPLIT, config)
        links = LinkData(graph, "g")
        with pytest.raises(GpmError, match=said):
            make_task(links, links.make_split(0), config.with_(metric="mrr"))


@pytest.mark.parametrize(
    ("counts", "label", "rare"),
    [
        ([99, 1], 1, True), ([1, 99], 0, True), ([91, 9], 1, True), ([90, 10], 1, False), ([50, 50], 1, False),
        ([50, 41, 9], 2, True), ([9, 46, 45], 0, True), ([5] * 20, 19, False),
        ([5] * 19 + [1], 19, True), ([7], 0, False),
    ],
)  # fmt: skip
def test_a_class_is_rare_below_a_tenth_and_below_half_of_an_even_share(
    counts: list[int], label: int, rare: bool
) -> None:
    found = find_rarest(np.repeat(np.arange(len(counts)), counts))
    assert (found.label, found.share, found.rare) == (label, counts[label] / sum(counts), rare)


def test_the_positive_class_is_the_rarer_one_of_the_training_split() -> None:
    labels = np.repeat([0, 1, 1], [3, 17, 10])
    assert _make(labels).positive == 0
    assert _make(1 - labels).positive == 1
    assert _make(np.repeat([0, 1, 0], [10, 10, 10])).positive == 1  # equal: the second, as usual
    assert _make(np.repeat([0, 1, 0], [3, 17, 10])).positive == 0


@given(
    st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=20), st.sampled_from(["ap", "roc_auc"])
)
def test_the_cut_is_the_best_of_all(instances: list[tuple[int, bool]], metric: str) -> None:
    margin, positive = np.array([m for m, _ in instances], float), np.array([yes for _, yes in instances])

    def quality(cut: float) -> float:
        said = margin >= cut
        if metric == "roc_auc":
            return float((said[positive].mean() + (~said[~positive]).mean()) / 2)
        return float(2 * (said & positive).sum() / (said.sum() + positive.sum()))

    found = find_cut(margin, positive, metric)
    if positive.all() or not positive.any() or margin.min() == margin.max():
        assert found is None  # there is nothing to tell apart, or nothing to tell it by
        return
    assert found is not None
    assert quality(found) == pytest.approx(
        max(quality(cut + 0.5) for cut in range(-4, 4) if margin.min() < cut + 0.5 < margin.max())
    )
    assert margin.min() < found < margin.max()  # so that both classes are predicted
    assert found not in margin
