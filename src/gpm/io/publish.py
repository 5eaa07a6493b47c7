"""Publish a folder so that it appears complete or not at all: one writer at a time, a scratch folder, then a rename.

Beside a folder NAME there may be:

- `.NAME.lock` while a process writes NAME;
- `.NAME.<process>.<random>`, the scratch folder in which NAME is made;
- `NAME.part`, the folder of an unfinished training, which can be resumed;
- `.NAME.old`, the previous NAME while it is replaced.

A killed process may leave them. The next writer removes them, and `settle` finishes a replacement that was killed
between its two renames.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from gpm.errors import GpmError
from gpm.io.atomic import WriteError, sync_folder
from gpm.io.manifest import CHECKSUMS

if sys.platform != "win32":
    import fcntl

PART, REPLACED = ".part", ".replaced"  # REPLACED is a file in a folder that is, or was to be, replaced
_MARK = ".writing"  # a file in every scratch folder: the folder may be removed


class TakenError(GpmError):
    """A folder that cannot be written: it belongs to something else, or another process is writing it."""


@contextmanager
def claiming(folder: Path) -> Iterator[None]:
    """Lock a folder for the block that makes it, see `lock_folder`.

    An `OSError` in the block becomes a `GpmError` that names the folder, and SIGTERM ends the block as an exception
    does.
    """
    try:
        with lock_folder(folder), sigterm_raises(SystemExit(128 + signal.SIGTERM)):
            yield
    except OSError as error:
        raise WriteError(folder, error) from None


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Be the only process that writes a folder; first remove what killed processes left beside it."""
    with suppress(FileExistsError):  # a file in place of the parent folder is an error of the lock below
        folder.parent.mkdir(parents=True, exist_ok=True)
    busy = f"{folder} is being written by another process; wait for it to end, or name another folder."
    with locked(folder.with_name(f".{folder.name}.lock"), busy):
        _finish_renames(folder)
        _remove_scratch(folder)
        yield


@contextmanager
def locked(lock: Path, busy: str) -> Iterator[None]:
    """Hold a lock of the operating system, which ends with the process; the file is removed afterwards.

    The file is made if necessary, and never followed if it is a link. `busy` is the error if another process holds it.
    """
    handle = _take_lock(lock, busy)
    try:
        yield
    finally:
        try:
            with suppress(OSError):
                lock.unlink()
        finally:
            os.close(handle)


def _take_lock(lock: Path, busy: str) -> int:
    for _ in range(100):
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        try:
            if not _try_lock(handle):
                raise TakenError(busy)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), lock.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # the previous holder has just removed this file
    raise TakenError(busy)


def _try_lock(handle: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # other errors come from file systems without locks: better to write without one than not at all
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


@contextmanager
def scratch_for(folder: Path) -> Iterator[Path]:
    """Make a scratch folder beside a claimed folder; it is removed after the block with all that was not published."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.{os.getpid()}.", dir=folder.parent))
    try:
        (scratch / _MARK).touch()
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def publish(made: Path, folder: Path) -> None:
    """Rename a complete folder, whose files are synced, to a claimed one; a previous folder is replaced."""
    sync_folder(made)
    replaced = not is_free(folder)
    if replaced:
        put_aside(folder)
    try:
        made.rename(folder)
    except OSError:
        if replaced:
            _bring_back(folder)
        raise
    sync_folder(folder.parent)
    _clear_aside(folder)


def settle(folder: Path) -> None:
    """Finish a replacement that was killed between its two renames; call it before a folder is read."""
    folder = folder.absolute()
    if not (_was_put_aside(folder) or _can_finish(folder)):
        return
    with suppress(GpmError), claiming(folder):  # the lock's holder is about to do the same; and we may only read
        pass
    if not folder.exists() and _was_put_aside(folder):
        raise GpmError(f"{folder} was being replaced when a process ended; rename {_aside(folder)} to it.")


def part_of(folder: Path) -> Path:
    """Return the folder in which the training of a run folder works."""
    return folder.with_name(folder.name + PART)


def is_complete(folder: Path) -> bool:
    """Return True if a run is complete: its checksums are written last."""
    return (folder / CHECKSUMS).is_file()


def is_free(folder: Path) -> bool:
    """Return True if a folder does not exist or is empty."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def put_aside(folder: Path) -> None:
    """Rename a folder that is about to be replaced, with a mark by which it is recognised."""
    _clear_aside(folder)
    (folder / REPLACED).touch()
    folder.rename(_aside(folder))


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _was_put_aside(folder: Path) -> bool:
    old = _aside(folder)
    return old.is_dir() and not old.is_symlink() and (old / REPLACED).is_file()


def _bring_back(folder: Path) -> None:
    if _was_put_aside(folder):
        _aside(folder).rename(folder)
        (folder / REPLACED).unlink(missing_ok=True)


def _clear_aside(folder: Path) -> None:
    if _was_put_aside(folder):
        shutil.rmtree(_aside(folder), ignore_errors=True)


def _can_finish(folder: Path) -> bool:
    part = part_of(folder)
    return is_complete(part) and not part.is_symlink() and is_free(folder)


def _finish_renames(folder: Path) -> None:
    if _can_finish(folder):
        part_of(folder).rename(folder)
    elif is_free(folder):
        _bring_back(folder)
    if not is_free(folder):
        _clear_aside(folder)


def _remove_scratch(folder: Path) -> None:
    made = re.compile(rf"\.{re.escape(folder.name)}\.\d+\.[a-z0-9_]{{8}}")
    for path in folder.parent.iterdir():
        if made.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            if (path / _MARK).exists():
                shutil.rmtree(path)
            else:
                with suppress(OSError):
                    path.rmdir()  # only if it is empty: else it is not a scratch folder of ours


@contextmanager
def sigterm_raises(error: BaseException) -> Iterator[None]:
    """Let SIGTERM raise an error in the block, unless it is handled already, so that unfinished work is removed."""

    def handle(*_: object) -> NoReturn:
        raise error

    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
