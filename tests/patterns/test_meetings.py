"""Marks equal their definition, written out slowly."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gpm import Graph, Tokenizer
from gpm.patterns.meetings import count_marks, mark_meetings
from tests.graphs import graphs


def define_marks(graph: Graph, nodes: NDArray, sides: NDArray, ends: NDArray, forbid: bool) -> NDArray:
    """The marks as their definition says, one position at a time."""
    edges = {frozenset(edge) for edge in graph.edge_index().T.tolist()}
    marks = np.zeros(nodes.shape, dtype=np.int64)
    for pair, slot, step in np.argwhere(nodes >= 0).tolist():
        other = int(ends[pair, 1 - sides[slot]])
        node = int(nodes[pair, slot, step])
        link = frozenset([node, other])
        known = edges - {frozenset(ends[pair].tolist())} if forbid else edges
        reached = np.argwhere(nodes[pair, sides != sides[slot]] == node)[:, 1]
        if node == other:
            marks[pair, slot, step] = 1
        elif link in known:
            marks[pair, slot, step] = 2
        elif len(reached):
            marks[pair, slot, step] = 1 + max(2, reached.min())
    return marks


def _mark(graph: Graph, walks: list[list[int]], link: tuple[int, int], forbid: bool = False) -> Any:
    """The marks of one walk from either end."""
    nodes = np.array([walks], dtype=graph.indices.dtype)
    return mark_meetings(graph, nodes, np.array([0, 1]), np.array([link]), forbid=forbid)[0].tolist()


def _some_pairs(graph: Graph, seed: int, count: int = 5) -> NDArray:
    """Random pairs, a node with itself, and an edge if there is one."""
    pairs = np.random.default_rng(seed).integers(0, graph.num_nodes, (count, 2))
    pairs[0] = pairs[0, 0]
    if graph.num_edges:
        pairs[1] = graph.edge_index()[:, seed % graph.num_edges]
    return pairs


@settings(max_examples=40)
@given(graphs(), st.sampled_from([(2, 4), (0, 1, 5), (0,), (1,), (8, 3)]), st.booleans(), st.integers(0, 99))
def test_marks_are_what_they_are_defined_to_be(graph: Graph, lengths: tuple, forbid: bool, seed: int) -> None:
    pairs = _some_pairs(graph, seed)
    tokenizer = Tokenizer(graph, lengths=lengths, pool=6, seed=seed, threads=1)
    patterns = tokenizer.links(pairs, forbid=forbid, marks=True)
    assert patterns.marks is not None
    assert patterns.sides is not None
    expected = define_marks(graph, patterns.nodes.numpy(), patterns.sides.numpy(), pairs, forbid)
    np.testing.assert_array_equal(patterns.marks, expected)
    assert (patterns.marks[patterns.nodes < 0] == 0).all()  # past the end
    assert expected.max() < count_marks(max(lengths))


@settings(max_examples=40)
@given(graphs(), st.data(), st.booleans())
def test_any_sequences_may_be_marked(graph: Graph, data: Any, forbid: bool) -> None:
    """Not only walks: the marks look at nodes, wherever they came from."""
    slots, positions = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    nodes = random.integers(0, graph.num_nodes, (3, slots, positions)).astype(graph.indices.dtype)
    length = random.integers(0, positions + 1, (3, slots, 1))
    nodes[np.arange(positions) >= length] = -1
    sides, pairs = random.integers(0, 2, slots), _some_pairs(graph, 7, 3)
    found = mark_meetings(graph, nodes, sides, pairs, forbid=forbid, threads=1)
    np.testing.assert_array_equal(found, define_marks(graph, nodes, sides, pairs, forbid))


def test_each_distance_has_its_mark() -> None:
    """Two ends of a path of six nodes: walks of 3 steps from either meet in the middle."""
    path = Graph.from_edges([[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]], undirected=True)
    assert _mark(path, [[0, 1, 2, 3], [5, 4, 3, 2]], (0, 5)) == [[0, 0, 4, 3], [0, 0, 4, 3]]
    assert _mark(path, [[0, 1, 2, 3], [4, 5, -1, -1]], (0, 4)) == [[0, 0, 0, 2], [0, 0, 0, 0]]
    assert _mark(path, [[0, 1, 2, 3], [3, 4, 3, 2]], (0, 3)) == [[0, 0, 2, 1], [4, 0, 4, 3]]


def test_the_links_own_edge_is_left_out_when_it_is_forbidden() -> None:
    triangle = Graph.from_edges([[0, 1, 2], [1, 2, 0]], undirected=True)
    met = [[0, 2, 1], [1, 2, 0]]
    assert _mark(triangle, met, (0, 1)) == [[2, 2, 1], [2, 2, 1]]
    assert _mark(triangle, met, (0, 1), forbid=True) == [[3, 2, 1], [3, 2, 1]]  # in two steps, by another way
    assert _mark(triangle, [[0, 2], [1, 2]], (0, 1), forbid=True) == [[0, 2], [0, 2]]  # in one step not at all
    back = [[0, 2, 0], [1, 2, 1]]
    assert _mark(triangle, back, (0, 1), forbid=True) == [[0, 2, 0], [0, 2, 0]]


@pytest.mark.parametrize("undirected", [False, True])
@pytest.mark.parametrize("duplicates", ["merge", "keep"])
def test_a_forbidden_edge_marks_as_a_missing_one(undirected: bool, duplicates: str) -> None:
    """Whichever way it is stored and however often."""
    edges = np.random.default_rng(0).integers(0, 10, (2, 24))
    own = np.array([[3, 8, 3, 3], [8, 3, 8, 3]])
    kept = edges[:, ~np.isin(edges, (3, 8)).all(0)]
    with_it, without = (
        Graph.from_edges(ends, 10, undirected=undirected, duplicates=duplicates)
        for ends in (np.concatenate([kept, own], 1), np.concatenate([kept, own[:, 3:]], 1))
    )
    patterns = Tokenizer(with_it, lengths=(1, 4), pool=20).links([[3, 8], [8, 3]], forbid=True)
    assert patterns.sides is not None
    given = patterns.nodes.numpy(), patterns.sides.numpy(), np.array([[3, 8], [8, 3]])
    np.testing.assert_array_equal(
        mark_meetings(with_it, *given, forbid=True), mark_meetings(without, *given, forbid=False)
    )
    assert (mark_meetings(with_it, *given) == 2).any()


@settings(max_examples=20)
@given(graphs(), st.booleans(), st.integers(0, 99))
def test_marks_follow_the_walks_when_the_ends_are_swapped(graph: Graph, forbid: bool, seed: int) -> None:
    pairs = _some_pairs(graph, seed)
    tokenizer = Tokenizer(graph, lengths=(1, 4), pool=8, seed=seed, threads=1)
    one, two = (tokenizer.links(p, forbid=forbid, marks=True) for p in (pairs, pairs[:, ::-1]))
    assert one.marks is not None
    assert two.marks is not None
    for side in (0, 1):
        here, there = one.sides == side, two.sides == 1 - side
        np.testing.assert_array_equal(one.nodes[:, here], two.nodes[:, there])
        np.testing.assert_array_equal(one.marks[:, here], two.marks[:, there])


@pytest.mark.skipif(numba.config.NUMBA_NUM_THREADS < 2, reason="needs two threads")
def test_the_number_of_threads_does_not_matter() -> None:
    ends = np.random.default_rng(1).integers(0, 60, (2, 150))
    graph = Graph.from_edges(ends, 60)
    pairs = np.random.default_rng(2).integers(0, 60, (101, 2))  # three chunks, and a part of one
    patterns = Tokenizer(graph, pool=16, threads=1).links(pairs)
    assert patterns.sides is not None
    given = patterns.nodes.numpy(), patterns.sides.numpy(), pairs
    one, two = (mark_meetings(graph, *given, forbid=True, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, define_marks(graph, *given, forbid=True))


def test_no_links_have_no_marks() -> None:
    graph = Graph.from_edges([[0], [1]], undirected=True)
    found = Tokenizer(graph, pool=4).links([], marks=True).marks
    assert found is not None
    assert found.shape == (0, 8, 9)
