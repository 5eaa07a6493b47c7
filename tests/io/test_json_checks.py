"""Only what is of its type passes; what is odd is named."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gpm.io.json_checks import (
    Check,
    find_odd,
    is_count,
    is_flag,
    is_number,
    is_object,
    is_text,
    is_whole,
    list_of,
    one_of,
)

VALUES: list[Any] = [None, True, 0, -1, 2**48, 2**63, 1.5, math.nan, math.inf, 10**400, "a", [], [1], ["a"], {}]


@pytest.mark.parametrize(
    ("check", "passing"),
    [
        (is_text, ["a"]), (is_flag, [True]), (is_count, [0]), (is_whole, [0, -1, 2**48]), (is_object, [{}]),
        (is_number, [0, -1, 2**48, 2**63, 1.5]), (one_of("a", "b"), ["a"]), (list_of(is_text), [[], ["a"]]),
    ],
)  # fmt: skip
def test_only_the_right_type_passes(check: Check, passing: list[Any]) -> None:
    assert [value for value in VALUES if check(value)] == passing


def test_the_odd_value_is_named_and_what_is_missing_is_not() -> None:
    checks = {"a": is_text, "b": is_flag, "c": is_count}
    assert find_odd({"a": "x", "b": True}, checks) == ""
    assert find_odd({"a": "x", "b": 1, "c": -1}, checks) == "b is 1"
