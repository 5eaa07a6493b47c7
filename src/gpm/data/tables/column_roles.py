"""Find the columns of ends, weights, ids, graphs, splits and targets: as the user says, by name, by position."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpm.data.tables.cell_sql import distinct, refuse
from gpm.data.tables.column_kinds import profile
from gpm.data.tables.detect_header import GRAPHS, SOURCES, TARGETS, WEIGHTS, find_column
from gpm.data.tables.schema import Column
from gpm.data.tables.session import text
from gpm.data.tables.targets import PART_WORDS
from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

SPLITS = {"split", "part", "set", "partition", "subset", "fold", "usage", "phase"}
MASKS = {f"{part}{mark}mask" for part in ("train", "val", "valid", "test") for mark in ("_", "")}
_COMMA = re.compile(r"[+-]?\d+,\d+")  # a decimal comma in a file that uses decimal points
_SURE = 2_000_000  # up to this many rows, all values are compared
_EPOCH = 1e8  # integers from here on are taken for seconds since 1970
FLAGS = {"from_column": ("edges", "source"), "to_column": ("edges", "target"), "id_column": ("nodes", "id")}
_IDS = ("id", "node_id", "nodeid", "node", "vertex", "vertex_id")  # the surest first
_MAYBE_IDS = ("ids", "nodes", "uid", "key", "user_id", "user", "name", "index")  # if no two rows share a value


@dataclass
class Draft:
    """A table whose columns are being assigned roles."""

    name: str  # edges, nodes or graphs
    table: Table
    columns: dict[str, Column]  # columns with a role so far

    def having(self, role: str) -> list[str]:
        """Return the columns of a role."""
        return [name for name, column in self.columns.items() if column.role == role]

    def free(self) -> list[str]:
        """Return the columns without a role."""
        return [name for name in self.table.columns if name not in self.columns]

    def named(self, words: Collection[str]) -> list[str]:
        """Return the columns without a role that have one of some names."""
        return [name for name in self.free() if word(name) in words]

    def spells(self, name: str) -> bool:
        """Return whether the table has a column of that name, ignoring case."""
        return name in self.table.columns or sum(c.lower() == name.lower() for c in self.table.columns) == 1

    def find(self, name: str) -> str:
        """Return the column of that name as the table spells it."""
        return find_column(Path(self.table.title), list(self.table.columns), name)

    def settle(self, name: str, role: str) -> None:
        """Give a column a role; a column with another role is an error."""
        column = self.columns.get(name, Column(role))
        if column.role != role:
            raise GpmError(
                f"{self.table.title}: column {name!r} cannot be both {column.role} and {role}; give it one role."
            )
        self.columns[name] = column

    def settle_one(self, names: Sequence[str], role: str, fix: str) -> None:
        """Give the only candidate a role; with several candidates the user must choose."""
        if len(names) > 1:
            columns = " and ".join(map(repr, names[:4]))
            raise GpmError(f"{self.table.title}: {columns} could each be the {role}; {fix}.")
        for name in names:
            self.settle(name, role)

    @property
    def headless(self) -> bool:
        return self.table.options.get("header") is False

    def list_columns(self) -> str:
        """Return a sentence with the names of the columns."""
        names = list(self.table.columns)
        more = f" and {len(names) - 20:,} more" if len(names) > 20 else ""
        return f"Its columns are {', '.join(names[:20])}{more}."


def word(name: str) -> str:
    """Normalise a column name for comparison."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def in_yaml(table: str, role: str, name: str = "NAME") -> str:
    """Return how to set the role of a column in the YAML."""
    return f"set it in the YAML, under {table}: 'columns: {name}: {{role: {role}}}'"


def settle_named(drafts: Mapping[str, Draft], named: Mapping[str, str]) -> None:
    """Give the columns that the user names by flags the roles of these flags."""
    for flag, name in named.items():
        table, role = FLAGS[flag]
        if name and table not in drafts:
            raise GpmError(f"--{flag} {name} is a column of the {table}; give their table: --{table} FILE.")
        if name and any(other != drafts[table].find(name) for other in drafts[table].having(role)):
            other = drafts[table].having(role)[0]
            raise GpmError(f"The {role} is {other!r} in the YAML, but {name!r} in the command; keep one of them.")
        if name:
            drafts[table].settle(drafts[table].find(name), role)


