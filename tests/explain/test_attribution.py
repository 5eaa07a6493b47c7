"""How much patterns count: several methods, one order, and what each of them promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gpm import GpmError
from gpm.explain.attribution import (
    METHODS,
    Ranking,
    choose_method,
    rank_groups,
    rank_patterns,
    score_groups,
    weigh_edges,
)
from gpm.explain.bag import Bag, Group, group_walks
from tests.explain.bags import CASES, LONELY, make_bag

pytestmark = pytest.mark.usefixtures("one_thread")
cases = pytest.mark.parametrize("case", CASES)
methods = pytest.mark.parametrize("method", METHODS)
ATTENTIVE = ("class", "fusion", "graph class")


def _rank(case: str, method: Any = "auto", target: int | None = None) -> Ranking:
    return rank_patterns(make_bag(case), method, target)


def _found(ranking: Ranking) -> dict[Any, float]:
    """The scores by what patterns are."""
    keys = [(frozenset(group.nodes), group.edges) for group in ranking.groups]
    return dict(zip(keys, ranking.scores.tolist(), strict=True))


@cases
@methods
def test_the_highest_scores_come_first_and_no_pattern_is_lost(case: str, method: Any) -> None:
    if method == "attention" and case not in ATTENTIVE:
        return
    ranking = _rank(case, method)
    assert ranking.scores.shape == (len(ranking.groups),)
    assert ranking.evidence.shape == (len(ranking.groups), ranking.bag.classes)
    assert (np.diff(ranking.scores) <= 0).all()
    assert np.isfinite(ranking.scores).all()
    assert sorted(np.concatenate([g.walks for g in ranking.groups]).tolist()) == list(range(len(ranking.bag)))
    assert ranking.scores.std() > 0


@cases
def test_left_out_is_the_fall_of_the_log_odds(case: str) -> None:
    ranking = _rank(case, "left-out")
    bag = ranking.bag
    with torch.no_grad():
        whole = bag.measure(bag.logits())
        for place in (0, len(ranking.groups) // 2, -1):
            weight = torch.ones(1, len(bag))
            weight[0, ranking.groups[place].walks] = 0
            fall = (whole - bag.measure(bag.logits(weight)))[0].numpy()
            np.testing.assert_allclose(ranking.evidence[place], fall, atol=1e-5)
            assert ranking.scores[place] == pytest.approx(fall[ranking.target], abs=1e-5)


def test_log_odds_are_those_of_the_answers() -> None:
    ranking = _rank("mean", "left-out", 1)
    bag = ranking.bag
    with torch.no_grad():
        before, after = bag.answers(bag.logits())[0, 1], bag.answers(bag.leave_out([ranking.groups[0].walks]))[0, 1]
    assert ranking.scores[0] == pytest.approx(float(torch.logit(before) - torch.logit(after)), abs=1e-5)


@cases
def test_the_gradient_is_that_of_all_walks_of_a_pattern_together(case: str) -> None:
    ranking, step = _rank(case, "gradient"), 1e-2
    bag = ranking.bag
    for place in (0, -1):
        weight = torch.ones(2, len(bag))
        weight[:, ranking.groups[place].walks] += torch.tensor([[step], [-step]])
        with torch.no_grad():
            up, down = bag.measure(bag.logits(weight)).numpy()
        np.testing.assert_allclose(ranking.evidence[place], (up - down) / (2 * step), atol=2e-3, rtol=2e-2)
    np.testing.assert_array_equal(ranking.scores, ranking.evidence[:, ranking.target])


def _list_all(bag: Bag, groups: Sequence[Group]) -> NDArray:
    """Banzhaf values `[G, C]` as they are defined: the mean rise over every choice of the other patterns."""
    chosen = np.array(list(product([0.0, 1.0], repeat=len(groups))), dtype=np.float32)  # (2^G, G)
    weight = torch.zeros(len(chosen), len(bag))
    for place, group in enumerate(groups):
        weight[:, group.walks] = torch.from_numpy(chosen[:, place : place + 1])
    with torch.no_grad():
        measured = bag.measure(bag.logits(weight)).numpy()
    return np.stack([measured[row == 1].mean(0) - measured[row == 0].mean(0) for row in chosen.T])


@pytest.mark.parametrize("case", ["mean", "class", "sum", "joint"])
def test_banzhaf_is_the_mean_rise_over_all_choices_of_the_others(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(CASES[case], options=CASES[case].options | {"pool": 6, "lengths": [1, 2], "patterns": 3})
    bag = small.bag()
    groups = group_walks(bag)
    assert 3 <= len(groups) <= 12
    wanted = _list_all(bag, groups)
    monkeypatch.setattr("gpm.explain.attribution.FEWEST", 20_000)
    found = score_groups(bag, groups, "banzhaf", 0)
    np.testing.assert_allclose(found[1], wanted, atol=0.02 * np.abs(wanted).max())
    np.testing.assert_array_equal(found[0], found[1][:, 0])


def test_banzhaf_of_few_draws_comes_near_and_is_the_same_twice() -> None:
    bag = replace(CASES["mean"], options={"pool": 8, "lengths": [1, 2]}).bag()
    groups = group_walks(bag)
    wanted, found, again = _list_all(bag, groups), *(score_groups(bag, groups, "banzhaf", 0)[1] for _ in range(2))
    np.testing.assert_array_equal(found, again)
    np.testing.assert_allclose(found, wanted, atol=0.2 * np.abs(wanted).max())


@pytest.mark.parametrize("case", ATTENTIVE)
def test_attention_is_shared_out_over_all_patterns(case: str) -> None:
    ranking, without = _rank(case, "attention"), _rank(case, "left-out")
    assert ranking.scores.sum() == pytest.approx(1)
    assert (ranking.scores > 0).all()
    attention = ranking.bag.attention()
    assert attention is not None
    for group, score in zip(ranking.groups, ranking.scores, strict=True):
        assert score == pytest.approx(attention[group.walks].sum())
    told = dict(zip([g.nodes for g in without.groups], without.evidence.tolist(), strict=True))
    for group, evidence in zip(ranking.groups, ranking.evidence.tolist(), strict=True):
        assert evidence == pytest.approx(told[group.nodes], abs=1e-6)


@cases
def test_auto_is_banzhaf_whatever_the_readout(case: str) -> None:
    assert choose_method(make_bag(case), "auto") == "banzhaf"


@pytest.mark.parametrize(
    ("case", "what"),
    [("mean", "A mean readout"), ("sum", "A sum readout"), ("joint", "A link"), ("product", "A link")],
)
def test_what_has_no_attention_says_what_to_choose(case: str, what: str) -> None:
    sentence = f"^{what} has no attention over patterns; choose --method banzhaf, left-out or gradient"
    with pytest.raises(GpmError, match=sentence):
        rank_patterns(make_bag(case), "attention")


def test_a_method_that_is_not_there_is_a_mistake() -> None:
    with pytest.raises(
        GpmError, match="method must be one of auto, banzhaf, attention, left-out, gradient, got 'leftout'"
    ):
        rank_patterns(make_bag("mean"), "leftout")  # type: ignore[arg-type]


# Which class


@pytest.mark.parametrize("case", ["mean", "fusion", "values", "sum"])
def test_the_class_is_the_predicted_one_unless_another_is_named(case: str) -> None:
    bag = make_bag(case)
    assert rank_patterns(bag).target == int(bag.answers(bag.logits())[0].argmax())
    rankings = [rank_patterns(bag, "left-out", target) for target in range(3)]
    assert [ranking.target for ranking in rankings] == [0, 1, 2]
    for ranking in rankings:
        np.testing.assert_array_equal(ranking.scores, ranking.evidence[:, ranking.target])
        same = {g.nodes + g.edges: e.tolist() for g, e in zip(ranking.groups, ranking.evidence, strict=True)}
        other = {g.nodes + g.edges: e.tolist() for g, e in zip(rankings[0].groups, rankings[0].evidence, strict=True)}
        assert same == other  # evidence is for every class, whichever is explained
    assert _found(rankings[0]) != _found(rankings[1])


# Order


def _groups(*sizes: int) -> list[Group]:
    return [Group(np.array([i]), tuple(range(size)), ((0, 1),)) for i, size in enumerate(sizes)]


def test_of_equal_scores_the_smaller_comes_first_then_the_first_met() -> None:
    scores = np.array([0.5, 1.0, 0.5, 0.5, 1.0, 0.5])
    assert rank_groups(scores, _groups(4, 3, 2, 4, 3, 2)).tolist() == [1, 4, 2, 5, 0, 3]
    assert rank_groups(np.zeros(5), _groups(2, 2, 2, 2, 2)).tolist() == [0, 1, 2, 3, 4]
    assert rank_groups(np.zeros(0), []).tolist() == []


@methods
def test_the_same_bag_is_ranked_the_same_twice(method: Any) -> None:
    one, two = _rank("class", method), _rank("class", method)
    assert [group.nodes for group in one.groups] == [group.nodes for group in two.groups]
    np.testing.assert_array_equal(one.scores, two.scores)


@methods
def test_a_lone_node_has_one_pattern(method: Any) -> None:
    ranking = rank_patterns(make_bag("class", np.array([LONELY])), method)
    assert len(ranking.groups) == 1
    assert np.isfinite(ranking.scores).all()
    assert np.isfinite(ranking.evidence).all()
    assert ranking.edges(5) == {}
    if ranking.method == "attention":
        assert ranking.scores[0] == pytest.approx(1)
    if method == "gradient":
        assert ranking.bag.slopes(torch.ones(1, 24), [0]).shape == (1, 24)


# Edges


def test_edges_count_by_the_patterns_over_them_that_speak_for_the_answer() -> None:
    groups = [
        Group(np.array([0]), (0, 1, 2), ((0, 1), (1, 2))),
        Group(np.array([1]), (1, 2, 3), ((1, 2), (2, 3))),
        Group(np.array([2]), (3, 4), ((3, 4),)),
        Group(np.array([3]), (7,), ()),
    ]
    scores = np.array([2.0, 0.5, -1.0, 9.0])
    assert weigh_edges(groups, scores) == {(0, 1): 2.0, (1, 2): 2.5, (2, 3): 0.5, (3, 4): 0.0}
    ranking = replace(_rank("mean"), groups=tuple(groups), scores=scores)
    assert ranking.edges(2) == {(0, 1): 2.0, (1, 2): 2.5, (2, 3): 0.5}
    assert ranking.edges(9) == weigh_edges(groups, scores)
    assert ranking.by_pattern(3) == {
        (frozenset({0, 1, 2}), ((0, 1), (1, 2))): 2.0,
        (frozenset({1, 2, 3}), ((1, 2), (2, 3))): 0.5,
        (frozenset({3, 4}), ((3, 4),)): 0.0,
    }
