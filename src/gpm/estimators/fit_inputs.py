"""The input of `fit` and `predict` once it is read, and its labels: the user's own values as classes or numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.labels import as_columns, read_labels
from gpm.data.task_data import TaskData
from gpm.errors import GpmError, nearest
from gpm.graph.coerce import as_array

_NUMBERS = {bool, int, float, np.bool_, np.int64, np.int32, np.float64, np.float32}
_MOST = 2**31  # whole numbers from here on are not the numbers of classes


@dataclass(frozen=True, eq=False)
class Classes:
    """The classes of a model, and the class numbers that it learns instead of the user's own values."""

    values: NDArray  # [C], the user's, in the order of the probabilities
    numbers: NDArray[np.int64]  # [C], those in the graph's labels, ascending

    @classmethod
    def find(cls, labels: NDArray) -> Classes:
        """Find the classes among labels `[N]`, sorted if possible; whole numbers from 0 on keep their numbers."""
        known = labels[~is_unknown(labels)]
        try:
            values = np.unique(known)
        except TypeError:  # of several kinds, which have no order
            values = as_objects(sorted(_distinct(known), key=lambda value: (type(value).__name__, str(value))))
        values = _plain(values)
        whole = values.dtype.kind in "iu" and (not len(values) or 0 <= values.min() <= values.max() < _MOST)
        return cls(values, values.astype(np.int64) if whole else np.arange(len(values)))

    def check(self) -> Classes:
        """Refuse fewer than two classes."""
        if len(self.values) < 2:
            shown = f"is {self.values.tolist()[0]!r}" if len(self.values) else "is unknown"
            raise GpmError(f"Every label {shown}; at least two classes are needed.")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the numbers 0, 1, ...; empty if the classes are whole numbers themselves."""
        own = self.values.dtype.kind in "iu" and np.array_equal(self.values, self.numbers)
        return () if own else tuple(str(value) for value in self.values.tolist())

    def encode(self, labels: NDArray, title: str = "y") -> NDArray[np.int64]:
        """Return the numbers of labels `[N]`, -1 if unknown; a label that is no class is an error."""
        number = dict(zip(self.values.tolist(), self.numbers.tolist(), strict=True))
        unknown = is_unknown(labels)
        coded = np.full(len(labels), -1, dtype=np.int64)
        for i in np.flatnonzero(~unknown).tolist():
            value = labels[i] if labels.dtype == object else labels[i].item()
            if value not in number:
                shown = ", ".join(map(repr, self.values.tolist()[:8]))
                raise GpmError(f"{title}: entry {i} is {value!r}, a class that the model does not know ({shown}).")
            coded[i] = number[value]
        return coded

    def number(self, value: Any) -> int:
        """Return the number of one class, given as itself or as its text."""
        listed = self.values.tolist()
        texts = [str(known) for known in listed]
        for wanted, known in ((value, listed), (str(value), texts)):
            if wanted in known:
                return int(self.numbers[known.index(wanted)])
        raise GpmError(f"There is no class {value!r}.{nearest(str(value), texts)} Classes: {', '.join(texts)}.")


@dataclass(frozen=True, eq=False)
class FitInput:
    """A graph, or a collection of graphs, with its labels and its origin."""

    data: TaskData  # with masks and names if it came with them
    labels: Any = None  # in the user's own values, a row per node or graph; None for those of `data`, or for none
    columns: tuple[str, ...] = ()  # names of the labels
    metadata: dict[str, Any] = field(default_factory=dict)  # how features were made from tables, if they were
    like: Path | None = None  # folder that the tables were imported into
    source: str = ""  # name or path by which the data can be read again; empty for data in memory
    ordered: bool = True  # the user knows the order of the nodes, so labels may be given in this order

    def with_labels(self, y: Any) -> FitInput:
        """Return the input with labels that are given separately, if any."""
        if y is None:
            return self
        if not self.ordered and in_order(y):
            raise GpmError("A table of edges does not define the order of the nodes; give y as a dict, or give nodes.")
        aligned = align(y, self.data.instance_names, self.data.level)
        columns = [aligned.name] if getattr(aligned, "name", None) is not None else getattr(aligned, "columns", ())
        return replace(self, labels=as_labels(aligned), columns=tuple(map(str, columns)), source="")

    def find_classes(self, fitted: Classes | None = None) -> tuple[NDArray, Classes]:
        """Return labels as class numbers `[N]`, -1 if unknown, or as yes-or-no labels `[N, C]`; and the classes.

        Labels that the graph itself holds are numbers, of which negative ones are unknown; others may be anything. The
        classes are those of a fitted model, by default those among the labels.
        """
        labels = self._find_labels()
        if labels.ndim == 2:
            return self._find_several(labels, fitted)
        if self.labels is not None or labels.dtype.kind not in "iuf":
            classes = fitted or Classes.find(labels)
            return classes.encode(labels), classes.check()
        numbers = read_labels(labels, "accuracy", self.data.level, self.data.title)
        distinct, names = np.unique(numbers[numbers >= 0]), self.data.class_names
        named = np.array([names[c] if c < len(names) else str(c) for c in distinct.tolist()]) if names else distinct
        classes = Classes(named, distinct)
        if fitted is None:
            return numbers, classes.check()
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
            raise GpmError(f"{what} holds a value that is not a number; give numbers, and None if unknown.") from None


def as_labels(values: Any) -> NDArray:
    """Return labels `[N]` or `[N, C]`, such as a list, a Series or a tensor, as an array of the user's own values."""
    if hasattr(values, "detach"):
        return as_array(values)
    if hasattr(values, "to_numpy"):  # a Series or a DataFrame
        own = [values.dtype] if hasattr(values, "dtype") else list(values.dtypes)
        plain = all(isinstance(dtype, np.dtype) for dtype in own)  # pandas' own, with gaps, would become floats
        return np.asarray(values if plain else values.astype(object))
    if isinstance(values, np.ndarray):
        return values
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise GpmError(f"y must hold a label for each of what is predicted, not be {values!r:.60}.")
    listed = list(values)
    if listed and isinstance(listed[0], (list, np.ndarray)):
        try:
            return np.array(listed, dtype=np.float64)
        except (ValueError, TypeError):
            raise GpmError("y has rows that are not equally many numbers; give a number per label in each.") from None
    if {type(value) for value in listed} == {str} and not any(value.endswith("\0") for value in listed):
        return np.array(listed)  # which would lose zeros at the end
    return _plain(as_objects(listed))


