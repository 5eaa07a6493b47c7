"""How far answers move with the patterns that are drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from gpm import GpmError
from gpm.inference.redraws import LEVEL, measure_spread, spread_factor
from gpm.nn.predictor import Predictor
from tests.small_runs import run_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_spread_is_the_deviation_over_independent_draws() -> None:
    run = run_of("values")
    assert isinstance(run.predictor, Predictor)
    nodes = np.arange(20)
    own = run.predictor.logits(nodes)
    spread = measure_spread(run.predictor, nodes, own, draws=4)
    assert spread.shape == own.shape
    assert (spread > 0).any()
    torch.testing.assert_close(measure_spread(run.predictor, nodes, own, draws=4), spread)  # the same draws again
    torch.testing.assert_close(run.predictor.logits(nodes), own)  # and the run's own patterns are untouched
    wide = measure_spread(run.predictor, nodes, run.predictor.logits(nodes, patterns=3), draws=4, patterns=3)
    assert wide.mean() > spread.mean()  # fewer patterns, more chance


def test_a_baseline_draws_nothing() -> None:
    run = run_of("gcn")
    nodes = np.arange(5)
    spread = measure_spread(run.predictor, nodes, run.predictor.logits(nodes))
    assert spread.tolist() == [[0.0] * 3] * 5


def test_one_draw_tells_nothing() -> None:
    run = run_of("values")
    with pytest.raises(GpmError, match="draws must be at least 2, since one tells nothing of a spread, got 1"):
        measure_spread(run.predictor, np.arange(2), torch.zeros(2, 1), draws=1)


def test_few_draws_are_allowed_for() -> None:
    """A deviation of few draws is itself uncertain: with Student's t, 9 in 10 intervals still hold the mean."""
    assert spread_factor(8) == pytest.approx(stats.t.ppf(0.95, 7))
    random = np.random.default_rng(0)
    draws = random.normal(size=(200_000, 4))
    inside = np.abs(random.normal(size=200_000)) <= spread_factor(4) * draws.std(1, ddof=1)
    assert inside.mean() == pytest.approx(LEVEL, abs=0.01)
