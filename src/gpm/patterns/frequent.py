"""The most frequent patterns of a graph, or around one of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.data.graph_files import load_graph
from gpm.errors import GpmError, kind_of, whole_number
from gpm.graph.graph import Graph
from gpm.graph.names import join_names
from gpm.patterns.shape_names import name_shape, shape_of
from gpm.patterns.tokenizer import Tokenizer
from gpm.patterns.topologies import Kind
from gpm.patterns.walks import WalkRule

MOST_SAMPLES = 100_000_000


@dataclass(frozen=True)
class FrequentPattern:
    """A topology, how often it was drawn, and an example.

    Attributes:
        name: Name of the shape, or its size if it has no name.
        key: Key of the topology, the same in every graph.
        count: Number of drawn patterns with this topology.
        share: The same as a share of all drawn patterns.
        adjacency: Adjacency matrix `[n, n]`.
        example: A walk with this topology, in the user's node names.
        code: The anonymous walk, for `loops` and `induced`; else None.
    """

    name: str
    key: int
    count: int
    share: float
    adjacency: NDArray[np.bool_]
    example: tuple[int | str, ...]
    code: tuple[int, ...] | None

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


def patterns(
    graph: str,
    node: str = "",
    top: int = 10,
    out: Path | None = None,
    topology: Kind = "shape",
    lengths: list[int] = [2, 4, 6, 8],  # noqa: B006 - the command line shows this default
    samples: int = 20_000,
    seed: int = 0,
    p: float = 1.0,
    q: float = 1.0,
    non_backtracking: bool = False,
    directed: bool = False,
) -> None:
    """Show the most frequent patterns of a graph, or around one node, and draw them.

    Args:
        graph: A dataset's name (karate, cora, ...), a saved graph's folder, an edge list (.csv, .tsv, .txt) or a PyG
            file (.pt).
        node: Name of a node to start from; by default start nodes are drawn from the whole graph.
        top: How many patterns to show.
        out: Where to draw them: a .png, .svg, .pdf or .html file, or a .csv table.
        topology: What counts as the same pattern: loops (revisits), induced (adjacency in order) or shape (order-free).
        lengths: Lengths of the walks, in equal numbers.
        samples: How many walks to draw.
        seed: The same seed gives the same counts.
        p: node2vec's return parameter.
        q: node2vec's in-out parameter.
        non_backtracking: Walks turn back only at dead ends.
        directed: Read an edge list as directed.
    """
    from gpm.patterns.draw_shapes import check_target, save_frequent

    if out is not None:
        check_target(out, top)
        if out.exists() and Path(graph).exists() and out.samefile(graph):
            raise GpmError(f"{out} is the graph itself; draw to another file.")
    loaded = load_graph(graph, directed=directed)
    print(f"{graph}: {loaded.summary()}")
    found = find_frequent(
        loaded, node=node or None, top=top, topology=topology, lengths=lengths, samples=samples, seed=seed,
        rule=WalkRule(p=p, q=q, non_backtracking=non_backtracking),
    )  # fmt: skip
    place = f"around node {node}" if node else "over the whole graph"
    title = f"{samples:,} patterns {place}, seed {seed}"
    print(f"{title}; the {len(found)} most frequent by {topology}:")
    width = max(len(f.label) for f in found)
    for rank, f in enumerate(found, 1):
        print(f"{rank:>4}  {f.label:<{width}}  {f.count:>7,}  {f.share:>6.1%}  e.g. {f.path}")
    if out is not None:
        save_frequent(found, out, title=f"{graph}: {title}")
        print(f"drawn in {out}")
