"""Laws of the compiled kernel. That the portable one draws the same bits is in test_portable.py."""

import hashlib
import multiprocessing
import os
import subprocess
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpm import GpmError, Graph, WalkRule, walk
from gpm.compute import CHUNK
from gpm.patterns.walks import has_edge
from gpm.patterns.walks.kernels import BLOCK
from gpm.random_bits import GOLDEN, MASK, _mix_int, make_key
from tests.graphs import RULES, graphs, weight_matrix

rules = st.sampled_from(RULES)


def _random_graph(nodes: int = 300, edges: int = 3000, seed: int = 0) -> Graph:
    return Graph.from_edges(np.random.default_rng(seed).integers(0, nodes, (2, edges)), nodes, undirected=True)


@given(graphs(), rules, st.integers(0, 9), st.integers(0, 2**64 - 1))
def test_every_step_is_an_edge_or_a_stay_at_a_dead_end(graph: Graph, rule: WalkRule, length: int, seed: int) -> None:
    starts = np.arange(graph.num_nodes)
    nodes, edges = walk(graph, starts[:, None], np.arange(3), length, seed=seed, rule=rule, edges=True)
    assert edges is not None
    assert nodes.shape == (graph.num_nodes, 3, length + 1)
    assert (nodes[..., 0] == starts[:, None]).all()
    exits = weight_matrix(graph, rule.weighted) > 0
    here, there = nodes[..., :-1], nodes[..., 1:]
    stuck = ~exits[here].any(-1)
    assert (exits[here, there] | (stuck & (here == there))).all()
    assert ((edges == -1) == stuck).all()


@given(graphs(), rules)
def test_edge_ids_name_the_edges_crossed(graph: Graph, rule: WalkRule) -> None:
    nodes, edges = walk(graph, np.arange(graph.num_nodes), 7, 6, rule=rule, edges=True)
    assert edges is not None
    source, target = graph.edge_index()
    ids = np.arange(graph.num_edges) if graph.edge_ids is None else graph.edge_ids
    crossed = {(i, a, b) for i, a, b in zip(ids.tolist(), source.tolist(), target.tolist(), strict=True)}
    for path, by in zip(nodes.tolist(), edges.tolist(), strict=True):
        for a, b, i in zip(path, path[1:], by, strict=False):
            assert i == -1 or (i, a, b) in crossed


@given(graphs(), rules, st.data())
def test_a_forbidden_edge_is_never_crossed(graph: Graph, rule: WalkRule, data: st.DataObject) -> None:
    node = st.integers(-1, graph.num_nodes - 1)
    forbidden = np.array(data.draw(st.lists(st.tuples(node, node), min_size=graph.num_nodes, max_size=graph.num_nodes)))
    nodes, _ = walk(
        graph, np.arange(graph.num_nodes)[:, None], np.arange(4), 8, rule=rule, forbidden=forbidden[:, None]
    )
    exits = weight_matrix(graph, rule.weighted) > 0
    for walks, (a, b) in zip(nodes.tolist(), forbidden.tolist(), strict=True):
        open_ = exits.copy()
        if a >= 0 and b >= 0:
            open_[a, b] = open_[b, a] = False
        for path in walks:
            assert all(open_[x, y] or (x == y and not open_[x].any()) for x, y in pairwise(path))


@given(graphs(), st.data())
def test_non_backtracking_walks_turn_only_at_dead_ends(graph: Graph, data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from([r for r in RULES if r.non_backtracking]))
    nodes, _ = walk(graph, np.arange(graph.num_nodes)[:, None], np.arange(5), 8, rule=rule)
    exits = weight_matrix(graph, rule.weighted) > 0
    for path in nodes.reshape(-1, 9).tolist():
        for t, v, x in zip(path, path[1:], path[2:], strict=False):
            assert x != t or exits[v].sum() <= 1


@given(graphs(), rules, st.randoms(use_true_random=False))
def test_a_walk_does_not_depend_on_its_company(graph: Graph, rule: WalkRule, random) -> None:
    jobs = [(v, j) for v in range(graph.num_nodes) for j in range(3)]
    starts, numbers = np.array(jobs).T
    together, _ = walk(graph, starts, numbers, 6, seed=5, rule=rule)
    order = random.sample(range(len(jobs)), len(jobs))
    shuffled, _ = walk(graph, starts[order], numbers[order], 6, seed=5, rule=rule)
    np.testing.assert_array_equal(shuffled, together[order])
    alone, _ = walk(graph, starts[0], numbers[0], 6, seed=5, rule=rule)
    np.testing.assert_array_equal(alone, together[0])


@given(graphs(), rules)
def test_a_shorter_walk_is_the_beginning_of_a_longer_one(graph: Graph, rule: WalkRule) -> None:
    starts = np.arange(graph.num_nodes)
    long, _ = walk(graph, starts, 1, 9, rule=rule)
    short, _ = walk(graph, starts, 1, 4, rule=rule)
    np.testing.assert_array_equal(short, long[:, :5])


def test_the_bits_are_the_documented_hash() -> None:
    graph, seed, node, number = _random_graph(), 11, 42, 6
    state = _mix_int((_mix_int(make_key(seed) ^ node) + number) & MASK)
    path = [node]
    for step in range(8):
        row = graph.neighbors(path[-1])
        bits = _mix_int((state + ((step << 32) + 1) * GOLDEN) & MASK)
        path.append(int(row[(bits * len(row)) >> 64]))
    np.testing.assert_array_equal(walk(graph, node, number, 8, seed=seed)[0], path)


