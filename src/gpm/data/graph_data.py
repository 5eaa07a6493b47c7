"""What a graph task is made of: a collection of graphs with labels or values, its usual split and its metric."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, spell
from gpm.data.graph_files import load_graph
from gpm.data.labels import as_columns, count_outputs, guess_metric, read_labels
from gpm.data.splits import (
    Masks,
    Split,
    fold_split,
    group_split,
    is_labelled,
    name_some,
    public_split,
    random_split,
    warn_of_new_classes,
)
from gpm.errors import GpmError
from gpm.graph.folder import HEADER
from gpm.graph.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data, Dataset

DEFAULT_SPLIT = "80/10/10"
_log = logging.getLogger("gpm")


@dataclass(frozen=True, eq=False)
class GraphData:
    """A collection whose graphs are to be classified, or have values to be predicted. Built by `build_graph_data`.

    Attributes:
        graph: The whole collection as one graph; labels of its graphs in `graph.y`, see `check_graph_labels`.
        title: Its name in print.
        split: The usual split: "public", "scaffold", folds such as "10-fold", or shares such as "80/10/10".
        metric: Of classes "accuracy", "roc_auc" or "f1"; of values "mae" or "rmse".
        masks: The published split or splits over the graphs; None if there are none.
        groups: The scaffold of each graph `[G]`; None if there are none.
        names: What the user calls each graph, such as a SMILES; None if it is known by its number.
        lines: The line of the user's table that each graph comes from; None if it comes from none.
        class_names: What the classes 0, 1, ... are called; empty if they have numbers alone.
        targets: What the user calls that which is predicted: a name per column of labels; empty if it has none.
        unseen: Of data that is not what a model was trained on: sentences on what was read as unknown.
    """

    graph: Graph
    title: str
    split: str = DEFAULT_SPLIT
    metric: str = "accuracy"
    masks: Masks | None = None
    groups: NDArray | None = None
    names: list[str] | None = None
    lines: NDArray | None = None
    class_names: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()

    level: ClassVar[str] = "graph"

    @property
    def labels(self) -> NDArray:
        """Labels of the graphs: classes int64 `[G]`, yes-or-no labels float `[G, C]`, or values `[G]` or `[G, C]`."""
        assert self.graph.y is not None
        return self.graph.y

    @property
    def num_classes(self) -> int:
        """Classes, or labels or values per graph where there are such."""
        return count_outputs(self.labels)

    @property
    def is_usable(self) -> NDArray[np.bool_]:
        """Which graphs can be in a part `[G]`: those with a label and at least one node."""
        return is_labelled(self.labels) & ~_is_empty(self.graph)

    def make_split(self, seed: int, kind: str = "") -> Split:
        """The split of a seed: "public", "scaffold" (or "scaffold 80/10/10"), folds such as "10-fold", or shares such
        as "80/10/10"; by default the usual one of this data. Draws are stratified where there are classes.
        """
        split = self._split(seed, kind or self.split)
        if np.issubdtype(self.labels.dtype, np.integer):
            warn_of_new_classes(self.labels, split, self.title)
        return split

    def _split(self, seed: int, kind: str) -> Split:
        usable, stratify = self.is_usable, np.issubdtype(self.labels.dtype, np.integer)
        if kind == "public":
            if self.masks is None:
                raise GpmError(f"{self.title} has no public split; ask for shares such as '{DEFAULT_SPLIT}'.")
            return public_split(self.masks.restrict(usable), seed)
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
        raise GpmError(f"split {kind!r} must be public, scaffold, folds such as 10-fold, or shares such as 80/10/10.")


def load_graph_data(source: str | Path | Graph | Sequence[Data] | Dataset, metric: str = "") -> GraphData:
    """Load a collection of labelled graphs.

    Args:
        source: A dataset's name, a saved collection's folder, a PyG file (.pt) with a list of `Data`; or such a list, a
            PyG `Dataset`, or a `Graph` with a `graph_ptr`.
        metric: "mae" or "rmse" to read the labels as values, another to read them as classes; by default the usual one
            of a named dataset. Of a user's own data whole numbers are then classes, and so are 0.0 and 1.0; other
            numbers are values, scored by their mean absolute error.
    """
    if not isinstance(source, (str, Path)):
        graph = source if isinstance(source, Graph) else Graph.from_pyg(source)
        return build_graph_data(graph, "graphs", metric=metric)
    path = Path(source).expanduser()
    entry = CATALOG.get(spell(str(source)))
    if entry is None or path.is_file() or (path / HEADER).exists():
        return build_graph_data(load_graph(source), path.stem, metric=metric)
    if entry.task != "graph":
        known = ", ".join(name for name, other in CATALOG.items() if other.task == "graph")
        raise GpmError(f"{entry.title} is a single graph, not a collection of graphs; known collections: {known}.")
    from gpm.data.named_collections import open_collection

    graph, masks, groups, names = open_collection(str(source))
    data = build_graph_data(graph, entry.title, entry.split, metric or entry.metric, masks, groups, names)
    return replace(data, class_names=entry.classes)


def build_graph_data(
    graph: Graph,
    title: str,
    split: str = "",
    metric: str = "",
    masks: Masks | None = None,
    groups: NDArray | None = None,
    names: list[str] | None = None,
) -> GraphData:
    """Check the parts of a `GraphData` and put its labels into their one form.

    Without a metric, the labels say whether they are classes or values. Without a split, it is the public one, that of
    the groups, or 80/10/10, in this order.
    """
    known = metric or guess_metric(_find_labels(graph, title), whole=False)
    labels = check_graph_labels(graph, title, known)
    if not metric and labels.dtype == np.int64 and labels.min() < 0 and len(np.unique(labels[labels >= 0])) == 1:
        _log.warning("%s: all known labels are class %s, as negative ones are unknown.", title, labels.max())
    along = {"masks": None if masks is None else len(masks.train), "groups": _count(groups), "names": _count(names)}
    for what, rows in along.items():
        if rows not in (None, graph.num_graphs):
            raise GpmError(f"the {what} of {title} have {rows:,} rows for {graph.num_graphs:,} graphs.")
    split = split or ("public" if masks is not None else DEFAULT_SPLIT if groups is None else "scaffold")
    graph = graph if labels is graph.y else replace(graph, y=labels)
    data = GraphData(graph, title, split, known, masks, groups, names)
    if not data.is_usable.any():
        raise GpmError(f"all labelled graphs of {title} are empty; give graphs with at least one node.")
    _warn_of_empty(graph, title)
    return data


def check_graph_labels(graph: Graph, title: str, metric: str) -> NDArray:
    """Labels of graphs in their one form, see `read_labels`."""
    return read_labels(_find_labels(graph, title), metric, "graph", title)


def _find_labels(graph: Graph, title: str) -> NDArray:
    """The labels as they come, `[G]` or `[G, C]` with C > 1."""
    if graph.graph_ptr is None:
        raise GpmError(f"{title} is a single graph, not a collection of graphs; give a list of graphs, each with a y.")
    labels = graph.y
    if labels is None or len(labels) != graph.num_graphs or labels.ndim > 2 or not labels.size:
        raise GpmError(f"{title} has no labels of graphs; give each graph a y of shape [1], or [1, C] for several.")
    return as_columns(labels)


def _count(rows: NDArray | list[str] | None) -> int | None:
    return None if rows is None else len(rows)


def _is_empty(graph: Graph) -> NDArray[np.bool_]:
    assert graph.graph_ptr is not None
    return np.asarray(np.diff(graph.graph_ptr) == 0)


def _warn_of_empty(graph: Graph, title: str) -> None:
    empty = np.flatnonzero(_is_empty(graph))
    if empty.size:
        counts = f"{len(empty):,} of {graph.num_graphs:,}"
        _log.warning("%s: no nodes in %s graphs, which are left out: %s.", title, counts, name_some(empty))
