from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gpm import Graph, Run
from gpm.explain.attribution import rank_patterns
from gpm.explain.bag import Bag
from gpm.explain.expected_content import find_contents, find_slopes, name_expected, steps_of
from gpm.explain.explainer import class_names
from gpm.explain.faithfulness import trace
from gpm.nn.expected_table import LABELS, POSITION, STRUCTURE
from gpm.patterns.walk_means import walk_means
from tests.explain.bags import make_bag
from tests.explain.runs import NODES, train_small, weighted_edges


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Bags of 1,100 words, which are projected: the first three tell the class."""
    random = np.random.default_rng(0)
    words = (random.random((NODES, 1100)) < 0.02).astype(np.float32)
    words[np.arange(NODES), np.arange(NODES) % 3] = 1
    edges, _ = weighted_edges()
    graph = Graph.from_edges(edges, NODES, x=sp.csr_array(words), y=np.arange(NODES) % 3, undirected=True)
    return train_small(graph, tmp_path_factory.mktemp("wide") / "run", expected=2, labels="on", linear="base")


def _contents(run: Run, node: int, target: int = 0) -> Any:
    bag = Bag.draw(run.pattern_predictor, run.task, np.array([node]))
    return bag, find_contents(run, bag, np.array([node]), target, class_names(run))


def test_slopes_are_the_change_of_the_evidence() -> None:
    """By finite differences, in every column, of tokens and of the linear part."""
    bag = make_bag("expected")
    values, slopes = find_slopes(bag, 1)
    model, instance = bag.predictor.model, bag.parts[0].frame.expected
    assert model.expected is not None
    assert instance is not None
    scale = model.expected.scale.double().numpy()
    drawn = bag.predictor.expected
    assert drawn is not None
    for column in np.flatnonzero(scale)[::3]:
        ways = []
        for step in (0.01, -0.01):
            moved = drawn.values.clone()
            moved[5, column] += step / scale[column]
            other = type(drawn)(moved, drawn.groups, drawn.even)
            ways.append(Bag.draw(_with(bag, other), bag.task, np.array([5])))
        high, low = (float(way.measure(way.logits())[0, 1].detach()) for way in ways)
        assert (high - low) / 0.02 == pytest.approx(slopes[column] / scale[column], rel=0.05, abs=2e-3)
    np.testing.assert_allclose(values, instance[0])


def _with(bag: Bag, table: Any) -> Any:
    return replace(bag.predictor, expected=table)


def test_wide_features_are_told_in_the_users_own_columns(wide: Run) -> None:
    """The exact means P^t x of the instance, and their average over the training split."""
    assert wide.metadata["inputs"]["projected"] == 1100
    _, contents = _contents(wide, 4)
    graph = wide.data.graph
    words = graph.x / np.sqrt(np.asarray(graph.x.multiply(graph.x).sum(1)))[:, None]  # log(1 + 1) is the same for all
    means = [m.toarray() for m in walk_means(graph, sp.csr_array(words), 2)]
    for steps, mean in enumerate(means):
        columns = contents[f"step {steps}"].columns
        assert columns
        for column in columns:
            at = int(column.name.removeprefix("column "))
            assert column.value == pytest.approx(mean[4, at], rel=1e-3, abs=1e-6)
            assert column.average == pytest.approx(mean[wide.split.train, at].mean(), rel=1e-3, abs=1e-6)


def test_contributions_of_wide_features_add_up_to_those_of_the_projected_columns(wide: Run) -> None:
    bag, contents = _contents(wide, 4)
    model = bag.predictor.model.expected
    assert model is not None
    values, slopes = find_slopes(bag, 0)
    first = slice(0, model.sizes[0])
    whole = float(slopes[first] @ (values[first] - model.shift[first].double().numpy()))
    few = sum(column.evidence for column in contents["step 0"].columns)
    assert np.sign(few) == np.sign(whole) or abs(whole) < 0.1
    largest = max(abs(column.evidence) for column in contents["step 0"].columns)
    assert abs(few) <= len(contents["step 0"].columns) * largest


def test_known_labels_are_told_by_their_shares(wide: Run) -> None:
    graph, train = wide.data.graph, set(wide.split.train.tolist())
    law = walk_means(graph, np.eye(NODES), 1)[1]
    for node in range(0, NODES, 5):
        text = _contents(wide, node)[1][LABELS].text
        shares = np.zeros(3)
        for other in train - {node}:
            shares[int(graph.y[other])] += law[node, other]
        if shares.sum() == 0:
            assert "steps away" in text or text == "none is known"
            continue
        assert f"({shares.max() / shares.sum():.0%})" in text


def test_structure_and_position_are_told_in_plain_words(wide: Run) -> None:
    contents = _contents(wide, 4)[1]
    assert contents[STRUCTURE].text.startswith(("high ", "low "))
    assert contents[POSITION].text == "" or "coordinate" in contents[POSITION].text
    assert name_expected("step 0", "node") == "own features"
    assert name_expected("step 1", "node") == "mean of the neighbours"
    assert name_expected("step 2", "node") == "mean of the 2-step neighbours"
    assert name_expected("step 0", "graph") == "mean of its nodes"
    assert (steps_of("step 3"), steps_of(POSITION)) == (3, -1)


def test_names_of_imported_tables_are_used(tmp_path: Path) -> None:
    import gpm

    random = np.random.default_rng(0)
    rows = "\n".join(f"p{i},{random.normal() + 2 * (i % 2):.3f},{random.normal():.3f},{i % 2}" for i in range(60))
    (tmp_path / "nodes.csv").write_text(f"id,age,height,label\n{rows}\n")
    ends = "\n".join(f"p{a},p{b}" for a, b in random.integers(0, 60, (150, 2)))
    (tmp_path / "edges.csv").write_text(f"source,target\n{ends}\n")
    run = gpm.train(
        str(tmp_path / "edges.csv"), nodes=str(tmp_path / "nodes.csv"), target="label", out=tmp_path / "run",
        quiet=True, device="cpu", width=8, heads=2, lengths=[0, 1], patterns=6, pool=8, epochs=1, expected=1,
    )  # fmt: skip
    found = run.explain("p3", draws=2)
    told = [pattern for pattern in found.patterns if pattern.expected == "step 0"]
    assert told
    assert {column.name for column in told[0].columns} <= {"age", "height"}
    assert {name for node in found.view.nodes for name, _ in node.features} <= {"age", "height"}


def test_random_patterns_are_drawn_among_expected_ones_too() -> None:
    """As many of them as were left out, so that both curves lose as much."""
    bag = make_bag("expected")
    ranking = rank_patterns(bag, "left-out")
    curve = trace(ranking, (0.0, 1.0), draws=3)
    assert len(curve.top) == 2
    assert np.isfinite(curve.random).all()


def test_tokens_are_scored_by_every_method() -> None:
    bag = make_bag("expected")
    for method in ("banzhaf", "left-out", "gradient", "attention"):
        ranking = rank_patterns(bag, method)  # type: ignore[arg-type]
        scores = {g.expected: s for g, s in zip(ranking.groups, ranking.scores, strict=True) if g.expected}
        assert set(scores) == set(bag.expected)
        assert all(np.isfinite(list(scores.values())))
    with torch.no_grad():
        fallen = bag.measure(bag.logits()) - bag.measure(bag.leave_out([np.array([len(bag) - 1])]))
    ranking = rank_patterns(bag, "left-out")
    last = next(s for g, s in zip(ranking.groups, ranking.scores, strict=True) if g.expected == bag.expected[-1])
    assert last == pytest.approx(float(fallen[0, ranking.target]), abs=1e-5)
