"""OGB's node and link datasets, read from OGB's own files.

Tables have no header and one row per edge, node or member of a part; parts of link datasets are stored dictionaries of
arrays. The graph is saved next to the files, so that they are read once. The `ogb` package is not needed: it asks
before it downloads, and its stored objects do not load with current torch.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import copy_raw, is_stored
from gpm.data.non_edges import name_pairs, number_edges
from gpm.data.splits import PARTS, LinkSplit, Masks, Split
from gpm.errors import GpmError
from gpm.graph.coerce import as_array
from gpm.graph.graph import Graph
from gpm.io.cache import data_root

if TYPE_CHECKING:
    from torch_geometric.data import Data

URL = "http://snap.stanford.edu/ogb/data/{kind}/{archive}.zip"
_PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Source:
    """A dataset on OGB's server."""

    kind: str  # folder on the server
    archive: str
    split: str  # folder of the published split
    files: str  # suffix of the files of a part
    tables: tuple[str, ...]  # to read

    def needed(self, folder: Path) -> list[Path]:
        """Return the required files."""
        tables = [folder / "raw" / f"{table}.csv.gz" for table in self.tables]
        return tables + [folder / "split" / self.split / f"{part}.{self.files}" for part in _PARTS]


def _node(name: str, split: str) -> Source:
    return Source("nodeproppred", name, split, "csv.gz", ("edge", "node-feat", "node-label", "num-node-list"))


def _link(archive: str, split: str, *tables: str) -> Source:
    return Source("linkproppred", archive, split, "pt", (*tables, "num-node-list"))


SOURCES = {
    "ogbn-arxiv": _node("arxiv", "time"),
    "ogbn-products": _node("products", "sales_ranking"),
    "ogbl-collab": _link("collab", "time", "node-feat"),
    "ogbl-ppa": _link("ppassoc", "throughput", "node-feat"),
    "ogbl-ddi": _link("ddi", "target"),
}


def load_ogb(name: str) -> tuple[Graph, Masks]:
    """Load the undirected graph of `arxiv` or `products`, and its published split.

    The raw tables come from the data root, from `GPM_RAW`, or from OGB's server, in this order.
    """
    graph, split = _load(f"ogbn-{name}", _read_nodes)
    masks = np.zeros((3, graph.num_nodes), dtype=bool)
    for mask, part in zip(masks, PARTS, strict=True):
        mask[getattr(split, part)] = True
    return graph, Masks(*masks)


def read_years(name: str) -> NDArray | None:
    """Return the year of each node of `arxiv`, which OGB has in a separate table; None if there is no such table."""
    load_ogb(name)
    path = data_root() / "OGB" / f"ogbn_{name}" / "raw" / "node_year.csv.gz"
    return _read(path)[:, 0] if path.is_file() else None


def load_ogb_links(name: str) -> tuple[Graph, LinkSplit]:
    """Load the undirected graph of the training edges of `collab`, `ppa` or `ddi`, and the published split.

    The graph holds the published training edges only; weights of equal edges are added up. Training edges are unordered
    pairs, each once; edges and negatives of the other parts are as published. A pair may be published in several parts:
    in `collab`, authors who wrote together in several years.
    """
    graph, split = _load(f"ogbl-{name}", _read_links)
    if not isinstance(split, LinkSplit):
        raise GpmError(f"The saved 'ogbl-{name}' has no split of links; remove it and load it again.")
    return graph, split


def _load(name: str, read: Callable[[Source, Path], tuple[Graph, Split]]) -> tuple[Graph, Split]:
    """Open the saved graph and split of a dataset, which are made from its files the first time."""
    source, folder = SOURCES[name], data_root() / "OGB" / name.replace("-", "_")
    if not is_stored(folder):
        _provide(name, source, folder)
        graph, split = read(source, folder)
        split.save(folder / "split.npz")
        graph.save(folder / "graph", overwrite=(folder / "graph").exists())
    try:
        return Graph.open(folder / "graph"), Split.load(folder / "split.npz")
    except GpmError as error:
        raise GpmError(f"The saved {name!r} is damaged ({error}) Remove {folder} and load it again.") from None


def to_pyg(graph: Graph, masks: Masks) -> Data:
    """Return the graph as a PyG `Data` with `train_mask`, `val_mask` and `test_mask`."""
    import torch

    data: Any = graph.to_pyg()
    for part in PARTS:
        data[f"{part}_mask"] = torch.from_numpy(getattr(masks, part).copy())
    return data


