"""The training of a model, as Lightning wants it: steps, validation, optimizer and schedule."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import lightning.pytorch as pl
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Sampler

from gpm.config import Config
from gpm.data.links import LinkData, LinkSplit
from gpm.data.load import TaskData
from gpm.data.splits import Split
from gpm.hashing import MASK, TRAINING_STEP, make_key
from gpm.predictor import Predicts
from gpm.tasks import Task

VALIDATION_SHARE = 0.25  # of the cost of an epoch may go to validating it
BACKWARD = 2.0  # a training step costs its forward pass and about so many more


class Batches(Sampler[list[int]]):
    """Batches of an epoch: a shuffle that is a pure function of (seed, epoch), so that a resumed run sees the same."""

    def __init__(self, count: int, size: int, seed: int) -> None:
        self.count, self.size, self.seed, self.epoch = count, size, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """Lightning says which epoch begins."""
        self.epoch = epoch

    def __len__(self) -> int:
        return math.ceil(self.count / self.size)

    def __iter__(self) -> Iterator[list[int]]:
        # Drawn when the first batch is taken: Lightning makes the iterator of a resumed run before it sets the epoch.
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.count)
        for first in range(0, self.count, self.size):
            yield order[first : first + self.size].tolist()


class Ids(Dataset[Tensor]):
    """Instance ids, taken a batch at a time: nothing heavier crosses a process boundary."""

    def __init__(self, ids: NDArray[np.int64]) -> None:
        self.ids = torch.from_numpy(np.array(ids))

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, places: Any) -> Tensor:
        return self.ids[places]


class Examples:
    """Instances by their ids, as a model reads them, with what is wanted of them.

    A training step on links reads as many non-edges beside the edges, drawn afresh for every step.

    Args:
        data: What the instances are of.
        task: What is wanted.
        split: The parts.
        seed: Of the non-edges.
    """

    def __init__(self, data: TaskData, task: Task, split: Split, seed: int) -> None:
        self.data, self.task, self.split, self.seed = data, task, split, seed
        self.pairs = torch.tensor(split.pairs) if isinstance(split, LinkSplit) else None

    def take(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Instances of the split, and their targets."""
        return ids if self.pairs is None else self.pairs[ids], self.task.targets[ids]

    def draw(self, ids: Tensor, turn: int) -> tuple[Tensor, Tensor]:
        """The examples of a training step."""
        inputs, targets = self.take(ids)
        if not isinstance(self.data, LinkData):
            return inputs, targets
        assert isinstance(self.split, LinkSplit)
        others = torch.from_numpy(self.data.draw_negatives(self.split, len(ids), self.seed, turn))
        return torch.cat([inputs, others]), torch.cat([targets, targets.new_zeros(len(others))])


class Learner(pl.LightningModule):
    """Trains a model on the instances of one graph or collection.

    The random bits of a step (dropout, sign flips, non-edges) are a function of (seed, step), its patterns of (seed,
    instance, step): a run that is resumed at an epoch goes on exactly as it would have.

    Args:
        predictor: Model and what it reads.
        examples: Instances and targets.
        config: How to train.
    """

    def __init__(self, predictor: Predicts, examples: Examples, config: Config) -> None:
        super().__init__()
        self.model = predictor.model
        self.averaged = copy.deepcopy(predictor.model).requires_grad_(False) if config.average else None
        self.predictor, self.examples, self.config = predictor, examples, config
        self.task, self.split = examples.task, examples.split
        self.steps_per_epoch = math.ceil(len(self.split.train) / config.batch)
        self._compiled = [torch.compile(self.model, dynamic=True)] if config.compile else []  # in a list: no submodule

    @property
    def final_model(self) -> nn.Module:
        """The weights that are validated and kept: averaged ones if the options say so."""
        kept: nn.Module = self.model if self.averaged is None else self.averaged
        return kept

    def train_dataloader(self) -> DataLoader[Tensor]:
        batches = Batches(len(self.split.train), self.config.batch, self.config.seed)
        return DataLoader(Ids(self.split.train), sampler=batches, batch_size=None)

    def val_dataloader(self) -> DataLoader[Tensor]:
        return DataLoader(Ids(self.split.val), sampler=[list(range(len(self.split.val)))], batch_size=None)

    def on_train_batch_start(self, batch: Tensor, batch_idx: int) -> None:
        step = make_key(self.config.seed, TRAINING_STEP) + self.global_step * 4096 + self.global_rank
        torch.manual_seed(make_key(step & MASK) >> 1)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        inputs, targets = self.examples.draw(batch.cpu(), self.global_step)
        model: Any = self._compiled[0] if self._compiled else self.model
        logits = self.predictor.learn(inputs, self.global_step, model)
        loss = self.task.loss(logits, targets.to(logits.device))
        self.log("train_loss", loss.detach(), on_step=False, on_epoch=True, batch_size=len(batch))
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Tensor, batch_idx: int) -> None:
        if self.averaged is None:
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
        """Patterns per instance in validation: as given, or so many that it costs a quarter of an epoch."""
        config = self.config
        if config.val_patterns:
            return config.val_patterns
        read = len(self.split.train) * (1 if self.examples.pairs is None else 2)  # as many non-edges
        worth = VALIDATION_SHARE * (1 + BACKWARD) * config.patterns * read / max(1, len(self.split.val))
        return min(config.pool, max(config.patterns, int(worth) // len(config.lengths) * len(config.lengths)))

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        inputs, targets = self.examples.take(batch.cpu())
        logits = self.predictor.logits(inputs, patterns=self.val_patterns, model=self.final_model)
        for name, value in self.task.score(logits, targets).items():
            self.log(f"val_{name}", value, batch_size=len(targets))

    def configure_optimizers(self) -> Any:
        decayed = [p for p in self.model.parameters() if p.ndim >= 2]
        others = [p for p in self.model.parameters() if p.ndim < 2]
        groups = [{"params": decayed, "weight_decay": self.config.decay}, {"params": others, "weight_decay": 0.0}]
        # In mixed precision Lightning refuses to clip the gradients of a fused optimizer.
        fused = self.device.type in ("cpu", "cuda") and self.config.precision == "32-true"
        optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=self.config.lr, fused=fused)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, self.rate)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def rate(self, step: int) -> float:
        """The learning rate of a step as a share of its peak."""
        whole = self.config.epochs * self.steps_per_epoch
        warmup = min(self.config.warmup, whole // 5)  # a short training has a short one
        if step < warmup:
            return (step + 1) / warmup
        if self.config.schedule == "constant":
            return 1.0
        if self.config.schedule == "noam":
            return math.sqrt(max(warmup, 1) / max(step, 1))
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, whole - warmup))))
