"""Estimators of nodes: the user's own labels and names, on the graph that was fitted and on others."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import gpm
from gpm import GpmError, Graph, NodeClassifier, NodeRegressor
from tests.estimators.samples import NODES, SMALL, TELLING, make_data

pytestmark = pytest.mark.usefixtures("one_thread")


def test_it_fits_predicts_and_scores(fitted: NodeClassifier) -> None:
    data = make_data()
    classes, chances = fitted.predict(data), fitted.predict_proba(data)
    assert fitted.classes_.tolist() == [5, 6, 8]
    assert (classes.shape, chances.shape, fitted.n_features_in_) == ((NODES,), (NODES, 3), 3)
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(classes, fitted.classes_[chances.argmax(1)])
    right = classes == data.y.numpy()
    assert fitted.score() == pytest.approx(right[data.test_mask.numpy()].mean())
    assert fitted.score(data) == pytest.approx(right.mean())
    assert fitted.score() > 0.8
    assert fitted.run_.split.test.tolist() == torch.where(data.test_mask)[0].tolist()


def test_without_a_graph_it_speaks_of_the_one_it_was_fitted_on(fitted: NodeClassifier) -> None:
    np.testing.assert_array_equal(fitted.predict(), fitted.predict(make_data()))
    np.testing.assert_allclose(fitted.predict_proba(names=[4, 2]), fitted.predict_proba()[[4, 2]], rtol=1e-4)
    assert fitted.predict(names=[]).shape == (0,)
    with pytest.raises(GpmError, match="nodes goes with a graph; give the graph as data too"):
        fitted.predict(nodes=pd.DataFrame())
    with pytest.raises(GpmError, match=r"'node' is not an argument for a graph. Did you mean 'nodes'"):
        fitted.predict(make_data(), node=3)


def test_text_comes_back(named: NodeClassifier) -> None:
    assert named.classes_.tolist() == ["ant", "bee", "cat"]
    said = named.predict(names=["n07", "n02"])
    assert set(said) <= {"ant", "bee", "cat"}
    assert said.tolist() == [named.predict()[7], named.predict()[2]]
    table = named.predict(names=["n07", "n02"], frame=True)
    assert list(table) == ["node", "prediction", "p_ant", "p_bee", "p_cat"]
    assert table["node"].tolist() == ["n07", "n02"]
    assert table["prediction"].tolist() == said.tolist()
    reason = named.explain("n07", target="bee", draws=2, top=2)
    assert (reason.classes, reason.target) == (("ant", "bee", "cat"), 1)
    with pytest.raises(GpmError, match=r"There is no class 'be'. Did you mean 'bee'"):
        named.explain("n07", target="be")


def test_unknown_labels_are_in_no_part(named: NodeClassifier) -> None:
    split = named.run_.split
    together = np.sort(np.concatenate([split.train, split.val, split.test]))
    assert together.tolist() == [i for i in range(NODES) if i % 5]
    assert "stratified" in split.name


@pytest.mark.parametrize(("labels", "classes"), [([True, False], [False, True]), ([-1, (0, "x")], [-1, (0, "x")])])
def test_what_is_said_is_what_was_given(labels: list[Any], classes: list[Any]) -> None:
    y = [labels[i % 2] for i in range(NODES)]
    model = NodeClassifier(**SMALL | {"epochs": 1}).fit(make_data(masks=False), y)
    assert model.classes_.tolist() == classes
    assert set(model.predict().tolist()) <= set(classes)
    assert model.predict().dtype == model.classes_.dtype
    again = pickle.loads(pickle.dumps(model))
    assert again.predict().tolist() == model.predict().tolist()


def test_labels_are_given_by_name_or_in_order(named: NodeClassifier) -> None:
    graph = named.run_.data.graph
    truth = dict(zip([f"n{i:02}" for i in range(NODES)], np.array(["ant", "bee", "cat"])[TELLING], strict=True))
    wanted = named.score(graph, list(truth.values()))
    assert named.score(graph, dict(reversed(truth.items()))) == wanted
    assert named.score(graph, pd.Series(truth)[::-1]) == wanted
    assert named.score(y=np.array(list(truth.values()))) == wanted
    half = dict(list(truth.items())[:10])
    right = named.predict()[:10] == list(half.values())
    assert named.score(graph, half) == pytest.approx(right.mean())


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (["ant"], r"y has 1 entries for 48 nodes"),
        ({"n0": "ant"}, r"y names 'n0', which is not a node of the graph\. Did you mean 'n\d\d'"),
        (["dog"] * NODES, r"entry 0 is 'dog', a class that the model does not know \('ant', 'bee', 'cat'\)"),
        (pd.Series(["ant", "bee"], index=["n01", "n01"]), "names a node twice"),
    ],
)
def test_mistaken_labels_are_refused(named: NodeClassifier, y: Any, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        named.score(named.run_.data.graph, y)


def test_labels_that_cannot_be_learned_are_refused() -> None:
    model = NodeClassifier(**SMALL)
    with pytest.raises(GpmError, match="Every label is 'a'; at least two classes"):
        model.fit(make_data(), ["a"] * NODES)
    with pytest.raises(GpmError, match="Every label is unknown"):
        model.fit(make_data(), [None] * NODES)
    bare = make_data()
    bare.y = None
    with pytest.raises(GpmError, match="There are no labels of nodes; give y with one per node"):
        model.fit(bare)
    with pytest.raises(GpmError, match="y holds a value that is not a number"):
        NodeRegressor(**SMALL).fit(make_data(), ["a"] * NODES)


def test_other_graphs_with_the_same_features_are_predicted(fitted: NodeClassifier, tmp_path: Path) -> None:
    other = make_data(seed=1)
    assert fitted.score(other) > 0.8
    graph = Graph.from_pyg(other)
    np.testing.assert_array_equal(fitted.predict(graph), fitted.predict(other))
    torch.save(other, tmp_path / "other.pt")
    np.testing.assert_array_equal(fitted.predict(tmp_path / "other.pt"), fitted.predict(other))
    other.y = None
    np.testing.assert_array_equal(fitted.predict(other), fitted.predict(graph))  # labels are not needed
    with pytest.raises(GpmError, match="no labels of nodes"):
        fitted.score(other)
    other.x = other.x[:, :2]
    with pytest.raises(GpmError, match="The model reads 3 node features"):
        fitted.predict(other)


def test_several_labels_are_yes_or_no() -> None:
    several = pd.DataFrame(np.eye(3)[TELLING], columns=["red", "green", "blue"])
    several.iloc[::7] = np.nan
    model = NodeClassifier(**SMALL | {"metric": "f1"}).fit(make_data(masks=False), several)
    said = model.predict()
    assert (said.shape, said.dtype, model.classes_.tolist()) == ((NODES, 3), np.bool_, ["red", "green", "blue"])
    np.testing.assert_array_equal(said, model.predict_proba() >= 0.5)
    known = several.notna().to_numpy()
    right, wanted = said[known], several.to_numpy()[known] == 1
    score = model.score(make_data(), several)
    assert score == pytest.approx(2 * (right & wanted).sum() / (right.sum() + wanted.sum()), abs=1e-6)


def test_numbers_are_predicted_in_their_own_units() -> None:
    y = 1000 + 100 * TELLING.astype(float)
    y[3] = np.nan
    model = NodeRegressor(**SMALL | {"epochs": 12}).fit(make_data(masks=False), y)
    said, known = model.predict(), ~np.isnan(y)
    assert said.shape == (NODES,)
    explained = 1 - np.square(said - y)[known].sum() / np.square(y[known] - y[known].mean()).sum()
    assert model.score(make_data(), y) == pytest.approx(explained, abs=1e-4)
    assert explained > 0.3
    assert model.run_.config.metric == "mae"
    table = model.predict(frame=True, names=[5, 1])
    assert list(table) == ["node", "prediction"]
    np.testing.assert_allclose(table["prediction"], said[[5, 1]], rtol=1e-4)


def test_several_numbers_have_a_column_each() -> None:
    y = pd.DataFrame({"age": TELLING * 1.0, "size": TELLING * 2.5})
    model = NodeRegressor(**SMALL | {"epochs": 1, "metric": "rmse"}).fit(make_data(masks=False), y)
    assert model.predict().shape == (NODES, 2)
    assert list(model.predict(frame=True)) == ["node", "prediction_age", "prediction_size"]


def test_a_named_dataset_is_fitted_and_found_again(tmp_path: Path) -> None:
    model = NodeClassifier(**SMALL | {"epochs": 1, "split": "50/25/25"}).fit("karate")
    assert model.predict().shape == (34,)
    model.save(tmp_path / "run")
    assert not (tmp_path / "run/graph").exists()  # it is read again by its name
    np.testing.assert_array_equal(gpm.load(tmp_path / "run").predict_proba(), model.predict_proba())


def test_strange_objects_are_refused(fitted: NodeClassifier) -> None:
    with pytest.raises(GpmError, match=r"Give a PyG Data, .* not a list"):
        fitted.predict([1, 2])
    with pytest.raises(GpmError, match=r"Make a matrix sparse with scipy\.sparse\.csr_array"):
        NodeClassifier().fit(np.eye(3))
