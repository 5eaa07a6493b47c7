"""What a link task is made of: a graph, its edges in three parts with negatives, and the graph that may be walked.

Two protocols. `strict`: an undirected edge is one item, whichever way it is stored; validation and test edges are gone
from the walked graph in both directions; negatives are non-edges. `paper`: *directed* edges are split, the full graph
is walked and negatives are random pairs, as in the paper's public code; test edges are then visible in the walks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from gpm.data.catalog import CATALOG, spell
from gpm.data.graph_files import load_graph
from gpm.data.non_edges import FreePairs, draw_any, drop_edges, name_pairs, number_edges, number_pairs
from gpm.data.splits import PARTS, Split, random_split
from gpm.errors import GpmError, kind_of
from gpm.graph.coerce import check_choice
from gpm.graph.folder import HEADER
from gpm.graph.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

Protocol = Literal["strict", "paper"]
DEFAULT_SPLIT = "80/5/15"


@dataclass(frozen=True, eq=False)
class LinkSplit(Split):
    """The pairs of each part. Negatives of the training part are not among them: they are fresh in every step.

    Attributes:
        train: Rows of `pairs` that are training edges.
        val, test: Rows that are edges or negatives of the part.
        pairs: Nodes `[P, 2]`: training edges, then edges and negatives of val, then edges and negatives of test.
        labels: 1 for an edge, 0 for a negative `[P]`.
        protocol: "strict" or "paper".
        num_nodes: Of the graph.
    """

    pairs: NDArray[np.int64]
    labels: NDArray[np.int64]
    protocol: Protocol
    num_nodes: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("protocol", self.protocol, get_args(Protocol))
        for name, shape in (("pairs", (len(self.labels), 2)), ("labels", (len(self.pairs),))):
            array = np.array(getattr(self, name), dtype=np.int64)
            if array.shape != shape:
                raise GpmError(f"{name} of the split {self.name!r} must have shape {list(shape)}, got {array.shape}.")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if self.pairs.size and not 0 <= self.pairs.min() <= self.pairs.max() < self.num_nodes:
            raise GpmError(f"the split {self.name!r} pairs nodes that are not among 0 to {self.num_nodes - 1}.")
        if max((getattr(self, part)[-1] for part in PARTS if len(getattr(self, part))), default=-1) >= len(self.pairs):
            raise GpmError(f"the split {self.name!r} names a pair that it does not hold; make it again.")
        if not np.isin(self.labels, (0, 1)).all() or not self.labels[self.train].all():
            raise GpmError(f"labels of the split {self.name!r} must be 0 or 1, and 1 in the training part.")

    @classmethod
    def assemble(
        cls, edges: list[NDArray], negatives: list[NDArray], name: str, protocol: Protocol, num_nodes: int
    ) -> LinkSplit:
        """Make one of the edges `[_, 2]` of train, val and test and the negatives of val and test."""
        blocks = [edges[0], edges[1], negatives[0], edges[2], negatives[1]]
        sizes = [len(block) for block in blocks]
        labels = np.repeat([1, 1, 0, 1, 0], sizes)
        train, val, test = np.split(np.arange(len(labels)), np.cumsum(sizes)[[0, 2]])
        return cls(train, val, test, name, np.concatenate(blocks), labels, protocol, num_nodes)

    def edges_of(self, *parts: str) -> NDArray[np.int64]:
        """The edges `[_, 2]` of some parts."""
        return self._of(parts, 1)

    def negatives_of(self, *parts: str) -> NDArray[np.int64]:
        """The negatives `[_, 2]` of some parts; there are none of the training part."""
        return self._of(parts, 0)

    def _of(self, parts: tuple[str, ...], label: int) -> NDArray[np.int64]:
        ids = np.concatenate([getattr(self, part) for part in parts])
        chosen: NDArray[np.int64] = self.pairs[ids[self.labels[ids] == label]]
        return chosen

    def extras(self) -> dict[str, NDArray]:
        """The pairs, their labels and the protocol, for the file and the digest."""
        return {
            "pairs": self.pairs.astype("<i8"),
            "labels": self.labels.astype("<i8"),
            "protocol": np.array(self.protocol, dtype="<U6"),
            "num_nodes": np.array(self.num_nodes, dtype="<i8"),
        }


@dataclass(frozen=True, eq=False)
class LinkData:
    """A graph whose links are to be predicted.

    Attributes:
        graph: All edges, features in `graph.x`. With a published split: the training edges alone.
        title: Its name in print.
        split: The usual split: shares such as "80/5/15", or "public".
        metric: Such as "hits@20".
        published: The split that comes with the data; None if there is none.
        unseen: Of data that is not what a model was trained on: sentences on what was read as unknown.
    """

    graph: Graph
    title: str
    split: str = DEFAULT_SPLIT
    metric: str = "hits@20"
    published: LinkSplit | None = None
    unseen: tuple[str, ...] = ()
    level: ClassVar[str] = "link"

    def make_split(self, seed: int, kind: str = "", protocol: Protocol = "strict") -> LinkSplit:
        """The split of a seed: shares such as "80/5/15", or "public"; by default the usual one of this data."""
        check_choice("protocol", protocol, get_args(Protocol))
        kind = kind or self.split
        if self.published is not None:
            if (kind, protocol) != ("public", "strict"):
                raise GpmError(f"{self.title} comes with its own parts; leave split at public and protocol at strict.")
            return self.published
        if kind == "public":
            raise GpmError(f"{self.title} has no public split of links; ask for shares such as '{DEFAULT_SPLIT}'.")
        return (_split_strict if protocol == "strict" else _split_paper)(self, kind, seed)

    def walked(self, split: LinkSplit) -> Graph:
        """The graph that may be walked, positionally embedded and counted for degrees.

        Under `strict` it lacks the validation and test edges in both directions, whatever their multiplicity.
        """
        self._check(split)
        if split.protocol == "paper" or self.published is not None:
            return self.graph
        return drop_edges(self.graph, split.edges_of("val", "test"))

    def draw_negatives(self, split: LinkSplit, count: int, seed: int, turn: int) -> NDArray[np.int64]:
        """Training negatives `[count, 2]` of one step, a pure function of the seed and the turn.

        Under `strict` they are non-edges that are not among the saved negatives.
        """
        self._check(split)
        if split.protocol == "paper":
            return draw_any(split.num_nodes, count, seed, turn)
        return _find_free(self.graph, split).draw(count, seed, turn)

    def _check(self, split: LinkSplit) -> None:
        if split.num_nodes != self.graph.num_nodes:
            raise GpmError(
                f"the split {split.name!r} is of a graph with {split.num_nodes:,} nodes, {self.title} has "
                f"{self.graph.num_nodes:,}; make a split of this graph."
            )
        if self.published is not None and split is not self.published and split.digest != self.published.digest:
            raise GpmError(f"the split {split.name!r} is not the published one of {self.title}; make it again.")


def load_link_data(source: str | Path | Graph | Data) -> LinkData:
    """Load a graph to predict its links; it needs no labels.

    Args:
        source: A dataset's name, a saved graph's folder, an edge list, a PyG file (.pt), a PyG `Data`, or a `Graph`.
    """
    if isinstance(source, Graph):
        return _single(source, "graph")
    if not isinstance(source, (str, Path)):
        if not hasattr(source, "edge_index"):
            raise GpmError(f"give a dataset's name, a file, a PyG Data or a Graph, not a {kind_of(source)}.")
        return _single(Graph.from_pyg(source), "graph")
    path, entry = Path(source).expanduser(), CATALOG.get(spell(str(source)))
    if entry is None or path.is_file() or (path / HEADER).exists():
        return _single(load_graph(source), path.stem)
    if entry.loader not in ("ogb", "ogbl"):
        return _single(load_graph(source), entry.title)
    from gpm.data.ogb import load_ogb, load_ogb_links

    name = str(dict(entry.options)["name"])
    if entry.loader == "ogb":
        return _single(load_ogb(name)[0], entry.title)
    graph, split = load_ogb_links(name)
    return LinkData(graph, entry.title, entry.split, entry.metric, split)


def _split_strict(data: LinkData, kind: str, seed: int) -> LinkSplit:
    """Shares of the unordered pairs with an edge, and as many non-edges for val and test, all different."""
    numbers = number_edges(data.graph)
    parts = random_split(np.zeros(len(numbers)), kind, seed, what="links")
    edges = [name_pairs(numbers[getattr(parts, part)]) for part in PARTS]
    free, needed = FreePairs(data.graph.num_nodes, numbers), len(edges[1]) + len(edges[2])
    if free.size <= needed:  # at least one is left for training
        raise GpmError(
            f"{data.title} has {free.size:,} pairs of nodes without an edge, too few for {needed:,} negatives and "
            "training; a graph so dense is no link task."
        )
    negatives = np.split(free.sample(needed, seed), [len(edges[1])])
    name = f"strict {parts.name.removeprefix('random ')}"
    return LinkSplit.assemble(edges, negatives, name, "strict", data.graph.num_nodes)


def _split_paper(data: LinkData, kind: str, seed: int) -> LinkSplit:
    """Shares of the directed edges, and as many random pairs for val and test."""
    entries, count = data.graph.edge_index().T, data.graph.num_nodes
    parts = random_split(np.zeros(len(entries)), kind, seed, what="directed links")
    edges = [entries[getattr(parts, part)] for part in PARTS]
    random = np.random.Generator(np.random.PCG64([seed, 1]))  # not the stream that draws the parts
    negatives = [random.integers(0, count, (len(part), 2)) for part in edges[1:]]
    shares, _, of_seed = parts.name.removeprefix("random ").partition(", ")
    name = f"paper {shares} (directed edges, full graph walked: test edges are visible), {of_seed}"
    return LinkSplit.assemble(edges, negatives, name, "paper", count)


def _single(graph: Graph, title: str) -> LinkData:
    if graph.graph_ptr is not None:
        raise GpmError(
            f"{title} is a collection of {graph.num_graphs:,} graphs; links are predicted in a single graph."
        )
    return LinkData(graph, title)


@lru_cache(maxsize=2)
def _find_free(graph: Graph, split: LinkSplit) -> FreePairs:
    """The pairs that training negatives come from; sorting all edges is not for every step."""
    return FreePairs(split.num_nodes, np.concatenate([number_edges(graph), number_pairs(split.pairs)]))
