"""Tables, NetworkX and SciPy: the same graph is fitted alike in whatever form it comes."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import gpm
from gpm import GpmError, Graph, GraphClassifier, NodeClassifier, NodeRegressor, Run
from tests.estimators.samples import NODES, SMALL, TELLING, make_data, make_parts, make_rings, make_tables

pytestmark = pytest.mark.usefixtures("one_thread")


def test_frames_are_fitted_and_answers_have_their_labels(told: NodeClassifier) -> None:
    assert (told.classes_.tolist(), told.classes_.dtype.kind) == ([False, True], "b")
    assert told.feature_names_in_.tolist() == ["a", "b", "c", "town"]
    assert told.n_features_in_ == 4
    assert told.predict(names=["n01", "n00"], frame=True)["node"].tolist() == ["n01", "n00"]
    split = told.run_.split
    assert sorted(np.concatenate([split.train, split.val, split.test])) == [i for i in range(NODES) if i % 5]


def test_another_table_is_encoded_like_the_first(told: NodeClassifier) -> None:
    edges, nodes = make_tables()
    nodes = nodes.assign(town=np.array(["Rome", "Oslo"])[np.arange(NODES) % 2])
    np.testing.assert_allclose(told.predict_proba(edges, nodes=nodes), told.predict_proba(), rtol=1e-4)
    truth = nodes.assign(kind=TELLING == 0)  # labels are no features
    np.testing.assert_allclose(told.predict_proba(edges, nodes=truth), told.predict_proba(), rtol=1e-4)
    assert told.score(edges, nodes=truth) == pytest.approx((told.predict() == (TELLING == 0)).mean())
    grown = pd.concat([nodes, pd.DataFrame({"id": ["new"], "a": [1.0], "b": [0.0], "c": [0.0], "town": ["Bonn"]})])
    more = pd.concat([edges, pd.DataFrame({"source": ["new"], "target": ["n00"]})])
    assert told.predict(more, names=["new"], nodes=grown).shape == (1,)


def test_it_is_saved_with_its_encoding(told: NodeClassifier, tmp_path: Path) -> None:
    edges, nodes = make_tables()
    nodes = nodes.assign(town=np.array(["Rome", "Oslo"])[np.arange(NODES) % 2])
    again = gpm.load(told.save(tmp_path / "run"), device="cpu")
    np.testing.assert_array_equal(again.predict_proba(), told.predict_proba())
    assert again.predict().dtype == np.bool_
    assert again.feature_names_in_.tolist() == told.feature_names_in_.tolist()
    np.testing.assert_array_equal(again.predict_proba(edges, nodes=nodes), told.predict_proba(edges, nodes=nodes))
    copied = pickle.loads(pickle.dumps(told))
    np.testing.assert_array_equal(copied.predict_proba(edges, nodes=nodes), told.predict_proba(edges, nodes=nodes))


def test_commands_read_tables_like_it_too(told: NodeClassifier, tmp_path: Path) -> None:
    edges, nodes = make_tables()
    edges.to_csv(tmp_path / "edges.csv", index=False)
    nodes.assign(town=np.array(["Rome", "Oslo"])[np.arange(NODES) % 2]).to_csv(tmp_path / "nodes.csv", index=False)
    files = [tmp_path / "edges.csv", tmp_path / "nodes.csv"]
    other = Run.open(told.save(tmp_path / "run"), files, device="cpu", other=True)
    np.testing.assert_allclose(other.predict().probability, told.predict_proba(), rtol=1e-4)


def test_features_made_in_another_way_are_refused(told: NodeClassifier, fitted: NodeClassifier) -> None:
    with pytest.raises(GpmError, match="fitted on columns of a table of nodes, encoded"):
        told.predict(make_data())
    edges, nodes = make_tables()
    with pytest.raises(GpmError, match="fitted on node features as they are"):
        fitted.predict(edges, nodes=nodes)


def test_all_kinds_of_the_same_graph_are_fitted_alike() -> None:
    edges, x = make_parts()
    data = make_data(masks=False)
    y = data.y.numpy()
    options = SMALL | {"epochs": 2}
    wanted = NodeClassifier(**options).fit(data).predict_proba()

    def check(model: NodeClassifier, rtol: float = 1e-6) -> None:
        assert model.classes_.tolist() == [5, 6, 8]
        np.testing.assert_allclose(model.predict_proba(), wanted, rtol=rtol, atol=1e-3 if rtol > 1e-5 else 0)

    adjacency = sp.coo_array((np.ones(edges.shape[1]), edges), shape=(NODES, NODES))
    adjacency = adjacency + adjacency.T
    features = x.astype(np.float32)
    check(NodeClassifier(**options).fit(Graph.from_pyg(data)))
    check(NodeClassifier(**options).fit(adjacency, y, x=features))
    frame = pd.DataFrame(x, columns=["a", "b", "c"])
    check(NodeClassifier(**options).fit(adjacency, y, x=frame), 0.02)  # columns are standardised twice
    both = pd.DataFrame(edges.T, columns=["source", "target"])
    nodes = frame.assign(id=np.arange(NODES), label=y)
    check(NodeClassifier(**options).fit(both, nodes=nodes, target="label"), 0.02)
    check(NodeClassifier(**options).fit(both, y, nodes=nodes.drop(columns="label")), 0.02)
    network = nx.Graph()
    network.add_nodes_from((i, {"x": x[i].tolist(), "label": int(y[i])}) for i in range(NODES))
    network.add_edges_from(edges.T.tolist())
    check(NodeClassifier(**options).fit(network, target="label"), 0.02)


def test_files_are_fitted_too(tmp_path: Path) -> None:
    edges, nodes = make_tables()
    full = nodes.assign(kind=np.array(["x", "y", "z"])[TELLING])
    edges.to_csv(tmp_path / "edges.csv", index=False)
    full.to_csv(tmp_path / "nodes.csv", index=False)
    model = NodeClassifier(**SMALL | {"epochs": 1})
    model.fit(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", target="kind")
    assert model.classes_.tolist() == ["x", "y", "z"]
    np.testing.assert_allclose(model.predict_proba(edges, nodes=nodes), model.predict_proba(), rtol=1e-4)
    right = (model.predict() == full["kind"].to_numpy()).mean()
    assert model.score(edges, nodes=full) == pytest.approx(right)
    assert model.score(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv") == pytest.approx(right)


def test_a_run_of_tables_by_gpm_train_is_loaded(tmp_path: Path) -> None:
    edges, nodes = make_tables()
    full = nodes.assign(kind=np.array(["x", "y", "z"])[TELLING])
    gpm.train(edges, nodes=full, target="kind", out=tmp_path / "run", quiet=True, **SMALL | {"epochs": 1})
    model = gpm.load(tmp_path / "run", device="cpu")
    assert isinstance(model, NodeClassifier)
    assert (model.classes_.tolist(), model.feature_names_in_.tolist()) == (["x", "y", "z"], ["a", "b", "c"])
    np.testing.assert_array_equal(model.predict(edges, nodes=nodes), model.predict())
    again = copy.deepcopy(model)
    np.testing.assert_array_equal(again.predict(edges, nodes=nodes), model.predict())
    np.testing.assert_array_equal(gpm.load(model.save(tmp_path / "copy")).predict(), model.predict())


def test_tables_of_many_graphs() -> None:
    parts = [nx.cycle_graph(4 + i % 3) if i % 2 else nx.path_graph(4 + i % 3) for i in range(24)]
    edges = pd.DataFrame([(f"g{i}", *pair) for i, part in enumerate(parts) for pair in part.edges])
    edges.columns = ["graph", "source", "target"]
    nodes = pd.DataFrame([(f"g{i}", n, "C" if n % 2 else "N") for i, part in enumerate(parts) for n in part])
    nodes.columns = ["graph", "id", "element"]
    graphs = pd.DataFrame({"graph": [f"g{i}" for i in range(24)], "ring": [bool(i % 2) for i in range(24)]})
    model = GraphClassifier(**SMALL | {"epochs": 1})
    model.fit(edges, nodes=nodes, graphs=graphs, graph="graph", target="ring")
    assert model.classes_.tolist() == [False, True]
    assert model.predict(names=["g3", "g1"], frame=True)["name"].tolist() == ["g3", "g1"]
    np.testing.assert_array_equal(model.predict(edges, nodes=nodes, graph="graph"), model.predict())
    right = np.mean(model.predict() == graphs["ring"])
    assert model.score(edges, nodes=nodes, graphs=graphs, graph="graph") == pytest.approx(right)
    with pytest.raises(GpmError, match="Labels of graphs in tables are a column of the table of graphs"):
        model.fit(edges, [True] * 24, nodes=nodes, graph="graph")


def test_a_column_of_parts_is_the_split() -> None:
    edges, nodes = make_tables()
    part = np.array(["train", "train", "val", "test"])[np.arange(NODES) % 4]
    model = NodeRegressor(**SMALL | {"epochs": 1})
    model.fit(edges, nodes=nodes.assign(value=TELLING * 1.5, fold=part), target="value", split="fold")
    assert model.run_.split.val.tolist() == list(range(2, NODES, 4))
    assert model.predict(frame=True)["node"].tolist() == nodes["id"].tolist()


def test_graphs_of_networkx_have_attributes() -> None:
    graphs = []
    for i in range(24):
        graph = nx.cycle_graph(4 + i % 3) if i % 2 else nx.path_graph(4 + i % 3)
        nx.set_node_attributes(graph, {n: "C" if n % 2 else "N" for n in graph}, "element")
        graphs.append(graph)
    model = GraphClassifier(**SMALL | {"epochs": 1}).fit(graphs, [bool(i % 2) for i in range(24)])
    assert model.classes_.tolist() == [False, True]
    assert model.predict(graphs[:3]).shape == (3,)
    np.testing.assert_allclose(model.predict_proba(graphs), model.predict_proba(), rtol=1e-4)


def test_columns_that_are_not_there_are_named() -> None:
    edges, nodes = make_tables()
    with pytest.raises(GpmError, match=r"There is no column 'kind'\. .*Columns: id, a, b, c"):
        NodeClassifier(**SMALL).fit(edges, nodes=nodes, target="kind")
    with pytest.raises(GpmError, match="target names a column of the nodes"):
        NodeClassifier(**SMALL).fit(edges, target="d")


def test_what_goes_with_tables_is_not_passed_over_elsewhere() -> None:
    edges, nodes = make_tables()
    model = NodeClassifier(**SMALL)
    with pytest.raises(GpmError, match="target goes with a DataFrame or a file of edges"):
        model.fit(make_data(), target="label")
    with pytest.raises(GpmError, match="nodes goes with a DataFrame"):
        model.fit(nx.path_graph(9), nodes=nodes)
    with pytest.raises(GpmError, match="graphs goes with a DataFrame"):
        GraphClassifier(**SMALL).fit(make_rings(), graphs=nodes)
    with pytest.raises(GpmError, match="give nodes, with a row per node, not x"):
        model.fit(edges, x=np.ones((NODES, 1)))


def test_labels_beside_edges_alone_are_given_by_name() -> None:
    edges, _ = make_tables()
    model = NodeClassifier(**SMALL | {"epochs": 1})
    with pytest.raises(GpmError, match="A table of edges does not define the order of the nodes"):
        model.fit(edges, ["a", "b"] * (NODES // 2))
    named = sorted(set(edges["source"]) | set(edges["target"]))
    model.fit(edges, {name: name < "n24" for name in named})
    assert model.predict(names=named[:2]).dtype == np.bool_
    assert not hasattr(model, "feature_names_in_")


def test_labels_of_networkx_graphs_are_attributes_of_theirs() -> None:
    graphs = [nx.cycle_graph(5, create_using=nx.Graph) if i % 2 else nx.path_graph(5) for i in range(20)]
    for i, graph in enumerate(graphs):
        graph.graph["kind"] = "ring" if i % 2 else "path"
    model = GraphClassifier(**SMALL | {"epochs": 1}).fit(graphs, target="kind")
    assert model.classes_.tolist() == ["path", "ring"]
    assert model.score(graphs, target="kind") == pytest.approx(np.mean(model.predict(graphs) == ["path", "ring"] * 10))


def test_parallel_edges_of_networkx_stay_parallel() -> None:
    graph = nx.MultiGraph([(i, (i + 1) % 30) for i in range(30)] * 2)
    nx.set_node_attributes(graph, {i: {"size": i / 7, "side": "left" if i < 15 else "right"} for i in graph})
    model = NodeClassifier(**SMALL | {"epochs": 1}).fit(graph, target="side")
    assert model.run_.data.graph.num_edges == 120
    assert model.feature_names_in_.tolist() == ["size"]


def test_parts_must_be_whole() -> None:
    edges, nodes = make_tables()
    part = np.array(["train", "test"])[np.arange(NODES) % 2]
    with pytest.raises(GpmError, match="No node is val in column 'split'; all of train, val, test are needed"):
        NodeClassifier(**SMALL).fit(edges, nodes=nodes.assign(y=TELLING, split=part), target="y")
    wrong = nodes.assign(y=TELLING, fold=["train", "maybe"] * (NODES // 2))
    with pytest.raises(GpmError, match="'maybe' in column 'fold' is not a split"):
        NodeClassifier(**SMALL).fit(edges, nodes=wrong, target="y", split="fold")
