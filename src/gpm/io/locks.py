"""Locks of the operating system, which go with the process that holds them, however that ends."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def open_lock(path: Path) -> int:
    """Open a file to be locked, which is made if it is not there, and is never a link."""
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)


def try_lock(handle: int) -> bool:
    """Lock an open file; False if another process has it."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # other errors are of file systems that know no locks: better without one than not at all
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
