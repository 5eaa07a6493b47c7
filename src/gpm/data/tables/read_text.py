"""Text files as tables: what stands between the cells, which row names the columns, and every cell as it is."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpm.data.tables.detect_header import is_header
from gpm.data.tables.scan_text import opened, survey
from gpm.errors import GpmError

TEXT_FILES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".csv.gz", ".tsv.gz")
OPTIONS = ("delimiter", "header", "trim")
MOST_COLUMNS = 20_000
LONGEST_CELL, LONGEST_LINE = 2**24, 2**26  # characters; more is a quote that was never closed, or no table
_SAMPLE = 100  # rows that decide on the delimiter, the header and the blanks
_WORDS = {"\t": "a tab", ";": "a semicolon", ",": "a comma", " ": "blanks"}
Row = tuple[int, list[str]]  # the line at which a row begins, and its cells


@dataclass(frozen=True)
class Cut:
    """How the lines of a file become rows.

    Attributes:
        delimiter: What stands between cells; " " for any blanks.
        end: What ends a line: LF, before which a CR may stand, or CR alone.
        above: Lines above the first row: blank ones and comments.
        trim: Whether blanks around cells belong to the delimiter.
    """

    delimiter: str
    end: str
    above: int
    trim: bool = False


@dataclass(frozen=True)
class Form:
    """How a text file holds its table.

    Attributes:
        columns: Names of the columns.
        cut: How its lines become rows.
        header: Whether the first row is one.
        below: Lines above the first row below the header.
        plain: Each row is a line cut at its delimiters: no quotes, and line ends of one kind.
        hollow: There may be rows without any cell filled; they are passed over.
    """

    columns: tuple[str, ...]
    cut: Cut
    header: bool
    below: int
    plain: bool
    hollow: bool

    @property
    def options(self) -> dict[str, Any]:
        """What makes `read_form` find the same again."""
        return {"delimiter": self.cut.delimiter, "header": self.header, "trim": self.cut.trim}


def is_text(path: Path) -> bool:
    """Whether a file's name says that it is text."""
    return path.name.lower().endswith(TEXT_FILES)


def read_form(path: Path, options: Mapping[str, Any], names: Collection[str] = ()) -> Form:
    """Find out how a text file holds its table; raise what makes it no text.

    The first hundred rows decide. The delimiter is a tab, else a semicolon, else a comma: the first that is in the
    first row and cuts all rows into as many cells; else it is blanks. Blank lines, and lines that begin with # above
    the first row, are passed over.

    Args:
        path: The file.
        options: delimiter, header or trim, where they are known.
        names: Names that columns have if there is a header.
    """
    _check_options(options)
    found = survey(path, [options["delimiter"]] if "delimiter" in options else list("\t;, "))
    end = "\r" if "returns" in found else "\n"
    above = sum(1 for _ in itertools.takewhile(_is_passed_over, _lines(path, end)))
    delimiter = options["delimiter"] if "delimiter" in options else _find_delimiter(path, end, above)
    cut = Cut(delimiter, end, above)
    head = list(itertools.islice(_rows(path, cut), _SAMPLE + 1))
    _check_head(path, head, cut)
    cells = [[cell.strip() for cell in row] for _, row in head]
    header = bool(options.get("header", is_header(cells[0], cells[1:], names)))
    blanks = delimiter != " " and _begin_with_blanks([row for _, row in head[header:]])
    cut = replace(cut, trim=bool(options.get("trim", blanks)))
    line, first = next(_rows(path, cut), head[0])
    return Form(
        columns=_names(path, line, first) if header else tuple(f"column {i + 1}" for i in range(len(first))),
        cut=cut,
        header=header,
        below=line if header else line - 1,
        plain=not found & {"long", "mixed", "blanks" if delimiter == " " else "quotes"},
        hollow=len(first) == 1 or cut.trim or delimiter in found,
    )


def read_rows(path: Path, form: Form) -> Iterator[Row]:
    """The rows below the header; a row of fewer or more cells than there are columns is a mistake."""
    width = len(form.columns)
    for line, row in itertools.islice(_rows(path, form.cut), int(form.header), None):
        if len(row) != width:
            if len(row) < width or any(row[width:]):
                mark = _WORDS.get(form.cut.delimiter, repr(form.cut.delimiter))
                raise GpmError(
                    f"{path.name}, line {line}: {len(row)} cell(s) where {width} are needed, with {mark} between; "
                    "mend the line, quote a cell that holds a delimiter, or say what the delimiter is."
                )
            row = row[:width]  # a delimiter at the end of the line
        yield line, row


def find_line(path: Path, form: Form, row: int) -> int:
    """The line at which a row begins; rows count from 0, lines from 1."""
    return next(itertools.islice(read_rows(path, form), row, None), (0, []))[0]


