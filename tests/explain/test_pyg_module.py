from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

from gpm import GpmError, Graph, Run
from gpm.explain.pyg_explainer import PatternModule
from tests.explain.runs import EMPTY, NODES, group_graph, ring_graphs, train_small, weighted_edges, weighted_graph

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, one_thread_for_all: None) -> Run:
    return train_small(weighted_graph(), tmp_path_factory.mktemp("nodes") / "run")


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory, one_thread_for_all: None) -> Run:
    return train_small(group_graph(), tmp_path_factory.mktemp("links") / "run", task="link")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory, one_thread_for_all: None) -> Run:
    return train_small(ring_graphs(), tmp_path_factory.mktemp("graphs") / "run", topology="induced")


def _tensors(graph: Graph) -> tuple[dict[str, Tensor], Tensor]:
    """A graph as PyG has it, and an order of its edges that is not the graph's own."""
    data = graph.to_pyg()
    if isinstance(data, list):
        data = Batch.from_data_list(data)
    given = {key: data[key] for key in ("edge_index", "edge_attr", "edge_weight", "batch") if key in data}
    given["x"] = data.x if "x" in data else torch.zeros(graph.num_nodes, 1)
    return given, torch.randperm(data.num_edges, generator=torch.Generator().manual_seed(0))


def _shuffled(graph: Graph) -> dict[str, Tensor]:
    given, order = _tensors(graph)
    return {key: value[..., order] if key == "edge_index" else value[order] if "edge" in key else value
            for key, value in given.items()}  # fmt: skip


def test_on_its_own_graph_it_says_what_the_run_says(nodes: Run) -> None:
    said, module = nodes.predict().logits, PatternModule(nodes)
    assert torch.equal(module(**_tensors(nodes.data.graph)[0]), said)
    assert torch.equal(module(**_shuffled(nodes.data.graph)), said)
    assert module(**_shuffled(nodes.data.graph)).is_inference() is False
    assert dict(module.named_parameters()).keys() == {f"model.{name}" for name, _ in module.model.named_parameters()}


def test_the_graph_is_built_as_the_runs_own_was(nodes: Run) -> None:
    edges, weight = map(torch.from_numpy, weighted_edges())  # once each, with duplicates and self-loops
    x = torch.tensor(nodes.data.graph.x)
    module = PatternModule(nodes)
    assert torch.equal(module(x, edges, edge_weight=weight), nodes.predict().logits)
    assert torch.equal(module(x.float(), edges, edge_weight=weight), nodes.predict().logits)
    assert module.open(x, edges, edge_weight=weight)[0].tokenizer is nodes.predictor.tokenizer  # type: ignore[attr-defined]
    assert not torch.equal(module(x, edges, edge_weight=weight.flip(0)), nodes.predict().logits)
    with pytest.raises(GpmError, match="The run's graph has weights on its edges; give edge_weight too"):
        module(x, edges)


def test_some_instances_are_rows_of_all(nodes: Run, graphs: Run) -> None:
    for run in (nodes, graphs):
        module, given = PatternModule(run), _shuffled(run.data.graph)
        every = module(**given)
        for wanted in ([7], [5, 1], 4):
            some = module(**given, instances=torch.tensor(wanted))
            torch.testing.assert_close(some, every[wanted].view(-1, every.shape[1]), rtol=1e-5, atol=1e-6)
        mask = torch.arange(len(every)) % 2 == 0
        torch.testing.assert_close(module(**given, instances=mask), every[mask], rtol=1e-5, atol=1e-6)


def test_links_are_scored_without_the_edges_held_out(links: Run) -> None:
    pairs = links.split.pairs[links.split.test]  # type: ignore[attr-defined]
    given = _shuffled(links.data.graph) | {"edge_label_index": torch.from_numpy(pairs.T)}
    said = links.predict_pairs(pairs).logits
    assert torch.equal(PatternModule(links)(**given), said)
    torch.testing.assert_close(PatternModule(links)(**given, instances=torch.tensor(1)), said[1:2])
    assert not torch.allclose(links.predictor_for(links.data.graph).logits(pairs), said)
    del given["edge_label_index"]
    with pytest.raises(GpmError, match=r"scores pairs of nodes; give them as edge_label_index \[2, P\]"):
        PatternModule(links)(**given)


def test_graphs_are_told_apart_by_batch(graphs: Run) -> None:
    found = PatternModule(graphs)(**_shuffled(graphs.data.graph))
    filled = torch.arange(len(found)) != EMPTY
    assert torch.equal(found[filled], graphs.predict().logits)
    assert found[EMPTY].isnan().all()
    whole = _shuffled(graphs.data.graph)
    del whole["batch"]
    assert PatternModule(graphs)(**whole).shape == (1, 2)  # all of them are then one graph


