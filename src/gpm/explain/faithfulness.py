"""Faithfulness: does the prediction fall without the best patterns, and are they found again in other draws?"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.data.non_edges import hide_edges
from gpm.explain.attribution import Ranking, score_groups
from gpm.explain.bag import Bag, Group, group_walks
from gpm.explain.strength import Curve

DELETED = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
INSERTED = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
FORBIDDEN = (1, 3, 5, 10)
TENTH = 0.1


def draw_alike(scales: NDArray, chosen: NDArray, draws: int, random: np.random.Generator) -> list[NDArray[np.int64]]:
    """Draw random walks instead of the chosen ones, as many of every length, `draws` times."""
    sets = []
    for _ in range(draws):
        parts = [
            random.choice(np.flatnonzero(scales == scale), count, replace=False)
            for scale, count in zip(*np.unique(scales[chosen], return_counts=True), strict=True)
        ]
        sets.append(np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64))
    return sets


@torch.no_grad()
def trace(ranking: Ranking, shares: Sequence[float], *, insert: bool = False, draws: int = 20, seed: int = 0) -> Curve:
    """Follow the prediction as shares of the patterns are left out, or put in, with all their walks, the best first.

    Beside it stand predictions with random walks, as many of every length. At least one pattern is kept, or put in.
    """
    bag, random = ranking.bag, np.random.default_rng(seed)
    rows = []
    for share in shares:
        chosen = find_best(ranking, share, insert)
        rows += [chosen, *draw_alike(bag.scales, chosen, draws, random)]
    weight = torch.full((len(rows), len(bag)), float(not insert))
    for row, walks in enumerate(rows):
        weight[row, walks] = float(insert)
    answers = bag.answers(bag.logits(weight))[:, ranking.target].numpy().reshape(len(shares), 1 + draws)
    return _curve(shares, answers)


def find_best(ranking: Ranking, share: float, insert: bool = False) -> NDArray[np.int64]:
    """Return the walks of a share of the patterns, the best first; see `trace`."""
    count = len(ranking.groups)
    least = 1 if share > 0 or insert else 0
    best = ranking.groups[: min(max(least, round(share * count)), count if insert else count - 1)]
    return np.concatenate([group.walks for group in best]) if best else np.zeros(0, dtype=np.int64)


def _curve(shares: Sequence[float], answers: NDArray) -> Curve:
    random = answers[:, 1:]
    values = answers[:, 0], random.mean(1), random.std(1)
    return Curve(tuple(float(share) for share in shares), *(tuple(each.tolist()) for each in values))


@torch.no_grad()
def trace_edges(ranking: Ranking, instance: NDArray, *, draws: int = 3, seed: int = 0) -> Curve:
    """Follow the prediction as the edges of the best patterns are forbidden to the walks, which are drawn again.

    The random patterns to compare with have the same lengths. Features and positional encodings stay as they are.
    """
    random = np.random.default_rng(seed)
    lengths: dict[int, list[int]] = {}
    for i, group in enumerate(ranking.groups):
        if group.edges:
            lengths.setdefault(int(ranking.bag.scales[group.walks[0]]), []).append(i)
    length_of = {i: length for length, indices in lengths.items() for i in indices}
    order = sorted(length_of)
    counts = [count for count in FORBIDDEN if count <= len(order)]
    answers = [[_answer_without(ranking, instance, [])] * (1 + draws)]
    for count in counts:
        alike = []
        for _ in range(draws):
            shuffled = {length: iter(random.permutation(indices)) for length, indices in lengths.items()}
            alike.append([next(shuffled[length_of[i]]) for i in order[:count]])
        answers.append([_answer_without(ranking, instance, some) for some in (order[:count], *alike)])
    return _curve([0.0, *counts], np.array(answers))


def _answer_without(ranking: Ranking, instance: NDArray, patterns: Sequence[int]) -> float:
    bag, edges = ranking.bag, [edge for i in patterns for edge in ranking.groups[i].edges]
    if edges:
        graph = hide_edges(bag.predictor.tokenizer.graph, np.array(edges, dtype=np.int64))
        bag = Bag.draw(bag.predictor, bag.task, instance, graph=graph)
    return float(bag.answers(bag.logits())[0, ranking.target])


def agree(scores: Sequence[dict[Hashable, float]]) -> float:
    """Average the cosine between the scores of every two draws; 1 if equal, 0 without a common pattern."""
    return float(np.mean([_cosine(a, b) for a, b in combinations(scores, 2)])) if len(scores) > 1 else 1.0


def _cosine(one: dict[Hashable, float], two: dict[Hashable, float]) -> float:
    length = np.sqrt(sum(w * w for w in one.values()) * sum(w * w for w in two.values()))
    product = sum(weight * two.get(key, 0.0) for key, weight in one.items())
    return float(product / length) if length > 0 else float(not any(one.values()) and not any(two.values()))


def overlap(scores: Sequence[dict[Hashable, float]]) -> float:
    """Average the share of the best patterns that two draws have in common, of those that either has."""
    pairs = [(set(a), set(b)) for a, b in combinations(scores, 2)]
    return float(np.mean([len(a & b) / max(1, len(a | b)) for a, b in pairs])) if pairs else 1.0


def score_again(ranking: Ranking, groups: Sequence[Group], others: Sequence[Bag]) -> NDArray:
    """Score some patterns again `[D, K]` in other draws of all patterns, where they replace those with the same key."""
    rows = []
    for other in others:
        theirs = {group.key: group.walks for group in group_walks(other)}
        instead = [theirs[group.key] for group in groups if group.key in theirs]
        walks = np.sort(np.concatenate([group.walks for group in groups]))
        joined = ranking.bag.put_into(walks, other, np.concatenate([*instead, np.zeros(0, dtype=np.int64)]))
        mixed = group_walks(joined)
        scores, _ = score_groups(joined, mixed, ranking.method, ranking.target)
        by_key = dict(zip((group.key for group in mixed), scores.tolist(), strict=True))
        rows.append([by_key[group.key] for group in groups])
    return np.array(rows).reshape(len(others), len(groups))
