"""Run folders that a verb reads from, and folders that it writes to."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpm.errors import GpmError

if TYPE_CHECKING:
    from gpm.run.run import Run

_log = logging.getLogger("gpm")


def open_run(run: Path, on: Sequence[str] = (), device: str = "auto", threads: int = 0, *, report: bool = True) -> Run:
    """Open a run on its own data or on other data, and log what training has not seen of the latter."""
    from gpm.compute import set_threads
    from gpm.config import ComputeOptions
    from gpm.run.run import Run

    ComputeOptions(device, threads)
    if threads:
        set_threads(threads)
    opened = Run.open(run, on[0] if len(on) == 1 else list(on) or None, device=device, other=bool(on))
    for sentence in opened.unseen() if report else ():
        _log.info("%s", sentence)
    return opened


def name_instances(run: Run) -> str:
    """Return what a run predicts: node, pair or graph."""
    return "pair" if run.data.level == "link" else run.data.level


def refuse(flags: dict[str, Any], reason: str) -> None:
    """Refuse the first of some flags that has a value, with the reason why it cannot be combined."""
    for flag, value in flags.items():
        if value:
            raise GpmError(reason.format(flag=flag))


@contextmanager
def writable(folder: Path) -> Iterator[Path]:
    """Make a folder, check that it can be written to before the work starts, and remove it if it stays empty."""
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise GpmError(f"{folder} cannot be written to; name another folder with -o.")
    try:
        yield folder
    finally:
        with suppress(OSError):
            folder.rmdir()  # if it is empty
