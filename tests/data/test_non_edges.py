import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from gpm import GpmError, Graph, Tokenizer
from gpm.data.non_edges import (
    FreePairs,
    _below,
    contains,
    distinct,
    draw_any,
    drop_edges,
    hide_edges,
    name_pairs,
    number_edges,
    number_pairs,
)
from gpm.graph import csr
from gpm.patterns.tokenizer import Patterns
from tests.graphs import graphs


def _sets(pairs: np.ndarray) -> list[frozenset[int]]:
    return [frozenset(pair) for pair in pairs.tolist()]


@pytest.mark.parametrize("nodes", [0, 1, 2, 3, 40])
def test_pairs_are_numbered_without_gaps(nodes: int) -> None:
    every = np.array(list(itertools.combinations(range(nodes), 2)), dtype=np.int64).reshape(-1, 2)
    numbers = number_pairs(every)
    assert sorted(numbers.tolist()) == list(range(math.comb(nodes, 2)))
    np.testing.assert_array_equal(number_pairs(every[:, ::-1]), numbers)
    np.testing.assert_array_equal(name_pairs(numbers), every)
    assert (number_pairs(np.array([[3, 3], [0, 0]])) == -1).all()


@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1)), min_size=1))
def test_numbers_of_the_largest_graphs_come_back(pairs: list[tuple[int, int]]) -> None:
    given_ = np.array([pair for a, b in pairs for pair in ((a, b), (a, a + 1), (0, b + 1))], dtype=np.int64)
    given_ = given_[given_[:, 0] != given_[:, 1]]
    np.testing.assert_array_equal(name_pairs(number_pairs(given_)), np.sort(given_, axis=1))


@given(graphs())
def test_edges_are_numbered_once_whatever_their_direction(graph: Graph) -> None:
    wanted = {frozenset(pair) for pair in graph.edge_index().T.tolist() if pair[0] != pair[1]}
    numbers = number_edges(graph)
    assert set(_sets(name_pairs(numbers))) == wanted
    assert len(numbers) == len(wanted)
    assert (np.diff(numbers) > 0).all()


@given(st.lists(st.integers(-1, 30)), st.lists(st.integers(-1, 30)))
def test_contains_is_membership(numbers: list[int], wanted: list[int]) -> None:
    ascending = distinct(np.array(numbers, dtype=np.int64))
    assert ascending.tolist() == sorted(set(numbers) - {-1})
    found = contains(ascending, np.array(wanted, dtype=np.int64))
    assert found.tolist() == [number in set(numbers) - {-1} for number in wanted]


@given(st.integers(0, 12), st.data())
def test_the_ranks_are_the_free_pairs_each_once(nodes: int, data: st.DataObject) -> None:
    taken = data.draw(st.lists(st.integers(-1, max(0, math.comb(nodes, 2) - 1)))) if nodes > 1 else []
    free = FreePairs(nodes, np.array(taken, dtype=np.int64))
    pairs = free.pick(np.arange(free.size))
    assert sorted(number_pairs(pairs).tolist()) == sorted(set(range(math.comb(nodes, 2))) - set(taken))
    assert (pairs[:, 0] < pairs[:, 1]).all()


@given(st.integers(3, 12), st.integers(0, 2**63 - 1), st.integers(0, 2**40), st.data())
def test_draws_are_free_pairs_and_a_function_of_seed_and_turn(
    nodes: int, seed: int, turn: int, data: st.DataObject
) -> None:
    taken = data.draw(st.sets(st.integers(0, math.comb(nodes, 2) - 1)))
    free = FreePairs(nodes, np.array(sorted(taken), dtype=np.int64))
    assume(free.size)
    drawn = free.draw(50, seed, turn)
    assert not set(number_pairs(drawn).tolist()) & (taken | {-1})
    np.testing.assert_array_equal(free.draw(20, seed, turn), drawn[:20])  # pair i does not know how many are asked for
    some = free.sample(data.draw(st.integers(0, free.size)), seed)
    assert not set(number_pairs(some).tolist()) & (taken | {-1})
    assert len(set(_sets(some))) == len(some)


def test_the_draw_never_changes() -> None:
    free = FreePairs(6, np.array([0, 5, 7]))
    assert free.draw(4, 0, 0).tolist() == [[0, 5], [0, 5], [1, 5], [2, 5]]
    assert draw_any(6, 4, 0, 0).tolist() == [[3, 2], [3, 2], [4, 5], [4, 1]]


