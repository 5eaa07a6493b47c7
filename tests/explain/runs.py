"""Small trained runs of every kind, to explain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from gpm import Graph, Run, train
from gpm.data.synthetic import PlantedMotifs, planted_motifs

NODES = 40
EMPTY = 3  # the graph of the collection that has no nodes
SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 2, 4], "patterns": 6, "pool": 12, "batch": 16, "epochs": 2, "warmup": 2,
}  # fmt: skip


def train_small(source: Any, out: Path, **options: Any) -> Run:
    run = train(source, out=out, quiet=True, device="cpu", **SMALL | options)
    assert isinstance(run, Run)
    return run


def weighted_edges() -> tuple[NDArray, NDArray]:
    """Edges `[2, E]` in one direction with weights `[E]`; some are self-loops, and some come twice."""
    random = np.random.default_rng(0)
    edges = random.integers(0, NODES, (2, 90))
    edges = np.concatenate([edges, edges[:, :20], np.stack([np.arange(5)] * 2)], axis=1)
    return edges, random.choice([0.25, 0.5, 2.0], edges.shape[1])


def weighted_graph(**given: Any) -> Graph:
    """Those edges both ways, equal ones merged and self-loops dropped; classes 0, 10 and 20, and features that tell."""
    edges, weight = weighted_edges()
    y = 10 * (np.arange(NODES) % 3)
    x = np.eye(3)[np.arange(NODES) % 3] + np.random.default_rng(1).normal(0, 0.5, (NODES, 3))
    options: dict[str, Any] = {"x": x, "y": y, "edge_weight": weight, "undirected": True, "self_loops": "drop"}
    return Graph.from_edges(edges, NODES, **options | given)


def group_graph() -> Graph:
    """Three groups of nodes; most edges lie inside a group, which a node's features give away."""
    random = np.random.default_rng(0)
    group = np.arange(NODES) % 3
    one, two = np.triu_indices(NODES, 1)
    kept = random.random(len(one)) < np.where(group[one] == group[two], 0.4, 0.02)
    x = np.eye(3)[group] + random.normal(0, 0.3, (NODES, 3))
    return Graph.from_edges(np.stack([one[kept], two[kept]]), NODES, undirected=True, x=x)


def ring_graphs(y: NDArray | None = None) -> Graph:
    """Rings (class 1) and paths (class 0), with bonds of two kinds on their edges; one graph is empty."""
    sizes = np.random.default_rng(0).integers(4, 9, 30).tolist()
    parts = [nx.cycle_graph(n) if i % 2 else nx.path_graph(n) for i, n in enumerate(sizes)]
    parts[EMPTY] = nx.empty_graph(0)
    pointer = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    ends = [np.array(list(part.edges), dtype=np.int64).reshape(-1, 2) for part in parts]
    edges = np.concatenate([each + first for each, first in zip(ends, pointer, strict=False)]).T
    bonds = edges.sum(0)[:, None] % 2
    labels = np.arange(len(parts)) % 2 if y is None else y
    return Graph.from_edges(edges, int(pointer[-1]), undirected=True, graph_ptr=pointer, edge_attr=bonds, y=labels)


def train_houses(out: Path) -> tuple[Run, PlantedMotifs]:
    """A model that finds planted motifs by their shapes alone."""
    motifs = planted_motifs(12, 6, 30, 2)
    run = train_small(
        motifs.graph, out, width=16, lengths=[4, 8], patterns=12, pool=32, batch=32, epochs=14, warmup=5, lr=0.01,
        non_backtracking=True, features="constant", topology="shape", anonymous_weight=1.0, dropout=0.0, preset="plain",
    )  # fmt: skip
    return run, motifs
