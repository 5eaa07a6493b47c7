"""Writing files so that they are there complete or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpm.errors import GpmError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a scratch path beside a file; when the block ends well, it is synced and takes the file's place."""
    scratch = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield scratch
        with scratch.open("rb") as file:
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise GpmError(f"cannot write {path}: {error.strerror or error}.") from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")