def test_every_free_pair_is_equally_likely_in_every_turn() -> None:
    free = FreePairs(7, np.array([0, 1, 2, 9, 20]))
    assert free.size == 16
    for pairs in (
        free.draw(6_400, 3, 5),
        np.concatenate([free.draw(1, 3, turn) for turn in range(6_400)]),
        np.concatenate([free.sample(8, seed) for seed in range(800)]),
    ):
        _, counts = np.unique(number_pairs(pairs), return_counts=True)
        assert len(counts) == 16
        assert (abs(counts - 400) < 5 * np.sqrt(400)).all()
    nodes = draw_any(5, 10_000, 1, 2)
    _, counts = np.unique(nodes[:, 0] * 5 + nodes[:, 1], return_counts=True)
    assert len(counts) == 25
    assert (abs(counts - 400) < 5 * np.sqrt(400)).all()


def test_seeds_and_turns_draw_differently() -> None:
    free = FreePairs(1000, np.empty(0, dtype=np.int64))
    drawn = [free.draw(20, seed, turn).tolist() for seed in (0, 1) for turn in (0, 1)]
    assert all(a != b for a, b in itertools.combinations(drawn, 2))
    assert free.sample(20, 0).tolist() != free.sample(20, 1).tolist()


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.integers(1, 2**62))
def test_bits_are_scaled_exactly(bits: list[int], count: int) -> None:
    assert _below(np.array(bits, dtype=np.uint64), count).tolist() == [(b * count) >> 64 for b in bits]


def test_nothing_to_draw_gets_a_sentence() -> None:
    with pytest.raises(GpmError, match="Every pair of nodes is an edge or a saved negative; nothing is left to draw"):
        FreePairs(3, np.arange(3)).draw(1, 0, 0)


