"""What the columns of a user's tables are, as plain values: shown before training, kept as YAML, changed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from gpm.errors import GpmError, nearest
from gpm.io.atomic import write_text
from gpm.io.yaml_files import dump_yaml, read_schema_yaml

FORMAT, VERSION = "gpm-import", 1
TABLES = ("edges", "nodes", "graphs")
ROLES = {
    "edges": ("source", "target", "weight", "graph", "feature", "ignore"),
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
OPTIONS: dict[str, type] = {"delimiter": str, "header": bool, "trim": bool}
MOST_BUCKETS = 65_536
KEPT = "kept as it is"  # how the reason begins where a number is not standardised
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
_RUN = 6  # more columns in a row that are alike take one line
_ONCE = ("source", "weight", "graph", "id", "split")


@dataclass(frozen=True)
class Column:
    """What a column is for.

    Attributes:
        role: One of `ROLES`.
        kind: How its cells are read, one of `FEATURE_KINDS` or `TARGET_KINDS`; empty for other roles, or to find out.
        values: The categories, in their order; by default those that are found.
        buckets: Columns that hashed text takes; 0 is the default number.
        why: What was found, or why it is left out, for the reader.
    """

    role: str
    kind: str = ""
    values: tuple[str, ...] | None = None
    buckets: int = 0
    why: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without those that say nothing."""
        values = None if self.values is None else list(self.values)
        plain = {"role": self.role, "kind": self.kind, "values": values, "buckets": self.buckets, "why": self.why}
        return {key: value for key, value in plain.items() if value}


