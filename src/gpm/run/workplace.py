"""The life of a run folder: a training works in RUN.part, locked and to be gone on with, which is renamed when whole.

Whatever is killed whenever, RUN is either not there, or the old run, or the new one; see `settle` for the one moment
between two renames.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from gpm.errors import GpmError
from gpm.io.atomic import WriteError, is_scratch, sync_folder
from gpm.io.locks import open_lock, try_lock
from gpm.io.manifest import CHECKSUMS, LATER, read_checksums, write_checksums
from gpm.io.publish import REPLACED, bring_back, clear_aside, put_aside, was_put_aside
from gpm.run.request import PLAN, Plan

PART, LOCK = ".part", ".lock"
_CONFIG = "config.yaml"


class TakenError(GpmError):
    """A folder that cannot be trained into: another's, or in use."""


def part_of(folder: Path) -> Path:
    """Where the training of a run folder works."""
    return folder.with_name(folder.name + PART)


def target_of(folder: Path) -> Path:
    """The run folder that a name means, which may be that of its unfinished training."""
    return folder.with_name(folder.name.removesuffix(PART)) if folder.name != PART else folder


def is_complete(folder: Path) -> bool:
    """Whether all of a run is there: its checksums are written last."""
    return (folder / CHECKSUMS).is_file()


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's, or of several seeds, finished or not."""
    named = (folder / name for name in (_CONFIG, PLAN))
    return any(path.is_file() for path in (*named, *folder.glob(f"seed-*/{_CONFIG}")))


def find_place(out: Path) -> Path:
    """The folder that a training may make; refused if it is none that can be renamed to."""
    folder = out.resolve() if out.is_symlink() else out
    if folder.name in ("", "..") or (folder.exists() and folder.resolve() == Path.cwd()):
        raise TakenError(f"{out} is the folder you are in, or above it; name a new folder for the run.")
    if folder.name.endswith(PART):
        raise TakenError(f"{out}: names that end in {PART} are for unfinished trainings; leave {PART} out.")
    if folder.is_mount():
        raise TakenError(f"{out} is a mount point, which cannot be renamed to; name a folder below it.")
    return folder


def settle(folder: Path) -> None:
    """Finish what a kill between two renames left: the whole run under its other name, or the old one put aside."""
    part = part_of(folder)
    if not (was_put_aside(folder) or (is_complete(part) and _is_free(folder))):
        return
    with suppress(GpmError, OSError):  # whoever holds the lock is about to do the same; and we may only read
        lock = _lock(part)
        try:
            if is_complete(part) and _is_free(folder):
                part.rename(folder)
                _unlock_published(folder)
            elif _is_free(folder):
                bring_back(folder)
            clear_aside(folder)
            if _is_empty(part, but=LOCK):
                shutil.rmtree(part)
        finally:
            os.close(lock)


