"""NetworkX graphs as tables of nodes and edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd


def is_network(value: Any) -> bool:
    """Whether a value is a NetworkX graph, without importing NetworkX."""
    return hasattr(value, "is_multigraph") and hasattr(value, "nodes") and hasattr(value, "adj")


def tabulate(graph: nx.Graph) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The nodes (id and attributes) and the edges (source, target and attributes) of a graph.

    An attribute that is a list has a column per entry; one that is called id, source or target is "attribute id".
    """
    import pandas as pd

    listed = list(graph.nodes)
    whole = all(isinstance(node, int) and not isinstance(node, bool) for node in listed)
    names = dict(zip(listed, listed if whole else map(str, listed), strict=True))
    if len(set(names.values())) < len(listed):
        raise GpmError("two nodes of the graph have the same name as text, such as 1 and '1'; rename one of them.")
    ends = list(graph.edges(data=True))
    nodes = _spread([graph.nodes[node] for node in listed], ("id",))
    edges = _spread([attributes for _, _, attributes in ends], ("source", "target"))
    nodes.insert(0, "id", pd.Series(names.values(), index=nodes.index, dtype=None if whole else object))
    for place, end in enumerate(("source", "target")):
        column = pd.Series([names[edge[place]] for edge in ends], index=edges.index, dtype=None if whole else object)
        edges.insert(place, end, column)
    return nodes, edges


def tabulate_all(graphs: Sequence[nx.Graph]) -> tuple[pd.DataFrame, pd.DataFrame, NDArray[np.int64]]:
    """The nodes and the edges of all graphs, with nodes numbered throughout; and the bounds of the graphs `[G+1]`."""
    import pandas as pd

    parts = []
    bounds = np.concatenate([[0], np.cumsum([len(graph) for graph in graphs])])
    for graph, first in zip(graphs, bounds.tolist(), strict=False):
        nodes, edges = tabulate(graph)
        number = dict(zip(nodes["id"], range(first, first + len(nodes)), strict=True))
        ends = {end: edges[end].map(number).astype("int64") for end in ("source", "target")}
        parts.append((nodes.assign(id=range(first, first + len(nodes))), edges.assign(**ends)))
    nodes, edges = (pd.concat([part[at] for part in parts], ignore_index=True) for at in (0, 1))
    return nodes, edges, bounds


def is_bare(nodes: pd.DataFrame, edges: pd.DataFrame, labels: set[str]) -> bool:
    """Whether nothing is known of nodes but their labels, and of edges but their weights."""
    return set(edges.columns) <= {"source", "target", "weight"} and set(nodes.columns) <= {"id", *labels}


def _spread(rows: list[dict[Any, Any]], taken: tuple[str, ...]) -> pd.DataFrame:
    """Attributes as a table, with a column per entry of those that are lists."""
    import pandas as pd

    names = dict.fromkeys(name for row in rows for name in row)
    columns: dict[str, Any] = {}
    for name in names:
        cells = [row.get(name) for row in rows]
        called = f"attribute {name}" if name in taken else str(name)
        lists = [np.asarray(cell).reshape(-1) for cell in cells if isinstance(cell, (list, tuple, np.ndarray))]
        if not lists:
            columns[called] = cells
        elif len(lists) < len(cells) or len({len(each) for each in lists}) > 1:
            raise GpmError(f"the attribute {name!r} is not a list of the same length everywhere; make it one.")
        else:
            columns |= {f"{called}.{i}": column for i, column in enumerate(np.stack(lists).T)}
    return pd.DataFrame(columns, index=range(len(rows)))