@pytest.mark.parametrize("count", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", [WalkRule(), WalkRule(p=0.5, q=2)])
def test_blocks_and_chunks_leave_no_seam(count: int, rule: WalkRule, weighted: bool) -> None:
    graph = _random_graph()
    if weighted:
        graph = Graph.from_edges(graph.edge_index(), edge_weight=np.arange(graph.num_edges) % 7)
    starts = np.arange(count) % graph.num_nodes
    numbers = np.arange(count)
    whole, _ = walk(graph, starts, numbers, 5, rule=rule)
    parts = [
        walk(graph, s, n, 5, rule=rule)[0]
        for s, n in zip(np.array_split(starts, 7), np.array_split(numbers, 7), strict=True)
    ]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


_DIGEST = """
import hashlib, sys
import numpy as np
from gpm import Graph, WalkRule, walk
graph = Graph.from_edges(np.random.default_rng(0).integers(0, 300, (2, 3000)), 300, undirected=True)
for threads in map(int, sys.argv[1:]):
    digest = hashlib.sha256()
    for rule in (WalkRule(), WalkRule(p=0.1, q=10), WalkRule(non_backtracking=True)):
        for forbidden in (None, (3, 4)):
            jobs = np.arange(300)[:, None], np.arange(40)
            digest.update(walk(graph, *jobs, 8, rule=rule, threads=threads, forbidden=forbidden)[0].tobytes())
    print(digest.hexdigest(), hashlib.sha256(graph.indices.tobytes()).hexdigest())
"""


def test_threads_do_not_change_the_walks_or_the_graph() -> None:
    lines = set()
    for pool, threads in (("1", ["1"]), ("4", ["1", "2", "4"])):
        environment = os.environ | {"NUMBA_NUM_THREADS": pool}
        ran = subprocess.run([sys.executable, "-c", _DIGEST, *threads], env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        printed = ran.stdout.splitlines()
        assert len(printed) == len(threads)
        lines |= set(printed)
    assert len(lines) == 1


def _digest(graph: Graph) -> str:
    assert repr(_random_graph()) == repr(graph)  # builds one, too
    return hashlib.sha256(walk(graph, np.arange(300)[:, None], np.arange(40), 8)[0].tobytes()).hexdigest()


def test_concurrent_threads_may_walk() -> None:
    graph, found = _random_graph(), []
    workers = [threading.Thread(target=lambda: found.append(_digest(graph))) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [_digest(graph)] * 8


def _send_digest(graph: Graph, pipe) -> None:
    pipe.send(_digest(graph))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(sys.platform != "linux", reason="fork is the way of data loaders on Linux")
def test_a_forked_child_may_walk_after_its_parent_did() -> None:
    graph = _random_graph()
    expected = _digest(graph)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=_send_digest, args=(graph, there))
    child.start()
    assert here.poll(60)
    assert here.recv() == expected
    child.join()
    assert child.exitcode == 0


def test_has_edge_equals_the_matrix() -> None:
    graph = Graph.from_edges(np.random.default_rng(3).integers(0, 20, (2, 60)), 20)
    every = np.arange(20)
    np.testing.assert_array_equal(has_edge(graph, every[:, None], every), weight_matrix(graph) > 0)
    with pytest.raises(GpmError, match="outside 0 to 19"):
        has_edge(graph, 0, 20)


def test_empty_isolated_and_looping() -> None:
    empty = Graph.from_edges([[], []], 0)
    assert walk(empty, np.zeros(0, dtype=int), 0, 4)[0].shape == (0, 5)
    alone = Graph.from_edges([[], []], 3)
    for rule in RULES:
        np.testing.assert_array_equal(walk(alone, [0, 2], 0, 3, rule=rule, forbidden=(0, 1))[0], [[0] * 4, [2] * 4])
    loop = Graph.from_edges([[0], [0]])
    nodes, edges = walk(loop, 0, 0, 3, edges=True)
    assert nodes.tolist() == [0, 0, 0, 0]
    assert edges is not None
    assert edges.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([300], 0, 4), "No start node 300: nodes are numbered 0 to 299"),
        (([-1], 0, 4), "No start node -1"),
        (([0.5], 0, 4), "starts must be integers"),
        (([0], 1.5, 4), "numbers must be integers"),
        (([0], 0, -1), "must not be negative"),
    ],
)
def test_bad_jobs_get_a_sentence(arguments: tuple, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        walk(_random_graph(), *arguments)


def test_bad_forbidden_edges_get_a_sentence() -> None:
    with pytest.raises(GpmError, match="forbidden must be integers"):
        walk(_random_graph(), [0], 0, 4, forbidden=(0.5, 1))
    with pytest.raises(GpmError, match=r"forbidden must have shape \[2\] or \[3, 3, 2\]"):
        walk(_random_graph(), np.zeros((3, 3), dtype=int), 0, 4, forbidden=np.zeros((3, 2), dtype=int))


def test_seeds_and_rules_may_be_numpy_scalars() -> None:
    graph, jobs = _random_graph(), (np.arange(300), 0, 8)
    same = walk(graph, *jobs, seed=3, rule=WalkRule(p=np.float32(0.5), q=2))[0]
    for seed in (np.int64(3), np.uint64(3), np.int32(3)):
        np.testing.assert_array_equal(walk(graph, *jobs, seed=seed, rule=WalkRule(p=0.5, q=2))[0], same)
