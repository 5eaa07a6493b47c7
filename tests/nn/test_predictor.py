"""Instances in, logits out: what is shared over instances changes nothing, and every pattern of the pool is read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from gpm import Config, Graph
from gpm.nn import LinkPatternMachine
from gpm.nn.predictor import Predictor
from tests.nn.test_model import POINTER, assert_near, make_graph

PAIRS = np.array([[0, 1], [5, 9], [9, 5], [3, 3], [38, 2], [38, 39], [0, 9]])
SMALL: dict[str, Any] = {"width": 8, "heads": 2, "lengths": [0, 1, 3], "patterns": 6, "pool": 24, "dropout": 0.5}

pytestmark = pytest.mark.usefixtures("one_thread")


def _build(level: str, graph: Graph | None = None, **options: Any) -> Predictor:
    """A predictor in training mode, with weights that differ from those of a fresh model."""
    torch.manual_seed(0)
    predictor = Predictor.build(Config(**SMALL | options), graph or make_graph("dense", "dense"), 3, level)
    with torch.no_grad():
        for parameter in predictor.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    predictor.model.train()
    return predictor


def _join(predictor: Predictor, pairs: np.ndarray) -> torch.Tensor:
    """Scores of pairs, one after the other, each from embeddings of its ends."""
    model = predictor.model
    assert isinstance(model, LinkPatternMachine)
    model.eval()
    with torch.no_grad():
        ends = [[predictor.embed_nodes(np.array([node])) for node in pair] for pair in pairs]
        scores = torch.cat([model.join(*pair) for pair in ends])
    model.train()
    return scores


@pytest.mark.parametrize("readout", ["mean", "class", "sum"])
def test_a_product_scores_pairs_from_embeddings_of_nodes(readout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = _build("link", pair="product", readout=readout)
    expected = _join(predictor, PAIRS)
    asked: list[int] = []
    draw = predictor.tokenizer.nodes
    monkeypatch.setattr(predictor.tokenizer, "nodes", lambda ids, **rest: (asked.extend(ids), draw(ids, **rest))[1])
    assert_near(predictor.logits(PAIRS), expected, "logits")
    assert sorted(asked) == np.unique(PAIRS).tolist()  # each node once, however many pairs it is in


def test_a_product_equals_the_model_on_all_patterns() -> None:
    """The edges of the graph are there in both, for nothing is hidden from an embedding that serves many pairs."""
    predictor = _build("link", pair="product", protocol="paper")
    predictor.model.eval()
    with torch.no_grad():
        expected = predictor.model(predictor.tokenizer.links(PAIRS), predictor.table).logits
    assert_near(predictor.logits(PAIRS), expected, "logits")


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_joint_logits_are_the_mean_over_shares_of_the_pool(protocol: str) -> None:
    predictor = _build("link", pair="joint", protocol=protocol)
    predictor.model.eval()
    parts, numbers = [], []
    for i in range(4):
        patterns = predictor.tokenizer.links(
            PAIRS, count=6, forbid=protocol == "strict", marks=True, share=(i, 4)
        )  # as many as in training, of which marks depend
        with torch.no_grad():
            parts.append(predictor.model(patterns, predictor.table).logits)
        assert patterns.sides is not None
        numbers.append(patterns.numbers[:, patterns.sides == 0])
    assert torch.equal(torch.cat(numbers, 1).sort(1).values, torch.arange(24).expand(len(PAIRS), 24))
    assert_near(predictor.logits(PAIRS), torch.stack(parts).mean(0), "logits")
    assert (parts[0] - parts[1]).abs().max() > 1e-4
    half = predictor.logits(PAIRS, patterns=12)
    assert half.shape == (len(PAIRS), 1)
    assert (half - predictor.logits(PAIRS)).abs().max() > 1e-5


@pytest.mark.parametrize("pair", ["joint", "product"])
def test_the_order_of_the_ends_does_not_matter(pair: str) -> None:
    predictor = _build("link", pair=pair)
    assert_near(predictor.logits(PAIRS[:, ::-1]), predictor.logits(PAIRS), "logits")


def test_under_strict_the_links_own_edge_does_not_matter() -> None:
    """What is learned of a training edge is what is left where the edge is not known."""
    ends = np.random.default_rng(3).integers(0, 20, (2, 40))
    own = np.array([[4], [7]])
    kept = ends[:, ~np.isin(ends, own).all(0)]
    x = np.random.default_rng(4).normal(size=(20, 3))
    with_it, without = (Graph.from_edges(e, 20, undirected=True, x=x) for e in (np.concatenate([kept, own], 1), kept))
    found = {}
    for protocol in ("strict", "paper"):
        predictors = [_build("link", graph, pair="joint", protocol=protocol) for graph in (with_it, without)]
        for predictor in predictors:
            predictor.model.eval()
        there, missing = (predictor.learn(torch.tensor([[4, 7], [7, 4]]), 5) for predictor in predictors)
        found[protocol] = float((there - missing).detach().abs().max())
    assert found["strict"] < 1e-6
    assert found["paper"] > 1e-3


@pytest.mark.parametrize(
    ("level", "options"),
    [("node", {}), ("graph", {"readout": "sum"}), ("link", {"pair": "joint"}), ("link", {"pair": "product"})],
)
def test_the_size_of_batches_and_maps_ahead_do_not_matter(
    level: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = make_graph("dense", "categories", pointer=POINTER if level == "graph" else None)
    predictor = _build(level, graph, **options)
    inputs = PAIRS if level == "link" else np.arange(5)
    usual = predictor.logits(inputs)
    assert predictor.model.training  # as it was before
    monkeypatch.setattr("gpm.nn.predictor.POSITIONS", 200)
    assert_near(predictor.logits(inputs), usual, "logits in small batches")
    monkeypatch.setattr("gpm.nn.predictor.MOST_MAPS", 0)
    assert predictor.map_nodes(predictor.model, 10**9) is None
    assert_near(predictor.logits(inputs), usual, "logits without maps")
    assert_near(torch.cat([predictor.logits(inputs[i : i + 1]) for i in range(len(inputs))]), usual, "one by one")


@pytest.mark.parametrize("level", ["node", "graph", "link"])
@pytest.mark.parametrize("pair", ["joint", "product"])
def test_no_instances_have_no_logits(level: str, pair: str) -> None:
    predictor = _build(level, pair=pair)
    none = np.zeros((0, 2) if level == "link" else 0, dtype=np.int64)
    assert predictor.logits(none).shape == (0, 1 if level == "link" else 3)


def test_a_step_reads_m_patterns_and_another_step_reads_others() -> None:
    for level, inputs in (("node", torch.arange(5)), ("graph", torch.arange(5)), ("link", torch.from_numpy(PAIRS))):
        predictor = _build(level, make_graph(pointer=POINTER) if level == "graph" else None, pool=48)
        first, again, other = (predictor.tokenize(inputs, 6, turn) for turn in (0, 0, 1))
        assert first.numbers.shape[1] == (12 if level == "link" else 6)
        assert torch.equal(first.numbers, again.numbers)
        assert not torch.equal(first.numbers, other.numbers)
        assert (first.marks is not None) == (level == "link")
        assert (first.sizes is not None) == (level == "graph")


def test_gradients_flow_in_a_step() -> None:
    for level, inputs in (("node", torch.arange(5)), ("link", torch.from_numpy(PAIRS))):
        predictor = _build(level)
        predictor.learn(inputs, 0).square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().max() > 0 for p in predictor.model.parameters())
