"""The Lightning module: training steps, validation, optimizer and schedule; strategies that keep ranks equal."""

from __future__ import annotations

import copy
import math
import time
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, Strategy
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader

from gpm.config import Config
from gpm.data.domain_data import DomainSplit
from gpm.errors import GpmError
from gpm.nn.predictor import Predictor, Predicts
from gpm.random_bits import MASK, TRAINING_STEP, make_key
from gpm.training.batches import Batch, Batches, Examples, Loader, Prepared, Times, count_batch
from gpm.training.distributed.ranks import ALONE, World

VALIDATION_SHARE = 0.25  # share of the cost of an epoch that may go to validating it
ADVERSARY = 5.0  # learning rate of the domain classifier, in units of the model's; a slower one lags behind
BACKWARD = 2.0  # cost of a backward pass, in units of a forward pass


class Learner(pl.LightningModule):
    """Trains a model on the instances of one graph or collection.

    The random bits of a step (dropout, sign flips, non-edges) are a function of (seed, step, index in the batch), its
    patterns of (seed, instance, step): a resumed run continues exactly as it would have, and ranks, parts and workers
    change nothing but the order in which gradients are added up. With `sharded` each rank keeps a shard of weights,
    gradients and the optimizer's state; the predictor's model is whole, and gets the weights for validation.
    """

    def __init__(
        self,
        predictor: Predicts,
        examples: Examples,
        config: Config,
        world: World = ALONE,
        workers: int = 0,
        sharded: bool = False,
        adaptation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.adaptation = adaptation
        self.sharded = sharded and world.size > 1
        self.model = copy.deepcopy(predictor.model) if self.sharded else predictor.model
        self.averaged = copy.deepcopy(predictor.model).requires_grad_(False) if config.average else None
        self.predictor, self.examples, self.config, self.world = predictor, examples, config, world
        self.task, self.split = examples.task, examples.split
        batches = Batches(
            len(self.split.train), count_batch(config, examples.data.level, len(self.split.train)), config.seed,
            steps=config.epoch_steps, rank=world.rank, ranks=world.size, parts=config.accumulate,
        )  # fmt: skip
        self.steps_per_epoch = batches.steps
        reader = getattr(predictor, "reader", predictor)  # what a worker needs, without the model
        self.loader = Loader(Prepared(examples, reader.prepare), batches, workers)
        self.times, self._cut = Times(), False
        self._lost, self._read, self._began = torch.zeros(()), 0, 0.0
        self._compiled = [torch.compile(self.model, dynamic=True)] if config.compile else []  # in a list: no submodule

    @property
    def final_model(self) -> nn.Module:
        """Model that is validated and kept: the averaged one, if there is one."""
        whole: nn.Module = self.predictor.model if self.sharded else self.model
        return whole if self.averaged is None else self.averaged

    @property
    def begins_fitted(self) -> bool:
        """Whether the model predicts before its first step, by a linear part."""
        expected = getattr(self.model, "expected", None)
        return expected is not None and expected.gain is not None

    def configure_model(self) -> None:
        if self.sharded and not self._cut:
            self._cut = True
            assert self.device_mesh is not None
            shard(self.model, self.device_mesh["data_parallel"])

    def train_dataloader(self) -> Loader:
        return self.loader

    def val_dataloader(self) -> DataLoader[Any]:
        """Give Lightning one step, in which `validation_step` reads all that is held out."""
        return DataLoader(range(1), batch_size=None)  # type: ignore[arg-type]

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        step = make_key(self.config.seed, TRAINING_STEP) + self.global_step * 4096
        torch.manual_seed(make_key(step & MASK) >> 1)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch.to(device) if isinstance(batch, Batch) else batch

    def on_train_epoch_start(self) -> None:
        self._lost, self._read, self._began = torch.zeros((), device=self.device), 0, time.perf_counter()

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        model: Any = self._compiled[0] if self._compiled else self.model
        self.times.add(batch.seconds)
        progress = self.global_step / (self.config.epochs * self.steps_per_epoch)
        loss, added = self.compute_loss(batch, model, progress)
        self._lost += loss.detach() * batch.terms
        self._read += batch.terms
        for name, value in added.items():
            self.log(name, value, on_step=False, on_epoch=True, batch_size=len(batch.targets))
            loss = loss + value
        # Lightning averages over ranks and parts; scaled so, that average is the mean over all instances of the step.
        pieces = self.world.size * self.config.accumulate
        return loss if pieces == 1 else loss * (batch.share * pieces)

    def compute_loss(self, batch: Batch, model: Any, progress: float = 0.0) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a batch, and what adaptation adds to it for the target's nodes, which have no labels."""
        if self.adaptation is None:
            logits = self.predictor.compute(batch.content, model)
            return self.task.loss(logits, batch.targets) if batch.share else logits.sum() * 0, {}
        assert isinstance(self.predictor, Predictor)
        output = self.predictor.read(batch.content, model)
        loss = self.task.loss(output.logits[: len(batch.targets)], batch.targets)
        return loss, self.adaptation(output.embedding, batch.inputs, progress)

    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_idx: int) -> None:
        if (batch_idx + 1) % self.config.accumulate or self.averaged is None:
            return
        horizon = self.config.average * self.steps_per_epoch
        share = max(1 / (1 + horizon), 1 / (2 + 0.2 * self.global_step))  # at first the average is short
        with torch.no_grad():
            for kept, now in zip(self.averaged.parameters(), self.model.parameters(), strict=True):
                kept.lerp_(now, share)
            for kept, now in zip(self.averaged.buffers(), self.model.buffers(), strict=True):
                kept.copy_(now)

    @property
    def val_patterns(self) -> int:
        """Patterns per instance in validation: as the options say, or so many that it costs a quarter of an epoch."""
        config = self.config
        if config.val_patterns:
            return config.val_patterns
        read = min(len(self.split.train), self.steps_per_epoch * config.batch)
        read *= 1 if self.examples.pairs is None else 2  # as many non-edges
        validated = len(self.split.val) + len(getattr(self.split, "other", ()))
        worth = VALIDATION_SHARE * (1 + BACKWARD) * config.patterns * read / max(1, validated)
        return min(config.pool, max(config.patterns, int(worth) // len(config.lengths) * len(config.lengths)))

    def on_validation_epoch_start(self) -> None:
        """Note the time of the training steps of this epoch, and gather a sharded model."""
        if not self._began:
            return
        total, waited = time.perf_counter() - self._began, self.loader.waited
        self.times.add({"total": total, "computing": total - waited, "waiting": waited if self.loader.workers else 0.0})
        self.times.per_step = self.loader.per_step()
        self._began = 0.0
        if self.sharded:
            put_together(self.model, self.predictor.model)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        for name, value in self.score("val").items():
            self.log(f"val_{name}", value, batch_size=len(self.split.val))
        if isinstance(self.split, DomainSplit) and len(other := self.split.other):
            try:
                scores = self.score("other")
            except GpmError:  # labels that cannot be scored, such as of one class, must not end the training
                scores = dict.fromkeys((self.task.metric, "loss"), float("nan"))
            for name, value in scores.items():
                self.log(f"other_{name}", value, batch_size=len(other))
        lost, read = self.world.add_up(torch.stack([self._lost.cpu().double(), torch.tensor(float(self._read))]))
        if read:
            self.log("train_loss", lost / read, batch_size=len(self.split.val))

    def score(self, part: str) -> dict[str, float]:
        """Score a split, of which every rank reads a share."""
        ids: NDArray = getattr(self.split, part)
        inputs, _ = self.examples.take(torch.from_numpy(np.array(ids[self.world.rank :: self.world.size])))
        logits = self.predictor.logits(inputs, patterns=self.val_patterns, model=self.final_model)
        _, targets = self.examples.take(torch.from_numpy(np.array(ids)))
        return self.task.score(self.world.join(logits, len(ids)), targets)

    def configure_optimizers(self) -> Any:
        decayed = [p for p in self.model.parameters() if p.ndim >= 2]
        others = [p for p in self.model.parameters() if p.ndim < 2]
        groups: list[Any] = [{"params": decayed, "weight_decay": self.config.decay}]
        groups.append({"params": others, "weight_decay": 0.0})
        if self.adaptation is not None:
            adversary = list(self.adaptation.parameters())
            groups.append({"params": adversary, "weight_decay": 0.0, "lr": ADVERSARY * self.config.lr})
        # In mixed precision Lightning refuses to clip the gradients of a fused optimizer.
        fused = self.device.type in ("cpu", "cuda") and self.config.precision == "32-true"
        optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=self.config.lr, fused=fused)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def rate(self, step: int) -> float:
        """Return the learning rate of a step as a share of its peak."""
        whole = self.config.epochs * self.steps_per_epoch
        warmup = min(self.config.warmup, whole // 5)  # a short training has a short one
        if step < warmup:
            return (step + 1) / warmup
        if self.config.schedule == "constant":
            return 1.0
        if self.config.schedule == "noam":
            return math.sqrt(max(warmup, 1) / max(step, 1))
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, whole - warmup))))


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
    """DDP from equal weights and statistics that notes the time of averaging gradients, with the wait for others."""

    def __init__(self, times: Times, backend: str) -> None:
        super().__init__(process_group_backend=backend, broadcast_buffers=False, gradient_as_bucket_view=True)
        self.times = times

    def configure_ddp(self) -> None:
        super().configure_ddp()
        assert self.model is not None
        # torch would refuse annotations that are postponed; a lambda has none.
        self.model.register_comm_hook(self.times, lambda times, bucket: average(times, bucket))  # type: ignore[operator]


def average(times: Times, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:  # type: ignore[name-defined]
    """Average the gradients of a bucket over ranks, and note the time."""
    began = time.perf_counter()
    values = bucket.buffer().div_(dist.get_world_size())
    work: torch.futures.Future[Any] = dist.all_reduce(values, async_op=True).get_future()

    def note(future: Any) -> Any:
        times.add({"communicating": time.perf_counter() - began})
        return future.value()[0]

    return work.then(note)
