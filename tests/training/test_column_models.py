"""The linear model and boosted trees: they find what is planted, in every form of features and targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm import Graph
from gpm.data.splits import Split, random_split
from gpm.tasks import ClassTask, Task, ValueTask
from gpm.training.baseline_question import Question
from gpm.training.column_models import STRENGTHS, fit_linear, fit_trees

NODES = 400

pytestmark = pytest.mark.usefixtures("one_thread")


def _ends() -> NDArray:
    return np.random.default_rng(0).integers(0, NODES, (2, 4 * NODES))


def _graph(x: Any) -> Graph:
    return Graph.from_edges(_ends(), NODES, undirected=True, x=x)


def _neighbour_mean(x: NDArray) -> NDArray:
    graph = _graph(None)
    return np.stack([x[graph.neighbors(node)].mean(0) if graph.degree()[node] else x[node] for node in range(NODES)])


def _best(baseline: Any, graph: Graph, task: Task, level: str = "node", split: Split | None = None) -> float:
    """The test score of the candidate that validates best."""
    import torch

    split = random_split(task.targets.numpy(), "60/20/20", 0) if split is None else split
    sign = -1 if isinstance(task, ValueTask) else 1
    rows = []
    for logits in baseline(Question.of(graph, level, task, split)):
        parts = torch.from_numpy(np.asarray(logits)).split([len(split.val), len(split.test)])
        val, test = (
            task.score(part, task.targets[torch.tensor(ids)])[task.metric]
            for part, ids in zip(parts, (split.val, split.test), strict=True)
        )
        rows.append((sign * val, test))
    return max(rows, key=lambda row: row[0])[1]


@pytest.mark.parametrize("form", ["dense", "sparse", "categories"])
@pytest.mark.parametrize("baseline", [fit_linear, fit_trees])
def test_a_planted_mean_of_the_neighbours_is_found(form: str, baseline: Any) -> None:
    random = np.random.default_rng(1)
    x: Any = random.normal(size=(NODES, 3)) if form == "dense" else random.integers(0, 2, (NODES, 3))
    signal = _neighbour_mean(x.astype(float))[:, 1]
    labels = (signal > np.median(signal)).astype(np.int64)
    if form == "sparse":
        noise = sp.random_array((NODES, 400), density=0.01, rng=random)
        x = sp.csr_array(sp.hstack([sp.csr_array(x.astype(float)), noise]))
    assert _best(baseline, _graph(x), ClassTask.of(labels, "accuracy")) > 0.8


@pytest.mark.parametrize("baseline", [fit_linear, fit_trees])
def test_numbers_and_labels_are_learned_where_they_are_known(baseline: Any) -> None:
    x = np.random.default_rng(1).normal(size=(NODES, 3))
    values = np.stack([50 + 10 * _neighbour_mean(x)[:, 0], x[:, 1]], 1).astype(np.float32)
    values[::5, 0] = np.nan
    train = random_split(values, "60/20/20", 0).train
    assert _best(baseline, _graph(x), ValueTask.of(values, "mae", train)) < 0.35 * np.nanstd(values, 0).mean()
    labels = (values > np.nanmean(values, 0)).astype(np.float32)
    labels[np.isnan(values)] = np.nan
    assert _best(baseline, _graph(x), ClassTask.of(labels, "roc_auc")) > 0.9
    always = np.concatenate([labels, np.ones((NODES, 1), dtype=np.float32)], 1)
    assert _best(baseline, _graph(x), ClassTask.of(always, "accuracy")) > 0.85


@pytest.mark.parametrize("baseline", [fit_linear, fit_trees])
def test_graphs_are_read_by_the_means_of_their_nodes(baseline: Any) -> None:
    random, sizes = np.random.default_rng(2), np.random.default_rng(2).integers(3, 9, 200)
    pointer = np.concatenate([[0], np.cumsum(sizes)])
    edges = [[a + i, a + (i + 1) % n] for a, n in zip(pointer, sizes, strict=False) for i in range(n)]
    x = random.normal(size=(pointer[-1], 2)) + np.repeat(np.arange(200) % 3, sizes)[:, None]
    graph = Graph.from_edges(np.array(edges).T, int(pointer[-1]), undirected=True, graph_ptr=pointer, x=x)
    assert _best(baseline, graph, ClassTask.of(np.arange(200) % 3, "accuracy"), "graph") > 0.7
    bare = Graph.from_edges(np.array(edges).T, int(pointer[-1]), undirected=True, graph_ptr=pointer)
    split = random_split(sizes.astype(np.float32), "60/20/20", 0)
    assert _best(baseline, bare, ValueTask.of(sizes.astype(np.float32), "mae", split.train), "graph", split) < 0.6


def test_a_graph_without_features_is_read_by_its_degrees() -> None:
    graph = _graph(None)
    labels = (graph.degree() > np.median(graph.degree())).astype(np.int64)
    assert _best(fit_linear, graph, ClassTask.of(labels, "accuracy")) > 0.9


def test_a_class_that_training_lacks_is_never_predicted() -> None:
    labels = np.arange(NODES) % 2
    labels[-40:] = 2
    split = Split(np.arange(300), np.arange(300, 340), np.arange(340, NODES), "by hand")
    question = Question.of(_graph(np.eye(2)[labels % 2]), "node", ClassTask.of(labels, "accuracy"), split)
    found = list(fit_linear(question))
    assert len(found) == len(STRENGTHS)
    assert all(set(logits.argmax(1)) <= {0, 1} for logits in found)


def test_fits_are_of_a_sample_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.linear_model import LogisticRegression

    sizes: list[int] = []
    fit = LogisticRegression.fit
    monkeypatch.setattr(LogisticRegression, "fit", lambda self, x, y: sizes.append(len(y)) or fit(self, x, y))
    monkeypatch.setattr("gpm.training.column_models.MOST_FIT", 1000)
    x = np.random.default_rng(1).normal(size=(NODES, 3))
    _best(fit_linear, _graph(x), ClassTask.of((x[:, 0] > 0).astype(np.int64), "accuracy"))
    assert set(sizes) == {100 + 1000 // 19}
