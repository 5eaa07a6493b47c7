"""Explanations made up for tests: no model behind them, the same arguments give the same one."""

from __future__ import annotations

from collections.abc import Sequence

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from gpm.explain.explanation import Explanation, ScoredPattern, View, ViewEdge, ViewNode
from gpm.explain.strength import Curve, Trust
from gpm.patterns.shape_names import name_shape

CLASSES = {
    "classes": ("none", "house roof", "house wall", "house floor"),
    "labels": ("music", "travel", "cooking"),
    "link": ("no link", "link"),
    "value": ("solubility",),
}


def make_explanation(
    nodes: int = 30,
    patterns: int = 10,
    seed: int = 0,
    name: str = "17",
    names: Sequence[str] = (),
    kind: str = "classes",
    atoms: bool = False,
    others: int = 0,
) -> Explanation:
    """An explanation of the middle of a flat random graph, or of a molecule.

    Args:
        nodes: How many are drawn; the first is explained, for a link the first two, for a molecule the whole.
        patterns: How many are shown, at most as many as there are.
        seed: Of the graph and its walks.
        name: Of the first node, or of the molecule.
        names: Of the nodes from the second on (from the first in a molecule), as far as they go; the rest are numbered.
        kind: classes, labels, link or value.
        atoms: Make a molecule.
        others: How many more there are that speak for other classes.
    """
    generator = np.random.default_rng(seed)
    points, graph = _molecule(nodes) if atoms else _flat_graph(nodes, generator)
    given = [*(() if atoms else (name,)), *names]
    called = [given[v] if v < len(given) else str(100 + v) for v in range(nodes)]
    starts = list(range(nodes)) if atoms else [0, 1] if kind == "link" else [0]
    kinds = _elements(graph) if atoms else [CLASSES["classes"][int(c)] for c in generator.integers(0, 4, nodes)]
    answers = _answers(kind, generator)
    target = int(np.argmax(answers))
    most = patterns + others
    found = _patterns(graph, starts, called, kinds if atoms else None, most, generator, len(answers), target)
    scored = [_answered(p, answers[target], target, kind) for p in found]
    scored, rest = scored[:patterns], [_turned(p, target, rank) for rank, p in enumerate(scored[patterns:])]
    return Explanation(
        data="a made-up molecule" if atoms else "made-up houses",
        level="graph" if atoms else "link" if kind == "link" else "node",
        instance=(called[0], called[1]) if kind == "link" and not atoms else (name,),
        kind=kind,
        classes=CLASSES[kind],
        target=target,
        answers=tuple(answers),
        truth={"value": "-2.1", "link": "link"}.get(kind, CLASSES[kind][target]),
        method="left-out",
        walks=128,
        found=max(len(scored), 61),
        patterns=tuple(scored),
        view=_view(points, graph, called, kinds, [] if atoms else starts, scored, generator, atoms),
        trust=_trust(answers[target]),
        seed=seed,
        others=tuple(rest),
    )


def _flat_graph(nodes: int, generator: np.random.Generator) -> tuple[NDArray, nx.Graph]:
    """Points far apart, the first in the middle, joined where no third point lies well between them."""
    places = [np.array([0.5, 0.5])]
    for _ in range(nodes - 1):
        offers = generator.random((40, 2))
        apart = np.linalg.norm(offers[:, None] - np.array(places), axis=-1).min(axis=1)
        places.append(offers[int(np.argmax(apart))])
    points = np.array(places)
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    graph = nx.empty_graph(nodes)
    for a in range(nodes):
        for b in np.argsort(distance[a])[1:9]:
            nearer = np.maximum(distance[a], distance[b]) < 0.9 * distance[a, b]
            if not nearer.any() or b == 0:
                graph.add_edge(a, int(b))
    return points, graph


