"""Names of well-known small graphs, looked up by the key of their isomorphism class."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from gpm.config import MAX_POSITIONS
from gpm.errors import GpmError
from gpm.patterns.topologies import Topologies, shape_keys

_LARGEST = 12  # nodes of the largest graphs that have a name
_HOUSE = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4), (1, 4)]  # 4 is the roof
_POLYGONS = {3: "triangle", 4: "square", 5: "pentagon", 6: "hexagon"}
_SMALL = {
    "diamond": "01 02 12 13 23",
    "house with a cross": "01 12 23 30 04 14 02 13",
    "bull": "01 12 20 03 14",
    "butterfly": "01 12 20 03 34 40",
    "cricket": "01 12 20 03 04",
    "kite": "01 02 12 13 23 34",
    "dart": "01 02 12 13 23 14",
    "two squares": "01 12 23 30 34 45 52",
    "two hexagons": "01 12 23 34 45 50 46 67 78 89 95",
    "hexagon and pentagon": "01 12 23 34 45 50 46 67 78 85",
    "fork": "01 12 23 14",
}


def shape_key(adjacency: NDArray[np.bool_]) -> int:
    """Return the key of the isomorphism class of an undirected graph `[n, n]`, n at most 64: that of a `shape`."""
    if adjacency.ndim != 2 or len(set(adjacency.shape)) != 1 or not 1 <= len(adjacency) <= MAX_POSITIONS:
        raise GpmError(f"A shape is a square matrix of 1 to {MAX_POSITIONS} nodes, got {list(adjacency.shape)}.")
    bits = ((adjacency != 0).astype(np.uint64) << np.arange(len(adjacency), dtype=np.uint64)).sum(
        axis=1, dtype=np.uint64
    )
    return int(shape_keys(bits[None], np.array([len(adjacency)])).view(np.int64)[0])


def shape_of(table: Topologies, index: int) -> NDArray[np.bool_]:
    """Return the graph `[n, n]` of a topology: the induced subgraph, or for `loops` the edges that the walk crossed."""
    size = int(table.sizes[index])
    if table.adjacency is not None:
        graph = table.adjacency[index, :size, :size]
        return graph | graph.T
    assert table.codes is not None
    code = table.codes[index]
    code = code[code >= 0].astype(np.int64)
    graph = np.zeros((size, size), dtype=np.bool_)
    graph[code[:-1], code[1:]] = graph[code[1:], code[:-1]] = True
    np.fill_diagonal(graph, False)
    return graph


def name_shape(adjacency: NDArray[np.bool_]) -> str:
    """Name an undirected graph `[n, n]`: "triangle", "house", ..., or its size if it has no name."""
    adjacency = (adjacency != 0) | (adjacency != 0).T
    np.fill_diagonal(adjacency, False)
    nodes, edges = len(adjacency), int(adjacency.sum()) // 2
    if nodes <= _LARGEST and (name := _names().get(shape_key(adjacency))):
        return name
    if edges in (nodes - 1, nodes) and nx.is_connected(graph := nx.from_numpy_array(adjacency)):
        cycle = len(nx.k_core(graph, 2))
        if not cycle:
            return f"tree of {nodes} nodes"
        if cycle < nodes:
            return f"{_polygon(cycle)} with branches of {nodes - cycle} nodes"
    return f"{nodes} nodes, {edges} edges"


@cache
def _names() -> dict[int, str]:
    named: dict[int, str] = {}
    for graph, name in _families():
        named.setdefault(shape_key(nx.to_numpy_array(graph, dtype=np.bool_)), name)
    return named


def _families() -> Iterator[tuple[nx.Graph, str]]:
    """Yield graphs with their names; of two names for one graph the first counts."""
    yield nx.empty_graph(1), "node"
    yield nx.path_graph(2), "edge"
    yield nx.Graph(_HOUSE), "house"
    for name, edges in _SMALL.items():
        yield nx.Graph([(edge[0], edge[1]) for edge in edges.split()]), name
    for n in range(3, _LARGEST + 1):
        yield nx.path_graph(n), f"path of {n} nodes"
        yield nx.cycle_graph(n), _polygon(n)
        yield nx.complete_graph(n), f"{n}-clique"
        yield nx.star_graph(n - 1), f"star of {n - 1} leaves"
        if n >= 5:
            yield nx.wheel_graph(n), f"wheel of {n - 1} spokes"
            yield _join(nx.path_graph(n - 1), nx.empty_graph(1)), f"fan of {n} nodes"
            yield _join(nx.complete_graph(n - 2), nx.empty_graph(2)), f"{n}-clique less an edge"
    for a in range(2, _LARGEST // 2 + 1):
        for b in range(a, _LARGEST - a + 1):
            yield nx.complete_bipartite_graph(a, b), f"complete bipartite {a},{b}"
    for triangles in range(2, 6):
        yield nx.windmill_graph(triangles, 3), f"windmill of {triangles} triangles"
    for pages in range(3, _LARGEST - 1):
        yield _join(nx.path_graph(2), nx.empty_graph(pages)), f"book of {pages} triangles"
    for cycle in range(3, 9):
        for tail in range(1, _LARGEST - cycle + 1):
            word = "tail" if tail == 1 else f"tail of {tail}"
            yield _tadpole(cycle, tail), f"{_polygon(cycle)} with {word}"
    for clique in range(4, 8):
        for tail in range(1, 4):
            word = "tail" if tail == 1 else f"tail of {tail}"
            yield nx.lollipop_graph(clique, tail), f"{clique}-clique with {word}"
    for rungs in range(3, 7):
        yield nx.ladder_graph(rungs), f"ladder of {rungs} rungs"
    for n in (3, 5, 6):
        yield nx.circular_ladder_graph(n), f"prism of a {_POLYGONS[n]}"
    for corner in (0, 2, 4):
        yield nx.Graph([*_HOUSE, (corner, 5)]), "house with tail"
    yield nx.hypercube_graph(3), "cube"
    yield nx.octahedral_graph(), "octahedron"
    yield nx.grid_2d_graph(3, 3), "3 x 3 grid"
    yield nx.petersen_graph(), "Petersen graph"


def _polygon(n: int) -> str:
    return _POLYGONS.get(n, f"{n}-cycle")


def _join(one: nx.Graph, two: nx.Graph) -> nx.Graph:
    """Connect every node of one graph to every node of another."""
    return nx.full_join(one, two, rename=("one", "two"))


def _tadpole(cycle: int, tail: int) -> nx.Graph:
    graph = nx.cycle_graph(cycle)
    nx.add_path(graph, [0, *range(cycle, cycle + tail)])
    return graph
