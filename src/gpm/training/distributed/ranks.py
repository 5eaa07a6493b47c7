"""Ranks: processes that train one model together. Rank 0 alone decides and writes; the others follow it.

`launch` starts them on this computer, or as its share of several, through torch's elastic agent; `torchrun -m gpm train
...` does the same from outside. Either way the environment tells each rank which one it is.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gpm.errors import GpmError

TIMEOUT = timedelta(minutes=30)  # after which a rank that does not answer in a step is taken for dead
PATIENCE = timedelta(days=30)  # for the work of rank 0 alone: an import, positions of a large graph
_ELASTIC = ("torch.distributed.elastic", "torch.distributed", "torch.multiprocessing.spawn", "torchelastic-events-null")
_log = logging.getLogger("gpm")


class LostError(GpmError):
    """Another rank ended; what was saved can be resumed."""


@dataclass(frozen=True)
class World:
    """The ranks that train together, seen from one of them."""

    rank: int = 0  # of this process
    size: int = 1  # number of ranks
    local_rank: int = 0  # the same on this computer
    local_size: int = 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def share(self, value: Any = None) -> Any:
        """Return the value of rank 0 on every rank."""
        if self.size == 1:
            return value
        held = [value]
        _call(dist.broadcast_object_list, held, src=0, device=torch.device("cpu"))
        return held[0]

    def join(self, rows: Tensor, total: int, *, everywhere: bool = True) -> Tensor:
        """Return the rows `[total, ...]` of all ranks in order, of which rank r has every `size`-th from r on."""
        if self.size == 1:
            return rows
        mine = rows.new_zeros(-(-total // self.size), *rows.shape[1:])
        mine[: len(rows)] = rows
        parts = [torch.empty_like(mine) for _ in range(self.size)] if everywhere or self.leads else None
        if everywhere:
            _call(dist.all_gather, parts, mine)
        else:
            _call(dist.gather, mine, parts, dst=0)
        return rows if parts is None else torch.stack(parts, 1).flatten(0, 1)[:total]  # their own, but for rank 0

    def add_up(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks, on the host."""
        if self.size == 1:
            return value
        total = value.detach().cpu().clone()
        _call(dist.all_reduce, total)
        return total

    def send_weights(self, model: nn.Module) -> None:
        """Give every rank the weights and statistics of rank 0."""
        for value in model.state_dict().values() if self.size > 1 else ():
            held = value.cpu().contiguous()
            _call(dist.broadcast, held, src=0)
            value.copy_(held)

    def in_turn(self, make: Callable[[], Any], wait: bool = True) -> Any:
        """Make something on rank 0 first, unless `wait` is false, so that the others find what it caches."""
        if wait and not self.leads:
            self.share()
        try:
            return make()
        finally:
            if wait and self.leads:
                self.share()

    def agree(self, fault: str = "") -> str:
        """Return the first error message of any rank on every rank; all wait for each other here."""
        if self.size == 1:
            return fault
        faults = [""] * self.size
        _call(dist.all_gather_object, faults, fault)
        return next(filter(None, faults), "")


ALONE = World()


class _State:  # of this process among the others
    control: ClassVar[Any] = None  # process group with a long timeout, for all but training steps
    ordered: ClassVar[bool] = False  # the other ranks carry out an order, and do not listen for the next


@contextmanager
def ordering() -> Iterator[None]:
    """Note that the other ranks do not listen while the block runs, nor after an error in it: they see that we end."""
    _State.ordered = True
    yield
    _State.ordered = False


def release() -> None:
    """Note that the other ranks have ended their order, and listen again."""
    _State.ordered = False


def listen() -> bool:  # whether the other ranks do
    return not _State.ordered


