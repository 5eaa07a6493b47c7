from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    confusion_matrix,
    precision_recall_fscore_support,
    r2_score,
    roc_auc_score,
    roc_curve,
)

from gpm.report.diagnostics import (
    FEWEST,
    POINTS,
    Ranked,
    Statistic,
    calibrate,
    count_confusions,
    describe_residuals,
    find_wilson,
    rank_among,
    resample,
    score_class,
)

SEEDS = st.integers(0, 1000)


def _scores(seed: int, count: int = 60, ties: bool = True) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    score = random.normal(size=count)
    true = random.random(count) < 0.4
    true[:2] = True, False
    return true, np.round(score + true, 1 if ties else 9)


@given(SEEDS)
def test_confusions_and_scores_of_classes_are_those_of_scikit_learn(seed: int) -> None:
    random = np.random.default_rng(seed)
    true, said = random.integers(0, 4, (2, 50))
    np.testing.assert_array_equal(count_confusions(true, said, 4), confusion_matrix(true, said, labels=range(4)))
    wanted = np.array(precision_recall_fscore_support(true, said, labels=range(4), zero_division=0)).T
    for kind, (precision, recall, f1, count) in enumerate(wanted):
        found = score_class("", true == kind, said == kind, random.random(50))
        assert found.count == count
        assert (found.precision, found.recall, found.f1) == pytest.approx((precision, recall, f1))


@given(SEEDS)
def test_areas_are_those_of_scikit_learn_also_with_equal_scores_and_weights(seed: int) -> None:
    true, score = _scores(seed)
    weight = np.random.default_rng(seed).integers(0, 3, len(true))
    weight[:2] = 1
    found = Ranked.of(true, score)
    assert found.area(np.ones(len(true), dtype=np.int64)) == pytest.approx(roc_auc_score(true, score))
    assert found.area(weight) == pytest.approx(roc_auc_score(true, score, sample_weight=weight))
    recall, precision = found.precision_recall()
    steps = np.diff(np.concatenate([[0], recall]))
    assert float((steps * precision).sum()) == pytest.approx(average_precision_score(true, score))


def test_a_curve_goes_through_the_points_of_scikit_learn_and_is_thinned() -> None:
    true, score = _scores(0, 5000, ties=False)
    x, y = Ranked.of(true, score).roc()
    assert len(x) <= POINTS
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    far, hit, _ = roc_curve(true, score, drop_intermediate=False)
    points = set(zip(far.round(9), hit.round(9), strict=True))
    assert set(zip(x.round(9), y.round(9), strict=True)) <= points


def test_without_both_kinds_there_is_no_area() -> None:
    alone = np.ones(4, dtype=bool)
    assert np.isnan(Ranked.of(alone, np.arange(4.0)).area(np.ones(4, dtype=np.int64)))
    assert score_class("", alone, alone, np.ones(4)).roc_auc is None


def test_stated_probabilities_that_come_true_err_by_chance_alone() -> None:
    random = np.random.default_rng(0)
    for count in (60, 50_000):
        stated = random.random(count)
        found = calibrate(stated, random.random(count) < stated)
        assert found.error == pytest.approx(found.by_chance, rel=0.8)
        wrong = calibrate(stated, random.random(count) < stated**3)
        assert wrong.error > 1.5 * wrong.by_chance


def test_equal_probabilities_stay_together() -> None:
    """Whatever the order of the instances."""
    right = np.arange(100) < 70
    found = calibrate(np.full(100, 0.7), right)
    assert found.error == pytest.approx(0)
    assert (found.probability.tolist(), found.frequency.tolist()) == ([pytest.approx(0.7)], [pytest.approx(0.7)])
    assert calibrate(np.array([1.0]), np.array([False])).error == 1


def test_intervals_of_numbers_hold_as_many_as_they_say() -> None:
    random = np.random.default_rng(0)
    true, held = random.normal(size=(2, 4000))
    found = describe_residuals("y", true, true + random.normal(size=4000), held, held + random.normal(size=4000))
    assert found.coverage == pytest.approx(0.9, abs=0.02)
    assert found.width == pytest.approx(1.645, abs=0.1)
    assert found.r2 == pytest.approx(r2_score(found.true, found.predicted))


def test_unknown_numbers_are_left_out_and_few_give_no_interval() -> None:
    true = np.array([1.0, np.nan, 3.0])
    found = describe_residuals("y", true, np.array([1.5, 9.0, 3.0]), true, true)
    assert (found.mae, len(found.true)) == (0.25, 2)
    assert (found.width, found.coverage) == (None, None)


@pytest.mark.parametrize(("share", "count"), [(0.7, 300), (0.95, 30), (0.99, 100), (0.5, 8)])
def test_an_interval_of_a_share_covers_it_about_19_times_in_20(share: float, count: int) -> None:
    random = np.random.default_rng(0)
    intervals = [find_wilson(int((random.random(count) < share).sum()), count) for _ in range(400)]
    inside = [interval is not None and interval[0] <= share <= interval[1] for interval in intervals]
    assert 0.91 <= np.mean(inside) <= 1


def test_a_share_of_all_is_not_certain() -> None:
    low, high = find_wilson(20, 20) or (0.0, 0.0)
    assert low == pytest.approx(0.839, abs=0.001)
    assert high == 1
    assert find_wilson(0, 0) is None


def test_a_resampled_interval_covers_the_true_mean_about_19_times_in_20() -> None:
    random, inside = np.random.default_rng(0), 0
    for _ in range(40):
        error = random.exponential(size=100)
        interval = Statistic(lambda drawn, error=error: float(drawn @ error / drawn.sum()), 100).interval()  # type: ignore[misc]
        assert interval is not None
        inside += interval[0] <= 1 <= interval[1]
    assert inside >= 34


def test_too_few_instances_have_no_interval() -> None:
    few = Statistic(lambda drawn: 0.5, FEWEST - 1)
    assert (few.interval(), few.interval_above(few)) == (None, None)


def test_a_statistic_that_is_mostly_undefined_has_no_interval() -> None:
    assert resample(lambda drawn: float("nan"), 10) is None


@given(SEEDS)
def test_the_rank_of_an_edge_counts_the_non_edges_with_at_least_its_score(seed: int) -> None:
    random = np.random.default_rng(seed)
    edges, others = random.integers(0, 6, 8).astype(float), random.integers(0, 6, 12).astype(float)
    for edge, rank in zip(edges, rank_among(edges, others), strict=True):
        assert rank == 1 + (others >= edge).sum()
