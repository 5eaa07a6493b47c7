"""Read network files (GraphML, GEXF, GML, node-link JSON) as tables, without executing or fetching anything."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

import numpy as np

from gpm.data.tables.read_text import check_file, opened
from gpm.errors import GpmError

if TYPE_CHECKING:
    import pandas as pd

NETWORK_FILES = (".graphml", ".gexf", ".gml", ".json")
PICKLES = (".gpickle", ".pkl", ".pickle")
Record = tuple[dict[str, Any], dict[str, Any]]  # the ids of a node or an edge, and its attributes


def network_tables(path: Path) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """Read a network file as nodes (id and attributes), edges (source, target and attributes), and whether directed.

    Parallel edges are kept. An attribute called id is renamed "attribute id", and likewise for source and target.
    """
    suffix = path.suffix.lower()
    if suffix in PICKLES:
        raise GpmError(f"{path} is a pickle, which can run code when it is read; write GraphML or JSON Lines instead.")
    if suffix not in NETWORK_FILES:
        raise GpmError(f"{path} is not a supported network file; use one of {', '.join(NETWORK_FILES)}.")
    check_file(path)
    try:
        if suffix == ".json":
            nodes, edges, directed = _read_json(path)
        else:
            if suffix != ".gml":
                _check_xml(path)
            nodes, edges, directed = _read_networkx(path, suffix)
    except (GpmError, KeyboardInterrupt):
        raise
    except Exception as error:  # networkx raises many kinds of errors for a damaged file
        reason = str(error).split("\n")[0][:200].rstrip(".") or type(error).__name__
        raise GpmError(f"{path.name} cannot be read ({reason}); it is damaged, or in another format.") from None
    return _frame(("id",), nodes), _frame(("source", "target"), edges), directed


def is_network(value: Any) -> bool:
    """Check whether a value is a NetworkX graph, without importing NetworkX."""
    return hasattr(value, "is_multigraph") and hasattr(value, "nodes") and hasattr(value, "adj")


def tabulate(graph: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the nodes (id and attributes) and the edges (source, target and attributes) of a NetworkX graph.

    An attribute that is a list has a column per entry; one that is called id, source or target is "attribute id".
    """
    listed = list(graph.nodes)
    whole = all(isinstance(node, int) and not isinstance(node, bool) for node in listed)
    names = dict(zip(listed, listed if whole else map(str, listed), strict=True))
    if len(set(names.values())) < len(listed):
        raise GpmError("Two nodes of the graph have the same name as text, such as 1 and '1'; rename one of them.")
    nodes: list[Record] = [({"id": names[node]}, dict(values)) for node, values in graph.nodes(data=True)]
    ends = ((names[a], names[b], values) for a, b, values in graph.edges(data=True))
    edges: list[Record] = [({"source": a, "target": b}, dict(values)) for a, b, values in ends]
    kind = None if whole else object
    return _frame(("id",), _spread(nodes), kind, None), _frame(("source", "target"), _spread(edges), kind, None)


def _spread(records: list[Record]) -> list[Record]:
    """Replace attributes that are lists by one per entry."""
    for name in dict.fromkeys(name for _, values in records for name in values):
        cells = [values.get(name) for _, values in records]
        lengths = {np.size(cell) if isinstance(cell, (list, tuple, np.ndarray)) else None for cell in cells}
        if lengths == {None}:
            continue
        if len(lengths) > 1:
            raise GpmError(f"The attribute {name!r} is not a list of the same length everywhere; make it one.")
        for (_, values), cell in zip(records, cells, strict=True):
            del values[name]
            values |= {f"{name}.{i}": entry for i, entry in enumerate(np.asarray(cell).reshape(-1))}
    return records


def _check_xml(path: Path) -> None:
    """Refuse XML that networkx accepts silently: entities, which may grow without bound or fetch other files;
    several graphs; a repeated node; an edge to an unknown node.
    """
    graphs, nodes = 0, set[str]()
    ends: dict[str, int] = {}  # ends of edges, and the line where each first occurs

    def refuse(*_: Any) -> None:
        raise GpmError(f"{path.name} declares XML entities, which are not supported; write the file without them.")

    def start(name: str, values: dict[str, str]) -> None:
        nonlocal graphs
        kind, line = name.split(":")[-1], parser.CurrentLineNumber
        graphs += kind == "graph"
        if kind == "node":
            if (node := values.get("id", "")) in nodes:
                raise GpmError(f"{path.name}, line {line}: node {node!r} occurs a second time; ids must differ.")
            nodes.add(node)
        for side in ("source", "target") if kind == "edge" else ():
            if side not in values:
                raise GpmError(f"{path.name}, line {line}: an edge has no {side}; write both ends.")
            ends.setdefault(values[side], line)

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = parser.UnparsedEntityDeclHandler = refuse
    parser.StartElementHandler = start
    with opened(path) as file:
        try:
            parser.ParseFile(file)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise GpmError(f"{path.name}, line {error.lineno} is not XML ({reason}); write the file again.") from None
    if graphs != 1:
        raise GpmError(f"{path.name} has {graphs} graphs; write one graph per file.")
    for end, line in ends.items():
        if end not in nodes:
            raise GpmError(f"{path.name}, line {line}: an edge refers to {end!r}, which is not a node; add the node.")


