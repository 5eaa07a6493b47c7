from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import GpmError, Graph, WalkRule, walk
from gpm.patterns.shape_names import shape_key
from gpm.patterns.topologies import (
    EXACT_POSITIONS,
    EXACT_SHAPE,
    KINDS,
    MOST_NODES,
    distinct,
    find_topologies,
    shape_keys,
)
from tests.graphs import graphs, weight_matrix

# How many graphs of n nodes there are, up to isomorphism (OEIS A000088, from n = 1).
COUNTS = [1, 2, 4, 11, 34, 156, 1044, 12346, 274668]


def anonymous(walk_: list) -> list[int]:
    seen: dict = {}
    return [seen.setdefault(node, len(seen)) for node in walk_]


def keys_of(graph: Graph, walks: NDArray, kind: str, **options) -> NDArray:
    places, table = find_topologies(graph, walks, kind, **options)
    return table.keys[places]


def relabel(graph: Graph, order: NDArray) -> Graph:
    return Graph.from_edges(order[graph.edge_index()], graph.num_nodes, duplicates="keep")


def _walks(graph: Graph, length: int = 8, count: int = 6) -> NDArray:
    nodes, _ = walk(graph, np.arange(graph.num_nodes)[:, None], np.arange(count), length, seed=1)
    return nodes.reshape(-1, length + 1)


@given(graphs())
def test_anonymous_walks_equal_the_reference(graph: Graph) -> None:
    walks = _walks(graph)
    places, table = find_topologies(graph, walks, "loops")
    assert table.codes is not None
    assert [anonymous(path) for path in walks.tolist()] == table.codes[places].tolist()
    assert len({tuple(code) for code in table.codes.tolist()}) == len(table)


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=30), min_size=1, max_size=20))
def test_loops_keys_are_equal_just_where_the_anonymous_walks_are(paths: list[list[int]]) -> None:
    width = max(map(len, paths))
    walks = np.array([path + [-1] * (width - len(path)) for path in paths])
    keys = keys_of(Graph.from_edges([[], []], 31), walks, "loops")
    codes = [tuple(anonymous(path)) for path in paths]
    assert len(set(zip(codes, keys.tolist(), strict=True))) == len(set(codes)) == len(set(keys.tolist()))


def test_short_keys_spell_the_walk() -> None:
    graph = Graph.from_edges([[], []], 9)
    keys = keys_of(graph, np.array([[7, 8, 2, 7, 5]]), "loops")  # A-B-C-A-D: 0-1-2-0-3
    assert keys.tolist() == [(4 << 60) | 0x3021]
    assert EXACT_POSITIONS == 16


@given(graphs(), st.sampled_from(KINDS), st.randoms(use_true_random=False))
def test_keys_survive_relabelling(graph: Graph, kind: str, random) -> None:
    order = np.array(random.sample(range(graph.num_nodes), graph.num_nodes))
    walks = _walks(graph)
    np.testing.assert_array_equal(keys_of(graph, walks, kind), keys_of(relabel(graph, order), order[walks], kind))


@given(graphs())
def test_induced_adjacency_is_that_of_the_graph(graph: Graph) -> None:
    walks = _walks(graph)
    places, table = find_topologies(graph, walks, "induced")
    assert table.adjacency is not None
    matrix = weight_matrix(graph, weighted=False) > 0
    np.fill_diagonal(matrix, False)
    for path, place in zip(walks.tolist(), places, strict=True):
        nodes = list(dict.fromkeys(path))
        assert table.sizes[place] == len(nodes)
        np.testing.assert_array_equal(table.adjacency[place, : len(nodes), : len(nodes)], matrix[np.ix_(nodes, nodes)])


@given(graphs())
def test_induced_tells_apart_all_that_the_others_do(graph: Graph) -> None:
    walks = _walks(graph)
    induced, loops, shape = (keys_of(graph, walks, kind).tolist() for kind in ("induced", "loops", "shape"))
    assert len(set(induced)) == len(set(zip(induced, loops, strict=True)))
    if not graph.census.directed:
        assert len(set(induced)) == len(set(zip(induced, shape, strict=True)))


