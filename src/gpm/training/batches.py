"""Batches of a training: the instances of each step, divided among ranks, drawn and gathered ahead of time.

The instances of a step are a pure function of (seed, step), whatever the number of ranks, of parts of a step and of
workers: rank r of R takes every R-th of them. Workers are processes that draw and gather ahead; only instance ids go
to them, and what a batch touches comes back. A mapped graph is shared by all of them through its files.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from gpm.config import Config
from gpm.data.link_data import LinkData, LinkSplit
from gpm.data.sources import TaskData
from gpm.data.splits import Split
from gpm.nn.gnn.gnn_predictor import reads_labels
from gpm.tasks import Task

AHEAD = 2  # batches that a worker prepares in advance


@dataclass(frozen=True)
class Draw:
    """One rank's share of a step, or of a part of it."""

    step: int
    whole: NDArray[np.int64]  # indices of the step's instances in the training split [B], of all ranks
    mine: NDArray[np.int64]  # which of them are read here [b], never empty
    idle: bool = False  # none was left for this rank: the one that it reads counts for nothing


def count_batch(config: Config, level: str, count: int) -> int:
    """Return the size of a batch: as the options say.

    A network that reads known labels hides those of its batch, which is half of the `count` instances at most.
    """
    reading = config.model != "gpm" and reads_labels(config, level)
    return min(config.batch, math.ceil(count / 2)) if reading else config.batch


class Batches(Sampler[Draw]):
    """Samples the steps of an epoch; the shuffle is a pure function of (seed, pass), so that a resumed run is the same.

    A step has `size` of the `count` instances of the training split, over all ranks and the parts in which it is
    computed. An epoch of 0 `steps` is one pass; after one of other length the next continues the unfinished pass.
    """

    def __init__(
        self, count: int, size: int, seed: int, *, steps: int = 0, rank: int = 0, ranks: int = 1, parts: int = 1
    ) -> None:
        self.count, self.size, self.seed, self.epoch = count, size, seed, 0
        self.rank, self.ranks, self.parts = rank, ranks, parts
        self.per_pass = math.ceil(count / size)
        self.steps = steps or self.per_pass

    def set_epoch(self, epoch: int) -> None:  # Lightning calls this
        self.epoch = epoch

    def __len__(self) -> int:
        return self.steps * self.parts

    def __iter__(self) -> Iterator[Draw]:
        # Drawn when the first batch is taken: Lightning makes the iterator of a resumed run before it sets the epoch.
        begun, order = -1, np.zeros(0, dtype=np.int64)
        for step in range(self.epoch * self.steps, (self.epoch + 1) * self.steps):
            number, index = divmod(step, self.per_pass)
            if number != begun:
                begun, order = number, np.random.default_rng((self.seed, number)).permutation(self.count)
            whole = order[index * self.size : (index + 1) * self.size]
            for part in range(self.parts):
                mine = np.arange(part * self.ranks + self.rank, len(whole), self.parts * self.ranks)
                # A rank with nothing to do in a small last batch takes an instance that counts for nothing.
                yield Draw(step, whole, mine, False) if len(mine) else Draw(step, whole, np.zeros(1, np.int64), True)


