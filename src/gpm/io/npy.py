"""`.npy` files: appended to, or allocated at once; mapped after their header was checked."""

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
    """Writer of an array to which rows are appended; only the current rows are in memory. Close it to finish the file.

    `row` is the shape of one row; a scalar by default.
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
        """Write the final shape into the header, in which NumPy leaves space for it."""
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

    Its space is reserved at once: a full disk is then an error here, not a crash when the mapped memory is written.
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
    """Map an opened file for reading; refuse it before allocating if its size does not match its header."""
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
    """The file that an array is mapped from, sent to another process in place of its bytes."""

    path: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    columns_first: bool

    @classmethod
    def of(cls, array: NDArray) -> MappedArray | None:
        """Return the file that is mapped as this whole array; None if the array is in memory."""
        base: Any = array
        while base is not None and not isinstance(base, np.memmap):
            base = getattr(base, "base", None)
        if base is None or base.filename is None or base.mode != "r":
            return None
        while isinstance(base.base, np.memmap):  # the first of several views knows its offset in the file
            base = base.base
        same = array.__array_interface__["data"][0] == base.__array_interface__["data"][0]
        if not same or array.shape != base.shape or array.dtype != base.dtype or array.strides != base.strides:
            return None
        return cls(str(base.filename), base.dtype.str, base.offset, base.shape, not base.flags.c_contiguous)

    def open(self) -> NDArray:
        """Map the file again."""
        order: Any = "F" if self.columns_first else "C"
        try:
            return np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)
        except OSError as error:
            raise GpmError(f"Cannot read {self.path}: {error.strerror}.") from None


def freeze(value: Any) -> Any:
    """Replace a mapped array, alone or in a sparse matrix, by its file for pickling; keep any other value."""
    if isinstance(value, np.ndarray):
        return MappedArray.of(value) or value
    if sp.issparse(value) and value.format == "csr":
        return ("csr", value.shape, *(freeze(getattr(value, part)) for part in ("data", "indices", "indptr")))
    return value


def thaw(value: Any) -> Any:
    """Undo `freeze`."""
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
    """Parse the header of an array of plain numbers or text, without evaluating it."""
    start = file.read(len(_MAGIC) + 4)
    length = int.from_bytes(start[-2:], "little")
    text = file.read(length).decode("latin-1") if start[:-2] == _MAGIC + b"\x01\x00" else ""
    match = _HEADER.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        shape = tuple(int(size) for size in match[3].replace(" ", "").rstrip(",").split(","))
        dtype = np.dtype(match[1])
        if len(shape) > 4 or not dtype.itemsize or math.prod(filter(None, shape)) * dtype.itemsize >= 2**48:
            raise ValueError
    except (ValueError, TypeError):
        raise GpmError(f"{path} is not an array of numbers as gpm writes them.") from None
    return dtype, match[2] == "True", shape
