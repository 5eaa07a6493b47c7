"""The portable kernel draws the compiled one's bits."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError, Graph, WalkRule, walk
from gpm.patterns.walks import TensorGraph, walk_tensors
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


def _hub(**options: Any) -> Graph:
    rng = np.random.default_rng(1)
    hub = np.stack([np.zeros(5000, dtype=int), rng.integers(1, 3000, 5000)])
    edges = np.concatenate([hub, rng.integers(0, 3000, (2, 9000))], 1)
    return Graph.from_edges(edges, 3000, **options)


HUBS = {
    "plain": _hub(undirected=True),
    "weighted": _hub(undirected=True, edge_weight=np.random.default_rng(2).random(14_000)),
    "directed": _hub(),
    "parallel": _hub(undirected=True, duplicates="keep"),
}


@pytest.mark.parametrize("forbid", [False, True])
@pytest.mark.parametrize("graph", HUBS.values(), ids=HUBS.keys())
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_both_kernels_agree_on_hubs(rule: WalkRule, graph: Graph, forbid: bool) -> None:
    starts = np.random.default_rng(3).integers(0, 3000, 1500)
    banned = np.stack([starts, np.zeros_like(starts)], 1) if forbid else None
    nodes, edges = walk(graph, starts, 0, 6, seed=9, rule=rule, forbidden=banned, edges=True)
    theirs = walk_tensors(
        TensorGraph.of(graph), torch.as_tensor(starts), torch.tensor(0), 6, seed=9, rule=rule, edges=True,
        forbidden=None if banned is None else torch.as_tensor(banned),
    )  # fmt: skip
    np.testing.assert_array_equal(theirs[0], nodes)
    np.testing.assert_array_equal(theirs[1], edges)


def test_the_graph_is_shared_not_copied_on_the_cpu() -> None:
    graph = Graph.from_edges([[0, 1], [1, 0]])
    assert TensorGraph.of(graph).indices.data_ptr() == graph.indices.ctypes.data


def test_bad_jobs_get_a_sentence() -> None:
    graph = TensorGraph.of(Graph.from_edges([[0, 1], [1, 0]]))
    with pytest.raises(GpmError, match="A start node is outside 0 to 1"):
        walk_tensors(graph, torch.tensor([2]), torch.tensor(0), 3)
    with pytest.raises(GpmError, match="must not be negative"):
        walk_tensors(graph, torch.tensor([0]), torch.tensor(0), -3)
    with pytest.raises(GpmError, match="starts must be integers"):
        walk_tensors(graph, torch.tensor([0.5]), torch.tensor(0), 3)
