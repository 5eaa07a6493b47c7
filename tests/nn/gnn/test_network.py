"""Networks are PyG's: on plain edges, by hand, they say the same; and they keep the symmetries that graphs have."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_geometric import nn as pyg

from gpm import GpmError, Graph
from gpm.config import Config
from gpm.nn.feature_table import FeatureTable
from gpm.nn.gnn.network import LAYERS, GraphNetwork, Level, Network
from gpm.nn.gnn.subgraph import IncomingEdges, Subgraph
from gpm.nn.positional.encodings import embed_laplacian
from tests.nn.test_model import make_features

pytestmark = pytest.mark.usefixtures("one_thread")

KINDS: tuple[Network, ...] = get_args(Network)
LEVELS: tuple[Level, ...] = get_args(Level)
NODES, EDGES = 24, 50


def make_graph(node: str = "dense", edge: str = "none", directed: bool = False, parts: int = 1) -> Graph:
    """A random graph, or several of equal size; the last nodes are isolated."""
    rng = np.random.default_rng(1)
    size = NODES // parts
    ends = rng.integers(0, size - 2, (2, EDGES)) + size * rng.integers(0, parts, EDGES)
    pointer = np.arange(0, NODES + 1, size) if parts > 1 else None
    x, edge_attr = make_features(node, NODES, 2), make_features(edge, EDGES, 3)
    return Graph.from_edges(ends, NODES, undirected=not directed, x=x, edge_attr=edge_attr, graph_ptr=pointer)


def make_network(
    kind: Network, graph: Graph, level: Level = "node", layers: int | None = None, **options: Any
) -> tuple[GraphNetwork, FeatureTable, Subgraph]:
    """A network in evaluation, what it reads and the whole graph; without dropout unless it is asked for."""
    torch.manual_seed(0)
    config = Config(**({"width": 8, "heads": 2, "dropout": 0.0} | options))
    table = FeatureTable(graph, embed_laplacian(graph, 3) if config.pe == "lap" else None)
    network = GraphNetwork(kind, table.spec(), config, 3, level, layers)
    network.input_map.fit(table)
    return network.eval(), table, IncomingEdges.of(graph).cut(np.arange(graph.num_graphs))


def draw_instances(level: Level) -> Tensor | None:
    """Some nodes or pairs; None for graphs, which are read all."""
    shapes = {"node": (10,), "link": (10, 2)}
    rng = torch.Generator().manual_seed(3)
    return None if level == "graph" else torch.randint(NODES, shapes[level], generator=rng)


def relabel(graph: Graph, order: Any) -> Graph:
    """The same graph with node i called `order[i]`."""
    x = np.empty_like(graph.x)
    x[order] = graph.x
    attributes = None if graph.edge_attr is None else graph.edge_attr[graph.edge_ids]
    return Graph.from_edges(order[graph.edge_index()], graph.num_nodes, x=x, edge_attr=attributes)


def pass_by_hand(
    network: GraphNetwork, layer: nn.Module, h: Tensor, first: Tensor, edge_index: Tensor, e: Tensor | None
) -> Tensor:
    """One layer of PyG's on a list of edges."""
    if network.kind in ("mlp", "appnp"):
        return layer(h)
    if network.kind in ("gcn", "gcnii"):
        number = 1 + list(network.layers).index(layer)
        width = h.shape[1]
        plain = pyg.GCNConv(width, width) if network.kind == "gcn" else pyg.GCN2Conv(width, 0.1, 0.5, number)
        plain.load_state_dict(layer.state_dict())
        return plain(h, edge_index) if network.kind == "gcn" else plain(h, first, edge_index)
    return layer(h, edge_index) if e is None else layer(h, edge_index, edge_attr=e)


