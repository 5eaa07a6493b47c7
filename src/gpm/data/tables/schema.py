"""The schema of an import: what the columns of the user's tables are. It is shown, kept as YAML, and can be edited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from gpm.data.tables.read_text import OPTIONS
from gpm.errors import GpmError, nearest
from gpm.io.atomic import write_text
from gpm.io.yaml_files import dump_yaml, read_schema_yaml

FORMAT, VERSION = "gpm-import", 1
TABLES = ("edges", "nodes", "graphs")
ROLES = {
    "edges": ("source", "target", "weight", "graph", "feature", "split", "ignore"),
    "nodes": ("id", "graph", "feature", "target", "split", "ignore"),
    "graphs": ("graph", "target", "split", "ignore"),
}
FEATURE_KINDS = ("number", "flag", "category", "text", "date")
TARGET_KINDS = ("category", "number", "flag")
CHOICES = {
    "task": ("auto", "node", "link", "graph"),
    "duplicates": ("merge", "keep"),
    "self_loops": ("keep", "drop"),
    "unlisted": ("error", "add", "drop"),
    "order": ("given", "degree", "locality"),
}
MOST_BUCKETS = 65_536
KEPT = "kept as it is"  # start of the note on a number that is not standardised
_ROLE_WORDS = {
    "source": "where an edge starts",
    "target": "where it ends",
    "weight": "how strong an edge is",
    "id": "names the node",
    "graph": "names the graph",
    "split": "train, val or test",
}
_FEATURES = {
    "number": "standardised",
    "date": "days since 1970, standardised",
    "flag": "0 or 1",
    "category": "one column per value",
    "text": "words, hashed",
}
_TARGETS = {"category": "predicted: a class", "number": "predicted: a number", "flag": "predicted: yes or no"}
_RUN = 6  # more consecutive columns that are alike take one line
_ONCE = ("source", "weight", "graph", "id", "split")
_TYPES = {str: "text", bool: "true or false", int: "an integer", list: "a list", Mapping: "'key: value' lines"}
Shape = Mapping[str, Any]  # the type of the value of each key, or its choices
_SCHEMA: Shape = {"format": object, "version": object, "directed": bool, **CHOICES, **dict.fromkeys(TABLES, Mapping)}
_TABLE: Shape = {"file": str, "columns": Mapping, **OPTIONS}
_COLUMN: Shape = {"role": object, "kind": object, "values": list, "buckets": int, "why": str}


@dataclass(frozen=True)
class Column:
    """The use of a column."""

    role: str  # one of `ROLES`
    kind: str = ""  # how cells are read, of `FEATURE_KINDS` or `TARGET_KINDS`; empty for other roles, or to infer it
    values: tuple[str, ...] | None = None  # the categories, in order; by default the values in the column
    buckets: int = 0  # columns of hashed text; 0 for the default
    why: str = ""  # a note for the reader: what the column contains, or why it is ignored

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, without the defaults."""
        plain = vars(self) | {"values": list(self.values or ())}
        return {key: value for key, value in plain.items() if value}


@dataclass(frozen=True)
class TableSchema:
    """A table: its file, the options of a text file (delimiter, header, trim), and its columns in order."""

    file: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)

    def having(self, role: str) -> dict[str, Column]:
        """Return the columns of a role."""
        return {name: column for name, column in self.columns.items() if column.role == role}

    def one(self, role: str) -> str:
        """Return the name of the column of a role, or an empty string."""
        return next(iter(self.having(role)), "")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        columns = {name: column.to_dict() for name, column in self.columns.items()}
        return {"file": self.file, **self.options, "columns": columns}


