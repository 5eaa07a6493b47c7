"""Graphs are scored again with permuted nodes and other walks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpm import GpmError, Run, train
from gpm.data.graph_data import GraphData
from gpm.reproduce import fresh
from gpm.reproduce.fresh import UNSEEN, score_fresh
from tests.small_runs import run_of
from tests.whole.test_graph_task import SMALL, rings_and_trees

pytestmark = pytest.mark.usefixtures("one_thread")


def test_copies_are_scored_by_walks_under_another_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(rings_and_trees(), out=tmp_path / "run", quiet=True, **SMALL | {"epochs": 1})
    assert isinstance(run, Run)
    assert isinstance(run.data, GraphData)
    seeds: list[int] = []
    copy_graphs = fresh.copy_graphs

    def keep(graph: object, ids: np.ndarray, seed: int) -> object:
        seeds.append(seed)
        assert np.array_equal(ids, np.repeat(run.split.test, 3))
        return copy_graphs(graph, ids, seed)  # type: ignore[arg-type]

    monkeypatch.setattr(fresh, "copy_graphs", keep)
    scores = score_fresh(run, copies=3)
    assert seeds == [run.config.seed + UNSEEN]
    assert 0 <= scores["accuracy"] <= 1
    assert (scores["accuracy"] * 3 * len(run.split.test)) % 1 == pytest.approx(0, abs=1e-6)
    assert scores["loss"] == pytest.approx(run.evaluate("test")["loss"], rel=0.3)
    assert scores["loss"] != run.evaluate("test")["loss"]


def test_nodes_cannot_be_copied() -> None:
    with pytest.raises(GpmError, match="only graphs can be copied with permuted nodes"):
        score_fresh(run_of("classes"))
