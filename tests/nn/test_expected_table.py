from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gpm import Config, Graph
from gpm.nn import expected_table
from gpm.nn.expected_table import Answers, ExpectedTable
from gpm.nn.feature_table import FeatureTable
from gpm.nn.predictor import Predictor
from gpm.nn.step_columns import MOST_COLUMNS, PROJECTED

NODES = 30


def make_graph(x: Any = None, **given: Any) -> Graph:
    random = np.random.default_rng(0)
    edges = random.integers(0, NODES - 2, (2, 70))  # the last two are isolated
    features = random.normal(size=(NODES, 4)) if x is None else x
    return Graph.from_edges(edges, NODES, x=features, **{"undirected": True} | given)


def answers_of(train: Any, classes: int = 3) -> Answers:
    ids = np.array(train, dtype=np.int64)
    held = np.setdiff1d(np.arange(NODES), ids)[:4]
    return Answers("classes", ids, np.eye(classes)[ids % classes], held, np.eye(classes)[held % classes])


def group(table: ExpectedTable, name: str) -> torch.Tensor:
    names = [each for each, _ in table.groups]
    return table.values.split([size for _, size in table.groups], 1)[names.index(name)]


def enumerate_mean(graph: Graph, node: int, steps: int) -> np.ndarray:
    """The mean over all walks, one by one."""
    x = np.asarray(graph.x, dtype=np.float64)
    total = np.zeros(x.shape[1])

    def go(at: int, left: int, chance: float) -> None:
        if not left:
            total[:] += chance * x[at]
            return
        row = slice(int(graph.indptr[at]), int(graph.indptr[at + 1]))
        ends = graph.indices[row]
        if not len(ends):
            go(at, left - 1, chance)
            return
        weight = np.ones(len(ends)) if graph.edge_weight is None else graph.edge_weight[row].astype(float)
        for end, share in zip(ends.tolist(), weight / weight.sum(), strict=True):
            go(end, left - 1, chance * float(share))

    go(node, steps, 1.0)
    return total


@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted"])
def test_means_are_those_over_all_walks(kind: str) -> None:
    given: dict[str, Any] = {"undirected": kind == "undirected"}
    if kind == "weighted":
        given["edge_weight"] = np.random.default_rng(1).random(70)
    graph = make_graph(**given)
    table = ExpectedTable.build(Config(expected=3), graph, "node")
    assert table is not None
    assert [name for name, _ in table.groups] == ["step 0", "step 1", "step 2", "step 3"]
    for node, steps in product((0, 5, NODES - 1), range(4)):
        np.testing.assert_allclose(group(table, f"step {steps}")[node], enumerate_mean(graph, node, steps), atol=1e-5)


def test_a_graph_has_the_mean_of_its_nodes() -> None:
    pointer = np.array([0, 10, 10, NODES])  # the second has no nodes
    random = np.random.default_rng(0)
    edges = np.concatenate([random.integers(0, 10, (2, 20)), random.integers(10, NODES, (2, 40))], 1)
    x = random.normal(size=(NODES, 4))
    collection = Graph.from_edges(edges, NODES, x=x, undirected=True, graph_ptr=pointer)
    whole = ExpectedTable.build(Config(expected=1, structure=True), collection, "graph")
    nodes = ExpectedTable.build(Config(expected=1, structure=True), collection, "node")
    assert whole is not None
    assert nodes is not None
    for name, _ in nodes.groups:
        mean = group(whole, name)
        own = group(nodes, name)[:, : mean.shape[1]]  # that of a node also has means over its neighbours
        np.testing.assert_allclose(mean[0], own[:10].mean(0), atol=1e-5)
        np.testing.assert_allclose(mean[2], own[10:].mean(0), atol=1e-5)
    assert not whole.values[1].any()


def test_wide_features_are_projected_and_categories_are_flags() -> None:
    words = (np.random.default_rng(0).random((NODES, 2 * MOST_COLUMNS)) < 0.05).astype(np.float32)
    wide = ExpectedTable.build(Config(expected=1), make_graph(sp.csr_array(words)), "node")
    assert wide is not None
    assert wide.projection is not None
    assert wide.projection.shape == (2 * MOST_COLUMNS, PROJECTED)
    assert dict(wide.groups) == {"step 0": PROJECTED, "step 1": PROJECTED}
    kinds = np.random.default_rng(0).integers(0, 3, (NODES, 2))
    flags = ExpectedTable.build(Config(expected=1), make_graph(kinds), "node")
    assert flags is not None
    assert flags.sizes == (3, 3)
    np.testing.assert_array_equal(group(flags, "step 0"), np.concatenate([np.eye(3)[kinds[:, i]] for i in (0, 1)], 1))


