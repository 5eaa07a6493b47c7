"""What messages pass over is the graph as it was given: cut, hidden in part, or as a matrix."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Batch

from gpm import GpmError, Graph
from gpm.nn.gnn.subgraph import IncomingEdges, Subgraph
from tests.graphs import graphs, weight_matrix

pytestmark = pytest.mark.usefixtures("one_thread")


def whole(graph: Graph) -> Subgraph:
    return IncomingEdges.of(graph).cut(np.arange(graph.num_graphs))


def triples(edge_index: Tensor, *values: Tensor | None) -> list[tuple]:
    """Edges with what they carry, in an order that depends on nothing else."""
    columns = [*edge_index, *(v.reshape(-1) for v in values if v is not None)]
    return sorted(zip(*(c.tolist() for c in columns), strict=True))


def make_collection(sizes: tuple[int, ...] = (3, 1, 5, 4), seed: int = 0) -> Graph:
    """Directed graphs whose edges have their number as feature and one more as weight; the second is a single node."""
    rng = np.random.default_rng(seed)
    pointer = np.concatenate([[0], np.cumsum(sizes)])
    ends = [rng.integers(a, b, (2, 2 * (b - a) - 2)) for a, b in pairwise(pointer)]
    edges = np.concatenate(ends, axis=1)[:, rng.permutation(2 * (pointer[-1] - len(sizes)))]
    numbers = np.arange(edges.shape[1], dtype=np.float32)[:, None]
    x = rng.normal(size=(pointer[-1], 2))
    return Graph.from_edges(
        edges, pointer[-1], x=x, edge_attr=numbers, edge_weight=1 + numbers[:, 0], graph_ptr=pointer, duplicates="keep"
    )


@settings(max_examples=40)
@given(graphs())
def test_edges_are_those_of_the_graph(graph: Graph) -> None:
    part = whole(graph)
    weight = None if graph.edge_weight is None else torch.tensor(graph.edge_weight, dtype=torch.float32)
    assert triples(part.edge_index, part.edge_weight) == triples(torch.from_numpy(graph.edge_index()), weight)
    assert bool((torch.diff(part.edge_index[1]) >= 0).all())


@settings(max_examples=40)
@given(graphs())
def test_matrices_say_who_hears_from_whom(graph: Graph) -> None:
    part = whole(graph)
    heard = weight_matrix(graph, weighted=False).T
    np.testing.assert_allclose(part.adjacency @ torch.eye(graph.num_nodes), heard)
    weighted = weight_matrix(graph).T
    np.fill_diagonal(weighted, np.where(has_loop(graph), np.diag(weighted), 1))
    degree = weighted.sum(1)
    root = np.where(degree > 0, np.maximum(degree, 1e-9) ** -0.5, 0)
    expected = root[:, None] * weighted * root
    if graph.is_simple:  # PyG counts only one of parallel loops
        np.testing.assert_allclose(part.normalised @ torch.eye(graph.num_nodes), expected, atol=1e-5)


def has_loop(graph: Graph) -> NDArray[np.bool_]:
    return np.diag(weight_matrix(graph, weighted=False)) > 0


@pytest.mark.parametrize("chosen", [[0, 1, 2, 3], [2], [3, 0], [1], [2, 2, 1]])
def test_a_cut_is_what_pyg_makes_of_a_list_of_graphs(chosen: list[int]) -> None:
    graph = make_collection()
    data = graph.to_pyg()
    assert isinstance(data, list)
    batch = Batch.from_data_list([data[number] for number in chosen])
    part = IncomingEdges.of(graph).cut(np.array(chosen))
    assert graph.edge_attr is not None
    assert part.edge_ids is not None
    mine = torch.from_numpy(np.array(graph.edge_attr))[part.edge_ids]
    assert triples(part.edge_index, mine) == triples(batch.edge_index, batch.edge_attr)
    np.testing.assert_array_equal(graph.x[part.nodes.numpy()], batch.x)  # type: ignore[index]
    owner = torch.zeros_like(part.nodes) if part.batch is None else part.batch
    assert owner.tolist() == batch.batch.tolist()
    assert part.num_graphs == len(chosen)


def test_the_weight_of_an_edge_goes_with_it() -> None:
    part = IncomingEdges.of(make_collection()).cut(np.array([2, 0]))
    assert part.edge_ids is not None
    assert part.edge_weight is not None
    assert len(part.edge_ids) > 5
    assert part.edge_weight.tolist() == (1 + part.edge_ids).tolist()


@settings(max_examples=40)
@given(graphs(), st.data())
def test_hidden_pairs_are_gone_in_both_directions_and_nothing_else_is(graph: Graph, data: st.DataObject) -> None:
    node = st.integers(0, graph.num_nodes - 1)
    pairs = data.draw(st.lists(st.tuples(node, node), max_size=8))
    part = whole(graph)
    left = part.hide(torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2))
    banned = {*pairs, *((b, a) for a, b in pairs)}
    expected = [t for t in triples(part.edge_index, part.edge_weight) if t[:2] not in banned]
    assert triples(left.edge_index, left.edge_weight) == expected
    assert int(left.indptr[-1]) == len(expected)


def test_edge_features_stay_with_their_edges_when_others_are_hidden() -> None:
    part = whole(make_collection())
    left = part.hide(part.nodes[part.edge_index[:, 3:5]].t())
    assert len(left.sources) < len(part.sources)
    assert set(triples(left.edge_index, left.edge_ids)) < set(triples(part.edge_index, part.edge_ids))


def test_matrices_made_in_inference_serve_training() -> None:
    part = whole(make_collection())
    with torch.inference_mode():
        assert part.normalised.shape == part.adjacency.shape
    h = torch.ones(len(part.nodes), 2, requires_grad=True)
    (part.normalised @ h + part.adjacency @ h).sum().backward()
    assert h.grad is not None


def test_a_graph_without_nodes_is_named() -> None:
    graph = Graph.from_edges(np.zeros((2, 0), dtype=np.int64), 2, graph_ptr=[0, 1, 1, 2])
    with pytest.raises(GpmError, match="Graph 1 has no nodes"):
        IncomingEdges.of(graph).cut(np.array([0, 1]))
