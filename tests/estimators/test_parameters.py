"""Parameters in scikit-learn's manner, and what is said before anything is fitted."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from gpm import GpmError, GraphClassifier, GraphRegressor, LinkPredictor, NodeClassifier, NodeRegressor
from gpm.config import option_names
from gpm.estimators import NotFittedError
from gpm.estimators.parameters import as_seed
from tests.estimators.samples import ALL, SMALL, make_data, make_rings

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("kind", ALL)
def test_parameters_are_got_set_and_cloned(kind: type) -> None:
    lengths = [0, 2]
    model = kind(epochs=3, lengths=lengths, random_state=7)
    params = model.get_params()
    assert params["lengths"] is lengths  # as scikit-learn's clone demands
    assert (model.epochs, model.random_state, params["epochs"], params["width"]) == (3, 7, 3, None)
    again = kind(**model.get_params(deep=False))
    assert all(again.get_params()[name] is value for name, value in params.items())
    assert again.set_params(epochs=9, progress=True) is again
    assert again.get_params() == params | {"epochs": 9, "progress": True}
    assert model.get_params() == params


def test_they_are_the_options_of_a_run() -> None:
    known = set(NodeClassifier().get_params())
    missing = {"seed", "data", "task", "smiles", "target", "target_graph"}
    assert known == set(option_names()) - missing | {"device", "threads", "progress", "random_state"}
    methods = {name for kind in ALL for name in dir(kind) if not name.startswith("_")}
    assert not known & methods


def test_threads_are_passed_on_to_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr("gpm.compute.set_threads", calls.append)
    NodeClassifier(**SMALL | {"epochs": 1}).fit(make_data())
    assert calls == []  # 0 leaves torch's default
    model = NodeClassifier(threads=2, **SMALL | {"epochs": 1}).fit(make_data())
    assert (calls, model.get_params()["threads"]) == ([2], 2)
    with pytest.raises(GpmError, match="threads must not be negative, got -1"):
        model.set_params(threads=-1).fit(make_data())


def test_it_is_shown_by_what_was_changed() -> None:
    assert repr(NodeClassifier()) == "NodeClassifier()"
    assert repr(LinkPredictor(epochs=60, random_state=1)) == "LinkPredictor(random_state=1)"
    assert repr(GraphRegressor(lengths=[0], width=8)) == "GraphRegressor(lengths=[0], width=8)"


def test_an_unknown_parameter_is_refused_at_once() -> None:
    with pytest.raises(GpmError, match=r"^NodeClassifier has no parameter 'epoch'. Did you mean 'epochs'\?$"):
        NodeClassifier(epoch=3)
    model = NodeClassifier(epochs=3)
    with pytest.raises(GpmError, match=r"no parameter 'widht'. Did you mean 'width'\?"):
        model.set_params(epochs=9, widht=8)
    assert model.epochs == 3  # as before the mistake
    with pytest.raises(GpmError, match="seed is not a parameter of NodeClassifier; give random_state"):
        NodeClassifier(seed=1)


def test_a_wrong_value_is_refused_by_fit() -> None:
    with pytest.raises(GpmError, match="epochs must lie between"):
        NodeClassifier(epochs=0).fit(make_data())
    with pytest.raises(GpmError, match="random_state must be a whole number"):
        LinkPredictor(random_state="x").fit(make_data())
    with pytest.raises(GpmError, match="mae is for numbers; fit a regressor"):
        NodeClassifier(**SMALL | {"metric": "mae"}).fit(make_data())
    with pytest.raises(GpmError, match="f1 is for classes; fit a classifier"):
        NodeRegressor(**SMALL | {"metric": "f1"}).fit(make_data())


@pytest.mark.parametrize("kind", ALL)
def test_an_unfitted_model_says_so(kind: type) -> None:
    model = kind()
    asked = [lambda: model.predict([(0, 1)]), model.score, lambda: model.explain(0), model.embed]
    for ask in [*asked, lambda: model.save("x"), lambda: model.run_, lambda: model.n_features_in_]:
        with pytest.raises(NotFittedError, match=rf"^This {kind.__name__} is not fitted yet; call fit first\.$"):
            ask()
    assert not hasattr(model, "run_")
    assert not model.__sklearn_is_fitted__()
    assert issubclass(NotFittedError, GpmError)  # a ValueError
    assert issubclass(NotFittedError, AttributeError)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        model.nonsense  # noqa: B018


def test_scikit_learn_clones_it(fitted: NodeClassifier) -> None:
    base = pytest.importorskip("sklearn.base")
    again = base.clone(fitted)
    assert again.get_params() == fitted.get_params()
    assert not again.__sklearn_is_fitted__()
    assert base.is_classifier(again)
    selection = pytest.importorskip("sklearn.model_selection")
    search = selection.GridSearchCV(GraphClassifier(**SMALL | {"epochs": 1}), {"width": [8, 16]}, cv=2)
    assert search.fit(make_rings(), ["path", "ring"] * 15).predict(make_rings(2)).shape == (2,)


def test_a_random_state_says_it_all(fitted: NodeClassifier) -> None:
    again = NodeClassifier(**SMALL | {"random_state": np.int64(0)}).fit(make_data())
    np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())
    other = NodeClassifier(**SMALL | {"random_state": np.random.default_rng(5), "epochs": 1}).fit(make_data())
    assert other.run_.config.seed == as_seed(np.random.default_rng(5))


def test_a_random_state_becomes_a_seed() -> None:
    old = np.random.RandomState
    assert as_seed(old(5)) == as_seed(old(5)) != as_seed(old(6))
    state = np.random.default_rng(5)
    assert as_seed(state) != as_seed(state)  # the next draw, as scikit-learn has it
    assert as_seed(None) != as_seed(None)
    assert as_seed(2**63 - 1) == 2**63 - 1
    for wrong in (-1, 2**63, 0.5, "x"):
        with pytest.raises(GpmError, match="random_state must"):
            as_seed(wrong)


def test_new_parameters_leave_the_model_alone(fitted: NodeClassifier) -> None:
    model = copy.deepcopy(fitted)
    before = model.predict_proba()
    model.set_params(width=8, epochs=1)
    np.testing.assert_array_equal(model.predict_proba(), before)
