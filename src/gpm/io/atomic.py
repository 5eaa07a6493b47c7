"""Write files so that they appear complete or not at all; read JSON files that may come from anywhere."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gpm.errors import GpmError

JSON_BYTES = 64 * 2**20  # the largest JSON file that is read


class WriteError(GpmError):
    """A file that could not be written: the disk is full, or the folder is not ours."""

    def __init__(self, path: Path, error: OSError) -> None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "; make room and run it again" if full else ""
        super().__init__(f"Cannot write {path}: {error.strerror or error}{fix}.")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a scratch path beside a file; if the block succeeds, it is synced and replaces the file."""
    scratch = path.with_name(f".{path.stem}.{os.getpid()}.{secrets.token_hex(4)}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _sweep(path)
        os.close(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))  # whatever is there is not ours
        yield scratch
        with scratch.open("rb") as file:
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise WriteError(path, error) from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def _sweep(path: Path) -> None:
    """Remove the scratch files that killed processes left beside a file."""
    pattern = re.sub(r"([*?[])", r"[\1]", path.stem)
    with suppress(OSError):
        for entry in path.parent.glob(f".{pattern}.*"):
            owner = is_scratch(entry, path.name)
            if owner and not _is_alive(owner):
                entry.unlink(missing_ok=True)


def is_scratch(entry: Path, name: str = "") -> int:
    """Return the process that made a scratch file for a file of that name, or for any; 0 if it is no scratch file."""
    stem, suffix = (re.escape(Path(name).stem), re.escape(Path(name).suffix)) if name else (r"[\w-]+", r"\.\w+")
    match = re.fullmatch(rf"\.{stem}\.(\d+)\.[0-9a-f]{{8}}{suffix}(-wal|-shm|-journal)?", entry.name)
    return int(match[1]) if match and not entry.is_dir() else 0


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere the question would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def write_text(path: Path, text: str) -> None:
    """Write a text file."""
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that renames in it survive a crash of the computer."""
    with suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_plain(path: Path) -> None:
    """Refuse what is not a regular file: a link could lead anywhere, and a pipe would never end."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise GpmError(f"Cannot read {path}: {error.strerror}.") from None
    if stat.S_ISLNK(mode):
        raise GpmError(f"{path} is a symbolic link, which is not followed here; replace it by the file itself.")
    if not stat.S_ISREG(mode):
        raise GpmError(f"{path} is not a plain file.")


def read_json(path: Path, fix: str = "train again") -> dict[str, Any]:
    """Read a JSON file that holds an object; `fix` tells the user what to do about a damaged file."""
    try:
        path.lstat()  # a missing file is an OSError
        check_plain(path)
        if (size := path.stat().st_size) > JSON_BYTES:
            raise GpmError(f"{path} has {size:,} bytes, more than the {JSON_BYTES:,} that are read of such a file.")
        content = json.loads(path.read_text(encoding="utf-8"))
    except GpmError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise GpmError(f"Cannot read {path} ({type(error).__name__}): it is missing or damaged; {fix}.") from None
    if not isinstance(content, dict):
        raise GpmError(f"{path} is damaged: it must hold an object; {fix}.")
    return content
