"""Inspect archives from anywhere before they are read, and unpickle data without running code."""

from __future__ import annotations

import io
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

ROOMY = 64 * 2**20  # bytes: an archive that unpacks to less does no harm, however well it was packed
DENSEST = 100  # the best compression of numbers; zeros pack a thousand times smaller
MOST_ENTRIES = 1_000_000
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def check_zip(path: str | Path, *, follow: bool = False) -> None:
    """Refuse an archive (.npz, .pt, .ckpt) that is truncated or could do harm when it is unpacked.

    Reads the directory of the archive and the headers of its arrays. Refuses sizes that the file cannot hold, entries
    that unpack to implausibly much, names that lead elsewhere, links, and repeated names. With `follow` the path itself
    may be a symbolic link, as a file that the user names may be.
    """
    path = Path(path)
    if not follow:
        check_plain(path)
    try:
        size = path.stat().st_size
        with zipfile.ZipFile(path) as archive:
            if fault := _find_fault(archive, size, arrays=path.suffix == ".npz"):
                raise GpmError(f"{path} is {fault}.")
    except GpmError:
        raise
    except Exception as error:  # of zipfile and NumPy: a broken directory, header or stream
        raise GpmError(f"{path} is not a readable archive ({type(error).__name__}): it is damaged.") from None


def _find_fault(archive: zipfile.ZipFile, size: int, arrays: bool) -> str:
    entries = archive.infolist()
    if len(entries) > MOST_ENTRIES:
        return f"refused: it has {len(entries):,} entries"
    if len({entry.filename for entry in entries}) < len(entries):
        return "refused: it holds two entries of the same name"
    for entry in entries:
        if fault := _find_entry_fault(entry):
            return f"refused: its entry {entry.filename!r} {fault}"
    packed, unpacked = sum(e.compress_size for e in entries), sum(e.file_size for e in entries)
    if packed > size or any(e.compress_type == zipfile.ZIP_STORED and e.file_size != e.compress_size for e in entries):
        return "damaged: its entries are larger than the file"
    if unpacked > max(ROOMY, DENSEST * size):
        return f"refused: {size:,} bytes would unpack to {unpacked:,}, which no data does"
    for entry in entries:
        if arrays and (fault := _find_array_fault(archive, entry)):
            return fault
        # some bytes of a pickle can ask for a buffer of any size, which torch makes even where it runs nothing
        if entry.filename.endswith(".pkl") and b"bytearray" in archive.read(entry):
            return f"refused: its entry {entry.filename!r} asks for a buffer, which no data does"
    return ""


def _find_entry_fault(entry: zipfile.ZipInfo) -> str:
    paths = PurePosixPath(entry.filename), PureWindowsPath(entry.filename)
    if "\0" in entry.filename or any(p.is_absolute() or p.drive or ".." in p.parts for p in paths):
        return "leads out of the archive"
    if stat.S_ISLNK(entry.external_attr >> 16):
        return "is a link"
    if entry.compress_type not in _METHODS or entry.flag_bits & 1:
        return "is packed in a way that gpm does not read"
    return ""


def _find_array_fault(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> str:
    """Compare the size that NumPy would allocate for an array with the size of its entry."""
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.hasobject:
            return f"refused: its array {entry.filename!r} holds pickled objects"
        count = int(np.prod(shape, dtype=object)) if shape else 1
        if count * dtype.itemsize != entry.file_size - file.tell():
            return f"damaged: its array {entry.filename!r} is not of the size that it says"
    return ""


# The classes in published raw files and caches of datasets. They do nothing but hold numbers.
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
    is_sparse = module.split(".")[:2] == ["scipy", "sparse"] and name in _SPARSE
    return is_sparse or (module == "torch" and name.endswith("Storage")) or name in _PLAIN.get(module, ())


def _load_storage(content: bytes) -> Any:
    import torch

    return torch.load(io.BytesIO(content), weights_only=True)


class PlainUnpickler(pickle.Unpickler):
    """Unpickler of numbers, text, arrays and sparse matrices; anything else is an error and is not run."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch.storage", "_load_from_bytes"):
            return _load_storage  # torch's own would run what is in the bytes
        if not _is_plain(module, name):
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which is not data")
        if module.startswith("scipy.sparse."):
            module = "scipy.sparse"  # the module of the time when the file was made no longer exists
        return super().find_class(module, name)


@contextmanager
def plain_pickles() -> Iterator[None]:
    """Restrict every library that unpickles in the block to plain data.

    PyG loads what it cannot read safely a second time with everything allowed, and some of its raw files are pickles.
    """
    import torch

    def load(file: Any, **options: Any) -> Any:
        return PlainUnpickler(file, **options).load()

    def loads(data: Any, /, **options: Any) -> Any:
        return PlainUnpickler(io.BytesIO(data), **options).load()

    def refuse(*_: Any, **__: Any) -> Any:
        raise pickle.UnpicklingError("it holds a program of TorchScript, which is not data")

    usual, script = (pickle.load, pickle.loads, pickle.Unpickler), torch.jit.load
    pickle.load, pickle.loads, pickle.Unpickler = load, loads, PlainUnpickler  # type: ignore[misc]
    torch.jit.load = refuse  # torch.load hands such files to it, whatever its arguments
    try:
        yield
    finally:
        pickle.load, pickle.loads, pickle.Unpickler = usual  # type: ignore[misc]
        torch.jit.load = script
