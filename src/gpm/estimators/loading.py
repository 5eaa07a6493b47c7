"""From a run folder back to the estimator that it is of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.config import SIZES, Config
from gpm.estimators.graphs import GraphClassifier, GraphRegressor
from gpm.estimators.links import LinkPredictor
from gpm.estimators.nodes import NodeClassifier, NodeRegressor
from gpm.estimators.parameters import defaults
from gpm.estimators.persistence import recall
from gpm.run.run import Run

AnyEstimator = NodeClassifier | NodeRegressor | LinkPredictor | GraphClassifier | GraphRegressor


def load(path: str | Path, data: Any = None, *, device: str = "auto", progress: bool = False) -> AnyEstimator:
    """Load the estimator of a run folder, written by `save`, `gpm.train` or `gpm train`.

    Args:
        path: The run folder.
        data: What it was trained on, if that was a graph in memory of `gpm.train`, for what asks about it.
        device: auto, cpu, cuda, cuda:1 or mps.
        progress: Show a progress bar.
    """
    run = Run.open(path, data, device=device)
    values = run.facts.get("kind") == "values"
    kinds: dict[str, type[Any]] = {
        "node": NodeRegressor if values else NodeClassifier,
        "graph": GraphRegressor if values else GraphClassifier,
        "link": LinkPredictor,
    }
    estimator: AnyEstimator = kinds[run.facts["task"]](device=device, progress=progress, **_params(run.config))
    estimator._adopt(run, recall(run))
    return estimator


def _params(config: Config) -> dict[str, Any]:
    """The parameters that a run was trained with; what its size stands for is not said twice."""
    found = {name: value for name, value in config.to_dict().items() if name in defaults()}
    usual = dict(zip(("layers", "heads", "width"), SIZES[config.size], strict=True))
    found |= {name: None for name, value in usual.items() if found[name] == value}
    return found | {"random_state": config.seed}