class Workplace:
    """`RUN.part`, locked for one plan; leave it by `publish`, or as it is, to be gone on with.

    Args:
        folder: The run folder to be, see `find_place`.
        plan: What is to be done there.

    Attributes:
        part: Where to work.
        begun: Whether there is an unfinished training of this very plan.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        settle(folder)
        if not _is_free(folder) and not plan.overwrite:
            raise TakenError(f"{folder} exists; name another folder, or add --overwrite to replace it.")
        if not _is_free(folder):
            check_replaceable(folder)
        self._published = False
        self.folder, self.part, self.plan = folder, part_of(folder), plan
        self._handle = _lock(self.part)
        try:
            self.begun = self._take_over()
        except BaseException:
            try:
                self._step_back()
            finally:
                os.close(self._handle)
            raise

    def _step_back(self) -> None:
        """Leave no trace in a folder that is another's, or nobody's."""
        with suppress(OSError):
            if not (self.part / PLAN).exists():
                (self.part / LOCK).unlink()
                self.part.rmdir()

    def _take_over(self) -> bool:
        """Look at what is there: go on with the same training, or clear what may be cleared."""
        _tidy(self.part, PLAN)
        if not (self.part / PLAN).is_file():
            if not _is_empty(self.part, but=LOCK):
                raise TakenError(f"{self.part} is there and is no training's, for which its name is needed; move it.")
            self._begin()
            return False
        try:
            kept = Plan.read(self.part)
        except GpmError:
            if not self.plan.overwrite:
                raise
            self._begin()
            return False
        differs = kept.difference(self.plan)
        if not differs and (kept.overwrite or not self.plan.overwrite):
            _refuse_links(self.part)
            _tidy(self.part)
            self.plan.write(self.part)  # the rest of it may be new
            return True
        if not self.plan.overwrite:
            raise TakenError(
                f"{self.part} holds an unfinished training of another kind: there {differs}; gpm train --resume "
                f"{self.folder} goes on with it, --overwrite starts anew, or name another folder."
            )
        self._begin()
        return False

    def _begin(self) -> None:
        """Clear the folder: the checksums first, so that it is never taken for whole, and the plan last."""
        for path in sorted(self.part.iterdir(), key=lambda path: (path.name != CHECKSUMS, path.name == PLAN)):
            if path.name != LOCK:
                _remove(path)
        self.plan.write(self.part)

    def publish(self) -> None:
        """Sync all, write the checksums, and put the folder in its place."""
        if not is_complete(self.part):
            write_checksums(self.part)
        try:
            if not _is_free(self.folder):
                if not self.plan.overwrite:
                    raise TakenError(
                        f"{self.folder} was made by someone else meanwhile; move it away, then gpm train --resume "
                        f"{self.folder} puts the finished run there."
                    )
                put_aside(self.folder)
            self.part.rename(self.folder)
            self._published = True
        except OSError as error:
            raise WriteError(self.folder, error) from None
        _unlock_published(self.folder)
        sync_folder(self.folder.parent)
        clear_aside(self.folder)

    def close(self) -> None:
        """Give the lock back; where nothing was begun, nothing stays."""
        try:
            ours = not self._published and (self.part / PLAN).is_file() and not is_complete(self.part)
            if ours and not any(self.part.rglob(_CONFIG)):
                shutil.rmtree(self.part, ignore_errors=True)
        finally:
            os.close(self._handle)

    def __enter__(self) -> Workplace:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def _lock(part: Path) -> int:
    """Take the lock of a folder, which is made if it is not there; the lock goes when the process does."""
    for _ in range(100):
        try:
            if part.is_symlink():
                raise TakenError(f"{part} is a symbolic link, which is not followed here; remove it.")
            part.mkdir(parents=True, exist_ok=True)
            handle = open_lock(part / LOCK)
        except FileNotFoundError:
            continue  # whoever had the folder has just renamed it
        except OSError as error:
            raise WriteError(part, error) from None
        try:
            if not try_lock(handle):
                raise TakenError(f"{part} is in use by another process; wait for its end, or name another folder.")
            if os.path.samestat(os.fstat(handle), (part / LOCK).stat()):
                return handle
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # it is the lock of a folder that is finished by now
    raise TakenError(f"{part} cannot be locked: it comes and goes; name another folder.")


def _unlock_published(folder: Path) -> None:
    """The lock is no part of a finished run; nobody looks for it there."""
    with suppress(OSError):
        (folder / LOCK).unlink(missing_ok=True)


def _is_free(folder: Path) -> bool:
    return not folder.exists() or _is_empty(folder)


def _is_empty(folder: Path, but: str = "") -> bool:
    return folder.is_dir() and all(path.name == but for path in folder.iterdir())


def _tidy(part: Path, name: str = "") -> None:
    """Remove what killed processes left half-written of a file, or of any."""
    for path in (*part.glob(".*"), *(() if name else part.glob("seed-*/.*"))):
        if is_scratch(path, name):
            _remove(path)


def _refuse_links(part: Path) -> None:
    """Nothing is written through a link: a folder may come from elsewhere."""
    for root, folders, files in os.walk(part):
        for name in (*folders, *files):
            if (path := Path(root) / name).is_symlink():
                raise TakenError(f"{path} is a symbolic link, which is not followed here; put the thing in its place.")


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that is no whole run, or holds what is none of a run's."""
    other = "so that it is not replaced; name another folder"
    if not is_complete(folder):
        raise TakenError(f"{folder} exists and is no run folder, {other}.")
    known = set(read_checksums(folder)) | {CHECKSUMS, *LATER}
    tops = {Path(name).parts[0] for name in known}
    for path in folder.iterdir():
        if path.name not in tops and path.name not in (LOCK, REPLACED) and not is_scratch(path):
            raise TakenError(f"{folder} also holds {path.name}, which is none of the run's, {other}.")


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise WriteError(path, error) from None
