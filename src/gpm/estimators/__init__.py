"""Estimators in the manner of scikit-learn, for graphs in any form: `fit`, `predict`, `score`, `explain`, `save`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.config import SIZES, Config
from gpm.estimators.base import NotFittedError
from gpm.estimators.links import LinkPredictor
from gpm.estimators.parameters import defaults
from gpm.estimators.persistence import recall
from gpm.estimators.predictive import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor
from gpm.run.run import Run

__all__ = [
    "GraphClassifier",
    "GraphRegressor",
    "LinkPredictor",
    "NodeClassifier",
    "NodeRegressor",
    "NotFittedError",
    "load",
]
AnyEstimator = NodeClassifier | NodeRegressor | LinkPredictor | GraphClassifier | GraphRegressor


def load(path: str | Path, data: Any = None, *, device: str = "auto", progress: bool = False) -> AnyEstimator:
    """Load the estimator of a run folder, written by `save`, `gpm.train` or `gpm train`.

    Args:
        path: The run folder.
        data: The training data, if it was a graph in memory of `gpm.train`; needed only by methods that read it.
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
    """Return the parameters of a run; layers, heads and width are left out if its size implies them."""
    params = {name: value for name, value in config.to_dict().items() if name in defaults()}
    usual = dict(zip(("layers", "heads", "width"), SIZES[config.size], strict=True))
    params |= {name: None for name, value in usual.items() if params[name] == value}
    return params | {"random_state": config.seed}
