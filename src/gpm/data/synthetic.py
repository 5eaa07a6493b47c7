"""Graphs with a known answer: motifs and fraud planted in random graphs, trees with a message, noise."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError, whole_number
from gpm.graph.graph import Graph
from gpm.io.table_files import write_table

MOST_TREES, TREE_DRAWS = 32_000, 1000  # trees in all, and arrangements of values, as published
FRAUD = ("ok", "fraud")  # names of the classes of `planted_fraud`
# Columns of an account: the mean, the standard deviation, the number of digits, and the sign of its part in the risk.
ACCOUNT = {
    "age_months": (60.0, 15.0, 1, -1), "mean_amount": (180.0, 40.0, 2, 1), "shared_devices": (9.0, 2.0, 0, 1),
    "logins_per_week": (14.0, 4.0, 1, 0), "balance": (5200.0, 1500.0, 2, 0),
}  # fmt: skip
_OWN_RISK, _TILT = 0.3, 0.5  # how far fraud shows in an account's own columns, and in the choice of counterparties


@dataclass(frozen=True)
class Motif:
    """A small graph to plant: its edges, and the class of each of its nodes."""

    edges: tuple[tuple[int, int], ...]
    classes: tuple[int, ...]


def _cycle(length: int, label: int) -> Motif:
    return Motif(tuple((i, (i + 1) % length) for i in range(length)), (label,) * length)


# A decoy has the degrees of its motif: the complete bipartite graph those of the house (3 3 2 2 2), a square and an
# octagon together those of two six-cycles.
MOTIFS = {
    "house": Motif(((0, 1), (0, 2), (1, 2), (1, 3), (2, 4), (3, 4)), (1, 2, 2, 3, 3)),
    "bipartite decoy": Motif(tuple((a, b) for a in (0, 1) for b in (2, 3, 4)), (5,) * 5),
    "six-cycle": _cycle(6, 4),
    "square decoy": _cycle(4, 5),
    "octagon decoy": _cycle(8, 5),
}


@dataclass(frozen=True, eq=False)
class PlantedMotifs:
    """A graph with planted motifs, and where they are."""

    graph: Graph  # labels in `graph.y` are indices of the classes in the catalog; features are noise
    motif: NDArray[np.int64]  # index of the motif that a node belongs to `[N]`; -1 for the base
    kinds: tuple[str, ...]  # the kind of each motif, a key of `MOTIFS`

    def motif_edges(self) -> NDArray[np.int64]:
        """Return the edges inside motifs `[2, E]`, in both directions: a good explanation points at these."""
        edges = self.graph.edge_index()
        owner = self.motif[edges]
        inside: NDArray[np.int64] = edges[:, (owner[0] == owner[1]) & (owner[0] >= 0)]
        return inside


def planted_motifs(
    num_houses: int = 80, num_cycles: int = 60, base_nodes: int = 600, num_features: int = 8, seed: int = 0
) -> PlantedMotifs:
    """Plant houses, six-cycles and as many decoys of the same degrees in a random graph; their nodes are the classes.

    The base grows by preferential attachment, two edges per node. Each motif is joined to it by one edge between random
    ends. Node ids are shuffled and features are normal noise, so that neither predicts the class.

    Args:
        num_houses: Houses, and bipartite decoys: nodes of classes 1 to 3, and of class 5.
        num_cycles: Six-cycles (class 4), an even number; half as many squares and octagons (class 5).
        base_nodes: Nodes of class 0, at least 3.
        num_features: Columns of noise.
        seed: Seed of NumPy's PCG64.
    """
    bounds = (("num_houses", num_houses, 0), ("num_cycles", num_cycles, 0), ("base_nodes", base_nodes, 3))
    for name, value, least in bounds:
        if whole_number(value, name) < least:
            raise GpmError(f"{name} must be at least {least}, got {value}.")
    if num_cycles % 2:
        raise GpmError(f"num_cycles must be even, got {num_cycles}: a square and an octagon stand beside two cycles.")
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
    ids = random.permutation(len(labels))
    order = np.argsort(ids)
    graph = Graph.from_edges(
        ids[np.concatenate(edges)].T, len(labels), undirected=True, y=np.array(labels, dtype=np.int64)[order],
        x=random.standard_normal((len(labels), num_features)).astype(np.float32),
    )  # fmt: skip
    return PlantedMotifs(graph, np.array(motif, dtype=np.int64)[order], kinds)


def grow_base(num_nodes: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return edges `[E, 2]` of a graph grown from a triangle: each new node joins two others, by their degree."""
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


