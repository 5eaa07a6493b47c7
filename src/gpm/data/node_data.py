"""What a node task is made of: a graph with features and labels, the published split if there is one, the metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, Entry, load_dataset, spell
from gpm.data.graph_files import PYG_FILES, load_graph, read_pyg
from gpm.data.labels import as_columns, count_outputs, guess_metric, read_labels
from gpm.data.splits import PARTS, Masks, Split, is_labelled, public_split, random_split, warn_of_new_classes
from gpm.errors import GpmError, kind_of
from gpm.graph.coerce import as_array
from gpm.graph.folder import HEADER
from gpm.graph.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

DEFAULT_SPLIT = "60/20/20"


@dataclass(frozen=True, eq=False)
class NodeData:
    """A graph whose nodes are to be classified, or have values to be predicted. Built by `build_node_data`.

    Attributes:
        graph: Features in `graph.x`; labels in `graph.y`, see `read_labels`.
        title: Its name in print.
        split: The usual split: "public", or shares such as "60/20/20".
        metric: Of classes "accuracy", "roc_auc" or "f1"; of values "mae" or "rmse".
        masks: The published split or splits; None if there are none.
        class_names: What the classes 0, 1, ... are called; empty if they have numbers alone.
        targets: What the user calls that which is predicted: a name per column of labels; empty if it has none.
        stratify: Parts that are drawn get their share of each class; values have none.
        unseen: Of data that is not what a model was trained on: sentences on what was read as unknown.
    """

    graph: Graph
    title: str
    split: str = DEFAULT_SPLIT
    metric: str = "accuracy"
    masks: Masks | None = None
    class_names: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    stratify: bool = False
    unseen: tuple[str, ...] = ()
    level: ClassVar[str] = "node"

    @property
    def labels(self) -> NDArray:
        """Labels of the nodes: classes int64 `[N]`, yes-or-no labels float `[N, C]`, or values `[N]` or `[N, C]`."""
        assert self.graph.y is not None
        return self.graph.y

    @property
    def num_classes(self) -> int:
        """Classes, or labels or values per node where there are such."""
        return count_outputs(self.labels)

    def make_split(self, seed: int, kind: str = "") -> Split:
        """The split of a seed: "public", or shares such as "60/20/20"; by default the usual one of this data."""
        kind = kind or self.split
        if kind != "public":
            classes = self.labels.ndim == 1 and np.issubdtype(self.labels.dtype, np.integer)
            return random_split(self.labels, kind, seed, self.stratify and classes)
        if self.masks is None:
            raise GpmError(f"{self.title} has no public split; ask for shares such as '{DEFAULT_SPLIT}'.")
        split = public_split(self.masks, seed)
        if self.labels.ndim == 1 and np.issubdtype(self.labels.dtype, np.integer):
            warn_of_new_classes(self.labels, split, self.title)
        return split


def load_node_data(source: str | Path | Graph | Data, metric: str = "") -> NodeData:
    """Load a graph with labelled nodes.

    Public masks are read as `train_mask`, `val_mask` and `test_mask`, each `[N]` or `[N, splits]`; nodes without a
    label are taken out of them. WikiCS has 20 masks for training and validation and one for testing, which goes with
    each; its further `stopping_mask` is not used.

    Args:
        source: A dataset's name, a saved graph's folder, a PyG file (.pt), a PyG `Data`, or a `Graph`.
        metric: "mae" or "rmse" to read the labels as values, another to read them as classes; by default the usual one
            of a named dataset. Of a user's own data whole numbers are then classes, also as floats; other numbers are
            values, scored by their mean absolute error.
    """
    if isinstance(source, Graph):
        return build_node_data(source, "graph", metric)
    if not isinstance(source, (str, Path)):
        if not hasattr(source, "edge_index"):
            raise GpmError(f"give a dataset's name, a file, a PyG Data or a Graph, not a {kind_of(source)}.")
        return build_node_data(Graph.from_pyg(source), "graph", metric, find_masks(source))
    path = Path(source).expanduser()
    if (entry := CATALOG.get(spell(str(source)))) and not path.is_file() and not (path / HEADER).exists():
        return _named(spell(str(source)), entry, metric)
    graph, own = load_graph(source), path.suffix.lower() in PYG_FILES
    return replace(build_node_data(graph, path.stem, metric, _read_masks(path) if own else None), stratify=own)


def find_masks(data: Any) -> Masks | None:
    """The masks of a PyG `Data`; None if there is at most one for training.

    A mask of what is held out without the others is an error: parts that are drawn would train on it.
    """
    found = {f"{part}_mask": getattr(data, f"{part}_mask", None) for part in PARTS}
    missing = [name for name, mask in found.items() if mask is None]
    for held in ("test_mask", "val_mask") if missing else ():
        if held not in missing:
            raise GpmError(f"the data has a {held} but no {missing[0]}; give all three masks, or none.")
    return None if missing else Masks(*(as_array(mask).astype(bool) for mask in found.values()))


def build_node_data(graph: Graph, title: str, metric: str = "", masks: Masks | None = None) -> NodeData:
    """Check the parts of a `NodeData` and put its labels into their one form.

    Without a metric, the labels say whether they are classes or values. The usual split is the public one if there are
    masks, out of which nodes without a label are taken.
    """
    known = metric or guess_metric(_find_labels(graph, title), whole=True)
    labels = check_node_labels(graph, title, known)
    if masks is not None:
        if len(masks.train) != graph.num_nodes:
            raise GpmError(f"the masks of {title} have {len(masks.train):,} rows for {graph.num_nodes:,} nodes.")
        masks = masks.restrict(is_labelled(labels))
    graph = graph if labels is graph.y else replace(graph, y=labels)
    return NodeData(graph, title, DEFAULT_SPLIT if masks is None else "public", known, masks)


def check_node_labels(graph: Graph, title: str, metric: str) -> NDArray:
    """Labels of nodes in their one form, see `read_labels`."""
    return read_labels(_find_labels(graph, title), metric, "node", title)


def _find_labels(graph: Graph, title: str) -> NDArray:
    """The labels as they come, `[N]` or `[N, C]` with C > 1."""
    labels = graph.y
    if labels is None or len(labels) != graph.num_nodes or labels.ndim > 2 or not labels.size:
        raise GpmError(f"{title} has no node labels; give a graph whose y has a class for each of its nodes.")
    return as_columns(labels)


def _named(name: str, entry: Entry, metric: str) -> NodeData:
    graph, masks = _open(name, entry)
    data = build_node_data(graph, entry.title, metric or entry.metric, masks)
    return replace(data, split=entry.split, class_names=entry.classes)


def _open(name: str, entry: Entry) -> tuple[Graph, Masks | None]:
    """A named graph and its masks, without a detour over PyG where the graph is our own."""
    if entry.loader == "motifs":
        from gpm.data.synthetic import planted_motifs

        return planted_motifs().graph, None
    if entry.loader == "ogb":
        from gpm.data.ogb import load_ogb

        return load_ogb(str(dict(entry.options)["name"]))
    dataset = load_dataset(name)
    if len(dataset) > 1:
        return Graph.from_pyg(list(dataset)), None
    data = dataset[0]
    return Graph.from_pyg(data), find_masks(data)


def _read_masks(path: Path) -> Masks | None:
    """The masks in a PyG file of a single graph; nothing in the file is executed."""
    several = read_pyg(path)
    return find_masks(several[0]) if isinstance(several, tuple) else None
