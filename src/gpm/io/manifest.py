"""Checksums: whether the files of a run are as they were written, and its data as it was when it was trained on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.folder import HEADER, open_graph
from gpm.graph.graph import Graph
from gpm.graph.names import Names
from gpm.io.atomic import WriteError, check_plain, read_json, sync_folder, write_json
from gpm.io.json_checks import is_count, is_text

if TYPE_CHECKING:
    from gpm.data.sources import TaskData
    from gpm.inference.opened import OpenedRun

CHECKSUMS, FORMAT, VERSION = "checksums.json", "gpm-checksums", 1
USED = ("config.yaml", "model.json", "model.safetensors", "split.npz")  # what answers are made of
_DEEPEST = 16  # folders in folders
LATER = ("explain", "shift", "tensorboard", "wandb", "mlruns", "calibration.json")  # in a run, but not of its training
READ_WHOLE = 2**30  # bytes: of a larger graph in a folder the checksum of its header stands for all of it


@dataclass(frozen=True)
class Finding:
    """What is wrong with a file.

    Attributes:
        name: The file, as its folder lists it.
        state: missing, cut, altered, link or damaged; or unexpected, which is no damage.
        sentence: What it means.
    """

    name: str
    state: str
    sentence: str

    @property
    def harmless(self) -> bool:
        return self.state == "unexpected"


def write_checksums(folder: Path) -> None:
    """Sync all files of a folder, then write what they are; a subfolder that has such a list stands by its list."""
    listed = {}
    for name in list_files(folder):
        path = folder / name
        check_plain(path)
        try:
            with path.open("rb") as file:
                os.fsync(file.fileno())
                listed[name] = {"bytes": path.stat().st_size, "sha256": _digest(file)}
        except OSError as error:
            raise WriteError(path, error) from None
    for below in {(folder / name).parent for name in listed}:
        sync_folder(below)
    write_json(folder / CHECKSUMS, {"format": FORMAT, "version": VERSION, "files": listed})
    sync_folder(folder)


def list_files(folder: Path) -> list[str]:
    """The files that make up a folder, as the checksums list them: without scratch files and what comes later."""
    return sorted(_walk(folder, PurePosixPath()))


def _walk(folder: Path, below: PurePosixPath) -> Iterator[str]:
    if len(below.parts) > _DEEPEST:
        raise GpmError(f"{folder} holds folders in folders to a depth that no run has; it is none.")
    names = sorted(path.name for path in (folder / below).iterdir())
    for header in (CHECKSUMS, HEADER):
        if below.parts and header in names:
            yield str(below / header)
            return
    for name in names:
        path = folder / below / name
        if name.startswith(".") or name == CHECKSUMS or (name in LATER and not below.parts):
            continue
        if path.is_symlink() or not path.is_dir():
            yield str(below / name)
        else:
            yield from _walk(folder, below / name)


def check_folder(folder: Path) -> list[Finding]:
    """Compare every byte of a folder with its checksums; an empty list if all is as it was written."""
    listed, found = read_checksums(folder), list[Finding]()
    for name, entry in listed.items():
        if finding := _check(folder, name, entry):
            found.append(finding)
        elif (folder / name).name in (CHECKSUMS, HEADER):
            found += _check_below(folder, PurePosixPath(name))
    for name in list_files(folder):
        if name in USED and name not in listed:
            found.append(Finding(name, "altered", "the list of checksums does not name it"))
        elif name not in listed:
            found.append(Finding(name, "unexpected", "it is no part of the run, and not read"))
    return found


def _check_below(folder: Path, header: PurePosixPath) -> list[Finding]:
    below = folder / header.parent
    if header.name == CHECKSUMS:
        return [Finding(str(header.parent / f.name), f.state, f.sentence) for f in check_folder(below)]
    try:
        open_graph(below, verify=True)
    except GpmError as error:
        return [Finding(str(header.parent), "damaged", str(error).rstrip("."))]
    return []


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Refuse files that are not as they were written; a folder without checksums is taken as it is."""
    for name in names:
        if (folder / name).is_symlink():
            check_plain(folder / name)
    if not (folder / CHECKSUMS).exists():
        return
    listed = read_checksums(folder)
    for name in names:
        finding = _check(folder, name, listed[name]) if name in listed else None
        if finding is None and name in USED and name not in listed and (folder / name).exists():
            finding = Finding(name, "altered", f"{CHECKSUMS} does not name it")
        if finding is not None:
            raise GpmError(f"{folder / name} is damaged: {finding.sentence}; gpm doctor {folder} says what to do.")