@given(graphs(max_nodes=8), st.data())
def test_a_graph_without_edges_is_the_one_built_of_the_others(graph: Graph, data: st.DataObject) -> None:
    ends = st.tuples(st.integers(0, graph.num_nodes - 1), st.integers(0, graph.num_nodes - 1))
    pairs = data.draw(st.lists(ends, max_size=6))
    less = drop_edges(graph, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    gone = {frozenset(pair) for pair in pairs if pair[0] != pair[1]}
    edges = graph.edge_index()
    kept = np.array([frozenset(pair) not in gone for pair in edges.T.tolist()], dtype=bool)
    weight = None if graph.edge_weight is None else graph.edge_weight[kept]
    built = Graph.from_edges(edges[:, kept], graph.num_nodes, edge_weight=weight, duplicates="keep")
    for name in ("indptr", "indices", "edge_weight", "edge_cdf"):
        np.testing.assert_array_equal(getattr(less, name), getattr(built, name))
        assert getattr(less, name) is None or getattr(less, name).dtype == getattr(graph, name).dtype
    if graph.edge_ids is not None:
        np.testing.assert_array_equal(less.edge_ids, graph.edge_ids[kept])
    facts = ("directed", "isolated", "self_loops", "loop_entries")
    assert [getattr(less.census, fact) for fact in facts] == [getattr(built.census, fact) for fact in facts]
    assert less.is_simple == built.is_simple
    assert less.is_simple == (csr.count_duplicates(less.indptr, less.indices)[0] == 0)


def test_duplicates_of_what_is_left_are_counted_as_they_were_given() -> None:
    rows = [[0, 0, 0, 1, 1, 3, 3], [1, 1, 2, 2, 2, 3, 3]]
    graph = Graph.from_edges(rows, 5, undirected=True, duplicates="keep")
    less, wanted = drop_edges(graph, np.array([[2, 1]])), [[0, 0, 0, 3, 3], [1, 1, 2, 3, 3]]
    assert less.census == Graph.from_edges(wanted, 5, undirected=True, duplicates="keep").census
    assert (less.census.duplicates, less.census.isolated, less.census.mirrored) == (2, 1, True)


def test_what_belongs_to_nodes_stays_and_what_belongs_to_gone_edges_goes() -> None:
    rows, values = [[0, 1, 2, 0], [1, 2, 3, 3]], np.arange(8.0).reshape(4, 2)
    graph = Graph.from_edges(rows, 4, undirected=True, edge_attr=values, x=np.eye(4), y=np.arange(4), names="abcd")
    less = drop_edges(graph, np.array([[2, 1]]))
    assert np.shares_memory(less.x, graph.x)
    np.testing.assert_array_equal(less.y, np.arange(4))
    assert [less.name(i) for i in range(4)] == ["a", "b", "c", "d"]
    assert less.edge_attr.tolist() == [[0, 1], [4, 5], [6, 7]]  # the row of the dropped edge is nowhere
    told = {
        tuple(sorted(pair)): less.edge_attr[i, 0] for pair, i in zip(less.edge_index().T, less.edge_ids, strict=True)
    }
    assert told == {(0, 1): 0, (2, 3): 4, (0, 3): 6}


# Edges that are hidden


def _listed(graph: Graph) -> list[tuple[int, int, int]]:
    """Every entry with its edge id, 0 where edges have none: source, target, id."""
    ids = np.zeros(graph.num_edges, dtype=np.int64) if graph.edge_ids is None else graph.edge_ids
    return list(zip(*graph.edge_index().tolist(), ids.tolist(), strict=True))


@given(graphs(max_nodes=8), st.data())
def test_hidden_edges_are_gone_and_the_others_keep_their_ids(graph: Graph, data: st.DataObject) -> None:
    there = graph.edge_index().T.tolist() or [[0, 0]]
    ends = st.tuples(st.integers(0, graph.num_nodes - 1), st.integers(0, graph.num_nodes - 1))
    pairs = data.draw(st.lists(st.one_of(st.sampled_from(there).map(tuple), ends), max_size=5))
    pairs = [pair for pair in pairs if pair[0] != pair[1]]
    hidden = hide_edges(graph, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    gone = {frozenset(pair) for pair in pairs}
    assert _listed(hidden) == [entry for entry in _listed(graph) if frozenset(entry[:2]) not in gone]
    less = drop_edges(graph, np.array(pairs, dtype=np.int64).reshape(-1, 2))
    for name in ("indptr", "indices", "edge_weight", "edge_cdf"):
        np.testing.assert_array_equal(getattr(hidden, name), getattr(less, name))
    assert hidden.census == graph.census
    assert (hidden.edge_ids is None) == (graph.edge_ids is None)


@pytest.mark.parametrize("undirected", [True, False])
def test_hidden_edges_are_crossed_in_no_direction_and_attributes_stay_with_their_pairs(undirected: bool) -> None:
    rng = np.random.default_rng(0)
    rows, values = rng.integers(0, 15, (2, 60)), rng.normal(size=(60, 2))
    graph = Graph.from_edges(rows, 15, undirected=undirected, edge_attr=values, duplicates="keep", self_loops="keep")
    hidden = hide_edges(graph, rows[:, :20].T)
    gone = {frozenset(pair) for pair in rows[:, :20].T.tolist()}
    assert np.shares_memory(hidden.edge_attr, graph.edge_attr)
    for seed in range(3):
        before = Tokenizer(graph, pool=40, seed=seed).nodes(np.arange(15))
        after = Tokenizer(graph, pool=40, seed=seed).redraw(seed, hidden).nodes(np.arange(15))
        assert any(frozenset(step) in gone for step in _steps(before))
        for (a, b), edge in _steps(after).items():
            assert frozenset((a, b)) not in gone
            told = {(a, b), (b, a)} if undirected else {(a, b)}
            assert tuple(rows[:, edge].tolist()) in told  # row i of the attributes is that of the i-th edge given


def _steps(patterns: Patterns) -> dict[tuple[int, int], int]:
    """The steps that cross an edge, with its id."""
    assert patterns.edges is not None
    ends = torch.stack([patterns.nodes[..., :-1], patterns.nodes[..., 1:], patterns.edges], -1).reshape(-1, 3)
    return {(a, b): edge for a, b, edge in ends[ends[:, 2] >= 0].tolist()}


def test_hiding_leaves_the_graph_as_it_was() -> None:
    graph = Graph.from_edges([[0, 1, 2, 0], [1, 2, 3, 3]], 4, undirected=True, x=np.eye(4), names="abcd")
    before = _listed(graph)
    hidden = hide_edges(graph, np.array([[2, 1]]))
    assert (_listed(graph), graph.edge_ids) == (before, None)
    assert np.shares_memory(hidden.x, graph.x)
    assert hidden.name(3) == "d"
    assert hidden.num_edges == 6
    assert _listed(hide_edges(hidden, np.array([[0, 1]]))) == [
        entry for entry in before if {*entry[:2]} not in ({1, 2}, {0, 1})
    ]
    assert _listed(hide_edges(graph, np.zeros((0, 2), dtype=np.int64))) == before


@given(st.integers(2, 12), st.integers(0, 2**32))
def test_free_pairs_of_two_sides_are_all_that_join_them_and_are_not_taken(nodes: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    sides = random.integers(-1, 2, nodes).astype(np.int8)
    across = {(a, b) for b in range(nodes) for a in range(b) if {int(sides[a]), int(sides[b])} == {0, 1}}
    taken = {pair for pair in across if random.random() < 0.4}
    free = FreePairs(nodes, number_pairs(np.array(sorted(taken), dtype=np.int64).reshape(-1, 2)), sides)
    assert free.size == len(across - taken)
    assert {tuple(pair) for pair in free.pick(np.arange(free.size)).tolist()} == across - taken
