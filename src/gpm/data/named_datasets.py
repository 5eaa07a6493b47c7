"""Load the named datasets: by PyG into the data root, from raw files if they are there, else by a download."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import Entry, copy_raw, find_compact, find_entry, find_file, is_whole
from gpm.data.network_files import join_types, read_network
from gpm.data.ogb import load_ogb, load_ogb_links, to_pyg
from gpm.data.smiles import find_scaffolds
from gpm.data.splits import PARTS, Masks, as_masks
from gpm.data.synthetic import neighbour_trees, planted_fraud, planted_motifs, random_graph
from gpm.errors import GpmError
from gpm.graph.copies import copy_graphs
from gpm.graph.graph import Graph
from gpm.io.archives import plain_pickles
from gpm.io.atomic import replacing
from gpm.io.cache import data_root


class Collection(NamedTuple):
    """A collection as it was published."""

    graph: Graph  # all graphs as one, with their labels as they come
    masks: Masks | None = None
    groups: NDArray[np.int64] | None = None  # scaffold of each molecule `[G]`
    names: list[str] | None = None  # SMILES of each molecule


def load_dataset(name: str) -> Any:
    """Load a named dataset as PyG's `Dataset`, without a download if the raw files are there.

    Datasets without a PyG class come as a list of `Data`; the parts of ZINC come as torch's `ConcatDataset` of train,
    validation and test.
    """
    entry = find_entry(name)
    try:
        return _load(entry)
    except GpmError:
        raise
    except Exception as error:  # whatever a download, an archive or a parser may raise
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise GpmError(
            f"Could not load {name!r} ({reason}); without a connection, let GPM_RAW name a folder with {entry.raw}/raw."
        ) from error


def open_collection(name: str) -> Collection:
    """Load a named collection, by whole arrays where PyG keeps it in such."""
    entry = find_entry(name)
    if compact := find_compact(entry):
        return Collection(read_compact(compact))
    dataset = load_dataset(name)
    graph = Graph.from_pyg(dataset)
    if entry.copies:
        graph = copy_graphs(graph, np.repeat(np.arange(graph.num_graphs), entry.copies), seed=0)
    if entry.title == "CSL":
        return Collection(graph, as_masks(_read_folds("csl_folds.txt")))
    if entry.loader == "ZINC":
        return Collection(graph, as_masks(np.repeat(np.arange(3), [len(each) for each in dataset.datasets])))
    if entry.loader != "MoleculeNet":
        return Collection(graph)
    smiles = [text.strip() for text in dataset._data.smiles]
    return Collection(graph, groups=_find_groups(smiles, data_root() / entry.raw / "scaffolds.npz"), names=smiles)


def _read_folds(name: str) -> NDArray[np.int64]:
    """Read published folds, a line each: 0, 1 or 2 for every graph, the part that it belongs to."""
    lines = (resources.files("gpm.data") / name).read_text(encoding="utf-8").split()
    return np.array([[int(part) for part in line] for line in lines]).T


def read_compact(path: Path) -> Graph:
    """Read a collection from one file: `row` and `col` `[E]`, one direction of each edge, nodes counted through all
    graphs; `num_nodes` `[G]` and `label` `[G]`.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            row, col, num_nodes, label = (stored[key] for key in ("row", "col", "num_nodes", "label"))
    except Exception as error:  # whatever a damaged archive makes its readers raise
        raise GpmError(
            f"{path} is not a compact collection ({type(error).__name__}); replace or remove the file."
        ) from None
    graph_ptr = np.concatenate([[0], np.cumsum(num_nodes, dtype=np.int64)])
    return Graph.from_edges(
        np.stack([row, col]), int(graph_ptr[-1]), y=label.astype(np.int64), graph_ptr=graph_ptr, undirected=True
    )


def allow_pyg_data() -> None:
    """Let torch read files with a PyG `Data`, as PyG asks on import.

    Naming `Data` in `torch.serialization.safe_globals` withdraws that permission when the block ends, and PyG would
    then execute the contents of a file rather than fail.
    """
    import torch
    from torch_geometric.data import Data

    torch.serialization.add_safe_globals([Data])


