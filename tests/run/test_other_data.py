"""What another graph has that training had not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gpm import Graph, Run
from gpm.data.node_data import NodeData
from tests.small_runs import NODES, features, folder_of, make_graph, run_of

pytestmark = pytest.mark.usefixtures("one_thread")


def _open(graph: Graph, **given: Any) -> Run:
    return Run.open(folder_of("classes"), NodeData(graph, "other", **given), device="cpu", other=True)


def test_the_same_graph_has_nothing_new() -> None:
    assert run_of("classes").unseen() == []
    assert _open(make_graph()).unseen() == ["0 of 160 nodes are new; 160 were in training."]


def test_what_the_loader_had_not_seen_comes_first() -> None:
    found = _open(make_graph(), unseen=("3 nodes have a colour that training did not.",)).unseen()
    assert found[0] == "3 nodes have a colour that training did not."


def test_degrees_and_features_far_outside_are_named() -> None:
    x = features()
    x[5, 1], x[7, 2] = 99.5, -80
    edges = np.stack([np.zeros(NODES - 2, dtype=int), np.arange(1, NODES - 1)])  # a star, and one node alone
    found = _open(Graph.from_edges(edges, NODES, undirected=True, x=x)).unseen()
    most = int(make_graph().degree().max())
    assert f"1 nodes have up to 158 edges; in training no node had more than {most}." in found
    assert any(
        line.startswith(
            "2 nodes have features far outside the training range, such as 99.5 in column 1 (training range "
        )
        for line in found
    )


def _compare(given: Any, known: Any) -> list[str]:
    from gpm.run.other_data import _compare_features

    return _compare_features(given, known, "node")


def test_categories_that_are_new_are_named() -> None:
    known = np.array([[0, 1], [1, 2], [2, 5]])
    assert _compare(np.array([[2, 1], [0, 5]]), known) == []
    (line,) = _compare(np.array([[2, 4], [3, 4], [0, 5]]), known)
    assert line.startswith("2 nodes have categories that training did not, such as 3 in column 0;")


def test_sparse_and_dense_features_are_compared_alike() -> None:
    known = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
    given = np.array([[0.0, 9.0, 0.0], [2.5, 0.0, 0.5]])
    dense = _compare(given, known)
    assert dense == _compare(sp.csr_array(given), sp.csr_array(known))
    assert dense == [
        "2 nodes have features far outside the training range, such as 9 in column 1 (training range 0 to 1)."
    ]
    assert _compare(known, known) == _compare(None, known) == _compare(given[:, :2], known) == []


def test_positions_of_the_laplacian_are_warned_of() -> None:
    run = _open(make_graph())
    run.__dict__["config"] = replace(run.config, pe="lap")
    assert run.unseen()[-1].startswith("The model reads Laplacian eigenvectors (pe lap)")


def test_without_the_training_graph_it_says_so() -> None:
    run = _open(make_graph())
    run.home.__dict__["config"] = replace(run.config, data="")
    (line,) = run.unseen()
    assert line.startswith("What is new cannot be told without the training graph: ")
