"""The folder in which a training works: RUN.part, locked and resumable, published as RUN when it is complete.

Whenever a process is killed, RUN is either missing, or the old run, or the new one; see `gpm.io.publish`. `plan.json`
holds the request of a training, by which an interrupted training is recognised and resumed.
"""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpm.config import Config
from gpm.errors import GpmError
from gpm.io.atomic import WriteError, is_scratch, write_json
from gpm.io.json_schema import read_checked
from gpm.io.manifest import CHECKSUMS, LATER, read_checksums, write_checksums
from gpm.io.publish import PART, REPLACED, TakenError, is_complete, is_free, lock_folder, part_of, publish, settle

__all__ = [
    "PART", "PLAN", "Plan", "TakenError", "Workplace", "check_replaceable", "find_place", "is_complete", "is_run",
    "part_of", "settle", "target_of",
]  # fmt: skip
PLAN = "plan.json"
_CONFIG, _OLD_LOCK = "config.yaml", ".lock"  # a lock that gpm before 0.1 left in RUN.part


@dataclass(frozen=True)
class Plan:
    """What a training was asked to do. The same plan again resumes what is there."""

    config: dict[str, Any]  # the options, with those of the recipe; its seed is the first
    seeds: int  # number of trainings, with consecutive seeds
    baselines: bool  # score baselines too
    data_digest: str
    gpm: str  # the version of gpm that started the training
    recipe: dict[str, Any]  # metadata of the recipe besides its options
    overwrite: bool = False  # an existing run may be replaced
    result: str = ""  # a further file for the figures; empty for none

    def difference(self, other: Plan) -> str:
        """Return the first difference, as "lr is 0.1, not 0.2"; empty if it is the same training."""
        mine, theirs = self._compared(), other._compared()
        for key in mine | theirs:
            if mine.get(key) != theirs.get(key):
                return f"{key} is {mine.get(key)}, not {theirs.get(key)}"
        return "" if self.data_digest == other.data_digest else f"{self.config.get('data') or 'the graph'} was changed"

    def _compared(self) -> dict[str, Any]:
        options = Config.from_dict(self.config).to_dict()  # an earlier version may have had fewer
        return options | {"seeds": self.seeds, "baselines": self.baselines, "gpm's version": self.gpm}

    def write(self, folder: Path) -> None:
        """Write `plan.json`."""
        write_json(folder / PLAN, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Read `plan.json`."""
        return read_checked(folder / PLAN, cls, "train anew with --overwrite")


def target_of(folder: Path) -> Path:
    """Return the run folder that a name means, which may be that of its unfinished training."""
    return folder.with_name(folder.name.removesuffix(PART)) if folder.name != PART else folder


def is_run(folder: Path) -> bool:
    """Return True for the folder of a run, or of runs with several seeds, finished or not."""
    named = (folder / name for name in (_CONFIG, PLAN))
    return any(path.is_file() for path in (*named, *folder.glob(f"seed-*/{_CONFIG}")))


def find_place(out: Path) -> Path:
    """Return the folder that a training may write; refuse one that cannot be the target of a rename."""
    folder = out.resolve() if out.is_symlink() else out
    if folder.name in ("", "..") or (folder.exists() and folder.resolve() == Path.cwd()):
        raise TakenError(f"{out} is the folder you are in, or above it; name a new folder for the run.")
    if folder.name.endswith(PART):
        raise TakenError(f"{out}: names that end in {PART} are for unfinished trainings; leave {PART} out.")
    if folder.is_mount():
        raise TakenError(f"{out} is a mount point, which cannot be renamed to; name a folder below it.")
    return folder


class Workplace(AbstractContextManager["Workplace"]):
    """`RUN.part`, locked for one plan; leave it by `publish`, or as it is, to be resumed.

    `folder` is the run folder to be, see `find_place`, and `part` the folder to work in. `begun` is True if that holds
    an unfinished training of this very plan.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.part, self.plan, self._published = folder, part_of(folder), plan, False
        with ExitStack() as stack:
            try:
                stack.enter_context(lock_folder(folder))
                self.begun = self._take_over()
            except OSError as error:
                raise WriteError(folder, error) from None
            self._lock = stack.pop_all()

    def _take_over(self) -> bool:
        """Resume the same training, or clear the folder if that is allowed."""
        if not is_free(self.folder):
            if not self.plan.overwrite:
                raise TakenError(f"{self.folder} exists; name another folder, or add --overwrite to replace it.")
            check_replaceable(self.folder)
        if self.part.is_symlink():
            raise TakenError(f"{self.part} is a symbolic link, which is not followed here; remove it.")
        if is_free(self.part):
            return self._begin()
        _tidy(self.part, PLAN)
        if not (self.part / PLAN).is_file():
            if any(self.part.iterdir()):
                raise TakenError(f"{self.part} is not a training folder, but a training needs its name; move it.")
            return self._begin()
        try:
            previous = Plan.read(self.part)
        except GpmError:
            if not self.plan.overwrite:
                raise
            return self._begin()
        differs = previous.difference(self.plan)
        if not differs and (previous.overwrite or not self.plan.overwrite):
            _refuse_links(self.part)
            _tidy(self.part)
            self.plan.write(self.part)  # what `difference` does not compare may be new
            return True
        if not self.plan.overwrite:
            raise TakenError(
                f"{self.part} holds an unfinished training with other options: there {differs}; gpm train --resume "
                f"{self.folder} resumes it, --overwrite starts anew, or name another folder."
            )
        return self._begin()

    def _begin(self) -> bool:
        """Clear the folder: the checksums first, so that it is never taken for complete, and the plan last."""
        self.part.mkdir(exist_ok=True)
        for path in sorted(self.part.iterdir(), key=lambda path: (path.name != CHECKSUMS, path.name == PLAN)):
            _remove(path)
        self.plan.write(self.part)
        return False

    def publish(self) -> None:
        """Sync all files, write the checksums, and rename the folder to the run folder."""
        if not is_complete(self.part):
            write_checksums(self.part)
        if not is_free(self.folder) and not self.plan.overwrite:
            raise TakenError(
                f"{self.folder} was made by someone else meanwhile; move it away, then gpm train --resume "
                f"{self.folder} puts the finished run there."
            )
        try:
            publish(self.part, self.folder)
        except OSError as error:
            raise WriteError(self.folder, error) from None
        self._published = True
        self._lock.close()  # the next training may begin

    def close(self) -> None:
        """Release the lock, and remove the folder if no training has started in it."""
        try:
            unused = not self._published and (self.part / PLAN).is_file() and not is_complete(self.part)
            if unused and not any(self.part.rglob(_CONFIG)):
                shutil.rmtree(self.part, ignore_errors=True)
        finally:
            self._lock.close()

    def __exit__(self, *reason: object) -> None:
        self.close()


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that is not a complete run, or that holds other files."""
    other = "so that it is not replaced; name another folder"
    if not is_complete(folder):
        raise TakenError(f"{folder} exists and is not a run folder, {other}.")
    names = {Path(name).parts[0] for name in read_checksums(folder)} | {CHECKSUMS, *LATER, _OLD_LOCK, REPLACED}
    for path in folder.iterdir():
        if path.name not in names and not is_scratch(path):
            raise TakenError(f"{folder} also holds {path.name}, which does not belong to the run, {other}.")


def _tidy(part: Path, name: str = "") -> None:
    """Remove what killed processes left of one half-written file, or of any, and the lock of older versions."""
    for path in (*part.glob(".*"), *(() if name else part.glob("seed-*/.*"))):
        if is_scratch(path, name) or path.name == _OLD_LOCK:
            _remove(path)


def _refuse_links(part: Path) -> None:
    """Write nothing through a link: a folder may come from elsewhere."""
    if path := next((path for path in part.rglob("*") if path.is_symlink()), None):
        raise TakenError(f"{path} is a symbolic link, which is not followed here; replace it by the file itself.")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
