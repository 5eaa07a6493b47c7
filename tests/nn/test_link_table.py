"""What is known exactly of pairs: never their own edge, the same for all kinds of graphs and features."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gpm import Config, Graph
from gpm.config import ModelOptions
from gpm.data.non_edges import drop_edges
from gpm.errors import GpmError
from gpm.nn.link_table import LinkTable
from gpm.nn.predictor import Predictor
from gpm.nn.step_columns import PROJECTED

NODES = 30
OPTIONS = ModelOptions(expected=3, structure=True)


def make_graph(x: Any = None, **given: Any) -> Graph:
    random = np.random.default_rng(0)
    edges = random.integers(0, NODES - 2, (2, 70))  # the last two are isolated
    features = random.normal(size=(NODES, 4)) if x is None else x
    return Graph.from_edges(edges, NODES, x=features, **{"undirected": True} | given)


def build(graph: Graph, options: ModelOptions = OPTIONS, **given: Any) -> LinkTable:
    table = LinkTable.build(options, graph, hide=True, **given)
    assert table is not None
    return table


@pytest.mark.parametrize("kind", ["undirected", "directed", "weighted"])
def test_a_row_is_that_of_the_graph_that_never_had_the_edge(kind: str) -> None:
    weight = np.random.default_rng(1).uniform(0.1, 9, 70) if kind == "weighted" else None
    graph = make_graph(undirected=kind != "directed", edge_weight=weight)
    table, pairs = build(graph), graph.edge_index().T
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    rows = table.take(pairs)
    for pair, row in zip(pairs, rows, strict=True):
        left = build(drop_edges(graph, pair[None]))
        assert row.numpy() == pytest.approx(left.take(pair[None])[0].numpy(), rel=1e-5, abs=1e-5)


def test_a_step_has_the_columns_of_one_end_then_of_the_other() -> None:
    graph = make_graph()
    table = build(graph)
    assert table.groups == (("step 0", 8), ("step 1", 8), ("step 2", 8), ("step 3", 8), ("structure", 8))
    first = table.take(np.array([[3, 5]]))[0, :8]
    assert first.numpy() == pytest.approx(np.concatenate([graph.x[3], graph.x[5]]), abs=1e-6)
    assert torch.equal(table.take(torch.tensor([[3, 5]])), table.take([[3, 5]]))


def test_wide_features_are_projected_as_the_trained_model_projects_them() -> None:
    wide = sp.random_array((NODES, PROJECTED + 40), density=0.1, format="csr", random_state=0)
    table = build(make_graph(wide))
    assert dict(table.groups)["step 0"] == 2 * PROJECTED
    inputs = Predictor.build(Config(task="link", expected=3, structure=True), make_graph(wide), 1, "link").model.inputs
    again = build(make_graph(wide), inputs=inputs, kept={"projection": table.projection})
    assert torch.equal(again.take([[0, 1]]), table.take([[0, 1]]))
    with pytest.raises(GpmError, match="give a graph with the features it was trained on"):
        build(make_graph(np.ones((NODES, 4))), inputs=inputs)


def test_without_features_there_is_the_structure_alone() -> None:
    graph = Graph.from_edges(np.array([[0, 1, 2], [1, 2, 0]]), 4, undirected=True)
    assert [name for name, _ in build(graph).groups] == ["structure"]
    assert LinkTable.build(ModelOptions(expected=2), graph, hide=True) is None


@pytest.mark.parametrize(
    ("options", "words"), [({"expected": 4}, "at most 3"), ({"structure": True, "pair": "product"}, "leave out")]
)
def test_what_cannot_be_exact_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(GpmError, match=words):
        build(make_graph(), ModelOptions(**options))


def test_statistics_are_of_edges_and_of_as_many_random_pairs() -> None:
    assert len(build(make_graph()).sample()) == 2 * make_graph().num_edges
    assert len(build(Graph.from_edges(np.zeros((2, 0), dtype=np.int64), 3)).sample()) == 1
