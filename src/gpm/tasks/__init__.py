"""Tasks: what is predicted, how it is learned and how it is scored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.config import Config
from gpm.data.domain_data import DomainData
from gpm.data.link_data import LinkData, LinkSplit
from gpm.data.sources import TaskData
from gpm.data.splits import Split
from gpm.tasks.classification import ClassTask
from gpm.tasks.link_prediction import LinkTask
from gpm.tasks.regression import ValueTask

__all__ = ["ClassTask", "LinkTask", "Task", "ValueTask", "load_task", "make_task"]


class Task(Protocol):
    """What a learner and a run need to know of a task."""

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
    """The task of some data, read off its labels."""
    if isinstance(data, LinkData):
        assert isinstance(split, LinkSplit)
        return LinkTask(config.metric, config.protocol, config.smoothing, torch.tensor(split.labels))
    if is_regression(data.labels, config.metric):
        return replace(ValueTask.of(data.labels, config.metric, split.train), target_names=data.targets)
    known = None
    if isinstance(data, DomainData) and data.labels.ndim == 1:  # the target's labels must not decide what there is
        known = np.unique(data.labels[~data.away & (data.labels >= 0)]).tolist()
    task = ClassTask.of(data.labels, config.metric, config.smoothing, known)
    return replace(task, class_names=_name_classes(task, data.class_names), target_names=data.targets)


def load_task(facts: dict[str, Any], labels: NDArray | None) -> Task:
    """The task that a run folder remembers, on some labels or on none."""
    kinds: dict[str, Any] = {"links": LinkTask, "values": ValueTask}
    task: Task = kinds.get(facts.get("kind", ""), ClassTask).from_facts(facts, labels)
    return task


def _name_classes(task: ClassTask, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names of a task's classes, out of those of 0, 1, ...; a class beyond them is called by its number."""
    return tuple(known[c] if 0 <= c < len(known) else str(c) for c in task.classes) if known else ()


def is_regression(labels: NDArray, metric: str) -> bool:
    """Whether labels are numbers rather than classes."""
    return metric in ("mae", "rmse") or (labels.ndim == 1 and bool(np.issubdtype(labels.dtype, np.floating)))
