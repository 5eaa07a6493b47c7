"""The model card names what is predicted."""

from __future__ import annotations

from typing import Any

import pytest

from gpm.run.model_card import _describe_prediction, _name_outputs
from tests.small_runs import run_of


@pytest.mark.parametrize(
    ("facts", "outputs", "said"),
    [
        ({"kind": "classes"}, [], "the class, with probabilities"),
        (
            {"kind": "classes", "class_names": ["a", "b`\n``c"], "target_names": ["health"]},
            ["", "It tells apart `a`, `b' ''c`."],
            "health, with probabilities",
        ),
        ({"kind": "values", "target_names": ["logp"]}, [], "logp, with an interval"),
        ({"kind": "values", "target_names": ["a", "b"]}, ["", "It predicts `a`, `b`."], "the number, with an interval"),
        (
            {"kind": "classes", "multilabel": True, "target_names": ["a", "b"]},
            ["", "It predicts `a`, `b`."],
            "the class, with probabilities",
        ),
    ],
)
def test_outputs_have_the_users_names(facts: dict[str, Any], outputs: list[str], said: str) -> None:
    assert _name_outputs(facts) == outputs
    assert _describe_prediction(facts) == said


def test_of_many_names_the_first_are_shown() -> None:
    (_, line) = _name_outputs({"class_names": [f"c{i}" for i in range(1_025)]})
    assert line.endswith("`c19` and 1,005 more.")


@pytest.mark.usefixtures("one_thread")
def test_a_card_says_how_to_predict() -> None:
    assert "gpm predict . -o nodes.csv   # of every node, the class, with probabilities" in (
        run_of("classes").folder / "README.md"
    ).read_text(encoding="utf-8")
