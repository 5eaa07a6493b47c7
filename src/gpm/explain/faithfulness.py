"""Trust: does the answer fall when the best patterns are taken away, and are they found again when drawn anew?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.data.non_edges import hide_edges
from gpm.explain.attribution import Ranking, score_groups
from gpm.explain.bag import Bag, Group, group_walks
from gpm.explain.explanation import Curve

DELETED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
INSERTED = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
FORBIDDEN = (1, 3, 5, 10)
TENTH = 0.1


def draw_alike(scales: NDArray, chosen: NDArray, draws: int, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Random walks in place of the chosen: of every length as many, `draws` times."""
    found = []
    for _ in range(draws):
        parts = [
            random.choice(np.flatnonzero(scales == scale), count, replace=False)
            for scale, count in zip(*np.unique(scales[chosen], return_counts=True), strict=True)
        ]
        found.append(np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64))
    return found


@torch.no_grad()
def trace(ranking: Ranking, shares: Sequence[float], *, insert: bool = False, draws: int = 20, seed: int = 0) -> Curve:
    """The answer as patterns are left out, or put in, with all their walks, the best first; and as random walks are, as
    many of every length.

    Args:
        ranking: The patterns, whose class is followed.
        shares: Of the patterns; at least one is kept, or put in.
        insert: Put in rather than leave out.
        draws: Of random walks.
        seed: Of these draws.
    """
    bag, random = ranking.bag, np.random.default_rng(seed)
    rows = []
    for share in shares:
        chosen = find_best(ranking, share, insert)
        rows += [chosen, *draw_alike(bag.scales, chosen, draws, random)]
    weight = torch.full((len(rows), len(bag)), float(not insert))
    for row, walks in enumerate(rows):
        weight[row, walks] = float(insert)
    said = bag.answers(bag.logits(weight))[:, ranking.target].numpy().reshape(len(shares), 1 + draws)
    return _curve(shares, said)


def find_best(ranking: Ranking, share: float, insert: bool = False) -> NDArray[np.int64]:
    """The walks of a share of the patterns, the best first; see `trace`."""
    best = ranking.groups[: _count(len(ranking.groups), share, insert)]
    return np.concatenate([group.walks for group in best]) if best else np.zeros(0, dtype=np.int64)


def _count(patterns: int, share: float, insert: bool) -> int:
    """How many patterns a share is: when some are meant, at least one; when not all are, not all."""
    least = 1 if share > 0 or insert else 0
    return min(max(least, round(share * patterns)), patterns if insert else patterns - 1)


def _curve(shares: Sequence[float], said: NDArray) -> Curve:
    random = said[:, 1:]
    return Curve(
        tuple(float(share) for share in shares),
        tuple(said[:, 0].tolist()),
        tuple(random.mean(1).tolist()),
        tuple(random.std(1).tolist()),
    )


@torch.no_grad()
def trace_edges(ranking: Ranking, instance: NDArray, *, draws: int = 3, seed: int = 0) -> Curve:
    """The answer when the edges of the best patterns are forbidden to the sampler, and all walks are drawn again.

    The random patterns beside them have the same lengths. Features, and positions computed from the whole graph, stay
    as they were.
    """
    random = np.random.default_rng(seed)
    lengths: dict[int, list[int]] = {}
    for place, group in enumerate(ranking.groups):
        if group.edges:
            lengths.setdefault(int(ranking.bag.scales[group.walks[0]]), []).append(place)
    length_of = {place: length for length, places in lengths.items() for place in places}
    order = sorted(length_of)
    counts = [count for count in FORBIDDEN if count <= len(order)]
    said = [[_answer_without(ranking, instance, [])] * (1 + draws)]
    for count in counts:
        alike = []
        for _ in range(draws):
            shuffled = {length: iter(random.permutation(places)) for length, places in lengths.items()}
            alike.append([next(shuffled[length_of[i]]) for i in order[:count]])
        said.append([_answer_without(ranking, instance, some) for some in (order[:count], *alike)])
    return _curve([0.0, *counts], np.array(said))


def _answer_without(ranking: Ranking, instance: NDArray, places: Sequence[int]) -> float:
    bag, edges = ranking.bag, [edge for i in places for edge in ranking.groups[i].edges]
    if edges:
        graph = hide_edges(bag.predictor.tokenizer.graph, np.array(edges, dtype=np.int64))
        bag = Bag.draw(bag.predictor, bag.task, instance, graph=graph)
    return float(bag.answers(bag.logits())[0, ranking.target])


def agree(scores: Sequence[dict[Hashable, float]]) -> float:
    """The mean cosine between the scores of every two draws; 1 is the same, 0 nothing in common."""
    return float(np.mean([_cosine(a, b) for a, b in combinations(scores, 2)])) if len(scores) > 1 else 1.0


def _cosine(one: dict[Hashable, float], two: dict[Hashable, float]) -> float:
    length = np.sqrt(sum(w * w for w in one.values()) * sum(w * w for w in two.values()))
    met = sum(weight * two.get(key, 0.0) for key, weight in one.items())
    return float(met / length) if length > 0 else float(not any(one.values()) and not any(two.values()))


def overlap(scores: Sequence[dict[Hashable, float]]) -> float:
    """The share of the best patterns that two draws have in common, of those that either has; the mean over pairs."""
    pairs = [(set(a), set(b)) for a, b in combinations(scores, 2)]
    return float(np.mean([len(a & b) / max(1, len(a | b)) for a, b in pairs])) if pairs else 1.0


def score_again(ranking: Ranking, groups: Sequence[Group], others: Sequence[Bag]) -> NDArray:
    """The scores of some patterns `[D, K]` when all else is drawn anew: they take the place of those that another bag
    has of the same kind, with all their walks.
    """
    found = []
    for other in others:
        known = {group.key: group.walks for group in group_walks(other)}
        instead = [known[group.key] for group in groups if group.key in known]
        walks = np.sort(np.concatenate([group.walks for group in groups]))
        joined = ranking.bag.put_into(walks, other, np.concatenate([*instead, np.zeros(0, dtype=np.int64)]))
        mixed = group_walks(joined)
        scores, _ = score_groups(joined, mixed, ranking.method, ranking.target)
        by_key = dict(zip((group.key for group in mixed), scores.tolist(), strict=True))
        found.append([by_key[group.key] for group in groups])
    return np.array(found).reshape(len(others), len(groups))
