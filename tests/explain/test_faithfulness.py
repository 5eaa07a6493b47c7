"""Curves begin and end where they must, random patterns are fair, and the same seed gives the same figures."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gpm import Graph
from gpm.data.non_edges import drop_edges, hide_edges
from gpm.explain.attribution import Ranking, rank_patterns
from gpm.explain.bag import Bag, Group, group_walks
from gpm.explain.explanation import Method
from gpm.explain.faithfulness import (
    DELETED,
    FORBIDDEN,
    INSERTED,
    TENTH,
    agree,
    draw_alike,
    find_best,
    overlap,
    score_again,
    trace,
    trace_edges,
)
from tests.explain.bags import CASES, LONELY, make_bag

pytestmark = pytest.mark.usefixtures("one_thread")
some_cases = pytest.mark.parametrize("case", ["mean", "class", "values", "sum", "joint", "joint induced"])


def _answer(ranking: Ranking, bag: Bag | None = None) -> float:
    bag = ranking.bag if bag is None else bag
    return float(bag.answers(bag.logits().detach())[0, ranking.target])


def _rank(case: str) -> Ranking:
    return rank_patterns(make_bag(case), "left-out")


# Patterns left out and put in


@some_cases
def test_curves_begin_or_end_at_the_answer(case: str) -> None:
    ranking = _rank(case)
    answer = pytest.approx(_answer(ranking), abs=1e-5)
    deletion, insertion = trace(ranking, DELETED), trace(ranking, INSERTED, insert=True)
    for curve, shares in ((deletion, DELETED), (insertion, INSERTED)):
        assert curve.share == shares
        assert len(curve.top) == len(curve.random) == len(curve.spread) == len(shares)
    assert (deletion.top[0], deletion.random[0]) == (answer, answer)
    assert (insertion.top[-1], insertion.random[-1]) == (answer, answer)
    assert deletion.spread[0] == insertion.spread[-1] == pytest.approx(0, abs=1e-6)
    assert min(deletion.spread[3:6]) > 1e-5  # of nearly all walks there may be but one choice of these lengths
    assert deletion.top[3] != answer
    assert TENTH in DELETED


@some_cases
def test_a_share_is_that_of_the_best_patterns_with_all_their_walks(case: str) -> None:
    ranking = _rank(case)
    curves = trace(ranking, (0.2, 0.9, 1.0)), trace(ranking, (0.0, 0.2, 0.9), insert=True)
    number = len(ranking.groups)
    for curve, counts, insert in (
        (curves[0], (round(0.2 * number), round(0.9 * number), number - 1), False),  # one is always kept
        (curves[1], (1, round(0.2 * number), round(0.9 * number)), True),  # one is always put in
    ):
        for said, count in zip(curve.top, counts, strict=True):
            weight = torch.full((1, len(ranking.bag)), float(not insert))
            weight[0, np.concatenate([group.walks for group in ranking.groups[:count]])] = float(insert)
            wanted = ranking.bag.answers(ranking.bag.logits(weight).detach())[0, ranking.target]
            assert said == pytest.approx(float(wanted), abs=1e-5)


def test_a_class_is_followed_even_if_it_is_not_the_predicted_one() -> None:
    bag = make_bag("mean")
    starts = [trace(rank_patterns(bag, "left-out", target), (0.0,)).top[0] for target in range(3)]
    assert starts == pytest.approx(bag.answers(bag.logits().detach())[0].tolist(), abs=1e-6)


def test_the_same_seed_gives_the_same_curve_and_another_other_patterns() -> None:
    ranking = _rank("class")
    one, two, other = (trace(ranking, DELETED, seed=seed) for seed in (3, 3, 4))
    assert one == two
    assert one.top == other.top
    assert one.random[2:] != other.random[2:]
    assert trace_edges(ranking, np.array([5]), seed=3) == trace_edges(ranking, np.array([5]), seed=3)


def test_a_pattern_that_is_alone_is_neither_left_out_nor_missing() -> None:
    ranking = rank_patterns(make_bag("mean", np.array([LONELY])))
    answer = _answer(ranking)
    assert trace(ranking, DELETED).top == pytest.approx([answer] * len(DELETED), abs=1e-6)
    assert trace(ranking, INSERTED, insert=True).top == pytest.approx([answer] * len(INSERTED), abs=1e-6)
    edges = trace_edges(ranking, np.array([LONELY]))
    assert (edges.share, edges.spread) == ((0.0,), (0.0,))
    assert edges.top == pytest.approx([answer], abs=1e-6)


# Random patterns


def test_walks_alike_have_the_same_lengths() -> None:
    random = np.random.default_rng(0)
    scales = random.choice([0, 2, 4], 60)
    chosen = random.permutation(60)[:25]
    found = draw_alike(scales, chosen, 40, random)
    assert len(found) == 40
    for walks in found:
        assert len(set(walks.tolist())) == len(walks) == 25
        assert sorted(scales[walks].tolist()) == sorted(scales[chosen].tolist())
    assert set(np.concatenate(found).tolist()) == set(range(60))
    assert [walks.tolist() for walks in draw_alike(scales, chosen[:0], 2, random)] == [[], []]


def test_the_best_are_walks_of_the_first_patterns() -> None:
    ranking = _rank("class")
    number = len(ranking.groups)
    for share, insert, count in ((0.0, False, 0), (0.0, True, 1), (0.001, False, 1), (1.0, False, number - 1),
                                 (1.0, True, number), (0.5, True, round(0.5 * number))):  # fmt: skip
        wanted = [walk for group in ranking.groups[:count] for walk in group.walks.tolist()]
        assert find_best(ranking, share, insert).tolist() == wanted


# Edges that are forbidden


@pytest.mark.parametrize("case", ["class", "joint"])
def test_random_patterns_have_edges_too_and_the_same_lengths(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ranking, asked = _rank(case), list[list[int]]()
    monkeypatch.setattr(
        "gpm.explain.faithfulness._answer_without",
        lambda _, __, places: float(len(asked.append(list(places)) or asked)),
    )
    curve = trace_edges(ranking, CASES[case].instance, draws=4)
    lengths = [int(ranking.bag.scales[group.walks[0]]) for group in ranking.groups]
    best = [place for place, group in enumerate(ranking.groups) if group.edges]
    assert asked.pop(0) == []
    for row, count in enumerate(int(share) for share in curve.share[1:]):
        mine, *alike = asked[5 * row : 5 * row + 5]
        assert mine == best[:count]
        for places in alike:
            assert len(set(places)) == count
            assert set(places) <= set(best)
            assert sorted(lengths[i] for i in places) == sorted(lengths[i] for i in mine)
    assert asked[0] != asked[1]


@some_cases
def test_forbidden_edges_are_those_of_the_best_patterns(case: str) -> None:
    """The answer is that of the model on a graph that never had them."""
    ranking, instance = _rank(case), CASES[case].instance
    curve = trace_edges(ranking, instance)
    best = [group for group in ranking.groups if group.edges]
    assert curve.share == (0.0, *(count for count in FORBIDDEN if count <= len(best)))
    answer = pytest.approx(_answer(ranking), abs=1e-6)
    assert (curve.top[0], curve.random[0]) == (answer, answer)
    predictor = ranking.bag.predictor
    if predictor.tokenizer.edges:  # a graph without some edges has other rows of features
        return
    for count, said in zip(curve.share[1:], curve.top[1:], strict=True):
        pairs = np.array([edge for group in best[: int(count)] for edge in group.edges])
        tokenizer = predictor.tokenizer.redraw(0, drop_edges(predictor.tokenizer.graph, pairs))
        bag = Bag.draw(replace(predictor, tokenizer=tokenizer), ranking.bag.task, instance)
        assert said == pytest.approx(_answer(ranking, bag), abs=1e-5)
    assert curve.top[1] != pytest.approx(curve.top[0], abs=1e-5)


@pytest.mark.parametrize("case", ["class", "sum", "joint"])
def test_a_graph_with_features_on_its_edges_keeps_them_when_others_are_forbidden(case: str) -> None:
    ranking, instance = _rank(case), CASES[case].instance
    predictor, best = ranking.bag.predictor, [group for group in ranking.groups if group.edges]
    assert predictor.tokenizer.edges
    curve, told = trace_edges(ranking, instance, draws=1), _crossings(predictor.tokenizer.graph)
    for count, said in zip(curve.share[1:], curve.top[1:], strict=True):
        gone = {edge for group in best[: int(count)] for edge in group.edges}
        hidden = hide_edges(predictor.tokenizer.graph, np.array(sorted(gone)))
        bag = Bag.draw(predictor, ranking.bag.task, instance, graph=hidden)
        assert not gone & {edge for group in group_walks(bag) for edge in group.edges}
        assert _crossings(hidden) == {pair: ids for pair, ids in told.items() if tuple(sorted(pair)) not in gone}
        assert said == pytest.approx(_answer(ranking, bag), abs=1e-6)


def _crossings(graph: Graph) -> dict[frozenset[int], set[int]]:
    """The ids of the edges between two nodes."""
    ids = np.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids
    found: dict[frozenset[int], set[int]] = {}
    for a, b, edge in zip(*graph.edge_index().tolist(), ids.tolist(), strict=True):
        found.setdefault(frozenset((a, b)), set()).add(edge)
    return found


# Drawn anew


def test_scores_agree_as_far_as_they_point_the_same_way() -> None:
    one: dict[Hashable, float] = {"a": 3.0, "b": 4.0}
    turned: dict[Hashable, float] = {"a": 4.0, "b": -3.0}
    other: dict[Hashable, float] = {"c": 1.0}
    double: dict[Hashable, float] = {"a": 6.0, "b": 8.0}
    assert agree([one, dict(one)]) == agree([one, double]) == pytest.approx(1)
    assert agree([one, other]) == 0
    assert agree([one, turned]) == pytest.approx(0)
    assert agree([one, {"a": 1.0}]) == pytest.approx(0.6)
    assert agree([one, one, other]) == pytest.approx(1 / 3)  # the mean over the three pairs
    assert agree([{}, {}]) == agree([{}, {"a": 0.0}]) == 1
    assert agree([{}, one]) == agree([{"a": 0.0}, one]) == 0
    assert agree([one]) == agree([]) == 1


def test_draws_overlap_in_what_they_share() -> None:
    one: dict[Hashable, float] = {"a": 3.0, "b": 4.0}
    assert overlap([one, dict.fromkeys(one, 1.0)]) == 1
    assert overlap([one, {"c": 1.0}]) == 0
    assert overlap([one, {"a": 9.0}]) == pytest.approx(1 / 2)
    assert overlap([one, {"a": 9.0, "c": 1.0}]) == pytest.approx(1 / 3)
    assert overlap([one, one, {"c": 1.0}]) == pytest.approx(1 / 3)
    assert overlap([one]) == 1


@pytest.mark.parametrize("case", ["class", "sum", "values", "joint", "product"])
@pytest.mark.parametrize("method", ["banzhaf", "left-out", "gradient", "attention"])
def test_patterns_in_place_of_themselves_score_as_they_did(case: str, method: Method) -> None:
    """So a spread is in the units of the score that it stands beside; by banzhaf, as far as random halves allow."""
    bag = make_bag(case)
    if method == "attention" and bag.attention() is None:
        return
    ranking = rank_patterns(bag, method)
    found = score_again(ranking, ranking.groups[:5], [bag])[0]
    scores = ranking.scores[:5]
    assert len(scores) > 1
    np.testing.assert_allclose(found, scores, atol=0.3 * np.abs(scores).max() if method == "banzhaf" else 1e-5)


@pytest.mark.parametrize("case", ["mean", "class", "sum", "joint", "product"])
def test_scores_change_with_the_other_patterns(case: str) -> None:
    bag, others = make_bag(case), [make_bag(case, seed=seed) for seed in (4, 5)]
    ranking = rank_patterns(bag, "left-out")
    found = score_again(ranking, ranking.groups[:5], [*others, others[0]])
    assert found.shape == (3, 5)
    assert np.isfinite(found).all()
    assert np.abs(found[0] - found[1]).max() > 0
    np.testing.assert_array_equal(found[0], found[2])
    alone = score_again(ranking, ranking.groups[:1], others[:1])
    joined = bag.put_into(ranking.groups[0].walks, others[0], _same(ranking.groups[0], others[0]))
    (mine,) = [group for group in group_walks(joined) if group.key == ranking.groups[0].key]
    assert len(mine.walks) == len(ranking.groups[0].walks)
    with torch.no_grad():
        fall = joined.measure(joined.logits()) - joined.measure(joined.leave_out([mine.walks]))
    assert alone[0, 0] == pytest.approx(float(fall[0, ranking.target]), abs=1e-6)


def _same(group: Group, bag: Bag) -> NDArray[np.int64]:
    """The walks of a bag that pass through the same subgraph."""
    found = [other.walks for other in group_walks(bag) if other.key == group.key]
    return np.concatenate([*found, np.zeros(0, dtype=np.int64)])
