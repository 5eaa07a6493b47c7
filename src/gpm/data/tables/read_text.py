"""Read text files as tables: check that they are UTF-8 text, detect the delimiter and the header, return all cells."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from gpm.data.tables.detect_header import is_header
from gpm.errors import GpmError

TEXT_FILES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".csv.gz", ".tsv.gz")
OPTIONS: dict[str, type] = {"delimiter": str, "header": bool, "trim": bool}
MOST_COLUMNS = 20_000
LONGEST_CELL, LONGEST_LINE = 2**24, 2**26  # characters; more means an unclosed quote, or not a table
_SAMPLE = 100  # rows that decide on the delimiter, the header and the blanks
_WORDS = {"\t": "a tab", ";": "a semicolon", ",": "a comma", " ": "blanks"}
_CSV_ERRORS = {
    "end of data": "a quote is opened and never closed; close it",
    "field limit": f"a cell has more than {LONGEST_CELL:,} characters; close its quotes, or shorten it",
    "new-line character": "a cell contains a carriage return; put the cell in quotes",
    "expected after": "a cell continues after its closing quote; write a quote inside quotes twice",
}
_CHUNK = 2**20  # bytes; a line that fills a chunk may be too long for DuckDB's buffers
_OTHER_FILES = {
    codecs.BOM_UTF16_LE: "is UTF-16 text; save it as UTF-8",
    codecs.BOM_UTF16_BE: "is UTF-16 text; save it as UTF-8",
    b"PK\x03\x04": "is a workbook or a zip file, not text; export the table as CSV",
    b"\x1f\x8b": "is compressed; add .gz to its name, or decompress it",
}  # how such files begin
_LOOSE = (b"  ", b"\t", b"\n ", b" \n", b" \r")  # blanks other than a single one between two cells
Row = tuple[int, list[str]]  # the line at which a row begins, and its cells


@dataclass(frozen=True)
class Cut:
    """How the lines of a file are split into rows."""

    delimiter: str  # the character between cells; " " for any blanks
    end: str  # the end of a line: LF, optionally after a CR, or CR alone
    above: int  # lines above the first row: blank lines and comments
    trim: bool = False  # blanks around cells belong to the delimiter


@dataclass(frozen=True)
class Form:
    """The layout of the table in a text file."""

    columns: tuple[str, ...]
    cut: Cut
    header: bool  # the first row is a header
    below: int  # lines above the first row after the header
    plain: bool  # each row is a line split at its delimiters: no quotes, and line ends of one kind
    hollow: bool  # there may be rows without any filled cell; they are skipped

    @property
    def options(self) -> dict[str, Any]:
        """The options with which `read_form` detects the same layout again."""
        return {"delimiter": self.cut.delimiter, "header": self.header, "trim": self.cut.trim}


def is_text(path: Path) -> bool:
    """Return whether the name of a file says that it is text."""
    return path.name.lower().endswith(TEXT_FILES)


def read_form(path: Path, options: Mapping[str, Any], names: Collection[str] = ()) -> Form:
    """Detect the layout of a text file; raise if it is not text.

    The first hundred rows decide. The delimiter is a tab, else a semicolon, else a comma: the first that occurs in the
    first row and splits all rows into the same number of cells; else it is blanks. Blank lines, and lines that begin
    with # above the first row, are skipped. Options override the detection; `names` are expected in a header.
    """
    _check_options(options)
    marks = survey(path, [options["delimiter"]] if "delimiter" in options else list("\t;, "))
    end = "\r" if "returns" in marks else "\n"
    above = sum(1 for _ in itertools.takewhile(lambda line: line.strip()[:1] in ("", "#"), _lines(path, end)))
    delimiter = options["delimiter"] if "delimiter" in options else _find_delimiter(path, end, above)
    cut = Cut(delimiter, end, above)
    head = list(itertools.islice(_rows(path, cut), _SAMPLE + 1))
    _check_head(path, head, cut)
    cells = [[cell.strip() for cell in row] for _, row in head]
    header = bool(options.get("header", is_header(cells[0], cells[1:], names)))
    tails = [cell for _, row in head[header:] for cell in row[1:] if cell]
    blanks = delimiter != " " and bool(tails) and all(cell[0] in " \t" for cell in tails)
    cut = replace(cut, trim=bool(options.get("trim", blanks)))
    line, first = next(_rows(path, cut), head[0])
    columns = tuple(cell.strip() if header else f"column {i}" for i, cell in enumerate(first, 1))
    check_names(f"{path.name}, line {line}", columns)
    return Form(
        columns=columns,
        cut=cut,
        header=header,
        below=line if header else line - 1,
        plain=not marks & {"long", "mixed", "blanks" if delimiter == " " else "quotes"},
        hollow=len(first) == 1 or cut.trim or delimiter in marks,
    )


def read_rows(path: Path, form: Form) -> Iterator[Row]:
    """Yield the rows below the header; a row with fewer or more cells than columns is an error."""
    width = len(form.columns)
    for line, row in itertools.islice(_rows(path, form.cut), int(form.header), None):
        if len(row) < width or any(row[width:]):
            mark = _WORDS.get(form.cut.delimiter, repr(form.cut.delimiter))
            raise GpmError(
                f"{path.name}, line {line}: {len(row)} cell(s) instead of {width}, separated by {mark}; "
                "fix the line, quote a cell that contains the delimiter, or set the delimiter in the YAML."
            )
        yield line, row[:width]  # the line may end with a delimiter


def find_line(path: Path, form: Form, row: int) -> int:
    """Return the line at which a row begins; rows count from 0, lines from 1."""
    return next(itertools.islice(read_rows(path, form), row, None), (0, []))[0]


def check_names(where: str, names: Sequence[str]) -> None:
    """Raise unless every column has a name of its own, ignoring case as SQL does."""
    seen: dict[str, int] = {}
    for i, name in enumerate(names, 1):
        if not name or "\0" in name:
            raise GpmError(f"{where}: column {i} has no name; name it or remove the column.")
        if name.lower() == "gpm_row":
            raise GpmError(f"{where}: column name {name!r} is reserved for row numbers; rename the column.")
        if name.lower() in seen:
            raise GpmError(f"{where}: columns {seen[name.lower()]} and {i} are both called {name!r}; rename one.")
        seen[name.lower()] = i


def _check_options(options: Mapping[str, Any]) -> None:
    for key, value in options.items():
        if key not in OPTIONS:
            raise GpmError(f"A text file has no option {key!r}; the options are {', '.join(OPTIONS)}.")
        if OPTIONS[key] is bool and not isinstance(value, bool):
            raise GpmError(f"{key} must be true or false, got {value!r}.")
    mark = options.get("delimiter", ",")
    if not isinstance(mark, str) or len(mark) != 1 or mark == '"' or not (mark.isprintable() or mark == "\t"):
        raise GpmError(f"delimiter must be one character, such as ',' or ';' or a tab, got {mark!r}.")


def _check_head(path: Path, head: list[Row], cut: Cut) -> None:
    if not head:
        raise GpmError(f"{path.name} has no rows; write one per line, with commas between the cells.")
    line, first = head[0]
    if len(first) > MOST_COLUMNS:
        raise GpmError(f"{path.name}, line {line}: {len(first):,} columns; at most {MOST_COLUMNS:,} are supported.")
    comments = any(line.strip() for line in itertools.islice(_lines(path, cut.end), cut.above))
    for line, row in head:
        if cut.delimiter == " " and any(cell.startswith('"') for cell in row):
            raise GpmError(
                f"{path.name}, line {line}: quoted cells are separated by blanks; separate them by commas or tabs."
            )
        if comments and row[0].startswith("#"):
            raise GpmError(
                f"{path.name}, line {line}: a row begins with #, like the comments above; "
                "write a header above the first row, and no comments."
            )


def _lines(path: Path, end: str) -> Iterator[str]:
    with opened(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline=end)
        while line := text.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise GpmError(f"{path.name} has a line of more than {LONGEST_LINE:,} characters; is it a table?")
            yield line


def _rows(path: Path, cut: Cut) -> Iterator[Row]:
    """Yield every row that has a filled cell, including the header."""
    lines = itertools.islice(_lines(path, cut.end), cut.above, None)
    if cut.delimiter == " ":
        split = ([cell for cell in re.split(r"[ \t\r\n]+", line) if cell] for line in lines)
        rows: Iterator[Row] = enumerate(split, cut.above + 1)
    else:
        rows = _split_csv(path, lines, cut)
    for line, cells in rows:
        row = [cell.strip(" \t") for cell in cells] if cut.trim else cells
        if any(row):
            yield line, row


def _split_csv(path: Path, lines: Iterator[str], cut: Cut) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    reader = csv.reader(lines, delimiter=cut.delimiter, strict=True, skipinitialspace=cut.trim)
    begin = cut.above + 1
    try:
        for row in reader:
            yield begin, row
            begin = cut.above + reader.line_num + 1  # a quoted cell may span several lines
    except csv.Error as error:
        other = f"the row cannot be read ({error}); check its quotes"
        reason = next((reason for words, reason in _CSV_ERRORS.items() if words in str(error)), other)
        raise GpmError(f"{path.name}, line {begin}: {reason}.") from None


def _find_delimiter(path: Path, end: str, above: int) -> str:
    if path.name.lower().endswith((".tsv", ".tsv.gz")):
        return "\t"
    first = next(itertools.islice(_lines(path, end), above, None), "")
    bare = re.sub(r'"[^"]*"', "x", first)
    present = [mark for mark in "\t;," if mark in bare]
    if not present:
        return " " if len(bare.split()) > 1 else ","
    even = (mark for mark in present if len(present) > 1 and _is_even(path, Cut(mark, end, above)))
    return next(even, present[0])


def _is_even(path: Path, cut: Cut) -> bool:
    """Return whether a delimiter splits the first rows into the same number of cells."""
    try:
        return len({len(row) for _, row in itertools.islice(_rows(path, cut), _SAMPLE)}) == 1
    except GpmError:
        return False


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
    """Scan a file, a megabyte at a time, and return what occurs in it; raise if it is not UTF-8 text.

    This is "quotes"; "returns" if every line ends in CR alone; "mixed" for several kinds of line ends; "long" for a
    long line; "blanks" for blanks other than a single one between two cells; and each delimiter that begins a line.
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
