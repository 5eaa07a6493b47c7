import networkx as nx
import pytest

from gpm import GpmError, Graph, find_frequent


def test_counts_are_shares_of_the_samples() -> None:
    graph = Graph.from_networkx(nx.karate_club_graph(), weight=None)
    found = find_frequent(graph, top=10_000, samples=3000)
    assert sum(f.count for f in found) == 3000
    assert sum(f.share for f in found) == pytest.approx(1)
    assert [f.count for f in found] == sorted((f.count for f in found), reverse=True)
    assert find_frequent(graph, samples=3000, top=5)[4].example == found[4].example


def test_a_ring_of_triangles_shows_them() -> None:
    graph = nx.Graph()
    for i in range(30):
        nx.add_cycle(graph, [f"c{i}", f"c{(i + 1) % 30}", f"t{i}"])
    found = find_frequent(Graph.from_networkx(graph), lengths=(2,), samples=4000)
    assert {f.name for f in found} == {"edge", "triangle", "path of 3 nodes"}
    triangle = next(f for f in found if f.name == "triangle")
    assert len(set(triangle.example)) == 3
    assert all(graph.has_edge(a, b) for a, b in zip(triangle.example, triangle.example[1:], strict=False))


def test_patterns_around_a_node_start_there() -> None:
    graph = Graph.from_networkx(nx.relabel_nodes(nx.path_graph(5), dict(enumerate("abcde"))))
    assert all(f.example[0] == "c" for f in find_frequent(graph, node="c", samples=100))
    with pytest.raises(GpmError, match="No node is named 'z'"):
        find_frequent(graph, node="z")


@pytest.mark.parametrize("kind", ["loops", "induced"])
def test_ordered_topologies_show_their_walk(kind: str) -> None:
    graph = Graph.from_networkx(nx.complete_graph(3))
    found = find_frequent(graph, lengths=(2,), topology=kind, samples=100)
    assert {f.label for f in found} >= {"edge 0-1-0"}
    assert {f.code for f in found} == {(0, 1, 0), (0, 1, 2)}


def test_examples_can_be_read_whatever_the_names() -> None:
    graph = Graph.from_networkx(nx.Graph([("a-b", "c")]))
    assert {f.path for f in find_frequent(graph, lengths=(1,), samples=10)} <= {"a-b > c", "c > a-b"}
    with pytest.raises(GpmError, match="Give a gpm Graph, not a networkx Graph; "):
        find_frequent(nx.path_graph(3))  # type: ignore[arg-type]


def test_empty_graphs_have_no_patterns() -> None:
    with pytest.raises(GpmError, match="no nodes"):
        find_frequent(Graph.from_edges([[], []], 0))
    with pytest.raises(GpmError, match="top must be at least 1"):
        find_frequent(Graph.from_edges([[0], [1]]), top=0)
