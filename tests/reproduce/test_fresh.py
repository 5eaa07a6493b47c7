"""Graphs are scored again with permuted nodes and other walks."""

from __future__ import annotations

import numpy as np
import pytest

from gpm import GpmError, Run, train
from gpm.reproduce import fresh
from gpm.reproduce.fresh import UNSEEN, score_fresh
from tests.small_runs import run_of
from tests.whole.test_graph_task import SMALL, rings_and_trees

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    made = train(rings_and_trees(), out=tmp_path_factory.mktemp("fresh") / "run", quiet=True, **SMALL | {"epochs": 1})
    assert isinstance(made, Run)
    return made


def test_every_copy_is_scored(run: Run) -> None:
    count, scores = 3 * len(run.split.test), score_fresh(run, copies=3)
    assert (scores["accuracy"] * count) % 1 == pytest.approx(0, abs=1e-6)
    assert scores["loss"] == pytest.approx(run.evaluate("test")["loss"], rel=0.3)


def test_order_and_walks_are_under_another_seed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    copy_graphs = fresh.copy_graphs

    def keep(graph: object, ids: np.ndarray, seed: int) -> object:
        seeds.append(seed)
        assert np.array_equal(ids, run.split.test)
        return copy_graphs(graph, ids, 0)  # type: ignore[arg-type]

    monkeypatch.setattr(fresh, "copy_graphs", keep)
    losses = []
    for unseen in (0, 0, UNSEEN):  # in the same order: only walks can differ
        monkeypatch.setattr(fresh, "UNSEEN", unseen)
        losses.append(score_fresh(run)["loss"])
    assert seeds == [run.config.seed, run.config.seed, run.config.seed + UNSEEN]
    assert losses[0] == losses[1] != losses[2]


def test_nodes_cannot_be_copied() -> None:
    with pytest.raises(GpmError, match="only graphs can be copied with permuted nodes"):
        score_fresh(run_of("classes"))
