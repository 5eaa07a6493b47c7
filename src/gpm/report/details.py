"""Details of the predictions of a run: those of its kind of task, and an interval of its metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from gpm.inference.opened import OpenedRun
from gpm.report.class_details import describe_classes, describe_labels, find_class_statistic
from gpm.report.content import Details
from gpm.report.link_details import describe_links, find_link_statistic
from gpm.report.measures import resample
from gpm.report.value_details import describe_values, find_value_statistic
from gpm.tasks import ClassTask, LinkTask, ValueTask

MOST_RESAMPLED = 200_000  # instances of which an interval is computed


def describe_predictions(run: OpenedRun, logits: Mapping[str, Tensor]) -> Details:
    """Measure the predictions of the validation and test splits in detail."""
    task = run.task
    truth = {part: task.targets[torch.tensor(getattr(run.split, part))] for part in ("val", "test")}
    said, true = logits["test"], truth["test"]
    if isinstance(task, LinkTask):
        details, statistic = describe_links(run, task, said, true), find_link_statistic(task, said, true)
    elif isinstance(task, ValueTask):
        details, statistic = describe_values(run, task, logits, truth), find_value_statistic(task, said, true)
    else:
        assert isinstance(task, ClassTask)
        describe = describe_labels if task.multilabel else describe_classes
        details, statistic = describe(run, task, said, true), find_class_statistic(task, said, true)
    if statistic is None or statistic[1] > MOST_RESAMPLED:
        return details
    interval = resample(*statistic)
    return replace(
        details, interval=interval, numbers=details.numbers | ({"test_interval": list(interval)} if interval else {})
    )
