"""A graph as a folder: one `.npy` file per array and `graph.json`; written atomically, mapped when opened.

`graph.json` is the manifest, which also describes the arrays. The folder may come from anywhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import scipy.sparse as sp
from msgspec import Struct, field
from numpy.typing import DTypeLike, NDArray

from gpm.errors import GpmError
from gpm.graph import validate
from gpm.graph.base_graph import SPARSE, BaseGraph, Census
from gpm.graph.names import Names
from gpm.io import manifest
from gpm.io.json_schema import Count, check_json
from gpm.io.manifest import HEADER, Entry, Manifest, describe_file, open_checked
from gpm.io.npy import GrowingArray, map_array
from gpm.io.publish import claiming, publish, scratch_for, settle

__all__ = ["HEADER", "GraphWriter", "open_graph", "read_extras", "read_header", "save_graph", "writing_graph"]
AnyGraph = TypeVar("AnyGraph", bound=BaseGraph)
VERIFY_BELOW = 64 * 2**20  # bytes: smaller graphs are always read completely and compared with their checksums
FIX = manifest.FIXES[HEADER]
EXTRA = "extra."  # the prefix of arrays that are not the graph's own
_DENSE = [each.name for each in fields(BaseGraph) if each.name not in ("census", "names", "folder")]
_PIECEWISE = (r"(x|edge_attr)\.(data|indices|indptr)", r"names\.(integers|bytes|pointer)", r"extra\.[a-z0-9_]{1,64}")
KEY = re.compile("|".join((*_DENSE, *_PIECEWISE)))
FILE = re.compile(r"[a-z][a-z0-9_-]{0,63}\.(yaml|json|txt|md|csv)")
_UNKNOWN = Census(False, 0, 0, 0, 0, False, False, False)  # until `read_header` replaces it


class _Facts(Struct):
    """The keys of `facts` that gpm reads; each may be missing."""

    task: Literal["node", "link", "graph"] = "node"
    title: str = ""
    kind: Literal["", "classes", "labels", "values"] = ""
    targets: list[str] = []
    classes: list[str] = []
    graphs: list[str] = []
    unseen: list[str] = []
    schema: dict[str, Any] = {}
    encoding: dict[str, Any] = {}
    order: Literal["given", "degree", "locality"] = "given"


class Header(Manifest, kw_only=True):
    """The content of `graph.json`."""

    sparse: dict[str, tuple[Count, Count]]  # shapes of sparse features
    facts: dict[str, Any] = field(default_factory=dict)  # further metadata, as they were passed to `save_graph`
    checksum: str  # digest of the other content
    census: Census = _UNKNOWN  # which the file keeps among its own keys

    def __post_init__(self) -> None:
        super().__post_init__()
        sparse = [key for key in ("x", "edge_attr") if {f"{key}.{part}" for part in SPARSE} <= set(self.arrays)]
        wrong = [f"array {key!r}" for key in self.arrays if not KEY.fullmatch(key)]
        wrong += [f"file {key!r}" for key in self.files if not FILE.fullmatch(key) or key == HEADER]
        wrong += [f"sparse {key!r}" for key in self.sparse if key not in sparse or key in self.arrays]
        if wrong:
            raise ValueError(f"its {wrong[0]} is none that a graph has")
        if not {"indptr", "indices"} <= set(self.arrays):
            raise ValueError("it lists no indptr and indices")

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays on disk."""
        return sum(entry.bytes for entry in self.arrays.values())