@given(graphs())
def test_shape_keys_are_equal_just_where_the_visited_subgraphs_are_isomorphic(graph: Graph) -> None:
    walks = _walks(graph, count=2)
    places, table = find_topologies(graph, walks, "shape")
    matrix = weight_matrix(graph, weighted=False) > 0
    whole = nx.from_numpy_array(matrix | matrix.T)
    whole.remove_edges_from(list(nx.selfloop_edges(whole)))
    subgraphs = [whole.subgraph(path) for path in walks.tolist()]
    representative = {int(place): subgraph for place, subgraph in zip(places, subgraphs, strict=True)}
    for place, subgraph in zip(places, subgraphs, strict=True):
        assert nx.is_isomorphic(representative[int(place)], subgraph)
    different = list(representative.values())
    assert not any(nx.is_isomorphic(a, b) for i, a in enumerate(different) for b in different[:i])
    assert len(set(table.keys.tolist())) == len(table)


def test_every_graph_up_to_nine_nodes_has_a_shape_key_of_its_own() -> None:
    """Isomorphic graphs share a key, so as many keys as there are graphs means that none share who should not.

    Every graph of n+1 nodes is one of n nodes and a further node, joined to at least as many as any other node is.
    """
    found = np.zeros((1, 1), dtype=np.uint64)
    assert len(COUNTS) == EXACT_SHAPE
    for n, count in enumerate(COUNTS[1:], 1):
        places = np.arange(n, dtype=np.uint64)
        bits = (np.arange(2**n, dtype=np.uint64)[:, None] >> places) & np.uint64(1)
        degrees = ((found[:, :, None] >> places) & np.uint64(1)).sum(-1).astype(np.uint8)
        most = (degrees[:, None] + bits.astype(np.uint8)).max(-1)
        old, joined = np.nonzero(bits.sum(1) >= most)
        rows = np.zeros((len(old), n + 1), dtype=np.uint64)
        rows[:, :n] = found[old] | (bits[joined] << np.uint64(n))
        rows[:, n] = joined
        first, _ = distinct(shape_keys(rows, np.full(len(rows), n + 1)))
        assert len(first) == count
        found = rows[first]


@pytest.mark.parametrize(
    ("graph", "key"),
    [
        (nx.path_graph(2), 2457391768097239251),
        (nx.cycle_graph(3), -7650722660956829496),
        (nx.complete_graph(5), None),
        (nx.petersen_graph(), None),
    ],
)
def test_shape_keys_are_those_of_every_other_machine(graph: nx.Graph, key: int | None) -> None:
    found = shape_key(nx.to_numpy_array(graph, dtype=bool))
    assert key is None or found == key
    shuffled = nx.relabel_nodes(graph, dict(zip(graph, reversed(list(graph)), strict=True)))
    assert found == shape_key(nx.to_numpy_array(shuffled, nodelist=sorted(shuffled), dtype=bool))


def _rook_and_shrikhande() -> tuple[Graph, Graph]:
    """Two strongly regular graphs of 16 nodes with the same parameters."""
    rook = nx.line_graph(nx.complete_bipartite_graph(4, 4))
    steps = [(0, 1), (1, 0), (1, 1)]
    torus = [((a, b), ((a + x) % 4, (b + y) % 4)) for a in range(4) for b in range(4) for x, y in steps]
    return Graph.from_networkx(rook), Graph.from_networkx(nx.Graph(torus))


def test_shapes_tell_strongly_regular_graphs_apart() -> None:
    """The shapes of a short walk do; no count of anonymous walks that short can."""
    met = []
    for graph in _rook_and_shrikhande():
        walks, _ = walk(graph, np.arange(16)[:, None], np.arange(400), 4, rule=WalkRule(non_backtracking=True))
        met.append({kind: set(keys_of(graph, walks.reshape(-1, 5), kind).tolist()) for kind in ("loops", "shape")})
    assert met[0]["loops"] == met[1]["loops"]
    assert met[0]["shape"] != met[1]["shape"]


