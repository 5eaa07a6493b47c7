"""Open the tables of an import and settle their schema: by an earlier import, or by the contents of the tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.data.tables.column_roles import FLAGS
from gpm.data.tables.fit_encoding import check_encoding
from gpm.data.tables.infer_schema import examples, infer
from gpm.data.tables.open_table import Table
from gpm.data.tables.schema import CHOICES, TABLES, Column, Schema, TableSchema, describe, read_schema
from gpm.errors import GpmError, nearest
from gpm.graph.coerce import check_choice
from gpm.graph.folder import HEADER, read_extras

if TYPE_CHECKING:
    import duckdb

    from gpm.data.tables.inputs import Gathered

_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class Origin:
    """An earlier import, by which other tables are read: a model needs columns encoded as in training."""

    schema: Schema
    encoding: dict[str, list[dict[str, Any]]]
    facts: dict[str, Any]  # the metadata of its folder: task, kind, classes, targets

    @classmethod
    def read(cls, source: str | Path) -> Origin:
        """Read an imported folder, or the run that contains one."""
        path = Path(source).expanduser()
        paths = [path, path / "graph", *([path.parent / "graph"] if path.name.startswith("seed-") else [])]
        folder = next((path for path in paths if (path / HEADER).is_file()), None)
        if folder is None:
            raise GpmError(f"{source} is neither an imported graph nor a run trained on one; --like needs one of them.")
        facts = read_extras(folder)[0]
        if not facts.get("schema"):
            raise GpmError(f"{folder} was not imported from tables, so other tables cannot be read like it.")
        encoding = facts.get("encoding")
        if not isinstance(encoding, dict) or set(encoding) != {"node", "edge"}:
            raise GpmError(f"{folder} does not say how its columns were encoded; import its tables again.")
        checked = {kind: check_encoding(entries, str(folder)) for kind, entries in encoding.items()}
        return cls(Schema.from_dict(facts["schema"], str(folder)), checked, facts)

    def columns(self, name: str) -> list[str]:
        """Return the columns of one of its tables."""
        return list(self.schema.tables().get(name, TableSchema()).columns)

    def fit(self, tables: Mapping[str, Table]) -> Schema:
        """Return the schema for other tables, without columns that are absent; new columns are ignored."""
        trained = self.schema.tables()
        if "nodes" in trained and "nodes" not in tables:
            raise GpmError("Training had a table of nodes; give one here too.")
        fitted: dict[str, TableSchema] = {}
        for name, table in tables.items():
            if name not in trained:
                raise GpmError(f"{table.title}: training had no table of {name}; leave it out.")
            needed = ("source", "target", "graph") if name == "edges" else ("id", "graph")  # others may be absent
            for column, entry in trained[name].columns.items():
                if entry.role in needed and column not in table.columns:
                    near = nearest(column, table.columns)
                    raise GpmError(
                        f"{table.title} has no column {column!r}, which training had; add or rename it.{near}"
                    )
            new = {column: Column("ignore", why="not in training") for column in table.columns}
            old = {column: entry for column, entry in trained[name].columns.items() if column in table.columns}
            fitted[name] = TableSchema(str(table.path or ""), dict(table.options), new | old)
        return replace(self.schema, edges=fitted["edges"], nodes=fitted.get("nodes"), graphs=fitted.get("graphs"))


@dataclass(frozen=True)
class Wishes:
    """The user's options for the tables; see `gpm.data.tables.import_tables`."""

    target: Sequence[str] = ()  # a name that is not a column is split at its commas
    task: str = "auto"
    graph: str = ""
    split: str = ""
    directed: bool = False
    unlisted: str = ""
    order: str = ""
    values: bool = False
    from_column: str = ""
    to_column: str = ""
    id_column: str = ""
    schema: Schema = field(default_factory=Schema)
    origin: Origin | None = None

    @classmethod
    def read(
        cls,
        target: str | Sequence[str] = "",
        schema: str | Path | Schema | None = None,
        like: str | Path | None = None,
        **others: Any,
    ) -> Wishes:
        """Make the options from the arguments of a command, and read the files that they name."""
        check_choice("order", others.get("order") or "given", CHOICES["order"])
        listed = [name for name in ([target] if isinstance(target, str) else target) if name]
        if like is not None and (schema is not None or listed):
            what = "a schema" if schema is not None else "a target"
            raise GpmError(f"The import to be like already describes the columns; leave out either it or {what}.")
        if not isinstance(schema, Schema):
            schema = Schema() if schema is None else read_schema(Path(schema))
        return cls(listed, schema=schema, origin=None if like is None else Origin.read(like), **others)

    @property
    def columns(self) -> dict[str, str]:
        """The columns that flags give a role, by flag."""
        return {flag: getattr(self, flag) for flag in FLAGS}

    def names(self) -> list[str]:
        """Return the names of columns that the user gives."""
        several = [part.strip() for name in self.target for part in name.split(",")]
        return [name for name in (*self.target, *several, self.graph, self.split, *self.columns.values()) if name]


