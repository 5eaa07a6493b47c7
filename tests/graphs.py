"""Random graphs, and slow obvious versions of what the kernels do."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import Graph, WalkRule


@st.composite
def edge_lists(draw: Any, max_nodes: int = 12, max_edges: int = 40) -> tuple[int, NDArray]:
    """A number of nodes and edges `[2, E]` among them, with loops and repeats."""
    nodes = draw(st.integers(1, max_nodes))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1))
    edges = draw(st.lists(ends, max_size=max_edges))
    return nodes, np.array(edges, dtype=np.int64).reshape(-1, 2).T


@st.composite
def graphs(draw: Any, max_nodes: int = 12) -> Graph:
    """A graph of any kind: directed or not, weighted or not, with parallel edges or not."""
    nodes, edges = draw(edge_lists(max_nodes))
    weights = st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=edges.shape[1], max_size=edges.shape[1])
    return Graph.from_edges(
        edges,
        nodes,
        edge_weight=draw(st.none() | weights),
        undirected=draw(st.booleans()),
        duplicates=draw(st.sampled_from(["merge", "keep"])),
        keep_ids=draw(st.booleans()),
    )


RULES = [
    WalkRule(),
    WalkRule(p=0.1, q=10),
    WalkRule(p=10, q=0.1),
    WalkRule(q=3.0),
    WalkRule(p=4),
    WalkRule(p=50, q=5),
    WalkRule(non_backtracking=True),
    WalkRule(non_backtracking=True, q=0.5),
    WalkRule(weighted=False),
]


def weight_matrix(graph: Graph, weighted: bool = True) -> NDArray:
    """Dense `[N, N]`: total weight of the edges from i to j."""
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    weight = graph.edge_weight if weighted and graph.edge_weight is not None else np.ones(graph.num_edges)
    np.add.at(matrix, tuple(graph.edge_index()), weight)
    return matrix


def step_law(graph: Graph, rule: WalkRule, here: int, came_from: int | None) -> NDArray:
    """The exact distribution `[N]` of the next node, as the definition of node2vec says."""
    weights = weight_matrix(graph, rule.weighted)[here].copy()
    adjacent = weight_matrix(graph, weighted=False) > 0
    if came_from is not None:
        bias = np.where(adjacent[came_from], 1.0, 1.0 / rule.q)
        bias[came_from] = 1.0 / rule.p
        if rule.non_backtracking and weights.sum() > weights[came_from]:
            bias[came_from] = 0.0
        weights *= bias
    if weights.sum() == 0:
        weights[here] = 1.0
    return weights / weights.sum()
