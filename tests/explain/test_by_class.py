"""The global view adds up: shares of the evidence and of the walks, class by class, with intervals around them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from gpm import GpmError, Run
from gpm.explain.attribution import rank_patterns
from gpm.explain.bag import Bag, Group
from gpm.explain.by_class import FEWEST, _Vocabulary, _weigh, survey
from gpm.explain.expected_content import name_expected
from gpm.explain.explanation import ALL, Overview, ShapeShare
from gpm.explain.node_types import find_kinds, name_pattern
from tests.explain.conftest import Motifs

pytestmark = pytest.mark.usefixtures("one_thread_for_all")

KINDS = ("nodes", "mean", "directed", "labels", "links", "product", "graphs", "values")
kinds = pytest.mark.parametrize("kind", KINDS)
MANY = 10_000


@pytest.fixture(scope="module")
def surveyed(open_run: Any) -> Any:
    """The whole view of a run, made once."""
    known: dict[str, Overview] = {}

    def find(kind: str) -> Overview:
        if kind not in known:
            known[kind] = survey(open_run(kind), top=MANY)
        return known[kind]

    return find


def _by_class(overview: Overview) -> dict[str, list[ShapeShare]]:
    return {name: [row for row in overview.shares if row.predicted == name] for name in overview.instances}


@kinds
def test_shares_of_a_class_add_up_to_no_more_than_1(kind: str, surveyed: Any) -> None:
    found = surveyed(kind)
    assert found.shares
    for rows in _by_class(found).values():
        assert sum(row.carried for row in rows) <= 1 + 1e-9
        assert sum(row.chance for row in rows) <= 1 + 1e-9
        assert all(row.carried > 0 and row.chance > 0 for row in rows)
        assert [row.carried for row in rows] == sorted((row.carried for row in rows), reverse=True)
        assert len({(row.shape, row.content) for row in rows}) == len(rows)


@pytest.mark.parametrize("kind", ["nodes", "labels", "graphs"])
def test_attention_is_shared_out_over_all_shapes(kind: str, open_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpm.explain.by_class.FEWEST", 1)
    found = survey(open_run(kind), method="attention", top=MANY)
    assert found.method == "attention"
    for rows in _by_class(found).values():
        assert sum(row.carried for row in rows) == pytest.approx(1)
        assert sum(row.chance for row in rows) == pytest.approx(1)


@kinds
def test_intervals_are_around_their_means_and_a_lift_is_a_ratio(kind: str, surveyed: Any) -> None:
    found = surveyed(kind)
    for row in found.shares:
        assert row.low - 1e-9 <= row.carried <= row.high + 1e-9
        assert 0 <= row.low <= row.high <= 1 + 1e-9
        assert row.lift == pytest.approx(row.carried / row.chance)
        assert row.lift_low - 1e-9 <= row.lift <= row.lift_high + 1e-9
        assert np.isfinite(list(asdict(row).values())[3:10]).all()
    assert all(found.instances[row.predicted] >= FEWEST for row in found.shares)
    assert all(row.label == f"{row.shape} {row.content}".strip() for row in found.shares)


@kinds
def test_the_instances_are_those_of_the_part(kind: str, open_run: Any, surveyed: Any) -> None:
    run, found = open_run(kind), surveyed(kind)
    looked_at = len(run.split.test)
    assert (found.part, found.level, found.data) == ("test", run.data.level, run.data.title)
    counts = dict(found.instances)
    logits = run.read("test")
    if kind == "values":
        assert counts == {f"{way} value {i}": looked_at for i in (0, 1) for way in ("raises", "lowers")}
    elif kind == "labels":  # an instance comes under each of its labels
        there = {str(c): n for c, n in zip(run.task.classes, (logits >= 0).sum(0).tolist(), strict=True) if n}
        assert counts == {ALL: sum(there.values())} | there
    else:
        said = ((logits[:, 0] > 0).long() if found.level == "link" else logits.argmax(1)).tolist()
        names = ("no link", "link") if found.level == "link" else map(str, run.task.classes)
        assert counts == {ALL: looked_at} | {name: said.count(i) for i, name in enumerate(names) if i in said}
    assert {row.predicted for row in found.shares} <= set(found.instances)


@pytest.mark.parametrize("kind", ["labels", "links"])
def test_the_same_twice(kind: str, folders: Any, surveyed: Any) -> None:
    assert survey(Run.open(folders(kind), device="cpu"), top=MANY) == surveyed(kind)


def _name(group: Group, kinds: Any) -> tuple[str, str]:
    if group.expected:
        return name_expected(group.expected, "node"), ""
    return name_pattern(group.adjacency(), group.nodes, kinds)


def test_expected_patterns_are_listed_under_their_names(surveyed: Any) -> None:
    for kind, names in (("mean", {"own features", "mean of the neighbours"}),):
        listed = {row.shape: row for row in surveyed(kind).shares if not row.nodes}
        assert names <= listed.keys()
        assert all(row.content == "" and row.example == () and row.chance > 0 for row in listed.values())


def test_a_share_is_the_mean_over_instances(open_run: Any) -> None:
    """Worked out by hand for one shape."""
    run = open_run("nodes")
    found = survey(run, top=MANY, method="left-out")
    first = next(row for row in found.shares if row.predicted == ALL)
    names, carried, chance = find_kinds(run.data, ""), [], []
    for node in run.split.test:
        ranking = rank_patterns(Bag.draw(run.predictor, run.task, np.array([node])), "left-out")
        mine = [_name(group, names) == (first.shape, first.content) for group in ranking.groups]
        scores, walks = ranking.scores.clip(0), np.array([len(group.walks) for group in ranking.groups])
        carried.append(scores[mine].sum() / scores.sum() if scores.sum() > 0 else 0.0)
        chance.append(walks[mine].sum() / walks.sum())
    assert first.carried == pytest.approx(np.mean(carried), abs=1e-5)
    assert first.chance == pytest.approx(np.mean(chance), abs=1e-9)


def test_shapes_that_are_met_in_few_instances_are_left_out(open_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where some that are met often carry nothing."""
    run = open_run("mean")
    often, rare, silent = (Group(np.array([0]), tuple(range(n)), ((0, 1),)) for n in (2, 3, 4))
    vocabulary = _Vocabulary(None, "node")
    assert [vocabulary.find(group) for group in (often, rare, silent)] == [0, 1, 2]
    common = np.array([0.5, 0.0, 0.0]), np.array([0.5, 0.0, 0.5])
    ledger = [common, common, common, (np.array([0.1, 0.9]), np.full(3, 1 / 3))]
    found = list(_weigh(run, ALL, ledger, vocabulary, MANY))
    assert [row.shape for row in found] == ["edge"]
    assert list(_weigh(run, ALL, ledger[2:], vocabulary, MANY)) == []  # a class of two instances
    monkeypatch.setattr("gpm.explain.by_class.FEWEST", 1)
    found = list(_weigh(run, ALL, ledger, vocabulary, MANY))
    assert [(row.nodes, row.carried) for row in found] == [(2, pytest.approx(0.4)), (3, pytest.approx(0.225))]


