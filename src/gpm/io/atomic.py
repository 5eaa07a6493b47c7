"""Writing files so that they are there complete or not at all; reading small ones that may come from anywhere."""

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

import yaml

from gpm.errors import GpmError

JSON_BYTES, YAML_BYTES = 64 * 2**20, 100_000  # the most that is read of a file which should be a few thousand


class WriteError(GpmError):
    """A file could not be written: the disk is full, or the place is not ours."""

    def __init__(self, path: Path, error: OSError) -> None:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = "; make room and run it again" if full else ""
        super().__init__(f"cannot write {path}: {error.strerror or error}{fix}.")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a scratch path beside a file; when the block ends well, it is synced and takes the file's place."""
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
    with suppress(OSError):
        for entry in path.parent.glob(f".{_as_pattern(path.stem)}.*"):
            owner = is_scratch(entry, path.name)
            if owner and not _is_alive(owner):
                entry.unlink(missing_ok=True)


def is_scratch(entry: Path, name: str = "") -> int:
    """The process that made a scratch file for a file of that name, or for any; 0 if it is no such file."""
    stem, suffix = (re.escape(Path(name).stem), re.escape(Path(name).suffix)) if name else (r"[\w-]+", r"\.\w+")
    found = re.fullmatch(rf"\.{stem}\.(\d+)\.[0-9a-f]{{8}}{suffix}(-wal|-shm|-journal)?", entry.name)
    return int(found[1]) if found and not entry.is_dir() else 0


def _as_pattern(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)


def _is_alive(process: int) -> bool:
    if os.name != "posix":  # elsewhere asking would end it
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
    """Make sure that what was renamed in a folder outlives a crash of the machine."""
    with suppress(OSError):  # some file systems cannot sync a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_plain(path: Path) -> None:
    """Refuse what is no plain file: a link could lead anywhere, and a pipe would never end."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        raise GpmError(f"cannot read {path}: {error.strerror}.") from None
    if stat.S_ISLNK(mode):
        raise GpmError(f"{path} is a symbolic link, which is not followed here; put the file itself in its place.")
    if not stat.S_ISREG(mode):
        raise GpmError(f"{path} is not a plain file.")


def read_json(path: Path, fix: str = "train again") -> dict[str, Any]:
    """Read a JSON file that holds an object; whatever else it holds is one sentence, with the way to mend it."""
    try:
        content = json.loads(_read_text(path, JSON_BYTES))
    except GpmError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise GpmError(f"cannot read {path} ({type(error).__name__}): it is missing or damaged; {fix}.") from None
    if not isinstance(content, dict):
        raise GpmError(f"{path} is damaged: it must hold an object; {fix}.")
    return content


class _PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML without anchors: a few lines of them can stand for more than the memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("it holds an alias (*name), which is not read here")
        return super().compose_node(parent, index)

    def construct_yaml_int(self, node: Any) -> Any:
        """A whole number; what YAML takes for one to the base of 60 is text, and one of hundreds of digits an error."""
        text = self.construct_scalar(node)
        if len(text) > 400:
            raise yaml.YAMLError("a number has more than 400 digits")
        return text if ":" in text else super().construct_yaml_int(node)


_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_yaml_int)


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML file of `key: value`; nothing in it is executed."""
    try:
        content = parse_yaml(_read_text(path, YAML_BYTES))
    except GpmError:
        raise
    except (OSError, ValueError) as error:
        raise GpmError(f"cannot read {path}: {str(error).rstrip('.')}.") from None
    if not isinstance(content, dict):
        raise GpmError(f"{path} holds no options; each line must be 'key: value'.")
    return content


def parse_yaml(text: str) -> Any:
    """The values in YAML, of which nothing is executed; raises `ValueError` with what is wrong with it in one line."""
    try:
        return yaml.load(text, _PlainLoader)  # a SafeLoader
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        raise ValueError(" ".join(str(error).split()) or type(error).__name__) from None


def _read_text(path: Path, most: int) -> str:
    path.lstat()  # one that is missing is the caller's sentence
    check_plain(path)
    if (size := path.stat().st_size) > most:
        raise GpmError(f"{path} has {size:,} bytes, more than the {most:,} that are read of such a file.")
    return path.read_text(encoding="utf-8")
