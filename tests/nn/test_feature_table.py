"""A table holds the features that a model can read, in few forms, and refuses the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gpm import GpmError, Graph
from gpm.nn.feature_rows import normalise_bags
from gpm.nn.feature_table import FeatureTable, InputSpec

ROWS = 60


def _table(x: Any = None, edge_attr: Any = None, pe: Any = None, bags: bool | None = False) -> FeatureTable:
    """The features of a ring, not read as bags of words unless a test says so."""
    rows = ROWS if x is None else x.shape[0]
    ring = np.stack([np.arange(rows), (np.arange(rows) + 1) % rows])
    return FeatureTable(Graph.from_edges(ring, rows, x=x, edge_attr=edge_attr, undirected=True), pe, bags=bags)


def _counts(share: float, columns: int = 40) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.poisson(3.0, (ROWS, columns)) * (rng.random((ROWS, columns)) < share) * 2.0


def test_only_what_is_mostly_zero_and_never_negative_looks_like_a_bag_of_words() -> None:
    few = _counts(0.3)
    assert _table(few, bags=None).bags
    assert not _table(_counts(0.9), bags=None).bags
    assert not _table(few - 2 * few * (np.arange(40) == 3), bags=None).bags
    assert not _table(few.astype(np.int64), bags=None).bags  # categories
    with pytest.raises(GpmError, match="not negative"):
        _table(-few, bags=True)


def test_a_graph_without_features_shows_its_degrees() -> None:
    graph = Graph.from_edges([[0, 0, 0, 1], [1, 2, 3, 2]], 5, undirected=True)
    table = FeatureTable(graph)
    assert table.spec() == InputSpec(node="dense", node_dim=1)
    assert isinstance(table.node, torch.Tensor)
    torch.testing.assert_close(table.node[:, 0], torch.tensor([3.0, 2, 2, 1, 0]).log1p())


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.array([[1.0], [np.nan]]), "x holds a value that is not a finite number"),
        (np.array([[1.0], [np.inf]]), "x holds a value that is not a finite number"),
        (sp.csr_array(np.array([[0.0, 1.0], [-np.inf, 0.0]])), "x holds a value that is not a finite number"),
        (np.array([[2], [-3]]), "x holds the category -3; categories are numbered from 0"),
    ],
)
def test_values_that_cannot_be_read_get_a_sentence(x: Any, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence) as error:
        _table(x)
    assert "\n" not in str(error.value)


def test_edge_features_are_checked_too() -> None:
    with pytest.raises(GpmError, match="edge_attr holds the category -1"):
        _table(edge_attr=np.full((ROWS, 1), -1))
    sparse = _table(edge_attr=sp.csr_array(np.eye(ROWS)))
    assert (sparse.edge_form, sparse.spec().edge_dim) == ("dense", ROWS)


@pytest.mark.parametrize(
    ("x", "edge_attr"),
    [
        (np.ones((ROWS, 3)), None),
        (np.ones((ROWS, 4), dtype=np.int64), None),
        (np.ones((ROWS, 4)), np.ones((ROWS, 1))),
    ],
)
def test_another_width_or_kind_of_feature_is_refused(x: Any, edge_attr: Any) -> None:
    spec = _table(np.ones((ROWS, 4))).spec()
    with pytest.raises(GpmError, match=r"The model reads .* features .*, this graph has .*; give a graph with"):
        _table(x, edge_attr).check(spec)


def test_the_same_width_is_accepted_whatever_the_zeros() -> None:
    _table(_counts(0.05)).check(_table(_counts(0.9)).spec())
    _table(np.array([[9], [8]])).check(_table(np.array([[0], [1]])).spec())  # unseen categories are no other kind


def test_equal_rows_of_edge_categories_are_kept_once() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (ROWS, 2))
    table = _table(edge_attr=rows)
    assert isinstance(table.edge, torch.Tensor)
    assert len(table.edge) == len(np.unique(rows, axis=0)) < ROWS
    np.testing.assert_array_equal(table.edge[table.edge_row].numpy(), rows)


@pytest.mark.parametrize(
    ("features", "form"), [("degree", "categories"), ("constant", "categories"), ("auto", "dense")]
)
def test_degree_or_nothing_may_stand_in_for_features(features: str, form: str) -> None:
    graph = Graph.from_edges([[0, 0, 0, 1], [1, 2, 3, 2]], 5, undirected=True)
    table = FeatureTable(graph, features=features)  # type: ignore[arg-type]
    assert table.node_form == form
    assert isinstance(table.node, torch.Tensor)
    wanted = {"degree": graph.degree(), "constant": np.zeros(5), "auto": np.log1p(graph.degree())}[features]
    np.testing.assert_allclose(table.node[:, 0].numpy(), wanted, rtol=1e-6)


def test_bags_of_words_are_the_same_bits_however_their_zeros_are_kept() -> None:
    """Else a table and the dataset that it was written from would train to other figures."""
    rng = np.random.default_rng(0)
    counts = (rng.poisson(0.1, (3000, 200)) * rng.integers(1, 700, (3000, 200))).astype(np.float32)
    counts[::50] = 0
    np.testing.assert_array_equal(normalise_bags(counts), normalise_bags(sp.csr_array(counts)).toarray())