def test_at_most_so_many_are_looked_at_and_shown(open_run: Any) -> None:
    run = open_run("nodes")
    assert len(run.split.test) > 3
    for most in (1, 3):
        found = survey(run, most=most, top=2)
        assert found.instances[ALL] == most
        assert all(len(rows) <= 2 for rows in _by_class(found).values())
    whole = survey(run, most=len(run.split.test), top=MANY)
    assert whole == survey(run, most=MANY, top=MANY)
    top = survey(run, top=2)
    for name, rows in _by_class(top).items():
        assert rows == _by_class(whole)[name][:2]


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_every_part_can_be_looked_at(part: str, open_run: Any) -> None:
    run = open_run("graphs")
    found = survey(run, part=part)
    assert (found.part, found.instances[ALL]) == (part, len(getattr(run.split, part)))


@kinds
def test_a_shape_is_shown_by_an_example(kind: str, open_run: Any, surveyed: Any) -> None:
    graph = open_run(kind).data.graph
    for row in surveyed(kind).shares:
        assert len(row.example) == row.nodes
        if not row.nodes:  # an expected pattern
            continue
        assert all(0 <= a < row.nodes and 0 <= b < row.nodes and a != b for a, b in row.edges)
        nodes = [graph.find(name) for name in row.example]
        for a, b in row.edges:
            assert nodes[b] in graph.neighbors(nodes[a]) or nodes[a] in graph.neighbors(nodes[b])
        matrix = np.zeros((row.nodes, row.nodes), dtype=bool)
        for a, b in row.edges:
            matrix[a, b] = matrix[b, a] = True
        assert name_pattern(matrix, nodes, find_kinds(open_run(kind).data, ""))[0] == row.shape


def test_houses_are_carried_by_what_makes_a_house(motifs: Motifs) -> None:
    found = survey(motifs.run, top=3, method="attention", most=60)
    for name in ("2", "3"):  # middle and bottom
        best = max(_by_class(found)[name], key=lambda row: row.lift)
        assert best.shape in ("house", "triangle", "square")
        assert best.lift_low > 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"most": 0}, "most and top must be at least 1, got 0 and 10."),
        ({"top": 0}, "most and top must be at least 1, got 500 and 0."),
        ({"top": 1.5}, "top must be a whole number, got 1.5."),
        ({"part": "tset"}, "part must be one of train, val, test, got 'tset'."),
        ({"method": "atention"}, "method must be one of auto,"),
    ],
)
def test_a_mistake_gets_one_sentence(options: dict[str, Any], sentence: str, open_run: Any) -> None:
    with pytest.raises(GpmError) as raised:
        survey(open_run("mean"), **options)
    assert sentence in str(raised.value)


def test_what_has_no_patterns_or_no_parts_is_refused(open_run: Any, folders: Any) -> None:
    with pytest.raises(GpmError, match="gcn holds a gcn, which reads no patterns"):
        survey(open_run("gcn"))
    other = Run.open(folders("mean"), open_run("mean").data.graph, device="cpu", other=True)
    with pytest.raises(GpmError, match="Only the training data has a split; open the run without"):
        survey(other)
    with pytest.raises(GpmError, match="A mean readout has no attention"):
        survey(open_run("mean"), method="attention")
