import time

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from gpm.explain.layout import place_nodes

GRAPHS = {
    "node": nx.empty_graph(1),
    "edge": nx.path_graph(2),
    "path": nx.path_graph(100),
    "cycle": nx.cycle_graph(80),
    "clique": nx.complete_graph(70),
    "star": nx.star_graph(90),
    "karate": nx.karate_club_graph(),
    "parts": nx.disjoint_union_all([nx.cycle_graph(6), nx.star_graph(70), nx.empty_graph(3), nx.path_graph(4)]),
}


def _place(graph: nx.Graph, starts: tuple[int, ...] = (0,)) -> NDArray:
    return place_nodes(len(graph), np.array(graph.edges, dtype=np.int64).reshape(-1, 2), starts)


@pytest.mark.parametrize("name", GRAPHS)
def test_places_are_apart_in_the_unit_square_and_the_same_again(name: str) -> None:
    points = _place(GRAPHS[name])
    assert points.shape == (len(GRAPHS[name]), 2)
    assert ((points >= 0) & (points <= 1)).all()
    distance = np.linalg.norm(points[:, None] - points, axis=-1) + np.eye(len(points))
    assert distance.min() > 0.004
    assert (points == _place(GRAPHS[name])).all()


def test_nothing_has_no_places() -> None:
    assert _place(nx.empty_graph(0)).shape == (0, 2)


@pytest.mark.parametrize(
    "graph", [nx.grid_2d_graph(9, 9), nx.circular_ladder_graph(40), nx.random_labeled_tree(90, seed=0)]
)
def test_joined_nodes_are_nearer_than_others(graph: nx.Graph) -> None:
    graph = nx.convert_node_labels_to_integers(graph)
    points, joined = _place(graph), nx.to_numpy_array(graph, dtype=bool)
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    apart = ~joined & ~np.eye(len(points), dtype=bool)
    assert distance[joined].mean() < distance[apart].mean() / 2
    assert distance[joined].max() < 4 * np.median(distance[joined])


def test_communities_are_seen() -> None:
    graph = nx.planted_partition_graph(3, 30, 0.4, 0.01, seed=0)
    points = _place(graph)
    middles = points.reshape(3, 30, 2).mean(axis=1)
    wrong = np.linalg.norm(points[:, None] - middles, axis=-1).argmin(axis=1) != np.repeat(np.arange(3), 30)
    assert wrong.mean() < 0.05


def test_parts_lie_side_by_side() -> None:
    graph = nx.disjoint_union_all([nx.star_graph(70), nx.cycle_graph(6), nx.complete_graph(5), nx.empty_graph(2)])
    points = _place(graph)
    boxes = [
        (points[list(part)].min(axis=0), points[list(part)].max(axis=0)) for part in nx.connected_components(graph)
    ]
    for i, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:i]:
            assert ((high < other_low) | (other_high < low)).any()


def test_a_hub_is_in_the_middle_of_its_leaves() -> None:
    assert np.abs(_place(nx.star_graph(100))[0] - 0.5).max() < 0.05


def test_many_nodes_and_edges_take_no_second() -> None:
    graph = nx.gnm_random_graph(500, 5000, seed=0)
    begin = time.process_time()
    _place(graph)
    assert time.process_time() - begin < 2  # half a second, and room for a busy machine
