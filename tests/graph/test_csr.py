import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from gpm.graph import csr
from tests.graphs import edge_lists


@given(edge_lists(), st.booleans(), st.booleans())
def test_rows_hold_the_edges_sorted(listed, undirected, loops) -> None:
    nodes, (source, target) = listed
    indptr, indices, ids = csr.build(source, target, nodes, undirected=undirected, self_loops=loops, with_ids=True)
    wanted = [(a, b, i) for i, (a, b) in enumerate(zip(source, target, strict=True)) if loops or a != b]
    if undirected:
        wanted += [(b, a, i) for a, b, i in wanted if a != b]
    row = np.repeat(np.arange(nodes), np.diff(indptr))
    assert sorted(wanted) == list(zip(row, indices, ids, strict=True))
    bare = csr.build(source, target, nodes, undirected=undirected, self_loops=loops, with_ids=False)
    np.testing.assert_array_equal(bare[1], indices)


@given(edge_lists())
def test_symmetry_is_that_of_the_matrix(listed) -> None:
    nodes, edges = listed
    indptr, indices, _ = csr.build(*edges, nodes, undirected=False, self_loops=True, with_ids=False)
    matrix = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(nodes, nodes)).toarray()
    assert csr.is_symmetric(indptr, indices) == (matrix == matrix.T).all()


@given(edge_lists())
def test_merging_sums_weights_like_scipy(listed) -> None:
    nodes, (source, target) = listed
    weight = np.arange(1.0, len(source) + 1)
    indptr, indices, ids = csr.build(source, target, nodes, undirected=False, self_loops=True, with_ids=True)
    repeats, merged = csr.count_duplicates(indptr, indices)
    columns, first, total = csr.merge_duplicates(indptr, indices, ids, weight[ids], merged)
    expected = sp.coo_array((weight, (source, target)), shape=(nodes, nodes)).tocsr()
    expected.sum_duplicates()
    assert repeats == len(source) - expected.nnz
    np.testing.assert_array_equal(columns, expected.indices)
    np.testing.assert_allclose(total, expected.data)
    row = np.repeat(np.arange(nodes), np.diff(merged))
    pairs = list(zip(source, target, strict=True))
    assert [pairs.index((a, b)) for a, b in zip(row, columns, strict=True)] == list(first)


@pytest.mark.parametrize(
    "weights", [[1.0, 2.0, 5.0], [0.0, 1e-12, 1e12], [1e-300, 1e-300, 0.0], [3.0, 0.0, 0.0], [1e308, 1e308, 1.0]]
)
def test_integer_masses_are_in_proportion_to_the_weights(weights: list[float]) -> None:
    cdf = csr.cumulate_weights(np.array([0, 3]), np.array(weights))
    mass = np.diff(cdf, prepend=0)
    assert ((mass > 0) == (np.array(weights) > 0)).all()
    scaled = np.array(weights) / max(weights)
    np.testing.assert_allclose(mass / cdf[-1], scaled / scaled.sum(), atol=2.0**-50)


def test_ids_need_64_bits_above_the_boundary() -> None:
    assert csr.index_dtype(2**31 - 1) is np.int32
    assert csr.index_dtype(2**31) is np.int64
