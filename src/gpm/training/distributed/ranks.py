"""Ranks: processes that train one model together. Rank 0 leads: it alone decides and writes; the others do as it says.

`launch` starts them on this machine, or as this machine's share of several, through torch's elastic agent; `torchrun -m
gpm train ...` does the same from outside. Either way each rank finds in its environment who it is.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gpm.errors import GpmError

TIMEOUT = timedelta(minutes=30)  # after which a rank that does not answer in a step is taken for dead
PATIENCE = timedelta(days=30)  # for what rank 0 does by itself: an import, positions of a large graph
_PORT = "29400"
_log = logging.getLogger("gpm")


class LostError(GpmError):
    """Another rank ended; what was saved can be gone on with."""


@dataclass(frozen=True)
class World:
    """Who trains together.

    Attributes:
        rank: Which of them this process is, from 0.
        size: How many there are.
        local_rank, local_size: The same on this machine.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this is the rank that decides and writes."""
        return self.rank == 0

    def share(self, value: Any = None) -> Any:
        """What rank 0 gives, on every rank."""
        if self.size == 1:
            return value
        held = [value]
        with _watching():
            dist.broadcast_object_list(held, src=0, device=torch.device("cpu"), group=_state.control)
        return held[0]

    def join(self, rows: Tensor, total: int, *, everywhere: bool = True) -> Tensor:
        """The rows `[total, ...]` of all ranks, of which rank r has every `size`-th from r on; the order is kept.

        Nothing is added for ranks that have a row less: what is scored is exactly what there is.

        Args:
            rows: Ours, on the host.
            total: How many there are in all.
            everywhere: On every rank; else on rank 0 alone, and elsewhere ours come back.
        """
        if self.size == 1:
            return rows
        longest = -(-total // self.size)
        mine = rows.new_zeros(longest, *rows.shape[1:])
        mine[: len(rows)] = rows
        wanted = everywhere or self.leads
        parts = [torch.empty_like(mine) for _ in range(self.size)] if wanted else None
        with _watching():
            if everywhere:
                dist.all_gather(parts, mine, group=_state.control)
            else:
                dist.gather(mine, parts, dst=0, group=_state.control)
        if parts is None:
            return rows
        return torch.stack(parts, 1).flatten(0, 1)[:total]

    def add_up(self, value: Tensor) -> Tensor:
        """The sum of a tensor over all ranks, on the host."""
        if self.size == 1:
            return value
        total = value.detach().cpu().clone()
        with _watching():
            dist.all_reduce(total, group=_state.control)
        return total

    def send_weights(self, model: nn.Module) -> None:
        """Give every rank the weights and statistics of rank 0."""
        for value in model.state_dict().values() if self.size > 1 else ():
            held = value.cpu().contiguous()
            with _watching():
                dist.broadcast(held, src=0, group=_state.control)
            value.copy_(held)

    def in_turn(self, make: Callable[[], Any], wait: bool = True) -> Any:
        """Make something on rank 0 first, if we are to wait, so that the others find what it keeps."""
        if self.size == 1 or not wait:
            return make()
        if not self.leads:
            self.share()
            return make()
        try:
            return make()
        finally:
            self.share()

    def agree(self, fault: str = "") -> str:
        """The first fault that any rank has found, on every rank; all wait for each other here."""
        if self.size == 1:
            return fault
        faults: list[str] = [""] * self.size
        with _watching():
            dist.all_gather_object(faults, fault, group=_state.control)
        return next(filter(None, faults), "")


ALONE = World()


class _State:
    """Of this process among the others.

    Attributes:
        control: The group for what is not a training step, which has patience.
        ordered: The other ranks carry out an order, and do not listen for the next.
    """

    control: Any = None
    ordered = False


_state = _State()


@contextmanager
def ordering() -> Iterator[None]:
    """While the block runs, and after an error in it, the other ranks do not listen: they see that we end."""
    _state.ordered = True
    yield
    _state.ordered = False


def release() -> None:
    """The other ranks have ended what they were told, and listen again."""
    _state.ordered = False


def listen() -> bool:
    """Whether the other ranks listen."""
    return not _state.ordered


@contextmanager
def _watching() -> Iterator[None]:
    """Say in one sentence that another rank is gone, in place of what the connection said."""
    try:
        yield
    except RuntimeError as error:
        if is_lost(error):
            raise LostError("another rank has ended.") from None
        raise


def is_lost(error: BaseException) -> bool:
    """Whether an error means that another rank is gone."""
    words = ("connection", "peer", "gloo", "nccl", "timed out", "timeout", "socket")
    return isinstance(error, LostError) or (
        isinstance(error, RuntimeError) and any(word in str(error).lower() for word in words)
    )


def find_world() -> World:
    """Who we are, as whoever started us says in the environment."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    if "TORCHELASTIC_RUN_ID" not in os.environ or not all(os.environ.get(name, "").isdigit() for name in names):
        return ALONE
    return World(*(int(os.environ[name]) for name in names))


