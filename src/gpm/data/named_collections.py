"""The named collections of graphs: each one graph, with what goes along with it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import find_compact, find_entry, load_dataset
from gpm.data.splits import Masks
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.io.atomic import replacing
from gpm.io.cache import data_root


class Collection(NamedTuple):
    """A collection as it was published.

    Attributes:
        graph: All graphs as one, with their labels as they come.
        masks: The published split over the graphs.
        groups: The scaffold of each molecule `[G]`.
        names: The SMILES of each molecule.
    """

    graph: Graph
    masks: Masks | None = None
    groups: NDArray[np.int64] | None = None
    names: list[str] | None = None


def open_collection(name: str) -> Collection:
    """Load a named collection, by whole arrays where PyG keeps it in such."""
    entry = find_entry(name)
    if compact := find_compact(entry):
        return Collection(read_compact(compact))
    dataset = load_dataset(name)
    graph = Graph.from_pyg(dataset)
    if entry.loader == "ZINC":
        return Collection(graph, masks=_one_after_another([len(part) for part in dataset.datasets]))
    if entry.loader != "MoleculeNet":
        return Collection(graph)
    smiles = [text.strip() for text in dataset._data.smiles]
    return Collection(graph, groups=_find_groups(smiles, data_root() / entry.raw / "scaffolds.npz"), names=smiles)


def read_compact(path: Path) -> Graph:
    """Read a collection from one file: `row` and `col` `[E]`, one direction of each edge, nodes counted through all
    graphs; `num_nodes` `[G]` and `label` `[G]`.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            row, col, num_nodes, label = (stored[key] for key in ("row", "col", "num_nodes", "label"))
    except Exception as error:  # whatever a damaged archive makes its readers raise
        raise GpmError(
            f"{path} is no compact collection ({type(error).__name__}); replace or remove the file."
        ) from None
    graph_ptr = np.concatenate([[0], np.cumsum(num_nodes, dtype=np.int64)])
    return Graph.from_edges(
        np.stack([row, col]), int(graph_ptr[-1]), y=label.astype(np.int64), graph_ptr=graph_ptr, undirected=True
    )


def _one_after_another(sizes: list[int]) -> Masks:
    part = np.repeat(np.arange(3), sizes)
    return Masks(part == 0, part == 1, part == 2)


def _find_groups(smiles: Sequence[str], file: Path) -> NDArray[np.int64]:
    """The scaffolds of molecules, kept in a file: they take a while, and of the same molecules are always the same."""
    digest = hashlib.sha256("\n".join(smiles).encode()).hexdigest()
    if (kept := _read_groups(file, digest)) is not None:
        return kept
    from gpm.data.molecules import find_scaffolds

    groups = find_scaffolds(smiles)
    with replacing(file) as scratch, scratch.open("wb") as output:
        np.savez(output, groups=groups, digest=np.array(digest))
    return groups


def _read_groups(file: Path, digest: str) -> NDArray[np.int64] | None:
    try:
        with file.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            return np.asarray(stored["groups"]) if str(stored["digest"]) == digest else None
    except Exception:  # not there, or damaged: they can be found again
        return None
