"""Random walks: every step an edge, every bit a function of (seed, start node, pattern number, step).

Names are imported on use, so that `gpm.patterns.walks.rule` needs neither numba nor torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpm.patterns.walks.compiled import has_edge, walk
    from gpm.patterns.walks.portable import TensorGraph, walk_tensors
    from gpm.patterns.walks.rule import WalkRule

__all__ = ["TensorGraph", "WalkRule", "has_edge", "walk", "walk_tensors"]
_MODULES = dict(zip(__all__, ("portable", "rule", "compiled", "compiled", "portable"), strict=True))


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
