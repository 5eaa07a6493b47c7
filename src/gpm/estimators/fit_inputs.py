"""The input of `fit` and `predict` once it is read, and its labels in the form of a task."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.labels import as_columns, read_labels
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.estimators.classes import Classes, align, as_labels, as_objects, in_order, is_unknown


@dataclass(frozen=True, eq=False)
class FitInput:
    """A graph, or a collection of graphs, with its labels and its origin.

    Attributes:
        data: The graph, with masks and names if it came with them.
        labels: Labels in the user's own values, a row per node or graph; None for those of `data`, or for none.
        columns: Names of the labels; empty if they have none.
        metadata: How features were made from tables; empty if they were not.
        like: Folder that the tables were imported into.
        source: Name or path by which the data can be read again; empty for data in memory.
        ordered: The user knows the order of the nodes, so labels may be given in this order.
    """

    data: TaskData
    labels: Any = None
    columns: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    like: Path | None = None
    source: str = ""
    ordered: bool = True

    def with_labels(self, y: Any) -> FitInput:
        """Return the input with labels that are given separately, if any."""
        if y is None:
            return self
        if not self.ordered and in_order(y):
            raise GpmError(
                "The order of the nodes is not known from a table of edges; give y as a dict, or give nodes."
            )
        aligned = align(y, self.data.instance_names, self.data.level)
        columns = [aligned.name] if getattr(aligned, "name", None) is not None else getattr(aligned, "columns", ())
        return replace(self, labels=as_labels(aligned), columns=tuple(map(str, columns)), source="")

    def find_classes(self, fitted: Classes | None = None) -> tuple[NDArray, Classes]:
        """Return labels as class numbers `[N]`, -1 if unknown, or as yes-or-no labels `[N, C]`; and the classes.

        Labels that the graph itself holds are numbers, of which negative ones are unknown; others may be anything.

        Args:
            fitted: The classes of a model; by default those among the labels.
        """
        labels = self._find_labels()
        if labels.ndim == 2:
            return self._find_several(labels, fitted)
        if self.labels is not None or labels.dtype.kind not in "iuf":
            classes = fitted or Classes.find(labels)
            return classes.encode(labels), _check(classes)
        numbers = read_labels(labels, "accuracy", self.data.level, self.data.title)
        classes = self._name_classes(np.unique(numbers[numbers >= 0]))
        if fitted is None:
            return numbers, _check(classes)
        values = as_objects([None] * len(numbers))
        for value, number in zip(classes.values.tolist(), classes.numbers.tolist(), strict=True):
            values[numbers == number] = value
        return fitted.encode(values, self.data.title), fitted

    def find_values(self) -> NDArray:
        """Return labels as numbers `[N]` or `[N, C]`, NaN if unknown."""
        return self._as_floats(self._find_labels())

    def _find_labels(self) -> NDArray:
        labels, level = self.labels if self.labels is not None else self.data.graph.y, self.data.level
        if labels is None or len(labels) != self.data.num_instances or labels.ndim > 2:
            raise GpmError(
                f"There are no labels of {level}s; give y with one per {level}, or name a column with target."
            )
        return as_columns(labels)

    def _name_classes(self, numbers: NDArray) -> Classes:
        """Return the classes with these numbers, by the names that the dataset gives them."""
        names = self.data.class_names
        if not names:
            return Classes(numbers, numbers)
        return Classes(np.array([names[c] if c < len(names) else str(c) for c in numbers.tolist()]), numbers)

    def _find_several(self, labels: NDArray, fitted: Classes | None) -> tuple[NDArray, Classes]:
        several = read_labels(self._as_floats(labels), "roc_auc", self.data.level, self.data.title)
        count = several.shape[1]
        if fitted is not None and len(fitted.values) != count:
            raise GpmError(f"There are {count} labels each, but the model has {len(fitted.values)}.")
        names = self.columns or self.data.targets
        values = np.array(names) if len(names) == count else np.arange(count)
        return several, fitted or Classes(values, np.arange(count))

    def _as_floats(self, labels: NDArray) -> NDArray:
        if labels.dtype == object:
            labels = np.where(is_unknown(labels), np.nan, labels)
        try:
            return labels.astype(np.float32 if labels.dtype == np.float32 else np.float64)
        except (TypeError, ValueError):
            what = self.columns[0] if len(self.columns) == 1 else "y"
            raise GpmError(f"{what} holds a value that is no number; give numbers, and None if unknown.") from None


def _check(classes: Classes) -> Classes:
    if len(classes.values) < 2:
        shown = f"is {classes.values.tolist()[0]!r}" if len(classes.values) else "is unknown"
        raise GpmError(f"Every label {shown}; at least two classes are needed.")
    return classes
