"""Which columns are ends, weights, ids, graphs, parts and targets: by what the user says, by name, by place."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpm.data.tables.cell_sql import cell, fetch, known, refuse
from gpm.data.tables.column_profile import Profile, profile
from gpm.data.tables.detect_header import GRAPHS, SOURCES, TARGETS, WEIGHTS, find_column
from gpm.data.tables.schema import Column
from gpm.data.tables.session import text
from gpm.data.tables.targets import PART_WORDS
from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

SPLITS = {"split", "part", "set", "partition", "subset", "fold", "usage", "phase"}
MASKS = {f"{part}{mark}mask" for part in ("train", "val", "valid", "test") for mark in ("_", "")}
_COMMA = re.compile(r"[+-]?\d+,\d+")  # a decimal comma where a point is read
_SURE = 2_000_000  # rows of which all values are compared
_EPOCH = 1e8  # seconds since 1970, in 1973
IDS = ("id", "node_id", "nodeid", "node", "vertex", "vertex_id")  # the surest first
MAYBE_IDS = ("ids", "nodes", "uid", "key", "user_id", "user", "name", "index")  # if no two rows share a value


@dataclass
class Draft:
    """A table while its columns are told apart.

    Attributes:
        name: edges, nodes or graphs.
        table: The table.
        columns: What is settled of its columns.
    """

    name: str
    table: Table
    columns: dict[str, Column]

    def having(self, role: str) -> list[str]:
        """The columns of a role."""
        return [name for name, column in self.columns.items() if column.role == role]

    def free(self) -> list[str]:
        """Columns of which nothing is settled."""
        return [name for name in self.table.columns if name not in self.columns]

    def named(self, words: Collection[str]) -> list[str]:
        """Free columns that have one of some names."""
        return [name for name in self.free() if word(name) in words]

    def spells(self, name: str) -> bool:
        """Whether there is a column of that name, capitals aside."""
        return name in self.table.columns or sum(c.lower() == name.lower() for c in self.table.columns) == 1

    def find(self, name: str) -> str:
        """The column of that name as the table spells it."""
        return find_column(Path(self.table.title), list(self.table.columns), name)

    def settle(self, name: str, role: str) -> None:
        """Give a column a role; if it has another already, that is a contradiction."""
        column = self.columns.get(name, Column(role))
        if column.role != role:
            raise GpmError(f"{self.table.title}: column {name!r} cannot be both {column.role} and {role}; say it once.")
        self.columns[name] = column

    def settle_one(self, found: Sequence[str], role: str, how: str) -> None:
        """Give the one column that was found a role; of several, the user must say which."""
        if len(found) > 1:
            columns = " and ".join(map(repr, found[:4]))
            raise GpmError(f"{self.table.title}: {columns} could all be the {role}; {how}.")
        for name in found:
            self.settle(name, role)

    @property
    def headless(self) -> bool:
        return self.table.options.get("header") is False

    def list_columns(self) -> str:
        """A sentence with the names of the columns."""
        names = list(self.table.columns)
        more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
        return f"Its columns are {', '.join(names[:20])}{more}."


def word(name: str) -> str:
    """A column's name as it is compared."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def in_yaml(table: str, role: str) -> str:
    """How to say in the YAML what a column is."""
    return f"say it in the YAML, under {table}: 'columns: NAME: {{role: {role}}}'"


