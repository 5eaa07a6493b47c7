"""Graph data: a collection of graphs with labels or values, its default split and its metric."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, find_named
from gpm.data.graph_files import load_graph
from gpm.data.labels import guess_metric, name_some, read_labels, warn_of_new_classes
from gpm.data.named_datasets import open_collection
from gpm.data.smiles import describe_molecules
from gpm.data.splits import OWN, Masks, Protocol, Split, fold_split, group_split, is_labelled, own_split, random_split
from gpm.data.tables.inputs import title_of
from gpm.data.task_data import TaskData, as_list
from gpm.errors import GpmError
from gpm.graph.find import find_graphs
from gpm.graph.graph import Graph
from gpm.io.table_files import distinct

if TYPE_CHECKING:
    from torch_geometric.data import Data, Dataset

DEFAULT_SPLIT = "80/10/10"
_log = logging.getLogger("gpm")


@dataclass(frozen=True, eq=False)
class GraphData(TaskData):
    """A collection whose graphs are classified, or have values to be predicted. Built by `build_graph_data`.

    The labels of graphs in `graph.y` are as `read_labels` returns them.
    """

    split: str = DEFAULT_SPLIT  # or "given", "public", "scaffold", folds such as "10-fold", other shares
    groups: NDArray | None = None  # scaffold of each graph `[G]`
    names: list[str] | None = None  # name of each graph, such as a SMILES
    lines: NDArray | None = None  # line of the user's table that each graph was read from
    ids: dict[str, list[str]] = field(default_factory=dict)  # the SMILES and other columns that identify each graph
    smiles: list[str] | None = None  # of each graph, if these are molecules
    level: ClassVar[str] = "graph"

    @property
    def num_instances(self) -> int:
        return self.graph.num_graphs

    @property
    def instance_names(self) -> Iterable[object]:
        return self.names if self.names is not None else range(self.graph.num_graphs)

    @property
    def is_usable(self) -> NDArray[np.bool_]:
        """Mask of the graphs that have a label and at least one node `[G]`: only these are in a split."""
        return is_labelled(self.labels) & ~_is_empty(self.graph)

    def statistics_graphs(self, split: Split) -> NDArray[np.int64] | None:
        return split.train

    def describe_instances(self) -> NDArray[np.float32]:
        return super().describe_instances() if self.smiles is None else describe_molecules(self.smiles)

    def find_instances(self, names: Any = None) -> NDArray[np.int64]:
        """Return the ids of graphs by name or id; by default of all graphs with nodes."""
        if names is not None:
            return find_graphs(as_list(names), self.graph.num_graphs, self.names)
        return np.arange(1) if self.graph.graph_ptr is None else np.flatnonzero(~_is_empty(self.graph))

    def name_instances(self, ids: NDArray) -> dict[str, list[Any]]:
        keys: dict[str, list[Any]] = {"graph": ids.tolist()}
        if self.lines is not None:
            keys["line"] = self.lines[ids].tolist()
            called = distinct([*keys, *self.ids])[2:]
            keys |= {name: [column[i] for i in ids] for name, column in zip(called, self.ids.values(), strict=True)}
        elif self.names is not None:
            keys["name"] = [self.names[i] for i in ids]
        return keys

    def _draw_split(self, seed: int, kind: str, protocol: Protocol, validate: str) -> Split:
        """Draw a split, stratified where there are classes."""
        split = self._draw(seed, kind or self.split)
        warn_of_new_classes(self.labels, split, self.title)
        return split

    def _draw(self, seed: int, kind: str) -> Split:
        usable, stratify = self.is_usable, np.issubdtype(self.labels.dtype, np.integer)
        if kind in OWN:
            if self.masks is None:
                raise GpmError(f"{self.title} has no {kind} split; ask for shares such as '{DEFAULT_SPLIT}'.")
            return own_split(self.masks.restrict(usable), seed, self.split)
        unknown = -1 if stratify else np.nan
        labels = np.where(usable if self.labels.ndim == 1 else usable[:, None], self.labels, unknown)
        if kind.partition(" ")[0] == "scaffold":
            if self.groups is None:
                raise GpmError(f"{self.title} has no scaffolds; ask for shares such as '{DEFAULT_SPLIT}'.")
            return group_split(labels, self.groups, kind.partition(" ")[2] or DEFAULT_SPLIT, "scaffold")
        if folds := re.fullmatch(r"(\d{1,9})-fold", kind):
            return fold_split(labels, int(folds[1]), seed, stratify)
        if "/" in kind:
            return random_split(labels, kind, seed, stratify)
        raise GpmError(
            f"Split {kind!r} must be given, public, scaffold, folds such as 10-fold, or shares such as 80/10/10."
        )


def load_graph_data(source: str | Path | Graph | Sequence[Data] | Dataset, metric: str = "") -> GraphData:
    """Load a collection of labelled graphs.

    Args:
        source: A dataset's name, a saved collection's folder, a PyG file (.pt) with a list of `Data`; or such a list, a
            PyG `Dataset`, or a `Graph` with a `graph_ptr`.
        metric: "mae" or "rmse" reads the labels as values, another metric reads them as classes. By default the metric
            of a named dataset; in other data whole numbers and 0.0 and 1.0 are classes, other numbers are values.
    """
    if not isinstance(source, (str, Path)):
        graph = source if isinstance(source, Graph) else Graph.from_pyg(source)
        return build_graph_data(graph, "graphs", metric=metric)
    if (entry := find_named(source)) is None:
        return build_graph_data(load_graph(source), title_of(Path(source)), metric=metric)
    if entry.task != "graph":
        names = ", ".join(name for name, other in CATALOG.items() if other.task == "graph")
        raise GpmError(
            f"{entry.title} is a single graph, not a collection of graphs; the named collections are {names}."
        )
    collection = open_collection(str(source))
    data = build_graph_data(collection.graph, entry.title, entry.split, metric or entry.metric, *collection[1:])
    smiles = collection.names if entry.loader == "MoleculeNet" else None
    return replace(data, class_names=entry.classes, named=True, smiles=smiles)


def build_graph_data(
    graph: Graph,
    title: str,
    split: str = "",
    metric: str = "",
    masks: Masks | None = None,
    groups: NDArray | None = None,
    names: list[str] | None = None,
) -> GraphData:
    """Check the fields of a `GraphData` and normalise its labels.

    Without a metric, the labels decide whether they are classes or values. Without a split, it is the given one, that
    of the groups, or 80/10/10, in this order.
    """
    if graph.graph_ptr is None:
        raise GpmError(f"{title} is a single graph, not a collection of graphs; give a list of graphs, each with a y.")
    if graph.y is None or len(graph.y) != graph.num_graphs or graph.y.ndim > 2 or not graph.y.size:
        raise GpmError(f"{title} has no labels of graphs; give each graph a y of shape [1], or [1, C] for several.")
    chosen = metric or guess_metric(graph.y, whole=False)
    labels = read_labels(graph.y, chosen, "graph", title)
    if not metric and labels.dtype == np.int64 and labels.min() < 0 and len(np.unique(labels[labels >= 0])) == 1:
        _log.warning("%s: all labels are class %s; negative labels count as missing.", title, labels.max())
    columns = {"masks": None if masks is None else masks.train, "groups": groups, "names": names}
    for what, rows in columns.items():
        if rows is not None and len(rows) != graph.num_graphs:
            raise GpmError(f"The {what} of {title} have {len(rows):,} rows for {graph.num_graphs:,} graphs.")
    split = split or ("given" if masks is not None else DEFAULT_SPLIT if groups is None else "scaffold")
    graph = graph if labels is graph.y else replace(graph, y=labels)
    data = GraphData(graph, title, split, chosen, masks, groups, names)
    if not data.is_usable.any():
        raise GpmError(f"All labelled graphs of {title} are empty; give graphs with at least one node.")
    if (empty := np.flatnonzero(_is_empty(graph))).size:
        counts = f"{len(empty):,} of {graph.num_graphs:,}"
        _log.warning("%s: no nodes in %s graphs, which are left out: %s.", title, counts, name_some(empty))
    return data


def _is_empty(graph: Graph) -> NDArray[np.bool_]:
    assert graph.graph_ptr is not None
    return np.asarray(np.diff(graph.graph_ptr) == 0)
