from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from gpm import Graph
from gpm.data.splits import Split, random_split
from gpm.tasks import ClassTask
from gpm.training.trivial_baselines import score_baselines, score_majority, score_mlp

NODES = 200


pytestmark = pytest.mark.usefixtures("one_thread")


def _graph(x: NDArray | None) -> Graph:
    ends = np.random.default_rng(0).integers(0, NODES, (2, 3 * NODES))
    return Graph.from_edges(ends, NODES, undirected=True, x=x)


def _labels(seed: int = 1) -> NDArray[np.int64]:
    return np.random.default_rng(seed).choice(3, NODES, p=[0.2, 0.5, 0.3]).astype(np.int64)


def _task(labels: NDArray, metric: str = "accuracy") -> tuple[ClassTask, Split]:
    return ClassTask.of(labels, metric), random_split(labels, "50/25/25", 0)


def test_majority_is_the_share_of_the_most_frequent_class() -> None:
    labels = _labels()
    task, split = _task(labels)
    assert np.bincount(labels[split.train]).argmax() == 1
    assert score_majority(task, split) == pytest.approx(np.mean(labels[split.test] == 1))


def test_majority_is_found_in_training_alone() -> None:
    labels = np.array([5, 5, 5, 7, 7, 7, 7, 7])
    task = ClassTask.of(labels, "accuracy")
    split = Split(np.arange(3), np.array([3, 4]), np.array([5, 6, 7]), "by hand")
    assert score_majority(task, split) == 0


def test_majority_ranks_nothing() -> None:
    task, split = _task((_labels() == 1).astype(np.int64), "roc_auc")
    assert score_majority(task, split) == pytest.approx(0.5)


def test_majority_of_several_labels_says_what_most_have() -> None:
    labels = np.stack([_labels() != 0, _labels() == 2], 1).astype(np.float32)
    labels[::7, 0] = np.nan
    task, split = _task(labels, "accuracy")
    known = ~np.isnan(labels[split.test])
    right = labels[split.test] == [1.0, 0.0]
    assert score_majority(task, split) == pytest.approx(right[known].mean())


@pytest.mark.parametrize("several", [False, True])
def test_features_that_tell_the_class_are_enough(several: bool) -> None:
    labels = _labels()
    x = np.eye(3)[labels] * 2 + np.random.default_rng(2).normal(0, 0.1, (NODES, 3))
    task, split = _task(np.eye(3, dtype=np.float32)[labels] if several else labels, "f1" if several else "accuracy")
    assert score_mlp(_graph(x), task, split) > 0.97


def test_noise_does_not_beat_the_majority_by_much() -> None:
    task, split = _task(_labels())
    x = np.random.default_rng(3).normal(size=(NODES, 4))
    assert score_mlp(_graph(x), task, split) < score_majority(task, split) + 0.1


@pytest.fixture
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpm.training.trivial_baselines.STEPS", 100)


@pytest.mark.usefixtures("_briefly")
def test_the_network_does_not_see_edges() -> None:
    labels = _labels()
    x = np.random.default_rng(3).normal(size=(NODES, 4)) + labels[:, None]
    task, split = _task(labels)
    ring = np.stack([np.arange(NODES), np.roll(np.arange(NODES), 1)])
    assert score_mlp(_graph(x), task, split) == score_mlp(Graph.from_edges(ring, NODES, x=x), task, split)


@pytest.mark.usefixtures("_briefly")
def test_it_is_a_function_of_the_seed_and_reads_no_test_label() -> None:
    labels = _labels()
    x = np.random.default_rng(3).normal(size=(NODES, 4)) + labels[:, None]
    task, split = _task(labels)
    found = score_baselines(_graph(x), task, split, seed=5)
    torch.manual_seed(99)
    assert score_baselines(_graph(x), task, split, seed=5) == found
    assert found == {"majority": score_majority(task, split), "mlp": score_mlp(_graph(x), task, split, 5)}
    turned = labels.copy()
    turned[split.test] = (labels[split.test] + 1) % 3
    # Whoever answers as before is right where the turned label is what was said.
    other = score_mlp(_graph(x), ClassTask.of(turned, "accuracy"), split, seed=5)
    assert other < found["mlp"] - 0.2


def test_a_graph_without_features_is_scored_by_degrees() -> None:
    graph = _graph(None)
    task, split = _task((graph.degree() > np.median(graph.degree())).astype(np.int64))
    assert score_mlp(graph, task, split) > 0.9 > score_majority(task, split) + 0.2
