"""Random walks: every step an edge, every bit a function of (seed, start node, pattern number, step)."""

from gpm.walks.compiled import has_edge, walk
from gpm.walks.portable import TensorGraph, walk_tensors
from gpm.walks.rule import WalkRule

__all__ = ["TensorGraph", "WalkRule", "has_edge", "walk", "walk_tensors"]
