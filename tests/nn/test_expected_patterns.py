from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from gpm import Config
from gpm.nn.expected_table import Answers
from gpm.nn.predictor import Predictor
from tests.nn.test_expected_table import NODES, answers_of, make_graph
from tests.nn.test_model import POINTER
from tests.nn.test_model import make_graph as make_any
from tests.reference_model import ReferenceModel

OPTIONS = {
    "expected": 2, "labels": "on", "structure": True, "position": 4, "linear": "base", "width": 8, "heads": 2,
    "lengths": [0, 1, 2], "patterns": 6, "pool": 12,
}  # fmt: skip


def build(**options: object) -> Predictor:
    torch.manual_seed(0)
    predictor = Predictor.build(Config(**OPTIONS | options), make_graph(), 3, answers=answers_of(range(0, NODES, 2)))
    with torch.no_grad():
        for parameter in predictor.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    predictor.model.eval()
    return predictor


def test_columns_have_mean_0_and_spread_1_over_the_training_split() -> None:
    predictor = build()
    assert predictor.expected is not None
    model = predictor.model.expected
    assert model is not None
    values = model.standardise(predictor.expected.take(np.arange(0, NODES, 2)))
    varied = model.scale > 0
    np.testing.assert_allclose(values[:, varied].mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(values[:, varied].std(0, correction=0), 1, atol=1e-3)
    assert not values[:, ~varied].any()


def test_what_is_unknown_is_0_and_what_is_far_is_cut_off() -> None:
    model = build().model.expected
    assert model is not None
    columns = len(model.shift)
    assert not model.standardise(torch.full((1, columns), torch.nan)).any()
    assert float(model.standardise(torch.full((1, columns), 1e9)).max()) == 8.0


def test_a_token_of_weight_0_is_gone_with_its_columns() -> None:
    """Whatever its columns hold."""
    predictor = build()
    model = predictor.model
    assert model.expected is not None
    patterns = predictor.tokenize(np.array([3, 4]), 6)
    encoded = model.encode(patterns, predictor.table)
    walks, tokens = 6, len(model.expected)
    assert encoded.shape[1] == walks + tokens
    sizes = np.cumsum([0, *model.expected.sizes])
    for token in range(tokens):
        weight = torch.ones(2, walks + tokens)
        weight[:, walks + token] = 0
        said = model.read(encoded, patterns.frame, weight).logits
        assert patterns.expected is not None
        moved = patterns.expected.clone()
        moved[:, sizes[token] : sizes[token + 1]] += 3.0
        other = replace(patterns, expected=moved)
        again = model.read(model.encode(other, predictor.table), other.frame, weight).logits
        torch.testing.assert_close(said, again, rtol=1e-5, atol=1e-5)
        assert not torch.allclose(said, model.read(encoded, patterns.frame).logits, atol=1e-4)


def test_equal_weights_are_the_prediction_for_any_number_of_walks() -> None:
    predictor = build()
    for count in (6, 12):
        patterns = predictor.tokenize(np.array([3]), count)
        encoded = predictor.model.encode(patterns, predictor.table)
        plain = predictor.model.read(encoded, patterns.frame).logits
        weighed = predictor.model.read(encoded, patterns.frame, torch.ones(1, encoded.shape[1])).logits
        torch.testing.assert_close(plain, weighed)


def test_walks_together_weigh_as_in_training() -> None:
    """Each of 6 walks twice is the same set of patterns as each once."""
    predictor = build()
    patterns = predictor.tokenize(np.array([3]), 6)
    encoded = predictor.model.encode(patterns, predictor.table)
    twice = torch.cat([encoded[:, :6], encoded[:, :6], encoded[:, 6:]], 1)
    one, two = (predictor.model.read(each, patterns.frame).logits for each in (encoded, twice))
    torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-5)


def test_training_begins_at_the_linear_model() -> None:
    torch.manual_seed(0)
    predictor = Predictor.build(Config(**OPTIONS), make_graph(), 3, answers=answers_of(range(0, NODES, 2)))
    model = predictor.model.expected
    assert model is not None
    assert predictor.expected is not None
    said = predictor.logits(np.arange(NODES))
    wanted = model.standardise(predictor.expected.take(np.arange(NODES))) @ model.weight + model.intercept
    torch.testing.assert_close(said, wanted, rtol=1e-4, atol=1e-5)


def test_a_blend_lies_between_the_network_and_its_linear_part() -> None:
    """Share 0 is the model without a linear part, bit for bit; share 1 is the linear part alone."""
    nodes = np.arange(NODES)
    alone, mixed = build(linear="none"), build(linear="blend")
    assert (alone.linear_share, alone.linear_logits(nodes)) == (None, None)
    assert mixed.linear_share == 0
    network, linear = alone.logits(nodes), mixed.linear_logits(nodes)
    assert linear is not None
    assert not torch.allclose(network, linear, atol=0.1)
    assert torch.equal(mixed.logits(nodes), network)
    for share in (0.3, 1.0):
        mixed.set_linear_share(share)
        assert mixed.linear_share == share
        torch.testing.assert_close(mixed.logits(nodes), torch.lerp(network, linear, share), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [6, 12])
@pytest.mark.parametrize("level", ["node", "graph"])
@pytest.mark.parametrize(
    "options",
    [
        {"readout": "mean", "layers": 2},
        {"readout": "class", "fusion": True, "path_position": "learned"},
        {"readout": "class", "linear": "none"},
        {"readout": "class", "linear": "blend"},
        {"readout": "mean", "fusion": True},
        {"readout": "sum", "path": "conv"},
    ],
)
def test_the_model_equals_the_plain_one_in_outputs_and_gradients(level: str, count: int, options: Any) -> None:
    """With known labels on the walks, hidden where a node meets itself, and with tokens beside the walks."""
    graph = make_any("categories", "categories", pointer=POINTER if level == "graph" else None)
    known = np.arange(3) if level == "graph" else np.arange(0, graph.num_nodes, 2)
    answers = Answers("classes", known, np.eye(3)[known % 3], known[:1], np.eye(3)[known[:1] % 3])
    torch.manual_seed(0)
    chosen = Config(**OPTIONS | {"dropout": 0.0, "feature_dropout": 0.0} | options)
    predictor = Predictor.build(chosen, graph, 3, level, answers=answers)
    with torch.no_grad():
        for parameter in predictor.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model = predictor.model.eval()
    predictor.set_linear_share(0.3)
    patterns = predictor.tokenize(np.array([0, 2, 3]), count)
    if level == "node":
        assert (patterns.nodes[:, :, 1:] == patterns.own[:, None, None]).any()  # type: ignore[index]
    found = model(patterns, predictor.table)
    wanted = ReferenceModel(model, graph)(patterns, predictor.table)
    torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.embedding, wanted.embedding, rtol=1e-4, atol=1e-5)
    assert (found.weights is None) == (wanted.weights is None)
    if found.weights is not None:
        torch.testing.assert_close(found.weights, wanted.weights, rtol=1e-4, atol=1e-5)
    slopes = []
    for output in (found, wanted):
        model.zero_grad()
        (output.logits * torch.tensor([1.0, -2.0, 0.5])).square().sum().backward()
        slopes.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert slopes[0].keys() == slopes[1].keys()
    for name, slope in slopes[0].items():
        scale = float(slopes[1][name].abs().max()) + 1e-6
        torch.testing.assert_close(slope / scale, slopes[1][name] / scale, rtol=1e-3, atol=1e-4, msg=name)
