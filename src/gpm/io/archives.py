"""Archives that may come from anywhere: looked through before they are read; and pickles that can do nothing."""

from __future__ import annotations

import pickle
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from gpm.errors import GpmError
from gpm.io.atomic import check_plain

ROOMY = 64 * 2**20  # bytes: what unpacks to less does no harm, however well it was packed
DENSEST = 100  # times: numbers do not pack better than this, zeros do by a thousand
MOST_ENTRIES = 1_000_000
_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def check_zip(path: str | Path, *, follow: bool = False) -> None:
    """Refuse an archive (.npz, .pt, .ckpt) that is cut, or that would do more than give back what was put in.

    Looked at are the directory of the archive and the headers of its arrays: sizes that the file cannot hold, entries
    that unpack to implausibly much, names that lead elsewhere, links, names given twice.

    Args:
        path: The archive.
        follow: Whether the path itself may be a symbolic link, as a file that the user names may be.
    """
    path = Path(path)
    if not follow:
        check_plain(path)
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            _check_entries(path, archive.infolist(), size)
            if path.suffix == ".npz":
                _check_arrays(path, archive)
            _check_pickles(path, archive)
    except GpmError:
        raise
    except Exception as error:  # of zipfile and NumPy: a broken directory, header or stream
        raise GpmError(f"{path} is no archive that can be read ({type(error).__name__}): it is damaged.") from None


def _check_entries(path: Path, entries: list[zipfile.ZipInfo], size: int) -> None:
    if len(entries) > MOST_ENTRIES:
        raise GpmError(f"{path} is refused: it has {len(entries):,} entries.")
    names = [entry.filename for entry in entries]
    if len(set(names)) < len(names):
        raise GpmError(f"{path} is refused: it holds two entries of the same name.")
    for entry in entries:
        if _leads_elsewhere(entry.filename):
            raise GpmError(f"{path} is refused: its entry {entry.filename!r} leads out of the archive.")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise GpmError(f"{path} is refused: its entry {entry.filename!r} is a link.")
        if entry.compress_type not in _KINDS or entry.flag_bits & 1:
            raise GpmError(f"{path} is refused: its entry {entry.filename!r} is packed in a way that is not read here.")
    packed, unpacked = sum(e.compress_size for e in entries), sum(e.file_size for e in entries)
    if packed > size or any(e.compress_type == zipfile.ZIP_STORED and e.file_size != e.compress_size for e in entries):
        raise GpmError(f"{path} is damaged: its entries are larger than the file.")
    if unpacked > max(ROOMY, DENSEST * size):
        raise GpmError(f"{path} is refused: {size:,} bytes would unpack to {unpacked:,}, which no data does.")


def _leads_elsewhere(name: str) -> bool:
    paths = PurePosixPath(name), PureWindowsPath(name)
    return "\0" in name or any(path.is_absolute() or path.drive or ".." in path.parts for path in paths)


def _check_pickles(path: Path, archive: zipfile.ZipFile) -> None:
    """Some bytes of a pickle can ask for a buffer of any size, which torch makes even where it runs nothing."""
    for entry in archive.infolist():
        if entry.filename.endswith(".pkl") and b"bytearray" in archive.read(entry):
            raise GpmError(f"{path} is refused: its entry {entry.filename!r} asks for a buffer, which no data does.")


def _check_arrays(path: Path, archive: zipfile.ZipFile) -> None:
    """What an array says of itself is what NumPy allocates: it must be what the entry holds."""
    for entry in archive.infolist():
        with archive.open(entry) as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            if dtype.hasobject:
                raise GpmError(f"{path} is refused: its array {entry.filename!r} holds pickled objects.")
            count = int(np.prod(shape, dtype=object)) if shape else 1
            if count * dtype.itemsize != entry.file_size - file.tell():
                raise GpmError(f"{path} is damaged: its array {entry.filename!r} is not of the size that it says.")


# What the published raw files and caches of datasets are made of. None of these does anything but hold numbers.
_PLAIN = {
    "builtins": {"list", "dict", "set", "frozenset", "tuple", "int", "float", "complex", "bool", "str", "bytes",
                 "bytearray", "slice", "range"},
    "collections": {"OrderedDict", "defaultdict"},
    "numpy": {"ndarray", "dtype"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "torch._utils": {"_rebuild_tensor_v2"},
    "_codecs": {"encode"},
}  # fmt: skip
_SPARSE = {f"{kind}_{form}" for kind in ("csr", "csc", "coo", "lil", "dok") for form in ("matrix", "array")}


def _is_plain(module: str, name: str) -> bool:
    module = {"__builtin__": "builtins"}.get(module, module)
    if module.split(".")[:2] == ["scipy", "sparse"] and name in _SPARSE:
        return True
    if module == "torch" and name.endswith("Storage"):
        return True
    return name in _PLAIN.get(module, ())


def _load_storage(content: bytes) -> Any:
    import io

    import torch

    return torch.load(io.BytesIO(content), weights_only=True)


class PlainUnpickler(pickle.Unpickler):
    """Reads pickles of numbers, text, arrays and sparse matrices; anything else in one is an error, and not run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _load_storage  # torch's own would run what is in the bytes
        if not _is_plain(module, name):
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not data")
        if module.startswith("scipy.sparse."):
            module = "scipy.sparse"  # where it was when the file was made is no longer a place to import from
        return super().find_class(module, name)


@contextmanager
def plain_pickles() -> Iterator[None]:
    """Let whatever unpickles in the block read data only, whichever library it is and whatever it asks for.

    PyG loads what it cannot read safely a second time with everything allowed, and some of its raw files are pickles.
    """
    import io

    def load(file: Any, **options: Any) -> Any:
        return PlainUnpickler(file, **options).load()

    def loads(data: Any, /, **options: Any) -> Any:
        return PlainUnpickler(io.BytesIO(data), **options).load()

    def refuse(*_: Any, **__: Any) -> Any:
        raise pickle.UnpicklingError("it holds a program of TorchScript, which is not data")

    import torch

    usual, script = (pickle.load, pickle.loads, pickle.Unpickler), torch.jit.load
    pickle.load, pickle.loads, pickle.Unpickler = load, loads, PlainUnpickler  # type: ignore[misc]
    torch.jit.load = refuse  # to which torch.load hands such files, whatever it is asked
    try:
        yield
    finally:
        pickle.load, pickle.loads, pickle.Unpickler = usual  # type: ignore[misc]
        torch.jit.load = script
