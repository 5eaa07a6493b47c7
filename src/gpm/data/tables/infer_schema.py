"""Infer what each column of the user's tables is: first the roles, then the kinds of features and targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpm.data.tables import column_roles as roles
from gpm.data.tables.cell_sql import cell, filled, refuse
from gpm.data.tables.column_kinds import (
    Profile,
    compare,
    feature_column,
    is_spoiled_number,
    mark_bag,
    profile,
    target_columns,
)  # fmt: skip
from gpm.data.tables.detect_header import UNKNOWN
from gpm.data.tables.schema import Column, Schema, TableSchema
from gpm.errors import GpmError, nearest

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

HOMES = {"node": ("nodes",), "link": (), "graph": ("graphs", "nodes")}  # tables that may contain the targets of a task
_NESTED = ("STRUCT", "MAP", "UNION", "BLOB")


def infer(
    edges: Table,
    nodes: Table | None = None,
    graphs: Table | None = None,
    *,
    task: str = "auto",
    target: Sequence[str] = (),
    graph: str = "",
    split: str = "",
    directed: bool = False,
    named: Mapping[str, str] | None = None,
    given: Schema | None = None,
) -> Schema:
    """Infer what each column of the tables is; see `gpm.data.tables.import_tables` for the arguments.

    By default graphs are predicted if there is a column or a table of them, nodes if there is a target, else links.
    What the user says in `given` is kept, and `named` are columns by the flags that name them; the rest is inferred.
    """
    given = given or Schema()
    tables = {"edges": edges, "nodes": nodes, "graphs": graphs}
    drafts = {name: _draft(name, table, given) for name, table in tables.items() if table is not None}
    for name, described in given.tables().items():
        if name not in drafts and described.columns:
            raise GpmError(f"The YAML describes columns of {name}, but there is no such table; give its file.")
    many = bool(graph) or "graphs" in drafts or any(draft.having("graph") for draft in drafts.values())
    task = _choose_task(drafts, task, list(target), many, given)
    homes = [drafts[name] for name in HOMES[task] if name in drafts]
    every = list(drafts.values())
    roles.settle_named(drafts, named or {})
    if homes:
        roles.find_targets(homes, every, target)
    if many:
        roles.find_graph(every, graph)
    roles.find_ends(drafts["edges"])
    roles.find_weight(drafts["edges"])
    roles.find_direction(drafts["edges"], directed or given.directed)
    roles.find_split(homes[0] if homes else drafts["edges"], every, split)
    if nodes is not None:
        roles.find_id(drafts["nodes"])
    inferred = {name: _infer_kinds(draft, given, task) for name, draft in drafts.items()}
    if task == "graph" and "nodes" in drafts:
        _check_graphs(drafts["nodes"])
    schemas: dict[str, Any] = {name: inferred.get(name) for name in tables}
    return replace(given, task=task, directed=directed or given.directed, **schemas)


def examples(table: Table) -> dict[str, str]:
    """Return one filled cell of each column, from the first hundred rows."""
    rows = table.fetch(f"SELECT * FROM {table.view} LIMIT 100")
    texts = [["" if value is None else str(value) for value in row] for row in rows]
    columns = zip(table.columns, zip(*texts, strict=True), strict=True) if texts else []
    return {name: next((cell for cell in cells if cell.strip().lower() not in UNKNOWN), "") for name, cells in columns}


def _draft(name: str, table: Table, given: Schema) -> roles.Draft:
    """Start with the columns that the user describes, which must exist; lists and structures are ignored."""
    described = given.tables().get(name, TableSchema()).columns
    for column in described:
        if column not in table.columns:
            near = nearest(column, table.columns)
            raise GpmError(f"{table.title} has no column {column!r}, which the YAML describes.{near}")
    nested = {
        column: Column("ignore", why=f"cells of type {kind[:30]}")
        for column, kind in table.types.items()
        if kind.endswith("]") or kind.startswith(_NESTED)
    }
    return roles.Draft(name, table, nested | dict(described))


def _choose_task(drafts: dict[str, roles.Draft], task: str, target: list[str], many: bool, given: Schema) -> str:
    tasks = {task, given.task} - {"auto"}
    if len(tasks) > 1:
        raise GpmError(f"The task is {given.task} in the YAML, but {task} in the command; keep one of them.")
    targets = target or [n for table in ("nodes", "graphs") if table in drafts for n in drafts[table].having("target")]
    chosen = tasks.pop() if tasks else "graph" if many else "node" if targets else "link"
    if chosen not in HOMES:
        raise GpmError(f"task must be auto, {', '.join(HOMES)}, got {chosen!r}.{nearest(chosen, HOMES)}")
    if chosen == "link" and targets:
        raise GpmError(f"Task link predicts edges and has no target; leave out the target {targets[0]!r}, or the task.")
    if chosen == "node" and "nodes" not in drafts:
        column = f" with a column {targets[0]!r}" if targets else ""
        raise GpmError(f"A target is a column of the nodes; give their table: --nodes FILE{column}.")
    if chosen == "graph" and not many:
        raise GpmError("To predict graphs, name the column with the graph of a row: --graph NAME.")
    if chosen == "graph" and not {"nodes", "graphs"} & set(drafts):
        raise GpmError("Targets of graphs are columns of a nodes or a graphs table; give one of them.")
    if chosen != "link" and not targets:
        columns = drafts[next(name for name in HOMES[chosen] if name in drafts)].list_columns()
        raise GpmError(f"Name the column to predict: --target NAME; or predict edges: --task link. {columns}")
    if chosen != "graph" and "graphs" in drafts:
        raise GpmError(f"A table of graphs is for --task graph, not for {chosen}; leave it out.")
    return chosen


def _infer_kinds(draft: roles.Draft, given: Schema, task: str) -> TableSchema:
    """Choose the kinds of features and targets by all their cells."""
    table, settled = draft.table, dict(draft.columns)
    open_roles = ("feature", "target") if draft.name != "edges" else ("feature",)
    names = [n for n in table.columns if n not in settled or settled[n].role in open_roles]
    profiles = profile(table, names if draft.name != "graphs" else draft.having("target"))
    targets = [name for name in draft.having("target") if draft.name != "edges"]
    if draft.name == "nodes" and targets and task == "graph":
        profiles |= profile(_one_per_graph(draft), targets)
    _check_numbers(table, {n: p for n, p in profiles.items() if n not in settled or not settled[n].kind}, targets)
    columns: dict[str, Column] = {}
    for name in table.columns:
        if name in profiles and name not in targets:
            columns[name] = feature_column(profiles[name], settled.get(name))
        else:
            columns[name] = settled.get(name, Column("ignore", why="graphs have no features of their own"))
    columns |= target_columns({name: profiles[name] for name in targets}, settled, table.title) if targets else {}
    for name, column in columns.items():
        if name in profiles and column.kind == "number" and profiles[name].huge:
            raise refuse(table, name, "number")
    if draft.name == "nodes":
        columns = mark_bag(columns, profiles)
    _warn_of_copies(table, columns, profiles)
    file = given.tables().get(draft.name, TableSchema()).file
    return TableSchema(str(table.path or file), dict(table.options), columns)


def _one_per_graph(nodes: roles.Draft) -> Table:
    """Select one row of each graph, so that a target of graphs is counted once for each."""
    (graph,) = nodes.having("graph")
    view, key = f"{nodes.table.view}_graphs", cell(nodes.table, graph)
    nodes.table.base.execute(
        f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT * EXCLUDE (gpm_row) FROM {nodes.table.numbered()} "
        f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY gpm_row) = 1"
    )
    return replace(nodes.table, view=view)


def _check_numbers(table: Table, profiles: dict[str, Profile], targets: Sequence[str]) -> None:
    """Refuse ambiguous numbers, and a target of numbers that a single cell would turn into classes."""
    for name, p in profiles.items():
        if p.is_number and p.commas and p.points:
            raise GpmError(
                f"{table.title}: column {name!r} has decimal commas, and cells such as '1.234' whose point may "
                "separate thousands; write all its numbers in one way."
            )
    for name in targets:
        if name in profiles and is_spoiled_number(profiles[name]):
            raise refuse(table, name, "number")


def _warn_of_copies(table: Table, columns: dict[str, Column], profiles: dict[str, Profile]) -> None:
    """Add a warning to features that repeat the target."""
    for target in [name for name, column in columns.items() if column.role == "target" and name in profiles]:
        values, classes = profiles[target].distinct, columns[target].kind != "number"
        features = [name for name, column in columns.items() if column.role == "feature"]
        alike = [name for name in features if 0.9 * values <= profiles[name].distinct <= 2 * values + 10]
        copies, twins = compare(table, alike, target)
        for name in copies + [name for name in twins if classes or not profiles[name].is_number]:
            how = "equal to" if name in copies else "one-to-one with"
            why = f"WARNING: {how} the target {target!r} in every row"
            columns[name] = replace(columns[name], why=f"{columns[name].why}; {why}" if columns[name].why else why)


def _check_graphs(nodes: roles.Draft) -> None:
    """Check that targets and splits of graphs in the nodes table are the same for all nodes of a graph."""
    table, (graph,) = nodes.table, nodes.having("graph")
    for name in nodes.having("target") + nodes.having("split"):
        rows = f"SELECT {cell(table, graph)} AS g, {filled(cell(table, name))} AS x FROM {table.view}"
        mixed = "min(x) <> max(x) OR (count(x) > 0 AND count(x) < count(*))"
        wrong = table.fetch(f"SELECT g FROM ({rows}) GROUP BY g HAVING {mixed} ORDER BY g LIMIT 1")
        if wrong:
            raise GpmError(
                f"{table.title}: {name!r} is not the same for all nodes of graph {wrong[0][0]!r}; fix it, or give a "
                "table with one row per graph."
            )
