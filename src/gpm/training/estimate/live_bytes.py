"""Count the bytes of live tensors, and of the process that holds them."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the tensors that are made while it is on, in the backward pass too, but none that were there before."""

    now: int  # bytes that are alive
    most: int  # peak of them

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._storages: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for value in tree_leaves((args, kwargs)):
            self._note(value, made=False)
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            self._note(value, made=True)
        return result

    def _note(self, value: Any, made: bool) -> None:
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return
        storage = value.untyped_storage()
        key = storage._cdata
        if key in self._storages:
            return
        size = storage.nbytes() if made else 0
        self._storages[key] = weakref.ref(storage, lambda _: self._forget(key, size))
        self.now += size
        self.most = max(self.most, self.now)

    def _forget(self, key: int, size: int) -> None:
        self._storages.pop(key, None)
        self.now -= size


def peak_bytes() -> int:
    """Return the peak memory of this process; 0, here and below, where the system does not tell."""
    return _read("/proc/self/status", "VmHWM:")


def private_bytes() -> int:
    """Return the memory of this process, without mapped files."""
    return _read("/proc/self/status", "RssAnon:")


def available_bytes() -> int:
    """Return the memory of this computer that is free or can be freed."""
    return _read("/proc/meminfo", "MemAvailable:")


def _read(path: str, name: str) -> int:
    try:
        lines = Path(path).read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)
