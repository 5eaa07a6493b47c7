"""Positional embeddings that are slow to compute, cached in the data folder under a digest of the graph's edges."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.folder import read_header
from gpm.graph.graph import Graph
from gpm.io.atomic import check_plain, replacing
from gpm.io.cache import data_root, remove_oldest
from gpm.io.npy import GrowingArray, MappedArray, map_array

_log = logging.getLogger("gpm")
_MOST_FILES = 32
_SAMPLE = 64  # entries to read of an array whose checksum is stored


def keep_positions(graph: Graph, name: str, dim: int, find: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return positional embeddings of a graph `[N, dim]`: mapped from the cache, or computed by `find` and cached.

    They depend on the edges and weights of the graph and on the parameters that stand in `name`.
    """
    path = data_root() / "positions" / f"{name}-{digest_edges(graph)}.npy"
    kept = _read(path, (graph.num_nodes, dim))
    if kept is not None:
        _log.info("positional embeddings read from %s.", path)
        return kept
    found = find()
    try:
        with replacing(path) as scratch, GrowingArray(scratch, np.float32, (dim,)) as file:
            file.append(found)
    except GpmError as error:  # they are computed again the next time
        _log.warning("positional embeddings are not cached: %s", error)
    remove_oldest(path.parent, _MOST_FILES)
    return found


def digest_edges(graph: Graph) -> str:
    """Return a digest of the edges and weights of a graph; if they are mapped from a folder, of its header."""
    checksum = _header_checksum(graph)
    digest = hashlib.blake2b(checksum.encode(), digest_size=16)
    for name, array in _edge_arrays(graph).items():
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        sample = array[:: len(array) // _SAMPLE + 1] if checksum else array
        digest.update(np.ascontiguousarray(sample).view(np.uint8).data)
    return digest.hexdigest()


def _edge_arrays(graph: Graph) -> dict[str, NDArray]:
    arrays = {"indptr": graph.indptr, "indices": graph.indices, "edge_weight": graph.edge_weight}
    return {name: array for name, array in arrays.items() if array is not None}


def _header_checksum(graph: Graph) -> str:
    """Return the checksum in the header of a graph's folder; empty if its edges are not those of a folder."""
    folder = graph.folder
    if folder is None:
        return ""
    for name, array in _edge_arrays(graph).items():
        mapped = MappedArray.of(array)  # a graph with other edges may have been made from the one in the folder
        if mapped is None or mapped.path != str(folder / f"{name}.npy"):
            return ""
    with suppress(GpmError, OSError):
        return read_header(folder).checksum
    return ""


def _read(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    """Return a cached array; None if there is none, or if it cannot be right."""
    with suppress(GpmError, OSError):
        check_plain(path)
        with path.open("rb") as file:
            kept = map_array(file, path)
        fits = kept.shape == shape and kept.dtype == np.float32 and kept.flags.c_contiguous
        if fits and (not kept.size or (kept.min() >= -1.001 and kept.max() <= 1.001)):
            return kept.view(np.ndarray)
        _log.warning("%s is damaged and not read.", path)
    return None
