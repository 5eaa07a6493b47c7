"""Copies of the graphs of a collection with their nodes in another order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpm.graph.graph import Graph


def copy_graphs(graph: Graph, ids: NDArray, seed: int) -> Graph:
    """Return graphs of a collection, each with its nodes in random order; a graph may be listed several times.

    Args:
        graph: A collection without node names.
        ids: Graphs `[G]`.
        seed: Seed of the orders, which differ between copies.
    """
    assert graph.graph_ptr is not None
    pointer, random = np.asarray(graph.graph_ptr), np.random.Generator(np.random.PCG64(seed))
    sizes = np.diff(pointer)[ids]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    owner = np.repeat(np.arange(len(ids)), sizes)
    shuffled = np.lexsort((random.random(len(owner)), owner))  # position of a copy -> another of the same copy
    old = (pointer[ids] - ends[:-1])[owner] + shuffled  # node that each node of the copies is
    new = np.empty_like(shuffled)
    new[shuffled] = np.arange(len(shuffled))

    degrees = graph.degree()[old]
    source = np.repeat(np.arange(len(old)), degrees)
    entry = np.arange(len(source)) - np.repeat(np.cumsum(degrees) - degrees, degrees)
    entry += graph.indptr[old[source]]
    target = new[graph.indices[entry] + (ends[:-1] - pointer[ids])[owner[source]]]
    rows = entry if graph.edge_ids is None else graph.edge_ids[entry]
    return Graph.from_edges(
        np.stack([source, target]), len(old), graph_ptr=ends, duplicates="keep",
        x=None if graph.x is None else graph.x[old], y=None if graph.y is None else graph.y[ids],
        edge_attr=None if graph.edge_attr is None else graph.edge_attr[rows],
        edge_weight=None if graph.edge_weight is None else graph.edge_weight[entry],
    )  # fmt: skip
