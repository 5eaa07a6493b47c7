"""Graphs whose answer is known: motifs planted in a random graph, which only structure tells apart; and pure chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError, whole_number
from gpm.graph.graph import Graph


@dataclass(frozen=True)
class Motif:
    """A small graph to plant: its edges, and the class of each of its nodes."""

    edges: tuple[tuple[int, int], ...]
    classes: tuple[int, ...]


def _cycle(length: int, label: int) -> Motif:
    return Motif(tuple((i, (i + 1) % length) for i in range(length)), (label,) * length)


# A decoy has the degrees of what it stands beside: the complete bipartite graph those of the house (3 3 2 2 2), a
# square and an octagon together those of two six-cycles.
MOTIFS = {
    "house": Motif(((0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 4)), (1, 2, 2, 3, 3)),
    "bipartite decoy": Motif(tuple((a, b) for a in (0, 1) for b in (2, 3, 4)), (5,) * 5),
    "six-cycle": _cycle(6, 4),
    "square decoy": _cycle(4, 5),
    "octagon decoy": _cycle(8, 5),
}


@dataclass(frozen=True, eq=False)
class PlantedMotifs:
    """A graph with planted motifs, and where they are.

    Attributes:
        graph: Labels in `graph.y` are indices of the classes in the catalog; features are noise.
        motif: The number of the motif that a node belongs to `[N]`; -1 for the base.
        kinds: The kind of each motif, a key of `MOTIFS`.
    """

    graph: Graph
    motif: NDArray[np.int64]
    kinds: tuple[str, ...]

    def motif_edges(self) -> NDArray[np.int64]:
        """The edges inside motifs `[2, E]`, in both directions: what a good explanation points at."""
        edges = self.graph.edge_index()
        owner = self.motif[edges]
        inside: NDArray[np.int64] = edges[:, (owner[0] == owner[1]) & (owner[0] >= 0)]
        return inside


def planted_motifs(
    num_houses: int = 80, num_cycles: int = 60, base_nodes: int = 600, num_features: int = 8, seed: int = 0
) -> PlantedMotifs:
    """Plant houses, six-cycles and as many decoys of the same degrees in a random graph; their nodes are the classes.

    The base grows by preferential attachment, two edges per node. Each motif hangs on it by one edge between random
    ends. Node numbers are shuffled and features are drawn from a normal distribution, so that neither says anything
    about the class.

    Args:
        num_houses: Houses, and bipartite decoys: nodes of classes 1 to 3, and of class 5.
        num_cycles: Six-cycles (class 4), an even number; half as many squares and octagons (class 5).
        base_nodes: Nodes of class 0, at least 3.
        num_features: Columns of noise.
        seed: Of NumPy's PCG64.
    """
    _check(num_houses, num_cycles, base_nodes)
    random = np.random.Generator(np.random.PCG64(seed))
    kinds = ("house", "bipartite decoy") * num_houses + ("six-cycle",) * num_cycles
    kinds += ("square decoy", "octagon decoy") * (num_cycles // 2)
    edges, labels, motif = [grow_base(base_nodes, random)], [0] * base_nodes, [-1] * base_nodes
    for number, kind in enumerate(kinds):
        planted, first = MOTIFS[kind], len(labels)
        edges.append(np.array(planted.edges) + first)
        edges.append(np.array([[first + random.integers(len(planted.classes)), random.integers(base_nodes)]]))
        labels += planted.classes
        motif += [number] * len(planted.classes)
    place = random.permutation(len(labels))
    order = np.argsort(place)
    graph = Graph.from_edges(
        place[np.concatenate(edges)].T, len(labels), undirected=True, y=np.array(labels, dtype=np.int64)[order],
        x=random.standard_normal((len(labels), num_features)).astype(np.float32),
    )  # fmt: skip
    return PlantedMotifs(graph, np.array(motif, dtype=np.int64)[order], kinds)


def grow_base(num_nodes: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Edges `[E, 2]` of a graph that grows from a triangle: each new node joins two others, mostly well-joined ones."""
    edges = [(0, 1), (0, 2), (1, 2)]
    ends = [0, 1, 0, 2, 1, 2]  # every node as often as it has edges
    for node in range(3, num_nodes):
        chosen: set[int] = set()
        while len(chosen) < 2:
            chosen.add(ends[random.integers(len(ends))])
        for other in sorted(chosen):
            edges.append((node, other))
            ends += (node, other)
    return np.array(edges, dtype=np.int64)


def _check(num_houses: int, num_cycles: int, base_nodes: int) -> None:
    for name, value, least in (
        ("num_houses", num_houses, 0),
        ("num_cycles", num_cycles, 0),
        ("base_nodes", base_nodes, 3),
    ):
        if whole_number(value, name) < least:
            raise GpmError(f"{name} must be at least {least}, got {value}.")
    if num_cycles % 2:
        raise GpmError(f"num_cycles must be even, got {num_cycles}: a square and an octagon stand beside two cycles.")


def random_graph(nodes: int = 2000, edges: int = 10_000, features: int = 16, seed: int = 0) -> Graph:
    """A graph in which nothing can be predicted: edges between nodes drawn at random, features drawn at random.

    Whatever finds its held-out links better than by chance has seen them.
    """
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes, (2, edges))
    pairs = pairs[:, pairs[0] != pairs[1]]
    return Graph.from_edges(pairs, nodes, x=rng.standard_normal((nodes, features), dtype=np.float32), undirected=True)


def shifted_pair(shift: float = 4.0, nodes: int = 2000, seed: int = 0) -> tuple[Graph, Graph]:
    """A source and a target that differ by one known thing: half of the target's features are moved by a constant.

    Both have random edges, four classes at random, and two blocks of features that tell the classes: a faint one that
    is the same in both, and a clear one, to which in the target `shift` is added along one direction. A model that
    learns from the source alone goes by the clear block, and is led astray by it in the target; one that learns not to
    see what tells the domains apart is left with the faint one.

    Args:
        shift: Length of the move, in standard deviations of the noise; 0 for no shift.
        nodes: Of each graph.
        seed: Of NumPy's PCG64.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    faint, clear = 1.6 * _corners(random), 2.2 * _corners(random)
    move = clear[0] - clear[1]  # towards another class
    move *= shift / np.linalg.norm(move)
    found = []
    for offset in (np.zeros_like(move), move):
        y = random.integers(0, 4, nodes)
        pairs = random.integers(0, nodes, (2, 3 * nodes))
        noise = random.standard_normal((nodes, 16))
        x = noise + np.concatenate([faint[y], clear[y] + offset], axis=1)
        pairs = pairs[:, pairs[0] != pairs[1]]
        found.append(Graph.from_edges(pairs, nodes, x=x.astype(np.float32), y=y, undirected=True))
    return found[0], found[1]


def _corners(random: np.random.Generator) -> NDArray:
    """Four directions at right angles to each other, of length 1, in eight dimensions."""
    return np.asarray(np.linalg.qr(random.standard_normal((8, 4)))[0].T)
