"""Structure of a pair: as counted by hand in the graph that never had the link."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from gpm import Graph
from gpm.data.non_edges import drop_edges
from gpm.patterns import pair_structure
from gpm.patterns.pair_structure import PAIR_COLUMNS, PairStructure
from gpm.patterns.walk_means import links_of
from tests.graphs import graphs


def _count_by_hand(links: np.ndarray, u: int, v: int) -> list[float]:
    """Return the columns of a pair from a dense symmetric matrix of ones."""
    degree = links.sum(1)
    common = [a for a in range(len(links)) if links[u, a] and links[v, a]]
    paths = [
        (a, b) for a in range(len(links)) for b in range(len(links))
        if links[u, a] and links[a, b] and links[b, v] and a != v and b != u
    ]  # fmt: skip
    one, two = np.log1p(degree[u]), np.log1p(degree[v])
    return [
        one + two, abs(one - two), np.log1p(len(common)), np.log1p(sum(1 / np.log(max(degree[a], 2)) for a in common)),
        np.log1p(sum(1 / degree[a] for a in common)),
        len(common) / max(degree[u] + degree[v] - len(common), 1), np.log1p(len(paths)),
        np.log1p(sum((degree[a] * degree[b]) ** -0.5 for a, b in paths)),
    ]  # fmt: skip


@given(graphs(max_nodes=7))
@settings(max_examples=40, deadline=None)
def test_columns_are_those_of_the_graph_that_never_had_the_link(graph: Graph) -> None:
    structure = PairStructure.of(graph)
    for u in range(graph.num_nodes):
        for v in range(graph.num_nodes):
            if u == v:
                continue
            pair = np.array([[u, v]])
            left = drop_edges(graph, pair)
            by_hand = _count_by_hand(links_of(left).toarray(), u, v)
            assert structure.take(pair, hide=True)[0] == pytest.approx(by_hand, abs=1e-5)
            assert (structure.take(pair, hide=True) == PairStructure.of(left).take(pair, hide=False)).all()
            assert (structure.take(pair, hide=True) == structure.take(pair[:, ::-1], hide=True)).all()


def test_paths_through_hubs_are_sampled_evenly_and_never_through_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 200  # two hubs that share no neighbour; every neighbour of one is linked to one of the other
    side, other = np.arange(2, 2 + count), np.arange(2 + count, 2 + 2 * count)
    source = np.concatenate([np.zeros(count), np.ones(count), side, [0]]).astype(np.int64)
    target = np.concatenate([side, other, other, [1]]).astype(np.int64)
    graph = Graph.from_edges(np.stack([np.r_[source, target], np.r_[target, source]]), 2 + 2 * count)
    pair, at = np.array([[0, 1]]), PAIR_COLUMNS.index("paths of 3 steps (log)")
    monkeypatch.setattr(pair_structure, "MOST_WORK", 50)
    few = PairStructure.of(graph).take(pair, hide=True)
    assert np.expm1(few[0, at]) == pytest.approx(count, rel=0.1)
    assert (PairStructure.of(drop_edges(graph, pair)).take(pair, hide=False) == few).all()
