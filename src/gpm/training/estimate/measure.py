"""Measure what a training step and a forward pass of validation cost on this computer, at two sizes each.

A line through both sizes predicts other sizes. The larger one is the real size, unless that would take too long.
"""

from __future__ import annotations

import statistics
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from gpm.io.environment import available_bytes
from gpm.nn import LinkPatternMachine
from gpm.nn.predictor import POSITIONS, Predictor
from gpm.training.batches import Batch
from gpm.training.estimate.subject import Subject

LONGEST = 3.0  # seconds that one measured step may take
SPENT = 3.0  # seconds that its repetitions may take
REPEATS = (3, 15)  # fewest and most repetitions
FIRST = 16  # instances of the smaller size


@dataclass(frozen=True)
class Line:
    """A line through a quantity at two sizes, which is never below 0 and never falls."""

    small: float
    low: float
    large: float
    high: float

    def at(self, size: float) -> float:
        """Return the quantity at some size; below the smaller size it is in proportion."""
        slope = max(0.0, (self.high - self.low) / (self.large - self.small)) if self.large > self.small else 0.0
        if size >= self.small and slope:
            return max(0.0, self.high + slope * (size - self.large))
        return (self.low if slope else self.high) * size / (self.small if slope else self.large)


@dataclass(frozen=True)
class Costs:
    """Measured costs of a training, in bytes and seconds."""

    parameters: int  # that are learned
    step_bytes: Line  # of a part of a step, by its instances; so are the next three
    sampling: Line
    gathering: Line
    computing: Line
    updating: float  # clipping and optimizer, once in a step
    flops: float  # floating-point operations of an instance in a step
    read_bytes: Line  # of a forward pass without gradients, by its patterns
    reading: Line
    map_bytes: float  # of the maps of all nodes, made once before it; 0 without maps
    mapping: float
    val_patterns: int  # of an instance in validation