def read_checksums(folder: Path) -> dict[str, dict[str, Any]]:
    """The list of a folder: bytes and SHA-256 of each file."""
    path, fix = folder / CHECKSUMS, "remove it if you trust the other files"
    content = read_json(path, fix)
    if content.get("format") != FORMAT or not isinstance(content.get("files"), dict):
        raise GpmError(f"{path} is damaged: it is no list of checksums; {fix}.")
    if content.get("version") != VERSION:
        raise GpmError(f"{path} has format version {content.get('version')}; this gpm reads version {VERSION}.")
    listed: dict[str, dict[str, Any]] = content["files"]
    for name, entry in listed.items():
        place = PurePosixPath(name)
        if (
            place.is_absolute()
            or ".." in place.parts
            or not isinstance(entry, dict)
            or not is_count(entry.get("bytes"))
            or not is_text(entry.get("sha256"))
        ):
            raise GpmError(f"{path} is damaged: its entry {name!r} is not that of a file in the folder; {fix}.")
    return listed


def _check(folder: Path, name: str, entry: dict[str, Any]) -> Finding | None:
    path = folder / name
    if any((folder / Path(*Path(name).parts[:depth])).is_symlink() for depth in range(1, len(Path(name).parts) + 1)):
        return Finding(name, "link", "it is a symbolic link, which is not followed")
    if not path.is_file():
        return Finding(name, "missing", "it is missing")
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            state = "cut" if size < entry["bytes"] else "altered"
            return Finding(name, state, f"it has {size:,} bytes instead of {entry['bytes']:,}")
        with path.open("rb") as file:
            if _digest(file) != entry["sha256"]:
                return Finding(name, "altered", "its bytes are not those that were written")
    except OSError as error:
        return Finding(name, "damaged", f"it cannot be read ({error.strerror})")
    return None


def _digest(file: Any) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


# The data of a run


def digest_data(graph: Graph, source: str | Path = "") -> str:
    """What a graph is, as a text that another graph does not have: over its edges, features, labels and names.

    A graph of a gigabyte or more that is a folder goes by the checksum of its header, which holds those of its arrays.

    Args:
        graph: The graph.
        source: The folder that it was opened from, if it was.
    """
    arrays = _arrays(graph)
    mapped = graph.folder is not None  # else it was put together from several
    if mapped and sum(array.nbytes for array in arrays.values()) >= READ_WHOLE and (header := _header_of(source)):
        return f"folder:{header}"
    digest = hashlib.blake2b(digest_size=16)
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype.newbyteorder('<').str} {array.shape}\n".encode())
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(plain.reshape(-1).view(np.uint8).data if plain.size else b"")
    return f"blake2b:{digest.hexdigest()}"


def check_digest(run: OpenedRun, data: TaskData) -> None:
    """Refuse data that is no longer what a run was trained on; a run that remembers nothing takes any."""
    kept = str(run.facts.get("data_digest", "")).partition(" ")[0]  # what follows is no matter of the graph
    if not kept:
        return
    found = digest_data(data.graph, run.folder / run.config.data)  # a graph of its own is named from there
    if found.partition(":")[0] == kept.partition(":")[0] and found != kept:
        raise GpmError(
            f"{run.config.data or 'the graph'} is no longer what {run.folder} was trained on: its edges, features, "
            "labels or names were changed since; train again, or predict on it as another graph with --on."
        )


def _arrays(graph: Graph) -> dict[str, NDArray]:
    arrays: dict[str, NDArray] = {}
    for field in fields(Graph):
        value = getattr(graph, field.name)
        if sp.issparse(value):
            arrays |= {f"{field.name}.{part}": getattr(value, part) for part in ("indptr", "indices", "data")}
            arrays[f"{field.name}.shape"] = np.array(value.shape)
        elif isinstance(value, Names):
            arrays |= {f"{field.name}.{key}": array for key, array in sorted(value.arrays().items())}
        elif isinstance(value, np.ndarray) and field.name != "edge_cdf":  # the weights again
            arrays[field.name] = value
    return arrays


def _header_of(source: str | Path) -> str:
    header = Path(source).expanduser() / HEADER
    return str(read_json(header, "save the graph again").get("checksum", "")) if source and header.is_file() else ""
