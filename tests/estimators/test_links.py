"""The estimator of links."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import gpm
from gpm import GpmError, LinkPredictor

pytestmark = pytest.mark.usefixtures("one_thread")


def test_it_scores_pairs_by_name(linked: LinkPredictor) -> None:
    pairs = [("0", "1"), ("33", "7"), ("4", "20")]
    chances = linked.predict_proba(pairs)
    assert (chances.shape, linked.classes_.tolist()) == ((3, 2), [False, True])
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-6)
    np.testing.assert_array_equal(linked.predict(pairs), chances[:, 1] >= 0.5)
    table = linked.predict_proba(np.array(pairs), frame=True)
    assert table["source"].tolist() == ["0", "33", "4"]
    np.testing.assert_allclose(table["probability"], chances[:, 1], rtol=1e-5)


def test_it_recommends_those_that_are_no_neighbours(linked: LinkPredictor) -> None:
    found = linked.recommend("0", k=4)
    table = linked.recommend("0", 4, frame=True)
    assert table["target"].tolist() == found.tolist()
    assert table["probability"].is_monotonic_decreasing
    there = {str(node) for node in nx.karate_club_graph()[0]} | {"0"}
    assert not there & set(found)


def test_it_is_scored_on_held_out_edges_or_on_pairs(linked: LinkPredictor) -> None:
    assert linked.score() == linked.run_.result["test"][linked.run_.config.metric]
    assert 0 <= linked.score([("0", "1"), ("0", "33"), ("16", "20")], [True, False, False]) <= 1
    with pytest.raises(GpmError, match="give y with a yes or a no for each pair"):
        linked.score([("0", "1")])


def test_it_is_explained_saved_and_loaded(linked: LinkPredictor, tmp_path: Path) -> None:
    assert linked.explain(("0", "33"), draws=2, top=2).patterns
    again = gpm.load(linked.save(tmp_path / "run"), device="cpu")
    assert isinstance(again, LinkPredictor)
    pairs = [("0", "1"), ("33", "7")]
    np.testing.assert_array_equal(again.predict_proba(pairs), linked.predict_proba(pairs))
    with pytest.raises(GpmError, match="leave out y"):
        LinkPredictor().fit(nx.karate_club_graph(), [1, 2])
