"""The folder in which gpm keeps datasets and everything that it can compute again."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def data_root() -> Path:
    """Return the folder for datasets: `GPM_DATA`, or `gpm` in the user's cache folder."""
    if named := os.environ.get("GPM_DATA"):
        return Path(named).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "gpm"


def remove_oldest(folder: Path, keep: int) -> None:
    """Delete the oldest files of a cache folder until `keep` are left."""
    with suppress(OSError):
        files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for old in files[:-keep]:
            old.unlink(missing_ok=True)
