"""The verdict on an explanation: how strong the evidence is that the prediction rests on the patterns it names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpm.explain.explanation import Curve, Trust

STABLE = 0.8  # mean cosine of the scores of two draws from which patterns are stable
FAR = 2.0  # standard deviations of random walks by which the best patterns must differ from them
LEAST = 0.02  # of a probability by which they must differ
TENTH = 0.1  # of the patterns, which the tests take out or keep
RULE = (
    "Strong: the best patterns are decisive and stable; moderate: one of the two; weak: neither. Decisive: without the "
    "best tenth of the patterns, or with nothing else, the prediction differs from that with random walks by "
    f"{FAR:g} standard deviations and, of a probability, {LEAST:.0%}. Stable: when all patterns are drawn again, their "
    f"scores agree (mean cosine at least {STABLE})."
)

Word = Literal["strong", "moderate", "weak"]


@dataclass(frozen=True)
class Strength:
    """A verdict in one word, with its reason and the rule."""

    word: Word
    reason: str
    rule: str = RULE


def judge(trust: Trust, *, value: bool) -> Strength:
    """Judge by the measures of an explanation, of a predicted number (`value`) or of a probability."""
    stable = math.isfinite(trust.stability) and trust.stability >= STABLE
    least = 0.0 if value else LEAST
    needed = _differs(trust.deletion, least, sign=-1)
    enough = _differs(trust.insertion, least, sign=1)
    words: tuple[Word, Word, Word] = ("weak", "moderate", "strong")
    reason = (
        "Without the best tenth of the patterns the prediction changes, and they alone suffice" if needed and enough
        else "Without the best tenth of the patterns the prediction changes" if needed
        else "The best tenth of the patterns alone suffice for the prediction" if enough
        else "Random walks matter as much to the prediction as the best tenth of the patterns"
    )  # fmt: skip
    again = "agree" if stable else "do not agree"
    return Strength(words[stable + (needed or enough)], f"{reason}; drawn again, their scores {again}.")


def _differs(curve: Curve, least: float, sign: int) -> bool:
    """Return whether the best tenth differs from random walks: below (-1) or above (1) them by enough."""
    at = next((i for i, share in enumerate(curve.share) if share >= TENTH - 1e-4), None)
    if at is None:
        return False
    gap = sign * (curve.top[at] - curve.random[at])
    return math.isfinite(gap) and gap > FAR * curve.spread[at] and gap >= least and gap > 0
