"""Whether an imported folder holds what its tables say: nodes, names, edges, weights, labels, parts and features."""

from __future__ import annotations

import datetime as dt
import math
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzzing.judge import WrongAnswerError
from fuzzing.reference import Cell, RefusalError, Sheet
from gpm import Graph
from gpm.graph.folder import read_extras

Sheets = dict[str, Sheet]
BLANKS = " \t\n\r\xa0\u3000"
MISSING = {"", "nan", "na", "n/a", "#n/a", "<na>", "none", "null", "?"}
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
PARTS = {
    "train": 0,
    "training": 0,
    "val": 1,
    "valid": 1,
    "validation": 1,
    "validate": 1,
    "dev": 1,
    "test": 2,
    "testing": 2,
}
YES, NO = ("true", "yes", "t", "y", "1", "1.0"), ("false", "no", "f", "n", "0", "0.0")


@dataclass
class Expected:
    """What tables say.

    Attributes:
        nodes: Graph, id and row of the nodes table of each node.
        edges: Ends, weight and row of each edge.
        graphs: Names of the graphs.
    """

    nodes: list[tuple[str, str, int | None]] = field(default_factory=list)
    edges: list[tuple[int, int, float | None, int]] = field(default_factory=list)
    graphs: list[str] = field(default_factory=list)


def check_import(out: Path, sheets: Sheets) -> None:
    """Raise `WrongAnswerError` unless a folder holds what the sheets say, in the roles that the folder says."""
    graph, (facts, extras) = Graph.open(out), read_extras(out)
    schema = facts["schema"]
    if set(sheets) != {name for name in ("edges", "nodes", "graphs") if schema[name]}:
        raise WrongAnswerError("wrong", f"tables {list(sheets)} became {facts['schema']}")
    for name, sheet in sheets.items():
        if list(schema[name]["columns"]) != sheet.columns:
            raise WrongAnswerError("wrong", f"{name} has columns {list(schema[name]['columns'])}, not {sheet.columns}")
    try:
        wanted = expect(schema, sheets)
    except RefusalError as error:
        raise WrongAnswerError("wrong", f"it was imported, though {error}") from None
    _check_nodes(graph, facts, wanted)
    _check_edges(graph, schema, wanted)
    _check_labels(graph, facts, sheets, wanted)
    _check_parts(extras, schema, sheets, wanted)
    places = [row for _, _, row in wanted.nodes]
    for kind, features, table, rows in (
        ("node", graph.x, "nodes", places), ("edge", graph.edge_attr, "edges", None),
    ):  # fmt: skip
        if facts["encoding"][kind]:
            comma = schema[table].get("delimiter") == ";"
            _check_features(features, facts["encoding"][kind], sheets[table], rows, comma)


def role(schema: dict[str, Any], table: str, wanted: str) -> str:
    """The column of a role, or an empty text."""
    columns = (schema[table] or {"columns": {}})["columns"]
    return next((name for name, column in columns.items() if column["role"] == wanted), "")


