"""A graph as a folder: one `.npy` file per array and a JSON header; written whole or not at all, opened unread."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from gpm.errors import GpmError
from gpm.graph import validate as soundness
from gpm.graph.graph import Census, Graph
from gpm.graph.header import (
    EXTRA,
    FILE,
    FIX,
    FORMAT,
    HEADER,
    KEY,
    SPARSE,
    VERSION,
    digest,
    digest_sample,
    header_checksum,
    map_checked,
    open_checked,
    read_header,
)  # fmt: skip
from gpm.graph.names import Names
from gpm.io.npy import GrowingArray, create_array, map_array
from gpm.io.publish import claiming, publish, scratch_for

__all__ = ["HEADER", "GraphWriter", "open_graph", "read_extras", "save_graph", "writing_graph"]
VERIFY_BELOW = 64 * 2**20  # bytes: smaller graphs are always read whole and compared with their checksums


class GraphWriter:
    """Makes a graph's folder array by array; see `writing_graph`.

    Attributes:
        folder: What it is to be.
        scratch: Room on the same disk for whatever else is needed meanwhile; gone at the end.
    """

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder, self.scratch, self._made = folder, scratch, scratch / "graph"
        self._made.mkdir()

    def path(self, key: str) -> Path:
        """The file of an array, such as "indices", "x.data", "names.bytes" or "extra.part"."""
        assert KEY.fullmatch(key), key
        return self._made / f"{key}.npy"

    def put(self, key: str, array: NDArray) -> None:
        """Write an array that is in memory."""
        with self.grow(key, array.dtype, array.shape[1:]) as file:
            file.append(array)

    def create(self, key: str, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray:
        """Make an array of zeros and map it for writing; its room on the disk is taken at once."""
        return create_array(self.path(key), dtype, shape)

    def grow(self, key: str, dtype: DTypeLike, row: tuple[int, ...] = ()) -> GrowingArray:
        """Begin an array to which rows are appended."""
        return GrowingArray(self.path(key), dtype, row)

    def finish(
        self,
        census: Census,
        *,
        sparse: Mapping[str, tuple[int, ...]] | None = None,
        facts: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Path:
        """Write the header, sync all and put the folder in its place.

        Args:
            census: What the edges looked like.
            sparse: Shapes of sparse features, which stand in arrays "x.data", "x.indices", "x.indptr".
            facts: Whatever else is to be known of the graph, as `read_extras` returns it.
            files: Further text files, by name.
        """
        listed = {name: _write_text(self._made / name, text) for name, text in (files or {}).items()}
        arrays = {path.stem: _describe(path) for path in sorted(self._made.glob("*.npy"))}
        count = {key: arrays[key]["shape"][0] for key in ("indptr", "indices", "graph_ptr") if key in arrays}
        header: dict[str, Any] = {"format": FORMAT, "version": VERSION, "num_nodes": count["indptr"] - 1}
        header |= {"num_edges": count["indices"], "num_graphs": count.get("graph_ptr", 2) - 1} | asdict(census)
        header |= {"arrays": arrays, "sparse": {key: list(shape) for key, shape in (sparse or {}).items()}}
        header |= {"facts": dict(facts)} if facts else {}
        header |= {"files": listed} if listed else {}
        header = json.loads(json.dumps(header))  # as it will be read: the checksum is over that
        header["checksum"] = header_checksum(header)
        _write_text(self._made / HEADER, json.dumps(header, indent=1) + "\n")
        publish(self._made, self.folder)
        if not _is_small(header):
            soundness.note(header["checksum"], [self.folder / f"{key}.npy" for key in arrays])
        return self.folder


@contextmanager
def writing_graph(folder: Path, *, overwrite: bool = False) -> Iterator[GraphWriter]:
    """Make a graph's folder in the block; it appears with `finish`, and without it nothing stays.

    Args:
        folder: Where to write; must not exist, unless `overwrite` and it is a saved graph.
        overwrite: Replace a graph saved there before, which stays until the new one is complete.
    """
    folder = folder.absolute()
    with claiming(folder):
        _check_free(folder, overwrite)
        with scratch_for(folder) as scratch:
            yield GraphWriter(folder, scratch)


def save_graph(
    graph: Graph,
    folder: Path,
    *,
    overwrite: bool = False,
    facts: Mapping[str, Any] | None = None,
    extras: Mapping[str, NDArray] | None = None,
) -> Path:
    """Write a graph as a folder that `open_graph` maps, with what `read_extras` returns. See `writing_graph`."""
    with writing_graph(folder, overwrite=overwrite) as writer:
        for key, array in (
            _arrays(graph) | {f"{EXTRA}{name}": array for name, array in (extras or {}).items()}
        ).items():
            writer.put(key, array)
        sparse = {key: value.shape for key, value in vars(graph).items() if sp.issparse(value)}
        return writer.finish(graph.census, sparse=sparse, facts=facts)


def open_graph(folder: Path, *, verify: bool | None = None) -> Graph:
    """Open a saved graph; its arrays stay on disk until they are touched.

    Args:
        folder: What `save_graph` wrote.
        verify: Read every byte and compare checksums. By default for graphs below 64 MB; of larger ones the header, the
            sizes and 64 pieces of every file are checked, which takes milliseconds whatever the size. A large graph
            that was neither written nor opened here before is read through once, see `gpm.graph.validate`.
    """
    header = read_header(folder)
    listed: dict[str, dict[str, Any]] = header["arrays"]
    small = _is_small(header)
    full = small if verify is None else verify
    for name, entry in header.get("files", {}).items():
        open_checked(folder / name, entry, full=True).close()
    arrays = {key: map_checked(folder, key, listed[key], full) for key in listed if not key.startswith(EXTRA)}
    graph = _build(folder, header, arrays)
    files = [folder / f"{key}.npy" for key in listed]
    if small or full or not soundness.is_noted(header["checksum"], files):
        if fault := soundness.find_fault(graph):
            raise _damaged(folder, fault)
        if not small:
            soundness.note(header["checksum"], files)
    return graph


def read_extras(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """The facts of a saved graph, and its arrays "extra.NAME" by name; both empty if it was saved without."""
    header = read_header(folder)
    extras = {key: entry for key, entry in header["arrays"].items() if key.startswith(EXTRA)}
    arrays = {key: map_checked(folder, key, entry, entry["bytes"] < VERIFY_BELOW) for key, entry in extras.items()}
    return header.get("facts", {}), {key.removeprefix(EXTRA): array for key, array in arrays.items()}


def _build(folder: Path, header: dict[str, Any], arrays: dict[str, NDArray]) -> Graph:
    parts: dict[str, Any] = {key: array for key, array in arrays.items() if "." not in key}
    try:
        for key, shape in header["sparse"].items():
            data, indices, indptr = (arrays[f"{key}.{part}"] for part in SPARSE)
            if data.dtype.str not in ("<f4", "<f8") or {indices.dtype.str, indptr.dtype.str} - {"<i4", "<i8"}:
                raise ValueError
            parts[key] = sp.csr_array((data, indices, indptr), shape=tuple(shape), copy=False)
    except (ValueError, TypeError, KeyError, OverflowError):
        raise _damaged(folder, f"the pieces of {key} do not fit together") from None
    if names := {key.removeprefix("names."): arrays[key] for key in arrays if key.startswith("names.")}:
        parts["names"] = Names.from_arrays(names)
    census = Census(**{field.name: header[field.name] for field in fields(Census)})
    try:
        return Graph(census=census, folder=folder.absolute(), **parts)
    except (GpmError, TypeError) as error:
        raise _damaged(folder, str(error).rstrip(".")) from None


def _arrays(graph: Graph) -> dict[str, NDArray]:
    """Every array of a graph under the name of its file."""
    arrays: dict[str, NDArray] = {}
    for field in fields(Graph):
        value = getattr(graph, field.name)
        if sp.issparse(value):
            arrays |= {f"{field.name}.{part}": getattr(value, part) for part in SPARSE}
        elif isinstance(value, Names):
            arrays |= {f"{field.name}.{key}": array for key, array in value.arrays().items()}
        elif isinstance(value, np.ndarray):
            arrays[field.name] = value
    return arrays


def _is_small(header: dict[str, Any]) -> bool:
    return bool(sum(entry["bytes"] for entry in header["arrays"].values()) < VERIFY_BELOW)


def _check_free(folder: Path, overwrite: bool) -> None:
    """Refuse to write where something is that would be lost."""
    if not (folder.exists() or folder.is_symlink()):
        return
    if not overwrite:
        raise GpmError(f"{folder} exists already: choose another, or replace it with --overwrite (overwrite=True).")
    if folder.is_symlink() or not (folder / HEADER).is_file():
        raise GpmError(f"{folder} exists already: it is no saved graph; choose another folder.")
    try:
        listed = set(read_header(folder).get("files", ()))
    except GpmError:  # a damaged graph may be replaced
        listed = {"import.yaml"}
    for path in folder.iterdir():
        if not (path.name.startswith(".") or path.name in {HEADER, *listed} or path.suffix == ".npy"):
            raise GpmError(f"{folder} also holds {path.name}, which is none of the graph's files; move it away.")


def _write_text(path: Path, text: str) -> dict[str, Any]:
    assert FILE.fullmatch(path.name), path
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    with path.open("rb") as written:
        return {"bytes": path.stat().st_size, "sha256": digest(written)}


def _describe(path: Path) -> dict[str, Any]:
    """Sync an array, and say what it is."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        array = map_array(file, path)
        shape = {"dtype": array.dtype.str, "shape": list(array.shape), "bytes": path.stat().st_size}
        return shape | {"sample": digest_sample(file), "sha256": digest(file)}


def _damaged(folder: Path, fault: str) -> GpmError:
    return GpmError(f"{folder} is damaged: {fault}; {FIX}.")
