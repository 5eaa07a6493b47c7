"""The model: semantic and anonymous path encoders, and the transformer over patterns."""

from gpm.nn.features import FeatureTable, InputSpec
from gpm.nn.link import LinkPatternMachine
from gpm.nn.model import GraphPatternMachine, Output

__all__ = ["FeatureTable", "GraphPatternMachine", "InputSpec", "LinkPatternMachine", "Output"]