def _check_options(options: Mapping[str, Any]) -> None:
    for key in options:
        if key not in OPTIONS:
            raise GpmError(f"a text file has no option {key!r}; it has {', '.join(OPTIONS)}.")
    mark = options.get("delimiter", ",")
    if not isinstance(mark, str) or len(mark) != 1 or mark == '"' or not (mark.isprintable() or mark == "\t"):
        raise GpmError(f"delimiter must be one character, such as ',' or ';' or a tab, got {mark!r}.")
    for key in ("header", "trim"):
        if not isinstance(options.get(key, True), bool):
            raise GpmError(f"{key} must be true or false, got {options[key]!r}.")


def _check_head(path: Path, head: list[Row], cut: Cut) -> None:
    if not head:
        raise GpmError(f"{path.name} holds no rows; write one per line, its cells with commas between.")
    line, first = head[0]
    if len(first) > MOST_COLUMNS:
        raise GpmError(f"{path.name}, line {line}: {len(first):,} columns; at most {MOST_COLUMNS:,} are read.")
    comments = any(line.strip() for line in itertools.islice(_lines(path, cut.end), cut.above))
    for line, row in head:
        if cut.delimiter == " " and any(cell.startswith('"') for cell in row):
            raise GpmError(
                f"{path.name}, line {line}: cells in quotes have blanks between them; "
                "write the file with commas or tabs between."
            )
        if comments and row[0].startswith("#"):
            raise GpmError(
                f"{path.name}, line {line}: a row begins with # as the comments above do; "
                "write a header above the first row, and no comments."
            )


def _names(path: Path, line: int, cells: list[str]) -> tuple[str, ...]:
    """The names in a header, without the blanks around them."""
    names = [cell.strip() for cell in cells]
    check_names(f"{path.name}, line {line}", names)
    return tuple(names)


def check_names(where: str, names: Sequence[str]) -> None:
    """Raise unless every column has a name of its own. Capitals do not tell names apart: SQL does not either."""
    seen: dict[str, int] = {}
    for i, name in enumerate(names, 1):
        if not name or "\0" in name:
            raise GpmError(f"{where}: column {i} has no name; name it or remove the column.")
        if name.lower() == "gpm_row":
            raise GpmError(f"{where}: column {name!r} has a name that is needed for the rows' numbers; rename it.")
        if name.lower() in seen:
            raise GpmError(f"{where}: columns {seen[name.lower()]} and {i} are both called {name!r}; rename one.")
        seen[name.lower()] = i


def _lines(path: Path, end: str) -> Iterator[str]:
    """The lines of a file, with what ends them."""
    with opened(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline=end)
        while line := text.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise GpmError(f"{path.name} has a line of more than {LONGEST_LINE:,} characters; is it a table?")
            yield line


def _is_passed_over(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _rows(path: Path, cut: Cut) -> Iterator[Row]:
    """Every row that has a cell filled, the header too."""
    lines = itertools.islice(_lines(path, cut.end), cut.above, None)
    rows = _cut_at_blanks(lines, cut) if cut.delimiter == " " else _cut(path, lines, cut)
    for line, cells in rows:
        row = [cell.strip(" \t") for cell in cells] if cut.trim else cells
        if any(row):
            yield line, row


def _cut_at_blanks(lines: Iterator[str], cut: Cut) -> Iterator[Row]:
    for number, line in enumerate(lines, cut.above + 1):
        yield number, [cell for cell in re.split(r"[ \t\r\n]+", line) if cell]


def _cut(path: Path, lines: Iterator[str], cut: Cut) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    reader = csv.reader(lines, delimiter=cut.delimiter, strict=True, skipinitialspace=cut.trim)
    begin = cut.above + 1
    try:
        for row in reader:
            yield begin, row
            begin = cut.above + reader.line_num + 1  # a cell in quotes may go over several lines
    except csv.Error as error:
        raise GpmError(f"{path.name}, line {begin}: {_explain(str(error))}.") from None


def _explain(error: str) -> str:
    if "end of data" in error:
        return "a quote is opened and never closed; close it"
    if "field limit" in error:
        return f"a cell has more than {LONGEST_CELL:,} characters; close its quotes, or shorten it"
    if "new-line character" in error:
        return "a carriage return stands inside a cell; put the cell in quotes"
    if "expected after" in error:
        return "a cell goes on after its closing quote; write a quote inside quotes twice"
    return f"the row cannot be read ({error}); check its quotes"


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
    """Whether a delimiter cuts the first rows into as many cells each."""
    try:
        return len({len(row) for _, row in itertools.islice(_rows(path, cut), _SAMPLE)}) == 1
    except GpmError:
        return False


def _begin_with_blanks(rows: list[list[str]]) -> bool:
    """Whether every cell that follows a delimiter begins with a blank."""
    cells = [cell for row in rows for cell in row[1:] if cell]
    return bool(cells) and all(cell[0] in " \t" for cell in cells)