def _by_flag(role: str) -> str:
    """Return how to name the column of a role."""
    flag, table = next((flag, table) for flag, (table, each) in FLAGS.items() if each == role)
    return f"name it with --{flag} NAME, or {in_yaml(table, role)}"


def find_targets(homes: Sequence[Draft], drafts: Sequence[Draft], names: Sequence[str]) -> None:
    """Find the columns to predict in the first of the tables `homes`, by the user's names or as the YAML says.

    Columns of the same name in other tables are ignored, as they may leak the target.
    """
    described = [(home, column) for home in homes for column in home.having("target")]
    marked = []
    for name in dict.fromkeys(names):
        home = next((home for home in homes if home.spells(name)), homes[0])
        elsewhere = next((draft for draft in drafts if draft.spells(name)), home)
        if not home.spells(name) and elsewhere is not home:
            raise GpmError(
                f"{name!r} is a column of {elsewhere.table.title}, but a target must be a column of {home.table.title}."
            )
        column = home.find(name)
        if column in home.columns and home.columns[column].role == "feature":  # a YAML from another import
            home.columns[column] = replace(home.columns[column], role="target", kind="", why="")
        home.settle(column, "target")
        marked.append((home, column))
    other = [column for home, column in described if (home, column) not in marked]
    if names and other:
        raise GpmError(f"The target is {other[0]!r} in the YAML, but {names[0]!r} in the command; keep one of them.")
    for _, column in marked or described:
        for draft in drafts:
            ends = SOURCES | TARGETS if draft.name == "edges" else set()
            for namesake in draft.named({word(column)} - ends):
                draft.columns[namesake] = Column("ignore", why="named like the target, which it may leak")


def find_ends(edges: Draft) -> None:
    """Find the source and the target of an edge."""
    for role, words in (("source", SOURCES), ("target", TARGETS)):
        if not edges.having(role):
            names = edges.named(words)
            exact = [name for name in names if word(name) == role]
            edges.settle_one(exact or names, role, _by_flag(role))
    missing = [role for role in ("source", "target") if not edges.having(role)]
    free, width = edges.free(), len(edges.table.columns)
    if missing and (edges.headless or width <= 3) and len(free) >= len(missing):
        for role, name in zip(missing, free, strict=False):
            edges.settle(name, role)
    elif missing:
        cut = "write a row as 'source,target', or set the delimiter in the YAML, under edges: 'delimiter: \"|\"'"
        fix = _by_flag(missing[0]) if width > 1 else cut
        raise _unclear(edges, f"is the {missing[0]} of an edge", f"{fix[0].upper()}{fix[1:]}")


def find_weight(edges: Draft) -> None:
    """Find the weight: a column of that name, or the third of a table without a header, if it contains numbers."""
    if edges.having("weight"):
        return
    third = [name for name in edges.table.columns[2:3] if edges.headless and name in edges.free()]
    named = edges.named(WEIGHTS)
    profiles = profile(edges.table, named or third)
    for name in named:
        p = profiles[name]
        if p.numbers < p.filled and (p.numbers or _COMMA.fullmatch(p.odd)):
            raise refuse(edges.table, name, "number")  # one cell must not leave a graph without weights
    times = {name for name, p in profiles.items() if p.is_whole and p.low >= _EPOCH and name not in named}
    numbers = [name for name, p in profiles.items() if p.is_number and name not in times]
    edges.settle_one(numbers, "weight", in_yaml("edges", "weight"))


def find_direction(edges: Draft, directed: bool) -> None:
    """Ignore a column Type as Gephi writes it, with a warning if only the column says that edges are directed."""
    for name in edges.named(["type"]):
        words = {cell.lower() for cell in distinct(edges.table, name, 64)}
        if words and words <= {"directed", "undirected", "mutual"}:
            against = not directed and "directed" in words
            why = "WARNING: it says that edges are directed; add --directed" if against else "direction of the edges"
            edges.columns[name] = Column("ignore", why=why)


