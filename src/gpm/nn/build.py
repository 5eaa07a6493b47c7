"""Build the model that the options name: the pattern machine or a message-passing network."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

from numpy.typing import NDArray
from torch import nn

from gpm.config import Config
from gpm.graph.graph import Graph
from gpm.nn.expected_table import Answers
from gpm.nn.feature_table import InputSpec
from gpm.nn.gnn.gnn_predictor import NetworkPredictor, make_network
from gpm.nn.predictor import Predictor, Predicts, make_machine


def build_predictor(
    config: Config,
    graph: Graph,
    outputs: int,
    level: str,
    *,
    inputs: InputSpec | None = None,
    device: str = "cpu",
    seen: NDArray | None = None,
    stream: bool = False,
    answers: Answers | None = None,
    kept: Mapping[str, NDArray] = MappingProxyType({}),
    descriptors: NDArray | None = None,
) -> Predicts:
    """Build a model with fresh weights on a graph; see `Predictor.build` for the arguments."""
    if config.model == "gpm":
        return Predictor.build(
            config, graph, outputs, level, inputs=inputs, device=device, seen=seen, stream=stream, answers=answers,
            kept=kept, descriptors=descriptors,
        )  # fmt: skip
    hide = config.hide and config.protocol == "strict"
    return NetworkPredictor.build(
        config, graph, outputs, cast(Any, level), inputs=inputs, device=device, hide=hide, seen=seen, answers=answers
    )


def build_model(config: Config, inputs: InputSpec, outputs: int, level: str) -> nn.Module:
    """Build a model with fresh weights for given inputs, without a graph."""
    if config.model == "gpm":
        return make_machine(config, inputs, outputs, level)
    return make_network(config, inputs, outputs, cast(Any, level))
