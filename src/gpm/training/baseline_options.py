"""Options of a message-passing baseline that the user leaves open: those of recipes and `Config` are for GPM."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gpm.config import Config, ModelOptions, PatternOptions, declared, default_of, option_range
from gpm.data.task_data import TaskData
from gpm.training.prepare import draw_split, settle_options
from gpm.training.recipes import Recipe

# One configuration for all graphs, chosen by validation on seven of them; see docs/baselines.md.
NODES: dict[str, Any] = {
    "gnn_norm": "none", "gnn_residual": "linear", "gnn_jump": "none", "layers": 1, "width": 64, "dropout": 0.5,
    "feature_dropout": 0.5, "epochs": 100, "epoch_steps": 5, "patience": 20, "accumulate": 1, "lr": 5e-3,
    "schedule": "cosine", "warmup": 100, "decay": 0.1, "smoothing": 0.05, "clip": 1.0, "average": 0, "select": "metric",
    "labels": "off",
}  # fmt: skip

# One configuration for links, not searched; see docs/baselines.md.
LINKS: dict[str, Any] = {
    "gnn_norm": "none", "gnn_residual": "identity", "gnn_jump": "none", "layers": 1, "width": 128, "dropout": 0.3,
    "feature_dropout": 0.3, "epochs": 50, "epoch_steps": 10, "patience": 12, "accumulate": 1, "lr": 5e-3,
    "schedule": "cosine", "warmup": 50, "decay": 0.01, "smoothing": 0.05, "clip": 1.0, "average": 0, "select": "metric",
}  # fmt: skip
SHARE, MOST_LINKS = 0.1, 8192  # of the edges that a step on links learns from, and hides from the messages

# One configuration for collections of graphs, tried with gin; see docs/baselines.md.
GRAPHS: dict[str, Any] = {
    "gnn_norm": "auto", "gnn_residual": "none", "gnn_jump": "cat", "layers": 4, "width": 64, "dropout": 0.1,
    "feature_dropout": 0.0, "accumulate": 1, "lr": 2e-3, "schedule": "constant", "warmup": 50, "decay": 0.05,
    "smoothing": 0.05, "clip": 1.0, "average": 3, "select": "metric",
}  # fmt: skip
STEPS, WAIT, PASSES = 3000, 600, 60  # at most so many steps, or passes; steps without improvement


def baseline_config(config: Config, recipe: Recipe, model: Any, data: TaskData) -> Config:
    """Return the options of a baseline beside a run: without a recipe, those that `--model` would have alone.

    Options that were chosen from the data are for the pattern machine.
    """
    names = recipe.changed if recipe.given is None else recipe.given
    given = {name: getattr(config, name) for name in names if name != "descriptors"}  # networks do not read them
    if recipe.given is not None:
        usual = {**declared(ModelOptions), **declared(PatternOptions)}
        config = config.with_(**{name: default_of(entry) for name, (entry, _) in usual.items()} | given)
    elif recipe.auto:
        usual_config, left_open = Config(), recipe.left_open(data.level) - set(given)
        config = config.with_(**{name: getattr(usual_config, name) for name in left_open})
    return fill_baseline(config.with_(model=model, adapt="none", descriptors=False), given, data)


def fill_baseline(config: Config, given: Mapping[str, Any], data: TaskData) -> Config:
    """Return the options of a baseline: those that the user has given, for the others its own.

    What is filled in is written to the run folder: an option that is missing there, as in folders of earlier versions,
    means what was done before it existed.
    """
    if config.model == "gpm":
        return config
    kept = {name for name, value in given.items() if value not in ("auto", None)}
    kept |= {"layers", "width"} if "size" in kept else set()
    kept |= {"epoch_steps"} if "batch" in kept else set()
    if data.level == "graph":
        own = _options_for_graphs(config, data)
    else:
        own = _options_for_links(data) if data.level == "link" else _options_for_nodes(data)
    return config.with_(**{name: value for name, value in own.items() if name not in kept})


def _options_for_nodes(data: TaskData) -> dict[str, Any]:
    """Return options for full batches.

    A step passes over the whole graph however few nodes it learns from, so it learns from all of them. An epoch is then
    a few steps, so that validation, one more pass, costs little.
    """
    _, most = option_range("batch") or (1, data.graph.num_nodes)
    return NODES | {"batch": int(min(data.graph.num_nodes, most))}


def _options_for_links(data: TaskData) -> dict[str, Any]:
    """Return options for steps on a share of the edges, since those that a step learns from are hidden from it."""
    return LINKS | {"batch": min(MOST_LINKS, max(32, round(SHARE * data.graph.num_edges / 2)))}


def _options_for_graphs(config: Config, data: TaskData) -> dict[str, Any]:
    """Return options for batches of graphs, with more steps than a pattern machine takes: they are cheaper.

    Graphs without features have a category per degree, as is usual for these networks.
    """
    count = len(draw_split(data, settle_options(config, data)).train)
    batch = min(64, max(16, 2 ** int(math.log2(max(count // 4, 1)))))
    passes = math.ceil(count / batch)
    steps = max(20, passes)
    own = GRAPHS | {"batch": batch, "epoch_steps": 0 if steps == passes else steps}
    own |= {"epochs": max(math.ceil(STEPS / steps), PASSES), "patience": max(5, math.ceil(WAIT / steps))}
    return own | ({"features": "degree"} if data.graph.x is None and config.features == "auto" else {})
