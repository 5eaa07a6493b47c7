"""Predictions: what a model says of some instances, in the user's names, as arrays and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from torch import Tensor

from gpm.io.table_files import write_table
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask

if TYPE_CHECKING:
    import pandas as pd


class Predictions:
    """What was predicted of some instances.

    Args:
        keys: Columns that say which they are, in the user's names: node; source and target; or graph.
        logits: `[B, C]`.
        task: What the logits mean.
        temperature: By which logits are divided before they become probabilities, see `gpm.inference.calibration`.
        low, high: Of a regression, the ends of an interval for each number `[B, C]`; None if there are none.
    """

    def __init__(
        self,
        keys: dict[str, list[Any]],
        logits: Tensor,
        task: Task,
        *,
        temperature: float = 1.0,
        low: NDArray | None = None,
        high: NDArray | None = None,
    ) -> None:
        self.keys, self.logits, self.task, self.temperature = keys, logits, task, temperature
        self.low, self.high = low, high

    @property
    def names(self) -> list[Any]:
        """The instances, in the user's names; a link is a pair of them."""
        if "name" in self.keys:
            return self.keys["name"]
        columns = list(self.keys.values())
        return list(zip(*columns, strict=True)) if "target" in self.keys else columns[0]

    @property
    def probability(self) -> NDArray:
        """Of each class or label, or of the link `[B, C]`; for a regression, the numbers."""
        return self.task.answers(self.logits, self.temperature).numpy()

    @property
    def labels(self) -> NDArray:
        """The number of each class `[B]`; for several labels or a link, yes or no; for a regression, the numbers.

        A temperature does not change them.
        """
        answers = self.task.answers(self.logits).numpy()
        if isinstance(self.task, ClassTask):
            return self.task.choose(answers)
        return answers[:, 0] >= 0.5 if isinstance(self.task, LinkTask) else answers

    def columns(self) -> dict[str, Any]:
        """The table by column: which instance, prediction, probabilities or interval."""
        said = self.task.table(self.logits, self.temperature)
        if isinstance(self.task, ValueTask) and self.low is not None and self.high is not None:
            for what, ends in (("low", self.low), ("high", self.high)):
                said |= {name: ends[:, i].astype("float32") for i, name in enumerate(self.task.columns(what))}
        return self.keys | said

    def frame(self) -> pd.DataFrame:
        """The table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def __len__(self) -> int:
        return len(self.logits)

    def save(self, path: str | Path) -> None:
        """Write a table: .csv, .tsv, .parquet or .jsonl."""
        write_table(Path(path), self.columns())
