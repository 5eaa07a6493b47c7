"""Link data: a graph, its edges in three parts with negatives, and the graph that may be walked.

There are two protocols. `strict`: an undirected edge is one item, whichever way it is stored; validation and test edges
are removed from the walked graph in both directions; negatives are non-edges. `paper`: *directed* edges are split, the
full graph is walked and negatives are random pairs, as in the paper's public code; test edges are then visible in the
walks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from gpm.data.bipartite import choose_sides
from gpm.data.catalog import find_named
from gpm.data.graph_files import graph_of, load_graph
from gpm.data.non_edges import (
    FreePairs,
    contains,
    distinct,
    draw_any,
    drop_edges,
    name_pairs,
    number_edges,
    number_pairs,
)
from gpm.data.ogb import load_ogb, load_ogb_links
from gpm.data.splits import OWN, PARTS, Protocol, Split, random_split
from gpm.data.splits import LinkSplit as LinkSplit  # where others look for it
from gpm.data.tables.inputs import title_of
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.coerce import check_choice
from gpm.graph.find import find_nodes
from gpm.graph.graph import Graph

if TYPE_CHECKING:
    from torch_geometric.data import Data

DEFAULT_SPLIT = "80/5/15"


@dataclass(frozen=True, eq=False)
class LinkData(TaskData):
    """A graph whose links are predicted; the instances are pairs of nodes."""

    split: str = DEFAULT_SPLIT
    metric: str = "hits@20"
    published: LinkSplit | None = field(default=None, kw_only=True)  # with it, the graph has the training edges only
    held_out: NDArray | None = field(default=None, kw_only=True)  # edges of the user's own split: ends, 1 or 2 `[_, 3]`
    negatives: NDArray | None = field(default=None, kw_only=True)  # likewise, with 3 for either; None draws some
    bipartite: str = field(default="auto", kw_only=True)  # draw non-edges between two sides: yes, no, or if it has some
    level: ClassVar[str] = "link"

    def make_split(
        self, seed: int, kind: str = "", *, protocol: Protocol = "strict", validate: str = "source"
    ) -> LinkSplit:
        """Draw the split of a seed, see `TaskData.make_split`."""
        split = super().make_split(seed, kind, protocol=protocol, validate=validate)
        assert isinstance(split, LinkSplit)
        return split

    def _draw_split(self, seed: int, kind: str, protocol: Protocol, validate: str) -> LinkSplit:
        check_choice("protocol", protocol, get_args(Protocol))
        kind = kind or self.split
        if self.published is not None:
            if kind not in OWN or protocol != "strict":
                raise GpmError(f"{self.title} has a published split; leave split at public and protocol at strict.")
            return self.published
        if kind in OWN and self.held_out is None:
            raise GpmError(f"{self.title} has no {kind} split of links; ask for shares such as '{DEFAULT_SPLIT}'.")
        if protocol == "paper" and (kind in OWN or self.negatives is not None):
            raise GpmError(
                f"{self.title} has its own split or negatives, which protocol paper does not read; leave it out."
            )
        return (_split_strict if protocol == "strict" else _split_paper)(self, kind, seed)

    def walked_graph(self, split: Split) -> Graph:
        """Return the graph that may be walked, positionally embedded and counted for degrees.

        Under `strict` it lacks the validation and test edges in both directions, parallel edges included.
        """
        assert isinstance(split, LinkSplit)
        self._check(split)
        if split.protocol == "paper" or self.published is not None:
            return self.graph
        return drop_edges(self.graph, split.edges_of("val", "test"))

    def find_instances(self, names: Any = None) -> NDArray[np.int64]:
        """Return pairs of nodes `[B, 2]` by the names of their ends."""
        if names is None:
            raise GpmError("Say which pairs of nodes to score; run.recommend lists likely new neighbours.")
        pairs = list(names)
        if any(isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2 for pair in pairs):
            raise GpmError("A link has two ends; name two nodes, as in --link A B.")
        return find_nodes(self.graph, [end for pair in pairs for end in pair]).reshape(-1, 2)

    def name_instances(self, ids: NDArray) -> dict[str, list[Any]]:
        """Return the columns that name pairs of nodes `[B, 2]`."""
        return {side: [*self.graph.names_of(ids[:, at])] for at, side in enumerate(("source", "target"))}

    def draw_negatives(self, split: LinkSplit, count: int, seed: int, turn: int) -> NDArray[np.int64]:
        """Training negatives `[count, 2]` of one step, a pure function of the seed and the turn.

        Under `strict` they are non-edges that are not among the saved negatives. They join the sides of a bipartite
        graph.
        """
        self._check(split)
        if split.protocol == "paper":
            return draw_any(split.num_nodes, count, seed, turn)
        return _find_free(self.graph, split).draw(count, seed, turn)

    def _check(self, split: LinkSplit) -> None:
        if split.num_nodes != self.graph.num_nodes:
            raise GpmError(
                f"The split {split.name!r} is of a graph with {split.num_nodes:,} nodes, {self.title} has "
                f"{self.graph.num_nodes:,}; make a split of this graph."
            )
        if self.published is not None and split is not self.published and split.digest != self.published.digest:
            raise GpmError(f"The split {split.name!r} is not the published one of {self.title}; make it again.")


def load_link_data(source: str | Path | Graph | Data) -> LinkData:
    """Load a graph, named or given as for `load_node_data` or as an edge list, to predict links; it needs no labels."""
    if not isinstance(source, (str, Path)):
        return _single(graph_of(source), "graph")
    if (entry := find_named(source)) is None:
        return _single(load_graph(source), title_of(Path(source)))
    if entry.loader == "ogbl":
        graph, split = load_ogb_links(entry.option("name"))
        return LinkData(graph, entry.title, entry.split, entry.metric, published=split)
    graph = load_ogb(entry.option("name"))[0] if entry.loader == "ogb" else load_graph(source)
    data = _single(graph, entry.title)
    return replace(data, split=entry.split, metric=entry.metric) if entry.task == "link" else data


def _split_strict(data: LinkData, kind: str, seed: int) -> LinkSplit:
    """Shares of the unordered pairs with an edge, or the user's own split, with negatives of val and test."""
    numbers = number_edges(data.graph)
    if data.held_out is not None and kind in OWN:
        held = [distinct(number_pairs(data.held_out[data.held_out[:, 2] == part, :2])) for part in (1, 2)]
        edges = [name_pairs(each) for each in (numbers[~contains(distinct(np.concatenate(held)), numbers)], *held)]
        name = f"given, seed {seed}"  # of the negatives
    else:
        parts = random_split(np.zeros(len(numbers)), kind, seed, what="links")
        edges, name = [name_pairs(numbers[getattr(parts, part)]) for part in PARTS], parts.name.removeprefix("random ")
    sides = choose_sides(data.graph, data.bipartite, data.title)
    name = f"strict {name}{'' if sides is None else ', bipartite'}"
    if data.negatives is not None:
        negatives, name = _divide_negatives(data, data.negatives, numbers, edges, seed), f"{name}, given negatives"
    else:
        negatives = _draw_negatives(data, FreePairs(data.graph.num_nodes, numbers, sides), edges, seed)
    return LinkSplit.assemble(edges, negatives, name, "strict", data.graph.num_nodes, sides)


