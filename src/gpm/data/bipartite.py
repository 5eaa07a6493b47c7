"""Bipartite graphs, such as users and items: two sides of nodes, with edges from one side to the other only."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from gpm.data.non_edges import number_edges
from gpm.errors import GpmError
from gpm.graph.graph import Graph

FEW_NODES = 50  # a graph that is not larger may have two sides by chance
FEW_CYCLES = 20  # so may one with fewer independent cycles, all of which are even: a tree has none, a ring one
MOST_EDGES = 20_000_000  # larger graphs are looked at on request only


def choose_sides(graph: Graph, wish: str, title: str) -> NDArray[np.int8] | None:
    """Return the sides of a graph as `find_sides` does, or None if it is to be treated as any graph.

    The wish is "yes", "no" or "auto", which does not take a small graph, a tree or a ring for one with two sides.
    """
    if wish == "no" or (wish == "auto" and graph.num_edges > MOST_EDGES):
        return None
    sides, cycles = find_sides(graph)
    if sides is None and wish == "yes":
        raise GpmError(f"{title} has no two sides: some of its cycles are odd; leave out --bipartite yes.")
    small = sides is not None and int((sides >= 0).sum()) <= FEW_NODES
    return None if wish == "auto" and (small or cycles < FEW_CYCLES) else sides


def find_sides(graph: Graph) -> tuple[NDArray[np.int8] | None, int]:
    """Return the side of each node, 0 or 1 and -1 without edges `[N]`, and the number of independent cycles.

    The side is None if there is an odd cycle. The first node of each component is on side 0. In the double cover, with
    two copies of each node and edges between different copies, a component with an odd cycle stays in one piece.
    """
    count, (source, target) = graph.num_nodes, graph.edge_index()
    ones = np.ones(2 * len(source), dtype=np.bool_)
    ends = np.concatenate([source, source + count]), np.concatenate([target + count, target])
    labels = connected_components(sp.coo_array((ones, ends), shape=(2 * count, 2 * count)), directed=False)[1]
    first, second = labels[:count], labels[count:]
    touched = np.zeros(count, dtype=np.bool_)
    touched[source] = touched[target] = True
    if (first == second)[touched].any():
        return None, 0
    _, lowest, component = np.unique(np.minimum(first, second), return_index=True, return_inverse=True)
    other: NDArray[np.bool_] = first > second
    sides = np.where(touched, other ^ other[lowest][component], -1).astype(np.int8)
    return sides, len(number_edges(graph)) - int(touched.sum()) + len(np.unique(component[touched]))
