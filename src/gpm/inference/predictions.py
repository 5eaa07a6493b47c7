"""Predictions of a model with the names of their instances, as arrays and as a table."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from torch import Tensor

from gpm.io.table_files import write_table
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask

if TYPE_CHECKING:
    import pandas as pd


@dataclass(eq=False, repr=False)
class Predictions:
    """Predictions of some instances.

    Args:
        keys: Columns that name the instances: node; source and target; or graph.
        logits: `[B, C]`.
        task: The meaning of the logits.
        temperature: Divides the logits before they become probabilities, see `gpm.inference.calibration`.
        low, high: The ends of an interval for each number of a regression `[B, C]`; None without intervals.
    """

    keys: dict[str, list[Any]]
    logits: Tensor
    task: Task
    _: KW_ONLY
    temperature: float = 1.0
    low: NDArray | None = None
    high: NDArray | None = None

    @property
    def names(self) -> list[Any]:
        """The names of the instances; a link is a pair of names."""
        if "name" in self.keys:
            return self.keys["name"]
        columns = list(self.keys.values())
        return list(zip(*columns, strict=True)) if "target" in self.keys else columns[0]

    @property
    def probability(self) -> NDArray:
        """The probability of each class or label, or of the link `[B, C]`; for a regression, the numbers."""
        return self.task.answers(self.logits, self.temperature).numpy()

    @property
    def labels(self) -> NDArray:
        """The predicted class `[B]`; for several labels or a link, yes or no; for a regression, the numbers."""
        answers = self.task.answers(self.logits).numpy()
        if isinstance(self.task, ClassTask):
            return self.task.choose(answers)
        return answers[:, 0] >= 0.5 if isinstance(self.task, LinkTask) else answers

    def columns(self) -> dict[str, Any]:
        """Return the table by column: names of the instance, prediction, probabilities or interval."""
        table = self.task.table(self.logits, self.temperature)
        if isinstance(self.task, ValueTask) and self.low is not None and self.high is not None:
            for end, values in (("low", self.low), ("high", self.high)):
                table |= {name: values[:, i].astype("float32") for i, name in enumerate(self.task.columns(end))}
        return self.keys | table

    def frame(self) -> pd.DataFrame:
        """Return the table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def __len__(self) -> int:
        return len(self.logits)

    def save(self, path: str | Path) -> None:
        """Write a table: .csv, .tsv, .parquet or .jsonl."""
        write_table(Path(path), self.columns())
