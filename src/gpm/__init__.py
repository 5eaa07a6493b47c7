"""Graph learning without message passing: the Neural Graph Pattern Machine."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from gpm.config import Config
    from gpm.data.graph_files import load_graph
    from gpm.errors import GpmError
    from gpm.estimators import GraphClassifier, GraphRegressor, LinkPredictor, NodeClassifier, NodeRegressor, load
    from gpm.explain.explanation import Explanation
    from gpm.explain.pyg_explainer import PatternExplainer, PatternModule
    from gpm.graph.graph import Graph
    from gpm.inference.predictions import Predictions
    from gpm.nn import FeatureTable, GraphPatternMachine
    from gpm.patterns.frequent import FrequentPattern, find_frequent
    from gpm.patterns.shape_names import name_shape, shape_key
    from gpm.patterns.tokenizer import Patterns, Tokenizer
    from gpm.patterns.topologies import Topologies, find_topologies
    from gpm.patterns.walks import TensorGraph, WalkRule, has_edge, walk, walk_tensors
    from gpm.run.run import Run
    from gpm.run.shards import merge_shards
    from gpm.shift.result import Shift
    from gpm.shift.shift_report import report_shift
    from gpm.training.adapt import adapt, unite
    from gpm.training.start import train

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
    "Predictions": "gpm.inference.predictions",
    "Run": "gpm.run.run",
    "Shift": "gpm.shift.result",
    "train": "gpm.training.start",
    "Graph": "gpm.graph.graph",
    "GpmError": "gpm.errors",
    "FrequentPattern": "gpm.patterns.frequent",
    "PatternExplainer": "gpm.explain.pyg_explainer",
    "PatternModule": "gpm.explain.pyg_explainer",
    "Patterns": "gpm.patterns.tokenizer",
    "TensorGraph": "gpm.patterns.walks",
    "Tokenizer": "gpm.patterns.tokenizer",
    "Topologies": "gpm.patterns.topologies",
    "WalkRule": "gpm.patterns.walks",
    "find_frequent": "gpm.patterns.frequent",
    "find_topologies": "gpm.patterns.topologies",
    "has_edge": "gpm.patterns.walks",
    "load": "gpm.estimators",
    "load_graph": "gpm.data.graph_files",
    "merge_shards": "gpm.run.shards",
    "name_shape": "gpm.patterns.shape_names",
    "report_shift": "gpm.shift.shift_report",
    "shape_key": "gpm.patterns.shape_names",
    "adapt": "gpm.training.adapt",
    "unite": "gpm.training.adapt",
    "walk": "gpm.patterns.walks",
    "walk_tensors": "gpm.patterns.walks",
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