class GraphWriter:
    """Writer of a graph folder, array by array, with a scratch folder on the same disk; see `writing_graph`."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder, self.scratch, self._made = folder, scratch, scratch / "graph"
        self._made.mkdir()

    def path(self, key: str) -> Path:
        """Return the file of an array, such as "indices", "x.data", "names.bytes" or "extra.part"."""
        assert KEY.fullmatch(key), key
        return self._made / f"{key}.npy"

    def put(self, key: str, array: NDArray) -> None:
        """Write an array that is in memory."""
        with self.grow(key, array.dtype, array.shape[1:]) as file:
            file.append(array)

    def grow(self, key: str, dtype: DTypeLike, row: tuple[int, ...] = ()) -> GrowingArray:
        """Start an array to which rows are appended."""
        return GrowingArray(self.path(key), dtype, row)

    def finish(
        self,
        census: Census,
        *,
        sparse: Mapping[str, tuple[int, ...]] | None = None,
        facts: Mapping[str, Any] | None = None,
        files: Mapping[str, str] | None = None,
    ) -> Path:
        """Write the header, sync all files and publish the folder.

        Sparse features are given by their shapes; their arrays are "x.data", "x.indices" and "x.indptr". `read_extras`
        returns the `facts`. `files` are further texts by file name.
        """
        listed = {name: _write_text(self._made / name, text) for name, text in (files or {}).items()}
        arrays = {path.stem: _describe(path) for path in sorted(self._made.glob("*.npy"))}
        count = {key: arrays[key]["shape"][0] for key in ("indptr", "indices", "graph_ptr") if key in arrays}
        header: dict[str, Any] = {"format": manifest.FORMATS[HEADER], "version": manifest.VERSION}
        header |= {"num_nodes": count["indptr"] - 1, "num_edges": count["indices"]}
        header |= {"num_graphs": count.get("graph_ptr", 2) - 1} | asdict(census)
        header |= {"arrays": arrays, "sparse": {key: list(shape) for key, shape in (sparse or {}).items()}}
        header |= {"facts": dict(facts)} if facts else {}
        header |= {"files": listed} if listed else {}
        header = json.loads(json.dumps(header))  # as it will be read: the checksum is computed from that
        header["checksum"] = manifest.checksum_of(header)
        _write_text(self._made / HEADER, json.dumps(header, indent=1) + "\n")
        publish(self._made, self.folder)
        if sum(entry["bytes"] for entry in arrays.values()) >= VERIFY_BELOW:
            validate.remember(header["checksum"], [self.folder / f"{key}.npy" for key in arrays])
        return self.folder


@contextmanager
def writing_graph(folder: Path, *, overwrite: bool = False) -> Iterator[GraphWriter]:
    """Make a graph folder in the block; it appears with `finish`, and without it nothing is left.

    It must not exist, unless it is a saved graph to overwrite, which stays until the new one is complete.
    """
    folder = folder.absolute()
    with claiming(folder):
        _check_free(folder, overwrite)
        with scratch_for(folder) as scratch:
            yield GraphWriter(folder, scratch)


def save_graph(
    graph: BaseGraph,
    folder: Path,
    *,
    overwrite: bool = False,
    facts: Mapping[str, Any] | None = None,
    extras: Mapping[str, NDArray] | None = None,
) -> Path:
    """Write a graph as a folder for `open_graph`, with metadata and arrays for `read_extras`. See `writing_graph`."""
    with writing_graph(folder, overwrite=overwrite) as writer:
        for key, array in graph.arrays().items():
            writer.put(key, array)
        for key, array in (extras or {}).items():
            writer.put(f"{EXTRA}{key}", array)
        sparse = {key: value.shape for key, value in vars(graph).items() if sp.issparse(value)}
        return writer.finish(graph.census, sparse=sparse, facts=facts)


def open_graph(cls: type[AnyGraph], folder: Path, *, verify: bool | None = None) -> AnyGraph:
    """Open a saved graph, see `Graph.open`."""
    header = read_header(folder)
    small = header.nbytes < VERIFY_BELOW
    full = small if verify is None else verify
    for name, entry in header.files.items():
        open_checked(folder, name, entry).close()
    own = {key: entry for key, entry in header.arrays.items() if not key.startswith(EXTRA)}
    graph = _build(cls, folder, header, {key: map_checked(folder, key, entry, full) for key, entry in own.items()})
    files = [folder / f"{key}.npy" for key in header.arrays]
    if small or full or not validate.is_remembered(header.checksum, files):
        if fault := validate.find_fault(graph):
            raise _damaged(folder, fault)
        if not small:
            validate.remember(header.checksum, files)
    return graph


def read_extras(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the metadata of a saved graph, and its arrays "extra.NAME" by name; both empty if it has none."""
    header = read_header(folder)
    extras = {key: entry for key, entry in header.arrays.items() if key.startswith(EXTRA)}
    arrays = {key: map_checked(folder, key, entry, entry.bytes < VERIFY_BELOW) for key, entry in extras.items()}
    return header.facts, {key.removeprefix(EXTRA): array for key, array in arrays.items()}


