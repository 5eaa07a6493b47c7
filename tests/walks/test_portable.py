"""The portable kernel draws the compiled one's bits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError, Graph, TensorGraph, walk, walk_tensors
from tests.graphs import RULES, graphs


@given(graphs(), st.sampled_from(RULES), st.integers(0, 9), st.integers(0, 2**64 - 1), st.booleans())
def test_both_kernels_return_the_same_bits(graph, rule, length, seed, forbid) -> None:
    starts, numbers = np.arange(graph.num_nodes)[:, None], np.arange(4)
    banned = np.random.default_rng(seed).integers(-1, graph.num_nodes, (graph.num_nodes, 4, 2)) if forbid else None
    nodes, edges = walk(graph, starts, numbers, length, seed=seed, rule=rule, forbidden=banned, edges=True)
    theirs = walk_tensors(
        TensorGraph.of(graph), torch.as_tensor(starts), torch.as_tensor(numbers), length, seed=seed, rule=rule,
        forbidden=None if banned is None else torch.as_tensor(banned), edges=True,
    )  # fmt: skip
    assert theirs[0].numpy().dtype == nodes.dtype
    np.testing.assert_array_equal(theirs[0], nodes)
    np.testing.assert_array_equal(theirs[1], edges)


@pytest.mark.parametrize("rule", RULES)
def test_both_kernels_agree_on_hubs(rule) -> None:
    rng = np.random.default_rng(1)
    hub = np.stack([np.zeros(5000, dtype=int), rng.integers(1, 3000, 5000)])
    rest = rng.integers(0, 3000, (2, 9000))
    edges = np.concatenate([hub, rest], 1)
    graph = Graph.from_edges(edges, 3000, undirected=True, edge_weight=rng.random(edges.shape[1]))
    starts = rng.integers(0, 3000, 2000)
    nodes, _ = walk(graph, starts, 0, 8, seed=9, rule=rule)
    theirs, _ = walk_tensors(TensorGraph.of(graph), torch.as_tensor(starts), torch.tensor(0), 8, seed=9, rule=rule)
    np.testing.assert_array_equal(theirs, nodes)


def test_the_graph_is_shared_not_copied_on_the_cpu() -> None:
    graph = Graph.from_edges([[0, 1], [1, 0]])
    assert TensorGraph.of(graph).indices.data_ptr() == graph.indices.ctypes.data


def test_bad_jobs_get_a_sentence() -> None:
    graph = TensorGraph.of(Graph.from_edges([[0, 1], [1, 0]]))
    with pytest.raises(GpmError, match="a start node is outside 0 to 1"):
        walk_tensors(graph, torch.tensor([2]), torch.tensor(0), 3)
    with pytest.raises(GpmError, match="must not be negative"):
        walk_tensors(graph, torch.tensor([0]), torch.tensor(0), -3)
