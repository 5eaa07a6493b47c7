"""Only content of the declared shape passes; the error names the file, the key and the fix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct

from gpm import GpmError
from gpm.io.json_schema import Count, Finite, Integer, check_json, read_checked

VALUES: list[Any] = [None, True, 0, -1, 2**48, 2**63, 1.5, math.nan, math.inf, 10**400, "a", [], [1], ["a"], {}]


def _passes(value: Any, shape: Any) -> bool:
    try:
        check_json(value, shape, Path("x.json"), "make it again")
    except GpmError:
        return False
    return True


@pytest.mark.parametrize(
    ("shape", "passing"),
    [
        (str, ["a"]), (bool, [True]), (Count, [0]), (Integer, [0, -1, 2**48]), (dict[str, Any], [{}]),
        (Finite, [0, -1, 2**48, 2**63, 1.5]), (Literal["a", "b"], ["a"]), (list[str], [[], ["a"]]),
    ],
)  # fmt: skip
def test_only_the_right_type_passes(shape: Any, passing: list[Any]) -> None:
    assert [value for value in VALUES if _passes(value, shape)] == passing


class Entry(Struct):
    size: Count


@dataclass
class Listing:
    title: str
    files: dict[str, Entry]
    more: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.title:
            raise ValueError("Its title is empty")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{}", "object missing required field title"),
        ('{"title": 3, "files": {}}', "title: expected str, got int"),
        ('{"title": "x", "files": {"a": {"size": 1}, "b": {"size": -1}}}', "files['b'].size: expected int >= 0"),
        ('{"title": "x", "files": {"a": {"size": 1}, "b": 2}}', "files['b']: expected object, got int"),
        ('{"title": "x", "files": {}, "more": [1, "a"]}', "more[1]: expected int, got str"),
        ('{"title": "", "files": {}}', "its title is empty"),
    ],
)
def test_the_file_the_key_and_the_fix_are_named(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(GpmError) as error:
        read_checked(path, Listing, "make it again")
    assert str(error.value) == f"{path} is damaged: {fault}; make it again."


def test_keys_that_are_not_declared_are_ignored_by_structs_and_refused_by_dataclasses(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"title": "x", "files": {"a": {"size": 1, "new": 2}}}')
    assert read_checked(path, Listing) == Listing("x", {"a": Entry(1)})
    path.write_text('{"title": "x", "files": {}, "new": 3}')
    with pytest.raises(GpmError, match=r"x\.json is damaged: unknown key 'new'; train again\."):
        read_checked(path, Listing)