def _call(collective: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Call a function of all ranks; raise a LostError in place of the connection's error if another rank is gone."""
    try:
        collective(*arguments, **options, group=_State.control)
    except RuntimeError as error:
        if is_lost(error):
            raise LostError("Another rank has ended.") from None
        raise


def is_lost(error: BaseException) -> bool:
    words = ("connection", "peer", "gloo", "nccl", "timed out", "timeout", "socket")
    return isinstance(error, LostError) or (
        isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
    )


def find_world() -> World:
    """Return the ranks, and which of them this process is, as the environment tells."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    if "TORCHELASTIC_RUN_ID" not in os.environ or not all(os.environ.get(name, "").isdigit() for name in names):
        return ALONE
    return World(*(int(os.environ[name]) for name in names))


@contextmanager
def joined(device: str) -> Iterator[World]:
    """Join the other ranks while the block runs, if this process was started as one of several."""
    world = find_world()
    if world.size == 1 or dist.is_initialized():
        yield world
        return
    if not world.leads:
        _log.setLevel(logging.ERROR)
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    try:
        dist.init_process_group(backend, timeout=TIMEOUT, **_find_store(world))
    except (RuntimeError, ValueError) as error:
        raise LostError(f"Rank {world.rank} cannot reach the others ({str(error).splitlines()[0]}).") from None
    try:
        release()
        _State.control = dist.new_group(backend="gloo", timeout=PATIENCE)
        yield world
    finally:
        _State.control = None
        dist.destroy_process_group()


def _find_store(world: World) -> dict[str, Any]:
    """Return the store in which ranks find each other; restarted ranks must not find the addresses of dead ones."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or os.environ.get("GROUP_WORLD_SIZE") != "1":
        return {}
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    from torch.distributed.distributed_c10d import PrefixStore

    store = dist.TCPStore(address, port, is_master=False, timeout=TIMEOUT)  # type: ignore[attr-defined]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return {"store": PrefixStore(f"attempt-{attempt}", store), "rank": world.rank, "world_size": world.size}


def own_device(device: str, world: World) -> str:
    """Return the device of this rank: of several GPUs, the one with its local rank."""
    return f"cuda:{world.local_rank}" if device == "cuda" and world.size > 1 else device


def launch(work: Callable[..., Any], arguments: dict[str, Any], devices: int, machines: int, restarts: int) -> Any:
    """Start ranks that call a function of a module together, and return what it returns on rank 0, which must be plain.

    There are `devices` ranks on each of the `machines`, which all run the same command and reach one of them under
    MASTER_ADDR. After one rank has ended all are started again, `restarts` times.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    address = os.environ.get("MASTER_ADDR") or os.environ.get("SLURM_LAUNCH_NODE_IPADDR")
    if machines > 1 and not address:
        raise GpmError(
            f"{machines} machines must know where to meet: set MASTER_ADDR to the name of one of them, and MASTER_PORT."
        )
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")  # each attempt finds addresses of its own
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "86400")  # a rank that is told to stop ends its epoch
    config = LaunchConfig(
        min_nodes=machines, max_nodes=machines, nproc_per_node=devices, max_restarts=restarts, monitor_interval=0.2,
        run_id=os.environ.get("SLURM_JOB_ID", "gpm") if machines > 1 else f"gpm-{os.getpid()}",
        rdzv_endpoint=f"{address}:{os.environ.get('MASTER_PORT', '29400')}" if machines > 1 else "localhost:0",
        rdzv_backend="c10d", start_method="spawn",
    )  # fmt: skip
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with silenced(_ELASTIC, logging.CRITICAL):
            outcomes = elastic_launch(config, _be_rank)(work, arguments, _log.getEffectiveLevel())
    except ChildFailedError as failed:
        rank, failure = failed.get_first_failure()
        kind, sentence = _describe(failure)
        if rank == 0 and kind == "GpmError":  # an error that was found late
            raise GpmError(f"{sentence}.") from None
        raise LostError(f"Rank {rank} ended: {sentence}") from None
    except SignalException:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    state, value = outcomes.get(0, ("other", None))
    if state == "error":
        raise GpmError(value)
    if state == "stopped":
        raise KeyboardInterrupt
    return value


@contextmanager
def silenced(names: Iterable[str], level: int) -> Iterator[None]:
    """Keep loggers from printing anything below a level while the block runs."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, before in zip(loggers, levels, strict=True):
            logger.setLevel(before)


def _describe(failure: Any) -> tuple[str, str]:
    """Return the kind of the error that ended a rank, and half a sentence about it."""
    content = (failure.error_file_data or {}).get("message", "")
    content = content if isinstance(content, dict) else {"message": str(content)}
    kind, _, sentence = str(content.get("message", "")).partition(": ")
    if failure.exitcode < 0:
        return kind, f"signal {signal.Signals(-failure.exitcode).name} ended it"
    if kind in ("GpmError", "LostError", "WriteError", "TakenError"):
        return kind, sentence.rstrip(".")
    if trace := content.get("extraInfo", {}).get("py_callstack"):  # a bug, to be reported
        _log.error("%s", trace)
    return kind, f"{kind}: {sentence}".rstrip(". :") or f"exit code {failure.exitcode}"


def _be_rank(work: Callable[..., Any], arguments: dict[str, Any], level: int) -> tuple[str, Any]:
    """Work as a started rank. An error that rank 0 finds is returned, and is no failure of the process."""
    logging.basicConfig(format="%(message)s")
    _log.setLevel(level)
    try:
        return "done", work(**arguments)
    except LostError:
        raise
    except GpmError as error:
        if not (find_world().leads and listen()):
            raise
        return "error", str(error)
    except KeyboardInterrupt:
        return "stopped", None
