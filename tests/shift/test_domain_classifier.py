import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpm.shift.domain_classifier import cross_fit, find_area


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
