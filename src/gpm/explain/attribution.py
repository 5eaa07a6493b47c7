"""Attribution: the score of each pattern in the set of patterns (a bag) that a prediction reads.

All methods but `attention` measure the evidence (log-odds of a class or link, or a value) as a function of the walks:

- `banzhaf`: the mean rise of the evidence by a pattern, over random halves of the other patterns (its Banzhaf value);
- `left-out`: the fall of the evidence when the pattern is left out of the whole bag;
- `gradient`: the derivative of the evidence by the weight of the pattern's walks;
- `attention`: the share of the attention of the class token, or of the fusion. It says where the model looks, not what
  it concludes.

Any one of several patterns with the same content can be left out without loss, so `left-out` gives each of them a low
score; `banzhaf` does not.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.explain.bag import Bag, Group, group_walks
from gpm.explain.explanation import Method
from gpm.graph.coerce import check_choice

METHODS = ("auto", "banzhaf", "attention", "left-out", "gradient")
FEWEST, PER_PATTERN = 256, 4  # random halves: at least so many, and so many for each pattern
_RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Ranking:
    """The patterns of a bag, the highest scores first."""

    bag: Bag
    groups: tuple[Group, ...]  # the patterns `[G]`
    scores: NDArray  # of each `[G]`, in the units of the method
    evidence: NDArray  # the rise of the evidence for every class by each pattern `[G, C]`
    method: Method
    target: int  # the explained class

    def edges(self, top: int) -> dict[tuple[int, int], float]:
        """Sum the scores of the best patterns over each edge."""
        return weigh_edges(self.groups[:top], self.scores[:top])

    def by_pattern(self, top: int) -> dict[Hashable, float]:
        """Return the scores of the best patterns by their keys; those against the prediction have 0."""
        best = zip(self.groups[:top], self.scores[:top], strict=True)
        return {group.key: max(float(score), 0.0) for group, score in best}


def rank_patterns(bag: Bag, method: Method = "auto", target: int | None = None) -> Ranking:
    """Score the patterns of a bag for a class; by default the predicted one."""
    chosen = choose_method(bag, method)
    if target is None:
        with torch.no_grad():
            target = bag.decide(bag.logits())
    groups = group_walks(bag)
    scores, evidence = score_groups(bag, groups, chosen, target)
    order = rank_groups(scores, groups)
    return Ranking(bag, tuple(groups[i] for i in order), scores[order], evidence[order], chosen, target)


def choose_method(bag: Bag, method: Method) -> Method:
    """Choose the method. `auto` is banzhaf, which every readout allows: it finds planted motifs about as well as the
    best method of each readout, as docs/explain.md shows.
    """
    check_choice("method", method, METHODS)
    if method == "attention" and bag.attention() is None:
        how = "A link" if bag.predictor.level == "link" else f"A {bag.predictor.model.options.readout} readout"
        raise GpmError(f"{how} has no attention over patterns; choose --method banzhaf, left-out or gradient.")
    return "banzhaf" if method == "auto" else method


def score_groups(bag: Bag, groups: Sequence[Group], method: Method, target: int) -> tuple[NDArray, NDArray]:
    """Return the scores `[G]` of patterns, and the evidence of every pattern for every class `[G, C]`."""
    members = [group.walks for group in groups]
    if method == "gradient":
        slopes = bag.slopes(torch.ones(bag.classes, len(bag)), range(bag.classes))
        evidence = np.stack([slopes[:, walks].sum(1) for walks in members])
        return evidence[:, target], evidence
    if method == "banzhaf":
        evidence = _draw_halves(bag, groups)
        return evidence[:, target], evidence
    with torch.no_grad():
        whole = bag.measure(bag.logits())
        evidence = (whole - bag.measure(bag.leave_out(members))).numpy()
    if method == "left-out":
        return evidence[:, target], evidence
    attention = bag.attention()
    assert attention is not None
    return np.array([attention[walks].sum() for walks in members]), evidence


@torch.no_grad()
def _draw_halves(bag: Bag, groups: Sequence[Group]) -> NDArray:
    """Estimate Banzhaf values `[G, C]`: the coefficients of the linear function of the presence of patterns that fits
    the evidence best, over random halves. Each half is used with its complement, which reduces the variance.
    """
    random = np.random.default_rng(bag.predictor.tokenizer.seed)
    half = random.random((max(FEWEST, PER_PATTERN * len(groups)) // 2, len(groups))) < 0.5
    present = torch.from_numpy(np.concatenate([half, ~half]))  # (S, G)
    owner = np.zeros(len(bag), dtype=np.int64)
    for i, group in enumerate(groups):
        owner[group.walks] = i
    weight = present[:, torch.from_numpy(owner)].float()
    measured = bag.measure(bag.logits(weight))  # (S, C)
    signs = present.double() - 0.5
    lean = signs.T @ signs + _RIDGE * len(signs) * torch.eye(len(groups), dtype=torch.float64)
    return np.asarray(torch.linalg.solve(lean, signs.T @ (measured - measured.mean(0))))


def rank_groups(scores: NDArray, groups: Sequence[Group]) -> NDArray[np.int64]:
    """Order patterns by score, the highest first; of equal ones the smaller, then the first met."""
    sizes = np.array([len(group.nodes) for group in groups])
    return np.lexsort((np.arange(len(groups)), sizes, -scores))


def weigh_edges(groups: Sequence[Group], scores: NDArray) -> dict[tuple[int, int], float]:
    """Sum the scores of the patterns over each edge; those against the prediction count nothing."""
    weights: dict[tuple[int, int], float] = {}
    for group, score in zip(groups, scores, strict=True):
        for edge in group.edges:
            weights[edge] = weights.get(edge, 0.0) + max(float(score), 0.0)
    return weights
