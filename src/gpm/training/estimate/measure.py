"""What a step of a training and a forward pass of its validation cost on this machine, at two sizes each.

The two sizes give a line by which other sizes are told; at the larger one, which is the real size unless that would
take too long, the figures are as measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from gpm.nn import LinkPatternMachine
from gpm.nn.predictor import POSITIONS, Predictor
from gpm.training.estimate.live_bytes import LiveBytes, available_bytes
from gpm.training.estimate.subject import Subject

LONGEST = 3.0  # seconds that one measured step may take
SPENT = 3.0  # seconds that repetitions of it may take
REPEATS = (3, 15)  # at least, at most
FIRST = 16  # instances of the first size


@dataclass(frozen=True)
class Line:
    """A quantity at two sizes, and in between and beyond: never below 0, never falling."""

    small: float
    low: float
    large: float
    high: float

    def at(self, size: float) -> float:
        """The quantity at some size; in proportion below the smaller one."""
        slope = max(0.0, (self.high - self.low) / (self.large - self.small)) if self.large > self.small else 0.0
        if size >= self.small and slope:
            return max(0.0, self.high + slope * (size - self.large))
        return (self.low if slope else self.high) * size / (self.small if slope else self.large)


@dataclass(frozen=True)
class Costs:
    """What was measured of a configuration.

    Attributes:
        parameters: Numbers that are learned.
        step_bytes, sampling, gathering, computing: Of a part of a step, by its instances; seconds but for the bytes.
        updating: Seconds of clipping and of the optimizer, once in a step.
        flops: Floating-point operations of an instance in a step.
        read_bytes, reading: Of a forward pass without gradients, by the patterns in it.
        map_bytes, mapping: The same of the maps of all nodes, made once before it; 0 where it does without.
        val_patterns: Patterns of an instance in validation.
    """

    parameters: int
    step_bytes: Line
    sampling: Line
    gathering: Line
    computing: Line
    updating: float
    flops: float
    read_bytes: Line
    reading: Line
    map_bytes: float
    mapping: float
    val_patterns: int


class Bench:
    """A model that is trained for a few steps, and read with, in order to measure that.

    Args:
        subject: What on.
    """

    def __init__(self, subject: Subject) -> None:
        self.subject, self.config = subject, subject.config
        self.predictor: Predictor = subject.build()
        self.model = self.predictor.model.train()
        self.examples = subject.examples()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-6, fused=self.config.precision == "32-true")
        self.turn = 0

    def _precision(self) -> AbstractContextManager[Any]:
        kinds = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
        kind = kinds.get(self.config.precision)
        return torch.autocast("cpu", kind) if kind else nullcontext()

    def compute(self, instances: int) -> dict[str, float]:
        """Draw, gather, and compute gradients; the seconds of each."""
        draw = self.subject.draw(instances, self.turn)
        self.turn += 1
        inputs, targets, rows, *_ = self.examples.deal(draw)
        content, seconds = self.predictor.prepare(inputs, draw.step, rows)
        began = time.perf_counter()
        with self._precision():
            loss = self.examples.task.loss(self.predictor.compute(content), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        return seconds | {"computing": time.perf_counter() - began}

    def update(self) -> dict[str, float]:
        """Clip gradients and step; the seconds."""
        began = time.perf_counter()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {"updating": time.perf_counter() - began}

    def step(self, instances: int) -> dict[str, float]:
        """A whole step."""
        return self.compute(instances) | self.update()

    def step_bytes(self, instances: int) -> int:
        """The most that tensors of a step take beside weights and gradients."""
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        live = LiveBytes()
        with live:
            self.compute(instances)
        return live.most

    def flops(self, instances: int) -> float:
        """Operations of an instance."""
        counter = FlopCounterMode(display=False)
        with counter:
            self.compute(instances)
        return float(counter.get_total_flops()) / instances

    def read(self, instances: int, patterns: int, maps: Any) -> dict[str, float]:
        """One forward pass of inference; its seconds."""
        inputs, began = self.subject.val_inputs(instances), time.perf_counter()
        if isinstance(self.model, LinkPatternMachine) and self.model.pair == "product":
            self.predictor.logits(inputs, patterns=patterns)
        else:
            for _ in self.predictor.outputs(inputs, patterns=patterns, maps=maps):
                pass
        return {"reading": time.perf_counter() - began}

    def read_bytes(self, instances: int, patterns: int, maps: Any) -> int:
        """The most that its tensors take."""
        live = LiveBytes()
        with live:
            self.read(instances, patterns, maps)
        return live.most


def measure(subject: Subject, instances: int) -> Costs:
    """Measure a configuration.

    Args:
        subject: What is trained, with its options.
        instances: How many a rank computes at once.
    """
    bench = Bench(subject)
    parameters = bench.model.count_parameters()
    first = max(1, min(FIRST, instances // 2))
    bench.step(first)  # compiles, and makes the optimizer's state
    small, fastest = _repeat(lambda: bench.step(first))
    low = bench.step_bytes(first)
    large = _affordable(instances, first, fastest, low)
    high = bench.step_bytes(large) if large > first else low
    slow = _repeat(lambda: bench.step(large))[0] if large > first else small
    lines: dict[str, Any] = {
        key: Line(first, small[key], large, slow[key]) for key in ("sampling", "gathering", "computing")
    }
    return Costs(
        parameters=parameters, step_bytes=Line(first, low, large, high), **lines,
        updating=(small["updating"] + slow["updating"]) / 2, flops=bench.flops(first), **_measure_reading(bench),
    )  # fmt: skip


def _measure_reading(bench: Bench) -> dict[str, Any]:
    """What validation costs, by patterns."""
    subject, predictor = bench.subject, bench.predictor
    patterns = subject.val_patterns(predictor)
    count, _ = predictor.portion(patterns)
    maps, held, mapping = _make_maps(bench, patterns, "val")
    most = held or _make_maps(bench, subject.config.pool, "test")[1]  # scoring at the end reads more
    whole = chunk(subject, count, subject.count("val"))
    first = max(1, min(4, whole // 2))
    bench.read(first, count, maps)
    small, fastest = _repeat(lambda: bench.read(first, count, maps))
    low = bench.read_bytes(first, count, maps)
    large = _affordable(whole, first, fastest, low, longest=LONGEST / 4)
    high = bench.read_bytes(large, count, maps) if large > first else low
    slow = _repeat(lambda: bench.read(large, count, maps))[0] if large > first else small
    sizes = (first * count, large * count)
    return {
        "read_bytes": Line(sizes[0], low, sizes[1], high),
        "reading": Line(sizes[0], small["reading"], sizes[1], slow["reading"]),
        "map_bytes": most,
        "mapping": mapping,
        "val_patterns": patterns,
    }


def _make_maps(bench: Bench, patterns: int, part: str) -> tuple[Any, int, float]:
    """The maps of all nodes, if inference makes them, with their bytes and seconds; of large graphs it does not."""
    subject = bench.subject
    if subject.stated is not None and subject.stated.nodes > subject.graph.num_nodes:
        return None, 0, 0.0
    ends = 2 if subject.data.level == "link" else 1
    live, began = LiveBytes(), time.perf_counter()
    with live:
        maps = bench.predictor.map_nodes(bench.model.eval(), ends * patterns * subject.count(part))
        held = live.now
    return (None, 0, 0.0) if maps is None else (maps, held, time.perf_counter() - began)


def chunk(subject: Subject, patterns: int, instances: int) -> int:
    """Instances that are read in one forward pass of inference, see `Predictor.outputs`."""
    ends = 2 if subject.data.level == "link" else 1
    return max(1, min(instances, POSITIONS // (ends * patterns * (max(subject.config.lengths) + 1))))


def _affordable(wanted: int, first: int, seconds: float, size: float, longest: float = LONGEST) -> int:
    """The largest size up to the one wanted that takes neither long nor much memory; but no line from sizes so close
    that it tells noise.
    """
    room = available_bytes() / 4 or 2**31
    most = first * min(longest / max(seconds, 1e-9), room / max(size, 1))
    return max(first, min(wanted, max(int(most), 4 * first if size < room / 8 else 0)))


def _repeat(work: Callable[[], dict[str, float]]) -> tuple[dict[str, float], float]:
    """The median of each kind of seconds, and the fewest of all kinds together."""
    began = time.perf_counter()
    found = [work()]
    least, most = REPEATS
    while len(found) < least or (len(found) < most and time.perf_counter() - began < SPENT):
        found.append(work())
    medians = {key: statistics.median(each[key] for each in found) for key in found[0]}
    return medians, min(sum(each.values()) for each in found)
