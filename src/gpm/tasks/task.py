"""The task protocol, and the one place that decides which task some data or a run folder has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.config import Config
from gpm.data.link_data import LinkSplit
from gpm.data.sources import TaskData
from gpm.data.splits import Split
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
    def facts(self) -> dict[str, Any]: ...
    def describe(self) -> str: ...


def make_task(data: TaskData, split: Split, config: Config) -> Task:
    """Make the task that the labels of some data call for."""
    if isinstance(split, LinkSplit):
        return LinkTask(config.metric, config.protocol, config.smoothing, torch.tensor(split.labels))
    if is_regression(data.labels, config.metric):
        return replace(ValueTask.of(data.labels, config.metric, split.train), target_names=data.targets)
    task = ClassTask.of(data.labels, config.metric, config.smoothing, data.learnable_classes())
    names = data.class_names  # of classes 0, 1, ...; a class beyond them is called by its number
    named = tuple(names[c] if 0 <= c < len(names) else str(c) for c in task.classes) if names else ()
    return replace(task, class_names=named, target_names=data.targets)


def load_task(facts: dict[str, Any], labels: NDArray | None) -> Task:
    """Make the task that a run folder describes, with labels or without."""
    kinds: dict[str, Any] = {"links": LinkTask, "values": ValueTask}
    task: Task = kinds.get(facts.get("kind", ""), ClassTask).from_facts(facts, labels)
    return task


def is_regression(labels: NDArray, metric: str) -> bool:
    """Return whether labels are numbers rather than classes."""
    return metric in ("mae", "rmse") or (labels.ndim == 1 and bool(np.issubdtype(labels.dtype, np.floating)))