def _molecule(nodes: int) -> tuple[NDArray, nx.Graph]:
    """Rings of six around the first, and what is left over as arms."""
    lattice = nx.hexagonal_lattice_graph(2 + nodes // 4, 2 + nodes // 4)
    place = {v: np.array(p) for v, p in nx.get_node_attributes(lattice, "pos").items()}
    middle = np.mean(list(place.values()), axis=0)
    chosen = sorted(place, key=lambda v: (round(float(np.linalg.norm(place[v] - middle)), 6), v))[:nodes]
    graph = nx.relabel_nodes(lattice.subgraph(chosen), {v: i for i, v in enumerate(chosen)})
    points = np.array([place[v] for v in chosen])
    points = points - (points.max(axis=0) + points.min(axis=0)) / 2
    return 0.5 + points / max(float(np.ptp(points, axis=0).max()), 1e-9), graph


def _elements(graph: nx.Graph) -> list[str]:
    ends = {v for v in graph if graph.degree(v) == 1}
    beside = {u for v in ends for u in graph[v]}
    return ["O" if v in ends else "N" if v in beside else "C" for v in range(len(graph))]


def _answers(kind: str, generator: np.random.Generator) -> list[float]:
    if kind == "value":
        return [-2.317]
    if kind == "link":
        return [0.126, 0.874]
    if kind == "labels":
        return [0.12, 0.91, 0.35]
    rest = 0.03 * generator.dirichlet([2.0, 2.0, 2.0])
    return [float(rest[0]), float(1 - rest.sum()), float(rest[1]), float(rest[2])]


def _patterns(
    graph: nx.Graph, starts: list[int], called: list[str], elements: list[str] | None, most: int,
    generator: np.random.Generator, classes: int, target: int,
) -> list[ScoredPattern]:  # fmt: skip
    """Walks from the starts, those over the same nodes as one, with scores that fall like those of a real run."""
    met: dict[frozenset[int], list[list[int]]] = {}
    for trial in range(20 * most + 400):
        walk = [starts[trial % len(starts)]]
        for _ in range((2, 4, 6, 8)[trial % 4]):
            around = sorted(graph[walk[-1]])
            walk.append(around[int(generator.integers(len(around)))] if around else walk[-1])
        met.setdefault(frozenset(walk), []).append(walk)

    def rings_first(item: tuple[frozenset[int], list[list[int]]]) -> tuple[int, list[int]]:
        edges = sum(len(item[0] & graph.adj[v].keys()) for v in item[0]) // 2
        return -len(item[1]) * (1 + 4 * (edges - len(item[0]) + 1)), sorted(item[0])

    found = []
    for rank, (members, walks) in enumerate(sorted(met.items(), key=rings_first)[:most]):
        walk = walks[0]
        within = graph.subgraph(sorted(members))
        score = 2.4 * 0.86**rank + 0.02
        evidence = generator.normal(0, 0.35 * score, classes)
        evidence[target] = score * (1 if rank % 5 != 3 else -0.6)
        atoms = "" if elements is None else "".join(sorted(elements[v] for v in set(walk)))
        found.append(
            ScoredPattern(
                walk=tuple(walk),
                names=tuple(called[v] for v in walk),
                edges=tuple(sorted((min(a, b), max(a, b)) for a, b in within.edges)),
                shape=name_shape(nx.to_numpy_array(within, dtype=np.bool_)),
                content=atoms,
                scale=len(walk) - 1,
                count=len(walks),
                score=float(score),
                spread=float(score * generator.uniform(0.05, 0.3)),
                again=float(0.9 * score),
                without=0.0,
                argues=int(np.argmax(evidence)) if classes > 1 else int(evidence[0] > 0),
                evidence=tuple(float(e) for e in evidence),
            )
        )
    return found


def _answered(pattern: ScoredPattern, answer: float, target: int, kind: str) -> ScoredPattern:
    """The pattern with the answer that is left without it."""
    evidence = pattern.evidence[target]
    odds = answer if kind == "value" else np.log(answer / (1 - answer))
    without = odds - evidence if kind == "value" else 1 / (1 + np.exp(evidence - odds))
    return ScoredPattern(**{**pattern.__dict__, "without": float(without)})


def _turned(pattern: ScoredPattern, target: int, rank: int) -> ScoredPattern:
    """The pattern if it spoke for another class, for each in turn."""
    evidence = list(pattern.evidence)
    argues = [c for c in range(len(evidence)) if c != target][rank % (len(evidence) - 1)]
    evidence[argues] = 1.5 - 0.1 * rank
    return ScoredPattern(**{**pattern.__dict__, "argues": argues, "evidence": tuple(evidence)})


def _view(
    points: NDArray, graph: nx.Graph, called: list[str], kinds: list[str], starts: list[int],
    found: list[ScoredPattern], generator: np.random.Generator, atoms: bool,
) -> View:  # fmt: skip
    weight: dict[object, float] = {}
    for pattern in found:
        for part in (*set(pattern.walk), *pattern.edges):
            weight[part] = weight.get(part, 0.0) + pattern.score
    most = max(weight.values(), default=1.0)
    nodes = [
        ViewNode(
            name=called[v],
            x=float(points[v, 0]),
            y=float(points[v, 1]),
            kind=kinds[v],
            features=(("degree", float(graph.degree(v))), ("age", round(float(generator.uniform(18, 70)), 1))),
            start=v in starts,
            weight=weight.get(v, 0.0) / most,
        )
        for v in range(len(points))
    ]
    pairs = sorted((min(a, b), max(a, b)) for a, b in graph.edges)
    edges = [ViewEdge(a, b, weight.get((a, b), 0.0) / most, "aromatic" if atoms else "") for a, b in pairs]
    return View(nodes=tuple(nodes), edges=tuple(edges), hidden=0 if atoms else 12, atoms=atoms)


def _trust(answer: float) -> Trust:
    share = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
    kept = np.exp(-8 * np.array(share))
    chance = 1 - 0.3 * np.array(share) ** 2
    spread = tuple(float(0.03 * abs(answer) * s**0.5) for s in share)
    deletion = Curve(share, tuple(map(float, answer * kept)), tuple(map(float, answer * chance)), spread)
    put_in = 1 - np.exp(-9 * np.array(share))
    insertion = Curve(share, tuple(map(float, answer * put_in)), tuple(map(float, answer * np.sqrt(share))), spread)
    number = (0.0, 1.0, 2.0, 5.0, 10.0)
    edges = Curve(
        number,
        tuple(float(answer * np.exp(-0.25 * n)) for n in number),
        tuple(float(answer * (1 - 0.01 * n)) for n in number),
        tuple(0.004 * abs(answer) * n for n in number),
    )
    drop, random_drop = answer * float(1 - kept[2]), answer * float(1 - chance[2])
    return Trust(deletion, insertion, edges, drop=drop, random_drop=random_drop, stability=0.93, overlap=0.4, draws=5)
