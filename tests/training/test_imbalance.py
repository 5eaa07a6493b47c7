"""What a training does where a class is rare."""

from __future__ import annotations

import csv
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import Config, Graph, NodeClassifier, Run, train
from gpm.data.node_data import NodeData, build_node_data, load_node_data
from gpm.data.splits import Split
from gpm.data.task_data import TaskData
from gpm.training.estimate.subject import Subject
from gpm.training.imbalance import choose_metric
from gpm.training.prepare import Training, settle_options

pytestmark = pytest.mark.usefixtures("one_thread")


class _Fixed(NodeData):
    """Data of 200 nodes with a split that does not look at labels."""

    def _draw_split(self, *_: Any) -> Split:
        return Split(np.arange(100), np.arange(100, 150), np.arange(150, 200), "by hand")


def _graph(counts: list[int], seed: int = 0) -> Graph:
    """A random graph with classes of these sizes, whose first feature tells the class, with noise."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.repeat(np.arange(len(counts)), counts))
    x = np.stack([y + random.normal(0, 0.7, len(y)), random.normal(size=len(y))], 1)
    return Graph.from_edges(random.integers(0, len(y), (2, 3 * len(y))), len(y), undirected=True, x=x, y=y)


def _data(counts: list[int], **fields: Any) -> TaskData:
    return replace(build_node_data(_graph(counts), "g"), **{"stratify": True} | fields)


@pytest.mark.parametrize(
    ("counts", "metric"),
    [([190, 10], "ap"), ([10, 190], "ap"), ([100, 100], "accuracy"), ([170, 30], "accuracy"), ([120, 70, 10], "f1")],
)
def test_a_rare_class_decides_the_metric(counts: list[int], metric: str) -> None:
    data = _data(counts)
    assert choose_metric(Config(), data) == metric
    assert settle_options(Config(), data).metric == metric
    for chosen in ("accuracy", "roc_auc", "f1"):
        assert choose_metric(Config(metric=chosen), data) == chosen  # type: ignore[arg-type]


def test_a_log_line_names_the_class_and_its_share(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="gpm")
    settled = settle_options(Config(), _data([190, 10], class_names=("ok", "fraud")))
    assert caplog.messages == [
        "class fraud has 5.0% of the training nodes: epochs are selected by average precision; choose another with "
        "--metric"
    ]
    settle_options(settled, _data([190, 10]))  # what is settled says nothing more
    assert len(caplog.messages) == 1
    settle_options(Config(), _data([120, 70, 10]))
    assert caplog.messages[1].startswith("class 2 has 5.0% of the training nodes: epochs are selected by macro-F1")


def test_a_named_dataset_keeps_its_metric() -> None:
    assert choose_metric(Config(), _data([190, 10], named=True)) == "accuracy"
    assert load_node_data("karate").named
    assert settle_options(Config(), load_node_data("motifs")).metric == "accuracy"
    assert not build_node_data(_graph([10, 10]), "g").named


def test_only_the_training_split_says_what_is_rare() -> None:
    for first, rest, metric in (([0.5, 0.5], [0.9, 0.1], "accuracy"), ([0.95, 0.05], [0.5, 0.5], "ap")):
        parts = [np.repeat([0, 1], [round(share * size) for share in shares])
                 for shares, size in ((first, 100), (rest, 50), (rest, 50))]  # fmt: skip
        data = _Fixed(replace(_graph([100, 100]), y=np.concatenate(parts)), "g")
        assert choose_metric(Config(), data) == metric
    missing = _Fixed(replace(_graph([100, 100]), y=np.repeat([0, 1, 0], [98, 52, 50])), "g")
    assert choose_metric(Config(), missing) == "accuracy"  # average precision is not defined in the test split


def test_a_plan_and_a_training_have_the_same_metric() -> None:
    data = _data([190, 10])
    found = [kind.of(Config(), data) for kind in (Training, Subject)]
    assert [each.config.metric for each in found] == [each.task.metric for each in found] == ["ap", "ap"]


SMALL: dict[str, Any] = {
    "preset": "plain",
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 64, "epochs": 4, "warmup": 2,
    "lr": 0.02,
}  # fmt: skip


def _train(data: Any, out: Path, **options: Any) -> Run:
    run = train(data, out=out, quiet=True, device="cpu", **SMALL | options)
    assert isinstance(run, Run)
    return run


def _model(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run.folder / "model.json").read_text())
    return found


def test_whatever_predicts_uses_the_threshold(tmp_path: Path) -> None:
    """The rare class is the first one here, so that nothing can take it for the second."""
    data = _data([16, 184], class_names=("fraud", "ok"))
    run = _train(data, tmp_path / "run")
    threshold = _model(run)["threshold"]
    assert 0 < threshold < 1
    for opened in (run, Run.open(tmp_path / "run", data, device="cpu")):
        found = opened.predict()
        said = np.where(found.probability[:, 0] >= threshold, "fraud", "ok").tolist()
        assert {"fraud", "ok"} == set(said)
        assert found.columns()["prediction"] == opened.predict(calibrate=True).columns()["prediction"] == said
        assert [("fraud", "ok")[label] for label in found.labels] == said
        test = opened.split.test
        right = np.mean([("fraud", "ok").index(said[node]) == data.labels[node] for node in test])
        assert opened.evaluate("test") == pytest.approx(opened.result["test"])
        assert opened.evaluate("test")["accuracy"] == pytest.approx(right)
    likelier = np.where(found.probability[:, 0] >= 0.5, "fraud", "ok")
    unsure = int(np.flatnonzero(likelier != said)[0])
    explanation = run.explain(unsure)
    assert explanation.classes[explanation.target] == said[unsure]
    assert explanation.to_dict()["predicted"] == explanation.target
    assert run.explain(unsure, target=likelier[unsure]).predicted == explanation.target
    with (tmp_path / "run/predictions.csv").open() as file:
        assert [row["prediction"] for row in csv.DictReader(file)] == [said[node] for node in test]
    card = (tmp_path / "run/README.md").read_text()
    assert f"`fraud` is predicted from a probability of {threshold:.3g} on" in card


def test_an_estimator_uses_the_threshold() -> None:
    graph = _graph([16, 184])
    y = np.array(["fraud", "ok"])[graph.y]
    model = NodeClassifier(**SMALL, device="cpu").fit(replace(graph, y=None), y)
    threshold = model.run_.facts["threshold"]
    said = np.where(model.predict_proba()[:, 0] >= threshold, "fraud", "ok")
    assert (model.predict() == said).all()
    assert (model.predict(frame=True)["prediction"] == said).all()
    assert set(said) == {"fraud", "ok"}


def test_the_threshold_is_chosen_on_the_validation_split_only(tmp_path: Path) -> None:
    graph = _graph([184, 16])
    assert graph.y is not None
    y, other = graph.y.copy(), graph.y.copy()
    y[[150, 151]] = other[[152, 153]] = 1, 0  # both classes are everywhere
    other[154:] = 1 - other[154:]
    one, two = (
        _train(_Fixed(replace(graph, y=labels), "g"), tmp_path / name, metric="ap")
        for name, labels in (("one", y), ("two", other))
    )
    assert one.result["test"] != two.result["test"]
    for key in ("threshold", "parameters"):
        assert _model(one)[key] == _model(two)[key]
    assert (one.folder / "model.safetensors").read_bytes() == (two.folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("counts", "options"),
    [([100, 100], {}), ([100, 100], {"metric": "ap"}), ([184, 16], {"metric": "accuracy"}), ([120, 64, 16], {})],
)
def test_balanced_data_accuracy_and_more_classes_have_no_threshold(
    tmp_path: Path, counts: list[int], options: dict[str, Any]
) -> None:
    run = _train(_data(counts), tmp_path / "run", epochs=1, **options)
    assert "threshold" not in _model(run)
    found = run.predict()
    assert (found.labels == found.probability.argmax(1)).all()


def test_a_constant_model_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = _data([184, 16], class_names=("ok", "fraud"))
    blind = replace(data, graph=replace(data.graph, x=np.zeros((200, 2), dtype=np.float32)))
    run, said = _train(blind, tmp_path / "run", metric="accuracy"), "ok"
    sentence = f"The model predicts {said!r} for every test node; try --class_weight balanced."
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [sentence]
    caplog.clear()
    Run.open(run.folder, blind, device="cpu").evaluate("val")
    assert caplog.messages == [sentence.replace("test", "validation")]
    caplog.clear()
    weighed = run.with_config(run.config.with_(class_weight="balanced"))
    weighed.evaluate("test")
    assert caplog.messages == [f"The model predicts {said!r} for every test node."]
    caplog.clear()
    _train(data, tmp_path / "other")
    assert not [message for message in caplog.messages if "for every" in message]


def test_only_one_class_to_predict_is_no_reason_to_warn(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph = _graph([184, 16])
    assert graph.y is not None
    data = _Fixed(replace(graph, y=np.where(np.arange(200) < 100, graph.y, 0)), "g")
    _train(data, tmp_path / "run", epochs=1, lr=0.0, metric="accuracy")
    assert not [message for message in caplog.messages if "for every" in message]