def _read_networkx(path: Path, suffix: str) -> tuple[list[Record], list[Record], bool]:
    import networkx as nx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if suffix == ".gml":
            graph = _read_gml(path)
        else:
            graph = nx.read_graphml(path) if suffix == ".graphml" else nx.read_gexf(path)
    nodes = [({"id": node}, values) for node, values in graph.nodes(data=True)]
    edges = [({"source": a, "target": b}, values) for a, b, values in graph.edges(data=True)]
    if suffix == ".gexf":  # it requires ids of edges, and labels, which are often the ids again
        same = all(values.get("label") == str(ids["id"]) for ids, values in nodes)
        for records, key in ((edges, "id"), *([(nodes, "label")] if same else [])):
            for _, values in records:
                values.pop(key, None)
    return nodes, edges, bool(graph.is_directed())


def _read_gml(path: Path) -> Any:
    """Read GML with any characters, with or without a declaration of parallel edges, and with or without labels."""
    import networkx as nx

    with opened(path) as file:
        content = file.read().decode("utf-8-sig")
    _check_gml(path, content)
    if not re.search(r"^\s*multigraph\s", content, re.MULTILINE):
        content = re.sub(r"^(\s*graph\s*\[)", r"\1\n  multigraph 1\n", content, count=1, flags=re.MULTILINE)
    lines = content.encode("ascii", "xmlcharrefreplace").decode().splitlines()
    try:
        return nx.parse_gml(lines, label="label")
    except nx.NetworkXError:
        return nx.parse_gml(lines, label="id")


def _check_gml(path: Path, content: str) -> None:
    """Refuse node ids that are not integers: networkx would read `source 1e-5` as node 1."""
    bare = re.sub(r'"[^"]*"', lambda quoted: '"' + "\n" * quoted[0].count("\n") + '"', content)
    for match in re.finditer(r"(?<![^\s\[])(id|source|target)\s+([^\s\]]+)", bare):
        if not re.fullmatch(r'[+-]?\d+|"+', match[2]):
            line = bare[: match.start()].count("\n") + 1
            raise GpmError(f"{path.name}, line {line}: {match[1]} {match[2][:60]!r} is not an integer; fix it.")


def _read_json(path: Path) -> tuple[list[Record], list[Record], bool]:
    """Read node-link JSON as networkx and D3 write it: nodes with an id, links (or edges) with source and target."""
    with opened(path) as file:
        content = json.loads(file.read().decode("utf-8-sig"))
    links = next((key for key in ("links", "edges") if isinstance(content, dict) and key in content), "")
    if not links or "nodes" not in content:
        raise GpmError(
            f"{path.name} is not node-link JSON: it needs 'nodes' and 'links'; or write JSON Lines (.jsonl)."
        )
    return (
        _records(path, "node", content["nodes"], ("id",)),
        _records(path, "link", content[links], ("source", "target"), drop="key"),
        bool(content.get("directed", False)),
    )


def _records(path: Path, what: str, items: Any, names: tuple[str, ...], drop: str = "") -> list[Record]:
    if not isinstance(items, list):
        raise GpmError(f"{path.name}: the {what}s are not a list; write them as one.")
    records = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, dict) or not all(type(item.get(name)) in (int, str) for name in names):
            raise GpmError(f"{path.name}: {what} {number} needs {' and '.join(names)}, as text or an integer.")
        values = {key: value for key, value in item.items() if key not in names and key != drop}
        records.append(({name: item[name] for name in names}, values))
    return records


def _frame(names: tuple[str, ...], records: Iterable[Record], kind: Any = object, other: Any = object) -> pd.DataFrame:
    """Make a frame with a column for every attribute of any record, after the columns `names` that identify it.

    `kind` and `other` are the data types of these columns and of the attributes; None to infer them.
    """
    import pandas as pd

    records = list(records)
    columns = {name: [ids[name] for ids, _ in records] for name in names}
    for key in dict.fromkeys(key for _, values in records for key in values):
        name = f"attribute {key}" if str(key).lower() in names else str(key)
        columns[name] = [values.get(key) for _, values in records]
    kinds = dict.fromkeys(names, kind)
    frame = {name: pd.Series(column, dtype=kinds.get(name, other)) for name, column in columns.items()}
    return pd.DataFrame(frame, index=range(len(records)))