def is_unknown(labels: NDArray) -> NDArray[np.bool_]:
    """Return the mask of labels that are None, NaN or otherwise missing to pandas."""
    if labels.dtype.kind in "iubUS":
        return np.zeros(labels.shape, dtype=np.bool_)
    import pandas as pd

    return np.asarray(pd.isna(labels), dtype=np.bool_)


def align(values: Any, names: Iterable[object], what: str = "node") -> Any:
    """Put labels, given in the order of the nodes or graphs or by name, into this order; missing ones are unlabelled.

    A Series or DataFrame whose index just counts its rows is in order; another index holds names.
    """
    order = [str(name) for name in names]
    if isinstance(values, Mapping):
        named = {str(key): value for key, value in values.items()}
        _check_known(named, order, what)
        return [named.get(name) for name in order]
    if in_order(values):
        if not hasattr(values, "__len__"):
            raise GpmError(f"y must be a list, an array, a Series or a dict, not {values!r:.60}.")
        rows = len(values)
        counts = type(getattr(values, "index", None)).__name__ == "RangeIndex"
        if counts and order != (counted := list(map(str, range(rows)))) and set(order) == set(counted):
            raise GpmError(
                f"y is indexed by 0, 1, 2, ..., which are also the names of the {what}s, in another order; give a dict "
                f"by name, or a plain list in the order of the {what}s."
            )
        if rows != len(order):
            raise GpmError(f"y has {rows:,} entries for {len(order):,} {what}s; give one per {what}, None if unknown.")
        return values
    index = values.index
    rows_of = {str(key): row for row, key in enumerate(index)}
    if len(rows_of) < len(index):
        raise GpmError(f"y names a {what} twice in its index; give each {what} one label.")
    _check_known(rows_of, order, what)
    taken = [rows_of.get(name, len(index)) for name in order]
    if max(taken, default=-1) < len(index):
        return values.iloc[taken]
    return values.astype(object).reset_index(drop=True).reindex(taken)  # as objects, for whole numbers to stay so


def _check_known(given: Iterable[str], order: list[str], what: str) -> None:
    there = set(order)
    if (strange := next((name for name in given if name not in there), None)) is not None:
        raise GpmError(f"y names {strange!r}, which is not a {what} of the graph.{nearest(strange, order[:10_000])}")


def in_order(values: Any) -> bool:
    """Check whether labels are in order, not by name: also if an index just counts them."""
    if isinstance(values, Mapping):
        return False
    index: Any = getattr(values, "index", None)
    named = index is not None and not callable(index)  # lists have a method of that name
    return not named or (type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1)


def _distinct(values: NDArray) -> list[Any]:
    try:
        return list(dict.fromkeys(values.tolist()))
    except TypeError:
        strange = next(value for value in values.tolist() if not isinstance(value, Hashable))
        raise GpmError(f"y holds {strange!r}, which cannot be a class; give texts or numbers.") from None


def _plain(values: NDArray) -> NDArray:
    """Return objects that are all of one kind of number as an array of that kind."""
    kinds = {type(value) for value in values.tolist()} if values.dtype == object else set()
    return np.array(values.tolist()) if len(kinds) == 1 and kinds <= _NUMBERS else values


def as_objects(values: list[Any]) -> NDArray:
    """Return an array of these objects, tuples among them."""
    return np.fromiter(values, dtype=object, count=len(values))
