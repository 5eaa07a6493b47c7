"""The model: semantic and anonymous path encoders, and the transformer over patterns."""

from gpm.nn.feature_table import FeatureTable, InputSpec
from gpm.nn.model import GraphPatternMachine, LinkPatternMachine, Output

__all__ = ["FeatureTable", "GraphPatternMachine", "InputSpec", "LinkPatternMachine", "Output"]
