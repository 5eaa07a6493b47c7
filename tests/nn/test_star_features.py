"""Stars: two nodes share a number if they, their edges and their neighbours are alike, in any graph and any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import GpmError, Graph, Tokenizer
from gpm.config import ModelOptions
from gpm.nn import FeatureTable, GraphPatternMachine
from gpm.nn.star_features import BUCKETS, find_stars
from tests.graphs import edge_lists


def exact_stars(graph: Graph, categories: NDArray) -> NDArray[np.int64]:
    """With so many buckets that two stars do not share one by chance."""
    return find_stars(graph, categories, 2**62)


def describe_star(graph: Graph, categories: NDArray, node: int) -> tuple[Any, Any]:
    """The slow definition: the node's category, and how often each pair of an edge and a neighbour occurs."""
    met: Counter[Any] = Counter()
    for entry in range(graph.indptr[node], graph.indptr[node + 1]):
        row = entry if graph.edge_ids is None else graph.edge_ids[entry]
        edge = () if graph.edge_attr is None else tuple(graph.edge_attr[row].tolist())
        met[edge, tuple(categories[graph.indices[entry]].tolist())] += 1
    return tuple(categories[node].tolist()), frozenset(met.items())


@st.composite
def coloured_graphs(draw: Any) -> Graph:
    """A small graph of few categories, so that many stars are alike; with parallel edges, loops and directions."""
    nodes, edges = draw(edge_lists(10, 20))
    columns, several = draw(st.integers(1, 2)), draw(st.booleans())
    seed = draw(st.integers(0, 1000))
    rng = np.random.default_rng(seed)
    edge_attr = rng.integers(0, 2, (edges.shape[1], 2)) if draw(st.booleans()) else None
    return Graph.from_edges(
        edges, nodes, undirected=draw(st.booleans()), duplicates="keep" if several else "merge",
        x=rng.integers(0, 2, (nodes, columns)), edge_attr=edge_attr,
    )  # fmt: skip


@given(coloured_graphs())
def test_two_nodes_have_the_same_star_if_and_only_if_all_around_them_is_alike(graph: Graph) -> None:
    stars = exact_stars(graph, graph.x)
    slow = [describe_star(graph, graph.x, node) for node in range(graph.num_nodes)]
    for one in range(graph.num_nodes):
        for other in range(graph.num_nodes):
            assert (stars[one] == stars[other]) == (slow[one] == slow[other])


