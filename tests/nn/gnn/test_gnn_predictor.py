"""A network with its graph answers like the pattern machine: nodes, pairs or graphs in, logits out."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from gpm import GpmError, Graph
from gpm.config import Config
from gpm.nn.expected_table import Answers, spread_answers
from gpm.nn.feature_table import FeatureTable
from gpm.nn.gnn.gnn_predictor import NetworkPredictor
from gpm.nn.gnn.network import Level, Network
from tests.nn.test_model import make_features

pytestmark = pytest.mark.usefixtures("one_thread")

KINDS: tuple[Network, ...] = get_args(Network)
LEVELS: tuple[Level, ...] = get_args(Level)
SIZES = (5, 1, 7, 4, 9, 1, 6)
NODES = sum(SIZES)


def make_collection(edge: str = "categories") -> Graph:
    """Graphs with features on nodes and edges; those of one node have no edge."""
    rng = np.random.default_rng(0)
    pointer = np.concatenate([[0], np.cumsum(SIZES)])
    ends = [rng.integers(a, b, (2, 2 * (b - a) - 2)) for a, b in pairwise(pointer)]
    edges = np.concatenate(ends, axis=1)
    attributes = make_features(edge, edges.shape[1], 1)
    x = make_features("dense", NODES, 2)
    return Graph.from_edges(edges, NODES, undirected=True, x=x, edge_attr=attributes, graph_ptr=pointer)


def make_graph() -> Graph:
    """One graph, whose last nodes are isolated."""
    ends = np.random.default_rng(0).integers(0, NODES - 3, (2, 2 * NODES))
    return Graph.from_edges(ends, NODES, undirected=True, x=make_features("dense", NODES, 2), self_loops="drop")


def build(
    kind: Network, level: Level, graph: Graph | None = None, options: dict[str, Any] | None = None, **more: Any
) -> NetworkPredictor:
    """A predictor of few numbers; without dropout, so that a step of training can be compared."""
    torch.manual_seed(0)
    config = Config(width=8, heads=2, dropout=0.0, model=kind, **(options or {}))
    graph = graph or (make_collection() if level == "graph" else make_graph())
    return NetworkPredictor.build(config, graph, 2, level, **more)


def instances(level: Level) -> Tensor:
    """Some of each kind, one of them twice."""
    if level == "graph":
        return torch.tensor([2, 0, 1, 4, 2])
    nodes = torch.tensor([3, 0, NODES - 1, 7, 3, 11])
    return nodes if level == "node" else torch.stack([nodes, nodes.roll(1)], 1)


def without_norms(predictor: NetworkPredictor) -> None:
    """Normalise by kept statistics in training too, as in evaluation."""
    for module in predictor.model.modules():
        if isinstance(module, torch.nn.BatchNorm1d):
            module.train = lambda mode=True, module=module: module  # type: ignore[method-assign, misc]
            module.training = False


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_training_and_inference_say_the_same(kind: Network, level: Level) -> None:
    predictor = build(kind, level, **({"hide": False} if level == "link" else {}))
    without_norms(predictor)
    chosen = instances(level)
    found = predictor.logits(chosen)  # first: what is kept of it must serve training
    learned = predictor.learn(chosen, 0)
    assert found.shape == (len(chosen), 2)
    assert not found.requires_grad
    torch.testing.assert_close(learned.detach(), found, atol=1e-5, rtol=1e-4)
    learned.sum().backward()
    assert all(p.grad is not None for p in predictor.model.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_does_not_depend_on_the_others_of_its_batch(kind: Network) -> None:
    predictor = build(kind, "graph")
    everything = predictor.logits(np.arange(len(SIZES)))
    for number in range(len(SIZES)):
        torch.testing.assert_close(predictor.logits(np.array([number]))[0], everything[number], atol=1e-5, rtol=1e-4)
    turned = predictor.logits(np.arange(len(SIZES))[::-1])
    torch.testing.assert_close(turned.flip(0), everything, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
def test_batches_of_inference_change_nothing(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = build("gin", level)
    whole = predictor.logits(instances(level))
    monkeypatch.setattr("gpm.nn.gnn.gnn_predictor.ENTRIES", 20)
    monkeypatch.setattr("gpm.nn.gnn.gnn_predictor.ROWS", 2)
    torch.testing.assert_close(predictor.logits(instances(level)), whole, atol=1e-5, rtol=1e-4)


def test_every_graph_is_in_one_batch_of_bounded_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpm.nn.gnn.gnn_predictor.ENTRIES", 40)
    predictor = build("gin", "graph")
    graphs = np.arange(len(SIZES))
    batches = predictor._share_out(graphs)
    assert sorted(np.concatenate(batches)) == graphs.tolist()
    cost = sum(predictor.edges.sizes(graphs))
    assert len(batches) > 2
    assert all(cost[batch].sum() <= 40 + cost.max() for batch in batches)


@pytest.mark.parametrize("level", ["node", "link"])
def test_nodes_are_embedded_once_for_all_instances(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = build("gcn", level)
    monkeypatch.setattr("gpm.nn.gnn.gnn_predictor.ROWS", 2)
    passes = []
    original = predictor.model.embed
    monkeypatch.setattr(predictor.model, "embed", lambda *given: passes.append(1) or original(*given))
    predictor.logits(instances(level))
    assert len(passes) == 1


def test_embeddings_are_what_logits_are_read_from() -> None:
    predictor = build("sage", "link")
    h = predictor.embed()
    pairs = instances("link")
    assert h.shape == (NODES, 8)
    expected = predictor.model.head(h[pairs[:, 0]] * h[pairs[:, 1]])
    torch.testing.assert_close(predictor.logits(pairs), expected.detach())


@pytest.mark.parametrize("options", [{}, {"gnn_norm": "batch", "gnn_residual": "linear", "gnn_jump": "max"}], ids=str)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mlp"])
def test_hidden_links_leave_the_graph_without_them(kind: Network, options: dict[str, Any]) -> None:
    graph = make_graph()
    pairs = torch.from_numpy(graph.edge_index().T[[0, 5, 20]].copy())
    banned = {tuple(p) for p in pairs.tolist()} | {tuple(p) for p in pairs.flip(1).tolist()}
    left = np.array([edge for edge in graph.edge_index().T.tolist() if tuple(edge) not in banned]).T
    assert left.shape[1] == graph.num_edges - 6
    bare = build(kind, "link", Graph.from_edges(left, NODES, x=graph.x), options, hide=False)
    hiding, seeing = build(kind, "link", graph, options), build(kind, "link", graph, options, hide=False)
    for predictor in (bare, hiding, seeing):
        without_norms(predictor)
    expected = bare.learn(pairs, 0)
    torch.testing.assert_close(hiding.learn(pairs, 0), expected, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(seeing.learn(pairs, 0), expected, atol=1e-4)


def test_the_other_end_of_a_hidden_link_is_out_of_reach() -> None:
    """On a path of two nodes each is all that the other could hear."""
    graph = Graph.from_edges(np.array([[0], [1]]), 3, undirected=True, x=np.random.default_rng(0).normal(size=(3, 4)))
    for hide in (True, False):
        predictor = build("gcn", "link", graph, hide=hide)
        table = predictor.table
        assert isinstance(table.node, Tensor)
        # A pair of node 0 with itself is read from node 0 alone, so that only messages bring in node 1.
        pairs = torch.tensor([[0, 0], [0, 1]])
        before = predictor.learn(pairs, 0)[0]
        table.node = table.node.clone()
        table.node[1] += 10
        reached = not torch.allclose(predictor.learn(pairs, 0)[0], before)
        assert reached is not hide


def test_pairs_that_are_no_links_hide_nothing() -> None:
    graph = make_graph()
    rng = np.random.default_rng(5)
    links = {tuple(edge) for edge in graph.edge_index().T.tolist()}
    free = [p for p in rng.integers(0, NODES, (40, 2)).tolist() if tuple(p) not in links]
    hiding, seeing = build("gcn", "link", graph), build("gcn", "link", graph, hide=False)
    pairs = torch.tensor(free)
    assert torch.equal(hiding.learn(pairs, 0), seeing.learn(pairs, 0))


def test_inference_sees_all_links_of_the_graph() -> None:
    graph = make_graph()
    pairs = graph.edge_index().T[:6]
    assert torch.equal(build("gcn", "link", graph).logits(pairs), build("gcn", "link", graph, hide=False).logits(pairs))


def test_nodes_hear_everything() -> None:
    predictor = build("gcn", "node")
    torch.testing.assert_close(predictor.learn(instances("node"), 0), predictor.logits(instances("node")))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns(kind: Network, level: Level) -> None:
    predictor = build(kind, level)
    chosen = instances(level)[:4]
    targets = torch.arange(4) % 2
    optimizer = torch.optim.Adam(predictor.model.parameters(), lr=0.02)
    losses = []
    for turn in range(25):
        optimizer.zero_grad()
        loss = functional.cross_entropy(predictor.learn(chosen, turn), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert min(losses[-3:]) < 0.9 * losses[0]


def test_another_model_can_answer_and_modes_are_kept() -> None:
    predictor = build("gcn", "node")
    other = copy.deepcopy(predictor.model).train()
    with torch.no_grad():
        other.head.bias += 1
    predictor.model.eval()
    chosen = instances("node")
    torch.testing.assert_close(predictor.logits(chosen, model=other), predictor.logits(chosen) + 1)
    torch.testing.assert_close(predictor.learn(chosen, 0, other), predictor.learn(chosen, 0) + 1)
    assert torch.equal(predictor.embed(other), predictor.embed())
    assert other.training
    predictor.model.eval()
    predictor.logits(chosen)
    assert not predictor.model.training


def test_statistics_are_those_of_the_graph_it_was_built_for() -> None:
    graph = make_graph()
    trained = build("gcn", "node", graph)
    larger = Graph.from_edges(graph.edge_index(), NODES, x=10 * np.asarray(graph.x))
    again = build("gcn", "node", larger, inputs=trained.model.inputs)
    assert torch.equal(again.model.input_map.node.scale, torch.ones(5))
    again.model.load_state_dict(trained.model.state_dict())
    assert not torch.allclose(again.logits(instances("node")), trained.logits(instances("node")))
    with pytest.raises(GpmError, match="The model reads 5 node features"):
        build("gcn", "node", Graph.from_edges(graph.edge_index(), NODES), inputs=trained.model.inputs)


def test_options_say_which_network_and_how_deep() -> None:
    graph = make_graph()

    def depth(level: Level, layers: int | None = None, **options: Any) -> int:
        config = Config(model="sage", **options)
        return len(NetworkPredictor.build(config, graph, 2, level, layers=layers).model.layers)

    assert (depth("node"), depth("link"), depth("graph")) == (2, 2, 4)
    assert [len(build("gcnii", level).model.layers) for level in LEVELS] == [8, 8, 8]
    assert (depth("graph", size="m"), depth("graph", layers=1), depth("node", layers=1, size="m")) == (3, 1, 1)
    with pytest.raises(GpmError, match="no network 'gpm'"):
        NetworkPredictor.build(Config(), graph, 2, "node")


@pytest.mark.parametrize("level", LEVELS)
def test_no_instances_have_no_logits(level: Level) -> None:
    assert build("gcn", level).logits(instances(level)[:0]).shape == (0, 2)


@pytest.mark.parametrize(
    ("level", "inputs", "sentence"),
    [
        ("node", [[0, 1]], r"reads nodes \[B\]"),
        ("link", [0, 1], r"reads pairs \[B, 2\]"),
        ("link", [[0, 1, 2]], r"reads pairs \[B, 2\]"),
        ("graph", [0.5], "as integers"),
        ("graph", [len(SIZES)], f"numbered 0 to {len(SIZES) - 1}"),
        ("node", [-1], f"numbered 0 to {NODES - 1}"),
        ("link", [[0, NODES]], f"numbered 0 to {NODES - 1}"),
    ],
)
def test_what_is_no_instance_is_named(level: Level, inputs: list, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        build("gcn", level).logits(np.array(inputs))


def test_nodes_of_a_collection_hear_only_their_own_graph() -> None:
    """With attention too: each graph of a collection is attended to alone."""
    graph = make_collection("none")
    predictor = build("gps", "node", graph)
    alone = predictor.model.eval().embed(FeatureTable(graph), predictor.edges.cut(np.array([4])))
    first = sum(SIZES[:4])
    torch.testing.assert_close(predictor.embed()[first : first + SIZES[4]], alone.detach(), atol=1e-5, rtol=1e-4)


KNOWN = np.array([0, 2, 3, 5, 7, 8, 11, 14, NODES - 1])
LABELLED = [kind for kind in KINDS if kind != "mlp"]


def with_labels(kind: Network, targets: np.ndarray | None = None) -> NetworkPredictor:
    """A network that is told labels of some nodes."""
    targets = np.eye(2)[KNOWN % 2] if targets is None else targets
    return build(kind, "node", options={"labels": "on"}, answers=Answers("classes", KNOWN, targets))


def told(predictor: NetworkPredictor, changed: np.ndarray) -> NetworkPredictor:
    """The same network, told other labels of some nodes."""
    answers = Answers("classes", KNOWN, np.eye(2)[(KNOWN + np.isin(KNOWN, changed)) % 2])
    return replace(predictor, table=predictor.table.with_labels(*spread_answers(answers, NODES)))


@pytest.mark.parametrize("kind", LABELLED)
def test_a_training_step_reads_labels_of_others_but_none_of_its_batch(kind: Network) -> None:
    predictor, batch = with_labels(kind), torch.tensor([3, 7, 0, 14])
    without_norms(predictor)
    learned = predictor.learn(batch, 0)
    assert torch.equal(told(predictor, batch.numpy()).learn(batch, 0), learned)
    assert not torch.equal(told(predictor, KNOWN[~np.isin(KNOWN, batch)]).learn(batch, 0), learned)


@pytest.mark.parametrize("kind", LABELLED)
def test_the_label_of_a_node_reaches_others_but_not_its_own_prediction(kind: Network) -> None:
    predictor, nodes = with_labels(kind), np.arange(NODES)
    said, moved = predictor.logits(nodes), 0
    for node in KNOWN:
        other = told(predictor, np.array([node]))
        again = other.logits(nodes)
        assert torch.equal(again[node], said[node])
        assert torch.equal(other.logits(np.array([node])), predictor.logits(np.array([node])))
        assert torch.equal(other.look_ahead(NODES).logits(nodes), again)
        moved += not torch.equal(again, said)
    assert moved >= len(KNOWN) - 1  # the last node has no neighbour


def test_a_prediction_does_not_depend_on_what_else_is_asked_for() -> None:
    predictor = with_labels("gcn")
    whole = predictor.logits(np.arange(NODES))
    for node in range(NODES):
        torch.testing.assert_close(predictor.logits(np.array([node]))[0], whole[node], atol=1e-6, rtol=1e-5)


def test_only_nodes_with_a_known_label_need_further_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, passes = with_labels("gcn"), [0]
    hide = FeatureTable.hide_labels
    monkeypatch.setattr(FeatureTable, "hide_labels", lambda *a: (passes.append(1), hide(*a))[1])
    predictor.logits(np.setdiff1d(np.arange(NODES), KNOWN))
    assert sum(passes) == 0
    predictor.logits(KNOWN[:1])
    assert sum(passes) == 1


def test_a_network_on_a_graph_without_known_labels_reads_none() -> None:
    predictor = with_labels("gcn")
    empty = Answers("classes", np.zeros(0, dtype=np.int64), np.zeros((0, 2)))
    other = build("gcn", "node", inputs=predictor.model.inputs, answers=empty)
    other.model.load_state_dict(predictor.model.state_dict())
    assert not other.table.label.any()  # type: ignore[union-attr]
    assert torch.isfinite(other.logits(KNOWN)).all()


@pytest.mark.parametrize(("kind", "level"), [("mlp", "node"), ("gcn", "link"), ("gcn", "graph")])
def test_networks_that_cannot_use_labels_have_none(kind: Network, level: Level) -> None:
    assert build(kind, level, options={"labels": "on"}).table.label is None


def make_forest() -> Graph:
    """One graph of 20 paths of 3 nodes and 2 of 5, whose nodes follow each other."""
    sizes = [3] * 20 + [5] * 2
    ends = np.cumsum(sizes) - 1
    source = np.setdiff1d(np.arange(ends[-1]), ends)
    x = make_features("dense", int(ends[-1]) + 1, 2)
    return Graph.from_edges(np.stack([source, source + 1]), len(x), undirected=True, x=x)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_of_a_forest_are_read_with_their_tree_alone(kind: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = build(kind, "node", make_forest())
    without_norms(predictor)
    assert predictor.edges.num_graphs == 22
    chosen = torch.tensor([65, 0, 64, 7, 0, 33])
    whole = predictor.model.eval()(predictor.table, predictor.whole, chosen)
    torch.testing.assert_close(predictor.compute(chosen), whole)
    torch.testing.assert_close(predictor.logits(chosen), whole.detach())
    monkeypatch.setattr("gpm.nn.gnn.gnn_predictor.ENTRIES", 8)  # a tree or two at a time
    torch.testing.assert_close(predictor.logits(chosen), whole.detach())


def test_components_that_are_few_or_mixed_are_one_graph() -> None:
    forest = make_forest()
    shuffled = forest.edge_index() * 7 % forest.num_nodes  # 7 and 70 have no common divisor
    mixed = Graph.from_edges(shuffled, forest.num_nodes, undirected=True, x=forest.x)
    assert build("gcn", "node", mixed).edges.num_graphs == 1
    assert build("gcn", "node", make_graph()).edges.num_graphs == 1
