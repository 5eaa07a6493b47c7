"""Predictions: what a model says of some instances, in the user's names, as arrays and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from gpm.tables import write_table
from gpm.tasks import ClassTask, LinkTask, Task


class Predictions:
    """What was predicted of some instances.

    Args:
        keys: Columns that say which they are, in the user's names: node; source and target; or graph.
        logits: `[B, C]`.
        task: What the logits mean.
    """

    def __init__(self, keys: dict[str, list[Any]], logits: Tensor, task: Task) -> None:
        self.keys, self.logits, self.task = keys, logits, task

    @property
    def names(self) -> list[Any]:
        """The instances, in the user's names; a link is a pair of them."""
        columns = list(self.keys.values())
        return list(zip(*columns, strict=True)) if "target" in self.keys else columns[0]

    @property
    def probability(self) -> NDArray:
        """Of each class or label, or of the link `[B, C]`; for a regression, the numbers."""
        return self.task.answers(self.logits).numpy()

    @property
    def labels(self) -> NDArray:
        """The class of each `[B]`; for several labels or a link, yes or no; for a regression, the numbers."""
        if isinstance(self.task, ClassTask):
            return self.task.choose(self.probability)
        return self.probability[:, 0] >= 0.5 if isinstance(self.task, LinkTask) else self.probability

    def columns(self) -> dict[str, Any]:
        """The table by column: which instance, prediction, probabilities."""
        return self.keys | self.task.table(self.logits)

    def __len__(self) -> int:
        return len(self.logits)

    def save(self, path: str | Path) -> None:
        """Write a table: .csv, .tsv or .parquet."""
        write_table(Path(path), self.columns())
