"""Saved, loaded, copied and pickled: the same answers, and nothing left behind."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import gpm
from gpm import GpmError, NodeClassifier, Run
from tests.estimators.samples import NODES, SMALL, make_data

pytestmark = pytest.mark.usefixtures("one_thread")


def test_what_is_saved_is_loaded(named: NodeClassifier, tmp_path: Path) -> None:
    assert named.save(tmp_path / "run") == tmp_path / "run"
    again = gpm.load(tmp_path / "run", device="cpu")
    assert isinstance(again, NodeClassifier)
    np.testing.assert_array_equal(again.predict_proba(), named.predict_proba())
    np.testing.assert_array_equal(again.predict(), named.predict())
    assert again.classes_.tolist() == named.classes_.tolist()
    assert again.n_features_in_ == named.n_features_in_
    assert again.score() == named.score()
    assert again.get_params() == named.get_params()
    assert named.predict(names=["n07"]).tolist() == again.predict(names=["n07"]).tolist()
    again.save(tmp_path / "other")
    np.testing.assert_array_equal(gpm.load(tmp_path / "other").predict_proba(), named.predict_proba())


def test_it_is_a_run_folder_like_others(named: NodeClassifier, tmp_path: Path) -> None:
    from gpm.io.manifest import check_folder

    named.save(tmp_path / "run")
    assert check_folder(tmp_path / "run") == []
    table = Run.open(tmp_path / "run", device="cpu").predict(["n07"]).frame()
    assert table["prediction"].tolist() == named.predict(names=["n07"]).tolist()


def test_a_folder_that_is_there_is_not_replaced_unasked(named: NodeClassifier, tmp_path: Path) -> None:
    named.save(tmp_path / "run")
    with pytest.raises(GpmError, match=r"run exists: name another folder, or pass overwrite=True"):
        named.save(tmp_path / "run")
    named.save(tmp_path / "run", overwrite=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.txt").write_text("years of work")
    with pytest.raises(GpmError, match="is not a run folder"):
        named.save(tmp_path / "mine", overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "run"]  # nothing half-written


def test_a_run_of_gpm_train_is_loaded(tmp_path: Path) -> None:
    run = gpm.train("karate", out=tmp_path / "run", quiet=True, **SMALL | {"epochs": 1, "split": "50/25/25"})
    model = gpm.load(tmp_path / "run", device="cpu")
    assert isinstance(model, NodeClassifier)
    np.testing.assert_array_equal(model.predict(), run.predict().labels)  # type: ignore[union-attr]
    assert (model.epochs, model.width, model.random_state, model.classes_.tolist()) == (1, 16, 0, [0, 1, 2, 3])
    with pytest.raises(GpmError, match="no run folder"):
        gpm.load(tmp_path / "nothing")


def test_classes_that_are_no_text_or_number_are_not_saved(tmp_path: Path) -> None:
    y = [(0, i % 2) for i in range(NODES)]
    model = NodeClassifier(**SMALL | {"epochs": 1}).fit(make_data(), y)
    with pytest.raises(GpmError, match=r"The class \(0, 0\) cannot be written to a file"):
        model.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_copy_needs_no_folder_of_the_first(named: NodeClassifier) -> None:
    first = copy.deepcopy(named)
    second, wanted = pickle.loads(pickle.dumps(first)), first.predict_proba()
    folder = first.run_.folder
    del first
    assert not folder.exists()
    np.testing.assert_array_equal(second.predict_proba(), wanted)
    np.testing.assert_array_equal(second.predict(), named.predict())
    assert second.run_.folder != named.run_.folder


def test_folders_go_with_the_estimator() -> None:
    model = NodeClassifier(**SMALL | {"epochs": 1}).fit(make_data())
    first = model.run_.folder
    with pytest.raises(GpmError):
        model.fit(make_data(), ["a"])
    assert first.exists()  # a fit that failed leaves the last one
    second = model.fit(make_data()).run_.folder
    assert not first.exists()
    assert second.exists()
    del model
    assert not second.exists()


def test_damaged_classes_are_said_to_be(named: NodeClassifier, tmp_path: Path) -> None:
    path = named.save(tmp_path / "run") / "estimator.json"
    whole = path.read_text()
    for change in (('"ant"', '"ant", "dog"'), ('"dtype": "O"', '"dtype": "<M8[s]"'), ('"ant"', '["ant"]')):
        path.write_text(whole.replace(*change))
        with pytest.raises(GpmError, match=r"estimator\.json is damaged: its bytes are not those|it has"):
            gpm.load(tmp_path / "run")
    (tmp_path / "run/checksums.json").unlink()
    for change in (('"ant"', '"ant", "dog"'), ('"dtype": "O"', '"dtype": "<M8[s]"'), ('"ant"', '["ant"]')):
        path.write_text(whole.replace(*change))
        with pytest.raises(GpmError, match=r"estimator\.json is damaged: .*classes.*; fit and save it again"):
            gpm.load(tmp_path / "run")
    path.write_text(whole.replace("gpm-estimator", "else"))
    with pytest.raises(GpmError, match=r"estimator\.json is damaged: format: invalid .*'else'; fit and save it again"):
        gpm.load(tmp_path / "run")
