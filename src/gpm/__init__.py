"""Graph learning without message passing: the Neural Graph Pattern Machine."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from gpm.adapting import adapt, unite
    from gpm.config import Config
    from gpm.data import load_graph
    from gpm.errors import GpmError
    from gpm.estimators import GraphClassifier, GraphRegressor, LinkPredictor, NodeClassifier, NodeRegressor, load
    from gpm.explain.explanation import Explanation
    from gpm.explain.pyg import PatternExplainer, PatternModule
    from gpm.frequent import FrequentPattern, find_frequent
    from gpm.graph import Graph
    from gpm.nn import FeatureTable, GraphPatternMachine
    from gpm.patterns import Patterns, Tokenizer
    from gpm.predictions import Predictions
    from gpm.run import Run
    from gpm.shapes import name_shape, shape_key
    from gpm.shards import merge_shards
    from gpm.shift.report import report_shift
    from gpm.shift.shift import Shift
    from gpm.topology import Topologies, find_topologies
    from gpm.training import train
    from gpm.walks import TensorGraph, WalkRule, has_edge, walk, walk_tensors

_HOMES = {
    "Config": "gpm.config",
    "Explanation": "gpm.explain.explanation",
    "FeatureTable": "gpm.nn",
    "GraphPatternMachine": "gpm.nn",
    "GraphClassifier": "gpm.estimators",
    "GraphRegressor": "gpm.estimators",
    "LinkPredictor": "gpm.estimators",
    "NodeClassifier": "gpm.estimators",
    "NodeRegressor": "gpm.estimators",
    "Predictions": "gpm.predictions",
    "Run": "gpm.run",
    "Shift": "gpm.shift.shift",
    "train": "gpm.training",
    "Graph": "gpm.graph",
    "GpmError": "gpm.errors",
    "FrequentPattern": "gpm.frequent",
    "PatternExplainer": "gpm.explain.pyg",
    "PatternModule": "gpm.explain.pyg",
    "Patterns": "gpm.patterns",
    "TensorGraph": "gpm.walks",
    "Tokenizer": "gpm.patterns",
    "Topologies": "gpm.topology",
    "WalkRule": "gpm.walks",
    "find_frequent": "gpm.frequent",
    "find_topologies": "gpm.topology",
    "has_edge": "gpm.walks",
    "load": "gpm.estimators",
    "load_graph": "gpm.data",
    "merge_shards": "gpm.shards",
    "name_shape": "gpm.shapes",
    "report_shift": "gpm.shift.report",
    "shape_key": "gpm.shapes",
    "adapt": "gpm.adapting",
    "unite": "gpm.adapting",
    "walk": "gpm.walks",
    "walk_tensors": "gpm.walks",
}

__all__ = [
    "Config",
    "Explanation",
    "FeatureTable",
    "FrequentPattern",
    "GpmError",
    "Graph",
    "GraphClassifier",
    "GraphPatternMachine",
    "GraphRegressor",
    "LinkPredictor",
    "NodeClassifier",
    "NodeRegressor",
    "PatternExplainer",
    "PatternModule",
    "Patterns",
    "Predictions",
    "Run",
    "Shift",
    "TensorGraph",
    "Tokenizer",
    "Topologies",
    "WalkRule",
    "adapt",
    "find_frequent",
    "find_topologies",
    "has_edge",
    "load",
    "load_graph",
    "merge_shards",
    "name_shape",
    "report_shift",
    "shape_key",
    "train",
    "unite",
    "walk",
    "walk_tensors",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import gpm` stays fast, torch is loaded when needed."""
    if name not in _HOMES:
        raise AttributeError(f"module 'gpm' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
