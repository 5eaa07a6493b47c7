"""Columns of instances: walk means, averages over graphs and structure, within bounds of time and memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gpm import GpmError, Graph
from gpm.patterns.walk_means import walk_means
from gpm.training import instance_columns
from gpm.training.instance_columns import neighbourhood_columns, structure_columns

NODES = 60
TRAIN = np.arange(30)

pytestmark = pytest.mark.usefixtures("one_thread")


def _graph(x: Any = None, **given: Any) -> Graph:
    ends = np.random.default_rng(0).integers(0, NODES, (2, 3 * NODES))
    return Graph.from_edges(ends, NODES, undirected=True, x=x, **given)


def _dense(columns: Any) -> Any:
    return columns.toarray() if sp.issparse(columns) else columns


def test_columns_are_the_features_and_their_walk_means() -> None:
    x = np.random.default_rng(1).normal(size=(NODES, 5))
    expected = np.concatenate(walk_means(_graph(), x, 2), axis=1)
    assert neighbourhood_columns(_graph(x), "node", TRAIN) == pytest.approx(expected, abs=1e-5)


def test_every_form_of_features_has_the_same_columns() -> None:
    categories = np.random.default_rng(1).integers(0, 3, (NODES, 2)) * 7
    numbers = np.concatenate([categories[:, [column]] == [[0, 7, 14]] for column in range(2)], 1).astype(np.float32)
    wide = np.concatenate([numbers, np.zeros((NODES, 300))], 1)
    expected = neighbourhood_columns(_graph(numbers), "node", TRAIN)
    assert neighbourhood_columns(_graph(categories), "node", TRAIN) == pytest.approx(expected)
    assert neighbourhood_columns(_graph(sp.csr_array(numbers)), "node", TRAIN) == pytest.approx(expected)
    sparse = neighbourhood_columns(_graph(wide), "node", TRAIN)
    assert sp.issparse(sparse)
    used = [306 * step + column for step in range(3) for column in range(6)]
    assert _dense(sparse)[:, used] == pytest.approx(expected)


def test_a_graph_is_the_mean_of_its_nodes() -> None:
    x, pointer = np.random.default_rng(1).normal(size=(5, 2)), [0, 2, 2, 5]
    graph = Graph.from_edges(np.array([[0, 2, 3], [1, 3, 4]]), 5, undirected=True, x=x, graph_ptr=pointer)
    nodes = np.concatenate(walk_means(graph, x, 2), axis=1)
    expected = np.stack([nodes[:2].mean(0), np.zeros(6), nodes[2:].mean(0)])
    columns = neighbourhood_columns(graph, "graph", np.array([0, 2]))
    assert columns[:, :-1] == pytest.approx(expected, abs=1e-6)
    assert columns[:, -1] == pytest.approx(np.log1p([2, 0, 3]))


@pytest.mark.parametrize("sparse", [False, True])
def test_wide_features_are_reduced_by_the_training_split_alone(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_columns, "MOST_ENTRIES", 2000)
    random = np.random.default_rng(1)
    x = random.normal(size=(NODES, 4)) @ random.normal(size=(4, 300))
    x = np.where(random.random(x.shape) < 0.05, x, 0) if sparse else x
    columns = neighbourhood_columns(_graph(x), "node", TRAIN)
    assert columns.shape == (NODES, 3 * len(TRAIN))  # no more directions than rows
    other = x.copy()
    other[40:] = 0
    same = neighbourhood_columns(_graph(other), "node", TRAIN)
    assert same[:40, : len(TRAIN)] == pytest.approx(columns[:40, : len(TRAIN)], abs=1e-3)


def test_too_much_work_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_columns, "MOST_WORK", 100)
    with pytest.raises(GpmError, match="edges with 2 columns would take too long"):
        neighbourhood_columns(_graph(np.zeros((NODES, 2))), "node", TRAIN)
    monkeypatch.setattr(instance_columns, "MOST_ENTRIES", 1)
    with pytest.raises(GpmError, match="60 nodes with 2 features are too many"):
        neighbourhood_columns(_graph(np.zeros((NODES, 2))), "node", TRAIN)


def test_structure_of_graphs_is_the_mean_over_their_nodes() -> None:
    graph = replace(_graph(), graph_ptr=np.array([0, 3, NODES]))
    nodes, graphs = (structure_columns(graph, level) for level in ("node", "graph"))
    np.testing.assert_allclose(graphs, [nodes[:3].mean(0), nodes[3:].mean(0)], rtol=1e-5)
