"""The model: semantic and anonymous path encoders, and the transformer over patterns."""

from gpm.nn.feature_table import FeatureTable, InputSpec
from gpm.nn.link_model import LinkPatternMachine
from gpm.nn.model import GraphPatternMachine, Output

__all__ = ["FeatureTable", "GraphPatternMachine", "InputSpec", "LinkPatternMachine", "Output"]
