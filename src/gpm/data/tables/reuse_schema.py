"""What an earlier import knew, to read other tables in the same way: a model reads columns as it was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.data.tables.fit_encoding import check_encoding
from gpm.data.tables.schema import Column, Schema, TableSchema
from gpm.errors import GpmError, nearest
from gpm.graph.folder import HEADER, read_extras

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table


@dataclass(frozen=True)
class Origin:
    """An earlier import.

    Attributes:
        schema: What its columns were.
        encoding: How features were made of them.
        facts: All that its folder says: task, kind, classes, targets.
    """

    schema: Schema
    encoding: dict[str, list[dict[str, Any]]]
    facts: dict[str, Any]

    @classmethod
    def read(cls, folder: str | Path) -> Origin:
        """Of an imported folder, or of the run that carries one."""
        given = Path(folder).expanduser()
        places = [given, given / "graph", *([given.parent / "graph"] if given.name.startswith("seed-") else [])]
        found = next((place for place in places if (place / HEADER).is_file()), None)
        if found is None:
            raise GpmError(f"{folder} is neither an imported graph nor a run of one; give one of them to be like.")
        facts = read_extras(found)[0]
        if not facts.get("schema"):
            raise GpmError(f"{found} was not made of tables, so that no other table can be read like it.")
        given_encoding = facts.get("encoding")
        if not isinstance(given_encoding, dict) or set(given_encoding) != {"node", "edge"}:
            raise GpmError(f"{found} does not say how its columns were encoded; import its tables again.")
        encoding = {kind: check_encoding(entries, str(found)) for kind, entries in given_encoding.items()}
        return cls(Schema.from_dict(facts["schema"], str(found)), encoding, facts)

    def columns(self, name: str) -> list[str]:
        """The columns that one of its tables had."""
        return list(self.schema.tables().get(name, TableSchema()).columns)

    def fit(self, tables: Mapping[str, Table]) -> Schema:
        """The schema for other tables: columns that are not there are left out, new ones are not read."""
        known = self.schema.tables()
        if "nodes" in known and "nodes" not in tables:
            raise GpmError("training had a table of nodes; give one here too.")
        fitted: dict[str, TableSchema] = {}
        for name, table in tables.items():
            if name not in known:
                raise GpmError(f"{table.title}: training had no table of {name}; leave it out.")
            self._check(name, table)
            new = {column: Column("ignore", why="not known in training") for column in table.columns}
            said = {column: entry for column, entry in known[name].columns.items() if column in table.columns}
            fitted[name] = TableSchema(str(table.path or ""), dict(table.options), new | said)
        return replace(self.schema, edges=fitted["edges"], nodes=fitted.get("nodes"), graphs=fitted.get("graphs"))

    def _check(self, name: str, table: Table) -> None:
        """Refuse a table without a column that makes the graph; features and targets may be missing."""
        needed = ("source", "target", "graph") if name == "edges" else ("id", "graph")
        for column, entry in self.schema.tables()[name].columns.items():
            if entry.role in needed and column not in table.columns:
                near = nearest(column, table.columns)
                raise GpmError(f"{table.title} has no column {column!r}, which training had; add or rename it.{near}")
