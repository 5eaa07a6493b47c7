"""A bag says what the model says, and what it would say without some of its patterns."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gpm import Graph, Tokenizer
from gpm.explain.bag import EXPECTED, Bag, _log_odds, crossed, group_walks
from gpm.patterns.tokenizer import Patterns
from gpm.patterns.walks import has_edge
from gpm.tasks import Task
from tests.explain.bags import CASES, CLASSES, LABELS, LINKS, LONELY, VALUES, in_double, make_bag
from tests.nn.test_model import assert_near, make_graph

pytestmark = pytest.mark.usefixtures("one_thread")
cases = pytest.mark.parametrize("case", CASES)
FORKED = [[0, 0, 0, 1, 2], [1, 2, 3, 2, 4]]  # a triangle with a leaf, and a path of two


def _instances(case: str) -> list[Any]:
    """Ordinary instances, and such as are special: isolated nodes, an edge of the graph, a node with itself."""
    if CASES[case].level == "node":
        return [[5], [0], [LONELY]]
    if CASES[case].level == "graph":
        return [[0], [1], [3], [4]]
    edges = CASES[case].predictor().tokenizer.graph.edge_index().T
    own = next(pair for pair in edges.tolist() if pair[0] != pair[1])
    return [[[0, 9]], [own], [own[::-1]], [[5, 5]], [[3, LONELY]]]


def _restrict(patterns: Patterns, kept: list[int]) -> Patterns:
    """Some slots of patterns."""
    parts = {name: getattr(patterns, name) for name in ("nodes", "numbers", "topology", "edges", "marks")}
    chosen: dict[str, Any] = {name: None if part is None else part[:, kept] for name, part in parts.items()}
    sides = None if patterns.sides is None else patterns.sides[kept]
    return replace(patterns, scales=patterns.scales[kept], sides=sides, **chosen)


def _without(case: str, gone: set[int]) -> Tensor:
    """What the model says when it is never given some of the walks."""
    predictor, logits, first = CASES[case].predictor(), [], 0
    predictor.model.eval()
    count, rounds = predictor.portion()
    for i in range(rounds):
        patterns = predictor.tokenize(CASES[case].instance, count, share=(i, rounds))
        slots = patterns.nodes.shape[1]
        kept = [slot for slot in range(slots) if first + slot not in gone]
        some, shares = _restrict(patterns, kept), patterns.shares
        shares = None if shares is None else shares[:, kept]
        frame = replace(some.frame, shares=shares)
        count_known = 0 if predictor.model.expected is None else len(predictor.model.expected)
        known = range(first + slots, first + slots + count_known)
        weight = None
        if known:  # the walks that are left keep their share beside expected patterns
            each = 1.0 if predictor.model.options.readout == "sum" else len(kept) / slots
            weight = torch.tensor([[each] * len(kept) + [float(slot not in gone) for slot in known]])
        with torch.no_grad():
            logits.append(predictor.model.read(predictor.model.encode(some, predictor.table), frame, weight).logits)
        first += slots + count_known
    return torch.stack(logits).mean(0)


# What the model says


@cases
def test_a_bag_says_what_the_model_predicts(case: str) -> None:
    predictor = CASES[case].predictor()
    for instance in _instances(case):
        bag = Bag.draw(predictor, CASES[case].task, np.array(instance))
        said = bag.logits().detach()
        assert_near(said, predictor.logits(np.array(instance)), f"logits of {instance}")
        assert_near(bag.logits(torch.ones(2, len(bag))).detach(), said.expand(2, -1), "with weights of 1")
    assert predictor.model.training  # as it was before


@cases
def test_walks_are_all_that_the_model_reads(case: str) -> None:
    bag = make_bag(case)
    predictor = bag.predictor
    count, rounds = predictor.portion()
    read = [predictor.tokenize(CASES[case].instance, count, share=(i, rounds)) for i in range(rounds)]
    assert len(bag.parts) == rounds
    assert (rounds > 1) == case.startswith("joint")
    drawn = bag.scales != EXPECTED
    np.testing.assert_array_equal(bag.walks[drawn], torch.cat([patterns.nodes[0] for patterns in read]))
    np.testing.assert_array_equal(bag.scales[drawn], torch.cat([patterns.scales for patterns in read]))
    np.testing.assert_array_equal((bag.walks >= 0).sum(1), bag.scales + 1)
    known = np.full((rounds, len(bag.expected)), False)  # at the end of every part
    ends = [np.concatenate([np.full(len(each.scales), True), row]) for each, row in zip(read, known, strict=True)]
    np.testing.assert_array_equal(drawn, np.concatenate(ends))
    assert bool(bag.expected) == ("expected" in case)
    assert len(bag) == len(bag.walks) == sum(len(part.encoded) for part in bag.parts)


@cases
def test_leaving_walks_out_is_never_having_had_them(case: str) -> None:
    bag = make_bag(case)
    walks = np.random.default_rng(0).permutation(len(bag))
    groups = [walks[:1], walks[1:4], walks[4:12], np.sort(walks[: len(bag) // 2]), np.zeros(0, dtype=np.int64)]
    found = bag.leave_out(groups)
    for row, group in enumerate(groups):
        assert_near(found[row : row + 1], _without(case, set(group.tolist())), f"logits without {group}")
    assert (found[:4] - bag.logits()).abs().max(1).values.min() > 1e-4
    assert bag.leave_out([]).shape == (0, bag.logits().shape[1])


@cases
def test_cutting_a_reading_into_pieces_changes_nothing(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bag = make_bag(case)
    weight = torch.rand(13, len(bag), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = bag.logits(weight)
        read: list[int] = []
        monkeypatch.setattr(
            Bag, "_read", lambda *given, plain=Bag._read: (read.append(len(given[2])), plain(*given))[1]
        )
        for most, largest in ((1, 1), (5 * len(bag) * 8, 13)):
            read.clear()
            monkeypatch.setattr("gpm.explain.bag.MOST_NUMBERS", most)
            assert_near(bag.logits(weight), whole, "logits in pieces")
            assert max(read) <= largest
            assert sum(read) == 13 * len(bag.parts)


@cases
def test_maps_ahead_change_nothing(case: str) -> None:
    predictor = CASES[case].predictor()
    predictor.model.eval()
    maps = predictor.model.map_all_nodes(predictor.table)
    plain, ahead = (Bag.draw(predictor, CASES[case].task, CASES[case].instance, maps=m) for m in (None, maps))
    for one, two in zip(plain.parts, ahead.parts, strict=True):
        assert_near(two.encoded, one.encoded, "encoded")


@cases
def test_slopes_are_the_differences_of_small_steps(case: str) -> None:
    bag, step = in_double(make_bag(case)), 1e-5
    walks, classes = [0, 7, len(bag) - 1], bag.classes
    weight = 0.5 + torch.rand(classes, len(bag), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    slopes = bag.slopes(weight, range(classes))
    assert slopes.shape == (classes, len(bag))
    with torch.no_grad():
        for walk in walks:
            up, down = weight.clone(), weight.clone()
            up[:, walk] += step
            down[:, walk] -= step
            rise = (bag.measure(bag.logits(up)) - bag.measure(bag.logits(down))).diagonal() / (2 * step)
            np.testing.assert_allclose(slopes[:, walk], rise, rtol=1e-5, atol=1e-8)
    assert np.abs(slopes).max() > 1e-3
    assert not weight.requires_grad


def test_attention_adds_up_to_1_over_the_walks() -> None:
    for case in ("class", "fusion", "graph class"):
        bag = make_bag(case)
        found = bag.attention()
        assert found is not None
        assert found.shape == (len(bag),)
        assert found.sum() == pytest.approx(1, rel=1e-5)
        assert found.min() > 0
    assert all(make_bag(case).attention() is None for case in ("mean", "sum", "joint", "product", "values"))


# Draws


@cases
def test_the_same_seed_draws_the_same_bag_and_another_draws_others(case: str) -> None:
    predictor = CASES[case].predictor()
    own = predictor.tokenizer.seed
    plain, same, *others = (
        Bag.draw(predictor, CASES[case].task, CASES[case].instance, seed=seed) for seed in (None, own, 7, 7, 8)
    )
    np.testing.assert_array_equal(plain.walks, same.walks)
    np.testing.assert_array_equal(others[0].walks, others[1].walks)
    assert torch.equal(others[0].logits(), others[1].logits())
    assert not np.array_equal(plain.walks, others[0].walks)
    assert not np.array_equal(others[0].walks, others[2].walks)
    assert (predictor.tokenizer.seed, others[2].predictor.tokenizer.seed) == (own, 8)
    np.testing.assert_array_equal(others[0].scales, plain.scales)


def test_a_bag_on_another_graph_is_that_of_the_model_there() -> None:
    graph = make_graph("dense", "dense")
    less = Graph.from_edges(np.zeros((2, 0)), graph.num_nodes, x=graph.x, edge_attr=np.zeros((0, 5)))
    bag = make_bag("class", graph=less)
    assert (bag.walks[:, 0] == 5).all()
    assert all(not group.edges for group in group_walks(bag))
    assert bag.predictor.tokenizer.graph is less


# One bag put into another


@cases
def test_walks_that_are_put_into_another_bag_take_the_place_of_others(case: str) -> None:
    one, two = make_bag(case), make_bag(case, seed=9)
    walks = np.sort(np.random.default_rng(1).permutation(len(one))[:7])  # of a link, more from one end than the other
    gone = np.array([2, 5])
    joined = one.put_into(walks, two, gone)
    walks = walks[one.scales[walks] != EXPECTED]  # expected patterns are in both, and stay
    assert len(joined) == len(two) + len(walks) - len(gone)
    assert (joined.scales[len(joined) - len(two.expected) :] == EXPECTED).all()
    sources = [("one", i) for i in walks.tolist()] + [("two", i) for i in range(len(two)) if i not in gone]
    encoded = {name: torch.cat([part.encoded for part in bag.parts]) for name, bag in (("one", one), ("two", two))}
    mine = torch.cat([part.encoded for part in joined.parts])
    told = sorted((joined.walks[i].tolist(), mine[i].tolist()) for i in range(len(joined)))
    wanted = [({"one": one, "two": two}[name].walks[i].tolist(), encoded[name][i].tolist()) for name, i in sources]
    assert told == sorted(wanted)


@cases
def test_all_walks_in_place_of_all_others_are_the_first_bag(case: str) -> None:
    one, two = make_bag(case), make_bag(case, seed=9)
    joined = one.put_into(np.arange(len(one)), two, np.arange(len(two)))
    assert_near(joined.logits().detach(), one.logits().detach(), "the first bag again")


def test_putting_in_nothing_leaves_the_other_bag() -> None:
    one, two = make_bag("joint"), make_bag("joint", seed=9)
    joined = one.put_into(np.zeros(0, dtype=np.int64), two)
    assert torch.equal(joined.logits(), two.logits())


# What evidence is counted in


def _measure(task: Task, logits: Any) -> Tensor:
    return replace(make_bag("mean"), task=task).measure(torch.tensor(logits, dtype=torch.float64))


def test_evidence_is_the_log_odds_of_a_class() -> None:
    logits = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).mul(3)
    chance = logits.softmax(1)
    torch.testing.assert_close(_measure(CLASSES, logits.tolist()), (chance / (1 - chance)).log())
    chance = logits.sigmoid()
    torch.testing.assert_close(_measure(LABELS, logits.tolist()), (chance / (1 - chance)).log())
    torch.testing.assert_close(_measure(VALUES, logits.tolist()), VALUES.answers(logits))


def test_a_link_has_two_classes_and_what_speaks_for_one_speaks_against_the_other() -> None:
    logits = torch.tensor([[-3.0], [0.5], [40.0]], dtype=torch.float64)
    bag = replace(make_bag("joint"), task=LINKS)
    answers, measured = bag.answers(logits), bag.measure(logits)
    torch.testing.assert_close(answers, torch.cat([1 - logits.sigmoid(), logits.sigmoid()], 1))
    torch.testing.assert_close(measured, torch.cat([-logits, logits], 1))
    torch.testing.assert_close(measured[:2], answers[:2].logit())
    assert bag.classes == measured.shape[1] == answers.shape[1] == 2
    assert [make_bag(case).classes for case in ("mean", "fusion", "values")] == [3, 3, 3]


@pytest.mark.parametrize("classes", [2, 3, 40])
def test_log_odds_are_exact_and_finite_with_their_slopes(classes: int) -> None:
    logits = 5 * torch.randn(30, classes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    logits[:3] = torch.tensor([[0.0], [1e4], [-1e4]], dtype=torch.float64)  # all alike
    logits[3:6, 0] += torch.tensor([1e4, -1e4, 300.0], dtype=torch.float64)
    logits.requires_grad_()
    found = _log_odds(logits)
    (slope,) = torch.autograd.grad(found[:, 0].sum(), logits)
    others = [logits[:, [c for c in range(classes) if c != k]].logsumexp(1) for k in range(classes)]
    torch.testing.assert_close(found, logits - torch.stack(others, 1))
    assert found.isfinite().all()
    torch.testing.assert_close(slope[:, 0].detach(), torch.ones(30, dtype=torch.float64))  # the others are constant
    assert slope.isfinite().all()


def test_evidence_never_saturates() -> None:
    found = _measure(CLASSES, [[1e4, 0.0, -1e4], [1e4 + 1, 0.0, -1e4], [-3e38, 3e38, 0.0]])
    assert found.isfinite().all()
    assert found[1, 0] - found[0, 0] == 1
    torch.testing.assert_close(found[0], torch.tensor([1e4, -1e4, -2e4], dtype=torch.float64))
    single = replace(make_bag("mean"), task=CLASSES).measure(torch.tensor([[50.0, 0.0, -50.0], [90.0, 0.0, -50.0]]))
    assert single[1, 0] - single[0, 0] == pytest.approx(40)  # in single precision both would be sure


# Groups


@cases
def test_every_walk_is_in_one_group_and_a_group_is_one_subgraph(case: str) -> None:
    for instance in _instances(case):
        bag = make_bag(case, np.array(instance))
        groups, inside = group_walks(bag), bag.predictor.tokenizer.topology != "loops"
        assert sorted(np.concatenate([group.walks for group in groups]).tolist()) == list(range(len(bag)))
        seen = set()
        assert [group.expected for group in groups if not group.nodes] == bag.expected
        assert len({group.key for group in groups}) == len(groups)
        for group in groups[: len(groups) - len(bag.expected)]:
            for walk in bag.walks[group.walks].tolist():
                assert {node for node in walk if node >= 0} == set(group.nodes)
                if not inside:
                    assert _edges(walk) == set(group.edges)
            assert len(set(group.nodes)) == len(group.nodes)
            assert group.nodes[0] == bag.walks[group.walks[0], 0]
            seen.add((frozenset(group.nodes), group.edges))
        groups = [group for group in groups if not group.expected]
        assert len(seen) == len(groups)  # what is one subgraph is one group
        if inside:
            assert len({frozenset(group.nodes) for group in groups}) == len(groups)


def _edges(walk: list[int]) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in pairwise(walk) if a != b and min(a, b) >= 0}


@cases
def test_edges_of_a_group_are_edges_of_the_graph(case: str) -> None:
    bag = make_bag(case)
    graph, inside = bag.predictor.tokenizer.graph, bag.predictor.tokenizer.topology != "loops"
    some = False
    for group in group_walks(bag):
        for a, b in group.edges:
            assert a < b
            assert {a, b} <= set(group.nodes)
        every = {(a, b) for a in group.nodes for b in group.nodes if a < b and _joined(graph, a, b)}
        assert set(group.edges) == every if inside else set(group.edges) <= every
        matrix, place = group.adjacency(), {node: i for i, node in enumerate(group.nodes)}
        assert (matrix == matrix.T).all()
        assert matrix.sum() == 2 * len(group.edges)
        assert all(matrix[place[a], place[b]] for a, b in group.edges)
        some |= bool(group.edges)
    assert some


def _joined(graph: Graph, a: int, b: int) -> bool:
    return bool(has_edge(graph, np.array([a, b]), np.array([b, a])).any())


@cases
def test_a_pattern_is_known_by_its_key_in_another_bag(case: str) -> None:
    one, two = (group_walks(make_bag(case, seed=seed)) for seed in (None, 9))
    assert len({group.key for group in one}) == len(one)
    theirs = {group.key: group for group in two}
    met = [(group, theirs[group.key]) for group in one if group.key in theirs]
    assert met
    for mine, other in met:
        assert (set(mine.nodes), mine.edges) == (set(other.nodes), other.edges)


@cases
def test_every_walk_has_an_owner(case: str) -> None:
    bag = make_bag(case)
    groups = group_walks(bag)
    owner = np.zeros(len(bag), dtype=np.int64)
    for index, group in enumerate(groups):
        owner[group.walks] = index
    assert owner.shape == (len(bag),)
    assert all(walk in groups[place].walks for walk, place in enumerate(owner.tolist()))


@cases
def test_the_order_of_walks_changes_no_group(case: str) -> None:
    bag = make_bag(case)
    turned = replace(bag, walks=bag.walks[::-1].copy(), scales=bag.scales[::-1].copy())
    last = len(bag) - 1
    forward = {(frozenset(g.walks.tolist()), frozenset(g.nodes), g.edges) for g in group_walks(bag)}
    backward = {(frozenset((last - g.walks).tolist()), frozenset(g.nodes), g.edges) for g in group_walks(turned)}
    assert forward == backward


def test_a_walk_and_its_reverse_are_one_pattern() -> None:
    graph = Graph.from_edges(FORKED, 5, undirected=True, x=np.eye(5))
    bag = Bag.draw(CASES["mean"].predictor(graph), CLASSES, np.array([0]))
    walks = np.array([[1, 0, 3, -1], [3, 0, 1, -1], [0, 1, 2, 0], [0, 2, 1, 0], [0, 1, 0, 2], [0, 1, 2, -1]])
    found = group_walks(replace(bag, walks=walks, scales=(walks >= 0).sum(1) - 1))
    assert [group.walks.tolist() for group in found] == [[0, 1], [2, 3], [4], [5]]
    assert [group.nodes for group in found] == [(1, 0, 3), (0, 1, 2), (0, 1, 2), (0, 1, 2)]
    assert found[1].edges == ((0, 1), (0, 2), (1, 2))
    assert (found[2].edges, found[3].edges) == (((0, 1), (0, 2)), ((0, 1), (1, 2)))
    assert crossed([4, 4, 2, 4, -1, -1]) == ((2, 4),)
    inside = replace(bag.predictor, tokenizer=Tokenizer(graph, topology="shape"))
    merged = group_walks(replace(bag, predictor=inside, walks=walks))
    assert [group.walks.tolist() for group in merged] == [[0, 1], [2, 3, 4, 5]]
    assert merged[1].edges == ((0, 1), (0, 2), (1, 2))


@pytest.mark.parametrize("case", ["mean", "class", "fusion"])
def test_an_isolated_node_is_a_pattern_without_edges(case: str) -> None:
    (group,) = group_walks(make_bag(case, np.array([LONELY])))
    assert (group.nodes, group.edges) == ((LONELY,), ())
    assert group.adjacency().shape == (1, 1)
    assert len(group.walks) == 24


@pytest.mark.parametrize("pair", ["joint", "product"])
@pytest.mark.parametrize("topology", ["loops", "induced", "shape"])
def test_a_links_own_edge_is_in_no_pattern_where_the_model_does_not_see_it(pair: str, topology: str) -> None:
    """Edges of a pattern are those that the model sees; under strict it never sees the link that it is asked for."""
    graph = Graph.from_edges(FORKED, 5, undirected=True, x=np.eye(5))
    case = replace(CASES["joint"], options={"pair": pair, "topology": topology})
    predictor = case.predictor(graph)
    bag = Bag.draw(predictor, LINKS, np.array([[0, 1]]))
    assert_near(bag.logits().detach(), predictor.logits(np.array([[0, 1]])), "logits of an edge")
    shown = {edge for group in group_walks(bag) for edge in group.edges}
    assert {(0, 2), (1, 2)} <= shown
    assert ((0, 1) in shown) == (pair == "product")  # whose embeddings serve many pairs, so that nothing is hidden