@given(coloured_graphs(), st.integers(0, 1000))
def test_neither_the_numbers_of_nodes_nor_the_order_of_edges_matter(graph: Graph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    number, order = rng.permutation(graph.num_nodes), rng.permutation(graph.num_edges)
    x = np.asarray(graph.x)[np.argsort(number)]
    edge_attr = graph.edge_attr
    if edge_attr is not None:
        edge_attr = (edge_attr if graph.edge_ids is None else edge_attr[graph.edge_ids])[order]
    edges = number[graph.edge_index()[:, order]]
    other = Graph.from_edges(edges, graph.num_nodes, x=x, edge_attr=edge_attr, duplicates="keep")
    np.testing.assert_array_equal(find_stars(other, x)[number], find_stars(graph, graph.x))


def test_a_star_has_the_same_number_in_another_graph() -> None:
    """Nothing is counted or sorted over the graph, and the numbers of a saved model stay what they are."""
    edges, x = np.array([[0, 1, 1], [1, 2, 3]]), np.array([[6], [5], [7], [6]])
    alone = Graph.from_edges(edges, 4, undirected=True, x=x)
    beside = Graph.from_edges(np.concatenate([edges + 3, [[0], [1]]], 1), 7, undirected=True, x=np.vstack([x[:3], x]))
    found = find_stars(alone, alone.x)
    np.testing.assert_array_equal(find_stars(beside, beside.x)[3:], found)
    assert found.tolist() == [3972, 7213, 2543, 3972]  # a change here would spoil saved models


def test_stars_are_numbers_below_the_buckets_and_rarely_share_one() -> None:
    x = np.arange(500)[:, None]
    stars = find_stars(Graph.from_edges([[], []], 500, x=x), x)
    assert stars.dtype == np.int64
    assert 0 <= stars.min() < stars.max() < BUCKETS
    assert len(np.unique(stars)) > 450  # 485 are to be expected


def test_columns_and_ends_are_not_mixed_up() -> None:
    """Neither (0, 1) and (1, 0), nor a node and its neighbour, nor an edge and the node behind it."""
    lone = Graph.from_edges([[], []], 2, x=np.array([[0, 1], [1, 0]]))
    assert len(set(exact_stars(lone, lone.x))) == 2
    pair = Graph.from_edges([[0], [1]], 2, undirected=True, x=np.array([[0], [1]]))
    assert len(set(exact_stars(pair, pair.x))) == 2
    ends = {"x": np.array([[5], [1], [5], [2]]), "edge_attr": np.array([[2], [1]])}
    two = Graph.from_edges([[0, 2], [1, 3]], 4, **ends)
    assert exact_stars(two, two.x)[0] != exact_stars(two, two.x)[2]


def test_numbers_on_edges_do_not_count() -> None:
    x = np.zeros((3, 1), dtype=np.int64)
    plain = Graph.from_edges([[0, 1], [1, 2]], 3, undirected=True, x=x)
    lengths = replace(plain, edge_attr=np.random.default_rng(0).random((plain.num_edges, 1)), edge_ids=None)
    np.testing.assert_array_equal(find_stars(lengths, x), find_stars(plain, x))


@pytest.mark.parametrize("x", [np.ones((3, 2)), np.ones((3, 2), dtype=np.float32), sp.csr_array(2 * np.eye(3))])
def test_numbers_have_no_stars(x: Any) -> None:
    graph = Graph.from_edges([[0, 1], [1, 2]], 3, undirected=True, x=x)
    with pytest.raises(GpmError, match=r"^Stars are made of categories, but the node features are numbers; set stars"):
        FeatureTable(graph, stars=True)


@pytest.mark.parametrize("sparse", [False, True])
def test_one_hot_rows_are_categories(sparse: bool) -> None:
    kinds = np.array([2, 0, 2, 1])
    edges = [[0, 1, 2], [1, 2, 3]]
    hot = sp.csr_array(np.eye(3)[kinds]) if sparse else np.eye(3, dtype=np.float32)[kinds]
    one, other = (
        FeatureTable(Graph.from_edges(edges, 4, undirected=True, x=x), stars=True) for x in (hot, kinds[:, None])
    )
    assert one.node_form == other.node_form == "categories"
    np.testing.assert_array_equal(one.node, other.node)  # type: ignore[arg-type]


def _path(x: Any = None, nodes: int = 4) -> Graph:
    ends = np.arange(nodes - 1)
    return Graph.from_edges(np.stack([ends, ends + 1]), nodes, undirected=True, x=x)


def test_a_table_has_stars_as_its_last_column() -> None:
    graph = _path(np.array([[3, 0], [1, 2], [3, 1], [1, 2]]))
    table = FeatureTable(graph, stars=True)
    assert isinstance(table.node, torch.Tensor)
    np.testing.assert_array_equal(table.node[:, :2].numpy(), graph.x)
    np.testing.assert_array_equal(table.node[:, 2].numpy(), find_stars(graph, graph.x))
    spec = table.spec()
    assert (spec.node, spec.node_dim, spec.node_sizes) == ("categories", 3, [4, 3, BUCKETS])


def test_without_features_stars_are_of_degrees() -> None:
    graph = _path()
    table = FeatureTable(graph, stars=True)
    assert isinstance(table.node, torch.Tensor)
    degree = graph.degree()[:, None].astype(np.int64)
    assert table.node[:, 0].tolist() == [1, 2, 2, 1]
    np.testing.assert_array_equal(table.node[:, 1].numpy(), find_stars(graph, degree))
    assert table.spec().node_sizes == [3, BUCKETS]
    blank = FeatureTable(graph, features="constant", stars=True)
    assert isinstance(blank.node, torch.Tensor)
    assert blank.node[0, 1] == blank.node[3, 1] != blank.node[1, 1]  # without degrees, a star still has its size


def test_a_model_reads_the_stars_of_another_graph() -> None:
    """Whatever the largest number of a star is there; the same star means the same."""
    here, there = _path(np.array([[0], [1], [0], [1]])), _path(np.tile([[0], [1], [9]], (4, 1)), nodes=12)
    table, other = FeatureTable(here, stars=True), FeatureTable(there, stars=True)
    other.check(table.spec())
    assert other.spec().node_sizes == [10, BUCKETS]
    torch.manual_seed(0)
    model = GraphPatternMachine(table.spec(), ModelOptions(width=8, layers=1, heads=1), 2, 8).eval()
    with torch.no_grad():
        assert model(Tokenizer(there).nodes(np.arange(12)), other).logits.isfinite().all()
        ends = model.input_map.nodes(table, torch.tensor([0])), model.input_map.nodes(other, torch.tensor([0]))
        torch.testing.assert_close(*ends)
