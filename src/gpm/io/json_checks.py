"""Whether values that were read from JSON are of the types they must be: a file may come from anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def is_count(value: Any) -> bool:
    """A whole number from 0 on that an array can have as its size."""
    return type(value) is int and 0 <= value < 2**48


def is_whole(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def is_number(value: Any) -> bool:
    """A finite number."""
    return type(value) in (int, float) and -1e300 < value < 1e300 and math.isfinite(value)


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def one_of(*choices: str) -> Check:
    return lambda value: isinstance(value, str) and value in choices


def list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def find_odd(values: Mapping[str, Any], checks: Mapping[str, Check]) -> str:
    """Say in half a sentence which value is not as it must be; empty if all are. What is not there is not looked at."""
    odd = (key for key, check in checks.items() if key in values and not check(values[key]))
    return next((f"{key} is {values[key]!r:.60}" for key in odd), "")
