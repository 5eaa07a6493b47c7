"""Scan a whole text file: check that it is UTF-8 text, and find quotes, line ends and blanks."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np

from gpm.errors import GpmError

_CHUNK = 2**20  # bytes; a line that fills a chunk may be too long for DuckDB's buffers
_OTHER_FILES = {
    codecs.BOM_UTF16_LE: "is UTF-16 text; save it as UTF-8",
    codecs.BOM_UTF16_BE: "is UTF-16 text; save it as UTF-8",
    b"PK\x03\x04": "is a workbook or a zip file, not text; export the table as CSV",
    b"\x1f\x8b": "is compressed; add .gz to its name, or decompress it",
}  # how such files begin
_LOOSE = (b"  ", b"\t", b"\n ", b" \n", b" \r")  # blanks other than a single one between two cells


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading, unpacked if its name ends in .gz; errors become one sentence."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise GpmError(f"{path.name} is damaged, or not a gzip file; compress it again.") from None
    except UnicodeDecodeError:
        raise GpmError(f"{path.name} is not UTF-8 text; save it as UTF-8.") from None
    except OSError as error:
        raise GpmError(f"{path} cannot be read: {error.strerror or error}.") from None


def check_file(path: Path) -> None:
    """Raise unless the path is a regular file that can be read."""
    try:
        if path.is_dir():
            raise GpmError(f"{path} is a folder; give a file.")
        if not path.exists():
            raise GpmError(f"There is no file {path}; check its name.")
        if not path.is_file():
            raise GpmError(f"{path} is a pipe or a device, but tables are read more than once; save it as a file.")
        path.open("rb").close()
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        raise GpmError(f"{str(path)!r} has a name that is not UTF-8 text; rename the file.") from None
    except OSError as error:
        raise GpmError(f"{path} cannot be read: {error.strerror or error}.") from None


def survey(path: Path, delimiters: Collection[str]) -> set[str]:
    """Scan a file, a megabyte at a time; raise if it is not UTF-8 text.

    Returns:
        "quotes" if there are any; "returns" if every line ends in CR alone; "mixed" if there are several kinds of line
        ends; "long" if a line is long; "blanks" if there are blanks other than a single one between two cells; and each
        delimiter that begins a line.
    """
    marks = {mark for mark in delimiters if not mark.isascii()}  # the end of a chunk could split it
    lines, ends, tail = 0, [0, 0], b"\n"
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(path) as file:
        for number, chunk in enumerate(iter(lambda: file.read(_CHUNK), b"")):
            if number == 0:
                for mark, sentence in _OTHER_FILES.items():
                    if chunk.startswith(mark):
                        raise GpmError(f"{path.name} {sentence}.")
                chunk = chunk.removeprefix(codecs.BOM_UTF8)
            _check_text(path, decoder, chunk, lines)
            window, count = tail + chunk, chunk.count(b"\n")
            marks |= _line_starts(window) & set(delimiters)
            marks |= {"quotes"} if b'"' in chunk else set()
            marks |= {"long"} if not count and len(chunk) == _CHUNK else set()
            if " " in delimiters and "blanks" not in marks and any(mark in window for mark in (b" ", b"\t")):
                marks |= {"blanks"} if any(mark in window for mark in _LOOSE) else set()
            if b"\r" in window:
                ends = [ends[0] + chunk.count(b"\r"), ends[1] + window.count(b"\r\n")]
            lines, tail = lines + count, window[-1:]
        _check_text(path, decoder, b"", lines, final=True)
    if ends[0] and not ends[0] == ends[1] == lines:
        marks |= {"mixed"} if lines else {"mixed", "returns"}
    return marks | ({"blanks"} if tail == b" " else set())


def _line_starts(window: bytes) -> set[str]:
    """Return the ASCII characters that follow an LF."""
    codes = np.frombuffer(window, np.uint8)
    after = codes[np.flatnonzero(codes[:-1] == ord("\n")) + 1]
    return {chr(code) for code in np.flatnonzero(np.bincount(after, minlength=1)) if code < 128}


def _check_text(
    path: Path, decoder: codecs.IncrementalDecoder, chunk: bytes, above: int, *, final: bool = False
) -> None:
    try:
        if final or not chunk.isascii() or decoder.getstate()[0]:  # plain ASCII need not be decoded
            decoder.decode(chunk, final)
    except UnicodeDecodeError as error:
        line = above + error.object[: error.start].count(b"\n") + 1
        raise GpmError(f"{path.name}, line {line} is not UTF-8 text; save the file as UTF-8.") from None
    if b"\0" in chunk:
        line = above + chunk[: chunk.index(b"\0")].count(b"\n") + 1
        raise GpmError(
            f"{path.name}, line {line} contains a zero byte, so it is not text; export the table as UTF-8 text."
        )
