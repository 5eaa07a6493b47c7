"""A small graph to tune on, and a small space to tune in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpm import Graph
from gpm.cli.tune import tune

NODES = 60
SMALL: dict[str, Any] = {
    "preset": "plain",
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 32, "epochs": 3, "warmup": 2,
    "dropout": 0.1, "device": "cpu",
}  # fmt: skip
SPACE = "lr: {low: 0.001, high: 0.05, log: true}\ndecay: [0.0, 0.1]\nreadout: [mean, class]\n"


def make_graph() -> Graph:
    """Three groups of nodes: most edges lie inside a group, which is the class, and which features give away."""
    rng = np.random.default_rng(0)
    group = np.arange(NODES) % 3
    one, two = np.triu_indices(NODES, 1)
    kept = rng.random(len(one)) < np.where(group[one] == group[two], 0.3, 0.03)
    x = np.eye(3)[group] + rng.normal(0, 0.4, (NODES, 3))
    return Graph.from_edges(np.stack([one[kept], two[kept]]), NODES, undirected=True, x=x, y=group)


def save_graph(folder: Path, graph: Graph | None = None) -> str:
    """The graph in a folder, as `tune` takes it."""
    return str((graph or make_graph()).save(folder))


def run_tune(folder: Path, out: str = "tuned", source: str = "", space: str = SPACE, **options: Any) -> Path:
    """Tune in a small space; what is not there yet is made."""
    path = folder / "space.yaml"
    path.write_text(space)
    if not source:
        source = str(folder / "data") if (folder / "data").exists() else save_graph(folder / "data")
    return tune(source, out=folder / out, space=path, quiet=True, **SMALL | {"trials": 3, "startup": 2} | options)
