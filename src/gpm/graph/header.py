"""The header of a saved graph, and the files that it lists; from a folder that may come from anywhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import fields
from io import BufferedReader
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.graph import Census, Graph
from gpm.io.atomic import check_plain, read_json
from gpm.io.json_checks import Check, find_odd, is_object, is_text, list_of, one_of
from gpm.io.npy import map_array
from gpm.io.publish import restore

FORMAT, VERSION, HEADER = "gpm-graph", 1, "graph.json"
FIX = "save the graph again"
SPARSE, EXTRA = ("data", "indices", "indptr"), "extra."
_PIECE, _PIECES = 4096, 64  # bytes and number of the pieces of each file that a quick check reads
_DENSE = [field.name for field in fields(Graph) if field.name not in ("census", "names", "folder")]
_PIECEWISE = (r"(x|edge_attr)\.(data|indices|indptr)", r"names\.(integers|bytes|pointer)", r"extra\.[a-z0-9_]{1,64}")
KEY = re.compile("|".join((*_DENSE, *_PIECEWISE)))
_FACTS: dict[str, Check] = {
    "task": one_of("node", "link", "graph"), "title": is_text, "kind": one_of("", "classes", "labels", "values"),
    "targets": list_of(is_text), "classes": list_of(is_text), "graphs": list_of(is_text), "unseen": list_of(is_text),
    "schema": is_object, "encoding": is_object, "order": one_of("given", "degree", "locality"),
}  # fmt: skip
FILE = re.compile(r"[a-z][a-z0-9_-]{0,63}\.(yaml|json|txt|md|csv)")


def digest(file: BufferedReader) -> str:
    """Digest of a whole file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def digest_sample(file: BufferedReader) -> str:
    """Digest of pieces spread evenly over a file, both ends among them: quick whatever the size."""
    found, last = hashlib.sha256(), max(0, os.fstat(file.fileno()).st_size - _PIECE)
    for i in range(_PIECES):
        file.seek(last * i // (_PIECES - 1))
        found.update(file.read(_PIECE))
    return found.hexdigest()


def header_checksum(header: dict[str, Any]) -> str:
    """Digest of all that a header says besides."""
    facts = {key: value for key, value in header.items() if key != "checksum"}
    try:
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    except RecursionError:  # nested as no header is
        return ""


def read_header(folder: Path) -> dict[str, Any]:
    """Read the header of a saved graph; whatever is said in it of files and types is so."""
    restore(folder)
    if folder.is_symlink():
        raise GpmError(f"{folder} is a symbolic link, which is not followed here; name the folder that it leads to.")
    path = folder / HEADER
    if not path.is_file():
        raise GpmError(f"{folder} is no saved graph: it has no {HEADER}.")
    header = read_json(path, FIX)
    if header.get("format") != FORMAT:
        raise GpmError(f"{path} is not a graph header; {FIX}.")
    if header.get("version") != VERSION:
        raise GpmError(f"{path} has format version {header.get('version')}; this gpm reads version {VERSION}.")
    if header.get("checksum") != header_checksum(header):
        raise GpmError(f"{path} was altered: its checksum does not match; {FIX}.")
    if wrong := _header_fault(header):
        raise GpmError(f"{path} is not a graph header: {wrong}; {FIX}.")
    return header


def _header_fault(header: dict[str, Any]) -> str:
    """What is of the wrong type, or names a file that it must not."""
    arrays, sparse, files = header.get("arrays"), header.get("sparse"), header.get("files", {})
    if not all(isinstance(part, dict) for part in (arrays, sparse, files, header.get("facts", {}))):
        return "arrays, sparse, files and facts must be objects"
    assert isinstance(arrays, dict)
    assert isinstance(sparse, dict)
    if odd := find_odd(header.get("facts", {}), _FACTS):
        return f"of its facts {odd}"
    for field in fields(Census):
        value: Any = header.get(field.name)
        if type(value).__name__ != field.type or value < 0 or value >= 2**62:
            return f"{field.name} is {value!r}"
    if not {"indptr", "indices"} <= set(arrays):
        return "it lists no indptr and indices"
    for key, entry in arrays.items():
        if not KEY.fullmatch(key) or not _is_entry(entry) or not isinstance(entry.get("shape"), list):
            return f"its array {key!r} is none that a graph has"
    for key, entry in files.items():
        if not FILE.fullmatch(key) or key == HEADER or not _is_entry(entry):
            return f"its file {key!r} is none that a graph has"
    for key, shape in sparse.items():
        sizes = isinstance(shape, list) and len(shape) == 2 and all(type(n) is int and 0 <= n < 2**48 for n in shape)
        pieces = {f"{key}.{part}" for part in SPARSE} <= set(arrays) and key not in arrays
        if key not in ("x", "edge_attr") or not sizes or not pieces:
            return f"its sparse {key!r} is none that a graph has"
    return ""


def _is_entry(entry: Any) -> bool:
    return isinstance(entry, dict) and type(entry.get("bytes")) is int and isinstance(entry.get("sha256"), str)


def map_checked(folder: Path, key: str, entry: dict[str, Any], full: bool) -> NDArray:
    """Map an array that is as its entry in the header says.

    Args:
        folder: Of the graph.
        key: The array's.
        entry: What the header says of it.
        full: Compare every byte, not only a sample.
    """
    path = folder / f"{key}.npy"
    with open_checked(path, entry, full) as file:
        file.seek(0)
        array = map_array(file, path)
    if array.dtype.str != entry.get("dtype") or list(array.shape) != entry["shape"]:
        raise GpmError(f"{path} is not the array that the header describes; {FIX}.")
    return array


def open_checked(path: Path, entry: dict[str, Any], full: bool) -> BufferedReader:
    """Open a file that is as its entry in the header says."""
    if not path.exists() and not path.is_symlink():
        raise GpmError(f"{path} is missing; {FIX}.")
    check_plain(path)
    file: BufferedReader | None = None
    try:
        file = path.open("rb")
        size = os.fstat(file.fileno()).st_size
        if size != entry["bytes"]:
            raise GpmError(f"{path} has {size:,} bytes instead of {entry['bytes']:,}; it was cut or altered, {FIX}.")
        intact = digest(file) == entry["sha256"] if full else digest_sample(file) == entry.get("sample")
        if not intact:
            raise GpmError(f"{path} was altered: its checksum does not match; {FIX}.")
    except OSError as error:
        raise GpmError(f"cannot read {path}: {error.strerror}.") from None
    except BaseException:
        if file is not None:
            file.close()
        raise
    return file
