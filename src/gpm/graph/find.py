"""From the user's names of nodes and graphs to numbers and back, also many at once; and which names are new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.graph.names import Name, Names

FEW = 32  # names up to which each is looked for on its own
BLOCK = 1 << 18  # names that are objects of Python at a time


def name_nodes(graph: Graph, nodes: NDArray) -> list[Name]:
    """What the user calls some nodes, as `Graph.name` does it, at a million nodes a second."""
    ids = np.asarray(nodes, dtype=np.int64)
    if ids.size and not 0 <= ids.min() <= ids.max() < graph.num_nodes:
        raise GpmError(f"nodes are numbered 0 to {graph.num_nodes - 1}, got {ids.min()} to {ids.max()}.")
    if graph.names is not None:
        return _decode(graph.names.arrays(), ids)
    if graph.graph_ptr is None:
        return [*ids.tolist()]
    owners = np.searchsorted(graph.graph_ptr, ids, side="right") - 1
    places = ids - graph.graph_ptr[owners]
    return [f"{owner}:{place}" for owner, place in zip(owners.tolist(), places.tolist(), strict=True)]


def find_nodes(graph: Graph, names: Sequence[Any]) -> NDArray[np.int64]:
    """The nodes that the user calls so, in the order of the names; a name given twice is found twice."""
    if graph.names is None or len(names) <= FEW:
        return np.array([graph.find(name) for name in names], dtype=np.int64)
    return graph.names.find_many(names)


def find_graph(name: object, count: int, names: list[str] | None = None) -> int:
    """A graph by what the user calls it, see `find_graphs`."""
    return int(find_graphs([name], count, names)[0])


def find_graphs(wanted: Sequence[object], count: int, names: list[str] | None = None) -> NDArray[np.int64]:
    """Graphs by what the user calls them, or by their numbers, unless names are themselves numbers.

    Args:
        wanted: Names or numbers.
        count: How many graphs there are.
        names: What they are called; None if they have numbers alone.
    """
    places: dict[str, list[int]] = {}
    for place, each in enumerate(names or ()):
        places.setdefault(each, []).append(place)
    by_number = not any(each.isdecimal() for each in places)
    return np.array([_find_graph(str(name), count, places, by_number) for name in wanted], dtype=np.int64)


def _find_graph(name: str, count: int, places: dict[str, list[int]], by_number: bool) -> int:
    found = places.get(name, [])
    if len(found) > 1:
        raise GpmError(f"{len(found)} graphs are named {name!r}; give the number of one, such as {found[0]}.")
    if found:
        return found[0]
    if not by_number or not name.isascii() or not name.isdecimal() or len(name) > 18 or int(name) >= count:
        first = f"; the first is named {next(iter(places))!r}" if places else ""
        raise GpmError(f"no graph {name!r}: graphs are numbered 0 to {count - 1}{first}.")
    return int(name)


def find_new(graph: Graph, known: Graph) -> NDArray[np.int64]:
    """Nodes of a graph whose names are not among those of another, ascending. A number and its text are one name."""
    if all(g.names is None and g.graph_ptr is None for g in (graph, known)):
        return np.arange(min(known.num_nodes, graph.num_nodes), graph.num_nodes)
    there, found = known.names or _count_names(known), [np.zeros(0, dtype=np.int64)]
    for nodes in _blocks(graph):
        found.append(nodes[there.look_up(name_nodes(graph, nodes)) < 0])
    return np.concatenate(found)


def _count_names(graph: Graph) -> Names:
    """The names of nodes that have numbers alone."""
    if graph.graph_ptr is None:
        return Names(np.arange(graph.num_nodes))
    return Names.from_chunks([str(name) for name in name_nodes(graph, nodes)] for nodes in _blocks(graph))


def _blocks(graph: Graph) -> Iterator[NDArray[np.int64]]:
    """All nodes, some at a time: a graph may have more than there is room for as objects of Python."""
    for first in range(0, graph.num_nodes, BLOCK):
        yield np.arange(first, min(first + BLOCK, graph.num_nodes))


def _decode(arrays: dict[str, NDArray], ids: NDArray[np.int64]) -> list[Name]:
    if (integers := arrays.get("integers")) is not None:
        return [*np.asarray(integers)[ids].tolist()]
    pointer, buffer = arrays["pointer"], np.ascontiguousarray(arrays["bytes"]).data
    ends = zip(pointer[ids].tolist(), pointer[ids + 1].tolist(), strict=True)
    return [str(buffer[first:last], "utf-8", "surrogateescape") for first, last in ends]