class Bench:
    """Trains a model for a few steps, and reads with it, in order to measure both."""

    def __init__(self, subject: Subject) -> None:
        self.subject, self.config = subject, subject.config
        self.predictor: Predictor = subject.build()
        self.model = self.predictor.model.train()
        self.learner = subject.with_(average=0, compile=False).make_learner(self.predictor)
        fused = self.config.precision == "32-true"
        self.optimizer = torch.optim.AdamW(self.learner.parameters(), lr=1e-6, fused=fused)
        self.turn = 0

    def _draw(self, instances: int) -> Batch:
        self.turn += 1
        return self.learner.loader.dataset[self.subject.draw(instances, self.turn - 1)]

    def compute(self, instances: int) -> dict[str, float]:
        """Draw, gather and compute gradients; return the seconds of each."""
        kind = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(self.config.precision)
        batch, began = self._draw(instances), time.perf_counter()
        with torch.autocast("cpu", kind) if kind else nullcontext():
            loss, added = self.learner.compute_loss(batch, self.model)
            loss = sum(added.values(), loss)
        loss.backward()  # type: ignore[no-untyped-call]
        return batch.seconds | {"computing": time.perf_counter() - began}

    def step(self, instances: int) -> dict[str, float]:
        """Run a whole step; return the seconds of its parts."""
        seconds, began = self.compute(instances), time.perf_counter()
        torch.nn.utils.clip_grad_norm_(self.learner.parameters(), self.config.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return seconds | {"updating": time.perf_counter() - began}

    def step_bytes(self, instances: int) -> int:
        """Return the peak bytes of the tensors of a step, beside weights and gradients."""
        for parameter in self.learner.parameters():
            parameter.grad = torch.zeros_like(parameter)
        with LiveBytes() as live:
            self.compute(instances)
        return int(live.most)

    def flops(self, instances: int) -> float:
        """Return the floating-point operations of the model for an instance; those of a loss are few."""
        batch = self._draw(instances)
        with FlopCounterMode(display=False) as counter:
            self.predictor.compute(batch.content).sum().backward()  # type: ignore[no-untyped-call]
        return float(counter.get_total_flops()) / instances

    def read(self, instances: int, patterns: int, maps: Any) -> dict[str, float]:
        """Run one forward pass of inference; return its seconds."""
        inputs, began = self.subject.val_inputs(instances), time.perf_counter()
        if isinstance(self.model, LinkPatternMachine) and self.model.pair == "product":
            self.predictor.logits(inputs, patterns=patterns)
        else:
            for _ in self.predictor.outputs(inputs, patterns=patterns, maps=maps):
                pass
        return {"reading": time.perf_counter() - began}

    def read_bytes(self, instances: int, patterns: int, maps: Any) -> int:
        with LiveBytes() as live:
            self.read(instances, patterns, maps)
        return int(live.most)


def measure(subject: Subject, instances: int) -> Costs:
    """Measure a training of which a rank computes so many instances at once."""
    bench = Bench(subject)
    first = max(1, min(FIRST, instances // 2))
    lines = _measure_twice(bench.step, bench.step_bytes, first, instances, LONGEST)
    return Costs(
        bench.model.count_parameters(), lines["bytes"], lines["sampling"], lines["gathering"], lines["computing"],
        updating=statistics.fmean((lines["updating"].low, lines["updating"].high)), flops=bench.flops(first),
        **_measure_reading(bench),
    )  # fmt: skip


def _measure_reading(bench: Bench) -> dict[str, Any]:
    subject, patterns = bench.subject, bench.learner.val_patterns
    count, _ = bench.predictor.portion(patterns)
    maps, held, mapping = _make_maps(bench, patterns, "val")
    most = held or _make_maps(bench, subject.config.pool, "test")[1]  # scoring at the end reads more
    whole = chunk(subject, count, subject.count("val"))
    lines = _measure_twice(
        lambda size: bench.read(size, count, maps), lambda size: bench.read_bytes(size, count, maps),
        max(1, min(4, whole // 2)), whole, LONGEST / 4, count,
    )  # fmt: skip
    times = {"reading": lines["reading"], "mapping": mapping}
    return {"read_bytes": lines["bytes"], "map_bytes": most, "val_patterns": patterns} | times


def _measure_twice(
    work: Callable[[int], dict[str, float]], count_bytes: Callable[[int], int], first: int, wanted: int, longest: float,
    unit: int = 1,
) -> dict[str, Line]:  # fmt: skip
    """Return bytes and seconds by `unit` times the size, from a small size and the wanted or an affordable one."""
    work(first)  # compiles, and makes the optimizer's state
    small, fastest = _repeat(lambda: work(first))
    low = small | {"bytes": count_bytes(first)}
    large = _affordable(wanted, first, fastest, low["bytes"], longest)
    high = low if large == first else {"bytes": count_bytes(large)} | _repeat(lambda: work(large))[0]
    return {key: Line(first * unit, low[key], large * unit, high[key]) for key in low}


def _make_maps(bench: Bench, patterns: int, part: str) -> tuple[Any, int, float]:
    """Make the maps of all nodes, if inference does; return them with their bytes and seconds."""
    subject = bench.subject
    if subject.stated is not None and subject.stated.nodes > subject.graph.num_nodes:
        return None, 0, 0.0
    ends = 2 if subject.data.level == "link" else 1
    began = time.perf_counter()
    with LiveBytes() as live:
        maps = bench.predictor.map_nodes(bench.model.eval(), ends * patterns * subject.count(part))
        held = live.now
    return (None, 0, 0.0) if maps is None else (maps, held, time.perf_counter() - began)


def chunk(subject: Subject, patterns: int, instances: int) -> int:
    """Return the instances of one forward pass of inference, see `Predictor.outputs`."""
    ends = 2 if subject.data.level == "link" else 1
    return max(1, min(instances, POSITIONS // (ends * patterns * (max(subject.config.lengths) + 1))))


def _affordable(wanted: int, first: int, seconds: float, size: float, longest: float) -> int:
    """Return the largest size up to the wanted one that takes neither long nor much memory."""
    room = available_bytes() / 4 or 2**31
    most = first * min(longest / max(seconds, 1e-9), room / max(size, 1))
    # Four times the first size at least, if memory allows: a line through close sizes would follow noise.
    return max(first, min(wanted, max(int(most), 4 * first if size < room / 8 else 0)))


def _repeat(work: Callable[[], dict[str, float]]) -> tuple[dict[str, float], float]:
    """Return the median of each kind of seconds, and the least of their sums."""
    began = time.perf_counter()
    times = [work()]
    least, most = REPEATS
    while len(times) < least or (len(times) < most and time.perf_counter() - began < SPENT):
        times.append(work())
    medians = {key: statistics.median(each[key] for each in times) for key in times[0]}
    return medians, min(sum(each.values()) for each in times)


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the tensors that are made while it is on, in the backward pass too, but none that were there before."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0  # bytes that are alive, and their peak
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
