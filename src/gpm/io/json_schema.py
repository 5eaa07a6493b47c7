"""Check the content of a JSON file against a declared shape: a file may come from anywhere."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from gpm.errors import GpmError
from gpm.io.atomic import read_json

Shape = TypeVar("Shape")
Count = Annotated[int, Meta(ge=0, lt=2**48)]  # at most what an array can have as its size
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Finite = Annotated[float, Meta(gt=-1e300, lt=1e300)]


def read_checked(path: Path, shape: type[Shape], fix: str = "train again") -> Shape:
    """Read a JSON file as a dataclass or a `msgspec.Struct`; see `check_json`."""
    return check_json(read_json(path, fix), shape, path, fix)


def check_json(content: Any, shape: type[Shape], path: Path, fix: str, under: str = "") -> Shape:
    """Convert the content of a JSON file to a dataclass, a `msgspec.Struct` or a union of structs.

    A dataclass has no other keys; a struct ignores those that it does not declare. A shape adds rules of its own by
    raising `ValueError` in `__post_init__`. The error says how to fix the file, and the key that the content is under.
    """
    try:
        if is_dataclass(shape) and isinstance(content, dict):
            for key in content.keys() - {field.name for field in fields(shape)}:
                raise msgspec.ValidationError(f"Unknown key {key!r:.60}")
        return msgspec.convert(content, shape)
    except (msgspec.ValidationError, RecursionError) as error:
        raise GpmError(f"{path} is damaged: {_explain(error, content, shape, under)}; {fix}.") from None


def _explain(error: Exception, content: Any, shape: Any, under: str) -> str:
    """Return msgspec's sentence with the key in front; msgspec itself does not name the key of a mapping."""
    reason, _, where = str(error).partition(" - at `$")
    key = where.rstrip("`").removeprefix(".")
    if mapping := re.match(r"(\w+)\[\.\.\.\]", key):
        for name, value in content[mapping[1]].items():
            try:
                msgspec.convert(content | {mapping[1]: {name: value}}, shape)
            except msgspec.ValidationError as same:
                if str(same) == str(error):
                    key = key.replace("[...]", f"[{name!r:.60}]", 1)
                    break
    reason, key = reason.replace("`", "").rstrip("."), ".".join(filter(None, (under, key)))
    return f"{key}{': ' if key else ''}{reason[:1].lower()}{reason[1:]}"
