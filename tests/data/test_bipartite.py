"""Bipartite graphs: their sides are found, and no other graph is taken for one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError, Graph
from gpm.data.bipartite import choose_sides, find_sides


def _graph(network: nx.Graph, **options: object) -> Graph:
    edges = np.array(list(network.edges), dtype=np.int64).reshape(-1, 2).T
    return Graph.from_edges(edges, network.number_of_nodes(), **{"undirected": True} | options)  # type: ignore[arg-type]


@given(st.integers(1, 30), st.integers(0, 60), st.integers(0, 2**32), st.booleans())
def test_sides_are_those_of_networkx(nodes: int, edges: int, seed: int, undirected: bool) -> None:
    network = nx.gnm_random_graph(nodes, edges, seed=seed)
    sides, cycles = find_sides(_graph(network, undirected=undirected))
    assert (sides is not None) == nx.is_bipartite(network)
    if sides is None:
        return
    assert all({int(sides[a]), int(sides[b])} == {0, 1} for a, b in network.edges)
    assert [int(side) for side in sides] == [-1 if not network.degree(i) else int(sides[i]) for i in range(nodes)]
    assert all(sides[min(part)] == 0 for part in nx.connected_components(network) if len(part) > 1)
    assert cycles == network.number_of_edges() - nodes + nx.number_connected_components(network)


@pytest.mark.parametrize(
    "network",
    [nx.cycle_graph(100), nx.balanced_tree(3, 5), nx.path_graph(200), nx.complete_bipartite_graph(20, 20), nx.Graph()],
)
def test_a_ring_a_tree_and_a_small_graph_are_not_taken_for_two_sides(network: nx.Graph) -> None:
    graph = _graph(network) if len(network) else Graph.from_edges([[0], [0]], 3)
    assert choose_sides(graph, "auto", "graph") is None
    assert (choose_sides(graph, "yes", "graph") is not None) if len(network) else True


def test_a_graph_with_an_odd_cycle_has_no_sides() -> None:
    network = nx.bipartite.random_graph(60, 40, 0.1, seed=1)
    assert choose_sides(_graph(network), "auto", "shop") is not None
    assert choose_sides(_graph(network), "no", "shop") is None
    network.add_edges_from([(0, 1), (1, 60), (0, 60)])
    assert choose_sides(_graph(network), "auto", "shop") is None
    with pytest.raises(GpmError, match="shop has no two sides: some of its cycles are odd; leave out --bipartite yes"):
        choose_sides(_graph(network), "yes", "shop")
