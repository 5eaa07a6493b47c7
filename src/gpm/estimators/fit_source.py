"""What `fit` and `predict` were given, once it is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpm.data.graph_data import GraphData
from gpm.data.sources import TaskData
from gpm.errors import GpmError
from gpm.estimators.classes import align, as_labels, in_order


@dataclass(frozen=True, eq=False)
class Given:
    """A graph, or a collection of graphs, and what came with it.

    Attributes:
        data: The graph, with masks, names and so on where they came with it.
        labels: In the user's own values, a row per node or per graph; None if they are those of `data`, or if there are
            none.
        columns: What the labels are called; empty if they have no names.
        facts: How features were made of tables; empty if they were not.
        like: Where the tables were imported to.
        source: Where all this can be read again; empty if it was in memory.
        ordered: Whether the user knows the order of the nodes, so that labels may be given in it.
    """

    data: TaskData
    labels: Any = None
    columns: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    like: Path | None = None
    source: str = ""
    ordered: bool = True

    def with_labels(self, y: Any) -> Given:
        """The same with labels that are given beside it, if any."""
        if y is None:
            return self
        if not self.ordered and in_order(y):
            raise GpmError("the order of the nodes is not known of a table of edges; give y as a dict, or give nodes.")
        found = align(y, name_all(self.data), self.data.level)
        columns = [found.name] if getattr(found, "name", None) is not None else getattr(found, "columns", ())
        return replace(self, labels=as_labels(found), columns=tuple(map(str, columns)), source="")


def name_all(data: TaskData) -> Iterable[object]:
    """The names of all nodes, or of all graphs of a collection."""
    if isinstance(data, GraphData):
        return data.names if data.names is not None else range(data.graph.num_graphs)
    return data.graph.names_of(np.arange(data.graph.num_nodes))


def is_frame(value: Any) -> bool:
    """Whether a value is a pandas DataFrame, without importing pandas."""
    return hasattr(value, "iloc") and hasattr(value, "columns")
