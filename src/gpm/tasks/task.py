"""The task protocol, and the one place that decides which task some data or a run folder has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.config import Config
from gpm.data.link_data import LinkSplit
from gpm.data.sources import TaskData
from gpm.data.splits import Split
from gpm.errors import GpmError
from gpm.nn.expected_table import Answers
from gpm.tasks.class_balance import FOCAL, balance
from gpm.tasks.classification import ClassTask
from gpm.tasks.link_prediction import LinkTask
from gpm.tasks.regression import ValueTask


class Task(Protocol):
    """What training and inference ask of a task: B instances have logits `[B, C]`, C is `outputs`."""

    @property
    def metric(self) -> str: ...
    @property
    def outputs(self) -> int: ...
    @property
    def targets(self) -> Tensor: ...
    def loss(self, logits: Tensor, targets: Tensor) -> Tensor: ...
    def count(self, targets: Tensor) -> int: ...
    def score(self, logits: Tensor, targets: Tensor) -> dict[str, float]: ...
    def answers(self, logits: Tensor, temperature: float = 1.0) -> Tensor: ...
    def table(self, logits: Tensor, temperature: float = 1.0) -> dict[str, Any]: ...
    def truth(self, targets: Tensor) -> dict[str, Any]: ...
    def facts(self) -> dict[str, Any]: ...
    def describe(self) -> str: ...


def make_task(data: TaskData, split: Split, config: Config) -> Task:
    """Make the task that the labels of some data call for."""
    if isinstance(split, LinkSplit) or is_regression(data.labels, config.metric):
        for name, usual in (("class_weight", "none"), ("loss", "cross_entropy")):
            if (value := getattr(config, name)) != usual:
                raise GpmError(f"--{name} {value} is for classes and yes-or-no labels; leave it out.")
    if isinstance(split, LinkSplit):
        return LinkTask(config.metric, config.protocol, config.smoothing, torch.tensor(split.labels))
    if is_regression(data.labels, config.metric):
        return replace(ValueTask.of(data.labels, config.metric, split.train), target_names=data.targets)
    task = ClassTask.of(data.labels, config.metric, config.smoothing, data.learnable_classes())
    learned = task.targets[torch.tensor(split.train)]
    weights = balance(learned, task.outputs) if config.class_weight != "none" else []
    task = replace(task, weights=weights, focal=FOCAL if config.loss == "focal" else 0.0)
    if task.outputs == 2 and not task.multilabel:
        task = replace(task, positive=int((learned == 1).sum() <= (learned == 0).sum()))
    names = data.class_names  # of classes 0, 1, ...; a class beyond them is called by its number
    named = tuple(names[c] if 0 <= c < len(names) else str(c) for c in task.classes) if names else ()
    return replace(task, class_names=named, target_names=data.targets)


def known_answers(task: Task, split: Split | None) -> Answers | None:
    """Return the answers of the training and validation splits as numbers; None for links.

    Without a split nothing is known.
    """
    if isinstance(task, LinkTask):
        return None
    none = np.zeros(0, dtype=np.int64)
    train, val = (none, none) if split is None else (split.train, split.val)
    kind: Literal["classes", "labels", "values"]
    if isinstance(task, ValueTask):
        kind, columns = "values", (task.targets.double().numpy() - np.array(task.mean)) / np.array(task.scale)
    else:
        assert isinstance(task, ClassTask)
        kind = "labels" if task.multilabel else "classes"
        columns = task.targets.double().numpy() if task.multilabel else task.targets.numpy()
    targets, held = (columns[ids] if len(ids) else np.zeros((0, task.outputs)) for ids in (train, val))
    if kind == "classes":
        targets, held = (each if each.ndim > 1 else np.eye(task.outputs)[each] for each in (targets, held))
    return Answers(kind, np.asarray(train), targets, np.asarray(val), held)


def load_task(facts: dict[str, Any], labels: NDArray | None) -> Task:
    """Make the task that a run folder describes, with labels or without."""
    kinds: dict[str, Any] = {"links": LinkTask, "values": ValueTask}
    task: Task = kinds.get(facts.get("kind", ""), ClassTask).from_facts(facts, labels)
    return task


def is_regression(labels: NDArray, metric: str) -> bool:
    """Return whether labels are numbers rather than classes."""
    return metric in ("mae", "rmse") or (labels.ndim == 1 and bool(np.issubdtype(labels.dtype, np.floating)))
