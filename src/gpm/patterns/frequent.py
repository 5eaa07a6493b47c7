"""The most frequent patterns of a graph, or around one of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpm.config import Kind
from gpm.errors import GpmError, kind_of, whole_number
from gpm.graph.graph import Graph
from gpm.graph.names import join_names
from gpm.patterns.shape_names import name_shape, shape_of
from gpm.patterns.tokenizer import Tokenizer
from gpm.patterns.walks import WalkRule

MOST_SAMPLES = 100_000_000


@dataclass(frozen=True)
class FrequentPattern:
    """A topology, how often it was drawn, and an example."""

    name: str  # of the shape, or its size if it has no name
    key: int  # the same in every graph
    count: int  # drawn patterns with this topology
    share: float  # the same as a share of all drawn patterns
    adjacency: NDArray[np.bool_]  # (n, n)
    example: tuple[int | str, ...]  # a walk with this topology, in the user's node names
    code: tuple[int, ...] | None  # the anonymous walk, for `loops` and `induced`

    @property
    def label(self) -> str:
        """The name and, for topologies with an order, the anonymous walk: one name may have several."""
        return f"{self.name} {self.walk}".rstrip()

    @property
    def walk(self) -> str:
        """The anonymous walk as text, as in 0-1-2-0; empty without an order."""
        return "" if self.code is None else "-".join(map(str, self.code))

    @property
    def path(self) -> str:
        """The example as text: node names joined by dashes, or by arrows if a name contains a dash."""
        return join_names(self.example)


def find_frequent(
    graph: Graph,
    *,
    node: object = None,
    top: int = 10,
    topology: Kind = "shape",
    lengths: Sequence[int] = (2, 4, 6, 8),
    samples: int = 20_000,
    seed: int = 0,
    rule: WalkRule = WalkRule(),
) -> list[FrequentPattern]:
    """Draw patterns and count their topologies.

    Args:
        graph: The graph; a collection is sampled as a whole.
        node: Name of the node to start from; by default start nodes are drawn uniformly.
        top: Number of topologies to return, the most frequent first.
        topology: Kind of topology to count: `loops`, `induced` or `shape`.
        lengths: Lengths of the walks, in equal numbers.
        samples: Number of patterns to draw.
        seed: Random seed; the same seed gives the same counts.
        rule: The law of a step.
    """
    if not isinstance(graph, Graph):
        raise GpmError(f"Give a gpm Graph, not a {kind_of(graph)}; Graph.from_pyg or Graph.from_networkx makes one.")
    if graph.num_nodes == 0:
        raise GpmError("The graph has no nodes, so it has no patterns.")
    if whole_number(top, "top") < 1:
        raise GpmError(f"top must be at least 1, got {top}.")
    if not len(lengths) <= whole_number(samples, "samples") <= MOST_SAMPLES:
        raise GpmError(
            f"samples must lie between the number of lengths ({len(lengths)}) and {MOST_SAMPLES:,}, got {samples}."
        )
    whole = Graph(indptr=graph.indptr, indices=graph.indices, census=graph.census, edge_cdf=graph.edge_cdf)
    tokenizer = Tokenizer(whole, lengths=lengths, pool=samples, topology=topology, seed=seed, rule=rule)
    patterns = tokenizer.graphs([0]) if node is None else tokenizer.nodes([graph.find(node)])
    indices, table, walks = patterns.topology[0].numpy(), patterns.table, patterns.nodes[0].numpy()
    counts = np.bincount(indices, minlength=len(table))
    order = np.lexsort((table.keys, -counts))[:top]  # ties by key, so that the order is stable
    first = np.unique(indices, return_index=True)[1]
    shapes = {index: shape_of(table, index) for index in order.tolist()}
    return [
        FrequentPattern(
            name=name_shape(adjacency),
            key=int(table.keys[index]),
            count=int(counts[index]),
            share=float(counts[index] / len(indices)),
            adjacency=adjacency,
            example=tuple(graph.name(v) for v in walks[first[index]] if v >= 0),
            code=None if table.codes is None else tuple(int(c) for c in table.codes[index] if c >= 0),
        )
        for index, adjacency in shapes.items()
    ]
