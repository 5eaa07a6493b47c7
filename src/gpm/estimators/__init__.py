"""Estimators in scikit-learn's manner, for graphs as users have them: `fit`, `predict`, `score`, `explain`, `save`."""

from gpm.estimators.base import NotFittedError
from gpm.estimators.graphs import GraphClassifier, GraphRegressor
from gpm.estimators.links import LinkPredictor
from gpm.estimators.loading import load
from gpm.estimators.nodes import NodeClassifier, NodeRegressor

__all__ = [
    "GraphClassifier",
    "GraphRegressor",
    "LinkPredictor",
    "NodeClassifier",
    "NodeRegressor",
    "NotFittedError",
    "load",
]
