"""Positional embeddings and other columns that are slow to compute, cached in the data folder under a digest."""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.folder import read_header
from gpm.graph.graph import Graph
from gpm.io.atomic import WriteError, check_plain, replacing
from gpm.io.cache import data_root, remove_oldest
from gpm.io.npy import GrowingArray, MappedArray, create_array, map_array

_log = logging.getLogger("gpm")
_MOST_FILES = 32
_MOST_COLUMNS, _MOST_LARGE = 8, 4  # files of columns, and of those that are too large for memory
_SAMPLE = 64  # entries to read of an array whose checksum is stored


def keep_positions(graph: Graph, name: str, dim: int, find: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return positional embeddings of a graph `[N, dim]`: mapped from the cache, or computed by `find` and cached.

    They depend on the edges and weights of the graph and on the parameters that stand in `name`.
    """
    path = data_root() / "positions" / f"{name}-{digest_edges(graph)}.npy"
    return _keep(path, (graph.num_nodes, dim), find, "positional embeddings", 1.001, _MOST_FILES)


def keep_columns(name: str, shape: tuple[int, ...], find: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return columns of numbers: mapped from the cache, or computed by `find` and cached.

    `name` has a digest of everything that they depend on.
    """
    path, most = data_root() / "columns" / f"{name}.npy", float(np.finfo(np.float32).max)
    return _keep(path, shape, find, "columns", most, _MOST_COLUMNS)


def fill_columns(name: str, shape: tuple[int, ...], fill: Callable[[NDArray[np.float32]], None]) -> NDArray[np.float32]:
    """Return columns that are too large for memory: mapped from the cache, where `fill` writes them at first."""
    path = data_root() / "large-columns" / f"{name}.npy"
    if (kept := _read(path, shape, None)) is not None:
        _log.info("columns read from %s.", path)
        return kept
    size = 4 * math.prod(shape) / 1e9
    _log.info("columns of %.1f GB are computed and written to %s.", size, path)
    try:
        with replacing(path) as scratch:
            fill(create_array(scratch, np.float32, shape))
    except WriteError as error:
        raise GpmError(f"{str(error).rstrip('.')} ({size:.1f} GB); set GPM_DATA to another folder.") from None
    remove_oldest(path.parent, _MOST_LARGE)
    kept = _read(path, shape, None)
    assert kept is not None
    return kept


def _keep(
    path: Path, shape: tuple[int, ...], find: Callable[[], NDArray[np.float32]], what: str, most: float, files: int
) -> NDArray[np.float32]:
    kept = _read(path, shape, most)
    if kept is not None:
        _log.info("%s read from %s.", what, path)
        return kept
    found = find()
    try:
        with replacing(path) as scratch, GrowingArray(scratch, np.float32, shape[1:]) as file:
            file.append(found)
    except GpmError as error:  # they are computed again the next time
        _log.warning("%s are not cached: %s", what, error)
    remove_oldest(path.parent, files)
    return found


def digest_edges(graph: Graph) -> str:
    """Return a digest of the edges and weights of a graph; if they are mapped from a folder, of its header."""
    return _digest(graph, {"indptr": graph.indptr, "indices": graph.indices, "edge_weight": graph.edge_weight})


def digest_features(graph: Graph) -> str:
    """Return a digest of the node features of a graph, as that of its edges."""
    if not sp.issparse(graph.x):
        return _digest(graph, {"x": graph.x})
    return _digest(graph, {f"x_{part}": getattr(graph.x, part) for part in ("data", "indices", "indptr")})


def digest_array(array: NDArray | None) -> str:
    """Return a digest of an array in memory; empty for None."""
    if array is None:
        return ""
    return hashlib.blake2b(np.ascontiguousarray(array).view(np.uint8).data, digest_size=16).hexdigest()


def _digest(graph: Graph, arrays: dict[str, NDArray | None]) -> str:
    there = {name: array for name, array in arrays.items() if array is not None}
    checksum = _header_checksum(graph, there)
    digest = hashlib.blake2b(checksum.encode(), digest_size=16)
    for name, array in there.items():
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        sample = array[:: len(array) // _SAMPLE + 1] if checksum else array
        digest.update(np.ascontiguousarray(sample).view(np.uint8).data)
    return digest.hexdigest()


def _header_checksum(graph: Graph, arrays: dict[str, NDArray]) -> str:
    """Return the checksum in the header of a graph's folder; empty if the arrays are not those of a folder."""
    folder = graph.folder
    if folder is None:
        return ""
    for name, array in arrays.items():
        mapped = MappedArray.of(array)  # a graph with other edges may have been made from the one in the folder
        if mapped is None or mapped.path != str(folder / f"{name}.npy"):
            return ""
    with suppress(GpmError, OSError):
        return read_header(folder).checksum
    return ""


def _read(path: Path, shape: tuple[int, ...], most: float | None) -> NDArray[np.float32] | None:
    """Return a cached array; None if there is none, or if it cannot be right: no number lies beyond `most`."""
    with suppress(GpmError, OSError):
        check_plain(path)
        with path.open("rb") as file:
            kept = map_array(file, path)
        fits = kept.shape == shape and kept.dtype == np.float32 and kept.flags.c_contiguous
        if fits and (most is None or not kept.size or (kept.min() >= -most and kept.max() <= most)):
            return kept.view(np.ndarray)
        _log.warning("%s is damaged and not read.", path)
    return None
