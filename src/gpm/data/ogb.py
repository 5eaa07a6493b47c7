"""OGB's node datasets, read from OGB's own files: tables without a header, one row per edge, node or member of a part.

The graph is kept beside the tables as a saved `Graph`, so that it is read once and mapped from disk ever after. The
`ogb` package is not needed: it asks before it downloads, and its stored objects do not load with current torch.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import copy_raw, data_root
from gpm.data.splits import PARTS, Masks, Split
from gpm.errors import GpmError
from gpm.graph import Graph
from gpm.storage import HEADER

if TYPE_CHECKING:
    from torch_geometric.data import Data

URL = "http://snap.stanford.edu/ogb/data/nodeproppred/{name}.zip"
SPLITS = {"arxiv": "time", "products": "sales_ranking"}
_TABLES = ("edge", "node-feat", "node-label", "num-node-list")


def load_ogb(name: str) -> tuple[Graph, Masks]:
    """The undirected graph of `arxiv` or `products`, and its published split.

    The raw tables come from the data root, from `GPM_RAW`, or from OGB's server, in this order.
    """
    folder = data_root() / "OGB" / f"ogbn_{name}"
    if not is_stored(folder):
        _provide(name, folder)
        _store(name, folder)
    try:
        graph, split = Graph.open(folder / "graph"), Split.load(folder / "split.npz")
    except GpmError as error:
        raise GpmError(f"what is kept of {name!r} is damaged ({error}) Remove {folder} and load it again.") from None
    return graph, _masks(split, graph.num_nodes)


def is_stored(folder: Path) -> bool:
    """Whether a dataset was read before."""
    return (folder / "graph" / HEADER).is_file() and (folder / "split.npz").is_file()


def to_pyg(graph: Graph, masks: Masks) -> Data:
    """The graph as a PyG `Data` with `train_mask`, `val_mask` and `test_mask`."""
    import torch

    data: Any = graph.to_pyg()
    for part in PARTS:
        data[f"{part}_mask"] = torch.from_numpy(getattr(masks, part).copy())
    return data


def _provide(name: str, folder: Path) -> None:
    """Bring the tables into the data root if they are not there."""
    for part in ("raw", "split"):
        copy_raw(f"OGB/{folder.name}/{part}")
    if all(path.is_file() for path in _needed(name, folder)):
        return
    try:
        _download(name, folder)
    except (OSError, zipfile.BadZipFile) as error:
        where = f"OGB/{folder.name}/raw and OGB/{folder.name}/split"
        raise GpmError(
            f"could not load {name!r} ({error}); without a connection, let GPM_RAW name a folder with {where}."
        ) from error


def _needed(name: str, folder: Path) -> list[Path]:
    tables = [folder / "raw" / f"{table}.csv.gz" for table in _TABLES]
    return tables + [folder / "split" / SPLITS[name] / f"{part}.csv.gz" for part in ("train", "valid", "test")]


def _download(name: str, folder: Path) -> None:
    """Fetch and unpack OGB's archive beside its place, then move each file into it."""
    from torch_geometric.data import download_url, extract_zip

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        archive = Path(download_url(URL.format(name=name), scratch))
        check_members(archive)
        extract_zip(str(archive), scratch, log=False)
        for file in (Path(scratch) / name).rglob("*"):
            target = folder / file.relative_to(Path(scratch) / name)
            if file.is_file() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                file.rename(target)
    if missing := [path for path in _needed(name, folder) if not path.is_file()]:
        raise GpmError(f"the archive of {name!r} holds no {missing[0].relative_to(folder)}; OGB may have changed it.")


def check_members(archive: Path) -> None:
    """Refuse an archive with a member that would be written outside the folder it is unpacked in."""
    with zipfile.ZipFile(archive) as content:
        for member in content.namelist():
            path = PurePosixPath(member.replace("\\", "/"))
            if path.is_absolute() or ".." in path.parts or ":" in path.parts[0]:
                raise GpmError(
                    f"{archive.name} holds the path {member!r}, which leads out of its folder; do not use it."
                )


def _store(name: str, folder: Path) -> None:
    """Read the tables, and keep the split and the graph beside them."""
    edges, features, labels, count = (_read(folder / "raw" / f"{table}.csv.gz") for table in _TABLES)
    split_folder = folder / "split" / SPLITS[name]
    train, val, test = (_read(split_folder / f"{part}.csv.gz")[:, 0] for part in ("train", "valid", "test"))
    graph = Graph.from_edges(edges.T, int(count[0, 0]), x=features, y=labels[:, 0], undirected=True)
    if (largest := max(train.max(), val.max(), test.max())) >= graph.num_nodes:
        raise GpmError(
            f"{split_folder} names node {largest}, but there are {graph.num_nodes:,}; load the dataset again."
        )
    Split(train, val, test, "public").save(folder / "split.npz")
    graph.save(folder / "graph", overwrite=(folder / "graph").exists())


def _read(path: Path) -> NDArray:
    """A table as an array: features as float32, everything else as whole numbers."""
    import pandas as pd  # type: ignore[import-untyped, unused-ignore]

    kind = np.float32 if path.name.startswith("node-feat") else np.int64
    try:
        table: NDArray = pd.read_csv(path, header=None, dtype=kind).to_numpy()
    except (ValueError, OSError, EOFError) as error:  # pandas' own errors are ValueErrors
        reason = str(error).splitlines()[0].rstrip(".")
        raise GpmError(f"{path} is not a table of numbers ({reason}); remove it and load the dataset again.") from None
    return table


def _masks(split: Split, count: int) -> Masks:
    masks = np.zeros((3, count), dtype=bool)
    for mask, part in zip(masks, PARTS, strict=True):
        mask[getattr(split, part)] = True
    return Masks(*masks)