def planted_fraud(num_accounts: int = 8000, share: float = 0.01, seed: int = 0) -> Graph:
    """Plant a few fraudulent accounts in a random graph of transfers; class 1 is fraud.

    The own columns of such an account are hardly unusual. Its counterparties are: they are younger, move larger amounts
    and share more devices than those of others, as the accounts that fraud is passed through do. Means over neighbours
    therefore tell what the account itself does not. Accounts have about the same number of transfers in both classes,
    and names that say nothing.

    Args:
        num_accounts: Nodes, at least 100.
        share: Share of fraudulent accounts, between 0 and a half.
        seed: Seed of NumPy's PCG64.
    """
    if whole_number(num_accounts, "num_accounts") < 100:
        raise GpmError(f"num_accounts must be at least 100, got {num_accounts}.")
    if not 0 < share <= 0.5:
        raise GpmError(f"share must lie between 0 and 0.5, got {share}.")
    random = np.random.Generator(np.random.PCG64(seed))
    middle, spread, digits, sign = (np.array(each) for each in zip(*ACCOUNT.values(), strict=True))
    unusual = random.standard_normal((num_accounts, len(ACCOUNT)))
    y = np.zeros(num_accounts, dtype=np.int64)
    # Drawn after other numbers: the first permutation of a seed is also that of its split.
    y[random.permutation(num_accounts)[: max(1, round(share * num_accounts))]] = 1
    unusual += _OWN_RISK * np.outer(y, sign)
    usual = np.flatnonzero(y == 0)  # fraud is not passed on directly
    tilted = np.exp(_TILT * (unusual @ sign)[usual])
    counts = np.where(y == 1, 4 + random.poisson(6, num_accounts), 1 + random.poisson(4, num_accounts))
    source = np.repeat(np.arange(num_accounts), counts)
    target = random.choice(usual, len(source))
    passed = y[source] == 1
    target[passed] = random.choice(usual, int(passed.sum()), p=tilted / tilted.sum())
    x = np.stack([np.round(middle[i] + spread[i] * unusual[:, i], digits[i]) for i in range(len(ACCOUNT))], 1)
    pairs = np.stack([source, target])[:, source != target]
    names = [f"a{number:05d}" for number in range(num_accounts)]
    return Graph.from_edges(pairs, num_accounts, x=x.astype(np.float32), y=y, names=names, undirected=True)


def write_fraud(folder: Path, num_accounts: int = 8000, share: float = 0.01, seed: int = 0) -> tuple[Path, Path]:
    """Write `planted_fraud` as a user would have it: transfers in `edges.csv`, accounts with a label in `nodes.csv`."""
    graph = planted_fraud(num_accounts, share, seed)
    assert isinstance(graph.x, np.ndarray)
    assert graph.y is not None
    names = list(graph.names_of(np.arange(num_accounts)))
    source, target = (ends for ends in graph.edge_index())
    once = source < target
    folder.mkdir(parents=True, exist_ok=True)
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    write_table(edges, {"source": [names[i] for i in source[once]], "target": [names[i] for i in target[once]]})
    columns = {column: graph.x[:, i] for i, column in enumerate(ACCOUNT)}
    write_table(nodes, {"account": names} | columns | {"label": [FRAUD[label] for label in graph.y]})
    return edges, nodes


def count_trees(depth: int) -> int:
    """Return the number of trees of `neighbour_trees`: as published, at most 32,000."""
    leaves = int(2**depth)
    return leaves * min(TREE_DRAWS, math.factorial(leaves), max(1, MOST_TREES // leaves))


def neighbour_trees(depth: int, seed: int = 0) -> Graph:
    """Make the trees of TreeNeighborsMatching, in which the root is to have the value of the leaf with its key.

    In a complete binary tree of depth r each of the 2^r leaves has a key, its number from 1 on, and a value, a number
    from 1 to 2^r of its own. The root has one of the keys. Its class is the value of the leaf with that key, from 0 on;
    other nodes have no label. For each of up to 1,000 arrangements of the values there is one tree per key.

    The label of a root depends on 2^r nodes at distance r. Message passing has to press them into one vector.

    Args:
        depth: r, 1 to 7.
        seed: Seed of the arrangements.

    Returns:
        All trees as one graph; a node has two categories, key and value, 0 where it has none.
    """
    if not 1 <= whole_number(depth, "depth") <= 7:
        raise GpmError(f"depth must lie between 1 and 7, got {depth}.")
    leaves, trees = 2**depth, count_trees(depth)
    draws, nodes = trees // leaves, 2 * leaves - 1
    random = np.random.Generator(np.random.PCG64(seed))
    if draws == math.factorial(leaves):  # all of them
        values = np.array(list(itertools.permutations(range(leaves)))) + 1
    else:
        values = random.permuted(np.tile(np.arange(leaves) + 1, (draws, 1)), axis=1)
    keys = np.tile(np.arange(leaves) + 1, draws)
    values = np.repeat(values, leaves, axis=0)  # [trees, leaves]
    x = np.zeros((trees, nodes, 2), dtype=np.int64)  # in a tree, nodes are numbered as in a heap: leaves are the last
    x[:, 0, 0] = keys
    x[:, leaves - 1 :, 0] = np.arange(leaves) + 1
    x[:, leaves - 1 :, 1] = values
    y = np.full((trees, nodes), -1, dtype=np.int64)
    y[:, 0] = values[np.arange(trees), keys - 1] - 1
    child = np.arange(1, nodes)
    first = np.arange(trees)[:, None] * nodes
    edges = np.stack([(first + (child - 1) // 2).ravel(), (first + child).ravel()])
    return Graph.from_edges(edges, trees * nodes, x=x.reshape(-1, 2), y=y.ravel(), undirected=True)


def random_graph(nodes: int = 2000, edges: int = 10_000, features: int = 16, seed: int = 0) -> Graph:
    """Make a graph with random edges and features: a model that beats chance on its held-out links has seen them."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, nodes, (2, edges))
    pairs = pairs[:, pairs[0] != pairs[1]]
    return Graph.from_edges(pairs, nodes, x=rng.standard_normal((nodes, features), dtype=np.float32), undirected=True)


def shifted_pair(shift: float = 4.0, nodes: int = 2000, seed: int = 0) -> tuple[Graph, Graph]:
    """Make a source and a target of which half of the features differ by a constant.

    Both have random edges, four random classes, and two blocks of features that predict the classes: a weak one that is
    the same in both, and a strong one, which is shifted in the target. A model of the source relies on the strong block
    and fails on the target; a model that ignores what tells the domains apart has to use the weak one. The length of
    the shift is in standard deviations of the noise.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    corners = [np.linalg.qr(random.standard_normal((8, 4)))[0].T for _ in range(2)]  # each four orthonormal directions
    faint, clear = 1.6 * corners[0], 2.2 * corners[1]
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
