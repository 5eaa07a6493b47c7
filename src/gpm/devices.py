"""Where to compute, and how memory is handed out there."""

from __future__ import annotations

import ctypes
import sys

import torch

from gpm.errors import GpmError

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def choose_device(name: str) -> str:
    """`auto` is the first of cuda, mps and cpu that is there; a device that is not is a mistake."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise GpmError(f"there is no device {name!r}; write auto, cpu, cuda, cuda:1 or mps.") from None
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= count.get(device.type, 0):
        raise GpmError(f"device {name!r} is not available here; write --device auto.")
    return "cpu" if device.type == "cpu" else name


def keep_memory() -> None:
    """Let glibc keep what is freed: each step asks for the same blocks, and fresh pages cost 5 to 30% of its time."""
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except OSError:  # not glibc
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)
