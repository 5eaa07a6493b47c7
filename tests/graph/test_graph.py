import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given

from gpm import GpmError, Graph, walk
from gpm.graph import csr
from gpm.patterns.topologies import KINDS, find_topologies
from gpm.patterns.walks import TensorGraph, walk_tensors
from tests.graphs import RULES, edge_lists, graphs

TRIANGLE = np.array([[0, 1, 2], [1, 2, 0]])


def test_summary_says_what_was_found_and_done() -> None:
    edges = np.array([[0, 0, 1, 3, 0], [1, 1, 2, 3, 2]])
    kept = Graph.from_edges(edges, 5, duplicates="keep")
    assert kept.summary() == "5 nodes, 5 directed edges, 1 isolated, 1 self-loops, 1 duplicates (kept)"
    merged = Graph.from_edges(edges, 5, undirected=True, self_loops="drop", edge_weight=[1, 2, 3, 4, 5.0])
    assert merged.summary() == (
        "5 nodes, 3 undirected edges, 2 isolated, 1 self-loops (dropped), 1 duplicates (merged), weighted"
    )
    np.testing.assert_array_equal(merged.edge_weight, [3, 5, 3, 3, 5, 3])


@given(edge_lists())
def test_an_undirected_graph_is_symmetric_and_counts_its_edges(listed) -> None:
    nodes, edges = listed
    graph = Graph.from_edges(edges, nodes, undirected=True)
    distinct = {frozenset(pair) for pair in edges.T.tolist()}
    assert not graph.census.directed
    assert csr.is_symmetric(graph.indptr, graph.indices)
    assert f"{len(distinct):,} undirected edges" in graph.summary()
    assert graph.census.duplicates == edges.shape[1] - len(distinct)


@given(graphs())
def test_census_equals_a_count_by_hand(graph: Graph) -> None:
    a, b = graph.edge_index()
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    assert graph.census.isolated == len(set(range(graph.num_nodes)) - set(a.tolist()) - set(b.tolist()))
    assert graph.census.loop_entries == np.count_nonzero(a == b)
    if graph.census.merged:
        assert len(pairs) == graph.num_edges
    if not graph.census.directed:
        assert all((y, x) in pairs for x, y in pairs)


def test_arrays_are_read_only() -> None:
    graph = Graph.from_edges(TRIANGLE)
    with pytest.raises(ValueError, match="read-only"):
        graph.indices[0] = 2


def test_empty_graphs_and_single_nodes() -> None:
    nothing = Graph.from_edges(np.zeros((2, 0), dtype=np.int64))
    assert (nothing.num_nodes, nothing.num_edges) == (0, 0)
    assert nothing.summary().startswith("0 nodes, 0 undirected edges")
    one = Graph.from_edges([[], []], 1)
    assert one.census.isolated == 1
    loop = Graph.from_edges([[0], [0]])
    assert loop.summary() == "1 nodes, 1 undirected edges, 0 isolated, 1 self-loops, 0 duplicates"


@pytest.mark.slow  # for the sake of it every kernel is compiled once more
def test_ids_switch_to_64_bits_and_nothing_else_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 40, (2, 200))
    narrow = Graph.from_edges(edges, 40, keep_ids=True)
    monkeypatch.setattr(csr, "INT32_MAX", 39)
    wide = Graph.from_edges(edges, 40, keep_ids=True)
    assert (narrow.indices.dtype, wide.indices.dtype) == (np.int32, np.int64)
    assert wide.edge_ids is not None
    assert wide.edge_ids.dtype == np.int64
    np.testing.assert_array_equal(narrow.indices, wide.indices)
    for rule in RULES:
        a, b = (walk(g, np.arange(40), 0, 8, edges=True, rule=rule) for g in (narrow, wide))
        assert b[0].dtype == np.int64
        np.testing.assert_array_equal(a[0], b[0])
        np.testing.assert_array_equal(a[1], b[1])
        c = walk_tensors(TensorGraph.of(wide), torch.arange(40), torch.tensor(0), 8, edges=True, rule=rule)
        np.testing.assert_array_equal(a[0], c[0])
        np.testing.assert_array_equal(a[1], c[1])
    for kind in KINDS:
        keys = [find_topologies(g, walk(g, np.arange(40), 1, 8)[0], kind)[1].keys for g in (narrow, wide)]
        np.testing.assert_array_equal(keys[0], keys[1])