@contextmanager
def joined(device: str) -> Iterator[World]:
    """Be one of the ranks that we were started as, while the block runs; alone if we were started alone."""
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
        raise LostError(f"rank {world.rank} cannot reach the others ({str(error).splitlines()[0]}).") from None
    try:
        release()
        _state.control = dist.new_group(backend="gloo", timeout=PATIENCE)
        yield world
    finally:
        _state.control = None
        dist.destroy_process_group()


def _find_store(world: World) -> dict[str, Any]:
    """Where ranks find each other's addresses: of ranks that were started again, not those of the dead."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True" or os.environ.get("GROUP_WORLD_SIZE") != "1":
        return {}
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    from torch.distributed.distributed_c10d import PrefixStore

    store = dist.TCPStore(address, port, is_master=False, timeout=TIMEOUT)  # type: ignore[attr-defined]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return {"store": PrefixStore(f"attempt-{attempt}", store), "rank": world.rank, "world_size": world.size}


def own_device(device: str, world: World) -> str:
    """The device of this rank: of several of a kind, the one with its number."""
    return f"cuda:{world.local_rank}" if device == "cuda" and world.size > 1 else device


def launch(work: Callable[..., Any], arguments: dict[str, Any], devices: int, machines: int, restarts: int) -> Any:
    """Start ranks that do some work together, and return what rank 0 returns.

    Args:
        work: What each rank calls, a function of a module. What it returns on rank 0 must be plain.
        arguments: Its arguments.
        devices: Ranks on this machine.
        machines: How many machines take part, each by the same command; one of them is reached by all under
            MASTER_ADDR.
        restarts: How many times all ranks are started again after one has ended.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    address = os.environ.get("MASTER_ADDR") or os.environ.get("SLURM_LAUNCH_NODE_IPADDR")
    if machines > 1 and not address:
        raise GpmError(
            f"{machines} machines must know where to meet: set MASTER_ADDR to the name of one of them, and MASTER_PORT."
        )
    port = os.environ.get("MASTER_PORT", _PORT)
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")  # each attempt finds addresses of its own
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "86400")  # a rank that is told to stop ends its epoch
    config = LaunchConfig(
        min_nodes=machines, max_nodes=machines, nproc_per_node=devices, max_restarts=restarts, monitor_interval=0.2,
        run_id=os.environ.get("SLURM_JOB_ID", "gpm") if machines > 1 else f"gpm-{os.getpid()}",
        rdzv_backend="c10d", rdzv_endpoint=f"{address}:{port}" if machines > 1 else "localhost:0",
        start_method="spawn",
    )  # fmt: skip
    quiet = (
        "torch.distributed.elastic",
        "torch.distributed",
        "torch.multiprocessing.spawn",
        "torchelastic-events-null",
    )
    loggers = [logging.getLogger(name) for name in quiet]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    shown = _log.getEffectiveLevel()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        found = elastic_launch(config, _be_rank)(work, arguments, shown)
    except ChildFailedError as failed:
        rank, failure = failed.get_first_failure()
        sentence = _describe(failure)
        if rank == 0 and _kind(failure) == "GpmError":  # a mistake that was found late
            raise GpmError(f"{sentence}.") from None
        raise LostError(f"rank {rank} ended: {sentence}") from None
    except SignalException:
        raise KeyboardInterrupt from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    state, value = found.get(0, ("other", None))
    if state == "error":
        raise GpmError(value)
    if state == "stopped":
        raise KeyboardInterrupt
    return value


def _content(failure: Any) -> dict[str, Any]:
    said = (failure.error_file_data or {}).get("message", "")
    content: dict[str, Any] = said if isinstance(said, dict) else {"message": str(said)}
    return {"message": ""} | content


def _kind(failure: Any) -> str:
    """The name of the error that ended a rank."""
    return str(_content(failure)["message"]).partition(": ")[0]


def _describe(failure: Any) -> str:
    """What became of a rank, in half a sentence."""
    if failure.exitcode < 0:
        return f"signal {signal.Signals(-failure.exitcode).name} ended it"
    content, kind, sentence = _content(failure), _kind(failure), str(_content(failure)["message"]).partition(": ")[2]
    if kind in ("GpmError", "LostError", "WriteError", "TakenError"):
        return sentence.rstrip(".")
    if trace := content.get("extraInfo", {}).get("py_callstack"):  # no mistake of the user's: it is to be reported
        _log.error("%s", trace)
    return f"{kind}: {sentence}".rstrip(". :") or f"exit code {failure.exitcode}"


def _be_rank(work: Callable[..., Any], arguments: dict[str, Any], level: int) -> tuple[str, Any]:
    """What a started process does. A mistake that rank 0 finds is told, and no failure of the process."""
    logging.basicConfig(format="%(message)s")
    _log.setLevel(level)
    world = find_world()
    try:
        return "done", work(**arguments)
    except LostError:
        raise
    except GpmError as error:
        if not (world.leads and listen()):
            raise
        return "error", str(error)
    except KeyboardInterrupt:
        return "stopped", None
