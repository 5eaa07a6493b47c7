"""The manifest of a folder: the size and SHA-256 of each of its files, and the comparison of the files with it.

A run folder has `checksums.json`. A graph folder has `graph.json`, which also describes its arrays (see
`gpm.graph.folder`). A manifest lists the manifest of a subfolder in place of the files of that subfolder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from msgspec import Struct

from gpm.errors import GpmError
from gpm.io.atomic import WriteError, check_plain, read_json, sync_folder, write_json
from gpm.io.json_schema import Count, check_json

CHECKSUMS, HEADER = "checksums.json", "graph.json"
FORMATS = {CHECKSUMS: "gpm-checksums", HEADER: "gpm-graph"}
FIXES = {CHECKSUMS: "remove it if you trust the other files", HEADER: "save the graph again"}
VERSION = 1  # of both formats
USED = ("config.yaml", "model.json", "model.safetensors", "split.npz")  # the files that predictions are made from
LATER = (
    "report.html",
    "figures",
    "explain",
    "shift",
    "tensorboard",
    "wandb",
    "mlruns",
    "calibration.json",
)  # in a run, but not of its training
_MAX_DEPTH = 16  # of nested folders
_PIECE, _PIECES = 4096, 64  # bytes and number of the pieces of a file that a quick check reads


class Entry(Struct):
    """A file as its manifest describes it; the last three only for arrays of a graph."""

    bytes: Count
    sha256: str
    sample: str = ""
    dtype: str = ""
    shape: list[int] = []


class Manifest(Struct):
    """The files of a folder by name, and the arrays of a graph folder by key."""

    files: dict[str, Entry] = {}
    arrays: dict[str, Entry] = {}

    def __post_init__(self) -> None:
        for name in self.files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"its entry {name!r} is not a file in the folder")

    def entries(self) -> dict[str, Entry]:
        """Return the entry of each file by its path in the folder."""
        return {f"{key}.npy": entry for key, entry in self.arrays.items()} | self.files


AnyManifest = TypeVar("AnyManifest", bound=Manifest)


@dataclass(frozen=True)
class Finding:
    """A file that is not as the manifest says."""

    name: str  # as the manifest lists it
    state: str  # missing, cut, altered, link or damaged; or unexpected, which is no damage
    sentence: str  # about "it"

    @property
    def harmless(self) -> bool:
        return self.state == "unexpected"


class DamageError(GpmError):
    """A file that is not as its manifest says."""

    def __init__(self, path: Path, state: str, sentence: str, fix: str) -> None:
        super().__init__(f"{path} is damaged: {sentence}; {fix}.")
        self.state, self.sentence = state, sentence


def describe_file(path: Path, *, sample: bool = False) -> dict[str, Any]:
    """Sync a file and return its manifest entry, with the digest of a sample if asked for."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        sampled = {"sample": _digest_sample(file)} if sample else {}
        return {"bytes": path.stat().st_size} | sampled | {"sha256": _digest(file)}


def checksum_of(content: dict[str, Any]) -> str:
    """Return the checksum of a manifest over all its other keys."""
    others = {key: value for key, value in content.items() if key != "checksum"}
    try:
        return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()
    except RecursionError:  # deeper than any manifest
        return ""


def write_checksums(folder: Path) -> None:
    """Sync all files of a folder and write `checksums.json`."""
    listed = {}
    for name in list_files(folder):
        path = folder / name
        check_plain(path)
        try:
            listed[name] = describe_file(path)
        except OSError as error:
            raise WriteError(path, error) from None
    for below in {(folder / name).parent for name in listed}:
        sync_folder(below)
    write_json(folder / CHECKSUMS, {"format": FORMATS[CHECKSUMS], "version": VERSION, "files": listed})
    sync_folder(folder)


def read_checksums(folder: Path) -> dict[str, Entry]:
    """Return the entries of `checksums.json` by file name."""
    return read_manifest(folder / CHECKSUMS, Manifest)[1].entries()


def read_manifest(path: Path, shape: type[AnyManifest]) -> tuple[dict[str, Any], AnyManifest]:
    """Read `checksums.json` or `graph.json`, as it stands and as a checked shape."""
    fix = FIXES[path.name]
    content = read_json(path, fix)
    if content.get("format") != FORMATS[path.name]:
        raise GpmError(f"{path} is damaged: its format is not {FORMATS[path.name]}; {fix}.")
    if content.get("version") != VERSION:
        raise GpmError(f"{path} has format version {content.get('version')}; this gpm reads version {VERSION}.")
    if path.name == HEADER and content.get("checksum") != checksum_of(content):
        raise GpmError(f"{path} was altered: its checksum does not match; {fix}.")
    return content, check_json(content, shape, path, fix)


