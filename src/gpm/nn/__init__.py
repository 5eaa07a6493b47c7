"""The model: semantic and anonymous path encoders, and the transformer over patterns. Names are imported on use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpm.nn.feature_table import FeatureTable, InputSpec
    from gpm.nn.link_model import LinkPatternMachine
    from gpm.nn.model import GraphPatternMachine, Output

__all__ = ["FeatureTable", "GraphPatternMachine", "InputSpec", "LinkPatternMachine", "Output"]
_MODULES = dict(zip(__all__, ("feature_table", "model", "feature_table", "link_model", "model"), strict=True))


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