def find_targets(homes: Sequence[Draft], drafts: Sequence[Draft], names: Sequence[str]) -> None:
    """Settle the columns to predict; columns of the same name elsewhere are left out, as they might tell the target.

    Args:
        homes: Tables that targets may be in, the best first.
        drafts: All tables.
        names: As the user gives them; what the YAML says must agree.
    """
    said = [(home, column) for home in homes for column in home.having("target")]
    marked = []
    for name in dict.fromkeys(names):
        home = next((home for home in homes if home.spells(name)), homes[0])
        elsewhere = next((draft for draft in drafts if draft.spells(name)), home)
        if not home.spells(name) and elsewhere is not home:
            raise GpmError(f"{name!r} is a column of {elsewhere.table.title}; a target is one of {home.table.title}.")
        column = home.find(name)
        if column in home.columns and home.columns[column].role == "feature":  # a YAML from another import
            home.columns[column] = replace(home.columns[column], role="target", kind="", why="")
        home.settle(column, "target")
        marked.append((home, column))
    other = [column for home, column in said if (home, column) not in marked]
    if names and other:
        raise GpmError(f"the YAML says that {other[0]!r} is the target, the command {names[0]!r}; keep one of them.")
    for _, column in marked or said:
        for draft in drafts:
            ends = SOURCES | TARGETS if draft.name == "edges" else set()
            for namesake in draft.named({word(column)} - ends):
                draft.columns[namesake] = Column("ignore", why="named like the target, it might tell it")


def find_ends(edges: Draft) -> None:
    """Settle where an edge starts and ends."""
    for role, words in (("source", SOURCES), ("target", TARGETS)):
        if not edges.having(role):
            found = edges.named(words)
            exact = [name for name in found if word(name) == role]
            edges.settle_one(exact or found, role, in_yaml("edges", role))
    missing = [role for role in ("source", "target") if not edges.having(role)]
    free, width = edges.free(), len(edges.table.columns)
    if missing and (edges.headless or width <= 3) and len(free) >= len(missing):
        for role, name in zip(missing, free, strict=False):
            edges.settle(name, role)
    elif missing:
        cut = "write a row as 'source,target', or say the delimiter in the YAML, under edges: 'delimiter: \"|\"'"
        fix = in_yaml("edges", missing[0]) if width > 1 else cut
        raise GpmError(
            f"{edges.table.title}: which column is the {missing[0]} of an edge? {edges.list_columns()} {fix}."
        )


def find_weight(edges: Draft) -> None:
    """Settle the weight: a column of that name, or the third of a table without names, if it holds numbers."""
    if edges.having("weight"):
        return
    third = [name for name in edges.table.columns[2:3] if edges.headless and name in edges.free()]
    named = edges.named(WEIGHTS)
    found = profile(edges.table, named or third)
    for name in named:
        if found[name].numbers < found[name].filled and (found[name].numbers or _COMMA.fullmatch(found[name].odd)):
            raise refuse(edges.table, name, "number")  # one cell must not leave a graph without weights
    numbers = [name for name, p in found.items() if p.is_number and (name in named or not _are_times(p))]
    edges.settle_one(numbers, "weight", in_yaml("edges", "weight"))


def _are_times(p: Profile) -> bool:
    """Whether numbers are seconds since 1970, as the third column of lists of edges often is."""
    return p.is_whole and p.low >= _EPOCH


def find_direction(edges: Draft, directed: bool) -> None:
    """A column Type as Gephi writes it, which is read by nobody, but must not be overlooked."""
    for name in edges.named(["type"]):
        words = f"SELECT DISTINCT lower({known(cell(edges.table, name))}) FROM {edges.table.view} LIMIT 4"
        found = {row[0] for row in fetch(edges.table, words)} - {None}
        if found and found <= {"directed", "undirected", "mutual"}:
            against = not directed and "directed" in found
            why = "WARNING: it says that edges are directed; add --directed" if against else "says which way edges go"
            edges.columns[name] = Column("ignore", why=why)


def find_id(nodes: Draft) -> None:
    """Settle what names a node: the surest of the usual names, else the first column if no two rows share a value."""
    if nodes.having("id"):
        return None
    for name in (*IDS, *MAYBE_IDS):
        found = nodes.named([name])
        if found and (name in IDS or nodes.having("graph") or _is_unique(nodes.table, found[0])):
            return nodes.settle_one(found, "id", in_yaml("nodes", "id"))
    first = nodes.table.columns[0]
    if first in nodes.free() and (nodes.headless or _is_unique(nodes.table, first)):
        return nodes.settle(first, "id")
    fix = in_yaml("nodes", "id")
    raise GpmError(f"{nodes.table.title}: which column names the node? {nodes.list_columns()} Call it id, or {fix}.")


