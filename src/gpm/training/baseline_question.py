"""The question put to a simple baseline: predict held-out instances by the graph and the training split alone."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.data.splits import Split
from gpm.graph.graph import Graph
from gpm.tasks import ClassTask, Task, ValueTask

Logits = NDArray[np.floating]
Scores = dict[str, dict[str, float]]  # of each baseline: val, test, seconds
_log = logging.getLogger("gpm")


@dataclass(frozen=True, eq=False)
class Question:
    """Everything that a baseline may read: the walked graph, and targets of the training split."""

    graph: Graph
    level: str  # node or graph
    kind: Literal["classes", "labels", "values"]
    metric: str
    train: NDArray[np.int64]  # ids of the training split [n]
    held: NDArray[np.int64]  # ids to predict
    targets: NDArray[np.floating]  # [n, C]: one-hot classes, yes-or-no labels or standardised numbers; NaN if unknown

    @classmethod
    def of(cls, graph: Graph, level: str, task: Task, split: Split) -> Question:
        """Take the targets of the training split from a task."""
        known, held = task.targets[torch.tensor(split.train)], np.concatenate([split.val, split.test])
        if isinstance(task, ValueTask):
            mean, scale = (torch.tensor(each, dtype=torch.float64) for each in (task.mean, task.scale))
            wanted = (known.double() - mean) / scale
            return cls(graph, level, "values", task.metric, split.train, held, wanted.numpy())
        assert isinstance(task, ClassTask)
        if task.multilabel:
            return cls(graph, level, "labels", task.metric, split.train, held, known.double().numpy())
        wanted = torch.nn.functional.one_hot(known, task.outputs).float()
        return cls(graph, level, "classes", task.metric, split.train, held, wanted.numpy())

    def to_logits(self, expected: NDArray) -> Logits:
        """Turn probabilities, or standardised numbers, into logits."""
        if self.kind == "values":
            return expected
        certain = np.clip(expected, 1e-12, 1 - 1e-12)
        return np.asarray(np.log(certain) - (0 if self.kind == "classes" else np.log1p(-certain)))

    @property
    def prior(self) -> NDArray[np.float64]:
        """Mean of each target in the training split `[C]`."""
        return np.asarray(np.nanmean(self.targets, axis=0, dtype=np.float64))


def log_left_out(name: str, error: Exception) -> None:
    """Say in one line why a baseline is not among the scores."""
    reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
    _log.info("%s is left out of the comparison: %s.", name, reason)
