import time
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import Graph
from gpm.data.molecules import load_molecules
from gpm.explain.explanation import View
from gpm.explain.neighbourhood import MOST_NODES, build_view
from gpm.explain.node_types import find_kinds
from tests.graphs import graphs


def _pairs(view: View) -> set[tuple[int, int]]:
    return {(edge.source, edge.target) for edge in view.edges}


def _walk(graph: Graph, start: int, length: int, rng: np.random.Generator) -> list[int]:
    walk = [start]
    while len(walk) <= length and len(near := graph.neighbors(walk[-1])):
        walk.append(int(rng.choice(near)))
    return walk


@settings(max_examples=30)
@given(graphs(), st.integers(0, 99), st.integers(0, 15), st.sampled_from(["node", "graph"]))
def test_exactly_the_edges_among_drawn_nodes_are_drawn(graph: Graph, seed: int, room: int, level: str) -> None:
    rng = np.random.default_rng(seed)
    start = int(rng.integers(graph.num_nodes))
    walks = [_walk(graph, start, 4, rng) for _ in range(2)]
    view, places = build_view(graph, [start], walks, [1.0, 0.5], level=level, room=room)
    needed = {start, *walks[0], *walks[1]}
    assert needed <= set(places)
    assert len(view.nodes) == len(places) == len(set(places.values()))
    assert level == "graph" or len(view.nodes) <= max(room, len(needed))
    assert level == "node" or set(places) == set(range(graph.num_nodes))
    expected = {
        (min(places[a], places[b]), max(places[a], places[b]))
        for a, b in graph.edge_index().T.tolist()
        if a in places and b in places and a != b
    }
    assert _pairs(view) == expected
    assert len(view.edges) == len(expected)
    assert all(edge.source < edge.target for edge in view.edges)
    assert all(0 <= node.x <= 1 and 0 <= node.y <= 1 for node in view.nodes)
    assert [node.start for node in view.nodes] == [v == start and level != "graph" for v in places]
    assert (view, places) == build_view(graph, [start], walks, [1.0, 0.5], level=level, room=room)


@settings(max_examples=6)
@given(st.integers(0, 99))
def test_how_nodes_are_numbered_changes_no_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = nx.gnm_random_graph(40, 60, seed=seed)
    order = rng.permutation(40)
    first = Graph.from_networkx(graph)
    second = Graph.from_edges(order[first.edge_index()], 40)
    walk = _walk(first, 0, 5, rng)
    views = [
        build_view(g, [s], [w], [1.0], level="node", room=12)[0]
        for g, s, w in ((first, 0, walk), (second, int(order[0]), order[walk].tolist()))
    ]
    facts = [(len(v.nodes), v.hidden, sorted(n.weight for n in v.nodes)) for v in views]
    assert facts[0] == facts[1]


def test_nearer_nodes_come_first_and_those_without_room_are_counted() -> None:
    graph = Graph.from_networkx(nx.balanced_tree(3, 3))  # 1, 3, 9 and 27 nodes
    for room, nodes, hidden in ((1, 1, 0), (2, 2, 2), (4, 4, 0), (6, 6, 7), (13, 13, 0), (99, 40, 0)):
        view, places = build_view(graph, [0], [], [], level="node", room=room)
        assert (len(view.nodes), view.hidden) == (nodes, hidden)
        assert set(places) == set(range(nodes))
    view, places = build_view(graph, [0], [[0, 2, 7, 22]], [1.0], level="node", room=5)
    assert set(places) == {0, 2, 7, 22, 1}
    assert view.hidden == 1
    view, places = build_view(graph, [0], [[0, 2, 7, 22]], [1.0], level="node", room=1)
    assert set(places) == {0, 2, 7, 22}
    assert view.hidden == 2


def test_heavier_edges_lead_to_nodes_that_come_first() -> None:
    weights = [1.0, 5.0, 2.0, 4.0]
    graph = Graph.from_edges([[0] * 4, [1, 2, 3, 4]], 5, edge_weight=weights, undirected=True)
    assert set(build_view(graph, [0], [], [], level="node", room=3)[1]) == {0, 2, 4}


