"""Single `.npy` files: written as they grow, or with their room taken at once; mapped once their header was checked."""

from __future__ import annotations

import io
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from gpm.errors import GpmError

_MAGIC = b"\x93NUMPY"
_HEADER = re.compile(
    r"\{'descr': '([<|][biufSU]\d{1,9})', 'fortran_order': (True|False), 'shape': \(([\d, ]{1,99})\), \} *\n"
)


class GrowingArray:
    """An array of rows that are appended; nothing but the current rows is in memory. Close it to make it whole.

    Args:
        path: The file to write.
        dtype: Of the entries.
        row: Shape of one row; a number by default.
    """

    def __init__(self, path: Path, dtype: DTypeLike, row: tuple[int, ...] = ()) -> None:
        self.dtype, self.length, self._row = np.dtype(dtype), 0, row
        self._file = path.open("wb")
        self._begin = self._file.write(_header(self.dtype, (0, *row)))

    def append(self, rows: NDArray) -> None:
        """Add rows at the end."""
        rows = np.ascontiguousarray(rows, dtype=self.dtype)
        assert rows.shape[1:] == self._row
        self._file.write(rows.reshape(-1).view(np.uint8).data if rows.size else b"")
        self.length += len(rows)

    def close(self) -> None:
        """Write the final shape into the header, which NumPy leaves room for."""
        if self._file.closed:
            return
        header = _header(self.dtype, (self.length, *self._row))
        assert len(header) == self._begin
        self._file.seek(0)
        self._file.write(header)
        self._file.close()

    def __enter__(self) -> GrowingArray:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def create_array(path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> NDArray:
    """Make an array of zeros on disk and map it for writing.

    Its room is taken at once: a full disk is then an error here, and not a crash when the mapped memory is written.
    """
    dtype = np.dtype(dtype)
    with path.open("wb") as file:
        begin = file.write(_header(dtype, shape))
        total = begin + math.prod(shape) * dtype.itemsize
        file.truncate(total)
        file.flush()
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, total)
    if 0 in shape:
        return np.zeros(shape, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r+", offset=begin, shape=shape)


def map_array(file: BinaryIO, path: Path) -> NDArray:
    """Map an opened file for reading; refused before anything is allocated if its size is not what its header says."""
    dtype, columns_first, shape = _read_header(file, path)
    begin, size = file.tell(), os.fstat(file.fileno()).st_size
    if begin + math.prod(shape) * dtype.itemsize != size:
        raise GpmError(f"{path} is damaged: an array of shape {list(shape)} does not have {size:,} bytes.")
    order: Any = "F" if columns_first else "C"
    if 0 in shape:
        return np.zeros(shape, dtype=dtype, order=order)
    return np.memmap(file, dtype=dtype, mode="r", offset=begin, shape=shape, order=order)


@dataclass(frozen=True)
class MappedArray:
    """An array as the file that it is mapped from: what goes to another process in place of its bytes."""

    path: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    columns_first: bool

    @classmethod
    def of(cls, array: NDArray) -> MappedArray | None:
        """Where an array is mapped from, whole; None if it is in memory."""
        base: Any = array
        while base is not None and not isinstance(base, np.memmap):
            base = getattr(base, "base", None)
        if base is None or base.filename is None or base.mode != "r":
            return None
        while isinstance(base.base, np.memmap):  # the first of several views knows its place in the file
            base = base.base
        same = array.__array_interface__["data"][0] == base.__array_interface__["data"][0]
        if not same or array.shape != base.shape or array.dtype != base.dtype or array.strides != base.strides:
            return None
        first = not base.flags.c_contiguous
        return cls(str(base.filename), base.dtype.str, base.offset, base.shape, first)

    def open(self) -> NDArray:
        """Map it again."""
        order: Any = "F" if self.columns_first else "C"
        try:
            return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)
        except OSError as error:
            raise GpmError(f"cannot read {self.path}: {error.strerror}.") from None


def freeze(value: Any) -> Any:
    """A value to be pickled: what is mapped as its place, alone or in a sparse matrix; all else as it is."""
    if isinstance(value, np.ndarray):
        return MappedArray.of(value) or value
    if sp.issparse(value) and value.format == "csr":
        return ("csr", value.shape, *(freeze(getattr(value, part)) for part in ("data", "indices", "indptr")))
    return value


def thaw(value: Any) -> Any:
    """The other way round."""
    if isinstance(value, MappedArray):
        return value.open()
    if isinstance(value, tuple) and value and isinstance(value[0], str) and value[0] == "csr":
        return sp.csr_array(tuple(map(thaw, value[2:])), shape=value[1], copy=False)
    return value


def _header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(buffer, described)
    return buffer.getvalue()


def _read_header(file: BinaryIO, path: Path) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    """What a header says; only those of plain numbers and texts are read, and none is evaluated."""
    start = file.read(len(_MAGIC) + 4)
    length = int.from_bytes(start[-2:], "little")
    text = file.read(length).decode("latin-1") if start[:-2] == _MAGIC + b"\x01\x00" else ""
    found = _HEADER.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        shape = tuple(int(size) for size in found[3].replace(" ", "").rstrip(",").split(","))
        dtype = np.dtype(found[1])
        if len(shape) > 4 or not dtype.itemsize or math.prod(filter(None, shape)) * dtype.itemsize >= 2**48:
            raise ValueError
    except (ValueError, TypeError):
        raise GpmError(f"{path} is not an array of numbers as gpm writes them.") from None
    return dtype, found[2] == "True", shape