def _draw_negatives(data: LinkData, free: FreePairs, edges: list[NDArray], seed: int) -> list[NDArray]:
    """Draw as many non-edges as edges for val and test, all different."""
    needed = len(edges[1]) + len(edges[2])
    if free.size <= needed:  # at least one is left for training
        raise GpmError(
            f"{data.title} has {free.size:,} pairs of nodes without an edge, too few for {needed:,} negatives and "
            "training; the graph is too dense for link prediction."
        )
    return np.split(free.sample(needed, seed), [len(edges[1])])


def _divide_negatives(
    data: LinkData, given: NDArray, numbers: NDArray[np.int64], edges: list[NDArray], seed: int
) -> list[NDArray]:
    """Return the user's negatives of val and test; those for either are divided as the edges are."""
    pairs = number_pairs(given[:, :2])
    if (wrong := np.flatnonzero(contains(numbers, pairs))).size:
        ends = " and ".join(str(data.graph.name(int(end))) for end in given[wrong[0], :2])
        raise GpmError(f"{ends} are given as a negative of {data.title}, but have an edge; leave the pair out.")
    val, test, either = (distinct(pairs[given[:, 2] == part]) for part in (1, 2, 3))
    random = np.random.Generator(np.random.PCG64([seed, 1]))
    first = round(len(either) * len(edges[1]) / (len(edges[1]) + len(edges[2])))
    more = np.split(random.permutation(either), [first])
    parts = [np.concatenate([val, more[0]]), np.concatenate([test, more[1]])]
    if not min(map(len, parts)) or np.isin(parts[0], parts[1]).any():
        raise GpmError(f"The negatives of {data.title} must be at least two different pairs, each in one split.")
    return [name_pairs(part) for part in parts]


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
    taken = np.concatenate([number_edges(graph), number_pairs(split.pairs)])
    return FreePairs(split.num_nodes, taken, split.sides)
