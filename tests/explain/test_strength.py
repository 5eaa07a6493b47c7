"""The verdict follows its rule, and is told on the page, in the file and on the terminal."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpm.explain.explanation import Curve, Trust
from gpm.explain.strength import FAR, LEAST, RULE, STABLE, judge
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
        ({}, "moderate"),  # stable
        ({"stability": STABLE - 0.01}, "weak"),
        ({"deletion": _moved(-0.3)}, "strong"),
        ({"insertion": _moved(0.3)}, "strong"),
        ({"deletion": _moved(-0.3), "stability": 0.1}, "moderate"),
        ({"deletion": _moved(0.3)}, "moderate"),  # taken out, they make it likelier: they do not carry it
        ({"insertion": _moved(-0.3)}, "moderate"),
        ({"deletion": _moved(-0.3, spread=0.16)}, "moderate"),  # no farther than chance
        ({"deletion": _moved(-LEAST / 2, spread=0.0)}, "moderate"),  # too little
        ({"deletion": NONE, "insertion": NONE, "stability": float("nan")}, "weak"),
        ({"deletion": _moved(float("nan"))}, "moderate"),
    ],
)
def test_the_word_follows_the_rule(changes: dict[str, Any], word: str) -> None:
    assert judge(replace(TRUST, **changes), value=False).word == word


def test_a_number_has_no_least_difference_but_that_of_chance() -> None:
    small = replace(TRUST, deletion=_moved(-LEAST / 4, spread=LEAST / 16))
    assert judge(small, value=True).word == "strong"
    assert judge(small, value=False).word == "moderate"
    assert judge(replace(TRUST, deletion=_moved(-0.1, spread=0.1 / FAR)), value=True).word == "moderate"


def test_the_reason_says_what_was_found() -> None:
    both = replace(TRUST, deletion=_moved(-0.3), insertion=_moved(0.3), stability=0.1)
    assert judge(both, value=False).reason == (
        "Without the best tenth of the patterns the prediction changes, and they alone suffice; "
        "drawn again, their scores do not agree."
    )
    assert judge(TRUST, value=False).reason == (
        "Random walks matter as much to the prediction as the best tenth of the patterns; "
        "drawn again, their scores agree."
    )
    assert judge(TRUST, value=False).rule == RULE


def test_it_is_in_the_file_and_on_the_terminal() -> None:
    explanation = make_explanation()
    strength = explanation.strength
    assert explanation.to_dict()["strength"]["word"] == strength.word
    assert any(line.startswith(f"{strength.word} evidence. {strength.reason}") for line in tell(explanation))
