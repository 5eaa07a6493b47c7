from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from gpm import GpmError, Graph, Tokenizer, WalkRule, walk
from gpm.patterns.tokenizer import find_stride
from gpm.patterns.topologies import KINDS
from tests.graphs import RULES, graphs

PAIRS = [[3, 8], [8, 8], [0, 49]]
LENGTHS = st.sampled_from([(2, 4, 6, 8), (0, 1, 4, 8), (8,), (3, 0), (5, 2, 7)])


def _graph(nodes: int = 50, edges: int = 200) -> Graph:
    rng = np.random.default_rng(0)
    return Graph.from_edges(rng.integers(0, nodes, (2, edges)), nodes, undirected=True, keep_ids=True)


def _collection() -> Graph:
    rng = np.random.default_rng(0)
    sizes = [5, 1, 9, 3]
    pointer = np.concatenate([[0], np.cumsum(sizes)])
    edges = [rng.integers(0, n, (2, 3 * n)) + first for n, first in zip(sizes, pointer, strict=False)]
    return Graph.from_edges(np.concatenate(edges, 1), int(pointer[-1]), graph_ptr=pointer, undirected=True)


@given(graphs(), LENGTHS, st.sampled_from(RULES), st.integers(0, 99))
def test_a_pattern_is_the_walk_of_its_number(graph: Graph, lengths: tuple, rule: WalkRule, seed: int) -> None:
    tokenizer = Tokenizer(graph, lengths=lengths, pool=12, seed=seed, rule=rule, edges=True)
    patterns = tokenizer.nodes(np.arange(graph.num_nodes))
    assert patterns.nodes.shape == (graph.num_nodes, 12, max(lengths) + 1)
    assert patterns.edges is not None
    for slot, scale in enumerate(patterns.scales.tolist()):
        numbers = patterns.numbers[:, slot]
        assert (numbers % len(lengths) == lengths.index(scale)).all()
        nodes, edges = walk(graph, np.arange(graph.num_nodes), numbers.numpy(), scale, seed=seed, rule=rule, edges=True)
        np.testing.assert_array_equal(patterns.nodes[:, slot, : scale + 1], nodes)
        np.testing.assert_array_equal(patterns.edges[:, slot, :scale], edges)
        assert (patterns.nodes[:, slot, scale + 1 :] == -1).all()
        assert (patterns.edges[:, slot, scale:] == -1).all()


@given(LENGTHS, st.integers(4, 24), st.integers(0, 5))
def test_training_draws_m_of_the_pool_evenly_over_the_scales(lengths: tuple, count: int, turn: int) -> None:
    patterns = Tokenizer(_graph(), lengths=lengths, pool=24).nodes(np.arange(50), count=count, turn=turn)
    assert patterns.numbers.shape == (50, count)
    assert ((patterns.numbers >= 0) & (patterns.numbers < 24)).all()
    assert all(len(set(row)) == count for row in patterns.numbers.tolist())
    per_scale = [slots.stop - slots.start for _, slots in patterns.groups()]
    assert [scale for scale, _ in patterns.groups()] == list(lengths)
    assert max(per_scale) - min(per_scale) <= 1


def test_every_pattern_of_the_pool_is_drawn_equally_often() -> None:
    tokenizer = Tokenizer(_graph(), lengths=(1, 2), pool=32)
    drawn = np.concatenate([tokenizer.nodes(np.arange(50), count=8, turn=t).numbers.numpy().ravel() for t in range(60)])
    assert chisquare(np.bincount(drawn, minlength=32)).pvalue > 1e-4


def test_all_patterns_hold_those_that_a_turn_draws() -> None:
    tokenizer = Tokenizer(_graph(), pool=32, topology="shape")
    whole, some = tokenizer.nodes([7, 3]), tokenizer.nodes([7, 3], count=8, turn=5)
    for i in range(2):
        for slot, number in enumerate(some.numbers[i].tolist()):
            there = whole.numbers[i].tolist().index(number)
            assert torch.equal(some.nodes[i, slot], whole.nodes[i, there])
            keys = some.table.keys[some.topology[i, slot]], whole.table.keys[whole.topology[i, there]]
            assert keys[0] == keys[1]


