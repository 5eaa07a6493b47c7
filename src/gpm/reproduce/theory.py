"""Small experiments, one per claim of the paper's theory; all but the last are exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from gpm.graph.graph import Graph
from gpm.patterns.topologies import KINDS
from gpm.reproduce.brec import WALKS, Walks, are_apart, draw_topologies
from gpm.reproduce.figures import draw_lines, new_axes

PRIME = (1 << 61) - 1
MOST_NODES = 6  # of the graphs whose neighbourhoods are reconstructed
LONGEST = 8  # walks there
FEWEST, MOST = 4, 16_384  # walks of each length that pairs of graphs are compared by
REPEATS = 10  # seeds for a number of walks


def measure_neighbourhoods() -> dict[str, Any]:
    """Count the rooted graphs that the exact distribution of anonymous walks from the root tells apart, by length."""
    rooted = [(graph, root) for graph in _small_graphs() for root in graph]
    kinds = {_canonical(graph, root): (graph, root) for graph, root in rooted}
    prints = [fingerprint_walks(graph, root, LONGEST) for graph, root in kinds.values()]
    told = [len({print_[length] for print_ in prints}) for length in range(LONGEST + 1)]
    return {
        "nodes": MOST_NODES, "graphs": len(_small_graphs()), "rooted": len(kinds), "told": told,
        "refinement": len({refine_colors(graph, root) for graph, root in kinds.values()}),
    }  # fmt: skip


def _small_graphs() -> list[nx.Graph]:
    found = [graph for graph in nx.graph_atlas_g() if 0 < graph.number_of_nodes() <= MOST_NODES]
    return [graph for graph in found if nx.is_connected(graph)]


def _canonical(graph: nx.Graph, root: int) -> tuple[int, ...]:
    """Return the smallest adjacency, of all orders that begin at the root: equal for isomorphic rooted graphs only."""
    matrix = nx.to_numpy_array(graph, dtype=np.int64)
    others = [node for node in range(len(matrix)) if node != root]
    orders = np.array([(root, *order) for order in permutations(others)])
    bits = matrix[orders[:, :, None], orders[:, None, :]].reshape(len(orders), -1)
    weights = 1 << np.arange(bits.shape[1], dtype=np.int64)
    return len(matrix), int((bits @ weights).min())


def fingerprint_walks(graph: nx.Graph, root: int, longest: int) -> list[int]:
    r"""Return a fingerprint of the distribution of anonymous walks of 0, 1, ... steps from a node.

    With a random number :math:`r_{t,a}` for each step and position, it is
    :math:`\sum_w P(w) \prod_t r_{t, \gamma_t}` over anonymous walks :math:`\gamma`, modulo a prime. Two
    distributions that differ are different polynomials in these numbers, so their fingerprints differ but for a chance
    of about `longest` in 2^61.
    """
    random = np.random.default_rng(7).integers(1, PRIME, (longest + 1, longest + 1), dtype=np.int64)
    factor = [[int(value) for value in row] for row in random]
    inverse = {degree: pow(degree, -1, PRIME) for degree in range(1, graph.number_of_nodes())}
    state: dict[tuple[tuple[int, ...], int], int] = {
        ((root,), root): factor[0][0]
    }  # nodes in the order of their first visit, and where the walk is
    sums = [factor[0][0]]
    for step in range(1, longest + 1):
        after: dict[tuple[tuple[int, ...], int], int] = {}
        for (order, here), weight in state.items():
            if graph.degree[here] == 0:
                key = order, here
                after[key] = (after.get(key, 0) + weight * factor[step][order.index(here)]) % PRIME
                continue
            each = weight * inverse[graph.degree[here]] % PRIME
            for node in graph[here]:
                seen = order if node in order else (*order, node)
                value = each * factor[step][seen.index(node)]
                after[seen, node] = (after.get((seen, node), 0) + value) % PRIME
        state = after
        sums.append(sum(state.values()) % PRIME)
    return sums


def refine_colors(graph: nx.Graph, root: int | None = None) -> tuple[int, ...]:
    """Return the colours of colour refinement (1-WL), with the root marked, if any, and its colour first."""
    color = {node: int(node == root) for node in graph}
    for _ in range(graph.number_of_nodes()):
        color = {node: hash((color[node], tuple(sorted(color[near] for near in graph[node])))) for node in graph}
    return ((color[root],) if root is not None else ()) + tuple(sorted(color.values()))


def measure_joint_paths() -> dict[str, Any]:
    """Count what readings of a walk tell apart, of all walks of 4 steps on a random graph with 3 kinds of nodes.

    Two walks are the same pattern if renaming the nodes turns one into the other and keeps their kinds.
    """
    graph = nx.gnm_random_graph(12, 24, seed=0)
    kinds = np.random.default_rng(0).integers(0, 3, 12).tolist()
    walks: list[tuple[int, ...]] = [(node,) for node in graph]
    for _ in range(4):
        walks = [(*walk, node) for walk in walks for node in graph[walk[-1]]]
    semantic = [tuple(kinds[node] for node in walk) for walk in walks]
    anonymous = [tuple(walk.index(node) for node in walk) for walk in walks]
    unordered = [tuple(sorted(path)) for path in semantic]
    return {
        "walks": len(walks), "semantic": len(set(semantic)), "anonymous": len(set(anonymous)),
        "unordered": len(set(zip(unordered, anonymous, strict=True))),
        "both": len(set(zip(semantic, anonymous, strict=True))), "patterns": _count_patterns(walks, kinds),
    }  # fmt: skip


def _count_patterns(walks: Sequence[tuple[int, ...]], kinds: Sequence[int]) -> int:
    """Count patterns by their definition: walks are compared with one of each pattern so far."""
    found: list[tuple[int, ...]] = []
    for walk in walks:
        if not any(_is_renamed(walk, other, kinds) for other in found):
            found.append(walk)
    return len(found)


def _is_renamed(one: tuple[int, ...], other: tuple[int, ...], kinds: Sequence[int]) -> bool:
    pairs = set(zip(one, other, strict=True))
    return len(pairs) == len(set(one)) == len(set(other)) and all(kinds[a] == kinds[b] for a, b in pairs)


def make_pairs() -> dict[str, tuple[nx.Graph, nx.Graph]]:
    """Return pairs of graphs that are not isomorphic, from easy to hard."""
    decalin = nx.Graph([*nx.cycle_graph(6).edges, (5, 6), (6, 7), (7, 8), (8, 9), (9, 0)])
    rings = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    rings.add_edge(0, 5)
    rook = nx.line_graph(nx.complete_bipartite_graph(4, 4))
    steps = [(1, 0), (0, 1), (1, 1)]
    torus = {(i, j): [((i + a) % 4, (j + b) % 4) for a, b in steps] for i in range(4) for j in range(4)}
    return {
        "hexagon, two triangles": (nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))),
        "decalin, bicyclopentyl": (decalin, rings),
        "circulants of 41 nodes, skips 2 and 3": (nx.circulant_graph(41, [1, 2]), nx.circulant_graph(41, [1, 3])),
        "rook's graph 4 x 4, Shrikhande's graph": (rook, nx.Graph(torus)),
    }


def measure_pairs() -> dict[str, Any]:
    """Find how many walks of each length tell pairs apart that colour refinement cannot, by topology."""
    found = {}
    for name, pair in make_pairs().items():
        graphs = [nx.convert_node_labels_to_integers(graph) for graph in pair]
        sizes = [graph.number_of_nodes() for graph in graphs]
        edges = [np.array(graph.edges).T + start for graph, start in zip(graphs, (0, sizes[0]), strict=True)]
        pointer = np.cumsum([0, *sizes])
        joined = Graph.from_edges(np.concatenate(edges, axis=1), int(pointer[-1]), graph_ptr=pointer, undirected=True)
        found[name] = {"refinement": refine_colors(graphs[0]) != refine_colors(graphs[1])} | {
            kind: _count_walks(joined, kind) for kind in KINDS
        }
    return {"pairs": found, "repeats": REPEATS}


def _count_walks(pair: Graph, kind: Any) -> int | None:
    """Return the smallest power of 2 of walks that tells the two graphs apart under all seeds, if any does."""
    count = FEWEST
    while count <= MOST:
        walks, random = Walks(WALKS[kind].lengths, count), np.random.default_rng(0)
        draws = (draw_topologies(pair, [0, 1], kind, walks, seed) for seed in range(REPEATS))
        if all(are_apart(one, other, random) for one, other in draws):
            return count
        count *= 2
    return None


MEASURES = {"neighbourhoods": measure_neighbourhoods, "joint-paths": measure_joint_paths, "pairs": measure_pairs}


def describe(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the lines of the page."""
    lines: list[str] = []
    if record := found.get("neighbourhoods"):
        told, count = record["told"], record["rooted"]
        whole = next((length for length, each in enumerate(told) if each == count), None)
        lines += [
            "## Anonymous walks determine the neighbourhood (proposition 1)",
            "",
            f"All {record['graphs']} connected graphs of up to {record['nodes']} nodes have {count} different nodes",
            "to start from. The table counts how many of them the *exact* distribution of anonymous walks of l steps",
            "tells apart; the proposition promises all of them for walks of about as many steps as there are edges.",
            "",
            f"| steps l | {' | '.join(map(str, range(len(told))))} |",
            f"|---|{'---|' * len(told)}",
            f"| told apart, of {count} | {' | '.join(map(str, told))} |",
            "",
            f"All are told apart from l = {whole} on. Colour refinement (1-WL) with the start marked tells"
            f" {record['refinement']} of them apart.",
            "",
        ]
    if record := found.get("joint-paths"):
        lines += [
            "## Semantic and anonymous path together are the pattern (proposition 2)",
            "",
            f"All {record['walks']:,} walks of 4 steps on a random graph whose nodes have three kinds. Two walks are",
            "the same pattern if renaming the nodes turns one into the other and keeps the kinds.",
            "",
            "| what is read of a walk | distinct values |",
            "|---|---|",
            f"| patterns, by their definition | {record['patterns']:,} |",
            f"| semantic and anonymous path | {record['both']:,} |",
            f"| semantic path without its order, and anonymous path | {record['unordered']:,} |",
            f"| semantic path alone | {record['semantic']:,} |",
            f"| anonymous path alone | {record['anonymous']:,} |",
            "",
            "A transformer or a mean over positions reads the third row: it sees no order unless it is told "
            "(`--path_position learned`, `--path gru` or `--path conv`).",
            "",
        ]
    if record := found.get("pairs"):
        lines += [
            "## Pairs that message passing cannot tell apart (theorem and corollary)",
            "",
            "Colour refinement, which bounds message passing, gives the two graphs of each pair the same colours.",
            f"The table has how many walks of each length tell them apart under all of {record['repeats']} seeds, each",
            "with permuted nodes, by the test of [BREC](brec.md).",
            "",
            f"| pair | colour refinement | {' | '.join(f'`{kind}`' for kind in KINDS)} |",
            f"|---|---|{'---|' * len(KINDS)}",
        ]
        for name, row in record["pairs"].items():
            counts = [f"over {MOST:,}" if row[kind] is None else f"{row[kind]:,}" for kind in KINDS]
            lines.append(
                f"| {name} | {'told apart' if row['refinement'] else 'not told apart'} | {' | '.join(counts)} |"
            )
        lines += [
            "",
            "Anonymous walks as in the paper are `loops`. For Shrikhande's graph the theorem needs walks that are",
            "long, or very many; topologies that also read which visited nodes are adjacent need few.",
            "",
        ]
    if lines:
        lines += ["## Long range", "", "See [figure 7](figure-7.md): trees whose root needs the value of one leaf."]
    return lines


def draw(found: Mapping[str, Mapping[str, Any]], path: Path) -> bool:
    """Draw how many starts are told apart, by length."""
    if "neighbourhoods" not in found:
        return False
    record = found["neighbourhoods"]
    with new_axes(path) as axis:
        points = [(length, [100 * told / record["rooted"]]) for length, told in enumerate(record["told"])]
        draw_lines(axis, {"exact distribution of anonymous walks": points}, legend=False)
        axis.set(xlabel="steps of a walk", ylabel="starts told apart (%)")
    return True
