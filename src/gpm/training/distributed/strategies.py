"""Strategies that keep the models of ranks equal: averaged gradients (DDP) or sharded weights (FSDP)."""

# Without postponed annotations: torch looks at those of the hook.
import time
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from torch import Tensor, nn

from gpm.training.batches import Times
from gpm.training.distributed.ranks import World


def make_strategy(name: str, world: World, device: str, times: Times) -> Strategy | str:
    """Return Lightning's strategy, ddp or fsdp; the time of communication is added to `times`."""
    if world.size == 1:
        return "auto"
    if name == "fsdp":
        return ModelParallelStrategy(
            data_parallel_size=world.size, tensor_parallel_size=1, save_distributed_checkpoint=False
        )
    return TimedDDP(times, "nccl" if device.startswith("cuda") else "gloo")


def shard(model: nn.Module, mesh: Any) -> None:
    """Keep the shard of this rank of every weight; a layer is gathered while it is computed."""
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for layer in model.machine.layers:  # type: ignore[union-attr]
        fully_shard(layer, mesh=mesh)
        for name in ("forward_mean", "forward_class"):
            register_fsdp_forward_method(layer, name)
    fully_shard(model, mesh=mesh)


def put_together(model: nn.Module, whole: nn.Module) -> None:
    """Copy the weights of a sharded model into a whole one; all ranks call this at once."""
    with torch.no_grad():
        for piece, value in zip(model.state_dict().values(), whole.state_dict().values(), strict=True):
            full: Any = getattr(piece, "full_tensor", lambda piece=piece: piece)()
            value.copy_(full)


class TimedDDP(DDPStrategy):
    """DDP that notes the time of averaging gradients, including the wait for slower ranks.

    The ranks begin with equal weights and statistics, so that none are sent.
    """

    def __init__(self, times: Times, backend: str) -> None:
        super().__init__(process_group_backend=backend, broadcast_buffers=False, gradient_as_bucket_view=True)
        self.times = times

    def configure_ddp(self) -> None:
        super().configure_ddp()
        assert self.model is not None
        self.model.register_comm_hook(self.times, average)  # type: ignore[operator]


def average(times: Times, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """Average the gradients of a bucket over ranks, and note the time."""
    began = time.perf_counter()
    values = bucket.buffer().div_(dist.get_world_size())
    work: Any = dist.all_reduce(values, async_op=True).get_future()

    def note(future: Any) -> Tensor:
        times.add({"communicating": time.perf_counter() - began})
        values: Tensor = future.value()[0]
        return values

    averaged: torch.futures.Future[Tensor] = work.then(note)
    return averaged
