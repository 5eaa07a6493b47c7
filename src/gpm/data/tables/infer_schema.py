"""What each column of a user's tables is: their roles first, then the kinds of features and targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpm.data.tables.cell_sql import cell, fetch, known, refuse
from gpm.data.tables.column_kinds import feature_column, is_spoiled_number, mark_bag, target_columns
from gpm.data.tables.column_profile import Profile, compare, profile
from gpm.data.tables.column_roles import (
    Draft,
    find_direction,
    find_ends,
    find_graph,
    find_id,
    find_split,
    find_targets,
    find_weight,
)
from gpm.data.tables.detect_header import UNKNOWN
from gpm.data.tables.schema import Column, Schema, TableSchema
from gpm.errors import GpmError, nearest

if TYPE_CHECKING:
    from gpm.data.tables.open_table import Table

HOMES = {"node": ("nodes",), "link": (), "graph": ("graphs", "nodes")}  # where the targets of a task may be
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
    given: Schema | None = None,
) -> Schema:
    """Say what each column of the tables is.

    Args:
        edges, nodes, graphs: The tables; the last has a row per graph.
        task: auto, node, link or graph. By default graphs are predicted if there is a column or a table of them, nodes
            if there is a target, else links.
        target: Columns to predict, of the nodes or of the graphs.
        graph: The column that says which graph a node or an edge belongs to.
        split: The column that says train, val or test; by default one of that name with such words in it.
        directed: Edges go one way.
        given: What the user says of columns and choices, which holds; the rest is inferred.
    """
    given = given or Schema()
    listed = {"edges": edges, "nodes": nodes, "graphs": graphs}
    drafts = {name: _draft(name, table, given) for name, table in listed.items() if table is not None}
    _check_unused(drafts, given)
    many = bool(graph) or "graphs" in drafts or any(draft.having("graph") for draft in drafts.values())
    task = _choose_task(drafts, task, list(target), many, given)
    homes = [drafts[name] for name in HOMES[task] if name in drafts]
    every = list(drafts.values())
    if homes:
        find_targets(homes, every, target)
    if many:
        find_graph(every, graph)
    find_ends(drafts["edges"])
    find_weight(drafts["edges"])
    find_direction(drafts["edges"], directed or given.directed)
    find_split(homes[0] if homes else None, every, split)
    if nodes is not None:
        find_id(drafts["nodes"])
    found = {name: _finish(draft, given, task) for name, draft in drafts.items()}
    if task == "graph" and "nodes" in drafts:
        _check_graphs(drafts["nodes"])
    return Schema(
        task, directed or given.directed, given.duplicates, given.self_loops, given.unlisted, given.order,
        found["edges"], found.get("nodes"), found.get("graphs"),
    )  # fmt: skip


def examples(table: Table) -> dict[str, str]:
    """A cell of each column that says something, among the first hundred rows."""
    rows = fetch(table, f"SELECT * FROM {table.view} LIMIT 100")
    texts = [["" if value is None else str(value) for value in row] for row in rows]
    found = zip(table.columns, zip(*texts, strict=True), strict=True) if texts else []
    return {name: next((text for text in column if text.strip().lower() not in UNKNOWN), "") for name, column in found}


def _draft(name: str, table: Table, given: Schema) -> Draft:
    """A table with what the user says of its columns, which must be there; lists and structures are left out."""
    said = given.tables().get(name, TableSchema()).columns
    for column in said:
        if column not in table.columns:
            near = nearest(column, table.columns)
            raise GpmError(f"{table.title} has no column {column!r}, which the YAML describes.{near}")
    nested = {
        column: Column("ignore", why=f"cells of type {kind[:30]}")
        for column, kind in table.types.items()
        if kind.endswith("]") or kind.startswith(_NESTED)
    }
    return Draft(name, table, nested | dict(said))


def _check_unused(drafts: dict[str, Draft], given: Schema) -> None:
    for name, table in given.tables().items():
        if name not in drafts and table.columns:
            raise GpmError(f"the YAML describes columns of {name}, but no such table was given; give its file.")


def _choose_task(drafts: dict[str, Draft], task: str, target: list[str], many: bool, given: Schema) -> str:
    asked = {task, given.task} - {"auto"}
    if len(asked) > 1:
        raise GpmError(f"the YAML says task: {given.task}, the command --task {task}; keep one of them.")
    said = [name for table in ("nodes", "graphs") if table in drafts for name in drafts[table].having("target")]
    wanted = target or said
    chosen = asked.pop() if asked else "graph" if many else "node" if wanted else "link"
    if chosen not in HOMES:
        raise GpmError(f"task must be auto, {', '.join(HOMES)}, got {chosen!r}.{nearest(chosen, HOMES)}")
    if chosen == "link" and wanted:
        raise GpmError(f"task link predicts edges and has no target; leave out the target {wanted[0]!r}, or the task.")
    if chosen == "node" and "nodes" not in drafts:
        column = f" with a column {wanted[0]!r}" if wanted else ""
        raise GpmError(f"a target is a column of the nodes; give their table: --nodes FILE{column}.")
    if chosen == "graph" and not many:
        raise GpmError("to predict graphs, say which column names the graph of a row: --graph NAME.")
    if chosen == "graph" and not {"nodes", "graphs"} & set(drafts):
        raise GpmError("targets of graphs are columns of a nodes or a graphs table; give one of them.")
    if chosen != "link" and not wanted:
        columns = drafts[next(name for name in HOMES[chosen] if name in drafts)].list_columns()
        raise GpmError(f"say which column to predict: --target NAME; or predict edges: --task link. {columns}")
    if chosen != "graph" and "graphs" in drafts:
        raise GpmError(f"a table of graphs is for --task graph, not for {chosen}; leave it out.")
    return chosen


def _finish(draft: Draft, given: Schema, task: str) -> TableSchema:
    """Settle the kinds of features and targets, of which all cells are looked at."""
    table, said = draft.table, dict(draft.columns)
    open_roles = ("feature", "target") if draft.name != "edges" else ("feature",)
    names = [n for n in table.columns if n not in said or said[n].role in open_roles]
    found = profile(table, names if draft.name != "graphs" else draft.having("target"))
    targets = [name for name in draft.having("target") if draft.name != "edges"]
    if draft.name == "nodes" and targets and task == "graph":
        found |= profile(_one_per_graph(draft), targets)
    _check_numbers(table, {n: p for n, p in found.items() if n not in said or not said[n].kind}, targets)
    columns: dict[str, Column] = {}
    for name in table.columns:
        if name in found and name not in targets:
            columns[name] = feature_column(found[name], said.get(name))
        else:
            columns[name] = said.get(name, Column("ignore", why="graphs have no features of their own"))
    columns |= target_columns({name: found[name] for name in targets}, said, table.title) if targets else {}
    for name, column in columns.items():
        if name in found and column.kind == "number" and found[name].huge:
            raise refuse(table, name, "number")
    columns = _warn_of_copies(table, mark_bag(columns, found) if draft.name == "nodes" else columns, found)
    before = given.tables().get(draft.name, TableSchema())
    return TableSchema(str(table.path or before.file), dict(table.options), columns)


def _one_per_graph(nodes: Draft) -> Table:
    """The table with one row of each graph: a target of graphs is counted once for each."""
    (graph,) = nodes.having("graph")
    view, key = f"{nodes.table.view}_graphs", cell(nodes.table, graph)
    nodes.table.base.execute(
        f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT * EXCLUDE (gpm_row) FROM {nodes.table.numbered()} "
        f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY gpm_row) = 1"
    )
    return replace(nodes.table, view=view)


def _check_numbers(table: Table, found: dict[str, Profile], targets: Sequence[str]) -> None:
    """Refuse numbers that can be read in two ways, and a target of numbers that one cell would make a class."""
    for name, p in found.items():
        if p.is_number and p.commas and p.points:
            raise GpmError(
                f"{table.title}: column {name!r} has decimal commas, and cells such as '1.234' of which the point may "
                "part thousands; write all its numbers in one way."
            )
    for name in targets:
        if name in found and is_spoiled_number(found[name]):
            raise refuse(table, name, "number")


def _warn_of_copies(table: Table, columns: dict[str, Column], found: dict[str, Profile]) -> dict[str, Column]:
    """Say of features that are the target over again that they are."""
    columns = dict(columns)
    for target in [name for name, column in columns.items() if column.role == "target" and name in found]:
        values, classes = found[target].distinct, columns[target].kind != "number"
        features = [name for name, column in columns.items() if column.role == "feature"]
        alike = [name for name in features if 0.9 * values <= found[name].distinct <= 2 * values + 10]
        copies, twins = compare(table, alike, target)
        for name in copies + [name for name in twins if classes or not found[name].is_number]:
            how = "equal to" if name in copies else "one-to-one with"
            why = f"WARNING: {how} the target {target!r} in every row"
            columns[name] = replace(columns[name], why=f"{columns[name].why}; {why}" if columns[name].why else why)
    return columns


def _check_graphs(nodes: Draft) -> None:
    """Targets and parts of graphs in the nodes table must be the same for all nodes of a graph."""
    table, (graph,) = nodes.table, nodes.having("graph")
    for name in nodes.having("target") + nodes.having("split"):
        rows = f"SELECT {cell(table, graph)} AS g, {known(cell(table, name))} AS x FROM {table.view}"
        mixed = "min(x) <> max(x) OR (count(x) > 0 AND count(x) < count(*))"
        wrong = fetch(table, f"SELECT g FROM ({rows}) GROUP BY g HAVING {mixed} ORDER BY g LIMIT 1")
        if wrong:
            raise GpmError(
                f"{table.title}: {name!r} is not the same for all nodes of graph {wrong[0][0]!r}; mend it, or give a "
                "table with a row per graph."
            )