def test_nothing_is_asked_for_by_default() -> None:
    assert ExpectedTable.build(Config(), make_graph(), "node") is None


def test_without_answers_labels_are_unknown() -> None:
    table = ExpectedTable.build(Config(labels="on"), make_graph(), "node", answers_of([]))
    assert table is not None
    assert group(table, "labels").isnan().all()


def test_labels_are_hidden_from_some_training_instances_by_their_ids_and_step() -> None:
    table = ExpectedTable.build(Config(labels="on", structure=True), make_graph(), "node", answers_of(range(20)))
    assert table is not None
    ids = torch.arange(20)
    hidden = [table.take_training(ids, 0, turn)[0][:, 0].isnan() for turn in range(200)]
    assert 0.05 < torch.stack(hidden).float().mean() < 0.15
    values, _ = table.take_training(ids, 0, 7)
    part, _ = table.take_training(ids[5:9], 0, 7)  # as another rank or worker has them
    assert torch.equal(values[5:9].nan_to_num(9), part.nan_to_num(9))
    assert not values[:, -8:].isnan().any()
    assert not table.values.isnan().any()  # what is hidden in a step stays in the table


def test_statistics_are_of_the_training_split_alone() -> None:
    """Other instances may hold anything."""
    config = Config(expected=0, structure=True, linear="base", width=8, heads=2)
    graph, answers = make_graph(), answers_of(range(20))
    predictor = Predictor.build(config, graph, 3, answers=answers)
    table, model = predictor.expected, predictor.model.expected
    assert table is not None
    assert model is not None
    before = {name: value.clone() for name, value in model.state_dict().items()}
    other = table.values.clone()
    rest = np.setdiff1d(np.arange(NODES), np.concatenate([answers.train, answers.val]))
    other[rest] = 1e6
    again = model.fit(replace(table, values=other), answers)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert again.correction is not None
    assert not again.correction[rest].any()


def test_structure_that_is_slow_to_compute_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, options = make_graph(), Config(structure=True)
    two = replace(graph, graph_ptr=np.array([0, 10, NODES]))  # other ranks of degrees
    known = [ExpectedTable.build(options, each, "node") for each in (graph, two)]
    monkeypatch.setattr(expected_table, "KEPT_EDGES", 0)
    for _ in range(2):
        found = [ExpectedTable.build(options, each, "node") for each in (graph, two)]
        for one, other in zip(known, found, strict=True):
            assert one is not None
            assert other is not None
            assert torch.equal(one.values, other.values)
        monkeypatch.setattr(expected_table, "describe_structure", None)


def test_a_trained_model_reads_words_as_in_training_on_any_graph() -> None:
    """Also on one whose features no longer look like words, and with as much structure as it was trained with."""
    words = (np.random.default_rng(0).random((NODES, 12)) < 0.2).astype(np.float32)
    graph, options = make_graph(words), Config(expected=1, structure=True)
    known = ExpectedTable.build(options, graph, "node")
    assert known is not None
    assert known.bags
    spec = known.describe(FeatureTable.build(options, graph).spec())
    dense = np.concatenate([words, np.full((NODES, 12), 5.0, dtype=np.float32)])
    grown = Graph.from_edges(graph.edge_index(), 2 * NODES, x=dense)
    again = ExpectedTable.build(options, grown, "node", inputs=spec)
    assert again is not None
    torch.testing.assert_close(group(again, "step 1")[:NODES], group(known, "step 1"))
    plain = ExpectedTable.build(replace(options, bag_of_words="no"), graph, "node")
    assert plain is not None
    assert not plain.bags
    np.testing.assert_array_equal(group(plain, "step 0"), words)
    before = replace(spec, expected=spec.expected | {"structure": 8})
    old = ExpectedTable.build(options, graph, "node", inputs=before)
    assert old is not None
    assert dict(old.groups)["structure"] == 8
