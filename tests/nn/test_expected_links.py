"""Tokens of links: as written plainly, symmetric, without the own edge, and the same on any number of ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpm import Config, Graph
from gpm.data.non_edges import drop_edges
from gpm.nn.expected_links import ExpectedLinks, PairMap
from gpm.nn.model import LinkPatternMachine
from gpm.nn.predictor import Predictor, evaluating
from tests.nn.test_link_table import make_graph

pytestmark = pytest.mark.usefixtures("one_thread")
PAIRS = np.array([[0, 1], [5, 9], [9, 5], [3, 3], [28, 2], [28, 29]])  # the last nodes are isolated


def build(graph: Graph | None = None, **options: Any) -> Predictor:
    torch.manual_seed(0)
    walks = {"lengths": [1, 3], "patterns": 4, "pool": 8}
    chosen = {"task": "link", "expected": 2, "structure": True, "width": 16} | walks
    predictor = Predictor.build(Config(**chosen | options), graph or make_graph(), 1, "link")
    with torch.no_grad():
        for parameter in predictor.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return predictor


def tokens_of(predictor: Predictor, pairs: np.ndarray) -> Tensor:
    assert predictor.expected is not None
    expected = predictor.model.expected
    assert isinstance(expected, ExpectedLinks)
    with evaluating(predictor.model), torch.no_grad():
        return expected(expected.standardise(predictor.expected.take(pairs)))


def test_a_token_joins_the_product_and_the_sum_of_its_ends() -> None:
    predictor = build()
    expected = predictor.model.expected
    assert isinstance(expected, ExpectedLinks)
    values = expected.standardise(predictor.expected.take(PAIRS))  # type: ignore[union-attr]
    found = tokens_of(predictor, PAIRS)
    for step in range(3):
        pair_map = expected.maps[step]
        assert isinstance(pair_map, PairMap)
        for row in range(len(PAIRS)):
            one, two = (values[row, 8 * step + 4 * end : 8 * step + 4 * end + 4] for end in (0, 1))
            a, b = (pair_map.end.weight @ columns + pair_map.end.bias for columns in (one, two))
            wanted = pair_map.join.weight @ torch.cat([a * b, a + b]) + pair_map.join.bias
            assert found[row, step].numpy() == pytest.approx(wanted.detach().numpy(), abs=1e-5)


def test_both_directions_of_a_pair_have_the_same_score() -> None:
    predictor = build()
    assert predictor.logits(PAIRS) == pytest.approx(predictor.logits(PAIRS[:, ::-1].copy()), abs=1e-5)


def test_tokens_know_nothing_of_the_own_edge() -> None:
    graph = make_graph()
    pair = graph.edge_index().T[:1]
    with_edge, without = build(graph), build(drop_edges(graph, pair))
    without.model.load_state_dict(with_edge.model.state_dict())
    one, two = tokens_of(with_edge, pair), tokens_of(without, pair)
    assert one.numpy() == pytest.approx(two.numpy(), abs=1e-4)
    assert not torch.allclose(tokens_of(build(graph, protocol="paper"), pair), one, atol=1e-3)  # there it is read


def test_the_head_reads_the_tokens_by_their_weights() -> None:
    predictor = build()
    model = predictor.model
    assert isinstance(model, LinkPatternMachine)
    patterns = predictor.tokenize(PAIRS, 4)
    with evaluating(model), torch.no_grad():
        encoded = model.encode(patterns, predictor.table)
        walks = encoded.shape[1] - 4
        even = model.read(encoded, patterns.frame).logits
        weight = torch.ones(len(PAIRS), walks + 4)
        assert torch.allclose(model.read(encoded, patterns.frame, weight).logits, even, atol=1e-5)
        weight[:, walks:] = torch.tensor([1.0, 0.0, 2.0, 0.0])
        chosen = encoded.clone()
        chosen[:, walks + 1], chosen[:, walks + 3] = 0, 0
        chosen[:, walks + 2] *= 2
        wanted = model.read(chosen, patterns.frame).logits
        assert torch.allclose(model.read(encoded, patterns.frame, weight).logits, wanted, atol=1e-5)


def test_a_rank_drops_the_same_entries_as_the_whole_step() -> None:
    predictor = build(dropout=0.5, feature_dropout=0.5)
    predictor.model.train()

    def learn(rows: list[int]) -> Tensor:
        content, _ = predictor.prepare(torch.from_numpy(PAIRS[rows]), 3, torch.tensor(rows))
        torch.manual_seed(5)
        return predictor.compute(content)

    whole = learn(list(range(len(PAIRS))))
    assert torch.allclose(learn([1, 3, 5]), whole[[1, 3, 5]], atol=1e-5)


def test_ends_are_standardised_alike_and_a_constant_column_is_zero() -> None:
    x = np.random.default_rng(2).normal(size=(30, 3))
    x[:, 1] = 7
    expected = build(make_graph(x)).model.expected
    assert expected is not None
    assert torch.equal(expected.shift[:3], expected.shift[3:6])
    assert torch.equal(expected.scale[:3], expected.scale[3:6])
    assert expected.scale[1] == 0