def test_turns_differ_and_repeat() -> None:
    tokenizer = Tokenizer(_graph())
    first, again, other = (tokenizer.nodes([1, 2, 3], count=16, turn=t).numbers for t in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("kind", KINDS)
def test_instances_do_not_depend_on_their_batch(kind: str) -> None:
    tokenizer = Tokenizer(_graph(), topology=kind, pool=40)
    batch, alone = tokenizer.nodes([4, 9, 30], count=20, turn=2), tokenizer.nodes([9], count=20, turn=2)
    assert torch.equal(batch.nodes[1], alone.nodes[0])
    np.testing.assert_array_equal(batch.table.keys[batch.topology[1]], alone.table.keys[alone.topology[0]])


@pytest.mark.parametrize("kind", KINDS)
def test_kernels_and_threads_give_the_same_patterns(kind: str) -> None:
    graph = _graph()
    options = {"topology": kind, "rule": WalkRule(p=0.5, q=2), "seed": 3}
    one, two, portable = (
        Tokenizer(graph, **options, threads=1),
        Tokenizer(graph, **options, threads=2),
        Tokenizer(graph, **options, kernel="torch"),
    )
    expected = one.nodes(np.arange(50))
    for other in (two.nodes(np.arange(50)), portable.nodes(torch.arange(50))):
        assert torch.equal(other.nodes, expected.nodes)
        assert torch.equal(other.topology, expected.topology)
        np.testing.assert_array_equal(other.table.keys, expected.table.keys)


def test_the_patterns_of_a_link_are_those_of_its_ends() -> None:
    tokenizer = Tokenizer(_graph(), pool=16)
    link = tokenizer.links([[3, 8], [8, 8]], count=8, turn=1)
    assert link.sides is not None
    for side in (0, 1):
        end = tokenizer.nodes([[3, 8][side], 8], count=8, turn=1)
        assert torch.equal(link.nodes[:, link.sides == side], end.nodes)
    assert [slots.stop - slots.start for _, slots in link.groups()] == [4, 4, 4, 4]


def test_a_forbidden_link_is_not_walked() -> None:
    graph = Graph.from_edges([[0, 1, 2, 0], [1, 2, 3, 3]], undirected=True)
    tokenizer = Tokenizer(graph, pool=400)

    def crossings(forbid: bool) -> int:
        nodes = tokenizer.links([[0, 1]], forbid=forbid).nodes
        a, b = nodes[..., :-1], nodes[..., 1:]
        return int((((a == 0) & (b == 1)) | ((a == 1) & (b == 0))).sum())

    assert crossings(False) > 0
    assert crossings(True) == 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "refined"])  # which reads the whole graph
@pytest.mark.parametrize("rule", [WalkRule(), WalkRule(q=5)])
def test_a_forbidden_link_leaves_no_trace(kind: str, rule: WalkRule) -> None:
    """Patterns of a link that is forbidden are those of the graph that never had it."""
    edges = np.random.default_rng(5).integers(0, 12, (2, 40))
    with_it = Graph.from_edges(np.concatenate([edges, [[3], [8]]], 1), 12, undirected=True, edge_weight=np.ones(41))
    keep = ~(((edges[0] == 3) & (edges[1] == 8)) | ((edges[0] == 8) & (edges[1] == 3)))
    without = Graph.from_edges(edges[:, keep], 12, undirected=True, edge_weight=np.ones(keep.sum()))
    shares = []
    for graph in (with_it, without):
        patterns = Tokenizer(graph, pool=4000, topology=kind, rule=rule).links([[3, 8]], forbid=True)
        keys = patterns.table.keys[patterns.topology.numpy().ravel()]
        shares.append(dict(zip(*np.unique(keys, return_counts=True), strict=True)))
    assert shares[0] == shares[1]


