"""What a node task is made of: a graph with features and labels, the published split if there is one, the metric."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, Entry, allow_pyg_data, load_dataset, spell
from gpm.data.files import PYG_FILES, load_graph
from gpm.data.splits import PARTS, Masks, Split, is_labelled, public_split, random_split
from gpm.errors import GpmError, kind_of
from gpm.graph import Graph
from gpm.intake import as_array
from gpm.storage import HEADER

if TYPE_CHECKING:
    from torch_geometric.data import Data

DEFAULT_SPLIT = "60/20/20"


@dataclass(frozen=True, eq=False)
class NodeData:
    """A graph whose nodes are to be classified.

    Attributes:
        graph: Features in `graph.x`; labels in `graph.y`: classes, int64 `[N]` and negative where unknown, or several
            yes-or-no labels, float `[N, C]` and NaN where unknown.
        title: Its name in print.
        split: The usual split: "public", or shares such as "60/20/20".
        metric: "accuracy" or "roc_auc".
        masks: The published split or splits; None if there are none.
        class_names: What the classes 0, 1, ... are called; empty if they have numbers alone.
    """

    graph: Graph
    title: str
    split: str = DEFAULT_SPLIT
    metric: str = "accuracy"
    masks: Masks | None = None
    class_names: tuple[str, ...] = ()
    level: ClassVar[str] = "node"

    @property
    def labels(self) -> NDArray:
        """Labels of the nodes: int64 `[N]`, or float `[N, C]`."""
        assert self.graph.y is not None
        return self.graph.y

    @property
    def num_classes(self) -> int:
        """Classes, or labels per node where there are several."""
        return self.labels.shape[1] if self.labels.ndim == 2 else int(self.labels.max()) + 1

    def make_split(self, seed: int, kind: str = "") -> Split:
        """The split of a seed: "public", or shares such as "60/20/20"; by default the usual one of this data."""
        kind = kind or self.split
        if kind != "public":
            return random_split(self.labels, kind, seed)
        if self.masks is None:
            raise GpmError(f"{self.title} has no public split; ask for shares such as '{DEFAULT_SPLIT}'.")
        return public_split(self.masks, seed)


def load_node_data(source: str | Path | Graph | Data) -> NodeData:
    """Load a graph with labelled nodes.

    Public masks are read as `train_mask`, `val_mask` and `test_mask`, each `[N]` or `[N, splits]`; nodes without a
    label are taken out of them. WikiCS has 20 masks for training and validation and one for testing, which goes with
    each; its further `stopping_mask` is not used.

    Args:
        source: A dataset's name, a saved graph's folder, a PyG file (.pt), a PyG `Data`, or a `Graph`.
    """
    if isinstance(source, Graph):
        return _own(source, "graph", None)
    if not isinstance(source, (str, Path)):
        if not hasattr(source, "edge_index"):
            raise GpmError(f"give a dataset's name, a file, a PyG Data or a Graph, not a {kind_of(source)}.")
        return _own(Graph.from_pyg(source), "graph", find_masks(source))
    path = Path(source).expanduser()
    if (entry := CATALOG.get(spell(str(source)))) and not path.is_file() and not (path / HEADER).exists():
        return _named(spell(str(source)), entry)
    graph = load_graph(source)
    return _own(graph, path.stem, _read_masks(path) if path.suffix.lower() in PYG_FILES else None)


def find_masks(data: Any) -> Masks | None:
    """The masks of a PyG `Data`; None unless all three parts are there."""
    found = [getattr(data, f"{part}_mask", None) for part in PARTS]
    return None if any(mask is None for mask in found) else Masks(*(as_array(mask).astype(bool) for mask in found))


def check_node_labels(graph: Graph, title: str) -> NDArray:
    """Labels in their one form: int64 `[N]` for classes, float `[N, C]` for several labels per node."""
    if graph.y is not None and graph.y.dtype.kind not in "biuf":
        raise GpmError(f"the node labels of {title} are {graph.y.dtype}; number the classes 0, 1, 2, and so on.")
    if graph.y is None or len(graph.y) != graph.num_nodes or not is_labelled(graph.y).any():
        raise GpmError(f"{title} has no node labels; give a graph whose y has a class for each of its nodes.")
    labels = graph.y[:, 0] if graph.y.ndim == 2 and graph.y.shape[1] == 1 else graph.y
    if labels.ndim == 2:
        several = labels if np.issubdtype(labels.dtype, np.floating) else labels.astype(np.float32)
        several = np.where(several == -1, np.nan, several).astype(several.dtype)
        if not np.isin(several[~np.isnan(several)], (0, 1)).all():
            raise GpmError(
                f"the node labels of {title} have {labels.shape[1]} columns that are not 0 or 1; give yes-or-no labels."
            )
        return several
    if not np.issubdtype(labels.dtype, np.floating):
        return labels.astype(np.int64, copy=False)
    whole = np.where(np.isnan(labels), -1, labels)
    if not (np.isfinite(whole) & (whole == np.floor(whole))).all():
        raise GpmError(f"the node labels of {title} are not whole numbers; number the classes 0, 1, 2, and so on.")
    return whole.astype(np.int64)


def _own(graph: Graph, title: str, masks: Masks | None) -> NodeData:
    """The data of a user, who has published a split if there are masks."""
    data = _build(graph, title, masks)
    return replace(
        data,
        split=DEFAULT_SPLIT if masks is None else "public",
        metric="accuracy" if data.labels.ndim == 1 else "roc_auc",
    )


def _named(name: str, entry: Entry) -> NodeData:
    graph, masks = _open(name, entry)
    data = _build(graph, entry.title, masks)
    return replace(data, split=entry.split, metric=entry.metric, class_names=entry.classes)


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


def _build(graph: Graph, title: str, masks: Masks | None) -> NodeData:
    labels = check_node_labels(graph, title)
    if masks is not None:
        if len(masks.train) != graph.num_nodes:
            raise GpmError(f"the masks of {title} have {len(masks.train):,} rows for {graph.num_nodes:,} nodes.")
        masks = masks.restrict(is_labelled(labels))
    return NodeData(graph if labels is graph.y else replace(graph, y=labels), title, masks=masks)


def _read_masks(path: Path) -> Masks | None:
    """The masks in a PyG file that `load_graph` has read already; nothing in the file is executed."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    allow_pyg_data()
    with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
        data = torch.load(path, map_location="cpu", weights_only=True)
    return find_masks(data) if isinstance(data, Data) else None
