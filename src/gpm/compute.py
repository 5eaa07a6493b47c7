"""Devices, threads and the allocator.

Compiled code runs on numba's threads, safely in forked children and under concurrent Python threads. The large products
of the model are divided into pieces of a fixed size, which Python threads take one after another (`share_out`): the
results have the same bits for any number of threads, and a thread whose core another process uses takes fewer pieces
instead of letting the others wait.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numba
from numba import njit

from gpm.errors import GpmError

if TYPE_CHECKING:
    from torch import Tensor

AHEAD = 16  # results that may wait for an earlier one, beside one per thread
PIECE = 1 << 17  # entries of a piece that one thread computes at a time: it stays in the cache
CHUNK = 1024  # pieces of work handed to a thread at once; fewer than that are not worth a second thread

_lock = threading.Lock()  # numba's fallback threading layer must not be entered twice
_owner = os.getpid()  # and OpenMP must not be entered in a forked child
_workers: ContextVar[int] = ContextVar("workers", default=0)  # threads of `share_out`; 0: as many as torch has
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def choose_device(name: str) -> str:
    """`auto` is the first of cuda, mps and cpu that is there; a device that is not is a mistake."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise GpmError(f"There is no device {name!r}; write auto, cpu, cuda, cuda:1 or mps.") from None
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= count.get(device.type, 0):
        raise GpmError(f"Device {name!r} is not available here; write --device auto.")
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


@contextmanager
def _torch_undisturbed() -> Iterator[None]:
    """Give torch its number of threads back: numba sets it too, where both use the same OpenMP."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch is not None else 0
    try:
        yield
    finally:
        if torch is not None and torch.get_num_threads() != before:
            torch.set_num_threads(before)


def is_owner() -> bool:
    """Whether this process loaded the package itself, rather than being forked by one that did."""
    return os.getpid() == _owner


def count_threads() -> int:
    """Numba's number of threads. The first to ask launches them, which sets torch's number."""
    with _torch_undisturbed():
        return int(numba.get_num_threads())


def usual_threads(processes: int) -> int:
    """Return the threads of each of some processes that train together: for one, torch's number (OMP_NUM_THREADS)."""
    import torch

    return torch.get_num_threads() if processes == 1 else max(1, (os.cpu_count() or 1) // processes)


def set_threads(count: int) -> None:
    """Compute with so many threads, here and in torch."""
    import torch

    numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))
    torch.set_num_threads(count)  # last: numba may just have set it


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Compute with so many threads while the block runs, here and in torch; 0 changes nothing."""
    if not count:
        yield
        return
    import torch

    before = count_threads(), torch.get_num_threads()
    set_threads(count)
    try:
        yield
    finally:
        numba.set_num_threads(before[0])
        torch.set_num_threads(before[1])


@contextmanager
def alone() -> Iterator[None]:
    """One thread in torch while the block, or the decorated function, runs: among small tensors threads mostly wait for
    each other, above all on a busy machine.
    """
    import torch

    with _torch_undisturbed():
        torch.set_num_threads(1)
        before = _workers.set(1)
        try:
            yield
        finally:
            _workers.reset(before)


@contextmanager
def steady_threads() -> Iterator[None]:
    """Give torch one thread while the block runs, and `share_out` as many as torch had.

    What is computed then has the same bits for any number of threads. Nothing waits for a thread that another process
    keeps from running, either: on a busy machine torch's own threads can be several times slower than one.
    """
    import torch

    count = _workers.get() or torch.get_num_threads()
    with alone():
        before = _workers.set(count)
        try:
            yield
        finally:
            _workers.reset(before)


def keep_steady(output: Tensor) -> None:
    """Let the backward pass from a tensor run in `steady_threads` too, whoever starts it."""

    def begin(_: Tensor) -> None:
        import torch

        if _workers.get():  # the caller's loop is steady already
            return
        held = steady_threads()
        held.__enter__()
        # torch calls this when the backward pass ends, in the same thread
        engine: Any = torch.autograd.Variable._execution_engine
        engine.queue_callback(lambda: held.__exit__(None, None, None))

    if output.requires_grad:
        output.register_hook(begin)  # type: ignore[no-untyped-call]


def rows_per_piece(width: int) -> int:
    """Return how many rows of so many entries a piece has."""
    return min(max(PIECE // max(width, 1), 256), 4096)


def share_out(function: Callable[..., Any], pieces: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the results of a function of tensors for each piece, in order, computed by this thread and others.

    Each thread has one thread of torch, as the caller has until the last result is taken. No gradient is recorded, and
    nothing is rounded to a lower precision than the tensors have.
    """
    import torch

    count = _workers.get() or torch.get_num_threads()
    with alone():
        mode = torch.inference_mode if torch.is_inference_mode_enabled() else torch.no_grad
        shared = _SharedPieces(function, pieces, mode, count)
        try:
            yield from (shared.get(index) for index in range(len(pieces)))
        finally:
            shared.stop()


