"""The verdict follows its rule, and is told on the page, in the file and on the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpm.explain.strength import FAR, LEAST, RULE, STABLE, Curve, Trust, judge
from gpm.explain.write import tell
from tests.explain.samples import make_explanation

FLAT = Curve((0.0, 0.05, 0.1, 0.5), (0.9, 0.9, 0.9, 0.9), (0.9, 0.9, 0.9, 0.9), (0.0, 0.01, 0.01, 0.01))
NONE = Curve((0.0,), (0.9,), (0.9,), (0.0,))
TRUST = Trust(FLAT, FLAT, NONE, 0.0, 0.0, STABLE, 0.5, 5)


def _moved(gap: float, spread: float = 0.01) -> Curve:
    """The best tenth is so far above random walks."""
    return replace(FLAT, top=(0.9, 0.9, 0.9 + gap, 0.9), spread=(0.0, 0.0, spread, 0.0))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "weak"),  # stable, but nothing depends on these patterns
        ({"deletion": _moved(-0.3)}, "strong"),
        ({"insertion": _moved(0.3)}, "strong"),
        ({"deletion": _moved(-0.3), "stability": STABLE - 0.01}, "moderate"),
        ({"deletion": _moved(-0.3), "stability": float("nan")}, "moderate"),
        ({"deletion": _moved(0.3)}, "weak"),  # taken out, they make it likelier: they do not carry it
        ({"insertion": _moved(-0.3)}, "weak"),
        ({"deletion": _moved(-0.3, spread=0.16)}, "weak"),  # no farther than chance
        ({"deletion": _moved(-LEAST / 2, spread=0.0)}, "weak"),  # too little
        ({"deletion": NONE, "insertion": NONE}, "weak"),
        ({"deletion": _moved(float("nan"))}, "weak"),
    ],
)
def test_the_word_follows_the_rule(changes: dict[str, Any], word: str) -> None:
    assert judge(replace(TRUST, **changes), value=False).word == word


def test_a_number_is_measured_by_the_range_that_it_moves_over() -> None:
    small = replace(TRUST, deletion=_moved(-LEAST / 4, spread=LEAST / 16))
    assert judge(small, value=True).word == "strong"
    assert judge(small, value=False).word == "weak"
    far = replace(small.deletion, top=(100.0, *small.deletion.top[1:]))
    assert judge(replace(small, deletion=far), value=True).word == "weak"
    assert judge(replace(TRUST, deletion=_moved(-0.1, spread=0.1 / FAR)), value=True).word == "weak"


def test_the_reason_says_what_was_found() -> None:
    both = replace(TRUST, deletion=_moved(-0.3), insertion=_moved(0.3), stability=0.1)
    assert judge(both, value=False).reason == (
        "The best tenth of the patterns is decisive: taken out, it lowers the prediction more than random walks do, "
        "and kept alone, it holds the prediction up more than random walks do; drawn again, the patterns' scores do "
        "not agree."
    )
    assert judge(TRUST, value=False).reason == "No test tells the best tenth of the patterns from random walks."
    assert judge(TRUST, value=False).rule == RULE


def test_it_is_in_the_file_and_on_the_terminal() -> None:
    explanation = make_explanation()
    strength = explanation.strength
    assert explanation.to_dict()["strength"]["word"] == strength.word
    assert any(line.startswith(f"{strength.word} evidence. {strength.reason}") for line in tell(explanation))