def test_refined_tells_apart_what_no_shape_of_the_walk_can() -> None:
    """From a node of a hexagon and of two triangles nothing differs in two steps but what lies beyond the walk."""
    hexagon, triangles = (
        Graph.from_networkx(nx.cycle_graph(6)),
        Graph.from_networkx(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))),
    )
    start = np.zeros((1, 1), dtype=np.int64)
    assert keys_of(hexagon, start, "shape") == keys_of(triangles, start, "shape")
    assert keys_of(hexagon, start, "refined") != keys_of(triangles, start, "refined")


def test_refined_reads_the_graph_of_the_walk_alone() -> None:
    """In a collection, the other graphs make no difference."""
    parts = [nx.cycle_graph(5), nx.path_graph(4), nx.cycle_graph(5)]
    whole = Graph.from_networkx(nx.disjoint_union_all(parts))
    collection = replace(whole, graph_ptr=np.array([0, 5, 9, 14]))
    walks = np.array([[0, 1], [5, 6], [9, 10]])
    alone = [keys_of(Graph.from_networkx(part), np.array([[0, 1]]), "refined")[0] for part in parts]
    np.testing.assert_array_equal(keys_of(collection, walks, "refined"), alone)
    assert alone[0] == alone[2] != alone[1]


def test_refined_is_not_for_links_or_large_graphs() -> None:
    large = Graph.from_edges([[0], [1]], MOST_NODES + 1)
    with pytest.raises(GpmError, match=r"at most 4,096 nodes; this graph has 4,097"):
        find_topologies(large, np.array([[0, 1]]), "refined")
    with pytest.raises(GpmError, match="'refined' is for nodes and graphs, not for links"):
        find_topologies(large, np.array([[0, 1]]), "refined", forbidden=np.array([[0, 1]]))


@pytest.mark.parametrize("kind", KINDS)
def test_threads_do_not_change_topologies(kind: str) -> None:
    graph = Graph.from_edges(np.random.default_rng(0).integers(0, 60, (2, 200)), 60, undirected=True)
    walks = _walks(graph, count=60)
    one, two = (find_topologies(graph, walks, kind, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_array_equal(one[1].keys, two[1].keys)


@given(st.lists(st.integers(0, 5), max_size=50))
def test_distinct_numbers_keys_by_first_appearance(values: list[int]) -> None:
    first, inverse = distinct(np.array(values, dtype=np.uint64))
    assert [values[i] for i in first] == list(dict.fromkeys(values))
    assert [values[first[i]] for i in inverse] == values


def test_mistakes_get_a_sentence() -> None:
    graph = Graph.from_edges([[0], [1]])
    with pytest.raises(GpmError, match="Unknown topology 'loop'; choose one of loops, induced, shape, refined"):
        find_topologies(graph, np.zeros((1, 3), dtype=np.int32), "loop")  # type: ignore[arg-type]
    with pytest.raises(GpmError, match="A walk visits node 7, but nodes are numbered 0 to 1"):
        find_topologies(graph, np.array([[0, 7]]), "induced")
    with pytest.raises(GpmError, match="walks must be integers"):
        find_topologies(graph, np.zeros((2, 2)), "loops")
    with pytest.raises(GpmError, match=r"forbidden must have shape \[1, 2\]"):
        find_topologies(graph, np.array([[0, 1]]), "induced", forbidden=np.zeros((2, 2), dtype=int))
    with pytest.raises(GpmError, match="A shape is a square matrix of 1 to 64 nodes"):
        shape_key(np.zeros((65, 65), dtype=bool))
    with pytest.raises(GpmError, match="0 to 63 steps, got 64"):
        find_topologies(graph, np.zeros((1, 65), dtype=np.int32), "loops")