def list_files(folder: Path) -> list[str]:
    """Return the files that the manifest of a folder lists: without scratch files and later additions to a run."""
    return sorted(_walk(folder, PurePosixPath()))


def _walk(folder: Path, below: PurePosixPath) -> Iterator[str]:
    if len(below.parts) > _MAX_DEPTH:
        raise GpmError(f"{folder} is not a run folder: its folders are nested more than {_MAX_DEPTH} deep.")
    names = sorted(path.name for path in (folder / below).iterdir())
    for manifest in FORMATS:
        if below.parts and manifest in names:
            yield str(below / manifest)
            return
    for name in names:
        path = folder / below / name
        if name.startswith(".") or (not below.parts and (name in FORMATS or name in LATER)):
            continue
        if path.is_symlink() or not path.is_dir():
            yield str(below / name)
        else:
            yield from _walk(folder, below / name)


def check_folder(folder: Path) -> list[Finding]:
    """Compare every byte of a run or graph folder, and of the folders below, with the manifest."""
    is_graph = (folder / HEADER).is_file() and not (folder / CHECKSUMS).exists()
    listed = read_manifest(folder / (HEADER if is_graph else CHECKSUMS), Manifest)[1].entries()
    findings = list[Finding]()
    for name, entry in listed.items():
        try:
            open_checked(folder, name, entry).close()
        except GpmError as error:
            state, sentence = getattr(error, "state", "damaged"), getattr(error, "sentence", str(error).rstrip("."))
            findings.append(Finding(name, state, sentence))
            continue
        if (below := PurePosixPath(name)).name in FORMATS:
            try:
                nested = check_folder(folder / below.parent)
                findings += [replace(finding, name=str(below.parent / finding.name)) for finding in nested]
            except GpmError as error:
                findings.append(Finding(name, "damaged", str(error).rstrip(".")))
    altered, unexpected = "the list of checksums does not name it", "it does not belong to the folder and is not read"
    for name in set(list_files(folder)) - set(listed):
        findings.append(Finding(name, *(("altered", altered) if name in USED else ("unexpected", unexpected))))
    return findings


def check_files(folder: Path, names: Iterable[str]) -> None:
    """Refuse files of a run that are not as they were written; without `checksums.json` nothing is compared."""
    for name in names:
        if (folder / name).is_symlink():
            check_plain(folder / name)
    if not (folder / CHECKSUMS).exists():
        return
    listed, fix = read_checksums(folder), f"gpm doctor {folder} says what to do"
    for name in names:
        if name in listed:
            open_checked(folder, name, listed[name], fix=fix).close()
        elif name in USED and (folder / name).exists():
            raise DamageError(folder / name, "altered", f"{CHECKSUMS} does not name it", fix)


def open_checked(
    folder: Path, name: str, entry: Entry, *, full: bool = True, fix: str = FIXES[HEADER]
) -> BufferedReader:
    """Open a file that is as its manifest entry says; `full` compares every byte, not only the size and a sample."""
    path = folder / name
    for part in (*reversed(path.relative_to(folder).parents), Path(name)):
        if part.name and (folder / part).is_symlink():
            link = "it is a symbolic link, which is not followed here"
            raise DamageError(path, "link", link, "put the file itself in its place")
    if not path.is_file():
        raise DamageError(path, "missing", "it is missing", fix)
    try:
        file = path.open("rb")
        if fault := _find_fault(file, entry, full):
            file.close()
            raise DamageError(path, *fault, fix)
    except OSError as error:
        raise DamageError(path, "damaged", f"it cannot be read ({error.strerror})", fix) from None
    return file


def _find_fault(file: BufferedReader, entry: Entry, full: bool) -> tuple[str, str] | None:
    size = os.fstat(file.fileno()).st_size
    if size != entry.bytes:
        return "cut" if size < entry.bytes else "altered", f"it has {size:,} bytes instead of {entry.bytes:,}"
    intact = _digest(file) == entry.sha256 if full else _digest_sample(file) == entry.sample
    return None if intact else ("altered", "its bytes are not those that were written")


def _digest(file: BufferedReader) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_sample(file: BufferedReader) -> str:
    """Digest pieces spread evenly over a file, both ends among them, in a time that does not depend on its size."""
    digest, last = hashlib.sha256(), max(0, os.fstat(file.fileno()).st_size - _PIECE)
    for i in range(_PIECES):
        file.seek(last * i // (_PIECES - 1))
        digest.update(file.read(_PIECE))
    return digest.hexdigest()
