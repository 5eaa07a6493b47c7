"""How ranks keep their models equal: gradients averaged (DDP), or weights kept in pieces (FSDP)."""

# Without postponed annotations: torch looks at those of the hook.
import time
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy, Strategy
from torch import Tensor

from gpm.batches import Times
from gpm.ranks import World


def make_strategy(name: str, world: World, device: str, times: Times, sparing: bool = False) -> Strategy | str:
    """Lightning's strategy for so many ranks.

    Args:
        name: ddp or fsdp.
        world: The ranks.
        device: Where they compute.
        times: What communication takes is noted there.
        sparing: A batch may leave parameters out: those of edge features, where no edge was crossed.
    """
    if world.size == 1:
        return "auto"
    return TimedDDP(times, "nccl" if device.startswith("cuda") else "gloo", sparing)


class TimedDDP(DDPStrategy):
    """DDP that notes how long gradients take to be averaged, waiting for slower ranks included.

    The ranks begin with equal weights and statistics, so that none are sent.
    """

    def __init__(self, times: Times, backend: str, sparing: bool) -> None:
        super().__init__(
            process_group_backend=backend, find_unused_parameters=sparing, broadcast_buffers=False,
            gradient_as_bucket_view=True,
        )  # fmt: skip
        self.times = times

    def configure_ddp(self) -> None:
        super().configure_ddp()
        assert self.model is not None
        self.model.register_comm_hook(self.times, average)  # type: ignore[operator]


def average(times: Times, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """Average the gradients of a bucket over ranks, and note how long that takes."""
    began = time.perf_counter()
    values = bucket.buffer().div_(dist.get_world_size())
    work: Any = dist.all_reduce(values, async_op=True).get_future()

    def note(future: Any) -> Tensor:
        times.add({"communicating": time.perf_counter() - began})
        found: Tensor = future.value()[0]
        return found

    averaged: torch.futures.Future[Tensor] = work.then(note)
    return averaged
