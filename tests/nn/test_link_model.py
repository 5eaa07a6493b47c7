"""The score of a link equals the slow one of `tests/reference_model.py`, is symmetric, and reads the marks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gpm import Graph, Tokenizer
from gpm.config import ModelOptions
from gpm.nn import FeatureTable, LinkPatternMachine
from gpm.patterns.meetings import count_marks
from gpm.patterns.tokenizer import Patterns
from tests.nn.test_model import assert_near, gradients, make_graph
from tests.reference_model import ReferenceModel

PAIRS = np.array([[0, 1], [5, 9], [9, 5], [3, 3], [38, 2], [38, 39]])  # the last nodes are isolated

pytestmark = pytest.mark.usefixtures("one_thread")


class Setting:
    """A model of links without dropout, all of whose weights differ from zero and one, on a graph."""

    def __init__(
        self, graph: Graph, pair: str, lengths: tuple[int, ...] = (1, 4), topology: str = "loops", **options: Any
    ) -> None:
        chosen = ModelOptions(**{"width": 16, "layers": 2, "heads": 4, "vocabulary": 8, "dropout": 0.0} | options)
        self.graph, self.table = graph, FeatureTable(graph)
        self.tokenizer = Tokenizer(graph, lengths=lengths, pool=10, topology=topology, seed=3)  # type: ignore[arg-type]
        torch.manual_seed(7)
        self.model = LinkPatternMachine(self.table.spec(), chosen, max(lengths), topology, pair).eval()  # type: ignore[arg-type]
        self.model.fit(self.table, self.tokenizer)
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))

    def draw(self, pairs: NDArray, forbid: bool = False) -> Patterns:
        return self.tokenizer.links(pairs, count=6, turn=2, forbid=forbid, marks=self.model.pair == "joint")


@pytest.mark.parametrize("pair", ["joint", "product"])
@pytest.mark.parametrize(
    ("edge", "position", "path", "directed", "forbid"),
    [
        ("none", "none", "transformer", False, True),
        ("none", "learned", "gru", True, False),
        ("dense", "none", "mean", False, False),
        ("categories", "learned", "transformer", True, True),
    ],
)
def test_the_model_equals_the_reference(
    pair: str, edge: str, position: str, path: str, directed: bool, forbid: bool
) -> None:
    setting = Setting(make_graph("dense", edge, directed), pair, path_position=position, path=path)
    patterns, model = setting.draw(PAIRS, forbid), setting.model
    expected = ReferenceModel(model, setting.graph)(patterns, setting.table)
    found = model(patterns, setting.table)
    assert found.logits.shape == (len(PAIRS), 1)
    assert found.weights is None
    assert_near(found.logits, expected.logits, "logits")
    assert_near(found.embedding, expected.embedding, "embedding")
    with torch.inference_mode():
        maps = model.map_all_nodes(setting.table, size=7)
        assert_near(model(patterns, setting.table, maps).logits, expected.logits, "logits from maps")
        assert_near(model(patterns, setting.table).logits, expected.logits, "logits without gradient")
    slow = gradients(expected, model)
    for name, gradient in gradients(found, model).items():
        assert_near(gradient, slow[name], f"gradient of {name}")


@pytest.mark.parametrize(
    ("topology", "options"),
    [("shape", {}), ("induced", {}), ("loops", {"anonymous": "none"}), ("loops", {"readout": "class", "fusion": True})],
)
def test_a_product_reads_each_end_as_a_node(topology: str, options: dict[str, Any]) -> None:
    """What the paper does: the embeddings of the ends know nothing of each other."""
    setting = Setting(make_graph("sparse", "categories"), "product", topology=topology, **options)
    with torch.no_grad():
        one, two = (
            setting.model.embed(setting.tokenizer.nodes(end, count=6, turn=2), setting.table)[0] for end in PAIRS.T
        )
        found = setting.model(setting.draw(PAIRS), setting.table)
        assert_near(found.logits, setting.model.join(one, two), "logits")
        first, second = setting.model.head[0], setting.model.head[2]  # type: ignore[index]
        assert_near(found.logits, second(first(one * two).relu()), "logits of the head")


@pytest.mark.parametrize("pair", ["joint", "product"])
@pytest.mark.parametrize("forbid", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_the_order_of_the_ends_does_not_matter(pair: str, forbid: bool, directed: bool) -> None:
    setting = Setting(make_graph("dense", "dense", directed), pair, topology="shape", path_position="learned")
    with torch.no_grad():
        there, back = (setting.model(setting.draw(p, forbid), setting.table) for p in (PAIRS, PAIRS[:, ::-1]))
    assert_near(back.logits, there.logits, "logits")
    assert_near(back.embedding, there.embedding, "embedding")
    assert there.logits.std() > 1e-3  # they are scores of their own


@pytest.mark.parametrize("pair", ["joint", "product"])
def test_a_link_does_not_depend_on_its_batch(pair: str) -> None:
    setting = Setting(make_graph("sparse", "categories"), pair, topology="induced")
    with torch.no_grad():
        whole = setting.model(setting.draw(PAIRS, forbid=True), setting.table).logits
        for row, link in enumerate(PAIRS):
            alone = setting.model(setting.draw(link[None], forbid=True), setting.table).logits
            assert_near(alone[0], whole[row], "logits")
        assert setting.model(setting.draw(PAIRS[:0]), setting.table).logits.shape == (0, 1)


def test_marks_are_read_where_the_ends_are_read_together() -> None:
    setting = Setting(make_graph(), "joint")
    patterns = setting.draw(PAIRS)
    assert patterns.marks is not None
    order = torch.randperm(patterns.marks[0].numel(), generator=torch.Generator().manual_seed(0))
    shuffled = patterns.marks.flatten(1)[:, order].view_as(patterns.marks)
    shuffled = torch.where(patterns.nodes >= 0, shuffled, 0)
    with torch.no_grad():
        before = setting.model(patterns, setting.table).logits
        after = setting.model(replace(patterns, marks=shuffled), setting.table).logits
    moved = ~(shuffled == patterns.marks).flatten(1).all(1)
    assert moved.sum() >= 4
    assert ((after - before).abs()[:, 0] > 1e-4).tolist() == moved.tolist()
    with pytest.raises(AssertionError):
        setting.model(replace(patterns, marks=None), setting.table)


def test_marks_tell_pairs_of_equal_nodes_apart() -> None:
    """On a ring without features all nodes look alike; how near the ends are shows in the marks alone."""
    ring = Graph.from_edges([np.arange(12), np.roll(np.arange(12), -1)], undirected=True)
    pairs = np.array([[0, 2], [0, 6], [3, 5], [3, 9]])
    spread = {}
    for pair in ("joint", "product"):
        setting = Setting(ring, pair, lengths=(2,), anonymous="none")
        with torch.no_grad():
            logits = setting.model(setting.tokenizer.links(pairs, marks=pair == "joint"), setting.table).logits[:, 0]
        spread[pair] = float((logits[0] - logits[1]).abs())
    assert spread["product"] < 1e-5
    assert spread["joint"] > 1e-3


def test_a_product_has_no_marks() -> None:
    setting = Setting(make_graph(), "product")
    assert setting.model.marks is None
    patterns = setting.tokenizer.links(PAIRS, marks=True)
    with torch.no_grad():
        with_marks = setting.model(patterns, setting.table).logits
        assert torch.equal(with_marks, setting.model(replace(patterns, marks=None), setting.table).logits)


@pytest.mark.parametrize("lengths", [(0,), (1,), (0, 2), (1, 4)])
@pytest.mark.parametrize("forbid", [False, True])
def test_every_mark_has_an_embedding_that_learns(lengths: tuple[int, ...], forbid: bool) -> None:
    """Those that occur get a gradient, and no mark is beyond the last."""
    setting = Setting(make_graph(), "joint", lengths=lengths)
    pairs = np.stack([np.arange(36), (np.arange(36) * 7 + 1) % 36], 1)
    pairs[:20] = setting.graph.edge_index().T[:20]
    patterns = setting.tokenizer.links(pairs, forbid=forbid, marks=True)
    assert setting.model.marks is not None
    assert patterns.marks is not None
    assert len(setting.model.marks) == count_marks(max(lengths))
    setting.model(patterns, setting.table).logits.square().sum().backward()
    occur = set(patterns.marks[patterns.nodes >= 0].tolist())
    assert setting.model.marks.grad is not None
    learns = setting.model.marks.grad.abs().amax(1) > 0
    assert {mark for mark, yes in enumerate(learns.tolist()) if yes} == occur


@pytest.mark.parametrize("pair", ["joint", "product"])
def test_gradients_reach_every_parameter(pair: str) -> None:
    setting = Setting(make_graph("sparse", "dense"), pair, path_position="learned", learn_weight=True)
    setting.model.train()
    setting.model(setting.draw(PAIRS), setting.table).logits.square().sum().backward()
    for name, parameter in setting.model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("pair", ["joint", "product"])
def test_saved_weights_give_the_same_model(pair: str) -> None:
    setting = Setting(make_graph(), pair)
    model = setting.model
    fresh = LinkPatternMachine(model.inputs, model.options, model.longest, "loops", model.pair).eval()
    fresh.load_state_dict(model.state_dict())
    patterns = setting.draw(PAIRS)
    with torch.no_grad():
        assert torch.equal(fresh(patterns, setting.table).logits, model(patterns, setting.table).logits)
