"""Which task some data is, and that a run folder remembers it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gpm import Config, GpmError, Graph
from gpm.data.graph_data import GraphData
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData
from gpm.data.sources import TaskData
from gpm.data.splits import Split
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask, load_task, make_task

COUNT = 30
NAN = float("nan")


def _ring(labels: NDArray | None = None) -> Graph:
    nodes = np.arange(COUNT)
    return Graph.from_edges([nodes, np.roll(nodes, -1)], COUNT, undirected=True, y=labels)


def _make(labels: NDArray, metric: str, **options: Any) -> Task:
    """The task of nodes with some labels, of which the first 20 are trained on."""
    split = Split(np.arange(20), np.arange(20, 25), np.arange(25, 30), "by hand")
    return make_task(NodeData(_ring(labels), "ring"), split, Config(metric=metric, **options))


def _several() -> NDArray:
    labels = (np.arange(2 * COUNT).reshape(COUNT, 2) % 3 == 0).astype(np.float32)
    labels[4, 0] = NAN
    return labels


@pytest.mark.parametrize(
    ("labels", "metric", "kind", "outputs"),
    [
        (np.arange(COUNT) % 3, "accuracy", ClassTask, 3),
        (np.arange(COUNT) % 2, "roc_auc", ClassTask, 2),
        (_several(), "roc_auc", ClassTask, 2),
        (np.arange(COUNT) / 7, "mae", ValueTask, 1),
        (np.arange(COUNT), "rmse", ValueTask, 1),  # whole numbers are values if the metric says so
        (np.arange(2 * COUNT).reshape(COUNT, 2) / 7, "rmse", ValueTask, 2),
        (_several(), "mae", ValueTask, 2),
    ],
)
def test_labels_and_metric_say_what_the_task_is(labels: NDArray, metric: str, kind: type, outputs: int) -> None:
    task = _make(labels, metric, smoothing=0.1)
    assert type(task) is kind
    assert (task.metric, task.outputs) == (metric, outputs)
    assert len(task.targets) == COUNT
    facts = json.loads(json.dumps(task.facts()))
    again, bare = load_task(facts, labels), load_task(facts, None)
    logits = torch.randn(COUNT, outputs, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(again.targets, task.targets, equal_nan=True)
    assert again.score(logits, again.targets) == task.score(logits, task.targets)
    for other in (again, bare):
        assert type(other) is kind
        assert (other.metric, other.outputs, other.describe()) == (metric, outputs, task.describe())
        assert torch.equal(other.answers(logits), task.answers(logits))
        assert list(other.table(logits)) == list(task.table(logits))
        assert other.facts() | {"smoothing": 0} == facts | {"smoothing": 0}
    assert not len(bare.targets)


@pytest.mark.parametrize("protocol", ["strict", "paper"])
def test_links_are_wanted_as_the_split_says(protocol: str) -> None:
    data = LinkData(_ring(), "ring")
    config = Config(metric="mrr", protocol=protocol, smoothing=0.1)  # type: ignore[arg-type]
    split = data.make_split(0, "60/20/20", protocol=protocol)  # type: ignore[arg-type]
    task = make_task(data, split, config)
    assert isinstance(task, LinkTask)
    assert task.targets.tolist() == split.labels.tolist()
    again = load_task(json.loads(json.dumps(task.facts())), split.labels)
    logits = torch.randn(len(split.labels), 1, generator=torch.Generator().manual_seed(0))
    assert again.describe() == task.describe() == f"links, MRR, protocol {protocol}"
    assert torch.equal(again.targets, task.targets)
    assert again.score(logits, again.targets) == task.score(logits, task.targets)
    assert not len(load_task(task.facts(), None).targets)


def _named(labels: NDArray, metric: str, **names: Any) -> Task:
    split = Split(np.arange(20), np.arange(20, 25), np.arange(25, 30), "by hand")
    task = make_task(NodeData(_ring(labels), "ring", **names), split, Config(metric=metric))
    return load_task(json.loads(json.dumps(task.facts())), None)


def test_answers_are_in_the_users_names_and_a_run_folder_remembers_them() -> None:
    logits = torch.tensor([[0.0, 5.0, 1.0], [9.0, 0.0, 0.0]])
    classes = _named(2 * (np.arange(COUNT) % 3), "accuracy", class_names=("ill", "?", "so so"), targets=("health",))
    table = classes.table(logits)
    assert list(table) == ["prediction", "p_ill", "p_so so", "p_4"]  # a class beyond the names has its number
    assert table["prediction"] == ["so so", "ill"]
    assert classes.facts()["target_names"] == ["health"]
    labels = _named(_several(), "roc_auc", targets=("is red", "is round"))
    table = labels.table(torch.tensor([[1.0, 1.0], [-1.0, 2.0], [-1.0, -1.0]]))
    assert list(table) == ["prediction", "p_is red", "p_is round"]
    assert table["prediction"] == ["is red; is round", "is round", ""]
    several = np.arange(2 * COUNT).reshape(COUNT, 2) / 7
    assert list(_named(several, "mae", targets=("a", "b c")).table(logits[:, :2])) == ["prediction_a", "prediction_b c"]
    assert list(_named(several[:, 0], "mae", targets=("a",)).table(logits[:, :1])) == ["prediction"]


def test_names_that_collide_lose_no_column() -> None:
    logits = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    classes = _named(np.arange(COUNT) % 3, "accuracy", class_names=("node", "1", "1"))
    assert list(classes.table(logits)) == ["prediction", "p_node", "p_1", "p_1_2"]
    values = _named(np.arange(3 * COUNT).reshape(COUNT, 3) / 7, "mae", targets=("a", "a_2", "a"))
    table = values.table(logits)
    assert list(table) == ["prediction_a", "prediction_a_2", "prediction_a_3"]
    assert np.allclose(np.stack(list(table.values()), 1), values.answers(logits).numpy(), rtol=1e-5)


def test_as_many_names_as_outputs_or_none() -> None:
    """A run folder from elsewhere may say anything."""
    facts = {"metric": "accuracy", "multilabel": False, "classes": [3, 7], "class_names": ["a"], "target_names": None}
    assert list(load_task(facts, None).table(torch.zeros(1, 2))) == ["prediction", "p_3", "p_7"]
    values = {"kind": "values", "metric": "mae", "mean": [0, 0], "scale": [1, 1], "target_names": ["a", "b", "c"]}
    assert list(load_task(values, None).table(torch.zeros(1, 2))) == ["prediction_0", "prediction_1"]


@pytest.mark.parametrize("temperature", [0.05, 0.7, 3.0, 20.0])
def test_a_temperature_changes_no_prediction_and_no_order(temperature: float) -> None:
    logits = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    logits[:100, 1] = torch.nextafter(logits[:100, 0], torch.tensor(torch.inf))  # as close as can be
    for labels, metric in ((np.arange(COUNT) % 4, "accuracy"), (np.eye(COUNT, 4, dtype=np.float32), "roc_auc")):
        task = load_task(_make(labels, metric).facts(), None)
        before, after = task.answers(logits).double(), task.answers(logits, temperature)
        assert task.table(logits, temperature)["prediction"] == task.table(logits)["prediction"]
        if metric == "accuracy":
            assert torch.equal(after.argmax(1), logits.argmax(1))
        else:
            assert bool(((after - 0.5).abs() >= (before - 0.5).abs() - 1e-6).all()) == (temperature < 1)
    chances = LinkTask("ap").answers(logits[:, :1].sort(0).values, temperature)
    assert (chances.diff(dim=0) >= 0).all()


def test_values_of_graphs_are_standardised_by_the_training_graphs() -> None:
    values = np.array([1.0, 3.0, NAN, 100.0, 200.0])
    graph = Graph.from_edges([[], []], 5, y=values, graph_ptr=np.arange(6))
    data: TaskData = GraphData(graph, "dots", metric="mae")
    task = make_task(data, Split(np.array([0, 1, 2]), np.array([3]), np.array([4]), "by hand"), Config(metric="mae"))
    assert isinstance(task, ValueTask)
    assert (task.mean, task.scale) == ([2.0], [1.0])


@pytest.mark.parametrize(
    ("labels", "metric", "sentence"),
    [
        (np.arange(COUNT) % 3, "mrr", "mrr is not a metric of classes; choose --metric accuracy, roc_auc, f1 or ap"),
        (_several(), "hits@20", "hits@20 is not a metric of classes"),
        (np.arange(COUNT) / 7, "accuracy", "accuracy is for classes, but the targets are numbers; choose --metric mae"),
        (np.arange(COUNT) / 7, "ap", "ap is for classes, but the targets are numbers"),
    ],
)
def test_a_metric_of_another_task_gets_a_sentence(labels: NDArray, metric: str, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        _make(labels, metric)


def test_links_have_metrics_of_their_own() -> None:
    data = LinkData(_ring(), "ring")
    with pytest.raises(GpmError, match="mae is not a metric of links; choose hits@20"):
        make_task(data, data.make_split(0, "60/20/20"), Config(metric="mae"))


def test_a_run_folder_from_before_there_were_kinds_holds_classes() -> None:
    task = load_task({"metric": "accuracy", "multilabel": False, "classes": [3, 7]}, np.array([7, 3, -1]))
    assert isinstance(task, ClassTask)
    assert task.targets.tolist() == [1, 0, -1]
