"""Options chosen from the data, where the user gave none.

The rules were chosen by validation on several graphs of the board (`benchmarks/board.py`), never for one of them. They
depend on what the data has: the task, the kind of features, the number of training instances.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from gpm.config import Config
from gpm.data.splits import Split
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.nn.expected_table import spread_answers
from gpm.nn.positional.encodings import MOST_WORK, count_work
from gpm.nn.star_features import as_categories
from gpm.nn.step_columns import ON_DISK, PROJECTED
from gpm.patterns.known_labels import label_agreement
from gpm.tasks.task import is_regression, known_answers, make_task
from gpm.training.prepare import draw_split, settle_options

STEPS = {"fast": 500, "auto": 1500, "best": 5000}  # of a training at most, unless few passes take more
WAIT = {"fast": 120, "auto": 300, "best": 900}  # steps without improvement after which a training stops
GRAPH_WAIT = {"fast": 80, "auto": 200, "best": 900}  # on collections of graphs, which begin at a good linear model
PASSES = {"fast": 5, "auto": 15, "best": 40}  # over the training split, at most or more
LINK_STEPS = 100  # of an epoch on links at most: a step takes about 0.15 seconds
LINK_TRAINING = {"fast": 200, "auto": 800, "best": 4000}  # steps on links at most
LINK_WAIT = {"fast": 60, "auto": 150, "best": 600}
FEW = 1000  # training instances up to which a linear part helps whatever the features
FEW_HELD = 400  # validation instances below which their accuracy is too noisy to choose an epoch by
AGREEMENT = 0.15  # of the labels of neighbours from which few known ones are inputs
LARGE = 20_000_000  # edges of a graph whose structure and position would take long
_log = logging.getLogger("gpm")


def choose_options(config: Config, data: TaskData, given: Mapping[str, Any]) -> Config:
    """Return the options with those that are not given chosen from the data; preset plain leaves them as they are."""
    published = data.level == "link" and config.protocol == "paper"
    if config.preset in ("plain", "paper") or config.model != "gpm" or published:
        return config
    split = draw_split(data, settle_options(config, data))
    count = len(split.train)
    if data.level == "link":
        chosen = _choose_for_links(config, data, count)
    else:
        chosen = _choose_for_graphs(config, data) if data.level == "graph" else _choose_for_nodes(config, data, split)
        chosen |= _choose_training(config.preset, data.level, count)
    kept = {name for name, value in given.items() if value not in ("auto", None)}
    if given.get("linear") in (False, "none"):  # which alone reads them
        chosen.pop("neighbourhoods", None)
    changes = {name: value for name, value in chosen.items() if name not in kept}
    shown = ", ".join(f"{name} {value}" for name, value in sorted(changes.items()))
    _log.info("options chosen from the data: %s; --preset plain takes fixed ones", shown)
    return config.with_(**changes)


def _choose_for_nodes(config: Config, data: TaskData, split: Split) -> dict[str, Any]:
    """Choose what a model of nodes reads: expected patterns, labels, structure, position, a linear part."""
    small, x, count = data.graph.num_edges < LARGE, data.graph.x, len(split.train)
    # On many rows of wide features a network that starts from the linear part overfits; mixed afterwards, the two gain.
    # With a target graph, labels of the target might choose.
    narrow = x is None or x.shape[1] <= PROJECTED or count <= FEW
    linear = "none" if data.has_domains else "base" if narrow else "blend"
    labels = "on" if _reads_labels(config, data, split) else "off"
    noisy = len(split.val) < FEW_HELD and settle_options(config, data).metric == "accuracy"
    return {
        "expected": 3 if small else 2, "labels": labels, "structure": small, "select": "loss" if noisy else "metric",
        "position": 16 if small else 0, "linear": linear, "dropout": 0.5, "feature_dropout": 0.5, "decay": 0.05,
    }  # fmt: skip


def _reads_labels(config: Config, data: TaskData, split: Split) -> bool:
    """Return whether known labels are inputs: those of few nodes only where neighbours agree, or they are noise."""
    if data.has_domains or len(split.train) > FEW:
        return not data.has_domains
    answers = known_answers(make_task(data, split, settle_options(config, data)), split)
    assert answers is not None
    values, known = spread_answers(answers, data.graph.num_nodes)
    return label_agreement(data.graph, values, known) > AGREEMENT


def _choose_for_graphs(config: Config, data: TaskData) -> dict[str, Any]:
    """Choose for collections: small graphs are read by convolutions along paths, and their sizes count."""
    x = data.graph.x
    kind = "none" if x is None else "categories" if _are_categories(x) else "numbers"
    small = data.graph.num_edges < LARGE
    chosen: dict[str, Any] = {
        "readout": "sum", "dropout": 0.3, "decay": 0.1, "pe": "rwse",
        "pe_dim": 8, "expected": 2, "structure": small, "linear": "base", "descriptors": _has_descriptors(data),
    }  # fmt: skip
    if kind == "categories":
        quick = count_work(data.graph, 8) < MOST_WORK
        chosen |= {"path": "conv", "pe": "rings" if quick else "rwse", "neighbourhoods": 3}
    elif kind == "none":
        chosen |= {"features": "degree", "readout": "mean", "dropout": 0.5}
    if is_regression(data.labels, settle_options(config, data).metric):  # noise on its inputs blurs a number
        chosen |= {"dropout": 0.1}
    return chosen


def _choose_for_links(config: Config, data: TaskData, count: int) -> dict[str, Any]:
    """Choose for links: expected patterns and structure of a pair, few walks, and steps for so many training edges."""
    batch = min(256, max(16, 2 ** int(math.log2(max(count // 8, 1)))))
    passes = math.ceil(count / batch)
    steps = min(max(20, passes), LINK_STEPS)  # of an epoch
    chosen: dict[str, Any] = {
        "patterns": max(8, len(config.lengths)), "dropout": 0.5, "feature_dropout": 0.5, "decay": 0.05, "lr": 2e-3,
        "schedule": "constant", "warmup": 50, "batch": batch, "epoch_steps": 0 if steps == passes else steps,
        "epochs": math.ceil(LINK_TRAINING[config.preset] / steps), "average": max(1, round(60 / steps)),
        "patience": max(4, math.ceil(LINK_WAIT[config.preset] / steps)),
    }  # fmt: skip
    if config.pair == "product":
        return chosen
    if data.graph.x is None:  # the structure of a pair has its degrees, without its own edge
        walks = {"features": "constant", "patterns": max(4, len(config.lengths))}
        chosen |= walks | {"dropout": 0.1, "decay": 0.01, "lr": 1e-2}
    return chosen | {"expected": _count_link_steps(data), "structure": True}


def _count_link_steps(data: TaskData) -> int:
    """Return the steps of the walk means of links: none without features, or where they would not fit into memory."""
    if data.graph.x is None:
        return 0
    steps = 3 if data.graph.num_edges < LARGE else 2
    entries = float(data.graph.num_nodes) * min(data.graph.x.shape[1], PROJECTED) * (steps + 1)
    return steps if entries <= ON_DISK else 0


def _has_descriptors(data: TaskData) -> bool:
    """Return whether the graphs are molecules with SMILES, and RDKit can read them."""
    return getattr(data, "smiles", None) is not None and find_spec("rdkit") is not None


def _are_categories(x: Any) -> bool:
    try:
        return bool(np.size(as_categories(x)))
    except GpmError:
        return False


def _choose_training(preset: str, level: str, count: int) -> dict[str, Any]:
    """Choose batch, epochs and patience for so many training instances: small splits get small batches."""
    most, wait = (64, GRAPH_WAIT) if level == "graph" else (256, WAIT)
    batch = min(most, max(16, 2 ** int(math.log2(max(count // 4, 1)))))
    passes = math.ceil(count / batch)
    steps = max(20, passes)
    epochs = max(math.ceil(STEPS[preset] / steps), PASSES[preset])
    return {
        "batch": batch, "epoch_steps": 0 if steps == passes else steps, "epochs": epochs,
        "patience": max(4, math.ceil(wait[preset] / steps)), "lr": 2e-3, "schedule": "constant", "warmup": 50,
        "average": max(1, round(60 / steps)),
    }  # fmt: skip