@dataclass(frozen=True)
class Opened:
    """The opened tables by name (edges, nodes, graphs) and their schema."""

    tables: dict[str, Table]
    schema: Schema
    title: str = "graph"


def open_tables(base: duckdb.DuckDBPyConnection, gathered: Gathered, wishes: Wishes) -> Opened:
    """Open the tables and settle their schema."""
    origin = wishes.origin
    described = (wishes.schema if origin is None else origin.schema).tables()
    tables = {}
    for name in TABLES:
        schema = described.get(name, TableSchema())
        options = schema.options if origin is None else {}  # another file may have another format
        if (table := gathered.open(base, name, options, [*schema.columns, *wishes.names()])) is not None:
            tables[name] = table
    if origin is not None:
        if (wishes.directed or gathered.directed) and not origin.schema.directed:
            raise GpmError(f"{gathered.title}: edges are directed, but were undirected in training; give such a graph.")
        fitted = origin.fit(tables)
        fitted = replace(fitted, unlisted=wishes.unlisted or fitted.unlisted, order=wishes.order or "given")
        return Opened(tables, fitted, gathered.title)
    inferred = _infer(tables, gathered, wishes)
    for line in describe(inferred, {name: examples(table) for name, table in tables.items()}):
        _log.info("%s", line)
    return Opened(tables, inferred, gathered.title)


def _infer(tables: Mapping[str, Table], gathered: Gathered, wishes: Wishes) -> Schema:
    given, targets = wishes.schema, _split_targets(wishes.target, tables)
    if wishes.values:
        given = _mark_values(given, targets, tables)
    given = replace(given, unlisted=wishes.unlisted or given.unlisted, order=wishes.order or given.order)
    if wishes.directed and gathered.directed is False and gathered.is_network:
        raise GpmError(f"{gathered.title} declares its edges undirected; leave out --directed.")
    if gathered.file:
        given = replace(given, edges=replace(given.edges, file=gathered.file))
    smiles = _spelled(tables["edges"], "smiles")
    hint = f"If {tables['edges'].title} contains molecules, add --smiles {smiles} and --target NAME."
    try:
        inferred = infer(
            tables["edges"], tables.get("nodes"), tables.get("graphs"), task=wishes.task, target=targets,
            graph=wishes.graph or gathered.graph, split=wishes.split, directed=wishes.directed or gathered.directed,
            named=wishes.columns, given=given,
        )  # fmt: skip
    except GpmError as error:
        if not smiles:
            raise
        raise GpmError(f"{error} {hint}") from None
    if smiles and smiles not in given.edges.columns and inferred.edges.columns[smiles].role in ("source", "target"):
        raise GpmError(f"SMILES are rarely ends of edges. {hint} Else set its role in the YAML of gpm import --show.")
    return inferred


def _split_targets(names: Sequence[str], tables: Mapping[str, Table]) -> list[str]:
    """Return the columns that are named; a name that is not a column is split at its commas."""
    targets: list[str] = []
    for name in names:
        is_column = any(_spelled(table, name) for table in tables.values())
        targets += [name] if is_column else [part.strip() for part in name.split(",") if part.strip()]
    return targets


def _mark_values(given: Schema, targets: Sequence[str], tables: Mapping[str, Table]) -> Schema:
    """Set the kind of the targets to number, in the table where `infer` looks for them first."""
    for target in targets:
        for name in ("graphs", "nodes"):
            if name in tables and (column := _spelled(tables[name], target)):
                table = given.tables().get(name, TableSchema())
                table = replace(table, columns=table.columns | {column: Column("target", "number")})
                given = replace(given, graphs=table) if name == "graphs" else replace(given, nodes=table)
                break
    return given


def _spelled(table: Table, name: str) -> str:
    """Return a column as the table spells it, or an empty string."""
    return next((column for column in table.columns if column.lower() == name.lower()), "")
