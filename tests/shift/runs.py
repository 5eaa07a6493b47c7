"""Small runs on two domains, trained once for all tests that report their shift."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from gpm import Graph, Run, train
from gpm.data.domain_data import DomainData
from tests.conftest import _alone

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 3], "patterns": 6, "pool": 12, "batch": 128, "epochs": 1, "warmup": 1,
    "pe": "none",
}  # fmt: skip
NODES = 600
_ROOT = tempfile.TemporaryDirectory(prefix="gpm-shift-")


def make_graph(seed: int, *, degree: int = 3, far: float = 0.0, labels: bool = True, form: str = "dense") -> Graph:
    """A random graph with six features, of which the first says the class.

    Args:
        seed: Of edges and features.
        degree: Edges per node.
        far: How much is added to the second feature.
        labels: Whether nodes have classes.
        form: Of the features: dense, sparse, category or none.
    """
    random = np.random.default_rng(seed)
    x: Any = random.normal(size=(NODES, 6))
    y = (x[:, 0] > 0).astype(np.int64)
    x[:, 1] += far
    if form == "category":
        x = (x[:, :2] > 0).astype(np.int64) + (x[:, :2] > 1)
    x = sp.csr_array(x * (x > 0)) if form == "sparse" else None if form == "none" else x
    edges = random.integers(0, NODES, (2, degree * NODES))
    return Graph.from_edges(edges, NODES, undirected=True, x=x, y=y if labels else None)


@functools.cache
def run_of(name: str = "alike") -> Run:
    """A run of a kind: what is planted in the target, or how the model reads it; alike are two halves of one graph."""
    target: dict[str, Any] = {
        "degree": {"degree": 9}, "features": {"far": 4.0}, "sparse": {"form": "sparse"},
        "category": {"form": "category"}, "none": {"form": "none"}, "unlabelled": {"labels": False},
    }.get(name, {})  # fmt: skip
    options = {"attended": {"readout": "class"}, "gcn": {"model": "gcn"}}.get(name, {})
    form = target.get("form", "dense")
    root = Path(_ROOT.name) / name
    if name == "alike":
        graph = make_graph(0)
        away = np.random.default_rng(2).random(NODES) < 0.5
        data = DomainData(graph, "one graph", away=away)
        with _alone():
            return train(data, out=root / "run", quiet=True, device="cpu", **SMALL)
    make_graph(0, form=form).save(root / "home")
    make_graph(1, **target).save(root / "away")
    with _alone():
        return train(
            str(root / "home"), target=str(root / "away"), out=root / "run", quiet=True, device="cpu", **SMALL | options
        )


@functools.cache
def plain_run() -> Run:
    """A run without a target."""
    make_graph(0).save(Path(_ROOT.name) / "plain/graph")
    with _alone():
        return train(
            str(Path(_ROOT.name) / "plain/graph"), out=Path(_ROOT.name) / "plain/run", quiet=True, device="cpu", **SMALL
        )


@functools.cache
def shift_of(name: str = "alike") -> Any:
    """The report of such a run."""
    return run_of(name).shift(nodes=NODES)