@dataclass(frozen=True)
class TableSchema:
    """A table: its file, how that is read (delimiter, header, trim), and its columns in their order."""

    file: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)

    def having(self, role: str) -> dict[str, Column]:
        """The columns of a role."""
        return {name: column for name, column in self.columns.items() if column.role == role}

    def one(self, role: str) -> str:
        """The name of the column of a role, or an empty string."""
        return next(iter(self.having(role)), "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        columns = {name: column.to_dict() for name, column in self.columns.items()}
        return {"file": self.file, **self.options, "columns": columns}


@dataclass(frozen=True)
class Schema:
    """How tables become a graph and what is predicted; see the module.

    Attributes:
        task: node, link or graph; auto in a file that leaves it open.
        directed: Edges go one way.
        duplicates: An edge that is listed twice: merge or keep.
        self_loops: An edge from a node to itself: keep or drop.
        unlisted: An edge's end that the nodes table does not list: error, add (the node) or drop (the edge).
        order: Numbering of nodes: given (as in the tables), degree or locality; see `gpm.data.tables.node_order`.
    """

    task: str = "auto"
    directed: bool = False
    duplicates: str = "merge"
    self_loops: str = "keep"
    unlisted: str = "error"
    order: str = "given"
    edges: TableSchema = field(default_factory=TableSchema)
    nodes: TableSchema | None = None
    graphs: TableSchema | None = None

    def tables(self) -> dict[str, TableSchema]:
        """The tables that there are, by name."""
        listed = {name: getattr(self, name) for name in TABLES}
        return {name: table for name, table in listed.items() if table is not None}

    def to_dict(self) -> dict[str, Any]:
        """Plain values, in the order of the file."""
        plain = {"format": FORMAT, "version": VERSION, "task": self.task, "directed": self.directed}
        plain |= {key: getattr(self, key) for key in ("duplicates", "self_loops", "unlisted", "order")}
        found = self.tables()
        return plain | {name: found[name].to_dict() if name in found else None for name in TABLES}

    @classmethod
    def from_dict(cls, values: Any, source: str = "the schema") -> Schema:
        """Make one of plain values; what is not said keeps its default. Mistakes name the source and the key."""
        known = ("format", "version", "directed", *CHOICES, *TABLES)
        values = _mapping(values, source, known)
        if values.get("format", FORMAT) != FORMAT or values.get("version", VERSION) != VERSION:
            raise GpmError(f"{source} must say 'format: {FORMAT}' and 'version: {VERSION}', which this gpm reads.")
        said: dict[str, Any] = {
            key: _choice(values[key], f"{source}: {key}", CHOICES[key]) for key in CHOICES if key in values
        }
        if "directed" in values:
            said["directed"] = _typed(values["directed"], f"{source}: directed", bool)
        for name in TABLES:
            if values.get(name) is not None:
                said[name] = _read_table(values[name], f"{source}: {name}", name)
        return cls(**said)


def read_schema(path: Path) -> Schema:
    """Read the YAML that `write_schema` wrote or a user changed."""
    return Schema.from_dict(read_schema_yaml(path), str(path))


def write_schema(path: Path, schema: Schema) -> None:
    """Write a schema as YAML, one column per line."""
    write_text(path, dump_yaml(schema.to_dict()))


def describe(schema: Schema, examples: Mapping[str, Mapping[str, str]] | None = None) -> list[str]:
    """The table that is shown before training: a line per column, or per run of columns that are all alike.

    Args:
        schema: What was inferred.
        examples: A cell of each column, by table and column.
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
    shown = [[_printed(cell, 160 if place == 4 else 28) for place, cell in enumerate(row)] for row in rows]
    widths = [max(len(row[place]) for row in shown) for place in range(6)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def _fate(column: Column, table: str) -> str:
    """What happens to a column, in words."""
    if column.role == "ignore":
        return f"left out: {column.why}" if column.why else "left out"
    if column.why.startswith(KEPT):
        return column.why
    words = _FEATURES[column.kind] if column.role == "feature" and column.kind else ""
    if column.role == "target" and table != "edges":
        words = _TARGETS.get(column.kind, "predicted")
    return "; ".join(part for part in (words or _ROLE_WORDS.get(column.role, ""), column.why) if part)


def _printed(text: str, most: int = 28) -> str:
    """Text on one line, cut where it is long."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: most + 1])
    return plain if len(plain) <= most else plain[: most - 3] + "..."


def _read_table(values: Any, source: str, table: str) -> TableSchema:
    values = _mapping(values, source, ("file", "columns", *OPTIONS))
    options = {key: _typed(values[key], f"{source}.{key}", OPTIONS[key]) for key in OPTIONS if key in values}
    file = _typed(values.get("file", ""), f"{source}.file", str)
    entries = {} if values.get("columns") is None else _mapping(values["columns"], f"{source}.columns", None)
    columns = {key: _read_column(entry, f"{source}.columns.{key}", table) for key, entry in entries.items()}
    read = TableSchema(file, options, columns)
    for role in (*_ONCE, "target") if table == "edges" else _ONCE:
        if len(found := list(read.having(role))) > 1:
            raise GpmError(f"{source}: {' and '.join(map(repr, found[:3]))} are all the {role}; say it of one column.")
    return read


def _read_column(values: Any, source: str, table: str) -> Column:
    values = _mapping(values, source, ("role", "kind", "values", "buckets", "why"))
    role = _choice(values.get("role", "feature" if table != "graphs" else "target"), f"{source}.role", ROLES[table])
    kinds = FEATURE_KINDS if role == "feature" else TARGET_KINDS if role == "target" and table != "edges" else ()
    kind = values.get("kind") or ""
    if kind and not kinds and role != "ignore":
        raise GpmError(f"{source}.kind: a column that is the {role} has no kind; remove it.")
    kind = _choice(kind, f"{source}.kind", kinds) if kind and kinds else ""
    buckets = _typed(values.get("buckets", 0), f"{source}.buckets", int)
    if not 0 <= buckets <= MOST_BUCKETS:
        raise GpmError(f"{source}.buckets must be 1 to {MOST_BUCKETS:,}, got {buckets}.")
    listed = values.get("values")
    if listed is not None:
        listed = tuple(_typed(value, f"{source}.values", str) for value in _typed(listed, f"{source}.values", list))
        if not listed or len(set(listed)) < len(listed):
            raise GpmError(f"{source}.values must name each category once.")
    return Column(role, kind, listed, buckets, _typed(values.get("why", ""), f"{source}.why", str))


def _mapping(values: Any, source: str, known: tuple[str, ...] | None) -> Mapping[str, Any]:
    """A mapping with known keys, or with any words."""
    if not isinstance(values, Mapping):
        raise GpmError(f"{source} must be 'key: value' lines, got {type(values).__name__}.")
    for key in values:
        if not isinstance(key, str) or (known is not None and key not in known):
            listed = f" Keys: {', '.join(known)}." if known else ""
            raise GpmError(f"{source}: there is no key {key!r}.{nearest(str(key), known or ())}{listed}")
    return values


def _choice(value: Any, source: str, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise GpmError(f"{source} must be one of {', '.join(known)}, got {value!r}.{nearest(str(value), known)}")
    return value


def _typed(value: Any, source: str, kind: type) -> Any:
    words = {str: "text", bool: "true or false", int: "a whole number", list: "a list"}
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise GpmError(f"{source} must be {words[kind]}, got {str(value)[:60]!r}.")
    return value
