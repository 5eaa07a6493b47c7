import math

import pytest

from gpm import GpmError, WalkRule


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"p": 0}, "p must lie between"),
        ({"p": 1e-300}, "p must lie between"),
        ({"p": math.inf}, "p must lie between"),
        ({"p": math.nan}, "p must lie between"),
        ({"q": 1e4}, "q must lie between"),
        ({"q": -1}, "q must lie between"),
        ({"q": math.nan}, "q must lie between"),
        ({"p": 2, "non_backtracking": True}, "leave p at 1"),
    ],
)
def test_impossible_rules_are_refused(options: dict, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        WalkRule(**options)


def test_only_rules_that_look_back_are_second_order() -> None:
    assert not WalkRule().second_order
    assert all(rule.second_order for rule in (WalkRule(p=2), WalkRule(q=2), WalkRule(non_backtracking=True)))
