from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import ks_2samp

from gpm.shift.distances import (
    column_distance,
    compare,
    compare_columns,
    cross_fit,
    find_area,
    find_gap,
    halve,
    total_variation,
)
from gpm.shift.verdict import judge, judge_area

samples = st.lists(st.integers(0, 9), min_size=1, max_size=40).map(lambda values: np.array(values, dtype=float))


@given(samples, samples)
def test_the_gap_is_that_of_kolmogorov_and_smirnov(one: np.ndarray, two: np.ndarray) -> None:
    assert find_gap(one, two) == pytest.approx(ks_2samp(one, two).statistic)
    assert find_gap(one, two) == pytest.approx(find_gap(two, one))
    assert find_gap(one, one) == 0


def test_total_variation_is_what_would_have_to_move() -> None:
    one, two = np.array([3, 1, 0]), np.array([2, 2, 4])
    assert total_variation(one, two) == pytest.approx(0.5)
    assert total_variation(one, 7 * one) == pytest.approx(0)
    assert total_variation(np.array([1, 0]), np.array([0, 1])) == 1


def test_columns_are_compared_in_standard_deviations_whatever_their_form_and_unit() -> None:
    random = np.random.default_rng(0)
    source, target = random.normal(size=(500, 4)), random.normal(size=(300, 4))
    target[:, 2] += 1
    source[:, 3] = target[:, 3] = 7  # it does not vary
    apart = compare_columns(source, target)
    assert np.argmax(np.nan_to_num(apart)) == 2
    assert np.isnan(apart[3])
    assert apart[2] == pytest.approx(1 / np.sqrt(1 + 1 / 4), abs=0.15)
    np.testing.assert_allclose(compare_columns(1000 * source, 1000 * target), apart, atol=1e-9)
    np.testing.assert_allclose(compare_columns(sp.csr_array(source), sp.csr_array(target)), apart, atol=1e-9)
    np.testing.assert_allclose(compare_columns(target, source), -apart, atol=1e-9)


def test_columns_that_tell_all_are_two_deviations_apart_and_constant_ones_none() -> None:
    assert compare_columns(np.zeros((9, 1)), np.ones((5, 1)))[0] == pytest.approx(2)
    assert column_distance(np.ones((9, 1)), np.ones((5, 1))) == 0
    assert column_distance(np.ones((9, 0)), np.ones((5, 0))) == 0


@given(st.integers(0, 50), st.integers(0, 9))
def test_halves_are_all_of_it_and_the_seed_names_them(count: int, seed: int) -> None:
    for (one, two), (again, _) in zip(halve(count, seed), halve(count, seed), strict=True):
        assert sorted([*one, *two]) == list(range(count))
        assert abs(len(one) - len(two)) <= 1
        np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("sizes", [(400, 400), (800, 100), (100, 800)])
def test_without_a_shift_distance_and_reference_agree_and_with_one_they_do_not(sizes: tuple[int, int]) -> None:
    """Halves are of the size of the smaller sample's, so that chance adds the same to both."""
    random = np.random.default_rng(0)
    source, target = (random.normal(size=size) for size in sizes)
    value, reference = compare(source, target, find_gap, 0)
    assert value == pytest.approx(reference, abs=0.08)
    assert judge(value, reference) == "none"
    value, reference = compare(source, target + 1, find_gap, 0)
    assert judge(value, reference) == "clear"


def test_compare_takes_rows_of_sparse_matrices() -> None:
    def measure(one: Any, two: Any) -> float:
        return float(abs(one.sum() - two.sum()))

    assert compare(sp.csr_array(np.eye(6)), sp.csr_array(np.zeros((8, 6))), measure, 0) == (3, 0)


def test_words_follow_their_rules() -> None:
    assert [judge(*pair) for pair in ((0.2, 0.05), (0.2, 0.11), (0.08, 0.04), (0.06, 0.04), (0.9, 0.8))] == [
        "clear", "slight", "slight", "none", "none",
    ]  # fmt: skip
    assert [judge_area(value) for value in (0.5, 0.65, 0.8)] == ["none", "slight", "clear"]


def _nodes(far: float, count: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    away = np.arange(count) % 3 == 0
    x = random.normal(size=(count, 5))
    x[:, 4] = 3.0  # it does not vary
    x[away, 1] += far
    return x, away, random.permutation(count) % 2


@pytest.mark.usefixtures("one_thread")
def test_a_classifier_guesses_without_a_shift_and_sees_a_large_one() -> None:
    for far, low, high in ((0.0, 0.42, 0.58), (1.0, 0.65, 0.85), (5.0, 0.99, 1.0)):
        x, away, fold = _nodes(far)
        scores, area = cross_fit(x, away, fold, np.ones(len(x), dtype=bool))
        assert low <= area <= high
        assert np.isfinite(scores).all()


@pytest.mark.usefixtures("one_thread")
def test_no_node_is_scored_by_what_learned_from_it() -> None:
    """Were it so, columns of noise, more than there are nodes, would tell every node's domain."""
    random = np.random.default_rng(0)
    x, away = random.normal(size=(200, 300)), np.arange(200) % 2 == 0
    area = cross_fit(x, away, random.permutation(200) % 2, np.ones(200, dtype=bool))[1]
    assert 0.35 < area < 0.65


@pytest.mark.usefixtures("one_thread")
def test_nodes_that_are_not_used_are_scored_and_change_nothing() -> None:
    x, away, fold = _nodes(2.0)
    used = np.arange(len(x)) < 400
    scores, area = cross_fit(x, away, fold, used)
    alone, same = cross_fit(x[:400], away[:400], fold[:400], used[:400])
    assert area == same
    np.testing.assert_allclose(scores[:400], alone)
    assert scores[400:][away[400:]].mean() > scores[400:][~away[400:]].mean() + 1


@given(arrays(np.int64, 12, elements=st.integers(0, 4)), arrays(np.bool_, 12))
def test_the_area_is_the_probability_of_the_right_order(scores: np.ndarray, positive: np.ndarray) -> None:
    yes, no = scores[positive], scores[~positive]
    pairs = [(a > b) + (a == b) / 2 for a in yes for b in no]
    assert find_area(scores, positive) == pytest.approx(np.mean(pairs) if pairs else 0.5)
