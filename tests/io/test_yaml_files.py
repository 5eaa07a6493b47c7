"""YAML from anywhere: plain values, or one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpm import GpmError
from gpm.io.yaml_files import parse_yaml, read_options

BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BOMB, "line 1: a word that begins with '&', '\\*' or '!' must be in quotes"),
        ("a: &x\n  b: 1\nc:\n  <<: *x\n", "line 1: a word that begins with"),
        ("x: " + "[" * 5_000, "line 1: nested too deep"),
        ("x: !!python/object/apply:os.system [true]", "line 1: a word that begins with"),
        ("x: 2024-13-45", r"'2024-13-45' cannot be read \(month must be in 1\.\.12"),
        ("? [a]\n: b", "a key must be a word, not a list"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' is there twice"),
        ("- 1", "holds no options; each line must be 'key: value'"),
        ("", "holds no options"),
        (b"\xff\xfe\xff", "is not UTF-8 text"),
        ("x: " + "y" * 2**20, "has more than 100,000 bytes"),
        ("x: " + "1" * 5_000, "a number has more than 400 digits"),
    ],
)
def test_yaml_that_is_none_is_one_sentence(tmp_path: Path, content: str | bytes, said: str) -> None:
    (tmp_path / "x.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(GpmError, match=rf"x\.yaml.*{said}"):
        read_options(tmp_path / "x.yaml")


def test_keys_are_text_and_list_members_too_where_asked() -> None:
    text = "1:30: [no, 1:30, 7]\nb: 1:30\nc: true\n"
    assert parse_yaml(text, "x") == {"1:30": [False, "1:30", 7], "b": "1:30", "c": True}
    assert parse_yaml(text, "x", verbatim=True) == {"1:30": ["no", "1:30", "7"], "b": "1:30", "c": True}
