"""Find nodes and graphs by the user's names, also many at once, and tell which names are new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.base_graph import BaseGraph
from gpm.graph.names import Names

FEW = 32  # names up to which each is searched on its own
BLOCK = 1 << 18  # names that are Python objects at a time


def find_nodes(graph: BaseGraph, names: Sequence[Any]) -> NDArray[np.int64]:
    """Return the nodes that have names, in the order of the names, which may repeat."""
    if graph.names is None or len(names) <= FEW:
        return np.array([graph.find(name) for name in names], dtype=np.int64)
    return graph.names.find_many(names)


def find_graphs(wanted: Sequence[object], count: int, names: list[str] | None = None) -> NDArray[np.int64]:
    """Return some of `count` graphs by name; or by id, unless names are themselves numbers."""
    ids: dict[str, list[int]] = {}
    for i, name in enumerate(names or ()):
        ids.setdefault(name, []).append(i)
    by_id = not any(name.isdecimal() for name in ids)
    return np.array([_find_graph(str(name), count, ids, by_id) for name in wanted], dtype=np.int64)


def _find_graph(name: str, count: int, ids: dict[str, list[int]], by_id: bool) -> int:
    same = ids.get(name, [])
    if len(same) > 1:
        raise GpmError(f"{len(same)} graphs are named {name!r}; give the number of one, such as {same[0]}.")
    if same:
        return same[0]
    if not by_id or not name.isascii() or not name.isdecimal() or len(name) > 18 or int(name) >= count:
        first = f"; the first is named {next(iter(ids))!r}" if ids else ""
        raise GpmError(f"No graph {name!r}: graphs are numbered 0 to {count - 1}{first}.")
    return int(name)


def find_new(graph: BaseGraph, other: BaseGraph) -> NDArray[np.int64]:
    """Return the nodes of a graph whose names another graph lacks, ascending. A number and its text are one name."""
    if all(g.names is None and g.graph_ptr is None for g in (graph, other)):
        return np.arange(min(other.num_nodes, graph.num_nodes), graph.num_nodes)
    names = other.names or _names_of_ids(other)
    new = [nodes[names.look_up(graph.names_of(nodes)) < 0] for nodes in _blocks(graph)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *new])


def find_again(graph: BaseGraph, nodes: NDArray, other: BaseGraph) -> NDArray[np.int64]:
    """Return the nodes of another graph that have the names of some nodes; -1 where it has none of that name."""
    if all(g.names is None and g.graph_ptr is None for g in (graph, other)):
        return np.where(nodes < other.num_nodes, nodes, -1)
    names = other.names or _names_of_ids(other)
    found = [names.look_up(graph.names_of(part)) for part in np.split(nodes, range(BLOCK, len(nodes), BLOCK))]
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def _names_of_ids(graph: BaseGraph) -> Names:
    if graph.graph_ptr is None:
        return Names(np.arange(graph.num_nodes))
    return Names.from_chunks([str(name) for name in graph.names_of(nodes)] for nodes in _blocks(graph))


def _blocks(graph: BaseGraph) -> Iterator[NDArray[np.int64]]:
    """Yield all nodes in blocks: the names of a large graph do not fit into memory as Python objects."""
    for first in range(0, graph.num_nodes, BLOCK):
        yield np.arange(first, min(first + BLOCK, graph.num_nodes))
