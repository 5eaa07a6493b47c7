"""The proof that a link's own edge does not leak finds a leak where there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import GpmError, Graph, Run, train
from gpm.cli.datasets import check_source
from gpm.inference.link_proof import check_own_edges
from gpm.patterns.pair_structure import PairStructure

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 2], "patterns": 4, "pool": 8, "batch": 16, "epochs": 1, "task": "link",
    "split": "60/20/20", "quiet": True,
}  # fmt: skip


def _train(folder: Path, **options: Any) -> Run:
    random = np.random.default_rng(0)
    graph = Graph.from_edges(random.integers(0, 40, (2, 120)), 40, x=random.normal(size=(40, 3)), undirected=True)
    graph.save(folder / "graph")
    run = train(str(folder / "graph"), out=folder / "run", **SMALL | options)
    assert isinstance(run, Run)
    return run


def test_a_run_shows_no_own_edge_and_one_that_does_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = _train(tmp_path)
    assert check_own_edges(run) == check_source(str(run.folder))[-1:]
    assert "4 training links" in check_own_edges(run)[0]
    plain = PairStructure.take
    monkeypatch.setattr(PairStructure, "take", lambda self, pairs, hide: plain(self, pairs, hide=False))
    with pytest.raises(GpmError, match="changes with the link itself"):
        check_own_edges(run)


@pytest.mark.parametrize("options", [{"preset": "plain"}, {"protocol": "paper", "structure": True}], ids=str)
def test_nothing_is_said_where_nothing_is_hidden(options: dict[str, Any], tmp_path: Path) -> None:
    assert check_own_edges(_train(tmp_path, **options)) == []