def read_header(folder: Path) -> Header:
    """Read and check `graph.json`."""
    settle(folder)
    if folder.is_symlink():
        raise GpmError(f"{folder} is a symbolic link, which is not followed here; name the folder that it leads to.")
    path = folder / HEADER
    if not path.is_file():
        raise GpmError(f"{folder} is not a saved graph: it has no {HEADER}.")
    content, header = manifest.read_manifest(path, Header)
    check_json(header.facts, _Facts, path, FIX, under="facts")
    counts = {each.name: content.get(each.name) for each in fields(Census)}
    header.census = check_json(counts, Census, path, FIX)
    return header


def map_checked(folder: Path, key: str, entry: Entry, full: bool) -> NDArray:
    """Map an array that is as its entry in the header says; `full` compares every byte, not only a sample."""
    path = folder / f"{key}.npy"
    with open_checked(folder, path.name, entry, full=full) as file:
        file.seek(0)
        array = map_array(file, path)
    if array.dtype.str != entry.dtype or list(array.shape) != entry.shape:
        raise GpmError(f"{path} is not the array that the header describes; {FIX}.")
    return array


def _build(cls: type[AnyGraph], folder: Path, header: Header, arrays: dict[str, NDArray]) -> AnyGraph:
    parts: dict[str, Any] = {key: array for key, array in arrays.items() if "." not in key}
    try:
        for key, shape in header.sparse.items():
            indptr, indices, data = (arrays[f"{key}.{part}"] for part in SPARSE)
            if data.dtype.str not in ("<f4", "<f8") or {indices.dtype.str, indptr.dtype.str} - {"<i4", "<i8"}:
                raise ValueError
            parts[key] = sp.csr_array((data, indices, indptr), shape=shape, copy=False)
    except (ValueError, TypeError, KeyError, OverflowError):
        raise _damaged(folder, f"the pieces of {key} do not fit together") from None
    if names := {key.removeprefix("names."): arrays[key] for key in arrays if key.startswith("names.")}:
        parts["names"] = Names.from_arrays(names)
    try:
        return cls(census=header.census, folder=folder.absolute(), **parts)
    except (GpmError, TypeError) as error:
        raise _damaged(folder, str(error).rstrip(".")) from None


def _check_free(folder: Path, overwrite: bool) -> None:
    """Refuse to write where something would be lost."""
    if not (folder.exists() or folder.is_symlink()):
        return
    if not overwrite:
        raise GpmError(f"{folder} exists already: choose another, or replace it with --overwrite (overwrite=True).")
    if folder.is_symlink() or not (folder / HEADER).is_file():
        raise GpmError(f"{folder} exists and is not a saved graph; choose another folder.")
    try:
        listed = set(read_header(folder).files)
    except GpmError:  # a damaged graph may be replaced
        listed = {"import.yaml"}
    for path in folder.iterdir():
        if not (path.name.startswith(".") or path.name in {HEADER, *listed} or path.suffix == ".npy"):
            raise GpmError(f"{folder} also holds {path.name}, which is not a file of the graph; move it.")


def _write_text(path: Path, text: str) -> dict[str, Any]:
    assert FILE.fullmatch(path.name), path
    path.write_text(text, encoding="utf-8", newline="")
    return describe_file(path)


def _describe(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        array = map_array(file, path)
    return {"dtype": array.dtype.str, "shape": list(array.shape)} | describe_file(path, sample=True)


def _damaged(folder: Path, fault: str) -> GpmError:
    return GpmError(f"{folder} is damaged: {fault}; {FIX}.")