class Examples:
    """Instances by their ids, with their targets; a step on links reads as many non-edges, drawn afresh every time."""

    def __init__(self, data: TaskData, task: Task, split: Split, seed: int) -> None:
        self.data, self.task, self.split, self.seed = data, task, split, seed
        self.pairs = torch.tensor(split.pairs) if isinstance(split, LinkSplit) else None

    def take(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return instances of the split, and their targets."""
        return ids if self.pairs is None else self.pairs[ids], self.task.targets[ids]

    def draw(self, ids: Tensor, turn: int) -> tuple[Tensor, Tensor]:
        inputs, targets = self.take(ids)
        if not isinstance(self.data, LinkData):
            return inputs, targets
        assert isinstance(self.split, LinkSplit)
        others = torch.from_numpy(self.data.draw_negatives(self.split, len(ids), self.seed, turn))
        return torch.cat([inputs, others]), torch.cat([targets, targets.new_zeros(len(others))])

    def deal(self, draw: Draw) -> tuple[Tensor, Tensor, Tensor, int, float]:
        """Return our examples of a step, their targets, their rows in it, the terms of their loss, and its share."""
        inputs, targets = self.draw(torch.from_numpy(self.split.train[draw.whole]), draw.step)
        mine = torch.from_numpy(draw.mine)
        rows = torch.cat([mine + i * len(draw.whole) for i in range(len(inputs) // len(draw.whole))])
        terms = 0 if draw.idle else self.task.count(targets[rows])
        return inputs[rows], targets[rows], rows, terms, terms / max(1, self.task.count(targets))


@dataclass(frozen=True)
class Batch:
    """A prepared part of a training step."""

    content: Any  # what the model reads
    targets: Tensor
    share: float  # of the step's loss that falls on these instances, between 0 and 1
    terms: int  # of their loss: instances, or labels that are known
    seconds: dict[str, float] = field(default_factory=dict)  # spent on drawing and gathering
    inputs: Tensor | None = None  # instances; some without a target may follow those that have one

    def to(self, device: torch.device | str) -> Batch:
        content = self.content.to(device) if hasattr(self.content, "to") else self.content
        return replace(self, content=content, targets=self.targets.to(device, non_blocking=True))


class Times:
    """Seconds that the parts of a training took."""

    def __init__(self) -> None:
        names = ("sampling", "gathering", "waiting", "computing", "communicating", "total")
        self.seconds = dict.fromkeys(names, 0.0)
        self.per_step = 0.0  # the median of the last epoch

    def add(self, seconds: dict[str, float]) -> None:
        for name, value in seconds.items():
            self.seconds[name] += value

    def shares(self) -> dict[str, float]:
        """Return each as a share of the wall-clock time; workers and communication run beside the computing."""
        spent = self.seconds["total"]
        return {name: round(value / spent, 4) for name, value in self.seconds.items() if spent and name != "total"}

    def describe(self, workers: int, ranks: int) -> str:
        shares = dict.fromkeys(self.seconds, 0.0) | self.shares()
        parts = [f"computing {shares['computing']:.0%}"]
        if ranks > 1:
            parts[0] += f" (with communicating {shares['communicating']:.1%})"
        if workers:
            parts.append(f"waiting for workers {shares['waiting']:.0%}")
            parts.append(f"in the workers sampling {shares['sampling']:.0%}, gathering {shares['gathering']:.0%}")
        else:
            parts[:0] = [f"sampling {shares['sampling']:.0%}", f"gathering {shares['gathering']:.0%}"]
        return ", ".join(parts)


class Prepared(Dataset[Batch]):
    """Batches that are prepared on access; for `prepare` see `gpm.nn.predictor.Predicts`."""

    def __init__(self, examples: Examples, prepare: Callable[[Tensor, int, Tensor], tuple[Any, dict[str, float]]]):
        self.examples, self.prepare = examples, prepare

    def __getitem__(self, draw: Any) -> Batch:
        inputs, targets, rows, terms, share = self.examples.deal(draw)
        content, seconds = self.prepare(inputs, draw.step, rows)
        return Batch(content, targets, share, terms, seconds, inputs)


class Loader:
    """Loads the batches of one epoch after the other, prepared here or by workers (fork or spawn) ahead of time.

    Nothing begins before the first batch is taken, since Lightning sets the epoch only then.
    """

    def __init__(self, dataset: Prepared, sampler: Batches, workers: int = 0, start: str | None = None) -> None:
        self.dataset, self.sampler, self.workers = dataset, sampler, workers
        more: dict[str, Any] = {"persistent_workers": True, "prefetch_factor": AHEAD, "worker_init_fn": _begin_worker}
        self._inner: DataLoader[Batch] = DataLoader(
            dataset, sampler=sampler, batch_size=None, num_workers=workers,
            **(more | {"multiprocessing_context": start} if workers else {}),
        )  # fmt: skip
        self.waited, self._marks = 0.0, deque[float](maxlen=10_000)

    def __len__(self) -> int:
        return len(self.sampler)

    def __iter__(self) -> Iterator[Batch]:
        self.waited = 0.0
        self._marks.clear()
        batches = iter(self._inner)
        while True:
            began = time.perf_counter()
            self._marks.append(began)
            batch = next(batches, None)
            self.waited += time.perf_counter() - began
            if batch is None:
                return
            yield batch

    def per_step(self) -> float:
        """Return the median seconds from one step to the next in this epoch; the first ones are slow."""
        seconds = np.diff(list(self._marks)[:: self.sampler.parts])
        return float(np.median(seconds)) if len(seconds) else 0.0


def _begin_worker(number: int) -> None:
    """Give a worker one thread, and leave signals to the main process."""
    import signal

    from gpm import compute

    if compute.is_owner():  # spawned; a forked one has no threads of numba's
        compute.set_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
