"""Folders that appear complete or not at all: made under another name, locked against a second maker, then renamed.

Of a folder NAME there may stand beside it: `.NAME.lock` while someone makes it, `.NAME.<process>.<random>` where it is
made, and `.NAME.old`, the folder that is being replaced. A killed process may leave them; the next one clears them, and
where the kill fell between the two renames of a replacement, it puts the old folder back.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from gpm.errors import GpmError
from gpm.io.atomic import WriteError, sync_folder
from gpm.io.locks import open_lock, try_lock

_MARK = ".writing"  # in a scratch folder: it may be removed
REPLACED = ".replaced"  # in a folder that is, or was to be, put aside


@contextmanager
def claiming(folder: Path) -> Iterator[None]:
    """Be the only one who makes a folder; also clears what killed makers of it left.

    An `OSError` in the block is a `GpmError` that names the folder, and SIGTERM ends the block as an exception does.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock, handle = _take_lock(folder)
        try:
            with _ending_in_order():
                _settle(folder)
                yield
        finally:
            with suppress(OSError):
                lock.unlink()
            os.close(handle)
    except OSError as error:
        raise WriteError(folder, error) from None


@contextmanager
def scratch_for(folder: Path) -> Iterator[Path]:
    """Give a folder beside a claimed one to work in; it is gone after the block, with all that was not published."""
    scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.{os.getpid()}.", dir=folder.parent))
    try:
        (scratch / _MARK).touch()
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def publish(made: Path, folder: Path) -> None:
    """Put a folder that was made in the scratch folder, and whose files are synced, in the place of the claimed one."""
    sync_folder(made)
    replaced = folder.exists()
    if replaced:
        put_aside(folder)
    try:
        made.rename(folder)
    except BaseException:
        if replaced:
            bring_back(folder)
        raise
    sync_folder(folder.parent)
    clear_aside(folder)


def aside(folder: Path) -> Path:
    """Where a folder that is replaced waits until the new one is in its place."""
    return folder.with_name(f".{folder.name}.old")


def put_aside(folder: Path) -> None:
    """Rename a folder that is about to be replaced; it bears a mark, by which it is known as one of ours."""
    clear_aside(folder)
    (folder / REPLACED).touch()
    folder.rename(aside(folder))


def was_put_aside(folder: Path) -> bool:
    """Whether a folder waits for its replacement; another of that name is somebody else's."""
    old = aside(folder)
    return old.is_dir() and not old.is_symlink() and (old / REPLACED).is_file()


def bring_back(folder: Path) -> None:
    """Put a folder that was put aside into its place again."""
    if was_put_aside(folder):
        aside(folder).rename(folder)
        (folder / REPLACED).unlink(missing_ok=True)


def clear_aside(folder: Path) -> None:
    """Remove a folder that was replaced."""
    if was_put_aside(folder):
        shutil.rmtree(aside(folder), ignore_errors=True)


def restore(folder: Path) -> None:
    """Before a folder is read: put it back if its replacement was killed between the two renames."""
    folder = folder.absolute()
    if folder.exists() or not was_put_aside(folder):
        return
    try:
        with claiming(folder):
            pass
    except GpmError:
        if not folder.exists():  # whoever replaces it may be done by now
            old = aside(folder)
            raise GpmError(f"{folder} was being replaced when a process ended; rename {old} to it.") from None


def _settle(folder: Path) -> None:
    if folder.exists():
        clear_aside(folder)
    else:
        bring_back(folder)
    made = re.compile(rf"\.{re.escape(folder.name)}\.\d+\.[a-z0-9_]{{8}}")
    for path in folder.parent.iterdir():
        if made.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            if (path / _MARK).exists():
                shutil.rmtree(path)
            else:
                with suppress(OSError):
                    path.rmdir()  # only if it is empty: else it is none of ours


def _take_lock(folder: Path) -> tuple[Path, int]:
    lock = folder.with_name(f".{folder.name}.lock")
    for _ in range(100):
        handle = open_lock(lock)
        try:
            if not try_lock(handle):
                raise GpmError(f"{folder} is being written by another process; wait, or name another folder.")
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), lock.stat()):
                    return lock, handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # whoever had it has just removed it
    raise GpmError(f"{folder} cannot be locked: others keep making it; name another folder.")


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Let SIGTERM raise `SystemExit`, so that what is half made is cleared."""
    mine = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if mine:
        signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        if mine:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _exit(number: int, frame: Any) -> NoReturn:
    raise SystemExit(128 + number)
