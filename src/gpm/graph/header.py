"""`graph.json`, the manifest of a graph folder, which also describes the arrays; the folder may come from anywhere."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.base_graph import SPARSE, BaseGraph, Census
from gpm.io.json_schema import Count, check_json
from gpm.io.manifest import FIXES, HEADER, Entry, Manifest, open_checked, read_manifest
from gpm.io.npy import map_array
from gpm.io.publish import settle

FIX = FIXES[HEADER]
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


def read_header(folder: Path) -> Header:
    """Read and check `graph.json`."""
    settle(folder)
    if folder.is_symlink():
        raise GpmError(f"{folder} is a symbolic link, which is not followed here; name the folder that it leads to.")
    path = folder / HEADER
    if not path.is_file():
        raise GpmError(f"{folder} is no saved graph: it has no {HEADER}.")
    content, header = read_manifest(path, Header)
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