@dataclass(frozen=True)
class Schema:
    """How tables become a graph, and what is predicted."""

    task: str = "auto"  # node, link or graph; auto in a file that leaves it open
    directed: bool = False
    duplicates: str = "merge"  # repeated edges: merge or keep
    self_loops: str = "keep"  # or drop
    unlisted: str = "error"  # for an end of an edge that the nodes table does not list; or add, or drop (the edge)
    order: str = "given"  # of the nodes: given (as in the tables), degree or locality; see `node_order`
    edges: TableSchema = field(default_factory=TableSchema)
    nodes: TableSchema | None = None
    graphs: TableSchema | None = None

    def tables(self) -> dict[str, TableSchema]:
        """Return the tables by name, without absent ones."""
        tables = {name: getattr(self, name) for name in TABLES}
        return {name: table for name, table in tables.items() if table is not None}

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, in the order of the file."""
        keys = ("task", "directed", "duplicates", "self_loops", "unlisted", "order")
        plain = {"format": FORMAT, "version": VERSION} | {key: getattr(self, key) for key in keys}
        tables = self.tables()
        return plain | {name: tables[name].to_dict() if name in tables else None for name in TABLES}

    @classmethod
    def from_dict(cls, values: Any, source: str = "the schema") -> Schema:
        """Read plain values, with defaults for absent keys. Errors name the source and the key."""
        values = _check(values, source, _SCHEMA, ": ")
        if values.pop("format", FORMAT) != FORMAT or values.pop("version", VERSION) != VERSION:
            raise GpmError(f"{source} must contain 'format: {FORMAT}' and 'version: {VERSION}', which this gpm reads.")
        tables = {name: _read_table(values[name], f"{source}: {name}", name) for name in TABLES if name in values}
        return cls(**(values | tables))


def read_schema(path: Path) -> Schema:
    """Read a YAML file written by `write_schema` or by the user."""
    return Schema.from_dict(read_schema_yaml(path), str(path))


def write_schema(path: Path, schema: Schema) -> None:
    """Write a schema as YAML, one column per line."""
    write_text(path, dump_yaml(schema.to_dict()))


def describe(schema: Schema, examples: Mapping[str, Mapping[str, str]] | None = None) -> list[str]:
    """Format the table that is shown before training, see `list_columns`."""
    rows = list_columns(schema, examples)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def list_columns(schema: Schema, examples: Mapping[str, Mapping[str, str]] | None = None) -> list[list[str]]:
    """Return the cells of a table of all columns, after its head: one row per column, or per run of alike columns.

    `examples` has a cell of each column, by table and column.
    """
    rows = [("table", "column", "role", "kind", "what happens to it", "example")]
    for name, table in schema.tables().items():
        cells = (examples or {}).get(name, {})
        for entry, group in groupby(table.columns, key=table.columns.__getitem__):
            run = list(group)
            long = len(run) > _RUN
            for column in run[:1] if long else run:
                label = f"{_printed(run[0], 9)} ... {_printed(run[-1], 9)} ({len(run):,})" if long else column
                rows.append((name, label, entry.role, entry.kind, _fate(entry, name), cells.get(column, "")))
    return [[_printed(cell, 160 if i == 4 else 28) for i, cell in enumerate(row)] for row in rows]


def _fate(column: Column, table: str) -> str:
    if column.role == "ignore":
        return f"left out: {column.why}" if column.why else "left out"
    if column.why.startswith(KEPT):
        return column.why
    words = _FEATURES[column.kind] if column.role == "feature" and column.kind else ""
    if column.role == "target" and table != "edges":
        words = _TARGETS.get(column.kind, "predicted")
    return "; ".join(part for part in (words or _ROLE_WORDS.get(column.role, ""), column.why) if part)


def _printed(text: str, most: int = 28) -> str:
    """Return a text on one line, shortened if it is long."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: most + 1])
    return plain if len(plain) <= most else plain[: most - 3] + "..."


def _read_table(values: Any, source: str, table: str) -> TableSchema:
    values = {"file": ""} | _check(values, source, _TABLE)
    columns = {
        name: _read_column(entry, f"{source}.columns.{name}", table)
        for name, entry in _check(values.pop("columns", {}), f"{source}.columns", None).items()
    }
    read = TableSchema(values.pop("file"), values, columns)
    for role in (*_ONCE, "target") if table == "edges" else _ONCE:
        if len(names := list(read.having(role))) > 1:
            raise GpmError(f"{source}: {' and '.join(map(repr, names[:3]))} all have role {role}; keep one of them.")
    return read


def _read_column(values: Any, source: str, table: str) -> Column:
    values = {"role": "target" if table == "graphs" else "feature"} | _check(values, source, _COLUMN)
    role = values["role"]
    _check_value(role, f"{source}.role", ROLES[table])
    kinds = FEATURE_KINDS if role == "feature" else TARGET_KINDS if role == "target" and table != "edges" else ()
    if role == "ignore" or not values.get("kind"):
        values["kind"] = ""
    elif not kinds:
        raise GpmError(f"{source}.kind: a column with role {role} has no kind; remove it.")
    else:
        _check_value(values["kind"], f"{source}.kind", kinds)
    if not 0 <= values.get("buckets", 0) <= MOST_BUCKETS:
        raise GpmError(f"{source}.buckets must be 1 to {MOST_BUCKETS:,}, got {values['buckets']}.")
    if "values" in values:
        values["values"] = listed = tuple(values["values"])
        for value in listed:
            _check_value(value, f"{source}.values", str)
        if not listed or len(set(listed)) < len(listed):
            raise GpmError(f"{source}.values must name each category once.")
    return Column(**values)


def _check(values: Any, source: str, shape: Shape | None, joint: str = ".") -> dict[str, Any]:
    """Return a mapping after checking its keys and types; without a shape, any text is a key.

    A null in place of a mapping or a list counts as absent.
    """
    _check_value(values, source, Mapping)
    present = {k: v for k, v in values.items() if v is not None or (shape or {}).get(k) not in (Mapping, list)}
    for key, value in present.items():
        if not isinstance(key, str) or (shape is not None and key not in shape):
            listed = f" Keys: {', '.join(shape)}." if shape else ""
            raise GpmError(f"{source}: there is no key {key!r}.{nearest(str(key), shape or ())}{listed}")
        if shape is not None:
            _check_value(value, f"{source}{joint}{key}", shape[key])
    return present


def _check_value(value: Any, source: str, expected: Any) -> None:
    if isinstance(expected, tuple):
        if not isinstance(value, str) or value not in expected:
            near = nearest(str(value), expected)
            raise GpmError(f"{source} must be one of {', '.join(expected)}, got {value!r}.{near}")
    elif not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        raise GpmError(f"{source} must be {_TYPES[expected]}, got {str(value)[:60]!r}.")
