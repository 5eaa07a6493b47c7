"""How far to believe an explanation: its tests, and the verdict that they give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

STABLE = 0.8  # mean cosine of the scores of two draws from which patterns are stable
FAR = 2.0  # standard deviations of random walks by which the best patterns must differ from them
LEAST = 0.02  # of a probability by which they must differ
LEAST_PART = 0.05  # of a number: share of the range that the test moves it over
TENTH = 0.1  # of the patterns, which the tests take out or keep
RULE = (
    "Strong: the best patterns are decisive and stable; moderate: decisive alone; weak: not decisive. Decisive: taking "
    "the best tenth of the patterns out lowers the prediction, or keeping nothing else holds it up, more than random "
    f"walks do, by {FAR:g} standard deviations and, of a probability, {100 * LEAST:.0f} points. Stable: when all "
    f"patterns are drawn again, their scores agree (mean cosine at least {STABLE})."
)

Word = Literal["strong", "moderate", "weak"]


@dataclass(frozen=True)
class Curve:
    """The prediction as patterns are left out (deletion) or put in (insertion), the best first."""

    share: tuple[float, ...]  # of the patterns; for edges, the number of patterns whose edges are forbidden
    top: tuple[float, ...]  # the prediction of the explained class
    random: tuple[float, ...]  # its mean with random walks instead, as many of every length; for edges, random patterns
    spread: tuple[float, ...]  # the standard deviation of that over draws


@dataclass(frozen=True)
class Trust:
    """Measures of how far an explanation can be trusted."""

    deletion: Curve  # patterns left out, the highest scores first
    insertion: Curve  # patterns put in
    edges: Curve  # the edges of the best patterns forbidden to the walks, which are drawn again
    drop: float  # fall of the prediction without the best tenth of the patterns
    random_drop: float  # the mean fall without as many random walks of every length
    stability: float  # agreement of the best patterns' scores when all are drawn again: mean cosine over pairs of draws
    overlap: float  # share of the best patterns that two draws have in common, of those that either has
    draws: int  # number of such draws


@dataclass(frozen=True)
class Strength:
    """A verdict in one word, with its reason and the rule."""

    word: Word
    reason: str
    rule: str = RULE


def judge(trust: Trust, *, value: bool) -> Strength:
    """Judge by the measures of an explanation, of a predicted number (`value`) or of a probability."""
    stable = math.isfinite(trust.stability) and trust.stability >= STABLE
    needed, enough = _differs(trust.deletion, -1, value), _differs(trust.insertion, 1, value)
    found = [
        *(["taken out, it lowers the prediction more than random walks do"] if needed else []),
        *(["kept alone, it holds the prediction up more than random walks do"] if enough else []),
    ]
    if not found:
        return Strength("weak", "No test tells the best tenth of the patterns from random walks.")
    again = f"drawn again, the patterns' scores {'agree' if stable else 'do not agree'}"
    told = f"The best tenth of the patterns is decisive: {', and '.join(found)}; {again}."
    return Strength("strong" if stable else "moderate", told)


def _differs(curve: Curve, sign: int, value: bool) -> bool:
    """Return whether the best tenth differs from random walks: below (-1) or above (1) them by enough."""
    at = next((i for i, share in enumerate(curve.share) if share >= TENTH - 1e-4), None)
    if at is None:
        return False
    gap, points = sign * (curve.top[at] - curve.random[at]), [*curve.top, *curve.random]
    least = LEAST_PART * (max(points) - min(points)) if value else LEAST
    return math.isfinite(gap) and gap > FAR * curve.spread[at] and gap >= least and gap > 0
