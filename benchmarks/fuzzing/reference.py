"""A second reader of tables: slow, written from the documented rules alone, with nothing of the importer's in it.

It reads a file as the import says that it was read (delimiter, header, blanks around cells), and refuses what is no table
under these rules; then what was imported must be what it reads.
"""

from __future__ import annotations

import codecs
import gzip
import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as ET

Cell = str | None
_LINE_END = re.compile(r"\r*\n|\r+\Z")


class RefusalError(Exception):
    """The file is no table under the documented rules."""


@dataclass
class Sheet:
    """A table: its columns, and rows of cells, None where they are empty."""

    columns: list[str]
    rows: list[list[Cell]] = field(default_factory=list)

    def column(self, name: str) -> list[Cell]:
        at = self.columns.index(name)
        return [row[at] for row in self.rows]


def read_text(content: bytes, options: Mapping[str, Any]) -> Sheet:
    """Read a text file, unpacked, that was read with these options."""
    if b"\0" in content:
        raise RefusalError("a zero byte")
    try:
        text = content.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError:
        raise RefusalError("not UTF-8") from None
    end = "\n" if "\n" in text or "\r" not in text else "\r"
    delimiter, trim = options["delimiter"], options["trim"]
    while text and _is_passed_over(text.partition(end)[0]):
        text = text.partition(end)[2]
    rows = _cut_blanks(text, end) if delimiter == " " else cut(text, delimiter, end, trim)
    rows = ([cell.strip(" \t") for cell in row] if trim else row for row in rows)
    filled = [row for row in rows if any(row)]
    if not filled:
        raise RefusalError("no rows")
    width = len(filled[0])
    names = [cell.strip() for cell in filled.pop(0)] if options["header"] else [f"column {i + 1}" for i in range(width)]
    if len({name.lower() for name in names}) < width or not all(names):
        raise RefusalError("two columns of one name, or one without")
    for row in filled:
        if len(row) < width or any(row[width:]):
            raise RefusalError(f"{len(row)} cells for {width} columns")
    return Sheet(names, [[cell or None for cell in row[:width]] for row in filled])