def _provide(name: str, source: Source, folder: Path) -> None:
    """Copy or download the files into the data root if they are missing."""
    for part in ("raw", "split"):
        copy_raw(f"OGB/{folder.name}/{part}")
    if all(path.is_file() for path in source.needed(folder)):
        return
    try:
        _download(name, source, folder)
    except (OSError, zipfile.BadZipFile) as error:
        where = f"a folder with OGB/{folder.name}/raw and OGB/{folder.name}/split"
        raise GpmError(f"Could not load {name!r} ({error}); without a connection, let GPM_RAW name {where}.") from error


def _download(name: str, source: Source, folder: Path) -> None:
    """Download and unpack OGB's archive into a scratch folder, then move each file."""
    from torch_geometric.data import download_url, extract_zip

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        archive = Path(download_url(URL.format(kind=source.kind, archive=source.archive), scratch))
        check_members(archive)
        extract_zip(str(archive), scratch, log=False)
        unpacked = Path(scratch) / source.archive
        for file in unpacked.rglob("*"):
            target = folder / file.relative_to(unpacked)
            if file.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                file.rename(target)
    if missing := [path for path in source.needed(folder) if not path.is_file()]:
        raise GpmError(f"The archive of {name!r} holds no {missing[0].relative_to(folder)}; OGB may have changed it.")


def check_members(archive: Path) -> None:
    """Refuse an archive with a member that would be written outside its folder."""
    with zipfile.ZipFile(archive) as content:
        for member in content.namelist():
            path = PurePosixPath(member.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
                raise GpmError(
                    f"{archive.name} holds the path {member!r}, which leads out of its folder; do not use it."
                )


def _read_nodes(source: Source, folder: Path) -> tuple[Graph, Split]:
    """Make the graph and the split of the tables."""
    edges, features, labels, count = (_read(folder / "raw" / f"{table}.csv.gz") for table in source.tables)
    split_folder = folder / "split" / source.split
    train, val, test = (_read(split_folder / f"{part}.csv.gz")[:, 0] for part in _PARTS)
    graph = Graph.from_edges(edges.T, int(count[0, 0]), x=features, y=labels[:, 0], undirected=True)
    if (largest := max(train.max(), val.max(), test.max())) >= graph.num_nodes:
        raise GpmError(
            f"{split_folder} names node {largest}, but there are {graph.num_nodes:,}; load the dataset again."
        )
    return graph, Split(train, val, test, "public")


def _read_links(source: Source, folder: Path) -> tuple[Graph, Split]:
    """Build the graph of the training split, and the split, from the files and tables."""
    tables = {table: _read(folder / "raw" / f"{table}.csv.gz") for table in source.tables}
    split_folder = folder / "split" / source.split
    train, val, test = (_read_part(split_folder / f"{part}.pt") for part in _PARTS)
    try:
        count = int(tables["num-node-list"][0, 0])
        graph = Graph.from_edges(
            train["edge"].T, count, x=tables.get("node-feat"), edge_weight=train.get("weight"), undirected=True
        )
        edges = [name_pairs(number_edges(graph)), val["edge"], test["edge"]]
        split = LinkSplit.assemble(edges, [val["edge_neg"], test["edge_neg"]], "strict public", "strict", count)
    except (KeyError, IndexError, ValueError) as error:
        reason = str(error).rstrip(".")
        raise GpmError(f"The files in {split_folder} do not make a split ({reason}); load the dataset again.") from None
    return graph, split


def _read_part(path: Path) -> dict[str, NDArray]:
    """Read the arrays of a part, stored by NumPy or torch; nothing in the file is executed."""
    import torch

    multiarray: Any = np.zeros(0).__reduce__()[0]  # what rebuilds an array, by its names in NumPy 1 and 2
    allowed: list[Any] = [(multiarray, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")]
    allowed += [np.ndarray, np.dtype, *(type(np.dtype(kind)) for kind in ("i4", "i8", "f4", "f8"))]
    try:
        with torch.serialization.safe_globals(allowed):
            part = torch.load(path, map_location="cpu", weights_only=True)
        return {key: as_array(value) for key, value in part.items()}
    except Exception as error:  # whatever a damaged archive makes its readers raise
        raise GpmError(
            f"{path} is not a split file of OGB ({type(error).__name__}); remove it and load the dataset again."
        ) from None


def _read(path: Path) -> NDArray:
    """Read a table as an array: features as float32, everything else as whole numbers."""
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    kind = np.float32 if path.name.startswith("node-feat") else np.int64
    try:
        table: NDArray = pd.read_csv(path, header=None, dtype=kind).to_numpy()
    except (ValueError, OSError, EOFError) as error:  # pandas' own errors are ValueErrors
        reason = str(error).splitlines()[0].rstrip(".")
        raise GpmError(f"{path} is not a table of numbers ({reason}); remove it and load the dataset again.") from None
    return table
