"""Labels as a task has them: numbers of classes, several yes-or-no labels, or values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpm.data.graph_data import GraphData
from gpm.data.labels import as_columns, read_labels
from gpm.errors import GpmError
from gpm.estimators.classes import Classes, as_objects, is_unknown
from gpm.estimators.fit_source import Given


def find_classes(found: Given, known: Classes | None = None) -> tuple[NDArray, Classes]:
    """Labels as numbers of classes `[N]`, -1 where unknown, or as several yes-or-no labels `[N, C]`; and the classes.

    Args:
        found: What was given. Labels that the graph itself holds are numbers, of which negative ones are unknown; all
            others may be anything.
        known: The classes of a model; by default those that are found.
    """
    labels = _find_labels(found)
    if labels.ndim == 2:
        return _find_several(found, labels, known)
    if found.labels is not None or labels.dtype.kind not in "iuf":
        classes = known or Classes.find(labels)
        return classes.encode(labels), _check(classes)
    numbers = read_labels(labels, "accuracy", found.data.level, found.data.title)
    classes = _name(found, np.unique(numbers[numbers >= 0]))
    if known is None:
        return numbers, _check(classes)
    values = as_objects([None] * len(numbers))
    for value, number in zip(classes.values.tolist(), classes.numbers.tolist(), strict=True):
        values[numbers == number] = value
    return known.encode(values, found.data.title), known


def find_values(found: Given) -> NDArray:
    """Labels as numbers `[N]` or `[N, C]`, NaN where unknown."""
    return _as_floats(_find_labels(found), found)


def _find_labels(found: Given) -> NDArray:
    data = found.data
    collection = isinstance(data, GraphData)
    rows = data.graph.num_graphs if collection else data.graph.num_nodes
    labels = found.labels if found.labels is not None else data.graph.y
    if labels is None or len(labels) != rows or labels.ndim > 2:
        what = "graph" if collection else "node"
        raise GpmError(f"there are no labels of {what}s; give y with one per {what}, or name a column with target.")
    return as_columns(labels)


def _name(found: Given, numbers: NDArray) -> Classes:
    """Classes that a dataset numbers, by their names if it has some."""
    names = getattr(found.data, "class_names", ())
    if not names:
        return Classes(numbers, numbers)
    return Classes(np.array([names[c] if c < len(names) else str(c) for c in numbers.tolist()]), numbers)


def _find_several(found: Given, labels: NDArray, known: Classes | None) -> tuple[NDArray, Classes]:
    several = read_labels(_as_floats(labels, found), "roc_auc", found.data.level, found.data.title)
    count = several.shape[1]
    if known is not None and len(known.values) != count:
        raise GpmError(f"there are {count} labels each, but the model knows {len(known.values)}.")
    names = found.columns or getattr(found.data, "targets", ())
    values = np.array(names) if len(names) == count else np.arange(count)
    return several, known or Classes(values, np.arange(count))


def _as_floats(labels: NDArray, found: Given) -> NDArray:
    if labels.dtype == object:
        labels = np.where(is_unknown(labels), np.nan, labels)
    try:
        return labels.astype(np.float32 if labels.dtype == np.float32 else np.float64)
    except (TypeError, ValueError):
        what = found.columns[0] if len(found.columns) == 1 else "y"
        raise GpmError(f"{what} holds what is no number; numbers, and None where unknown, are needed here.") from None


def _check(classes: Classes) -> Classes:
    if len(classes.values) < 2:
        shown = f"is {classes.values.tolist()[0]!r}" if len(classes.values) else "is unknown"
        raise GpmError(f"every label {shown}; at least two classes are needed to tell apart.")
    return classes
