"""What took long to find of a large graph, kept in the data root until the graph is another."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.io.atomic import check_plain, replacing
from gpm.io.cache import data_root, remove_oldest
from gpm.io.npy import GrowingArray, map_array

_log = logging.getLogger("gpm")
_MOST_FILES = 32
_SAMPLE = 64  # entries of an array of which the checksum is known


def keep_positions(graph: Graph, name: str, dim: int, find: Callable[[], NDArray[np.float32]]) -> NDArray[np.float32]:
    """Positional embeddings of a graph `[N, dim]`: mapped if they were found before, else found and kept.

    Args:
        graph: The graph; only its edges and weights count.
        name: What is found, with all that it depends on besides.
        dim: Columns.
        find: Finds it.
    """
    path = data_root() / "positions" / f"{name}-{digest_edges(graph)}.npy"
    kept = _read(path, (graph.num_nodes, dim))
    if kept is not None:
        _log.info("positional embeddings are those in %s.", path)
        return kept
    found = find()
    try:
        with replacing(path) as scratch, GrowingArray(scratch, np.float32, (dim,)) as file:
            file.append(found)
    except GpmError as error:  # they are found again the next time
        _log.warning("positional embeddings are not kept: %s", error)
    remove_oldest(path.parent, _MOST_FILES)
    return found


def digest_edges(graph: Graph) -> str:
    """What the edges and weights of a graph are, as a text; of arrays mapped from a folder its header says it."""
    checksum = _header_checksum(graph)
    digest = hashlib.blake2b(checksum.encode(), digest_size=16)
    for name in ("indptr", "indices", "edge_weight"):
        array = getattr(graph, name)
        if array is not None:
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            sample = array[:: len(array) // _SAMPLE + 1] if checksum else array
            digest.update(np.ascontiguousarray(sample).view(np.uint8).data)
    return digest.hexdigest()


def _header_checksum(graph: Graph) -> str:
    """The checksum of the header of a graph's folder; empty if its edges are not those in a folder."""
    from gpm.graph.header import read_header

    folder = graph.folder
    if folder is None:
        return ""
    for name in ("indptr", "indices", "edge_weight"):
        array = getattr(graph, name)
        if array is not None and not _is_mapped(array, folder / f"{name}.npy"):
            return ""
    with suppress(GpmError, OSError):
        return read_header(folder).checksum
    return ""


def _is_mapped(array: NDArray, path: Path) -> bool:
    """Whether an array is a whole file: a graph may have been made from one with other edges."""
    whole: Any = array
    while isinstance(whole, np.ndarray) and not isinstance(whole, np.memmap):
        whole = whole.base
    if not isinstance(whole, np.memmap) or str(whole.filename) != str(path):
        return False
    return bool(whole.shape == array.shape and whole.ctypes.data == array.ctypes.data)


def _read(path: Path, shape: tuple[int, int]) -> NDArray[np.float32] | None:
    """A kept array; None if there is none, or none that can be right."""
    with suppress(GpmError, OSError):
        check_plain(path)
        with path.open("rb") as file:
            kept = map_array(file, path)
        fits = kept.shape == shape and kept.dtype == np.float32 and kept.flags.c_contiguous
        if fits and (not kept.size or (kept.min() >= -1.001 and kept.max() <= 1.001)):
            return kept.view(np.ndarray)
        _log.warning("%s is damaged and not read.", path)
    return None