def _load(entry: Entry) -> Any:
    own: dict[str, Callable[[], Any]] = {
        "ogb": lambda: to_pyg(*load_ogb(entry.option("name"))),
        "ogbl": lambda: load_ogb_links(entry.option("name"))[0].to_pyg(),
        "motifs": lambda: planted_motifs().graph.to_pyg(),
        "fraud": lambda: planted_fraud().to_pyg(),
        "random": lambda: random_graph().to_pyg(),
        "trees": lambda: neighbour_trees(int(entry.option("depth"))).to_pyg(),
        "file": lambda: _load_file(entry),
        "IMDB": lambda: join_types(_load_pyg(entry)[0]),
    }
    if entry.loader in own:
        return [own[entry.loader]()]
    if entry.features:
        features = _read_features(entry)
        return [_replace_features(_load_pyg(entry)[0], features, entry)]
    compact = find_compact(entry)
    return read_compact(compact).to_pyg() if compact else _load_pyg(entry)


def _load_file(entry: Entry) -> Any:
    """Load a graph that is a single file without a known address, such as ACMv9 and DBLPv7 of domain adaptation."""
    copy_raw(entry.raw)
    path = data_root() / entry.raw / entry.option("file")
    if not path.is_file():
        raise GpmError(
            f"{entry.title} cannot be downloaded; put {path.name}, as gpm.data.network_files reads it, into "
            f"{path.parent}, or let GPM_RAW name a folder with {entry.raw}/{path.name}."
        )
    return _without_features(read_network(path)) if entry.featureless else read_network(path)


def _without_features(data: Any) -> Any:
    data.num_nodes = data.num_nodes  # which PyG else counts by the features
    data.x = None
    return data


def _read_features(entry: Entry) -> Any:
    """Read a sparse matrix of SciPy."""
    from scipy.sparse import load_npz

    if (file := find_file(entry.features)) is None:
        raise GpmError(f"{entry.title} cannot be downloaded; put {entry.features} below GPM_DATA or GPM_RAW.")
    try:
        return load_npz(file).tocsr()
    except Exception as error:  # whatever a damaged archive makes its readers raise
        raise GpmError(f"{file} is not a sparse matrix ({type(error).__name__}); replace the file.") from None


def _replace_features(data: Any, features: Any, entry: Entry) -> Any:
    import torch

    if features.shape[0] != data.num_nodes:
        rows = f"{features.shape[0]:,} rows for {data.num_nodes:,} nodes"
        raise GpmError(f"{entry.features} has {rows}; replace the file.")
    starts, columns = (torch.from_numpy(part.astype(np.int64)) for part in (features.indptr, features.indices))
    values = torch.from_numpy(features.data.astype(np.float32))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)", UserWarning)
        data.x = torch.sparse_csr_tensor(starts, columns, values, size=features.shape)
    return data


def _load_pyg(entry: Entry) -> Any:
    import torch_geometric.datasets
    from torch.utils.data import ConcatDataset
    from torch_geometric.transforms import Compose, ToUndirected

    loader = getattr(torch_geometric.datasets, entry.loader)
    if not entry.root:
        return loader()
    if entry.loader == "MoleculeNet" and find_spec("rdkit") is None:
        raise GpmError(f"{entry.title} needs RDKit; install it with pip install 'graph-pattern-machine[molecules]'.")
    allow_pyg_data()
    copy_raw(f"{entry.raw}/raw")
    raw = data_root() / entry.raw / "raw"
    if raw.is_dir() and not is_whole(entry, raw):
        raise GpmError(f"{raw} has the files of a smaller dataset than {entry.title}; replace or remove them.")
    root, options = str(data_root() / entry.root), dict[str, Any](entry.options)
    changes = [*[_without_features] * entry.featureless, *[ToUndirected()] * entry.undirected]
    if changes:
        options["transform"] = Compose(changes)
    with warnings.catch_warnings(), plain_pickles():
        # torch warns about every sparse tensor that is made or read, and PyG about each molecule that RDKit cannot
        # read: the user can do nothing about either
        warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)|Skipping molecule", UserWarning)
        if entry.loader == "ZINC":
            return ConcatDataset([loader(root, split=part, **options) for part in PARTS])
        return loader(root, **options)


def _find_groups(smiles: Sequence[str], file: Path) -> NDArray[np.int64]:
    """Find the scaffolds of molecules, kept in a file: they take a while, and are the same for the same molecules."""
    digest = hashlib.sha256("\n".join(smiles).encode()).hexdigest()
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            if str(stored["digest"]) == digest:
                return np.asarray(stored["groups"])
    except Exception:  # missing or damaged: they can be found again
        pass
    groups = find_scaffolds(smiles)
    with replacing(file) as scratch, scratch.open("wb") as output:
        np.savez(output, groups=groups, digest=np.array(digest))
    return groups
