"""Two domains in one graph: nothing is lost or mixed up, parts are of the right domain, mistakes are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from gpm import GpmError, Graph
from gpm.data.domain_data import DomainData, DomainSplit, divide, unite
from gpm.data.node_data import NodeData, build_node_data
from gpm.data.sources import load_task_data
from gpm.data.splits import Split, is_labelled
from gpm.data.tables.importer import import_tables


def _data(nodes: int = 30, seed: int = 0, title: str = "one", **changes: Any) -> NodeData:
    random = np.random.default_rng(seed)
    facts: dict[str, Any] = {"x": random.normal(size=(nodes, 4)), "y": np.arange(nodes) % 3} | changes
    graph = Graph.from_edges(random.integers(0, nodes, (2, 3 * nodes)), nodes, undirected=True, **facts)
    return replace(build_node_data(graph, title), title=title)


@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 5))
def test_each_graph_is_there_as_it_was(first: int, second: int, seed: int) -> None:
    home, away = _data(first + 2, seed), _data(second + 2, seed + 1, "two")
    both = unite(home, away)
    assert both.graph.num_graphs == 2
    np.testing.assert_array_equal(both.away, np.repeat([False, True], [first + 2, second + 2]))
    for data, mine in ((home, ~both.away), (away, both.away)):
        ids = np.flatnonzero(mine)
        assert data.graph.x is not None
        assert both.graph.x is not None
        np.testing.assert_array_equal(both.graph.x[ids], data.graph.x)
        np.testing.assert_array_equal(both.labels[ids], data.labels)
        for node in range(data.graph.num_nodes):
            np.testing.assert_array_equal(both.graph.neighbors(ids[node]) - ids[0], data.graph.neighbors(node))


def test_weights_attributes_names_and_sparse_features_go_along() -> None:
    random = np.random.default_rng(0)
    pairs = [(random.permutation(60).reshape(2, 30), random.random(30)) for _ in range(2)]
    graphs = [
        Graph.from_edges(
            edges, 60, edge_weight=weight, edge_attr=weight[:, None] * 2, x=sp.csr_array(np.eye(60)), undirected=True,
            y=np.arange(60) % 2, names=[f"{side}{i}" for i in range(60)],
        ) for side, (edges, weight) in zip("ab", pairs, strict=True)
    ]  # fmt: skip
    both = unite(*(build_node_data(graph, "graph") for graph in graphs)).graph
    assert both.edge_weight is not None
    assert both.edge_attr is not None
    assert sp.issparse(both.x)
    ids = np.arange(both.num_edges) if both.edge_ids is None else both.edge_ids
    np.testing.assert_allclose(both.edge_attr[ids, 0], 2 * both.edge_weight, rtol=1e-6)
    assert [both.name(i) for i in (0, 59, 60, 119)] == ["0:a0", "0:a59", "1:b0", "1:b59"]
    assert both.find("1:b7") == 67


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_that_never_change_in_the_source_are_not_read_in_the_target(sparse: bool) -> None:
    home, away = np.zeros((30, 4)), np.random.default_rng(0).random((30, 4))
    home[:, 0], home[7, 2] = (0 if sparse else 2), 1
    both = unite(*(_data(x=sp.csr_array(x) if sparse else x) for x in (home, away)))
    assert both.graph.x is not None
    x = both.graph.x.toarray() if sparse else both.graph.x
    np.testing.assert_allclose(x[30:, 2], away[:, 2], rtol=1e-6)
    for column in (0, 1, 3):
        np.testing.assert_array_equal(x[:, column], home[0, column])


@given(st.integers(0, 1000), st.sampled_from(["source", "target"]))
def test_parts_are_of_the_right_domain(seed: int, chosen_on: str) -> None:
    y = np.where(np.arange(50) % 7 == 0, -1, np.arange(50) % 3)
    both = unite(_data(100), _data(50, y=y))
    split = both.make_split(seed, validate=chosen_on)
    assert isinstance(split, DomainSplit)
    home, away = (split.other, split.val) if chosen_on == "target" else (split.val, split.other)
    assert not both.away[np.concatenate([split.train, home])].any()
    assert both.away[np.concatenate([split.test, away])].all()
    assert (len(split.train), len(home)) == (80, 20)
    labelled = int((y >= 0).sum())
    assert (len(away), len(split.test)) == (round(0.2 * labelled), labelled - round(0.2 * labelled))
    assert is_labelled(both.labels)[np.concatenate([split.train, split.val, split.test, split.other])].all()
    other = both.make_split(seed, validate="source" if chosen_on == "target" else "target")
    np.testing.assert_array_equal(other.train, split.train)
    np.testing.assert_array_equal(other.test, split.test)


def test_labels_of_the_target_do_not_move_its_parts() -> None:
    one, two = (unite(_data(), _data(40, y=y)) for y in (np.arange(40) % 3, (np.arange(40) + 1) % 3))
    assert one.make_split(3).digest == two.make_split(3).digest


def test_a_split_of_domains_is_saved_and_comes_back(tmp_path: Path) -> None:
    split = unite(_data(), _data(40)).make_split(0, validate="target")
    split.save(tmp_path / "split.npz")
    again = Split.load(tmp_path / "split.npz")
    assert isinstance(again, DomainSplit)
    assert (again.digest, again.chosen_on, again.name) == (split.digest, "target", split.name)
    np.testing.assert_array_equal(again.other, split.extras()["other"])
    with pytest.raises(GpmError, match="in two splits"):
        replace(again, other=again.train[:1])


def test_a_target_without_labels_tests_on_the_source() -> None:
    bare = _data(40)
    both = unite(_data(100), replace(bare, graph=replace(bare.graph, y=None)))
    assert not both.scored
    split = both.make_split(0)
    assert not both.away[np.concatenate([split.train, split.val, split.test])].any()
    assert [len(part) for part in (split.train, split.val, split.test)] == [60, 20, 20]
    with pytest.raises(GpmError, match=r"has no labels to choose the epoch by; leave out --validate target"):
        both.make_split(0, validate="target")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x": np.zeros((30, 5))}, r"^one has 4 columns of features of nodes, two has 5; give both the same columns"),
        ({"x": None}, r"^two has no features of nodes, which the other has"),
        ({"x": np.zeros((30, 4), dtype=int)}, r"whole numbers in two, read as categories, and not in one"),
        ({"y": np.arange(30) % 5}, r"^Node 3 of two is of class 3, which no node of one is of"),
        ({"y": np.linspace(0, 1, 30)}, r"^The labels of two and one are of different kinds"),
        ({"edge_weight": np.ones(90)}, r"only one has edge weights; give weights to both, or to neither"),
    ],
)
def test_what_does_not_go_together_is_told(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        unite(_data(), _data(30, 1, "two", **changes))


def test_classes_are_matched_by_their_names() -> None:
    home = replace(_data(), class_names=("red", "green", "blue"))
    away = replace(_data(seed=1, title="two"), class_names=("blue", "red", "green"))
    both = unite(home, away)
    names = np.array(home.class_names)
    np.testing.assert_array_equal(names[both.labels[both.away]], np.array(away.class_names)[away.labels])
    odd = replace(away, class_names=("blue", "red", "pink"))
    with pytest.raises(GpmError, match=r"is of class pink, which no node of one is of"):
        unite(home, odd)


@given(st.integers(0, 1000))
def test_a_shift_by_degree_has_the_larger_ones_in_the_target(seed: int) -> None:
    data = _data(60, seed)
    both = divide(data, "degree")
    degree = data.graph.degree()
    assert degree[~both.away].max() < degree[both.away].min()
    assert 0 < both.away.sum() <= 36
    assert both.graph.num_edges == data.graph.num_edges
    split = both.make_split(0)
    assert both.away[split.test].all()
    assert not both.away[split.train].any()


def test_a_shift_by_time_tests_on_what_came_later(tmp_path: Path) -> None:
    year = np.random.default_rng(0).integers(2000, 2020, 50)
    data = Data(edge_index=torch.arange(50).repeat(2).view(2, 50), y=torch.arange(50) % 2, x=torch.randn(50, 3))
    torch.save(Data(**data.to_dict() | {"node_year": torch.tensor(year)}), tmp_path / "file.pt")
    both = load_task_data(tmp_path / "file.pt", shift="time")
    assert isinstance(both, DomainData)
    assert year[~both.away].max() < year[both.away].min()
    with pytest.raises(GpmError, match="does not say when its nodes came; --shift time needs a column or an attribute"):
        load_task_data(data, shift="time")
    lines = ["id,label,Year,size", *(f"n{i},{'xy'[i % 2]},{year[i]},{i % 7}" for i in range(50))]
    (tmp_path / "nodes.csv").write_text("\n".join(lines))
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(f"n{i},n{(i + 1) % 50}" for i in range(50)))
    folder = import_tables(tmp_path / "edges.csv", tmp_path / "graph", nodes=tmp_path / "nodes.csv", target="label")
    imported = load_task_data(folder, shift="time")
    assert isinstance(imported, DomainData)
    when = np.array([year[int(str(imported.graph.name(i))[1:])] for i in range(50)])
    assert when[~imported.away].max() < when[imported.away].min()


def _graphs() -> list[Data]:
    ends = torch.zeros(2, 1, dtype=torch.int64)
    return [Data(edge_index=ends, num_nodes=2, y=torch.tensor([i % 2])) for i in range(6)]


def test_nodes_of_unknown_time_are_in_neither_and_new_classes_are_not_scored(caplog: pytest.LogCaptureFixture) -> None:
    time = np.where(np.arange(50) % 5 == 0, np.nan, np.arange(50))
    data = _data(50, y=np.where(np.arange(50) > 45, 7, np.arange(50) % 3))
    both = divide(data, "time", time)
    unknown = np.flatnonzero(np.isnan(time))
    for away in (False, True):
        assert not np.isin(unknown, both.nodes(away)).any()
    assert not is_labelled(both.labels)[unknown].any()
    assert 7 not in both.labels
    assert "classes 7 occur only in the target" in caplog.text


def test_a_source_is_no_target_of_itself_and_a_pair_has_no_other() -> None:
    data = _data()
    with pytest.raises(GpmError, match="is the very graph of one; leave it out"):
        unite(data, replace(data, title="two"))
    with pytest.raises(GpmError, match="has a source and a target already"):
        load_task_data(unite(data, _data(40)), shift="degree")
    assert isinstance(load_task_data(data, shift="degree"), DomainData)


def test_a_dataset_is_not_hidden_by_a_folder_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "motifs").mkdir()
    graph = _data(x=np.zeros((30, 8)), y=np.arange(30) % 6).graph
    assert load_task_data(graph, target="motifs").graph.num_nodes == 30 + 2120


def test_what_cannot_be_divided_is_told() -> None:
    ring = Graph.from_edges([np.arange(20), (np.arange(20) + 1) % 20], 20, undirected=True, y=np.arange(20) % 2)
    with pytest.raises(GpmError, match="All nodes of graph have the same degree, so they cannot be divided by it"):
        load_task_data(ring, shift="degree")
    with pytest.raises(GpmError, match="makes a target of the source's own nodes; leave out --target"):
        load_task_data("motifs", target="karate", shift="degree")
    with pytest.raises(GpmError, match="is for tasks on nodes, not on graphs; leave it out"):
        load_task_data(_graphs(), "graph", shift="degree")
    with pytest.raises(GpmError, match="leave out --split"):
        load_task_data("motifs", shift="degree").make_split(0, "60/20/20")  # type: ignore[union-attr]
