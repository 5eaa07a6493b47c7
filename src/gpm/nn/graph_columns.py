"""Columns of whole graphs: means over nodes, how far nodes differ, sizes and totals, and what comes with the graphs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from gpm.graph.graph import Graph

SPREAD, SIZE, DESCRIPTORS = "spread", "size", "descriptors"  # names of groups
SIZES = (
    "number of nodes (log)",
    "number of edges in both directions (log)",
)  # the first columns of the group `SIZE`, as log(1 + x)

Parts = list[tuple[str, NDArray]]


def describe_graphs(
    graph: Graph, nodes: Parts, descriptors: NDArray | None = None, wanted: Collection[str] = (), *,
    summed: str = "", spread: str = "",
) -> Parts:  # fmt: skip
    """Return groups of columns of each graph `[G, d]` from those of its nodes `[N, d]`.

    A graph without nodes has zeros.

    Args:
        graph: A collection, or one graph.
        nodes: Groups of columns of the nodes. Each becomes its mean. The group `SIZE` is added, with the logarithms of
            the numbers of nodes and edges.
        descriptors: Numbers that come with the graphs `[G, d]`, if there are some: the group `DESCRIPTORS`.
        wanted: Names of the groups to return; by default all.
        summed: Group of nodes whose sums are in `SIZE` too, as log(1 + x), with their sign.
        spread: Group of nodes whose standard deviations are the group `SPREAD`.
    """
    pointer = np.array([0, graph.num_nodes]) if graph.graph_ptr is None else np.asarray(graph.graph_ptr)
    counts = np.diff(pointer)[:, None]
    parts: Parts = []
    totals = [np.log1p(counts), np.log1p(np.diff(np.asarray(graph.indptr)[pointer]))[:, None]]
    for name, values in nodes:
        sums = _sum_by_graph(values, pointer)
        mean = sums / np.maximum(counts, 1)
        parts.append((name, mean))
        if name == summed:
            totals.append(np.sign(sums) * np.log1p(np.abs(sums)))
        if name == spread:
            apart = np.square(values - np.repeat(mean, counts[:, 0], 0))
            parts.append((SPREAD, np.sqrt(_sum_by_graph(apart, pointer) / np.maximum(counts, 1))))
    parts.append((SIZE, np.concatenate(totals, axis=1)))
    if descriptors is not None:
        parts.append((DESCRIPTORS, descriptors))
    return [(name, values.astype(np.float32)) for name, values in parts if not wanted or name in wanted]


def _sum_by_graph(values: NDArray, pointer: NDArray) -> NDArray[np.float64]:
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, 0, dtype=np.float64)])
    return np.asarray(sums[pointer[1:]] - sums[pointer[:-1]])