def test_walks_of_a_graph_stay_in_it_and_start_uniformly() -> None:
    collection = _collection()
    patterns = Tokenizer(collection, pool=4000).graphs([2, 0, 1])
    for place, number in enumerate((2, 0, 1)):
        first, last = collection.graph_ptr[number : number + 2]
        nodes = patterns.nodes[place]
        assert (((nodes >= first) & (nodes < last)) | (nodes == -1)).all()
        starts = np.bincount(nodes[:, 0].numpy() - first, minlength=last - first)
        assert last - first == 1 or chisquare(starts).pvalue > 1e-4


@pytest.mark.parametrize("lengths", [(2, 4, 6, 8), (3,), (1, 0)])
@pytest.mark.parametrize("size", [1, 2, 6, 11, 30])
def test_the_pool_of_a_graph_starts_at_all_nodes_alike(lengths: tuple, size: int) -> None:
    """In each scale no node has more than one start above another; so each has one where there are enough patterns."""
    collection = Graph.from_edges([[], []], 4 + size, graph_ptr=[0, 4, 4 + size])
    for seed in range(5):
        starts = Tokenizer(collection, lengths=lengths, pool=50, seed=seed).graphs([1])
        for _, slots in starts.groups():
            counts = np.bincount(starts.nodes[0, slots, 0].numpy() - 4, minlength=size)
            assert counts.sum() == slots.stop - slots.start
            assert counts.max() - counts.min() <= 1


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(4, 48), st.integers(0, 9))
def test_the_patterns_of_a_step_start_at_all_nodes_almost_alike(size: int, count: int, turn: int) -> None:
    """They are some of the pool in a row, whose end is followed by its beginning: two runs, each of them even."""
    tokenizer = Tokenizer(Graph.from_edges([[], []], size, graph_ptr=[0, size]), lengths=(0, 1, 2), pool=48, threads=1)
    drawn, whole = tokenizer.graphs([0], count=count, turn=turn), tokenizer.graphs([0])
    assert len(set(drawn.numbers[0].tolist())) == count
    there = dict(zip(whole.numbers[0].tolist(), whole.nodes[0].tolist(), strict=True))
    assert [there[number] for number in drawn.numbers[0].tolist()] == drawn.nodes[0].tolist()
    for _, slots in drawn.groups():
        counts = np.bincount(drawn.nodes[0, slots, 0].numpy(), minlength=size)
        assert counts.max() - counts.min() <= 2


def test_a_start_is_uniform_over_graphs_and_over_seeds() -> None:
    """Of any one pattern of the pool, and of those that steps draw."""
    graphs_of_seven = Graph.from_edges([[], []], 7 * 400, graph_ptr=np.arange(0, 7 * 401, 7))
    tokenizer = Tokenizer(graphs_of_seven, lengths=(0, 1), pool=8)
    by_graph = tokenizer.graphs(np.arange(400)).nodes[:, :, 0].numpy() % 7
    for slot in (0, 3, 7):
        assert chisquare(np.bincount(by_graph[:, slot], minlength=7)).pvalue > 1e-4
    seven = Graph.from_edges([[], []], 7, graph_ptr=[0, 7])
    by_seed = [Tokenizer(seven, lengths=(0, 1), pool=8, seed=seed).graphs([0]).nodes[0, :, 0] for seed in range(300)]
    for slot in (0, 3, 7):
        assert chisquare(np.bincount(torch.stack(by_seed)[:, slot], minlength=7)).pvalue > 1e-4
    steps = [tokenizer.graphs(np.arange(400), count=2, turn=turn).nodes[:, :, 0].numpy() % 7 for turn in range(2)]
    assert chisquare(np.bincount(np.concatenate(steps).ravel(), minlength=7)).pvalue > 1e-4


def test_steps_draw_every_pattern_of_a_graph_equally_often() -> None:
    tokenizer = Tokenizer(_collection(), lengths=(1, 2), pool=32)
    drawn = [tokenizer.graphs(np.arange(4), count=8, turn=turn).numbers for turn in range(400)]
    counts = np.bincount(torch.cat(drawn).numpy().ravel(), minlength=32)
    assert (np.abs(counts / counts.mean() - 1) < 0.25).all()


