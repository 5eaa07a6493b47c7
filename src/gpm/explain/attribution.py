"""Attribution: how much each pattern of a bag counts for an answer.

All methods but one ask the same question of one quantity, the evidence (log-odds of a class or link, or a value) as a
function of which walks there are:

- `banzhaf`: by how much a pattern raises it, on average over random halves of the other patterns (its Banzhaf value);
- `left-out`: by how much it falls when the pattern is taken away from the whole bag;
- `gradient`: its derivative by the weight of the pattern's walks;
- `attention`: the share that the class token, or the fusion, looks at. It says where the model looks, not what it
  concludes from what it sees there.

Of patterns that say the same, any one can be left out without loss: `left-out` sees little in each of them, `banzhaf`
does not.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.explain.bag import Bag, Group, find_owners, group_walks
from gpm.explain.explanation import Method
from gpm.graph.coerce import check_choice

METHODS = ("auto", "banzhaf", "attention", "left-out", "gradient")
FEWEST, PER_PATTERN = 256, 4  # halves that are drawn: at least so many, and so many for each pattern
_RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class Ranking:
    """The patterns of a bag, the highest scores first.

    Attributes:
        bag: The walks.
        groups: The patterns that they make `[G]`.
        scores: How much each counts `[G]`, in the units of the method.
        evidence: By how much each raises the evidence for every class `[G, C]`.
        method: banzhaf, attention, left-out or gradient.
        target: The class that is explained.
    """

    bag: Bag
    groups: tuple[Group, ...]
    scores: NDArray
    evidence: NDArray
    method: Method
    target: int

    def edges(self, top: int) -> dict[tuple[int, int], float]:
        """How much the best patterns over each edge count together."""
        return weigh_edges(self.groups[:top], self.scores[:top])

    def by_pattern(self, top: int) -> dict[Hashable, float]:
        """The scores of the best patterns that speak for the answer, by what they are."""
        best = zip(self.groups[:top], self.scores[:top], strict=True)
        return {group.key: max(float(score), 0.0) for group, score in best}


def rank_patterns(bag: Bag, method: Method = "auto", target: int | None = None) -> Ranking:
    """Score the patterns of a bag for a class; by default for the one that is predicted."""
    chosen = choose_method(bag, method)
    if target is None:
        with torch.no_grad():
            target = int(bag.answers(bag.logits())[0].argmax())
    groups = group_walks(bag)
    scores, evidence = score_groups(bag, groups, chosen, target)
    order = rank_groups(scores, groups)
    return Ranking(bag, tuple(groups[i] for i in order), scores[order], evidence[order], chosen, target)


def choose_method(bag: Bag, method: Method) -> Method:
    """The method that is meant. `auto` is banzhaf, which every readout allows: it finds planted motifs best with a mean
    readout, and as well as attention with a class token, as docs/explain.md shows.
    """
    check_choice("method", method, METHODS)
    if method == "attention" and bag.attention() is None:
        how = "a link" if bag.predictor.level == "link" else f"a {bag.predictor.model.options.readout} readout"
        raise GpmError(f"{how} has no attention over patterns; choose --method banzhaf, left-out or gradient.")
    return "banzhaf" if method == "auto" else method


def score_groups(bag: Bag, groups: Sequence[Group], method: Method, target: int) -> tuple[NDArray, NDArray]:
    """Score patterns.

    Args:
        bag: The walks.
        groups: The patterns that they make.
        method: banzhaf, attention, left-out or gradient.
        target: The class that is explained.

    Returns:
        Scores `[G]`, and the evidence of every pattern for every class `[G, C]`.
    """
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
    """Banzhaf values `[G, C]`: the coefficients of the linear function of which patterns there are that comes nearest
    to the evidence, over random halves. Each half comes with what it leaves out, which makes the estimate steadier.
    """
    random = np.random.default_rng(bag.predictor.tokenizer.seed)
    half = random.random((max(FEWEST, PER_PATTERN * len(groups)) // 2, len(groups))) < 0.5
    present = torch.from_numpy(np.concatenate([half, ~half]))  # (S, G)
    weight = present[:, torch.from_numpy(find_owners(groups, len(bag)))].float()
    measured = bag.measure(bag.logits(weight))  # (S, C)
    signs = present.double() - 0.5
    lean = signs.T @ signs + _RIDGE * len(signs) * torch.eye(len(groups), dtype=torch.float64)
    return np.asarray(torch.linalg.solve(lean, signs.T @ (measured - measured.mean(0))))


def rank_groups(scores: NDArray, groups: Sequence[Group]) -> NDArray[np.int64]:
    """Places of the patterns, the highest score first; of equal ones the smaller, then the first met."""
    sizes = np.array([len(group.nodes) for group in groups])
    return np.lexsort((np.arange(len(groups)), sizes, -scores))


def weigh_edges(groups: Sequence[Group], scores: NDArray) -> dict[tuple[int, int], float]:
    """How much the patterns over each edge count together; those that speak against the answer count nothing."""
    weights: dict[tuple[int, int], float] = {}
    for group, score in zip(groups, scores, strict=True):
        for edge in group.edges:
            weights[edge] = weights.get(edge, 0.0) + max(float(score), 0.0)
    return weights