def expect(schema: dict[str, Any], sheets: Sheets) -> Expected:
    """What tables say under a schema; raises where they contradict themselves."""
    edges = sheets["edges"]
    source, target, weight, graph = (role(schema, "edges", name) for name in ("source", "target", "weight", "graph"))
    ends = list(zip(edges.column(source), edges.column(target), strict=True))
    of = edges.column(graph) if graph else [""] * len(ends)
    if any(a is None or b is None for a, b in ends) or (graph and None in of):
        raise RefusalError("an end of an edge, or its graph, is empty")
    listed = _listed(schema, sheets)
    by_graph = bool(graph)
    known = {(g if by_graph else "", id_): (g, id_, row) for g, id_, row in listed or []}
    if listed is not None and len(known) < len(listed):
        raise RefusalError("two nodes have the same id")
    found = dict(known)
    if listed is None or schema["unlisted"] == "add":
        for (a, b), g in zip(ends, of, strict=True):
            for id_ in (a, b):
                found.setdefault((g, id_), (g, id_, None))  # type: ignore[index, arg-type]
    wanted = Expected(graphs=_graphs(schema, sheets, found))
    _check_twins(found)
    first = {key: place for place, key in enumerate(found)}
    order: Any = first.__getitem__
    if listed is None and all(WHOLE.fullmatch(id_) for _, id_ in found):
        order = lambda key: int(key[1])  # noqa: E731
    rank = {name: place for place, name in enumerate(wanted.graphs)}
    numbered = sorted(found, key=lambda key: (rank.get(found[key][0], 0), order(key)))
    wanted.nodes = [found[key] for key in numbered]
    number = {key: place for place, key in enumerate(numbered)}
    weights = edges.column(weight) if weight else [None] * len(ends)
    for row, ((a, b), g, w) in enumerate(zip(ends, of, weights, strict=True)):
        keys = (g if by_graph else "", a), (g if by_graph else "", b)
        if any(key not in number for key in keys):
            if schema["unlisted"] == "drop":
                continue
            raise RefusalError(f"node {keys} is not listed")
        if found[keys[0]][0] != found[keys[1]][0]:  # type: ignore[index]
            raise RefusalError("an edge joins two graphs")
        s, t = (number[key] for key in keys)  # type: ignore[index]
        wanted.edges.append((s, t, _weight(w, schema) if weight else None, row))
    return wanted


def _listed(schema: dict[str, Any], sheets: Sheets) -> list[tuple[str, str, int]] | None:
    if "nodes" not in sheets:
        return None
    nodes, id_, graph = sheets["nodes"], role(schema, "nodes", "id"), role(schema, "nodes", "graph")
    names = nodes.column(id_)
    of = nodes.column(graph) if graph else [""] * len(names)
    if None in names or None in of:
        raise RefusalError("a node has no id, or no graph")
    return [(g, name, row) for row, (g, name) in enumerate(zip(of, names, strict=True))]  # type: ignore[misc]


def _graphs(schema: dict[str, Any], sheets: Sheets, found: dict[Any, tuple[str, str, int | None]]) -> list[str]:
    named = list(dict.fromkeys(g for g, _, _ in found.values()))
    if "graphs" not in sheets:
        return named if named != [""] else []
    listed = sheets["graphs"].column(role(schema, "graphs", "graph"))
    if None in listed or len(set(listed)) < len(listed) or set(listed) != set(named):
        raise RefusalError("the table of graphs is not that of the nodes")
    return [str(name) for name in listed]


def _check_twins(found: dict[Any, Any]) -> None:
    """Ids that look the same must have been refused."""
    bare = Counter((g, unicodedata.normalize("NFC", id_.strip(BLANKS + "\x0b\x0c"))) for g, id_ in found)
    if twice := [key for key, count in bare.items() if count > 1]:
        raise RefusalError(f"ids look the same: {twice[0]}")


def as_number(cell: Cell, comma: bool = False) -> float:
    """The number in a cell; NaN if there is none."""
    text = (cell or "").strip(BLANKS)
    if comma and "." not in text:
        text = text.replace(",", ".")
    return float(text) if NUMBER.fullmatch(text) else math.nan


def _weight(cell: Cell, schema: dict[str, Any]) -> float:
    value = as_number(cell, schema["edges"].get("delimiter") == ";")
    if not (math.isfinite(value) and value >= 0):
        raise RefusalError(f"{cell!r} is no weight")
    return value