def test_weights_are_the_share_of_patterns_through_a_node_or_edge() -> None:
    graph = Graph.from_networkx(nx.path_graph(5))
    walks = [[1, 0, 1, 2], [1, 2, 2, 3], [3, 4]]
    view, places = build_view(graph, [1], walks, [3.0, 1.0, -2.0], level="node")
    assert {v: view.nodes[place].weight for v, place in places.items()} == {0: 0.75, 1: 1.0, 2: 1.0, 3: 0.25, 4: 0.0}
    names = {frozenset((int(view.nodes[e.source].name), int(view.nodes[e.target].name))): e.weight for e in view.edges}
    assert names == {frozenset(pair): w for pair, w in (((0, 1), 0.75), ((1, 2), 1.0), ((2, 3), 0.25), ((3, 4), 0.0))}


def test_nothing_counts_if_no_pattern_speaks_for_it() -> None:
    graph = Graph.from_networkx(nx.path_graph(3))
    view, _ = build_view(graph, [0], [[0, 1]], [-1.0], level="node")
    assert {thing.weight for thing in (*view.nodes, *view.edges)} == {0.0}


def test_the_lightest_patterns_give_way_where_there_are_too_many() -> None:
    graph = Graph.from_networkx(nx.path_graph(2000))
    walks = [list(range(i, i + 60)) for i in range(0, 1200, 60)]
    view, places = build_view(graph, [0], walks, [float(i) for i in range(20)], level="node", room=400)
    fits = [i for i, walk in enumerate(walks) if all(node in places for node in walk)]
    assert len(view.nodes) <= MOST_NODES
    assert fits == list(range(12, 20))
    assert 0 in places
    dropped = [view.nodes[places[v]].weight for v in range(1200) if v in places and v // 60 not in fits]
    assert set(dropped) == {0.0}


@pytest.mark.parametrize("level", ["node", "graph"])
def test_there_are_never_more_than_500_nodes(level: str) -> None:
    graph = Graph.from_networkx(nx.grid_2d_graph(30, 30))
    starts = list(range(900)) if level == "graph" else [450]
    view, places = build_view(graph, starts, [[450, 451, 452]], [1.0], level=level, room=10_000)
    assert len(view.nodes) == MOST_NODES
    assert {450, 451, 452} <= set(places)


def test_of_a_graph_that_is_too_large_the_surroundings_of_the_patterns_are_drawn() -> None:
    graph = Graph.from_networkx(nx.path_graph(1000))
    _, places = build_view(graph, range(1000), [[700, 701]], [1.0], level="graph", room=10)
    assert set(places) == set(range(696, 706))
    assert set(build_view(graph, range(1000), [], [], level="graph", room=4)[1]) == {0, 1, 2, 3}


def test_a_hub_is_not_read_to_its_end() -> None:
    leaves = 100_000
    graph = Graph.from_edges(np.stack([np.zeros(leaves, dtype=np.int64), np.arange(1, leaves + 1)]), undirected=True)
    begin = time.process_time()
    view, places = build_view(graph, [7], [[7, 0, 99_999, 0]], [1.0], level="node")
    assert time.process_time() - begin < 1
    assert set(places) == {7, 0, 99_999, *range(1, 119)}
    assert _pairs(view) == {tuple(sorted((places[0], places[v]))) for v in places if v}
    assert view.hidden == leaves + 1 - 120


def test_an_isolated_node_and_a_graph_in_parts() -> None:
    graph = Graph.from_edges([[1, 2], [2, 1]], 4)
    view, places = build_view(graph, [0], [[0]], [1.0], level="node")
    assert (len(view.nodes), view.edges, view.hidden, places) == (1, (), 0, {0: 0})
    assert (view.nodes[0].x, view.nodes[0].y, view.nodes[0].weight) == (0.5, 0.5, 1.0)
    view, _ = build_view(graph, [0], [], [], level="graph")
    assert (len(view.nodes), len(view.edges)) == (4, 1)
    assert len({(node.x, node.y) for node in view.nodes}) == 4


def test_an_edge_of_one_or_two_directions_is_drawn_once() -> None:
    graph = Graph.from_edges([[0, 1, 2, 2, 3], [1, 0, 1, 2, 0]], 4)
    view, places = build_view(graph, [2], [[2, 1, 0]], [1.0], level="node")
    assert set(places) == {2, 1, 0}
    assert len(view.edges) == 2
    assert {edge.weight for edge in view.edges} == {1.0}
    assert len(build_view(graph, [3], [], [], level="graph")[0].edges) == 3


def test_of_a_collection_exactly_the_explained_graph_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("smiles,y\nC=CN,0\nO=[N+]([O-])c1ccccc1,1\nCC,0\n")
    data = load_molecules(tmp_path / "m.csv", target="y")
    kinds = find_kinds(data, "")
    view, places = build_view(data.graph, [5], [[3, 4, 5]], [2.0], level="graph", room=3, kinds=kinds)
    assert list(places) == list(range(3, 12))
    assert view.atoms
    assert [node.kind for node in view.nodes] == ["O", "N", "O", *["C"] * 6]
    assert [node.name for node in view.nodes[:2]] == ["1:0", "1:1"]
    assert sorted(edge.kind for edge in view.edges) == ["aromatic"] * 6 + ["double", "single", "single"]
    assert {places[v] for v in (3, 4, 5)} == {i for i, node in enumerate(view.nodes) if node.weight}


def test_names_and_labels_pass_through_as_they_are() -> None:
    names = ["<img src=x onerror=alert(1)>", "ü\n\"'&", "", "a-b"]
    graph = Graph.from_edges([[0, 1, 2], [1, 2, 3]], 4, undirected=True, names=names)
    view, places = build_view(graph, [0], [], [], level="node", labels=lambda v: f"<{v}>")
    assert [view.nodes[places[v]].name for v in range(4)] == names
    assert [view.nodes[places[v]].kind for v in range(4)] == ["<0>", "<1>", "<2>", "<3>"]
    assert {node.kind for node in build_view(graph, [0], [], [], level="node")[0].nodes} == {""}


def _features(x: object, node: int = 0) -> tuple[tuple[str, float], ...]:
    graph = Graph.from_edges([[0, 1], [1, 2]], 3, undirected=True, x=x)
    view, places = build_view(graph, [0], [], [], level="node")
    return view.nodes[places[node]].features


def test_the_most_telling_features_are_shown() -> None:
    assert _features(None) == ()
    assert _features(np.zeros((3, 0))) == ()
    assert _features(np.arange(30).reshape(3, 10)) == tuple((f"column {i}", float(i)) for i in range(8))
    bag = np.zeros((3, 20))
    bag[0, [3, 5, 7]], bag[1, 5] = [1, 1, 2], 1
    expected = (("column 7", 2.0), ("column 3", 1.0), ("column 5", 1.0))  # column 5 is not rare
    assert _features(bag) == _features(sp.csr_array(bag)) == expected
    assert len(_features(np.ones((3, 20)))) == 8
    numbers = np.random.default_rng(0).normal(size=(3, 20))
    numbers[:, 4], numbers[0, 4] = 100, 101.23456
    assert _features(numbers)[0] == ("column 4", 101.2)
    assert len(_features(numbers)) == 8
    numbers[0] = np.nan
    assert _features(numbers) == ()


def test_a_large_neighbourhood_takes_seconds_at_most() -> None:
    graph = Graph.from_networkx(nx.barabasi_albert_graph(5000, 12, seed=0))
    begin = time.process_time()
    view, _ = build_view(graph, [4000], [], [], level="node", room=500)
    assert time.process_time() - begin < 3
    assert len(view.nodes) == 500
