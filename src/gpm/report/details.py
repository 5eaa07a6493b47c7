"""Details of the predictions of a run: those of its kind of task, and an interval of its metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from gpm.inference.opened import OpenedRun
from gpm.report.class_details import describe_classes, describe_labels, find_class_statistic
from gpm.report.content import Details
from gpm.report.diagnostics import Statistic
from gpm.report.link_details import describe_links, find_link_statistic
from gpm.report.value_details import describe_values, find_value_statistic
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask

MOST_RESAMPLED = 200_000  # instances of which an interval is computed


def describe_predictions(run: OpenedRun, logits: Mapping[str, Tensor]) -> Details:
    """Measure the predictions of the validation and test splits in detail."""
    task = run.task
    truth = {part: task.targets[torch.tensor(getattr(run.split, part))] for part in ("val", "test")}
    said, true = logits["test"], truth["test"]
    if isinstance(task, LinkTask):
        details = describe_links(run, task, said, true)
    elif isinstance(task, ValueTask):
        details = describe_values(run, task, logits, truth)
    else:
        assert isinstance(task, ClassTask)
        details = (describe_labels if task.multilabel else describe_classes)(run, task, said, true)
    statistic = find_statistic(task, said, true)
    if statistic is None:
        return details
    interval = statistic.interval()
    return replace(
        details, interval=interval, numbers=details.numbers | ({"test_interval": list(interval)} if interval else {})
    )


def find_statistic(task: Task, logits: Tensor, truth: Tensor) -> Statistic | None:
    """Return the metric as a function of how often each instance is drawn; None if it has no interval."""
    if isinstance(task, LinkTask):
        found = find_link_statistic(task, logits, truth)
    elif isinstance(task, ValueTask):
        found = find_value_statistic(task, logits, truth)
    else:
        assert isinstance(task, ClassTask)
        found = find_class_statistic(task, logits, truth)
    return None if found is None or found.count > MOST_RESAMPLED else found
