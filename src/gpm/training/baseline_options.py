"""Options of a message-passing baseline that the user leaves open: those of recipes and `Config` are for GPM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpm.config import Config, option_range
from gpm.data.task_data import TaskData

# One configuration for all graphs, chosen by validation on seven of them; see docs/baselines.md.
NODES: dict[str, Any] = {
    "gnn_norm": "none", "gnn_residual": "linear", "gnn_jump": "none", "layers": 1, "width": 64, "dropout": 0.5,
    "feature_dropout": 0.5, "epochs": 100, "epoch_steps": 5, "patience": 20, "accumulate": 1, "lr": 5e-3,
    "schedule": "cosine", "warmup": 100, "decay": 0.1, "smoothing": 0.05, "clip": 1.0, "average": 0, "select": "metric",
    "labels": "off",
}  # fmt: skip

# One configuration for links, chosen likewise; see docs/baselines.md.
LINKS: dict[str, Any] = {
    "gnn_norm": "none", "gnn_residual": "identity", "gnn_jump": "none", "layers": 1, "width": 128, "dropout": 0.3,
    "feature_dropout": 0.3, "epochs": 50, "epoch_steps": 10, "patience": 12, "accumulate": 1, "lr": 5e-3,
    "schedule": "cosine", "warmup": 50, "decay": 0.01, "smoothing": 0.05, "clip": 1.0, "average": 0, "select": "metric",
}  # fmt: skip
SHARE, MOST_LINKS = 0.1, 8192  # of the edges that a step on links learns from, and hides from the messages


def fill_baseline(config: Config, given: Mapping[str, Any], data: TaskData) -> Config:
    """Return the options of a baseline for nodes or links: those that the user has given, and for the others its own.

    A step passes over the whole graph however few nodes it learns from, so it learns from all of them. An epoch is then
    a few steps, so that validation, one more pass, costs little. On links it learns from a tenth of the edges, since
    those that it learns from are hidden from it. What is filled in is written to the run folder: an
    option that is missing there, as in folders of earlier versions, means what was done before it existed.
    """
    if config.model == "gpm" or data.level == "graph":
        return config
    kept = {name for name, value in given.items() if value not in ("auto", None)}
    kept |= {"layers", "width"} if "size" in kept else set()
    kept |= {"epoch_steps"} if "batch" in kept else set()
    if data.level == "link":
        own = LINKS | {"batch": min(MOST_LINKS, max(32, round(SHARE * data.graph.num_edges / 2)))}
    else:
        _, most = option_range("batch") or (1, data.graph.num_nodes)
        own = NODES | {"batch": int(min(data.graph.num_nodes, most))}
    return config.with_(**{name: value for name, value in own.items() if name not in kept})
