"""The tables of an import, opened in one DuckDB connection, with what each of their columns is."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.data.tables.infer_schema import examples, infer
from gpm.data.tables.open_table import Table
from gpm.data.tables.reuse_schema import Origin
from gpm.data.tables.schema import CHOICES, TABLES, Column, Schema, TableSchema, describe, read_schema
from gpm.errors import GpmError
from gpm.graph.coerce import check_choice

if TYPE_CHECKING:
    import duckdb

    from gpm.data.tables.inputs import Gathered

_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class Wishes:
    """What the user says of the tables; see `gpm.data.tables.import_tables`.

    Attributes:
        target: Columns to predict; what is no column, but several with commas between, is these.
        values: The target is a number, also where its cells could be classes.
    """

    target: Sequence[str] = ()
    task: str = "auto"
    graph: str = ""
    split: str = ""
    directed: bool = False
    unlisted: str = ""
    order: str = ""
    values: bool = False
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
        """What the arguments of a command say, with the files that they name read."""
        check_choice("order", others.get("order") or "given", CHOICES["order"])
        listed = [name for name in ([target] if isinstance(target, str) else target) if name]
        if like is not None and (schema is not None or listed):
            what = "a schema" if schema is not None else "a target"
            raise GpmError(f"{what} and another import to be like both say what columns are; leave out one of them.")
        known = schema if isinstance(schema, Schema) else Schema() if schema is None else read_schema(Path(schema))
        return cls(listed, schema=known, origin=None if like is None else Origin.read(like), **others)

    def names(self) -> list[str]:
        """Columns that the user names, if they are such."""
        several = [part.strip() for name in self.target for part in name.split(",")]
        return [name for name in (*self.target, *several, self.graph, self.split) if name]


@dataclass(frozen=True)
class Opened:
    """The tables that there are, by name: edges, nodes, graphs; and what their columns are."""

    tables: dict[str, Table]
    schema: Schema
    title: str = "graph"

    @property
    def edges(self) -> Table:
        return self.tables["edges"]


def open_tables(base: duckdb.DuckDBPyConnection, gathered: Gathered, wishes: Wishes) -> Opened:
    """Open the tables, and settle what their columns are: like those of another import, or by what is in them."""
    given = wishes.schema if wishes.origin is None else wishes.origin.schema
    tables = {}
    for name in TABLES:
        said = given.tables().get(name, TableSchema())
        options = said.options if wishes.origin is None else {}  # another file may be written another way
        if (table := gathered.open(base, name, options, [*said.columns, *wishes.names()])) is not None:
            tables[name] = table
    if wishes.origin is not None:
        return Opened(tables, _like(wishes.origin, tables, gathered, wishes), gathered.title)
    found = _infer(tables, gathered, wishes)
    for line in describe(found, {name: examples(table) for name, table in tables.items()}):
        _log.info("%s", line)
    return Opened(tables, found, gathered.title)


def _infer(tables: Mapping[str, Table], gathered: Gathered, wishes: Wishes) -> Schema:
    given, targets = wishes.schema, _split_targets(wishes.target, tables)
    if wishes.values:
        given = _mark_values(given, targets, tables)
    if wishes.unlisted:
        given = replace(given, unlisted=wishes.unlisted)
    if wishes.order:
        given = replace(given, order=wishes.order)
    if wishes.directed and gathered.directed is False and gathered.is_network:
        raise GpmError(f"{gathered.title} says by itself that its edges are undirected; leave out --directed.")
    if gathered.file:
        given = replace(given, edges=replace(given.edges, file=gathered.file))
    smiles = _spelled(tables["edges"], "smiles")
    hint = f"If {tables['edges'].title} holds molecules, add --smiles {smiles} and --target NAME."
    try:
        found = infer(
            tables["edges"], tables.get("nodes"), tables.get("graphs"), task=wishes.task, target=targets,
            graph=wishes.graph or gathered.graph, split=wishes.split, directed=wishes.directed or gathered.directed,
            given=given,
        )  # fmt: skip
    except GpmError as error:
        if not smiles:
            raise
        raise GpmError(f"{error} {hint}") from None
    if smiles and smiles not in given.edges.columns and found.edges.columns[smiles].role in ("source", "target"):
        raise GpmError(f"SMILES are hardly the ends of edges. {hint} Else say so in the YAML of gpm import --show.")
    return found


def _like(origin: Origin, tables: Mapping[str, Table], gathered: Gathered, wishes: Wishes) -> Schema:
    if (wishes.directed or gathered.directed) and not origin.schema.directed:
        raise GpmError(f"{gathered.title}: edges go one way here, and went both ways in training; give such a graph.")
    fitted = origin.fit(tables)
    return replace(fitted, unlisted=wishes.unlisted or fitted.unlisted, order=wishes.order or "given")


def _split_targets(names: Sequence[str], tables: Mapping[str, Table]) -> list[str]:
    """The columns that are named; a name that is no column's is cut at its commas."""
    found: list[str] = []
    for name in names:
        known = any(_spelled(table, name) for table in tables.values())
        found += [name] if known else [part.strip() for part in name.split(",") if part.strip()]
    return found


def _mark_values(given: Schema, targets: Sequence[str], tables: Mapping[str, Table]) -> Schema:
    """A schema that says of the targets that they are numbers, in the table that `infer` looks for them in first."""
    for target in targets:
        for name in ("graphs", "nodes"):
            if name in tables and (column := _spelled(tables[name], target)):
                said = given.tables().get(name, TableSchema())
                said = replace(said, columns=said.columns | {column: Column("target", "number")})
                given = replace(given, graphs=said) if name == "graphs" else replace(given, nodes=said)
                break
    return given


def _spelled(table: Table, name: str) -> str:
    """A column as the table spells it, or an empty text."""
    return next((column for column in table.columns if column.lower() == name.lower()), "")
