"""Trained runs that several modules share: one of every kind, each trained once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import Graph, Run
from gpm.data.synthetic import PlantedMotifs, planted_motifs
from tests.conftest import _alone
from tests.explain.runs import NODES, group_graph, ring_graphs, train_small, weighted_edges, weighted_graph

HOSTILE = (
    "../../x", "a/b", "", "con:<>", "l" * 300, "ünïcödé 名前", "<img src=x onerror=alert(1)>", "a-b", "a b",
    "new\nline", '"quoted", with comma', "=1+1", ".hidden", "a\\b", "\x1b[31mred", "$x^2$", "-1",
)  # fmt: skip
NAMES = (*HOSTILE, *(f"n{i}" for i in range(len(HOSTILE), NODES)))


def _labels() -> Graph:
    """Two yes-or-no labels, some of them unknown."""
    y = np.stack([np.arange(NODES) % 2, np.arange(NODES) % 3 == 0], 1).astype(np.float32)
    y[::7, 1] = np.nan
    return weighted_graph(y=y)


def _values() -> Graph:
    return ring_graphs(np.random.default_rng(0).normal(50, 10, (30, 2)).astype(np.float32))


def _directed() -> Graph:
    edges, _ = weighted_edges()
    x = np.random.default_rng(1).normal(size=(NODES, 3))
    return Graph.from_edges(edges, NODES, x=x, y=np.arange(NODES) % 2, self_loops="keep", duplicates="keep")


KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "nodes": (lambda: weighted_graph(names=NAMES), {"readout": "class", "topology": "shape"}),
    "mean": (weighted_graph, {"topology": "loops"}),
    "directed": (_directed, {"epochs": 1}),
    "labels": (_labels, {"metric": "roc_auc", "fusion": True}),
    "links": (group_graph, {"task": "link", "split": "70/15/15"}),
    "product": (group_graph, {"task": "link", "pair": "product", "epochs": 1, "split": "70/15/15"}),
    "graphs": (ring_graphs, {"topology": "induced", "readout": "class"}),
    "values": (_values, {"metric": "mae", "readout": "sum"}),
    "gcn": (weighted_graph, {"model": "gcn", "epochs": 1}),
}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The folder of a run, by its kind; it is trained when first asked for."""
    root, known = tmp_path_factory.mktemp("explained"), dict[str, Path]()

    def find(kind: str) -> Path:
        if kind not in known:
            make, options = KINDS[kind]
            make().save(root / f"{kind} graph")
            with _alone():
                known[kind] = train_small(str(root / f"{kind} graph"), root / kind, **options).folder
        return known[kind]

    return find


@pytest.fixture(scope="session")
def open_run(folders: Any) -> Any:
    """A run by its kind, opened once."""
    known: dict[str, Run] = {}
    return lambda kind: known.setdefault(kind, Run.open(folders(kind), device="cpu"))


@dataclass(frozen=True)
class Motifs:
    """A model that finds planted motifs, and where they are."""

    run: Run
    planted: PlantedMotifs


@pytest.fixture(scope="session")
def motifs(tmp_path_factory: pytest.TempPathFactory) -> Motifs:
    """Small, but with the options of the recipe of that name."""
    planted = planted_motifs(30, 6, 40, 2)
    with _alone():
        run = train_small(
            planted.graph, tmp_path_factory.mktemp("motifs") / "run", width=16, lengths=[4, 6, 8], patterns=16, pool=48,
            batch=64, epochs=30, warmup=15, lr=0.01, non_backtracking=True, features="constant", topology="shape",
            readout="class", anonymous_weight=1.0, dropout=0.0, preset="plain",
        )  # fmt: skip
    return Motifs(run, planted)
