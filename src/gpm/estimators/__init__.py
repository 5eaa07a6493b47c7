"""Estimators in the manner of scikit-learn, for graphs in any form: `fit`, `predict`, `score`, `explain`, `save`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpm.config import SIZES
from gpm.estimators.base import NotFittedError
from gpm.estimators.links import LinkPredictor
from gpm.estimators.parameters import defaults
from gpm.estimators.persistence import recall
from gpm.estimators.predictive import GraphClassifier, GraphRegressor, NodeClassifier, NodeRegressor
from gpm.io.atomic import read_json
from gpm.io.run_files import RECIPE
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
    config, values = run.config, run.predicts_values
    kinds: dict[str, type[Any]] = {
        "node": NodeRegressor if values else NodeClassifier,
        "graph": GraphRegressor if values else GraphClassifier,
        "link": LinkPredictor,
    }
    params = {name: value for name, value in config.to_dict().items() if name in defaults()}
    given = read_json(run.folder / RECIPE).get("given") if (run.folder / RECIPE).is_file() else None
    if isinstance(given, list):  # the others were chosen from the data
        params = {name: value for name, value in params.items() if name in given}
    implied = dict(zip(("layers", "heads", "width"), SIZES[config.size], strict=True))
    params |= {name: None for name, value in implied.items() if params.get(name) == value}
    own = {"device": device, "progress": progress, "random_state": config.seed}
    estimator: AnyEstimator = kinds[run.metadata["task"]](**params | own)
    return estimator._adopt(run, recall(run))
