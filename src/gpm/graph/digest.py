"""A digest of a graph, by which a run recognises the data it was trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.base_graph import BaseGraph
from gpm.io.atomic import read_json
from gpm.io.manifest import HEADER

READ_WHOLE = 2**30  # bytes: a larger graph in a folder is identified by the checksum of its header


def digest_data(graph: BaseGraph, source: str | Path = "") -> str:
    """Return a text that identifies the edges, features, labels and names of a graph.

    A graph folder (`source`) of a gigabyte or more goes by the checksum of its header, which holds those of its arrays.
    """
    arrays = dict(_digested_arrays(graph))
    mapped = graph.folder is not None  # else it was put together from several graphs
    if mapped and sum(array.nbytes for array in arrays.values()) >= READ_WHOLE and (checksum := _read_checksum(source)):
        return f"folder:{checksum}"
    digest = hashlib.blake2b(digest_size=16)
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.newbyteorder('<').str} {array.shape}\n".encode())
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(plain.reshape(-1).view(np.uint8).data if plain.size else b"")
    return f"blake2b:{digest.hexdigest()}"


def check_digest(graph: BaseGraph, digest: str, folder: Path, source: str) -> None:
    """Refuse a graph that is no longer the one a run was trained on; a run without a digest takes any graph.

    The run folder has the digest as its `data_digest`, and its options name the source, relative to the folder.
    """
    trained_on = digest.partition(" ")[0]  # only the first word describes the graph
    if not trained_on:
        return
    current = digest_data(graph, folder / source)
    if current.partition(":")[0] == trained_on.partition(":")[0] and current != trained_on:
        raise GpmError(
            f"{source or 'The graph'} is no longer what {folder} was trained on: its edges, features, "
            "labels or names have changed; train again, or predict on it as another graph with --on."
        )


def _digested_arrays(graph: BaseGraph) -> Iterator[tuple[str, NDArray]]:
    for name, array in graph.arrays().items():
        if name != "edge_cdf":  # derived from the weights
            yield name, array
        if name.endswith(".data"):
            field = name.removesuffix(".data")
            yield f"{field}.shape", np.array(getattr(graph, field).shape)


def _read_checksum(source: str | Path) -> str:
    header = Path(source).expanduser() / HEADER
    return str(read_json(header, "save the graph again").get("checksum", "")) if source and header.is_file() else ""
