"""Node data: a graph with features and labels of its nodes, its published split if there is one, and its metric."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from gpm.data.catalog import Entry, find_file, find_named, spell
from gpm.data.graph_files import PYG_FILES, graph_of, load_graph, read_pyg
from gpm.data.labels import are_classes, guess_metric, read_labels, warn_of_new_classes
from gpm.data.named_datasets import load_dataset
from gpm.data.ogb import load_ogb
from gpm.data.splits import (
    OWN,
    PARTS,
    Masks,
    Protocol,
    Split,
    is_labelled,
    own_split,
    random_split,
    read_ids,
    share_masks,
)
from gpm.data.synthetic import neighbour_trees, planted_fraud, planted_motifs
from gpm.data.tables.inputs import title_of
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.coerce import as_array
from gpm.graph.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

DEFAULT_SPLIT = "60/20/20"


@dataclass(frozen=True, eq=False)
class NodeData(TaskData):
    """A graph whose nodes are classified, or have values to be predicted. Built by `build_node_data`.

    The labels of nodes in `graph.y` are as `read_labels` returns them.
    """

    split: str = DEFAULT_SPLIT
    stratify: bool = field(default=False, kw_only=True)  # give each part of a drawn split its share of each class
    published: str = field(default="", kw_only=True)  # file with a split that was published apart from the data
    level: ClassVar[str] = "node"

    def _draw_split(self, seed: int, kind: str, protocol: Protocol, validate: str) -> Split:
        kind = kind or self.split
        if kind not in OWN:
            return random_split(self.labels, kind, seed, self.stratify and are_classes(self.labels))
        split = own_split(self._find_masks(kind), seed, "public" if self.named else self.split)
        warn_of_new_classes(self.labels, split, self.title)
        return split

    def _find_masks(self, kind: str) -> Masks:
        if self.masks is not None:
            return self.masks
        if self.published and (file := find_file(self.published)):
            return read_ids(file, self.graph.num_nodes).restrict(is_labelled(self.labels))
        where = f" put {self.published} below GPM_RAW or GPM_DATA, or" if self.published else ""
        raise GpmError(f"{self.title} has no {kind} split;{where} ask for shares such as '{DEFAULT_SPLIT}'.")


def load_node_data(source: str | Path | Graph | Data, metric: str = "") -> NodeData:
    """Load a graph with labelled nodes.

    Masks are read as `train_mask`, `val_mask` and `test_mask`, each `[N]` or `[N, splits]`; nodes without a label are
    removed from them. With `train_mask` alone, the seed divides the other nodes evenly into val and test. WikiCS has 20
    masks for training and validation and one for testing, which belongs to each; its further `stopping_mask` is not
    used.

    Args:
        source: A dataset's name, a saved graph's folder, a PyG file (.pt), a PyG `Data`, or a `Graph`.
        metric: "mae" or "rmse" reads the labels as values, another metric reads them as classes. By default the metric
            of a named dataset; in other data whole numbers are classes, also as floats, and other numbers are values.
    """
    if not isinstance(source, (str, Path)):
        return build_node_data(graph_of(source), "graph", metric, find_masks(source))
    if entry := find_named(source):
        graph, masks = _open(spell(str(source)), entry)
        data = build_node_data(graph, entry.title, metric or entry.metric, masks)
        return replace(data, split=entry.split, class_names=entry.classes, named=True, published=entry.ids)
    graph, path = load_graph(source), Path(source).expanduser()
    if path.suffix.lower() not in PYG_FILES:
        return build_node_data(graph, title_of(path), metric)
    several = read_pyg(path)
    masks = find_masks(several[0]) if isinstance(several, tuple) else None
    return replace(build_node_data(graph, title_of(path), metric, masks), stratify=True)


def find_masks(data: Any) -> Masks | None:
    """Return the masks of a PyG `Data`; None if there are none. With `train_mask` alone, the other nodes are held out.

    A validation or test mask without the others is an error: a drawn split would train on held-out nodes.
    """
    named = ((f"{part}_mask", getattr(data, f"{part}_mask", None)) for part in PARTS)
    masks = {name: as_array(mask).astype(bool) for name, mask in named if mask is not None}
    if list(masks) == ["train_mask"]:
        return share_masks(masks["train_mask"])
    if missing := [f"{part}_mask" for part in PARTS if masks and f"{part}_mask" not in masks]:
        held = "test_mask" if "test_mask" in masks else "val_mask"
        raise GpmError(f"The data has a {held} but no {missing[0]}; give all three masks, train_mask alone, or none.")
    return Masks(*masks.values()) if masks else None


def build_node_data(graph: Graph, title: str, metric: str = "", masks: Masks | None = None) -> NodeData:
    """Check the fields of a `NodeData` and normalise its labels.

    Without a metric, the labels decide whether they are classes or values. The default split is given if there are
    masks, from which nodes without a label are removed.
    """
    if graph.y is None or len(graph.y) != graph.num_nodes or graph.y.ndim > 2 or not graph.y.size:
        raise GpmError(f"{title} has no node labels; give a graph whose y has a class for each of its nodes.")
    metric = metric or guess_metric(graph.y, whole=True)
    labels = read_labels(graph.y, metric, "node", title)
    if masks is not None:
        if len(masks.train) != graph.num_nodes:
            raise GpmError(f"The masks of {title} have {len(masks.train):,} rows for {graph.num_nodes:,} nodes.")
        masks = masks.restrict(is_labelled(labels))
    graph = graph if labels is graph.y else replace(graph, y=labels)
    return NodeData(graph, title, DEFAULT_SPLIT if masks is None else "given", metric, masks)


def _open(name: str, entry: Entry) -> tuple[Graph, Masks | None]:
    """Open a named graph and its masks, without a detour over PyG where the graph is our own."""
    if entry.loader == "motifs":
        return planted_motifs().graph, None
    if entry.loader == "fraud":
        return planted_fraud(), None
    if entry.loader == "trees":
        return neighbour_trees(int(entry.option("depth"))), None
    if entry.loader == "ogb":
        return load_ogb(entry.option("name"))
    dataset = load_dataset(name)
    if len(dataset) > 1:
        return Graph.from_pyg(list(dataset)), None
    masks = find_masks(dataset[0]) if entry.split == "public" else None  # Karate Club has a mask, which nobody uses
    return Graph.from_pyg(dataset[0]), masks