def _check_nodes(graph: Graph, facts: dict[str, Any], wanted: Expected) -> None:
    if graph.num_nodes != len(wanted.nodes) or list(facts["graphs"]) != wanted.graphs:
        raise WrongAnswerError(
            "wrong", f"{graph.num_nodes} nodes in {facts['graphs']}, not {len(wanted.nodes)} in {wanted.graphs}"
        )
    ids = [id_ for _, id_, _ in wanted.nodes]
    names = [str(graph.name(node)) for node in range(graph.num_nodes)]
    if wanted.graphs:
        sizes = Counter(g for g, _, _ in wanted.nodes)
        if np.diff(graph.graph_ptr).tolist() != [sizes[g] for g in wanted.graphs]:
            raise WrongAnswerError("wrong", f"graphs have {np.diff(graph.graph_ptr).tolist()} nodes, not {sizes}")
        if graph.names is None or len(set(ids)) < len(ids):
            ids = [f"{g}:{id_}" for g, id_, _ in wanted.nodes]
    if names != ids:
        raise WrongAnswerError("wrong", f"nodes are called {names[:10]}, not {ids[:10]}")


def _check_edges(graph: Graph, schema: dict[str, Any], wanted: Expected) -> None:
    entries: dict[tuple[int, int], list[tuple[float | None, int]]] = {}
    for s, t, w, row in wanted.edges:
        if s == t and schema["self_loops"] == "drop":
            continue
        for key in {(s, t)} if schema["directed"] else {(s, t), (t, s)}:
            entries.setdefault(key, []).append((w, row))
    merge = schema["duplicates"] == "merge"
    expected = [
        (*key, None if same[0][0] is None else sum(w or 0.0 for w, _ in same) if merge else w, row)
        for key, same in sorted(entries.items())
        for w, row in (same[:1] if merge else same)
    ]
    ends = graph.edge_index().T.tolist()
    weights = [None] * len(ends) if graph.edge_weight is None else graph.edge_weight.tolist()
    rows = [row for *_, row in expected] if graph.edge_ids is None else graph.edge_ids.tolist()
    found = [(a, b, w, row) for (a, b), w, row in zip(ends, weights, rows, strict=False)]
    if len(ends) != len(expected) or found != expected:
        at = next((i for i, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]), -1)
        raise WrongAnswerError(
            "wrong", f"{len(ends)} entries {found[at:][:3]}, not {len(expected)} {expected[at:][:3]}"
        )


def _instances(schema: dict[str, Any], table: str, sheets: Sheets, wanted: Expected) -> list[int | None]:
    """The row of a table that each node, or each graph, is labelled by."""
    if table == "nodes" and schema["task"] == "node":
        return [row for _, _, row in wanted.nodes]
    if table == "nodes":
        return [next(row for g, _, row in wanted.nodes if g == name) for name in wanted.graphs]
    listed = sheets["graphs"].column(role(schema, "graphs", "graph"))
    return [listed.index(name) for name in wanted.graphs]


def said(cell: Cell) -> str | None:
    """A cell without the blanks around it; None if it says nothing."""
    text = (cell or "").strip(BLANKS)
    return None if text.lower() in MISSING else text


def _check_labels(graph: Graph, facts: dict[str, Any], sheets: Sheets, wanted: Expected) -> None:
    schema = facts["schema"]
    if schema["task"] == "link" or not facts["targets"]:
        return
    table = next(name for name in ("graphs", "nodes") if name in sheets and facts["targets"][0] in sheets[name].columns)
    rows, comma = _instances(schema, table, sheets, wanted), schema[table].get("delimiter") == ";"
    y = np.asarray(graph.y).reshape(len(rows), -1)
    for at, name in enumerate(facts["targets"]):
        cells = sheets[table].column(name)
        for place, row in enumerate(rows):
            cell, found = None if row is None else said(cells[row]), y[place, at]
            if facts["kind"] == "classes":
                right = (facts["classes"][int(found)] if found >= 0 else None) == cell
            elif cell is None:
                right = bool(np.isnan(found))
            else:
                value = as_number(cell, comma) if facts["kind"] == "values" else float(cell.lower() in YES)
                right = bool(np.float32(value) == found)
            if not right:
                raise WrongAnswerError("wrong", f"label {found} of instance {place} is {cell!r} in column {name!r}")


