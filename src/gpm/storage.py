"""A graph as a folder: one `.npy` file per array and a JSON header; written whole or not at all, opened unread."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph import Census, Graph
from gpm.names import Names

FORMAT, VERSION, HEADER = "gpm-graph", 1, "graph.json"
VERIFY_BELOW = 64 * 2**20  # bytes: smaller graphs are always read whole and compared with their checksums
_PIECE, _PIECES = 4096, 64  # bytes and number of the pieces of each file that a quick check reads
_SPARSE = ("data", "indices", "indptr")


def save_graph(graph: Graph, folder: Path, *, overwrite: bool = False) -> Path:
    """Write a graph as a folder that `open_graph` maps.

    The folder is made under a temporary name, synced and renamed: it is there complete, or not at all.

    Args:
        folder: Where to write; must not exist, unless `overwrite` and it is a saved graph.
        overwrite: Replace a graph saved there before.
    """
    folder = folder.absolute()
    if folder.exists() and not (overwrite and (folder / HEADER).is_file()):
        fix = "it is no saved graph; choose another folder" if overwrite else "choose another or pass overwrite=True"
        raise GpmError(f"{folder} exists already: {fix}.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise GpmError(f"cannot write {folder}: {error.strerror}.") from None
    try:
        arrays = {key: _write(scratch / f"{key}.npy", array) for key, array in _arrays(graph).items()}
        header = {"format": FORMAT, "version": VERSION} | graph.header() | {"arrays": arrays}
        header["sparse"] = {key: list(value.shape) for key, value in vars(graph).items() if sp.issparse(value)}
        header["checksum"] = _header_checksum(header)
        _write_text(scratch / HEADER, json.dumps(header, indent=1) + "\n")
        scratch.chmod(0o755)
        _replace(scratch, folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return folder


def open_graph(folder: Path, *, verify: bool | None = None) -> Graph:
    """Open a saved graph; its arrays stay on disk until they are touched.

    Args:
        folder: What `save_graph` wrote.
        verify: Read every byte and compare checksums. By default for graphs below 64 MB; of larger ones the header, the
            sizes and 64 pieces of every file are checked, which takes milliseconds whatever the size.
    """
    header = _read_header(folder)
    listed: dict[str, dict[str, Any]] = header["arrays"]
    full = sum(entry["bytes"] for entry in listed.values()) < VERIFY_BELOW if verify is None else verify
    arrays = {key: _map(folder / f"{key}.npy", entry, full) for key, entry in listed.items()}
    parts: dict[str, Any] = {key: arrays[key] for key in arrays if "." not in key}
    for key, shape in header["sparse"].items():
        data, indices, indptr = (arrays[f"{key}.{part}"] for part in _SPARSE)
        parts[key] = sp.csr_array((data, indices, indptr), shape=tuple(shape), copy=False)
    if names := {key.removeprefix("names."): arrays[key] for key in arrays if key.startswith("names.")}:
        parts["names"] = Names.from_arrays(names)
    census = Census(**{field.name: header[field.name] for field in fields(Census)})
    graph = Graph(census=census, **parts)
    if graph.indptr[0] != 0 or graph.indptr[-1] != graph.num_edges:
        raise GpmError(f"{folder} is damaged: its row pointers do not cover its edges; save the graph again.")
    return graph


def _arrays(graph: Graph) -> dict[str, NDArray]:
    """Every array of a graph under the name of its file."""
    arrays: dict[str, NDArray] = {}
    for field in fields(Graph):
        value = getattr(graph, field.name)
        if sp.issparse(value):
            arrays |= {f"{field.name}.{part}": getattr(value, part) for part in _SPARSE}
        elif isinstance(value, Names):
            arrays |= {f"{field.name}.{key}": array for key, array in value.arrays().items()}
        elif isinstance(value, np.ndarray):
            arrays[field.name] = value
    return arrays


def _write(path: Path, array: NDArray) -> dict[str, Any]:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    return {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "bytes": path.stat().st_size,
        "sample": _digest_sample(path),
        "sha256": _digest(path),
    }


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _replace(scratch: Path, folder: Path) -> None:
    """Put a finished folder in its place, and an older one out of it, by renaming."""
    old = None
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
        folder.rename(old / "graph")
    try:
        scratch.rename(folder)
    except BaseException:
        if old is not None:
            (old / "graph").rename(folder)
            old.rmdir()
        raise
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(folder.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_sample(path: Path) -> str:
    """Digest of pieces spread evenly over a file, both ends among them: quick whatever the size."""
    digest, last = hashlib.sha256(), max(0, path.stat().st_size - _PIECE)
    with path.open("rb") as file:
        for i in range(_PIECES):
            file.seek(last * i // (_PIECES - 1))
            digest.update(file.read(_PIECE))
    return digest.hexdigest()


def _header_checksum(header: dict[str, Any]) -> str:
    facts = {key: value for key, value in header.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _read_header(folder: Path) -> dict[str, Any]:
    path = folder / HEADER
    if not path.is_file():
        raise GpmError(f"{folder} is no saved graph: it has no {HEADER}.")
    try:
        header: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if header["format"] != FORMAT:
            raise ValueError
    except (ValueError, KeyError, TypeError, UnicodeDecodeError, RecursionError):
        raise GpmError(f"{path} is not a graph header; save the graph again.") from None
    if header.get("version") != VERSION:
        raise GpmError(f"{path} has format version {header.get('version')}; this gpm reads version {VERSION}.")
    if header.get("checksum") != _header_checksum(header):
        raise GpmError(f"{path} was altered: its checksum does not match; save the graph again.")
    return header


def _map(path: Path, entry: dict[str, Any], full: bool) -> NDArray:
    size = path.stat().st_size if path.is_file() and not path.is_symlink() else None
    if size is None:
        raise GpmError(f"{path} is missing; save the graph again.")
    if size != entry["bytes"]:
        raise GpmError(
            f"{path} has {size:,} bytes instead of {entry['bytes']:,}; it was cut or altered, save it again."
        )
    intact = _digest(path) == entry["sha256"] if full else _digest_sample(path) == entry["sample"]
    if not intact:
        raise GpmError(f"{path} was altered: its checksum does not match; save the graph again.")
    empty = 0 in entry["shape"]
    array: NDArray = np.load(path, mmap_mode=None if empty else "r", allow_pickle=False)
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise GpmError(f"{path} is not the array that the header describes; save the graph again.")
    return array
