from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import KarateClub

from gpm import GpmError, Graph, NodeClassifier, Run

NODES = 60
SMALL: dict[str, Any] = {
    "device": "cpu", "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 16, "epochs": 6,
    "warmup": 4, "lr": 0.02, "dropout": 0.0,
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


def _data(seed: int = 0, columns: int = 3) -> Data:
    """Three classes, 5, 6 and 8, that the features tell."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(NODES) % 3
    x = torch.eye(3)[y] + 0.1 * torch.randn(NODES, 3, generator=random)
    part = torch.arange(NODES) // 3 % 4
    return Data(
        x=x.repeat(1, columns // 3), edge_index=torch.randint(0, NODES, (2, 150), generator=random),
        y=torch.tensor([5, 6, 8])[y], train_mask=part < 2, val_mask=part == 2, test_mask=part == 3,
    )  # fmt: skip


@pytest.fixture(scope="module")
def fitted() -> NodeClassifier:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    model = NodeClassifier(**SMALL).fit(_data())
    torch.set_num_threads(before)
    return model


def test_it_fits_predicts_and_scores(fitted: NodeClassifier) -> None:
    data = _data()
    classes, chances = fitted.predict(data), fitted.predict_proba(data)
    assert fitted.classes_.tolist() == [5, 6, 8]
    assert (classes.shape, chances.shape) == ((NODES,), (NODES, 3))
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(classes, fitted.classes_[chances.argmax(1)])
    test = data.test_mask.numpy()
    assert fitted.score() == pytest.approx((classes == data.y.numpy())[test].mean())
    assert fitted.score() > 0.9
    assert fitted.score(data) == pytest.approx((classes == data.y.numpy()).mean())


def test_without_a_graph_it_speaks_of_the_one_it_was_fitted_on(fitted: NodeClassifier) -> None:
    np.testing.assert_array_equal(fitted.predict(), fitted.predict(_data()))
    np.testing.assert_allclose(fitted.predict_proba(nodes=np.array([4, 2])), fitted.predict_proba()[[4, 2]], rtol=1e-5)
    assert fitted.predict(nodes=np.array([], dtype=np.int64)).shape == (0,)


def test_the_masks_are_its_split(fitted: NodeClassifier) -> None:
    assert fitted.run_ is not None
    assert fitted.run_.split.name == "public"
    assert fitted.run_.split.test.tolist() == torch.where(_data().test_mask)[0].tolist()


def test_other_graphs_with_the_same_features_are_predicted(fitted: NodeClassifier, tmp_path: Path) -> None:
    other = _data(seed=1)
    assert fitted.score(other) > 0.9
    graph = Graph.from_pyg(other)
    np.testing.assert_array_equal(fitted.predict(graph), fitted.predict(other))
    torch.save(other, tmp_path / "other.pt")
    np.testing.assert_array_equal(fitted.predict(str(tmp_path / "other.pt")), fitted.predict(other))
    other.y = None
    np.testing.assert_array_equal(fitted.predict(other), fitted.predict(graph))  # labels are not needed
    with pytest.raises(GpmError, match="has no node labels"):
        fitted.score(other)
    with pytest.raises(GpmError, match="the model reads 3 node features"):
        fitted.predict(_data(columns=6))


def test_other_classes_are_not_scored(fitted: NodeClassifier) -> None:
    data = _data()
    data.y = data.y - 5
    sentence = r"the graph's classes are \[0, 1, 3\], the model's \[5, 6, 8\]; they must be the same"
    with pytest.raises(GpmError, match=sentence):
        fitted.score(data)


def test_it_is_reproducible_and_keeps_its_folder_if_asked(fitted: NodeClassifier, tmp_path: Path) -> None:
    again = NodeClassifier(**SMALL).fit(_data(), out=tmp_path / "run")
    np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())
    other = NodeClassifier(**SMALL | {"seed": 1}).fit(_data())
    assert (other.predict_proba() != fitted.predict_proba()).any()
    assert Run.open(tmp_path / "run", _data()).evaluate()["accuracy"] == again.score()


def test_a_graph_is_fitted_as_well() -> None:
    graph = Graph.from_pyg(KarateClub()[0])
    model = NodeClassifier(**SMALL | {"epochs": 1, "split": "50/25/25"}).fit(graph)
    assert model.predict(graph).shape == (34,)
    assert model.run_ is not None
    assert model.score() == model.run_.result["test"]["accuracy"]
    assert model.run_.split.name == "random 50/25/25, seed 0"


def test_several_labels_are_yes_or_no() -> None:
    data = _data()
    data.y = torch.nn.functional.one_hot(torch.arange(NODES) % 3, 3).float()
    data.y[::7] = float("nan")
    model = NodeClassifier(**SMALL | {"metric": "f1"}).fit(data)
    said = model.predict(data)
    assert (said.shape, said.dtype) == ((NODES, 3), np.bool_)
    np.testing.assert_array_equal(said, model.predict_proba(data) >= 0.5)
    known = ~data.y.isnan().numpy()
    right, wanted = said[known], data.y.numpy()[known] == 1
    assert model.score(data) == pytest.approx(2 * (right & wanted).sum() / (right.sum() + wanted.sum()), abs=1e-6)


def test_parameters_are_got_and_set() -> None:
    model = NodeClassifier(**SMALL)
    assert model.get_params() == {"progress": False} | SMALL
    assert NodeClassifier(**model.get_params()).config == model.config
    assert model.set_params(width=16, progress=True) is model
    assert (model.config.width, model.config.heads, model.progress) == (16, 2, True)
    assert model.get_params() == SMALL | {"width": 16, "progress": True}
    with pytest.raises(GpmError, match=r"there is no option 'widht'. Did you mean 'width'"):
        model.set_params(widht=8)
    assert model.config.width == 16  # as before the mistake


def test_new_parameters_forget_the_fit() -> None:
    model = NodeClassifier(**SMALL | {"epochs": 1}).fit(_data())
    model.set_params(width=16)
    with pytest.raises(GpmError, match="not fitted yet"):
        model.predict()


def test_an_unfitted_model_says_so() -> None:
    model = NodeClassifier(**SMALL)
    for ask in (model.predict, model.predict_proba, model.score, lambda: model.classes_):
        with pytest.raises(GpmError, match=r"^this NodeClassifier is not fitted yet; call fit first"):
            ask()


def test_mistakes_are_found_when_it_is_made() -> None:
    with pytest.raises(GpmError, match=r"there is no option 'epoch'. Did you mean 'epochs'"):
        NodeClassifier(epoch=3)
    with pytest.raises(GpmError, match="epochs must lie between"):
        NodeClassifier(epochs=0)