def find_id(nodes: Draft) -> None:
    """Find the id of a node: the surest of the usual names, else the first column if no two rows share a value."""
    if nodes.having("id"):
        return
    for name in (*_IDS, *_MAYBE_IDS):
        names = nodes.named([name])
        if names and (name in _IDS or nodes.having("graph") or _is_unique(nodes.table, names[0])):
            nodes.settle_one(names, "id", _by_flag("id"))
            return
    first = nodes.table.columns[0]
    if first not in nodes.free() or not (nodes.headless or _is_unique(nodes.table, first)):
        raise _unclear(nodes, "names the node", f"Call it id, {_by_flag('id')}")
    nodes.settle(first, "id")


def _unclear(draft: Draft, role: str, fix: str) -> GpmError:
    return GpmError(f"{draft.table.title}: which column {role}? {draft.list_columns()} {fix}.")


def _is_unique(table: Table, column: str) -> bool:
    """Return whether every row has a text of its own in a column, or nearly so in a table too large to be sure."""
    x = text(column)
    rows, filled, about = table.fetch(f"SELECT count(*), count({x}), approx_count_distinct({x}) FROM {table.view}")[0]
    if rows > _SURE:
        return bool(filled == rows and about >= 0.95 * rows)
    return bool(filled == rows == table.fetch(f"SELECT count(DISTINCT {x}) FROM {table.view}")[0][0])


def find_graph(drafts: Sequence[Draft], name: str) -> None:
    """Find the column that names the graph of a node, of an edge, and of a row of the graphs table."""
    if name and not any(draft.spells(name) for draft in drafts):
        drafts[-1].find(name)  # raises, and lists the columns
    for draft in drafts:
        if draft.having("graph"):
            continue
        if name and draft.spells(name):
            draft.settle(draft.find(name), "graph")
            continue
        names = draft.named(GRAPHS - {"smiles"})
        if draft.name == "graphs":
            names = names or draft.named(["id"]) or draft.named(["name"]) or draft.free()[:1]
        if not name or draft.name == "graphs":
            draft.settle_one(names, "graph", "choose one with --graph NAME")
    tables = {draft.name: draft for draft in drafts}
    for holder in (tables.get("nodes", tables["edges"]), *(draft for draft in drafts if draft.name == "graphs")):
        if not holder.having("graph"):
            raise _unclear(holder, "names the graph of a row", "Name it with --graph NAME")


def find_split(home: Draft, drafts: Sequence[Draft], name: str) -> None:
    """Find the column that says train, val or test: the one that the user names, else one with a usual name.

    It must be in the table of the targets, `home`; for links, in the edges.
    """
    if name:
        home.settle(home.find(name), "split")
    for draft in drafts:
        if draft.having("split"):
            continue
        names = [column for column in draft.named(SPLITS) if _holds_splits(draft, column, draft is home)]
        if draft is home:
            draft.settle_one(names, "split", "choose one with --split NAME")
            _refuse_masks(draft)
            continue
        draft.columns |= {column: Column("ignore", why="split of another task") for column in names}


def _holds_splits(draft: Draft, column: str, home: bool) -> bool:
    """Return whether a column says only train, val or test; in the table of the targets a mixture is an error."""
    cells = distinct(draft.table, column, len(PART_WORDS) + 20)
    splits = {cell for cell in cells if cell.lower() in PART_WORDS}
    other = sorted(cells - splits)
    if other and home and (splits or word(column) == "split"):
        raise GpmError(
            f"{draft.table.title}: column {column!r} contains {other[0][:60]!r}, which is not a split; write train, "
            f"val or test; if the column is something else, {in_yaml(draft.name, 'ignore', column)}."
        )
    return bool(splits) and not other


def _refuse_masks(home: Draft) -> None:
    """Refuse masks, one column per split: as features they would leak which rows are held out."""
    for column in () if home.having("split") else home.named(MASKS):
        raise GpmError(
            f"{home.table.title}: column {column!r} looks like the mask of a split; write the splits as one column "
            f"'split' that says train, val or test; if it is something else, {in_yaml(home.name, 'ignore', column)}."
        )