def test_a_stride_meets_all_places() -> None:
    for size in (*range(1, 40), 60, 210, 1000):
        assert len(set(np.arange(size) * find_stride(size) % size)) == size


@settings(max_examples=20)
@given(st.integers(4, 24), st.integers(0, 3))
def test_shares_count_all_starts_of_a_scale_alike(count: int, turn: int) -> None:
    patterns = Tokenizer(_collection(), pool=24, threads=1).graphs([0, 1, 2, 3], count=count, turn=turn)
    assert patterns.shares is not None
    assert patterns.sizes is not None
    assert patterns.sizes.tolist() == [5, 1, 9, 3]
    torch.testing.assert_close(patterns.shares.sum(1), torch.ones(4))
    for graph in range(4):
        for _, slots in patterns.groups():
            starts, shares = patterns.nodes[graph, slots, 0], patterns.shares[graph, slots]
            assert float(shares.sum()) == pytest.approx(len(starts) / count)
            each = [float(shares[starts == node].sum()) for node in starts.unique()]
            assert each == pytest.approx([each[0]] * len(each))


def test_nodes_and_links_have_neither_sizes_nor_shares() -> None:
    tokenizer = Tokenizer(_graph())
    for patterns in (tokenizer.nodes([3]), tokenizer.links([[3, 4]])):
        assert patterns.sizes is None
        assert patterns.shares is None


@pytest.mark.parametrize(("pool", "shares"), [(24, 1), (24, 2), (24, 3), (24, 6), (26, 4), (25, 3)])
def test_shares_of_the_pool_have_each_pattern_once(pool: int, shares: int) -> None:
    tokenizer = Tokenizer(_graph(), lengths=(1, 2, 4), pool=pool)
    whole, parts = tokenizer.links(PAIRS), [tokenizer.links(PAIRS, share=(i, shares)) for i in range(shares)]
    assert whole.sides is not None
    for row in range(len(PAIRS)):
        for side in (0, 1):
            dealt = [part.numbers[row, part.sides == side].tolist() for part in parts]
            assert sorted(number for part in dealt for number in part) == list(range(pool))
            assert max(map(len, dealt)) - min(map(len, dealt)) <= 3  # one per length
            for part in parts:
                here = part.sides == side
                for number, walked in zip(part.numbers[row, here].tolist(), part.nodes[row, here], strict=True):
                    same = whole.numbers[row, whole.sides == side].tolist().index(number)
                    assert torch.equal(whole.nodes[row, whole.sides == side][same], walked)


def test_a_step_may_draw_from_a_share() -> None:
    tokenizer = Tokenizer(_graph(), lengths=(1, 2), pool=40)
    drawn = [tokenizer.links(PAIRS, count=6, turn=3, share=(i, 4)).numbers for i in range(4)]
    assert all(part.shape == (len(PAIRS), 12) for part in drawn)
    for a, b in combinations(drawn, 2):
        assert not set(a.ravel().tolist()) & set(b.ravel().tolist())
    other = tokenizer.links(PAIRS, count=6, turn=4, share=(0, 4)).numbers
    assert not torch.equal(other, drawn[0])


def test_a_single_graph_is_graph_number_zero() -> None:
    assert set(Tokenizer(_graph(), pool=2000).graphs([0]).nodes[0, :, 0].tolist()) == set(range(50))


def test_no_instances_give_no_patterns() -> None:
    tokenizer = Tokenizer(_graph())
    assert tokenizer.nodes([]).nodes.shape == (0, 128, 9)
    assert tokenizer.links([]).nodes.shape == (0, 256, 9)
    assert len(tokenizer.graphs([]).table) == 0