def test_nodes_of_a_collection_are_known_by_their_graph() -> None:
    collection = Graph.from_edges([[0, 2], [1, 3]], 5, graph_ptr=[0, 2, 2, 5])
    assert [collection.name(i) for i in range(5)] == ["0:0", "0:1", "2:0", "2:1", "2:2"]
    assert [collection.find(collection.name(i)) for i in range(5)] == list(range(5))
    for other in ("0:2", "1:0", "3:0", "two"):
        with pytest.raises(GpmError, match=f"No node '{other}': write graph:node"):
            collection.find(other)


def test_nodes_outside_the_graph_get_a_sentence() -> None:
    graph = Graph.from_edges(TRIANGLE, names=["a", "b", "c"])
    for ask in (graph.name, graph.neighbors):
        for node in (-1, 3):
            with pytest.raises(GpmError, match=f"No node {node}: nodes are numbered 0 to 2"):
                ask(node)


def test_features_keep_their_kind() -> None:
    dense = Graph.from_edges(TRIANGLE, x=np.eye(3, dtype=np.float32))
    sparse = Graph.from_edges(TRIANGLE, x=sp.eye_array(3))
    categories = Graph.from_edges(TRIANGLE, x=torch.tensor([2, 0, 1]))
    assert dense.summary().endswith("3 features")
    assert sparse.summary().endswith("3 sparse features")
    assert categories.summary().endswith("1 categories")
    assert categories.x is not None
    assert categories.x.shape == (3, 1)


def test_nodes_are_found_by_name_or_number() -> None:
    named = Graph.from_edges(TRIANGLE, names=["a", "b", "c"])
    assert (named.find("b"), named.name(2)) == (1, "c")
    plain = Graph.from_edges(TRIANGLE)
    assert (plain.find("2"), plain.name(2)) == (2, 2)
    for other in ("3", "-1", "02", "1_0", "two"):
        with pytest.raises(GpmError, match=f"No node '{other}': this graph's nodes are numbered 0 to 2"):
            plain.find(other)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"edge_index": [[0, 1, 2]]}, r"edge_index must have shape \[2, E\]"),
        ({"edge_index": [[0.5], [1.0]]}, "edge_index must hold integers"),
        ({"edge_index": [[0, 7], [1, 0]], "num_nodes": 5}, "Edge 1 starts at node 7, but nodes are numbered 0 to 4"),
        ({"edge_index": [[0], [-1]]}, "Edge 0 ends at node -1"),
        ({"edge_index": TRIANGLE, "num_nodes": 3.5}, "num_nodes must be a whole number, got 3.5"),
        ({"edge_index": [[], []], "num_nodes": -1}, "num_nodes must not be negative"),
        ({"edge_index": TRIANGLE, "edge_weight": [1, 2]}, "edge_weight must have one entry per edge"),
        ({"edge_index": TRIANGLE, "edge_weight": [1, np.nan, 1]}, "Edge 1 has weight nan"),
        ({"edge_index": TRIANGLE, "edge_weight": [1, 1, -1.0]}, "Edge 2 has weight -1.0"),
        ({"edge_index": TRIANGLE, "duplicates": "mrege"}, "duplicates must be one of merge, keep, got 'mrege'"),
        ({"edge_index": TRIANGLE, "self_loops": "remove"}, "self_loops must be one of keep, drop"),
        ({"edge_index": TRIANGLE, "y": [1, 2]}, r"y must have a row per node \(3\) or per graph \(1\), got 2"),
        ({"edge_index": [[0, 0], [1, 1]], "edge_weight": [1.5e308, 1.5e308]}, "add up to infinity"),
        ({"edge_index": TRIANGLE, "x": np.ones((2, 4))}, "x must have 3 rows"),
        ({"edge_index": TRIANGLE, "x": np.array(["a", "b", "c"])}, "x must hold numbers"),
        ({"edge_index": TRIANGLE, "edge_attr": np.ones((2, 4))}, "edge_attr must have 3 rows"),
        ({"edge_index": TRIANGLE, "names": ["a", "b"]}, "2 names for 3 nodes"),
        ({"edge_index": TRIANGLE, "names": ["a", "b", "a"]}, "Two nodes are named 'a'"),
        ({"edge_index": TRIANGLE, "graph_ptr": [0, 2]}, "graph_ptr must rise from 0"),
        ({"edge_index": TRIANGLE, "graph_ptr": [0, 2, 3]}, "joins two graphs"),
    ],
)
def test_bad_input_gets_a_sentence(options: dict, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        Graph.from_edges(**options)