class _SharedPieces:
    """Pieces of work that the calling thread and helpers take one after another, and their results."""

    def __init__(
        self, function: Callable[..., Any], pieces: Sequence[Any], mode: Callable[[], Any], threads: int
    ) -> None:
        self.function, self.pieces, self.mode, self.threads = function, pieces, mode, threads
        self.wanted, self.ahead, self.cast = min(threads, len(pieces)) - 1, threads + AHEAD, _is_cast()
        self.changed = threading.Condition()
        self.taken = self.given = self.helping = 0  # pieces taken, results given out, helpers at work
        self.results: dict[int, tuple[Any, BaseException | None]] = {}
        self.helpers: list[Future[None]] = []

    def get(self, index: int) -> Any:
        """Return a result; until another thread has computed it, compute other pieces."""
        while True:
            self._call_helpers()
            with self.changed:
                if index in self.results:
                    result, error = self.results.pop(index)
                    self.given = index + 1
                    break
            mine = self._take()
            if mine is not None:
                self._compute(mine, Exception)  # an interrupt ends the work
                continue
            with self.changed:
                self.changed.wait_for(lambda: index in self.results)
        if error is not None:
            raise error
        return result

    def stop(self) -> None:
        """Let no piece be taken any more, and wait for those that are: they may write into tensors of the caller."""
        with self.changed:
            self.taken = len(self.pieces)
        for helper in self.helpers:
            if not helper.cancel():
                helper.result()

    def _call_helpers(self) -> None:
        """Send for helpers, again if they have left because too many results waited."""
        with self.changed:
            missing = self.wanted - self.helping if self._has_room() else 0
            self.helping += missing
        for _ in range(missing):
            self.helpers.append(_find_pool(os.getpid(), self.threads - 1).submit(self._help))

    def _help(self) -> None:
        while (index := self._take(helps=True)) is not None:
            self._compute(index, BaseException)

    def _has_room(self) -> bool:
        """Return whether a piece is left and few results wait for an earlier one, so that memory does not fill."""
        return self.taken < len(self.pieces) and self.taken - self.given <= self.ahead

    def _take(self, helps: bool = False) -> int | None:
        """Return the next piece; none if there is none, or no room for its result: then a helper leaves."""
        with self.changed:
            if not self._has_room():
                self.helping -= helps
                return None
            self.taken += 1
            return self.taken - 1

    def _compute(self, index: int, caught: type[BaseException]) -> None:
        import torch

        found: tuple[Any, BaseException | None]
        try:
            with self.mode(), torch.autocast("cpu", enabled=False) if self.cast else nullcontext():
                found = self.function(*self.pieces[index]), None
        except caught as error:
            found = None, error
        with self.changed:
            self.results[index] = found
            self.changed.notify_all()


def _is_cast() -> bool:
    """Return whether torch lowers the precision here; it does so for each thread alone, and helpers have it off."""
    import torch

    return torch.is_autocast_enabled("cpu")


@functools.lru_cache(maxsize=4)
def _find_pool(process: int, count: int) -> ThreadPoolExecutor:
    """Return the threads of a process; a forked child has none of its parent's."""
    import torch

    return ThreadPoolExecutor(count, "gpm-piece", lambda: torch.set_num_threads(1))


@contextmanager
def threads_for(threads: int | None, pieces: int) -> Iterator[bool]:
    """Hold at most so many threads (None: numba's own number) while they work; gives whether to use them.

    One chunk of pieces is done alone, as is everything in a forked child.
    """
    wanted = count_threads() if threads is None else min(threads, numba.config.NUMBA_NUM_THREADS)
    if wanted <= 1 or pieces <= CHUNK or not is_owner():
        yield False
        return
    with _lock, _torch_undisturbed():
        usual = numba.get_num_threads()
        numba.set_num_threads(wanted)
        try:
            yield True
        finally:
            numba.set_num_threads(usual)


def threaded(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function whose `prange` loops run on numba's threads, or on none in a forked child."""
    parallel = njit(cache=True, parallel=True)(function)
    alone = njit(nogil=True)(function)  # not cached: numba would take the one's cache for the other's

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        if not is_owner():
            return alone(*arguments)
        with _lock, _torch_undisturbed():
            return parallel(*arguments)

    return call