def _is_unique(table: Table, column: str) -> bool:
    """Whether a column has a text of its own in every row, or nearly so in a table too large to be sure."""
    x = text(column)
    rows, filled, about = fetch(table, f"SELECT count(*), count({x}), approx_count_distinct({x}) FROM {table.view}")[0]
    if rows > _SURE:
        return bool(filled == rows and about >= 0.95 * rows)
    return bool(filled == rows == fetch(table, f"SELECT count(DISTINCT {x}) FROM {table.view}")[0][0])


def find_graph(drafts: Sequence[Draft], name: str) -> None:
    """Settle which column names the graph of a node, of an edge, and of a row of the graphs table."""
    if name and not any(draft.spells(name) for draft in drafts):
        drafts[-1].find(name)  # raises, with what there is
    for draft in drafts:
        if draft.having("graph"):
            continue
        if name and draft.spells(name):
            draft.settle(draft.find(name), "graph")
            continue
        found = draft.named(GRAPHS - {"smiles"})
        if draft.name == "graphs":
            found = found or draft.named(["id"]) or draft.named(["name"]) or draft.free()[:1]
        if not name or draft.name == "graphs":
            draft.settle_one(found, "graph", "say it with --graph NAME")
    tables = {draft.name: draft for draft in drafts}
    for holder in (tables.get("nodes", tables["edges"]), *(draft for draft in drafts if draft.name == "graphs")):
        if not holder.having("graph"):
            raise GpmError(
                f"{holder.table.title}: which column names the graph of a row? {holder.list_columns()} Say it with "
                "--graph NAME."
            )


def find_split(home: Draft | None, drafts: Sequence[Draft], name: str) -> None:
    """Settle the column that says train, val or test: the one that is named, else one of that name with such words.

    Args:
        home: The table of what is predicted; None for links.
        drafts: All tables.
        name: As the user gives it.
    """
    if name and home is None:
        raise GpmError(
            f"--split {name}: a column of parts is for nodes or graphs; links are split by --split 60/20/20."
        )
    if name and home is not None:
        home.settle(home.find(name), "split")
    for draft in drafts:
        if draft.having("split"):
            continue
        found = [column for column in draft.named(SPLITS) if _holds_parts(draft, column, draft is home)]
        if draft is home:
            draft.settle_one(found, "split", "say it with --split NAME")
            _refuse_masks(draft)
        why = "parts of edges are not read, but drawn" if draft.name == "edges" else "parts of another task"
        for column in found if draft is not home else ():
            draft.columns[column] = Column("ignore", why=why)


def _holds_parts(draft: Draft, column: str, home: bool) -> bool:
    """Whether all that a column says is train, val or test; at home, a column that says so only in part is an error."""
    words = f"SELECT DISTINCT {known(cell(draft.table, column))} FROM {draft.table.view}"
    found = {row[0] for row in fetch(draft.table, f"{words} LIMIT {len(PART_WORDS) + 20}")} - {None}
    parts = {word for word in found if word.lower() in PART_WORDS}
    other = sorted(found - parts)
    if other and home and (parts or word(column) == "split"):
        raise GpmError(
            f"{draft.table.title}: column {column!r} says {other[0][:60]!r}, which is no part; write train, val or "
            f"test, or say in the YAML what the column is, under {draft.name}: 'columns: {column}: {{role: ignore}}'."
        )
    return bool(parts) and not other


def _refuse_masks(home: Draft) -> None:
    """Parts as a column each are not read, and would be features that give away what is held out."""
    for column in () if home.having("split") else home.named(MASKS):
        raise GpmError(
            f"{home.table.title}: column {column!r} looks like a part of a split; write the parts as one column "
            f"'split' that says train, val or test, or say in the YAML what it is, under {home.name}: "
            f"'columns: {column}: {{role: ignore}}'."
        )
