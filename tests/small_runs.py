"""Small runs of every kind, trained once for all tests that predict with them."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from gpm import Graph, Run, train
from tests.conftest import _alone

NODES, GRAPHS = 160, 60
SMALL: dict[str, Any] = {
    "preset": "plain",
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 64, "epochs": 2, "warmup": 2,
    "split": "50/30/20",
}  # fmt: skip
_ROOT = tempfile.TemporaryDirectory(prefix="gpm-runs-")


def make_graph(y: Any = None, nodes: int = NODES, **given: Any) -> Graph:
    """A random graph with three features; the first of them is what labels are about."""
    random = np.random.default_rng(0)
    options: dict[str, Any] = {"x": random.normal(size=(nodes, 3)), "y": y, "names": [f"n{i}" for i in range(nodes)]}
    return Graph.from_edges(random.integers(0, nodes, (2, 3 * nodes)), nodes, undirected=True, **options | given)


def features(nodes: int = NODES) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(nodes, 3))


def _collection() -> Graph:
    """Rings of three to nine nodes, and as a value their size."""
    sizes = np.random.default_rng(0).integers(3, 10, GRAPHS)
    pointer = np.concatenate([[0], np.cumsum(sizes)])
    edges = [[a + i, a + (i + 1) % n] for a, n in zip(pointer, sizes, strict=False) for i in range(n)]
    return Graph.from_edges(np.array(edges).T, int(pointer[-1]), undirected=True, graph_ptr=pointer, y=sizes / 2)


def _make(kind: str) -> tuple[Graph, dict[str, Any]]:
    x, noise = features(), np.random.default_rng(1).normal(size=NODES)
    if kind in ("classes", "gcn", "sum"):
        more = {"classes": {}, "gcn": {"model": "gcn"}, "sum": {"readout": "class"}}[kind]
        return make_graph(10 * ((x[:, 0] > 0).astype(int) + (x[:, 1] > 0))), more
    if kind == "labels":
        labels = (x[:, :2] > 0).astype(np.float32)
        labels[::7, 1] = np.nan
        return make_graph(labels), {"metric": "roc_auc"}
    if kind in ("values", "gcn values"):
        values = 100 + 20 * x[:, 0] + noise
        values[::9] = np.nan
        return make_graph(values), {"model": "gcn"} if kind == "gcn values" else {}
    if kind == "two values":
        return make_graph(np.stack([100 + 20 * x[:, 0], noise], 1)), {"metric": "rmse"}
    if kind in ("links", "product"):
        return make_graph(), {"task": "link", "pair": "product" if kind == "product" else "joint"}
    assert kind == "graphs"
    return _collection(), {}


@functools.cache
def folder_of(kind: str) -> Path:
    """The folder of a run; its graph is saved beside it."""
    graph, options = _make(kind)
    root = Path(_ROOT.name) / kind
    graph.save(root / "graph")
    with _alone():
        train(str(root / "graph"), out=root / "run", quiet=True, device="cpu", **SMALL | options)
    return root / "run"


@functools.cache
def run_of(kind: str) -> Run:
    """A run, opened once."""
    return Run.open(folder_of(kind), device="cpu")