def _check_parts(extras: dict[str, Any], schema: dict[str, Any], sheets: Sheets, wanted: Expected) -> None:
    for table in ("nodes", "graphs"):
        column = role(schema, table, "split")
        if column:
            cells = [said(cell) for cell in sheets[table].column(column)]
            parts = [-1 if cell is None else PARTS.get(cell.lower(), 9) for cell in cells]
            rows = _instances(schema, table, sheets, wanted)
            if extras["part"].tolist() != [-1 if row is None else parts[row] for row in rows]:
                raise WrongAnswerError("wrong", f"parts are {extras['part'].tolist()}, not {parts}")


def _check_features(
    features: Any, encoding: list[dict[str, Any]], sheet: Sheet, rows: list[int | None] | None, comma: bool
) -> None:
    x = features.toarray() if sp.issparse(features) else np.asarray(features)
    places = list(range(len(sheet.rows))) if rows is None else rows
    if len(x) != len(places):
        raise WrongAnswerError("wrong", f"{len(x)} rows of features for {len(places)}")
    first = 0
    for entry in encoding:
        cells = [said(cell) for cell in sheet.column(entry["column"])]
        chosen = [None if row is None else cells[row] for row in places]
        right = _encoded(entry, cells, chosen, comma)
        part = x[:, first : first + right.shape[1]]
        first += right.shape[1]
        if entry["kind"] != "text" and not np.allclose(part, right, rtol=1e-4, atol=1e-4):
            raise WrongAnswerError("wrong", f"column {entry} became {part.tolist()[:5]}, not {right.tolist()[:5]}")
    if first != x.shape[1]:
        raise WrongAnswerError("wrong", f"{x.shape[1]} features, not {first}")


def _encoded(entry: dict[str, Any], all_cells: list[Cell], cells: list[Cell], comma: bool) -> np.ndarray:
    """The features that a column's cells are to become."""
    if entry["kind"] == "text":
        return np.zeros((len(cells), entry["buckets"]))
    if entry["kind"] == "category":
        right = np.zeros((len(cells), len(entry["values"]) + entry["other"]))
        for place, cell in enumerate(cells):
            if cell in entry["values"]:
                right[place, entry["values"].index(cell)] = 1
            elif cell is not None:
                right[place, -1] = 1
        return right
    values = np.array([_value(entry["kind"], cell, comma) for cell in cells], dtype=float)
    known = np.array([v for cell in all_cells if not math.isnan(v := _value(entry["kind"], cell, comma))])
    plain = (entry["mean"], entry["std"]) == (0.0, 1.0)
    if len(known) and not plain:
        spread = max(1e-9, 1e-6 * float(np.abs(known).max()))
        if abs(entry["mean"] - known.mean()) > spread or abs(entry["std"] - known.std()) > max(
            spread, 1e-6 * entry["std"]
        ):
            raise WrongAnswerError("wrong", f"column {entry} has mean {known.mean()} and deviation {known.std()}")
    with np.errstate(all="ignore"):
        scaled = (values - entry["mean"]) / entry["std"] if entry["std"] else np.zeros_like(values)
    limit = 1e37 if plain else 1e6
    right = np.clip(np.where(np.isnan(values), 0.0, scaled), -limit, limit)[:, None]
    return np.hstack([right, np.isnan(values)[:, None]]) if entry["missing"] else right


def _value(kind: str, cell: Cell, comma: bool) -> float:
    if cell is None:
        return math.nan
    if kind == "flag":
        return 1.0 if cell.lower() in YES else 0.0 if cell.lower() in NO else 9.0
    if kind == "date":
        days = re.match(r"(\d{4})-(\d{1,2})-(\d{1,2})$", cell)
        assert days is not None, cell
        return float((dt.date(int(days[1]), int(days[2]), int(days[3])) - dt.date(1970, 1, 1)).days)
    return as_number(cell, comma)