def test_a_graph_alone_is_another_graph(graphs: Run) -> None:
    one = ring_graphs().to_pyg()[5]  # type: ignore[index]
    found = PatternModule(graphs)(torch.zeros(one.num_nodes, 1), one.edge_index, one.edge_attr)
    graph = Graph.from_edges(one.edge_index, one.num_nodes, edge_attr=one.edge_attr)
    assert torch.equal(found, graphs.predictor_for(graph).logits(np.arange(1)))


def test_another_graph_is_predicted(nodes: Run) -> None:
    x, edges, weight = torch.eye(3), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4)
    found = PatternModule(nodes)(x, edges, edge_weight=weight)
    wanted = nodes.predictor_for(Graph.from_edges(edges, x=x, edge_weight=weight)).logits(np.arange(3))
    assert torch.equal(found, wanted)
    with pytest.raises(GpmError, match="The model reads 3 node features"):
        PatternModule(nodes)(torch.ones(3, 5), edges, edge_weight=weight)


def test_a_graph_is_built_once_and_again_when_it_changes(nodes: Run) -> None:
    module, given = PatternModule(nodes), _shuffled(weighted_graph(x=np.eye(NODES, 3)))
    before, predictor = module(**given), module.open(**given)[0]
    assert module.open(**given)[0] is predictor
    given["x"] += 1.0
    assert module.open(**given)[0] is not predictor
    assert not torch.equal(module(**given), before)
    with torch.inference_mode():
        module(**given | {"x": given["x"] + 1})
    assert torch.equal(module(**given | {"x": given["x"] - 1.0}), before)


def test_what_is_in_x_counts_for_nothing_where_the_model_does_not_read_it(tmp_path: Path) -> None:
    for features, x in (("auto", None), ("degree", np.ones((NODES, 2)))):
        run = train_small(weighted_graph(x=x), tmp_path / features, features=features, epochs=1)
        given = _shuffled(run.data.graph)
        for other in (torch.zeros(NODES, 1), torch.randn(NODES, 7)):
            module = PatternModule(run)
            assert torch.equal(module(**given | {"x": other}), run.predict().logits)
            assert module.open(**given | {"x": other})[0].tokenizer is run.predictor.tokenizer  # type: ignore[attr-defined]


def test_answers_are_of_the_kind_that_is_asked_for(nodes: Run, links: Run) -> None:
    given = _shuffled(nodes.data.graph)
    raw, probs, log_probs = (PatternModule(nodes, kind)(**given) for kind in ("raw", "probs", "log_probs"))
    torch.testing.assert_close(probs, raw.softmax(-1))
    torch.testing.assert_close(log_probs, raw.log_softmax(-1))
    pairs = _shuffled(links.data.graph) | {"edge_label_index": torch.tensor([[0, 1], [2, 3]])}
    torch.testing.assert_close(PatternModule(links, "probs")(**pairs), PatternModule(links)(**pairs).sigmoid())


def test_values_are_in_their_own_units(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(50, 10, (30, 2)).astype(np.float32)
    run = train_small(ring_graphs(values), tmp_path / "run", metric="mae", epochs=1)
    given, filled = _shuffled(run.data.graph), np.arange(30) != EMPTY
    found = PatternModule(run)(**given)[filled]
    torch.testing.assert_close(found, torch.from_numpy(run.predict().probability).float())
    assert 20 < found.mean() < 80
    assert torch.equal(PatternModule(run, output=1)(**given)[filled], found[:, 1:])
    for options, sentence in (
        ({"return_type": "probs"}, "predicts values, which have no probabilities; leave return_type at raw"),
        ({"return_type": "logits"}, "return_type must be one of raw, probs, log_probs, got 'logits'"),
        ({"output": 2}, "output 2 must be the index of one of several labels or values"),
    ):
        with pytest.raises(GpmError, match=sentence):
            PatternModule(run, **options)  # type: ignore[arg-type]


def test_what_it_cannot_take_is_refused(nodes: Run, graphs: Run, tmp_path: Path) -> None:
    given: dict[str, Any] = _shuffled(graphs.data.graph)
    with pytest.raises(GpmError, match=r"batch must name the graph of each of the \d+ nodes, ascending"):
        PatternModule(graphs)(**given | {"batch": given["batch"].flip(0)})
    for change in ({"x": {"paper": given["x"]}}, {"edge_index": {}}, {"x": None}):
        with pytest.raises(GpmError, match="must be tensors of a graph with nodes of one kind"):
            PatternModule(graphs)(**given | change)
    with pytest.raises(GpmError, match="output 0 must be the index of one of several labels"):
        PatternModule(nodes, output=0)
    network = train_small(weighted_graph(edge_weight=None), tmp_path / "gcn", model="gcn", epochs=1)
    with pytest.raises(GpmError, match="gcn holds a gcn, which reads no patterns; use a run of a gpm"):
        PatternModule(network)