@pytest.mark.parametrize("edge", ["none", "dense", "categories"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_pygs_network_on_the_plain_edges(kind: Network, directed: bool, edge: str) -> None:
    graph = make_graph("dense", edge, directed)
    network, table, part = make_network(kind, graph)
    data: Any = graph.to_pyg()
    maps, e = network.input_map, None
    if maps.edge is not None:
        attributes = data.edge_attr
        if edge == "categories":
            first = torch.tensor([0, 1 + int(attributes[:, 0].max()) + 1])
            e = maps.edge.weight[first + attributes].sum(1)
        else:
            e = (attributes.float() - maps.edge.shift) * maps.edge.scale @ maps.edge.weight
    with torch.no_grad():
        h = (data.x.float() - maps.node.shift) * maps.node.scale @ maps.node.weight + maps.bias
        h = first = h.relu() if kind in ("mlp", "appnp", "gcnii") else h
        for number, layer in enumerate(network.layers):
            h = pass_by_hand(network, layer, h, first, data.edge_index, e)
            h = h.relu() if number < len(network.layers) - 1 and kind != "gps" else h
        h = pyg.APPNP(10, 0.1)(h, data.edge_index) if kind == "appnp" else h
        expected = h @ network.head.weight.t() + network.head.bias
        found = network(table, part, torch.arange(NODES))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", ["gcn", "gcnii", "appnp"])
def test_weights_of_edges_count_where_pygs_layer_has_a_place_for_them(kind: Network) -> None:
    ends = np.random.default_rng(1).integers(0, NODES, (2, EDGES))
    x = make_features("dense", NODES, 2)
    weight = np.random.default_rng(2).random(EDGES)
    plain, weighted = Graph.from_edges(ends, NODES, x=x), Graph.from_edges(ends, NODES, x=x, edge_weight=weight)
    network, table, part = make_network(kind, plain)
    with torch.no_grad():
        heavy = IncomingEdges.of(weighted).cut(np.array([0]))
        found, other = network.embed(table, heavy), network.embed(table, part)
        assert not torch.allclose(found, other, atol=1e-3)
        if kind == "gcn":
            data: Any = weighted.to_pyg()
            h = network.input_map.nodes(table, torch.arange(NODES))
            for number, layer in enumerate(network.layers):
                conv = pyg.GCNConv(8, 8)
                conv.load_state_dict(layer.state_dict())
                h = conv(h, data.edge_index, data.edge_weight.float())
                h = h.relu() if number == 0 else h
            torch.testing.assert_close(found, h, atol=1e-5, rtol=1e-4)


def test_gcnii_is_the_formula_of_its_paper() -> None:
    r"""With dense matrices: relu(((1 - a) P h + a h0) ((1 - b_l) I + b_l W_l)), where b_l = log(t / l + 1)."""
    graph = make_graph()
    network, table, part = make_network("gcnii", graph)
    assert len(network.layers) == 8
    matrix = part.normalised.to_dense()
    with torch.no_grad():
        h = first = network.input_map.nodes(table, part.nodes).relu()
        for number, layer in enumerate(network.layers, 1):
            share = np.log(0.5 / number + 1)
            mixed = 0.9 * matrix @ h + 0.1 * first
            h = (1 - share) * mixed + share * mixed @ layer.get_parameter("weight1")
            h = h.relu() if number < 8 else h
        torch.testing.assert_close(network.embed(table, part), h, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("norm", ["none", "batch", "layer"])
@pytest.mark.parametrize("residual", ["none", "identity", "linear"])
@pytest.mark.parametrize("jump", ["none", "cat", "max"])
def test_norm_residual_and_jump_are_as_stated(norm: str, residual: str, jump: str) -> None:
    options = {"gnn_norm": norm, "gnn_residual": residual, "gnn_jump": jump}
    network, table, part = make_network("gcn", make_graph(), layers=3, **options)
    matrix, maps = part.normalised.to_dense(), network.get_submodule("layers")
    after: list[Tensor] = []
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        h = network.input_map.nodes(table, part.nodes)
        for number in range(3):
            passed = matrix @ maps[number].lin(h) + maps[number].bias  # type: ignore[index, union-attr, operator]
            if residual == "linear":
                passed = passed + network.skips[number](h)
            if norm == "batch":  # with the statistics of a new network
                weight = network.norms[number].module
                passed = passed / np.sqrt(1 + weight.eps) * weight.weight + weight.bias
            elif norm == "layer":
                weight = network.norms[number]
                passed = nn.functional.layer_norm(passed, (8,), weight.weight, weight.bias)
            passed = passed.relu() if number < 2 else passed
            h = h + passed if residual == "identity" else passed
            after.append(h)
        expected = {"none": h, "cat": torch.cat(after, 1), "max": torch.stack(after).amax(0)}[jump]
        torch.testing.assert_close(network.embed(table, part), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_options_add_the_parameters_that_they_state(kind: Network, level: Level) -> None:
    def names(**options: Any) -> set[str]:
        return set(dict(make_network(kind, make_graph(), level, 3, **options)[0].named_parameters()))

    plain = names(gnn_norm="none", gnn_residual="none")
    maps = {f"skips.{i}.{name}" for i in range(3) for name in ("weight", "bias")}
    assert names(gnn_norm="none", gnn_residual="linear") - plain == (maps if kind in ("gcn", "gat", "gin") else set())
    assert names(gnn_norm="none", gnn_residual="identity") == plain
    norms = {f"norms.{i}.{name}" for i in range(3) for name in ("weight", "bias")}
    assert names(gnn_norm="layer", gnn_residual="none") - plain == (set() if kind == "gps" else norms)
    before = names() - plain
    inside = {name.replace("weight", "module.weight").replace("bias", "module.bias") for name in norms}
    assert before == (inside if level == "graph" and kind not in ("gin", "gps") else set())


@pytest.mark.parametrize("options", [{}, {"gnn_norm": "layer", "gnn_residual": "linear", "gnn_jump": "cat"}], ids=str)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_names_of_nodes_do_not_matter(kind: Network, level: Level, options: dict[str, str]) -> None:
    graph = make_graph("categories", "categories", directed=True)
    order = np.random.default_rng(4).permutation(NODES)
    network, table, part = make_network(kind, graph, level, **options)
    instances = draw_instances(level)
    other = relabel(graph, order)
    with torch.no_grad():
        found = network(table, part, instances)
        moved = None if instances is None else torch.from_numpy(order)[instances]
        renamed = network(FeatureTable(other), IncomingEdges.of(other).cut(np.array([0])), moved)
    torch.testing.assert_close(found, renamed, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_is_the_same_from_both_ends(kind: Network) -> None:
    network, table, part = make_network(kind, make_graph(directed=True), "link")
    pairs = draw_instances("link")
    assert pairs is not None
    with torch.no_grad():
        found, turned = network(table, part, pairs), network(table, part, pairs.flip(1))
    torch.testing.assert_close(found, turned)
    assert found.std(0).min() > 1e-4


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", ["gcn", "gat", "sage", "gin"])
def test_a_node_hears_along_the_edges_and_as_far_as_there_are_layers(kind: Network, layers: int) -> None:
    nodes = 6
    path = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    graph = Graph.from_edges(path, nodes, x=np.random.default_rng(0).normal(size=(nodes, 4)))
    network, table, part = make_network(kind, graph, layers=layers)
    assert isinstance(table.node, Tensor)
    before = network.embed(table, part)
    table.node = table.node.clone()
    table.node[1] += 1
    changed = (network.embed(table, part) - before).abs().amax(1) > 1e-6
    assert changed.tolist() == [1 <= node <= 1 + layers for node in range(nodes)]


@pytest.mark.parametrize("kind", KINDS)
def test_only_a_perceptron_is_blind_to_edges(kind: Network) -> None:
    network, table, part = make_network(kind, make_graph(), "link")
    with torch.no_grad():
        found, alone = network.embed(table, part), network.embed(table, part.hide(part.edge_index.t()))
    same = (found - alone).abs().amax(1) < 1e-6
    assert same.all() if kind == "mlp" else not same[: NODES // 2].any()


@pytest.mark.parametrize("kind", KINDS)
def test_edge_features_are_heard_where_there_is_a_place_for_them(kind: Network) -> None:
    graph = make_graph("dense", "categories")
    network, table, part = make_network(kind, graph)
    assert table.edge is not None
    with torch.no_grad():
        found = network.embed(table, part)
        part.edge_ids.copy_(part.edge_ids.flip(0))  # type: ignore[union-attr]
        heard = not torch.allclose(found, network.embed(table, part), atol=1e-4)
    assert heard == (kind in ("gat", "gin", "gps")) == (network.input_map.edge is not None)


@pytest.mark.parametrize("edge", ["none", "dense", "categories"])
@pytest.mark.parametrize("node", ["none", "dense", "sparse", "categories"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_learns_whatever_the_features(kind: Network, node: str, edge: str) -> None:
    parts = 3 if node == "dense" else 1
    level: Level = "graph" if node == "dense" else "link" if node == "sparse" else "node"
    network, table, part = make_network(kind, make_graph(node, edge, parts=parts), level, pe="lap", pe_dim=3)
    network.train()(table, part, draw_instances(level)).square().sum().backward()
    silent = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.isfinite().all()]
    assert not silent


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("edge", ["none", "categories"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_single_node_without_edges_can_be_learned_from(kind: Network, edge: str, level: Level) -> None:
    attributes = None if edge == "none" else np.zeros((0, 2), dtype=np.int64)
    graph = Graph.from_edges(np.zeros((2, 0), dtype=np.int64), 1, x=np.ones((1, 2)), edge_attr=attributes)
    network, table, part = make_network(kind, graph, level)
    instances = {"node": torch.tensor([0]), "link": torch.tensor([[0, 0]]), "graph": None}[level]
    logits = network.train()(table, part, instances)
    logits.sum().backward()
    assert logits.shape == (1, 3)
    assert logits.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_only_for_the_head(kind: Network) -> None:
    network, table, part = make_network(kind, make_graph("sparse", "dense"), "link")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = network.train()(table, part, draw_instances("link"))
    logits.float().sum().backward()
    assert logits.isfinite().all()


def test_dropout_is_for_training() -> None:
    network, table, part = make_network("gcn", make_graph(), dropout=0.5)
    one, two = (network.embed(table, part) for _ in range(2))
    assert torch.equal(one, two)
    network.train()
    assert not torch.equal(network.embed(table, part), network.embed(table, part))


@pytest.mark.parametrize("level", LEVELS)
def test_so_many_layers_as_asked_for(level: Level) -> None:
    graph = make_graph()
    assert len(make_network("gcn", graph, level)[0].layers) == LAYERS[level]
    deep, shallow = (make_network("sage", graph, level, layers)[0].count_parameters() for layers in (3, 2))
    norm = 2 * 8 if level == "graph" else 0
    assert deep - shallow == 2 * 8 * 8 + 8 + norm


def test_an_unknown_network_gets_the_nearest_name() -> None:
    with pytest.raises(GpmError, match=r"no network 'gcm'.*Did you mean 'gcn'"):
        make_network("gcm", make_graph())  # type: ignore[arg-type]


def test_attention_between_too_many_nodes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpm.nn.gnn.network.MOST_PAIRS", 2 * 12 * 12)
    network, table, part = make_network("gps", make_graph(parts=2), "graph")
    assert network(table, part).shape == (2, 3)
    with pytest.raises(GpmError, match="1 graphs of up to 24 nodes"):
        make_network("gps", make_graph())[0](table, make_network("gps", make_graph())[2], torch.tensor([0]))
