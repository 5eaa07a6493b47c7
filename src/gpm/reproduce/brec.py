"""BREC: 400 pairs of graphs that are hard to tell apart, by how often walks under fresh seeds have each topology.

Nothing is trained. Walks are drawn from both graphs of a pair, and a permutation test says whether the topologies of
the two samples come from one distribution. The same test on a graph and a copy of it with permuted nodes measures how
often it is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.config import Kind
from gpm.data.catalog import copy_raw
from gpm.errors import GpmError
from gpm.graph.copies import copy_graphs
from gpm.graph.graph import Graph
from gpm.io.cache import data_root
from gpm.patterns.tokenizer import Tokenizer
from gpm.patterns.walks import WalkRule

FILE = "BREC/brec_400_pairs.tsv"
LEVEL = 0.005  # of the test, over all lengths of a topology
DRAWS, FIRST_DRAWS = 1999, 99  # permutations of a test
PARTS = {
    "basic": "basic", "regular": "regular", "str": "strongly regular", "4vtx": "4-vertex condition",
    "dr": "distance-regular", "extension": "extension", "cfi": "CFI",
}  # fmt: skip


@dataclass(frozen=True)
class Walks:
    """Walks that do not turn back: their lengths, and how many of each."""

    lengths: tuple[int, ...]
    count: int


# By topology. A set of visited nodes is far costlier for `refined`, and its walks can be short.
WALKS: dict[Kind, Walks] = {
    "loops": Walks((4, 6, 9), 16_384), "induced": Walks((4, 6, 9), 4096), "shape": Walks((4, 6, 9), 4096),
    "refined": Walks((1, 2, 3), 1024),
}  # fmt: skip


def read_pairs(path: Path) -> tuple[list[str], Graph]:
    """Read pairs from a table with columns part, pair, graph6_a and graph6_b; return their parts, and all graphs.

    The graphs of pair i are 2i and 2i + 1.
    """
    import networkx as nx

    parts, graphs = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()[1:], 2):
        cells = line.split("\t")
        try:
            parts.append(cells[0])
            graphs += [nx.from_graph6_bytes(cell.encode()) for cell in cells[2:4]]
        except (nx.NetworkXError, IndexError, ValueError) as error:
            raise GpmError(f"{path}, line {number}: give a part, a pair and two graphs in graph6.") from error
        if len(graphs) < 2 * len(parts) or not parts[-1]:
            raise GpmError(f"{path}, line {number}: give a part, a pair and two graphs in graph6.")
    first = np.concatenate([[0], np.cumsum([graph.number_of_nodes() for graph in graphs])])
    edges = [np.array(graph.edges()).reshape(-1, 2) + start for graph, start in zip(graphs, first[:-1], strict=True)]
    joined = Graph.from_edges(np.concatenate(edges).T, int(first[-1]), graph_ptr=first, undirected=True)
    return parts, joined


def draw_topologies(graph: Graph, ids: Sequence[int], kind: Kind, walks: Walks, seed: int) -> list[list[NDArray]]:
    """Return the topologies of walks in copies of graphs with permuted nodes: an array of keys per graph and length."""
    copies = copy_graphs(graph, np.asarray(ids), seed)
    tokenizer = Tokenizer(
        copies, lengths=walks.lengths, pool=walks.count * len(walks.lengths), topology=kind, seed=seed,
        rule=WalkRule(non_backtracking=True), edges=False,
    )  # fmt: skip
    found = []
    for index in range(len(ids)):
        patterns = tokenizer.graphs([index])
        keys = patterns.table.keys[patterns.topology.numpy()[0]]
        found.append([keys[slots] for _, slots in patterns.groups()])
    return found


def compare_samples(one: NDArray, other: NDArray, random: np.random.Generator, draws: int = DRAWS) -> float:
    r"""Return the p-value that two samples of keys are of one distribution, by a permutation test.

    With counts a and b of a key in the two samples, the statistic is :math:`\sum (a - b)^2 / (a + b)` over the keys
    that occur at least twice. Where the first few permutations show that the value is large, it is that of these.
    """
    _, index = np.unique(np.concatenate([one, other]), return_inverse=True)
    total, first = np.bincount(index), np.bincount(index[: len(one)], minlength=index.max(initial=0) + 1)
    often = total > 1
    if not often.any():
        return 1.0
    counts = np.append(total[often], total[~often].sum())  # what occurs once is drawn, but says nothing

    def statistic(drawn: NDArray) -> NDArray:
        return np.asarray((((2 * drawn - counts) ** 2 / np.maximum(counts, 1))[..., :-1]).sum(-1))

    mine = statistic(np.append(first[often], first[~often].sum())) * (1 - 1e-12)
    larger = done = 0
    for size in (FIRST_DRAWS, draws - FIRST_DRAWS):
        chance = random.multivariate_hypergeometric(counts, len(one), size=size, method="marginals")
        larger, done = larger + int((statistic(chance) >= mine).sum()), done + size
        if larger > 10 * LEVEL * done:
            break
    return (1 + larger) / (done + 1)


def are_apart(one: Sequence[NDArray], other: Sequence[NDArray], random: np.random.Generator) -> bool:
    """Return whether two graphs are told apart by their topologies of any length (Bonferroni's correction)."""
    return any(compare_samples(*pair, random) * len(one) <= LEVEL for pair in zip(one, other, strict=True))


def measure_topology(kind: Kind, path: Path | None = None) -> dict[str, Any]:
    """Count the pairs that a kind of topology tells apart, by part, and the graphs told apart from their own copies."""
    if path is None:
        copy_raw(str(Path(FILE).parent))
        path = data_root() / FILE
    parts, graph = read_pairs(path)
    everything, walks, random = range(2 * len(parts)), WALKS[kind], np.random.default_rng(0)
    graphs = draw_topologies(graph, everything, kind, walks, 0)
    copies = draw_topologies(graph, everything, kind, walks, 1)
    apart = [are_apart(graphs[2 * pair], copies[2 * pair + 1], random) for pair in range(len(parts))]
    wrong = sum(are_apart(graphs[each], copies[each], random) for each in everything)
    return {
        "topology": kind, "lengths": list(walks.lengths), "walks": walks.count, "level": LEVEL, "pairs": len(parts),
        "apart": dict(Counter(part for part, is_apart in zip(parts, apart, strict=True) if is_apart)),
        "of": dict(Counter(parts)),
        "told": [int(each) for each in apart], "copies": len(everything), "wrong": wrong,
    }  # fmt: skip


def describe(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the lines of the page."""
    shown = [part for part in PARTS if any(part in record["of"] for record in found.values())]
    lines = [
        "400 pairs of graphs that are not isomorphic, by what makes them hard to tell apart",
        "([Wang and Zhang, 2024](https://arxiv.org/abs/2304.07702)). The paper of GPM has no such table.",
        "",
        "Nothing is trained here: walks that do not turn back are drawn from both graphs under seeds of their own,",
        "with permuted nodes, and a permutation test compares how often each topology occurs in the two samples, at",
        f"level {LEVEL}. *Wrong*: graphs told apart from a permuted copy of themselves. Among the models in the paper",
        "of BREC, which are trained on each pair, the best that passes messages (I²-GNN) tells 70.2% apart.",
        "`refined` is not local: it refines the colours of the whole graph around the nodes of a walk, and so passes",
        "messages itself; the other topologies are of the walks alone.",
        "",
    ]
    if not found:
        return lines
    return [
        *lines,
        f"| topology | walks per graph, lengths | {' | '.join(PARTS[part] for part in shown)} | all | share | wrong |",
        f"|---|---|{'---|' * len(shown)}---|---|---|",
        *(_describe_row(record, shown) for record in found.values()),
    ]


def _describe_row(record: Mapping[str, Any], shown: Sequence[str]) -> str:
    lengths, total = record["lengths"], sum(record["apart"].values())
    cells = [f"{record['apart'].get(part, 0)} of {record['of'].get(part, 0)}" for part in shown]
    walks = f"{record['walks'] * len(lengths):,}, {', '.join(map(str, lengths))}"
    wrong = f"{record['wrong']} of {record['copies']} ({record['wrong'] / record['copies']:.1%})"
    return (
        f"| `{record['topology']}` | {walks} | {' | '.join(cells)} | {total} of {record['pairs']} | "
        f"{total / record['pairs']:.1%} | {wrong} |"
    )
