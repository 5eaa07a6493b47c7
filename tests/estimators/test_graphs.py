"""Estimators of graphs and molecules."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import gpm
from gpm import GpmError, Graph, GraphClassifier, GraphRegressor
from tests.estimators.samples import SMALL, make_rings

pytestmark = pytest.mark.usefixtures("one_thread")


def test_it_fits_predicts_and_scores(ringed: GraphClassifier) -> None:
    assert ringed.classes_.tolist() == ["path", "ring"]
    new = make_rings(6)
    said = ringed.predict(new)
    assert (said.shape, ringed.predict_proba(new).shape) == ((6,), (6, 2))
    truth = ["path", "ring"] * 3
    assert ringed.score(new, truth) == pytest.approx(np.mean(said == truth))
    assert ringed.score() == ringed.run_.result["test"]["accuracy"]
    np.testing.assert_array_equal(ringed.predict(new, names=[4, 1]), said[[4, 1]])
    assert ringed.predict(new, frame=True)["graph"].tolist() == list(range(6))
    assert ringed.embed(new).shape == (6, 16)


def test_an_empty_graph_or_list_is_refused(ringed: GraphClassifier) -> None:
    empty = Data(edge_index=torch.zeros(2, 0, dtype=torch.int64), num_nodes=0, y=torch.tensor([0]))
    with pytest.raises(GpmError, match="Graph 1 has no nodes"):
        ringed.predict([make_rings(1)[0], empty])
    with pytest.raises(GpmError, match="not an empty list"):
        ringed.predict([])
    with pytest.raises(GpmError, match="a single graph, not a collection"):
        ringed.predict(make_rings(1)[0])


def test_it_is_saved_and_loaded(ringed: GraphClassifier, tmp_path: Path) -> None:
    again = gpm.load(ringed.save(tmp_path / "run"), device="cpu")
    assert isinstance(again, GraphClassifier)
    np.testing.assert_array_equal(again.predict_proba(), ringed.predict_proba())
    np.testing.assert_array_equal(again.predict(make_rings(6)), ringed.predict(make_rings(6)))


def test_labels_of_the_graphs_themselves() -> None:
    model = GraphClassifier(**SMALL | {"epochs": 1}).fit(make_rings())
    assert model.classes_.tolist() == [0, 1]
    assert model.score(make_rings(6)) == pytest.approx(np.mean(model.predict(make_rings(6)) == [0, 1] * 3))
    graph = Graph.from_pyg(make_rings())
    np.testing.assert_array_equal(model.predict(graph), model.predict())


def test_molecules_are_read_from_smiles(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    smiles = ["C" * n + end for n in range(1, 7) for end in ("", "O", "N", "C(=O)O", "c1ccccc1")]
    with caplog.at_level(logging.WARNING, "gpm"):
        model = GraphRegressor(**SMALL | {"epochs": 2}).fit([*smiles, "no molecule"], [len(s) for s in smiles] + [9])
    assert "1 of 31 molecules are left out, the first is 30" in caplog.text
    said = model.predict(["CCO", "CCN"], frame=True)
    assert said["name"].tolist() == ["CCO", "CCN"]
    assert model.predict(np.array(["CCO", "CCN"])).shape == (2,)
    assert model.score() <= 1
    with pytest.raises(GpmError, match="Molecule 1 cannot be read"):
        model.predict(["CCO", "no molecule"])
    again = gpm.load(model.save(tmp_path / "run"), device="cpu")
    assert isinstance(again, GraphRegressor)
    np.testing.assert_array_equal(again.predict(), model.predict())
    classes = GraphClassifier(**SMALL | {"epochs": 1, "split": "scaffold"})
    with pytest.raises(GpmError, match="too few, or too large, for scaffold"):
        classes.fit(smiles, ["acid" if s.endswith("O") else "other" for s in smiles])
