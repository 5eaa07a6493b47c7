import networkx as nx
import numpy as np
import pytest

from gpm import Graph, name_shape
from gpm.patterns.shape_names import shape_of
from gpm.patterns.topologies import find_topologies


def _name(graph: nx.Graph) -> str:
    return name_shape(nx.to_numpy_array(graph, dtype=bool))


@pytest.mark.parametrize(
    ("graph", "name"),
    [
        (nx.empty_graph(1), "node"),
        (nx.path_graph(2), "edge"),
        (nx.path_graph(5), "path of 5 nodes"),
        (nx.cycle_graph(3), "triangle"),
        (nx.cycle_graph(4), "square"),
        (nx.cycle_graph(6), "hexagon"),
        (nx.cycle_graph(9), "9-cycle"),
        (nx.star_graph(4), "star of 4 leaves"),
        (nx.complete_graph(4), "4-clique"),
        (nx.house_graph(), "house"),
        (nx.house_x_graph(), "house with a cross"),
        (nx.Graph([*nx.house_graph().edges, (0, 5)]), "house with tail"),
        (nx.Graph([*nx.house_graph().edges, (2, 5)]), "house with tail"),
        (nx.Graph([*nx.house_graph().edges, (4, 5)]), "house with tail"),
        (nx.bull_graph(), "bull"),
        (nx.diamond_graph(), "diamond"),
        (nx.wheel_graph(6), "wheel of 5 spokes"),
        (nx.complete_bipartite_graph(2, 3), "complete bipartite 2,3"),
        (nx.cubical_graph(), "cube"),
        (nx.windmill_graph(3, 3), "windmill of 3 triangles"),
        (nx.windmill_graph(2, 3), "butterfly"),
        (nx.petersen_graph(), "Petersen graph"),
        (nx.balanced_tree(2, 2), "tree of 7 nodes"),
        (nx.tadpole_graph(6, 2), "hexagon with tail of 2"),
        (nx.Graph([*nx.cycle_graph(6).edges, (0, 6), (3, 7)]), "hexagon with branches of 2 nodes"),
        (nx.Graph([*nx.cycle_graph(9).edges, *((0, i) for i in range(9, 14))]), "9-cycle with branches of 5 nodes"),
        (nx.Graph([*nx.cycle_graph(10).edges, (0, 5)]), "two hexagons"),
        (nx.Graph([*nx.cycle_graph(9).edges, (0, 4)]), "hexagon and pentagon"),
        (nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)), "6 nodes, 6 edges"),
        (nx.random_regular_graph(4, 9, seed=0), "9 nodes, 18 edges"),
        (nx.cycle_graph(30), "30 nodes, 30 edges"),
    ],
)
def test_known_graphs_have_their_names(graph: nx.Graph, name: str) -> None:
    assert _name(graph) == name
    order = np.random.default_rng(0).permutation(len(graph)).tolist()
    assert _name(nx.relabel_nodes(graph, dict(zip(graph, order, strict=True)))) == name


def test_only_connected_graphs_are_trees() -> None:
    assert _name(nx.disjoint_union(nx.cycle_graph(3), nx.empty_graph(1))) == "4 nodes, 3 edges"
    directed = np.array([[1, 1, 0], [0, 0, 1], [1, 0, 0]])  # a cycle one way, and a self-loop
    assert name_shape(directed) == "triangle"


def test_loops_draw_the_edges_that_the_walk_crossed() -> None:
    complete = Graph.from_networkx(nx.complete_graph(4))
    walks = np.array([[0, 1, 2, 3, 0], [0, 1, 0, 2, 0]])
    loops, induced = (find_topologies(complete, walks, kind) for kind in ("loops", "induced"))
    names = [name_shape(shape_of(table, place)) for places, table in (loops, induced) for place in places]
    assert names == ["square", "path of 3 nodes", "4-clique", "triangle"]
