"""Walk means: the expectation over all walks, for every kind of graph and features."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import Graph, WalkRule
from gpm.patterns import walk_means as module
from gpm.patterns.walk_means import fill_walk_means, row_blocks, walk_law, walk_means
from tests.graphs import graphs, step_law


def _mean_over_walks(graph: Graph, x: NDArray, start: int, steps: int) -> NDArray:
    """Enumerate all walks of some steps; the mean of x at their ends, weighted by their probabilities."""
    if not steps:
        return x[start]
    law = step_law(graph, WalkRule(), start, None)
    return sum(law[next_] * _mean_over_walks(graph, x, next_, steps - 1) for next_ in np.flatnonzero(law))


def test_means_are_the_average_over_all_walks_of_a_weighted_directed_graph() -> None:
    edges = [[0, 0, 1, 1, 2, 3, 3], [1, 2, 2, 3, 0, 3, 1]]  # node 4 has no exit
    graph = Graph.from_edges(np.array([[*edges[0], 2], [*edges[1], 4]]), 5, edge_weight=[1, 3, 0.5, 0.25, 2, 1, 0, 1.5])
    x = np.random.default_rng(0).standard_normal((5, 3))
    for steps, mean in enumerate(walk_means(graph, x, 4)):
        assert mean == pytest.approx(np.stack([_mean_over_walks(graph, x, v, steps) for v in range(5)]), abs=1e-12)


@given(graphs(max_nodes=8))
@settings(max_examples=50, deadline=None)
def test_the_law_is_that_of_a_walk(graph: Graph) -> None:
    expected = np.stack([step_law(graph, WalkRule(), node, None) for node in range(graph.num_nodes)])
    assert walk_law(graph).toarray() == pytest.approx(expected, abs=1e-12)


@given(graphs(max_nodes=8), st.integers(0, 3), st.sampled_from([np.float32, np.float64, np.int64]))
@settings(max_examples=50, deadline=None)
def test_means_keep_the_form_of_the_features(graph: Graph, steps: int, dtype: type) -> None:
    x = np.random.default_rng(1).integers(0, 3, (graph.num_nodes, 4)).astype(dtype)
    dense, sparse = walk_means(graph, x, steps), walk_means(graph, sp.csr_array(x), steps)
    assert len(dense) == len(sparse) == steps + 1
    for one, other in zip(dense, sparse, strict=True):
        assert sp.issparse(other)
        assert one.dtype == other.dtype == np.result_type(dtype, np.float32)
        assert other.toarray() == pytest.approx(one, abs=1e-6)


@given(graphs(max_nodes=8), st.integers(0, 8), st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_rows_of_the_law_are_those_of_the_whole_bit_for_bit(graph: Graph, first: int, count: int) -> None:
    first = min(first, graph.num_nodes - 1)
    last = min(first + count, graph.num_nodes)
    whole, rows = walk_law(graph), walk_law(graph, first, last)
    entries = slice(whole.indptr[first], whole.indptr[last])
    np.testing.assert_array_equal(rows.indptr, whole.indptr[first : last + 1] - whole.indptr[first])
    np.testing.assert_array_equal(rows.indices, whole.indices[entries])  # in the same order, in which sums are taken
    np.testing.assert_array_equal(rows.data, whole.data[entries])


@given(graphs(), st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_means_in_blocks_have_the_same_bits(graph: Graph, block: int) -> None:
    x = np.random.default_rng(0).standard_normal((graph.num_nodes, 3)).astype(np.float32)
    out = np.empty((4, *x.shape), dtype=np.float32)
    out[0] = x
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        fill_walk_means(graph, out)
        ranges = list(row_blocks(graph, 3))
    np.testing.assert_array_equal(out, walk_means(graph, x, 3))
    assert [node for first, last in ranges for node in range(first, last)] == list(range(graph.num_nodes))
    assert all(last == first + 1 or graph.indptr[last] - graph.indptr[first] <= block for first, last in ranges)