def _is_passed_over(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _cut_blanks(text: str, end: str) -> Iterator[list[str]]:
    for line in text.split(end):
        yield [cell for cell in re.split(r"[ \t\r\n]+", line) if cell]


def cut(text: str, delimiter: str, end: str, trim: bool) -> Iterator[list[str]]:
    """Cut a text into rows: quotes hold delimiters and line ends, and are doubled inside themselves."""
    at, row, size = 0, list[str](), len(text)
    while at < size:
        cell, at = _read_cell(text, at, delimiter, end, trim)
        row.append(cell)
        if at < size and text[at] == delimiter:
            at += 1
            if at == size:
                row.append("")
                yield row
            continue
        yield row
        row = []
        at = found.end() if end == "\n" and (found := _LINE_END.match(text, at)) else at + 1


def _read_cell(text: str, at: int, delimiter: str, end: str, trim: bool) -> tuple[str, int]:
    """A cell, and the place of the delimiter or line end after it."""
    while trim and text[at : at + 1] == " ":
        at += 1
    if text[at : at + 1] == '"':
        begin = at = at + 1
        while True:
            at = text.find('"', at)
            if at < 0:
                raise RefusalError("a quote that is never closed")
            if text[at + 1 : at + 2] != '"':
                break
            at += 2
        if not _ends(text, at + 1, delimiter, end):
            raise RefusalError("a cell that goes on after its quote")
        return text[begin:at].replace('""', '"'), at + 1
    begin = at
    while not _ends(text, at, delimiter, end):
        at += 1
    return text[begin:at], at


def _ends(text: str, at: int, delimiter: str, end: str) -> bool:
    """Whether a cell ends here."""
    if at >= len(text) or text[at] == delimiter:
        return True
    if end == "\r":
        return text[at] == "\r"
    if text[at] == "\r" and not _LINE_END.match(text, at):
        raise RefusalError("a carriage return inside a cell")
    return text[at] in "\r\n"


class Number(str):
    """A number as its file writes it."""


def read_records(content: bytes) -> Sheet:
    """Read JSON lines."""
    records = []
    try:
        lines = content.removeprefix(codecs.BOM_UTF8).decode("utf-8").split("\n")
        for line in filter(str.strip, lines):
            records.append(json.loads(line.strip(), parse_int=Number, parse_float=Number, object_pairs_hook=_pairs))
    except (ValueError, RecursionError) as error:
        raise RefusalError(str(error)) from None
    if not records or not all(isinstance(record, dict) for record in records):
        raise RefusalError("no objects")
    names = list(dict.fromkeys(key for record in records for key in record))
    first = list(records[0])
    names = first + sorted(name for name in names if name not in first)
    columns = [as_texts([record.get(name) for record in records]) for name in names]
    return Sheet(names, [list(row) for row in zip(*columns, strict=True)] if columns else [])


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def as_texts(values: list[Any]) -> list[Cell]:
    """The cells of a column of JSON values: numbers as numbers if all are, else everything as it is written."""
    kinds = {type(value) for value in values if value is not None}
    long = any(re.fullmatch(r"-?\d{16,}", value) for value in values if isinstance(value, Number))
    numeric = kinds == {Number} and (not long or all(_fits(value) for value in values if value is not None))
    return [_as_text(value, numeric) for value in values]


def _fits(value: str) -> bool:
    return bool(re.fullmatch(r"-?\d+", value)) and -(2**63) <= int(value) < 2**63


def _as_text(value: Any, numeric: bool) -> Cell:
    if value is None or value == "":
        return None
    if isinstance(value, Number) and numeric:
        return value if _fits(value) and not value.startswith("-0") else number_text(float(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(_numeric(value), ensure_ascii=False, separators=(",", ":"))


def _numeric(value: Any) -> Any:
    """A nested value with its whole numbers as numbers again."""
    if isinstance(value, dict):
        return {key: _numeric(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_numeric(one) for one in value]
    return int(value) if isinstance(value, Number) else value


def number_text(value: float) -> Cell:
    """A number in its usual way: whole numbers without a point; None for what is none."""
    if value != value:
        return None
    return str(int(value)) if abs(value) < 1e15 and value == int(value) else repr(value)


# Network files: the ids of nodes and the ends of edges


Network = tuple[list[str], list[tuple[str, str]]]


def read_xml(content: bytes) -> Network:
    """Nodes and edges of GraphML or GEXF, wherever they stand."""
    try:
        root = ET.fromstring(content)
    except (ET.ParseError, ValueError, LookupError, RecursionError) as error:
        raise RefusalError(str(error)) from None
    found: dict[str, list[Any]] = {"node": [], "edge": []}
    for element in root.iter():
        kind = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        if kind in found:
            found[kind].append(element.attrib)
    try:
        return [node["id"] for node in found["node"]], [(edge["source"], edge["target"]) for edge in found["edge"]]
    except KeyError as error:
        raise RefusalError(f"without {error}") from None


def read_node_link(content: bytes) -> Network:
    """Nodes and edges of node-link JSON."""
    try:
        found = json.loads(content.decode("utf-8-sig"))
        nodes, links = found["nodes"], found["links" if "links" in found else "edges"]
        return [str(node["id"]) for node in nodes], [(str(link["source"]), str(link["target"])) for link in links]
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        raise RefusalError(str(error)) from None


def read_gml(content: bytes) -> Network:
    """Nodes, by label where all have one, and edges of GML."""
    try:
        text = html.unescape(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise RefusalError("not UTF-8") from None
    nodes, edges = [], []
    for kind, body in re.findall(r'\b(node|edge)\s*\[((?:[^\[\]"]|"[^"]*"|\[[^\]]*\])*)\]', text):
        said = {key: value.strip('"') for key, value in re.findall(r'(\w+)\s+("[^"]*"|[-+.\w]+)', body)}
        try:
            nodes += [(said["id"], said.get("label"))] if kind == "node" else []
            edges += [(said["source"], said["target"])] if kind == "edge" else []
        except KeyError as error:
            raise RefusalError(f"without {error}") from None
    labels = [label for _, label in nodes if label is not None]
    names = dict(nodes) if len(set(labels)) == len(nodes) else {number: number for number, _ in nodes}
    return [str(names[number]) for number, _ in nodes], [(str(names.get(a, a)), str(names.get(b, b))) for a, b in edges]


def unpack(content: bytes, name: str) -> bytes:
    """The content of a file, unpacked if its name says that it is packed."""
    if not name.lower().endswith(".gz"):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, ValueError) as error:
        raise RefusalError(str(error)) from None
    except Exception as error:  # zlib.error
        raise RefusalError(str(error)) from None
