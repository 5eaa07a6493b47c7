"""Steps follow the exact law: chi-square against the definition, where a wrong rule would show."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, chisquare

from gpm import Graph, WalkRule, walk
from tests.graphs import step_law

WALKS = 40_000
CHANCE = 1e-4  # a right kernel fails so seldom; seeds are fixed, so it fails always or never

# A triangle 0-1-2, a square behind it, a hub (3), a pendant (7): from most places there is a way back, a common
# neighbour and a far node.
EDGES = np.array([(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 2), (3, 6), (3, 0), (3, 7), (6, 4), (1, 5)]).T
WEIGHTS = np.array([1, 5, 0.2, 2, 1, 0, 3, 0.7, 1, 4, 0.1, 1])
BACK = np.array([(1, 0), (2, 1), (3, 2), (7, 3), (4, 3), (6, 3), (5, 4), (4, 6), (2, 5), (0, 0), (7, 7), (0, 1)]).T

GRAPHS = {
    "undirected": Graph.from_edges(EDGES, 8, undirected=True),
    "weighted": Graph.from_edges(EDGES, 8, undirected=True, edge_weight=WEIGHTS),
    "undirected with loops": Graph.from_edges(np.concatenate([EDGES, [[0, 7, 4], [0, 7, 4]]], 1), 8, undirected=True),
    "directed": Graph.from_edges(np.concatenate([EDGES, BACK], 1), 8),
    "directed parallel": Graph.from_edges(np.concatenate([EDGES, BACK], 1), 8, duplicates="keep"),
    "directed weighted": Graph.from_edges(
        np.concatenate([EDGES, BACK], 1), 8, edge_weight=np.concatenate([WEIGHTS, WEIGHTS[::-1]]), duplicates="keep"
    ),
}


Counts = dict[tuple[int, int | None], NDArray]  # by (node, node before it): how often each node came next


def surprise(counts: Counts, law) -> float:
    """p-value of all counts, by context, against the exact law of each context."""
    statistic, freedom = 0.0, 0
    for context, seen in counts.items():
        expected: NDArray = law(*context) * seen.sum()
        assert seen[expected == 0].sum() == 0, f"an impossible step after {context}"
        likely = expected >= 5
        statistic += float((((seen - expected) ** 2)[likely] / expected[likely]).sum())
        freedom += max(int(likely.sum()) - 1, 0)
    return float(chi2.sf(statistic, freedom))


def count_steps(nodes: NDArray, second_order: bool) -> tuple[Counts, Counts]:
    """How often each node followed a start, and each pair of nodes."""
    paths = nodes.reshape(-1, nodes.shape[-1]).astype(np.int64)
    first = np.bincount(paths[:, 0] * 8 + paths[:, 1], minlength=64).reshape(8, 8)
    before = paths[:, :-2] if second_order else np.zeros_like(paths[:, :-2])
    steps = (paths[:, 1:-1] * 8 + before) * 8 + paths[:, 2:]
    later = np.bincount(steps.ravel(), minlength=512).reshape(8, 8, 8)
    return (
        {(v, None): first[v] for v in range(8) if first[v].any()},
        {(v, t if second_order else None): later[v, t] for v in range(8) for t in range(8) if later[v, t].any()},
    )


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("q", [0.1, 1, 10])
@pytest.mark.parametrize("p", [0.1, 1, 10])
def test_node2vec_steps_are_exact(graph: Graph, p: float, q: float) -> None:
    rule = WalkRule(p=p, q=q)
    starts = np.arange(WALKS) % 8
    nodes, _ = walk(graph, starts, np.arange(WALKS), 4, seed=1, rule=rule)
    first, later = count_steps(nodes, rule.second_order)
    assert surprise(first, lambda v, t: step_law(graph, rule, v, t)) > CHANCE
    assert surprise(later, lambda v, t: step_law(graph, rule, v, t)) > CHANCE


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("q", [0.2, 1, 5])
def test_non_backtracking_steps_are_exact(graph: Graph, q: float) -> None:
    rule = WalkRule(non_backtracking=True, q=q)
    nodes, _ = walk(graph, np.arange(WALKS) % 8, np.arange(WALKS), 4, seed=2, rule=rule)
    _, later = count_steps(nodes, True)
    assert surprise(later, lambda v, t: step_law(graph, rule, v, t)) > CHANCE


def _without(graph: Graph, a: int, b: int) -> Graph:
    source, target = graph.edge_index()
    keep = ~(((source == a) & (target == b)) | ((source == b) & (target == a)))
    weight = None if graph.edge_weight is None else graph.edge_weight[keep]
    return Graph.from_edges(np.stack([source, target])[:, keep], 8, edge_weight=weight, duplicates="keep")


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("rule", [WalkRule(), WalkRule(p=0.1, q=10), WalkRule(p=10, q=0.1), WalkRule(q=10)], ids=str)
@pytest.mark.parametrize("edge", [(2, 3), (0, 2)])
def test_walks_beside_a_forbidden_edge_follow_the_law_of_the_graph_without_it(graph, rule, edge) -> None:
    nodes, _ = walk(graph, np.arange(WALKS) % 8, np.arange(WALKS), 4, seed=3, rule=rule, forbidden=edge)
    first, later = count_steps(nodes, rule.second_order)
    without = _without(graph, *edge)
    assert surprise(first, lambda v, t: step_law(without, rule, v, t)) > CHANCE
    assert surprise(later, lambda v, t: step_law(without, rule, v, t)) > CHANCE


def test_parallel_edges_are_crossed_in_proportion_to_their_weights() -> None:
    graph = Graph.from_edges([[0, 0, 0], [1, 1, 1]], 2, edge_weight=[1.0, 2.0, 5.0], duplicates="keep", keep_ids=True)
    _, edges = walk(graph, 0, np.arange(WALKS), 1, edges=True)
    assert chisquare(np.bincount(edges.ravel(), minlength=3), WALKS * np.array([1, 2, 5]) / 8).pvalue > CHANCE


@pytest.mark.parametrize("p", [1e-6, 1e6])
@pytest.mark.parametrize("q", [1e-3, 1e3])
def test_extreme_rules_end(p: float, q: float) -> None:
    star = Graph.from_edges([[0] * 6, range(1, 7)], undirected=True)
    for graph in (star, GRAPHS["weighted"]):
        nodes, _ = walk(graph, np.arange(7), 0, 6, rule=WalkRule(p=p, q=q))
        assert nodes.shape == (7, 7)


def test_walks_of_one_node_are_independent_of_each_other() -> None:
    graph = GRAPHS["undirected"]
    nodes, _ = walk(graph, 2, np.arange(WALKS), 1, seed=4)
    pairs = Counter(zip(nodes[:-1, 1].tolist(), nodes[1:, 1].tolist(), strict=True))
    exits = graph.neighbors(2).tolist()
    expected = (WALKS - 1) / len(exits) ** 2
    statistic = sum((pairs[(a, b)] - expected) ** 2 / expected for a in exits for b in exits)
    assert chi2.sf(statistic, len(exits) ** 2 - 1) > CHANCE


def test_the_well_known_mistake_would_be_caught() -> None:
    """A rejected return that is then tried as a far node returns too often where q < p: the chi-square test sees it."""
    graph, p, q = GRAPHS["undirected"], 10.0, 0.1
    rule, top = WalkRule(p=p, q=q), max(1 / p, 1.0, 1 / q)

    def mistaken(v: int, t: int) -> NDArray:
        weights = (step_law(graph, WalkRule(), v, None) > 0).astype(float)
        adjacent = np.isin(np.arange(8), graph.neighbors(t))
        accept = np.where(adjacent, 1.0, 1 / q) / top
        accept[t] = 1 / p / top + (1 - 1 / p / top) * (1 / q) / top
        return weights * accept / (weights * accept).sum()

    rng = np.random.default_rng(0)
    counts: Counts = {
        (v, t): np.bincount(rng.choice(8, size=5000, p=mistaken(v, t)), minlength=8)
        for v, t in ((3, 2), (2, 3), (5, 2))
    }
    assert surprise(counts, lambda v, t: step_law(graph, rule, v, t)) < 1e-12
