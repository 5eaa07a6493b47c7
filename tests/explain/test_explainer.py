"""An explanation is of what the run predicts, in the user's names, and the same every time."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from gpm import GpmError, Graph, Run
from gpm.data.catalog import CATALOG
from gpm.data.node_data import NodeData
from gpm.explain.attribution import METHODS, rank_patterns
from gpm.explain.bag import Bag, Group
from gpm.explain.explainer import class_names, find_instance
from gpm.explain.explanation import Explanation
from gpm.explain.faithfulness import DELETED, INSERTED, score_again
from gpm.patterns.walks import has_edge
from tests.explain.conftest import HOSTILE, NAMES, Motifs
from tests.explain.runs import EMPTY, NODES

pytestmark = pytest.mark.usefixtures("one_thread_for_all")

EDGE = "an edge"  # of the graph that is walked
ASKED: dict[str, list[Any]] = {
    "nodes": ["n20", HOSTILE[0]],
    "mean": [7],
    "directed": [3],
    "labels": [4],
    "links": [(0, 1), EDGE],
    "product": [(0, 1), EDGE],
    "graphs": [5, "6"],
    "values": [8],
}
OPTIONS: dict[str, dict[str, Any]] = {"values": {"target": "value 1"}}  # of several values one must be named
instances = pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, some in ASKED.items() for name in some])


def _find(run: Run, name: Any) -> Any:
    if name is not EDGE:
        return name
    walked: Graph = run.predictor.tokenizer.graph  # type: ignore[attr-defined]
    return tuple(walked.edge_index()[:, 0].tolist())


@pytest.fixture(scope="module")
def explained(open_run: Any) -> Any:
    """The explanation of an instance, made once."""
    known: dict[Any, Explanation] = {}

    def find(kind: str, name: Any) -> Explanation:
        if (kind, name) not in known:
            run = open_run(kind)
            known[kind, name] = run.explain(_find(run, name), draws=2, **OPTIONS.get(kind, {}))
        return known[kind, name]

    return find


# What is explained


@instances
def test_the_answers_are_those_that_are_predicted(kind: str, name: Any, open_run: Any, explained: Any) -> None:
    run, found = open_run(kind), explained(kind, name)
    said = run.predict([_find(run, name)]).probability[0]
    wanted = [1 - said[0], said[0]] if found.kind == "link" else said
    np.testing.assert_allclose(found.answers, wanted, rtol=1e-4, atol=1e-6)
    assert found.answer == found.answers[found.target]
    assert found.target == 1 if kind == "values" else found.answer == max(found.answers)
    assert len(found.classes) == len(found.answers)
    for curve, at in ((found.trust.deletion, 0), (found.trust.insertion, -1), (found.trust.edges, 0)):
        assert curve.top[at] == pytest.approx(found.answer, rel=1e-4, abs=1e-5)


def test_classes_labels_links_and_values_are_told_apart(explained: Any) -> None:
    found = {kind: explained(kind, some[0]) for kind, some in ASKED.items()}
    assert {kind: e.kind for kind, e in found.items()} == {
        "nodes": "classes", "mean": "classes", "directed": "classes", "labels": "labels", "links": "link",
        "product": "link", "graphs": "classes", "values": "value",
    }  # fmt: skip
    assert found["nodes"].classes == ("0", "10", "20")
    assert found["nodes"].truth == "20"
    assert found["labels"].classes == ("0", "1")
    assert found["labels"].truth == ""  # node 4 has neither
    assert found["links"].classes == found["product"].classes == ("no link", "link")
    assert found["links"].truth in ("link", "no link")
    assert found["values"].classes == ("value 0", "value 1")
    assert found["graphs"].truth == "1"
    assert [found[kind].name for kind in ("mean", "links", "graphs")] == ["node 7", "link 0 - 1", "graph 5"]
    links = found["links"]
    assert links.headline == f"link 0 - 1: {links.classes[links.target]}, {links.answer:.1%} sure"
    assert found["values"].headline == f"graph 8: value 1 {found['values'].answer:.4g}"
    assert 20 < found["values"].answers[0] < 80


def test_the_truth_of_a_link_is_that_of_the_whole_graph(open_run: Any) -> None:
    """Held-out edges are edges, though the walks never saw them."""
    run = open_run("links")
    pair = run.split.edges_of("test")[0]
    assert not has_edge(run.predictor.tokenizer.graph, pair[:1], pair[1:]).any()
    assert run.explain(tuple(pair.tolist()), draws=2, top=1).truth == "link"
    apart = run.split.negatives_of("test")[0]
    assert run.explain(tuple(apart.tolist()), draws=2, top=1).truth == "no link"


def test_a_link_that_is_predicted_absent_is_explained_as_such(open_run: Any) -> None:
    run = open_run("links")
    pairs = np.concatenate([run.split.negatives_of("test"), run.split.edges_of("test")])
    chance = np.asarray(run.predict_pairs(pairs).probability)[:, 0]
    least, most = (tuple(pairs[place].tolist()) for place in (chance.argmin(), chance.argmax()))
    assert chance.min() < 0.5 < chance.max()
    absent, there = (run.explain(pair, draws=2, method="left-out") for pair in (least, most))
    assert (absent.target, there.target) == (0, 1)
    turned = run.explain(least, draws=2, method="left-out", target="link", top=absent.found)
    scores = {(p.names, p.expected): p.score for p in absent.patterns}
    assert scores.items() <= {(p.names, p.expected): -p.score for p in turned.patterns}.items()


# Patterns


@instances
def test_patterns_are_walks_of_the_graph_in_the_users_names(
    kind: str, name: Any, open_run: Any, explained: Any
) -> None:
    graph, found = open_run(kind).predictor.tokenizer.graph, explained(kind, name)
    assert found.patterns
    starts = {node.name for node in found.view.nodes if node.start}
    for pattern in found.patterns:
        assert pattern.names == tuple(found.view.nodes[place].name for place in pattern.walk)
        nodes = np.array([graph.find(each) for each in pattern.names])
        steps = list(pairwise(nodes.tolist()))
        assert all(a == b or has_edge(graph, np.array([a]), np.array([b])).all() for a, b in steps)
        if pattern.expected:
            assert (pattern.walk, pattern.edges, pattern.count) == ((), (), 0)
            continue
        assert pattern.scale == len(pattern.walk) - 1
        if found.level != "graph":
            assert pattern.names[0] in starts
    if found.level != "graph":
        assert starts == set(found.instance)


@instances
def test_all_that_is_told_lies_in_the_view(kind: str, name: Any, explained: Any) -> None:
    found = explained(kind, name)
    drawn = {frozenset((edge.source, edge.target)) for edge in found.view.edges}
    places = range(len(found.view.nodes))
    for pattern in found.patterns:
        assert set(pattern.walk) <= set(places)
        assert {frozenset(edge) for edge in pattern.edges} <= drawn
        assert {place for edge in pattern.edges for place in edge} <= set(pattern.walk)
    assert all(0 <= node.x <= 1 and 0 <= node.y <= 1 and 0 <= node.weight <= 1 for node in found.view.nodes)
    assert all(edge.source in places and edge.target in places for edge in found.view.edges)
    assert found.view.hidden >= 0


@instances
def test_patterns_are_ranked_and_each_comes_once(kind: str, name: Any, explained: Any) -> None:
    found = explained(kind, name)
    scores = [pattern.score for pattern in found.patterns]
    assert scores == sorted(scores, reverse=True)
    assert len(found.patterns) == min(10, found.found)
    assert len({(frozenset(p.walk), p.edges, p.expected) for p in found.patterns}) == len(found.patterns)
    assert all((p.count >= 1 or p.expected) and p.spread >= 0 for p in found.patterns)
    assert np.isfinite([[p.score, p.spread, p.again, p.without] for p in found.patterns]).all()
    for pattern in found.patterns:
        assert len(pattern.evidence) == len(found.classes)
        raises = pattern.evidence[found.target] > 0
        assert pattern.argues == (raises if found.kind == "value" else int(np.argmax(pattern.evidence)))
    assert found.found == 1 or max(pattern.spread for pattern in found.patterns) > 0


@instances
def test_trust_has_all_its_curves(kind: str, name: Any, explained: Any) -> None:
    trust = explained(kind, name).trust
    assert (trust.deletion.share, trust.insertion.share) == (DELETED, INSERTED)
    assert trust.draws == 2
    assert 0 <= trust.stability <= 1 + 1e-9
    assert 0 <= trust.overlap <= 1
    assert trust.drop == pytest.approx(trust.deletion.top[0] - trust.deletion.top[DELETED.index(0.1)])
    assert trust.random_drop == pytest.approx(trust.deletion.random[0] - trust.deletion.random[DELETED.index(0.1)])
    for curve in (trust.deletion, trust.insertion, trust.edges):
        assert np.isfinite([*curve.top, *curve.random, *curve.spread]).all()


def test_all_patterns_together_have_all_walks(open_run: Any) -> None:
    found = open_run("mean").explain(7, top=128, draws=2)
    assert len(found.patterns) == found.found
    assert sum(pattern.count for pattern in found.patterns) == found.walks == 12


def _classes_asked(run: Run, name: Any, top: int) -> tuple[Explanation, dict[int, list[frozenset[str]]]]:
    """An explanation, and for each other likely class its best patterns, as the names of their nodes."""
    found = run.explain(name, top=top, draws=2)
    bag = Bag.draw(run.predictor, run.task, find_instance(run, name))  # type: ignore[arg-type]
    ranking = rank_patterns(bag, "auto", found.target)
    likely = [c for c in np.argsort(-np.array(found.answers)).tolist() if c != found.target][:4]
    names = run.data.graph.name
    named = [group.expected or frozenset(str(names(node)) for node in group.nodes) for group in ranking.groups]
    best = {c: np.argsort(-ranking.evidence[:, c], kind="stable")[: min(top, 5)].tolist() for c in likely}
    return found, {c: [named[i] for i in places] for c, places in best.items()}


@pytest.mark.parametrize(("kind", "name"), [("nodes", "n20"), ("labels", 4), ("links", (0, 1)), ("motifs", 3)])
def test_the_best_for_other_likely_classes_are_there_too(kind: str, name: Any, open_run: Any, motifs: Motifs) -> None:
    found, wanted = _classes_asked(
        motifs.run if kind == "motifs" else open_run(kind), name, 6 if kind == "motifs" else 2
    )
    told = [pattern.expected or frozenset(pattern.names) for pattern in (*found.patterns, *found.others)]
    assert wanted
    assert all(each in told for best in wanted.values() for each in best)
    mine = {p.expected or (frozenset(p.walk), p.edges) for p in found.patterns}
    asked = {each for best in wanted.values() for each in best}
    for pattern in found.others:
        assert (pattern.expected or (frozenset(pattern.walk), pattern.edges)) not in mine
        assert (pattern.expected or frozenset(pattern.names)) in asked
        assert pattern.score <= found.patterns[-1].score
        assert pattern.argues == int(np.argmax(pattern.evidence))
    assert found.others or asked <= set(told[: len(found.patterns)])


def test_a_value_has_no_other_classes(explained: Any) -> None:
    assert explained("values", 8).others == ()


def test_the_spread_and_the_mean_are_of_scores_among_others(open_run: Any) -> None:
    run = open_run("mean")
    found = run.explain(7, draws=3, method="left-out")
    bag = Bag.draw(run.predictor, run.task, np.array([7]))
    ranking = rank_patterns(bag, "left-out")
    seeds = [run.predictor.tokenizer.seed + i for i in (1, 2, 3)]
    others = [Bag.draw(run.predictor, run.task, np.array([7]), seed=seed) for seed in seeds]
    told = {p.score: (p.again, p.spread) for p in (*found.patterns, *found.others)}
    shown = [(group, float(s)) for group, s in zip(ranking.groups, ranking.scores, strict=True) if float(s) in told]
    groups, scores = [group for group, _ in shown], [score for _, score in shown]
    assert len(set(scores)) > 2
    again = score_again(ranking, groups, others)
    wanted = np.stack([again.mean(0), again.std(0, ddof=1)], 1)
    np.testing.assert_allclose([told[score] for score in scores], wanted, atol=1e-6)


def test_top_is_how_many_are_shown_and_changes_no_pattern(open_run: Any, explained: Any) -> None:
    top, whole, some = 3, explained("mean", 7), open_run("mean").explain(7, top=3, draws=2)
    assert len(some.patterns) == top
    told = [(p.names, p.score, p.shape, p.count, p.evidence) for p in whole.patterns[:top]]
    assert [(p.names, p.score, p.shape, p.count, p.evidence) for p in some.patterns] == told
    assert some.found == whole.found


def test_the_room_changes_what_is_drawn_and_nothing_else(open_run: Any) -> None:
    run = open_run("nodes")
    small, large = run.explain("n20", room=0, draws=2), run.explain("n20", room=NODES, draws=2)
    assert len(small.view.nodes) < len(large.view.nodes)
    assert {name for p in small.patterns for name in p.names} <= {node.name for node in small.view.nodes}
    for one, two in zip(small.patterns, large.patterns, strict=True):
        assert (one.names, one.score, one.spread, one.shape) == (two.names, two.score, two.spread, two.shape)
    assert small.trust == large.trust


# The same every time


@pytest.mark.parametrize("kind", ["nodes", "links", "product", "values"])
def test_the_same_run_gives_the_same_explanation(kind: str, folders: Any, explained: Any) -> None:
    name = ASKED[kind][0]
    again = Run.open(folders(kind), device="cpu")
    assert again.explain(_find(again, name), draws=2, **OPTIONS.get(kind, {})) == explained(kind, name)


def test_other_draws_change_the_spread_alone(open_run: Any, explained: Any) -> None:
    two, three = explained("mean", 7), open_run("mean").explain(7, draws=3)
    assert (two.trust.draws, three.trust.draws) == (2, 3)
    plain = [[replace(p, spread=0.0, again=0.0) for p in each.patterns] for each in (two, three)]
    assert plain[0] == plain[1]
    assert [p.spread for p in two.patterns] != [p.spread for p in three.patterns]
    assert [p.again for p in two.patterns] != [p.again for p in three.patterns]
    assert two.trust.deletion == three.trust.deletion


def test_an_explanation_is_plain_values(explained: Any) -> None:
    for kind, some in ASKED.items():
        told = json.loads(json.dumps(explained(kind, some[0]).to_dict(), allow_nan=False))
        assert told["name"] == explained(kind, some[0]).name


# Names, classes, methods


def test_any_name_passes_through(open_run: Any) -> None:
    for name in HOSTILE[::3]:
        found = open_run("nodes").explain(name, draws=2, top=2, method="left-out")
        assert found.instance == (name,)
        assert {each for pattern in found.patterns for each in pattern.names} <= set(NAMES)
        assert all(pattern.names[0] == name for pattern in found.patterns if not pattern.expected)


def test_a_class_is_asked_for_by_its_name_or_number(open_run: Any, motifs: Motifs) -> None:
    run = open_run("nodes")
    for wanted in (10, "10"):
        found = run.explain("n20", target=wanted, draws=2, method="left-out")
        assert found.target == 1
        assert found.answer == found.answers[1]
        assert [p.score for p in found.patterns] == [p.evidence[1] for p in found.patterns]
    assert run.explain("n20", target="", draws=2, top=1) == run.explain("n20", target=None, draws=2, top=1)
    classes = CATALOG["motifs"].classes
    named = Run.open(motifs.run.folder, NodeData(motifs.planted.graph, "motifs", class_names=classes), device="cpu")
    found = named.explain(0, target="house roof", draws=2, top=1)
    assert (found.classes, found.target) == (classes, 1)
    assert found.truth == classes[motifs.planted.graph.y[0]]  # type: ignore[index]
    for place, name in enumerate(("no link", "link")):
        assert open_run("links").explain((0, 1), target=name, draws=2, top=1).target == place


def test_names_that_a_run_keeps_are_used(open_run: Any) -> None:
    def named(kind: str, **facts: Any) -> tuple[str, ...]:
        run = Run(open_run(kind).folder, device="cpu")
        run.metadata |= facts
        return class_names(run)

    assert named("values", target_names=["age", "income"]) == ("age", "income")
    assert named("values", target_names=["age"]) == ("value 0", "value 1")  # of some other task
    assert named("labels", target_names=["young", "rich"]) == ("young", "rich")
    assert named("nodes", class_names=["red", "green", "blue"]) == ("red", "green", "blue")


def test_a_name_comes_before_a_number(open_run: Any) -> None:
    run = Run(open_run("nodes").folder, device="cpu")
    run.metadata |= {"class_names": ["20", "0", "10"]}  # of the classes 0, 10 and 20
    assert run.explain("n20", target="20", draws=2, top=1).target == 0


@pytest.mark.parametrize("method", METHODS)
def test_every_method_explains(method: str, open_run: Any) -> None:
    found = open_run("nodes").explain("n20", method=method, draws=2)
    assert found.method == ("banzhaf" if method == "auto" else method)
    assert np.isfinite([(p.score, p.spread) for p in found.patterns]).all()


def test_another_graph_is_explained_too(open_run: Any, folders: Any) -> None:
    """Its classes are not known, nor is there any split of it."""
    ring = np.stack([np.arange(6), (np.arange(6) + 1) % 6])
    graph = Graph.from_edges(ring, 6, undirected=True, x=np.eye(6, 3), edge_weight=np.ones(6), names="abcdef")
    found = Run.open(folders("mean"), graph, device="cpu", other=True).explain("c", draws=2)
    assert (found.instance, found.truth) == (("c",), "")
    assert {name for p in found.patterns for name in p.names} <= set("abcdef")


# Mistakes


@pytest.mark.parametrize(
    ("kind", "name", "options", "sentence"),
    [
        ("nodes", "n99", {}, "No node is named 'n99'. Did you mean 'n"),
        ("mean", 40, {}, "No node 40: this graph's nodes are numbered 0 to 39."),
        ("graphs", 30, {}, "No graph '30': graphs are numbered 0 to 29."),
        ("graphs", "one", {}, "No graph 'one': graphs are numbered 0 to 29."),
        ("graphs", EMPTY, {}, "Graph 3 has no nodes, so there is nothing to explain."),
        ("links", 5, {}, "A link has two ends; name two nodes, as in --link A B."),
        ("links", "5", {}, "A link has two ends; name two nodes, as in --link A B."),
        ("links", "ab", {}, "A link has two ends; name two nodes, as in --link A B."),
        ("links", (1, 2, 3), {}, "A link has two ends; name two nodes, as in --link A B."),
        ("links", (1, 99), {}, "No node 99: this graph's nodes are numbered 0 to 39."),
        ("nodes", "n20", {"target": "11"}, "There is no class '11'. Classes: 0, 10, 20."),
        ("values", 5, {"target": "value 2"}, "There is no class 'value 2'."),
        ("nodes", "n20", {"method": "atention"}, "method must be one of auto,"),
        ("mean", 7, {"method": "attention"}, "A mean readout has no attention over patterns; choose --method "),
        ("links", (0, 1), {"method": "attention"}, "A link has no attention over patterns; choose --method "),
        ("mean", 7, {"top": 0}, "top must lie between 1 and 128, got 0."),
        ("mean", 7, {"top": 1000}, "top must lie between 1 and 128, got 1000."),
        ("mean", 7, {"top": 2.5}, "top must be a whole number, got 2.5."),
        ("mean", 7, {"draws": 1}, "draws must be at least 2, since one draw has no spread, got 1."),
        ("values", 5, {}, "predicts several values; name one with --target, as in 'value 0'."),
        ("links", (0, 1), {"target": "nolink"}, "There is no class 'nolink'. Did you mean 'no link'?"),
        ("gcn", 7, {}, "gcn holds a gcn, which reads no patterns; use a run of a gpm."),
    ],
)
def test_a_mistake_gets_one_sentence(
    kind: str, name: Any, options: dict[str, Any], sentence: str, open_run: Any
) -> None:
    with pytest.raises(GpmError) as raised:
        open_run(kind).explain(name, **options)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


# What is known to be true


def _share(motifs: Motifs, node: int, groups: list[Group]) -> float:
    """The share of the edges of some patterns that lie on the motif of a node."""
    motif = motifs.planted.motif
    edges = np.array([edge for group in groups for edge in group.edges])
    return float((motif[edges] == motif[node]).all(1).mean())


def test_the_best_patterns_lie_on_the_planted_houses(motifs: Motifs) -> None:
    run, y, random = motifs.run, motifs.planted.graph.y, np.random.default_rng(0)
    assert y is not None
    said = run.predict().labels
    houses = np.flatnonzero((y >= 1) & (y <= 3) & (said == y))
    assert len(houses) >= 60
    for method in ("attention", "banzhaf", "left-out"):
        found = []
        for node in houses[:30]:
            bag = Bag.draw(run.predictor, run.task, np.array([node]))  # type: ignore[arg-type]
            ranking = rank_patterns(bag, method)  # type: ignore[arg-type]
            chance = [ranking.groups[i] for i in random.permutation(len(ranking.groups))[:5]]
            found.append((_share(motifs, node, list(ranking.groups[:5])), _share(motifs, node, chance)))
        best, chance_share = np.mean(found, axis=0)
        assert best > chance_share + 0.12, method
