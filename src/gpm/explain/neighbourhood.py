"""The view of an explanation: the nodes and edges that are drawn around its patterns, and their positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.explain.explanation import View, ViewEdge, ViewNode, spell_name
from gpm.explain.layout import place_nodes
from gpm.explain.node_types import Kinds
from gpm.graph.graph import Graph

MOST_NODES = 500
_MOST_FEATURES = 8  # shown of a node
_MOST_SEEN = 200_000  # neighbours that are read for one hop: hubs may have millions


def build_view(
    graph: Graph, starts: Sequence[int], patterns: Sequence[Sequence[int]], weights: Sequence[float], *,
    edges: Sequence[Sequence[tuple[int, int]]] | None = None, level: str, room: int = 120, kinds: Kinds | None = None,
    labels: Callable[[int], str] | None = None, columns: Sequence[str] | None = None,
) -> tuple[View, dict[int, int]]:  # fmt: skip
    """Choose the nodes to draw, place them, and weigh them by the patterns through them.

    A graph task draws the whole graph, if it has at most 500 nodes. Else the starts and the nodes of the patterns are
    drawn, then nodes near the starts (of a graph that is too large, near the patterns) until there are `room`: nearer
    ones first, of equally near ones those with heavier edges or lower ids. There are never more than 500 nodes: the
    lightest patterns that do not fit are left out, and their nodes are not among the returned indices.

    Args:
        starts: The explained nodes; in a graph task, any or all of its nodes.
        patterns, weights: Walks along the patterns, and their weights; negative ones count nothing.
        edges: The edges of each pattern; by default those that its walk crosses.
        labels: A function that returns the known label of a node, to show where there are no kinds.
        columns: Names of the feature columns; by default they are numbered.

    Returns:
        The view, and the index in it of each drawn node of the graph.
    """
    starts = list(dict.fromkeys(int(node) for node in starts))
    walks = [[int(node) for node in walk] for walk in patterns]
    order = sorted(range(len(walks)), key=lambda i: -weights[i])
    drawn, hidden = _choose(graph, starts, [walks[i] for i in order], level, min(room, MOST_NODES))
    places = {node: i for i, node in enumerate(drawn)}
    pairs_of = list(map(pairwise, walks)) if edges is None else edges
    shown = [i for i, walk in enumerate(walks) if weights[i] > 0 and all(v in places for v in walk)]
    node_weights = _add_up(({places[v] for v in walks[i]}, weights[i]) for i in shown)
    edge_weights = _add_up(({tuple(sorted((places[a], places[b]))) for a, b in pairs_of[i]}, weights[i]) for i in shown)
    there = _find_edges(graph, drawn)
    points = place_nodes(len(drawn), there, [places[v] for v in starts if v in places])
    named = kinds.of_node(drawn) if kinds else [labels(v) if labels else "" for v in drawn]
    bonds = kinds.of_edge(*np.array(drawn)[there].T) if kinds and len(there) else [""] * len(there)
    features, begun = _features(graph, drawn, columns), set[int]() if level == "graph" else set(starts)
    nodes = (
        ViewNode(
            spell_name(graph.name(v)), round(x, 4), round(y, 4), kind, values, v in begun, node_weights.get(i, 0.0)
        )
        for i, (v, (x, y), kind, values) in enumerate(zip(drawn, points.tolist(), named, features, strict=True))
    )
    pairs = (
        ViewEdge(a, b, edge_weights.get((a, b), 0.0), bond)
        for (a, b), bond in zip(there.tolist(), bonds, strict=True)
    )  # fmt: skip
    return View(tuple(nodes), tuple(pairs), hidden, kinds is not None and kinds.atoms), places


def _choose(graph: Graph, starts: list[int], walks: list[list[int]], level: str, room: int) -> tuple[list[int], int]:
    """Return the nodes to draw, and the number of equally near ones that are not; walks come heaviest first."""
    if level == "graph" and (whole := _whole(graph, starts)):
        return whole, 0
    few = starts if level != "graph" or len(starts) <= room else starts[: 0 if walks else 1]
    drawn = dict.fromkeys(few[:MOST_NODES])
    for walk in walks:
        new = dict.fromkeys(node for node in walk if node not in drawn)
        if len(drawn) + len(new) <= MOST_NODES:
            drawn |= new
    return _fill(graph, drawn, few or list(drawn), room)


def _whole(graph: Graph, starts: list[int]) -> list[int]:
    """Return all nodes of the graphs that the starts are in; none if they are too many."""
    bounds = np.array([0, graph.num_nodes]) if graph.graph_ptr is None else graph.graph_ptr
    numbers = np.unique(np.searchsorted(bounds, starts, side="right") - 1)
    if (bounds[numbers + 1] - bounds[numbers]).sum() > MOST_NODES:
        return []
    return [node for number in numbers for node in range(int(bounds[number]), int(bounds[number + 1]))]


def _fill(graph: Graph, drawn: dict[int, None], frontier: list[int], room: int) -> tuple[list[int], int]:
    """Add neighbours hop by hop while there is room, and count those left out of a hop that is drawn in part."""
    reached = set(frontier)
    while frontier:
        frontier = [node for node in _neighbours(graph, frontier) if node not in reached]
        reached.update(frontier)
        new = [node for node in frontier if node not in drawn]
        fit = max(room - len(drawn), 0)
        drawn |= dict.fromkeys(new[:fit])
        if len(new) > fit:
            return list(drawn), len(new) - fit if fit or len(new) < len(frontier) else 0
    return list(drawn), 0


def _neighbours(graph: Graph, nodes: Iterable[int]) -> list[int]:
    """Return neighbours of nodes, those over the heaviest edges first, as far as so many are read."""
    entries, left = [np.empty(0, dtype=np.int64)], _MOST_SEEN
    for node in nodes:
        begin, end = graph.indptr[node : node + 2].tolist()
        entries.append(np.arange(begin, min(end, begin + left)))
        left -= len(entries[-1])
    read = np.concatenate(entries)
    near, index = np.unique(graph.indices[read], return_inverse=True)
    if graph.edge_weight is None:
        return cast(list[int], near.tolist())
    return cast(list[int], near[np.argsort(-np.bincount(index, graph.edge_weight[read]), kind="stable")].tolist())


def _find_edges(graph: Graph, drawn: list[int]) -> NDArray[np.int64]:
    """Return all edges among the drawn nodes as pairs of indices `[E, 2]`, each once, the lower index first."""
    order = np.argsort(drawn)
    targets, pairs = np.array(drawn, dtype=graph.indices.dtype)[order], [np.empty((0, 2), dtype=np.int64)]
    for i, node in enumerate(drawn):
        row = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]  # sorted, and maybe of millions
        there = order[np.searchsorted(row, targets, side="right") > np.searchsorted(row, targets)]
        pairs.append(np.stack([np.minimum(i, there), np.maximum(i, there)], axis=1))
    edges = np.unique(np.concatenate(pairs), axis=0)
    return edges[edges[:, 0] < edges[:, 1]]


def _add_up(parts: Iterable[tuple[Iterable[Any], float]]) -> dict[Any, float]:
    """Sum weights by thing, and scale the sums so that the largest is 1."""
    sums: dict[Any, float] = {}
    for things, weight in parts:
        for thing in things:
            sums[thing] = sums.get(thing, 0.0) + weight
    largest = max(sums.values(), default=1.0)
    return {thing: total / largest for thing, total in sums.items()}


def _features(
    graph: Graph, drawn: list[int], names: Sequence[str] | None = None
) -> list[tuple[tuple[str, float], ...]]:
    """Choose features of each node to show: the first categories, the largest counts, or the numbers farthest from the
    mean of the drawn nodes, in standard deviations.
    """
    if graph.x is None or not drawn or not graph.x.shape[1]:
        return [()] * len(drawn)
    rows = graph.x[np.array(drawn)]
    if sp.issparse(rows) or _are_counts(rows):
        chosen = _largest(sp.csr_array(rows))
    elif np.issubdtype(rows.dtype, np.integer):
        chosen = [(np.arange(len(row)), row) for row in rows[:, :_MOST_FEATURES]]
    else:
        with np.errstate(invalid="ignore"):  # what is not finite is not shown
            spread = rows.std(axis=0)
            score = np.abs(rows - rows.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
        order = np.argsort(-score, axis=1, kind="stable")[:, :_MOST_FEATURES]
        chosen = list(zip(order, np.take_along_axis(rows, order, axis=1), strict=True))
    titles = names or [f"column {c}" for c in range(graph.x.shape[1])]
    return [
        tuple((titles[c], float(f"{v:.4g}")) for c, v in zip(*some, strict=True) if np.isfinite(v)) for some in chosen
    ]


def _are_counts(rows: NDArray) -> bool:
    """Return whether numbers are counts, most of which are 0."""
    counts = np.issubdtype(rows.dtype, np.floating) and rows.min() >= 0
    return bool(counts and (2 * np.count_nonzero(rows) <= rows.size or np.isin(rows, (0, 1)).all()))


def _largest(rows: sp.csr_array) -> list[tuple[NDArray, NDArray]]:
    """Return columns and values of the largest entries of each row; of equal ones, those rarer in other rows."""
    common, chosen = rows.mean(axis=0), []
    for begin, end in pairwise(rows.indptr):
        columns, values = rows.indices[begin:end], rows.data[begin:end]
        order = np.lexsort((columns, common[columns], -np.abs(values)))[:_MOST_FEATURES]
        chosen.append((columns[order], values[order]))
    return chosen
