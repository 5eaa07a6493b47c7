"""What a training does where a class is rare: it chooses the metric and the threshold of the decision."""

from __future__ import annotations

import logging

import numpy as np
import torch
from torch import Tensor

from gpm.config import Config
from gpm.data.labels import are_classes
from gpm.data.splits import Split
from gpm.data.task_data import TaskData
from gpm.tasks import ClassTask, Task
from gpm.tasks.class_balance import find_rarest
from gpm.tasks.metrics import METRICS
from gpm.training.distributed.ranks import silenced

_log = logging.getLogger("gpm")


def choose_metric(config: Config, data: TaskData) -> str:
    """Return the metric that the user chose, or that of the data.

    Accuracy says little where a class is rare in the training split. Unless the user or the catalog names a metric, it
    is then average precision for two classes and F1, the mean over classes, for several.
    """
    if config.metric != "auto":
        return config.metric
    if data.named or data.metric != "accuracy" or not are_classes(data.labels):
        return data.metric
    with silenced(("gpm",), logging.ERROR):  # the training draws the same split again
        split = data.make_split(config.seed, config.split, protocol=config.protocol, validate=config.validate)
    label, share, rare = find_rarest(data.labels[split.train])
    present = [len(np.unique(data.labels[part])) for part in (split.train, split.val, split.test)]
    metric = "f1" if present[0] > 2 else "ap"
    if not rare or (metric == "ap" and present != [2, 2, 2]):  # average precision needs both classes
        return data.metric
    name = data.class_names[label] if label < len(data.class_names) else label
    _log.info(
        "class %s has %.1f%% of the training %ss: epochs are selected by %s; choose another with --metric",
        name, 100 * share, data.level, "macro-F1" if metric == "f1" else METRICS[metric].title,
    )  # fmt: skip
    return metric


def choose_threshold(task: Task, split: Split, logits: Tensor) -> Task:
    """Return the task with the threshold of a rare class that is best for the validation split, see `find_cut`.

    It belongs to two classes of which one is rare in the training split. Accuracy needs none: where the user chose it,
    the likelier class is predicted, as for all other data.
    """
    if not isinstance(task, ClassTask) or task.multilabel or task.outputs != 2 or task.metric == "accuracy":
        return task
    if not find_rarest(task.targets[torch.tensor(split.train)].numpy()).rare:
        return task
    task = task.with_threshold(logits, task.targets[torch.tensor(split.val)])
    if task.threshold is not None:
        goal = "balanced accuracy" if task.metric == "roc_auc" else "F1"
        _log.info(
            "class %s is predicted from a probability of %.3g on, where its %s in the validation split is highest",
            task.names[task.positive], task.threshold, goal,
        )  # fmt: skip
    return task
