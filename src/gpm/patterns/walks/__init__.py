"""Random walks: every step an edge, every bit a function of (seed, start node, pattern number, step)."""

from gpm.patterns.walks.compiled import has_edge, walk
from gpm.patterns.walks.portable import TensorGraph, walk_tensors
from gpm.patterns.walks.rule import WalkRule

__all__ = ["TensorGraph", "WalkRule", "has_edge", "walk", "walk_tensors"]