def test_edge_ids_come_where_features_need_them() -> None:
    graph = Graph.from_edges([[0, 1], [1, 2]], undirected=True, edge_attr=np.array([[1.0], [2.0]]))
    assert Tokenizer(graph).nodes([0]).edges is not None
    assert Tokenizer(_graph()).nodes([0]).edges is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lengths": []}, "lengths must be a list"),
        ({"lengths": "24"}, "lengths must be a list"),
        ({"lengths": 4}, "lengths must be a list"),
        ({"lengths": [2.7]}, "a length must be a whole number, got 2.7"),
        ({"pool": 128.0}, "pool must be a whole number"),
        ({"lengths": [64]}, "lengths must be a list of 0 to 63"),
        ({"lengths": [2, 2]}, "lengths must differ"),
        ({"pool": 3}, "A pool of 3 patterns is too small for 4 lengths"),
        ({"topology": "shapes"}, "Unknown topology 'shapes'"),
        ({"kernel": "Torch"}, "Unknown kernel 'Torch'"),
    ],
)
def test_impossible_tokenizers_are_refused(options: dict, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        Tokenizer(_graph(), **options)


def test_bad_instances_get_a_sentence() -> None:
    tokenizer = Tokenizer(_graph())
    with pytest.raises(GpmError, match="No start node 50"):
        tokenizer.nodes([50])
    with pytest.raises(GpmError, match=r"pairs must have shape \[B, 2\]"):
        tokenizer.links([[1, 2, 3]])
    with pytest.raises(GpmError, match="Graphs are numbered 0 to 0"):
        tokenizer.graphs([1])
    with pytest.raises(GpmError, match="count must lie between 4"):
        tokenizer.nodes([0], count=129)
    with pytest.raises(GpmError, match="nodes must be integers"):
        tokenizer.nodes([0.5])
    with pytest.raises(GpmError, match=r"graph\.find gives the number of a name"):
        tokenizer.nodes(["Valjean"])
    with pytest.raises(GpmError, match="Give a gpm Graph, not a list"):
        Tokenizer([[0], [1]])  # type: ignore[arg-type]
    hollow = Graph.from_edges([[0], [1]], 2, graph_ptr=[0, 2, 2])
    with pytest.raises(GpmError, match="Graph 1 has no nodes"):
        Tokenizer(hollow).graphs([0, 1])


# Another draw of the same tokenizer


@pytest.mark.parametrize("kernel", ["compiled", "torch"])
def test_a_redraw_is_the_tokenizer_built_with_that_seed(kernel: str) -> None:
    options = {
        "lengths": (3, 1), "pool": 10, "topology": "shape", "rule": WalkRule(q=2, non_backtracking=True),
        "edges": True, "kernel": kernel, "threads": 1,
    }  # fmt: skip
    first = Tokenizer(_graph(), seed=3, **options)
    again, other, built = first.redraw(3), first.redraw(4), Tokenizer(_graph(), seed=4, **options)
    kept = ("lengths", "pool", "topology", "rule", "edges", "device", "threads")
    assert all(getattr(other, name) == getattr(first, name) for name in kept)
    assert (first.seed, other.seed) == (3, 4)
    assert other.graph is first.graph
    for draw in (lambda t: t.nodes([4, 9]), lambda t: t.links(PAIRS, forbid=True), lambda t: t.graphs([0])):
        one, two = draw(first), draw(again)
        assert torch.equal(one.nodes, two.nodes)
        assert torch.equal(one.edges, two.edges)
        for name in ("nodes", "edges", "numbers", "topology", "scales"):
            assert torch.equal(getattr(draw(other), name), getattr(draw(built), name))
        assert not torch.equal(draw(other).nodes, one.nodes)


def test_a_redraw_walks_on_the_graph_it_is_given() -> None:
    ring = np.stack([np.arange(50), (np.arange(50) + 1) % 50])
    other = Graph.from_edges(ring, 50, undirected=True, keep_ids=True)
    for edges in (False, True):
        first = Tokenizer(_graph(), pool=16, edges=edges)
        moved, built = (
            first.redraw(7, other).nodes([4, 9]),
            Tokenizer(other, pool=16, edges=edges, seed=7).nodes([4, 9]),
        )
        assert torch.equal(moved.nodes, built.nodes)
        assert (moved.edges is not None) == edges
        steps = moved.nodes.diff(dim=-1)[moved.nodes[..., 1:] >= 0] % 50
        assert set(steps.tolist()) == {1, 49}
