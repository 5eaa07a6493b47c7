from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import Graph
from gpm.patterns.known_labels import PRIOR, STEPS, label_agreement, label_means
from gpm.patterns.walk_means import walk_law

NODES, CLASSES = 24, 3


def _graph(kind: str = "undirected", seed: int = 0) -> Graph:
    random = np.random.default_rng(seed)
    edges = random.integers(0, NODES - 2, (2, 60))  # with self-loops and parallel edges; the last two are isolated
    weight = random.random(60) + 0.05 if kind == "weighted" else None
    options: dict[str, Any] = {"undirected": kind != "directed", "edge_weight": weight, "duplicates": "keep"}
    return Graph.from_edges(edges, NODES, self_loops="keep", **options)


def _labels(seed: int = 0) -> tuple[NDArray, NDArray]:
    random = np.random.default_rng(seed)
    return np.eye(CLASSES)[random.integers(0, CLASSES, NODES)], random.random(NODES) < 0.6


@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted"])
def test_means_are_those_of_dense_powers_without_the_own_label(kind: str) -> None:
    graph, (values, known) = _graph(kind), _labels()
    law, found = walk_law(graph).toarray(), label_means(graph, values, known)
    assert found.shape == (NODES, STEPS * (CLASSES + 1))
    for steps in range(1, STEPS + 1):
        power = np.linalg.matrix_power(law, steps).copy()
        np.fill_diagonal(power, 0)
        mass = power @ known
        mean = power @ (values * known[:, None]) / (mass + PRIOR)[:, None]
        part = found[:, (steps - 1) * (CLASSES + 1) : steps * (CLASSES + 1)]
        np.testing.assert_allclose(part[:, :-1], mean, atol=1e-4)
        np.testing.assert_allclose(part[:, -1], mass, atol=1e-4)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), kind=st.sampled_from(["undirected", "directed", "weighted"]))
def test_changing_a_label_changes_no_bit_of_the_own_mean(seed: int, kind: str) -> None:
    graph, (values, known) = _graph(kind, seed), _labels(seed)
    before = label_means(graph, values, known)
    for node in np.random.default_rng(seed).permutation(np.flatnonzero(known))[:4]:
        changed = values.copy()
        changed[node] = [-15.3, 0.1234567, 9.87]
        assert label_means(graph, changed, known)[node].tobytes() == before[node].tobytes()
        hidden = known.copy()
        hidden[node] = False
        assert label_means(graph, values, hidden)[node].tobytes() == before[node].tobytes()


def test_labels_that_are_not_known_are_not_read() -> None:
    graph, (values, known) = _graph(), _labels()
    before = label_means(graph, values, known)
    values[~known] = np.nan
    np.testing.assert_array_equal(label_means(graph, values, known), before)


def test_a_label_reaches_its_neighbours() -> None:
    graph, (values, known) = _graph(), _labels()
    node = int(np.flatnonzero(known & (graph.degree() > 1))[0])
    other = values.copy()
    other[node] = np.roll(other[node], 1)
    moved = (label_means(graph, values, known) != label_means(graph, other, known)).any(1)
    near = [v for v in graph.neighbors(node).tolist() if v != node]
    assert moved[near].all()


def test_where_nothing_is_known_means_are_zero() -> None:
    graph, (values, known) = _graph(), _labels()
    assert not label_means(graph, values, np.zeros(NODES, dtype=bool)).any()
    assert not label_means(graph, values, known)[NODES - 2 :].any()  # isolated


def test_agreement_is_1_in_cliques_of_one_class_and_leaves_the_own_label_out() -> None:
    ends = np.array([[a, b] for first in (0, 6) for a in range(first, first + 6) for b in range(a + 1, first + 6)]).T
    graph, known = Graph.from_edges(ends, 12, undirected=True), np.ones(12, dtype=bool)
    values = np.eye(2)[np.arange(12) // 6]
    assert label_agreement(graph, values, known) > 0.99
    assert label_agreement(graph, values[np.arange(12) * 6 % 11 % 12], known) < 0.2
    alone = Graph.from_edges(np.stack([np.arange(12)] * 2), 12, self_loops="keep")  # each node sees itself alone
    assert label_agreement(alone, values, known) == 0.0
