"""From what was measured to the memory and the time of a training, on one device or on many."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Any

from gpm.config import Strategy
from gpm.training.estimate.machine_costs import STATE, Constants
from gpm.training.estimate.measure import Costs, chunk
from gpm.training.estimate.subject import Subject

WEIGHT = 4  # bytes of a parameter
GB = 1e9
# Stated, not measured: bytes a second that gradients are averaged with, and what a GPU does at its best.
BANDWIDTH = {"cpu": 1.0 * GB, "cuda": 20.0 * GB}
PEAK = {"32-true": 19.5e12, "bf16-mixed": 312e12, "16-mixed": 312e12}  # of an A100
PEAK_SHARE = 0.3  # of it that is reached
CUDA_CONTEXT, CUDA_FACTOR = 0.6 * GB, 1.1  # of a process on a GPU; of the pieces that its allocator keeps


@dataclass(frozen=True)
class Team:
    """Who trains together.

    Attributes:
        devices, machines: Devices of a machine, and machines, all like this one.
        device: cpu or cuda.
        strategy: ddp or fsdp.
        workers: Processes of each rank that draw ahead.
        threads: Of each rank.
        bandwidth: Bytes a second between ranks; 0 for the stated figure.
        peak: Operations a second of a GPU; 0 for the stated figure.
    """

    devices: int = 1
    machines: int = 1
    device: str = "cpu"
    strategy: Strategy = "ddp"
    workers: int = 0
    threads: int = 1
    bandwidth: float = 0.0
    peak: float = 0.0

    @property
    def ranks(self) -> int:
        return self.devices * self.machines


@dataclass(frozen=True)
class Memory:
    """Bytes of a rank.

    Attributes:
        process: Without data and model.
        graph: Graph and features in memory.
        files: The same in files that are mapped, which are not needed in memory.
        weights: Weights, gradients and the optimizer's state.
        averaged: Averaged weights.
        step: Activations of a part of a step.
        reading: Those of a forward pass of validation, which comes at another time.
    """

    process: float
    graph: float
    files: float
    weights: float
    averaged: float
    step: float
    reading: float

    @property
    def total(self) -> float:
        """The most that is needed at a time."""
        return self.process + self.graph + self.weights + self.averaged + max(self.step, self.reading)


@dataclass(frozen=True)
class Times:
    """Seconds.

    Attributes:
        sampling, gathering, computing, communicating: Of a step; with workers the first two go on beside it.
        step: All of it.
        steps: Of an epoch.
        validation: Of an epoch.
        scoring: Of both held-out parts with all patterns, at the end.
        epochs: How many.
    """

    sampling: float
    gathering: float
    computing: float
    communicating: float
    step: float
    steps: int
    validation: float
    scoring: float
    epochs: int

    @property
    def epoch(self) -> float:
        return self.steps * self.step + self.validation

    @property
    def whole(self) -> float:
        return self.epochs * self.epoch + self.scoring


@dataclass(frozen=True)
class Estimate:
    """What a training is predicted to take.

    Attributes:
        subject: What, with its options.
        team: Who.
        parameters: Numbers that are learned.
        instances: That a rank computes at once.
        val_patterns: Of an instance in validation.
        memory, times: The prediction.
    """

    subject: Subject
    team: Team
    parameters: int
    instances: int
    val_patterns: int
    memory: Memory
    times: Times


def count_instances(subject: Subject, team: Team) -> int:
    """Instances that a rank computes at once."""
    step = min(subject.config.batch, subject.count("train"))
    return math.ceil(step / (team.ranks * subject.config.accumulate))


def estimate(subject: Subject, team: Team, costs: Costs, constants: Constants, loaded: float) -> Estimate:
    """Predict memory and time.

    Args:
        subject: What is trained.
        team: By whom.
        costs: Of its configuration.
        constants: Of the machine.
        loaded: Bytes that graph and features were seen to take in memory.
    """
    return Estimate(
        subject, team, costs.parameters, count_instances(subject, team), costs.val_patterns,
        _find_memory(subject, team, costs, constants, loaded), _find_times(subject, team, costs, constants),
    )  # fmt: skip


def _find_memory(subject: Subject, team: Team, costs: Costs, constants: Constants, loaded: float) -> Memory:
    on_gpu, sharded = team.device == "cuda", team.strategy == "fsdp" and team.ranks > 1
    factor = CUDA_FACTOR if on_gpu else constants.factor
    weights = float(STATE * costs.parameters)
    if sharded:  # a whole copy validates
        weights = weights / team.ranks + WEIGHT * costs.parameters
    held, files = subject.graph_bytes()
    return Memory(
        process=CUDA_CONTEXT if on_gpu else constants.process,
        graph=max(held, loaded),
        files=files,
        weights=weights,
        averaged=WEIGHT * costs.parameters if subject.config.average else 0,
        step=factor * costs.step_bytes.at(count_instances(subject, team)),
        reading=factor * (costs.map_bytes + costs.read_bytes.at(_most_read(subject, team, costs))),
    )


def _most_read(subject: Subject, team: Team, costs: Costs) -> int:
    """Patterns in the largest forward pass of validation, or of scoring at the end."""
    found = []
    for part, patterns in (("val", costs.val_patterns), ("val", subject.config.pool), ("test", subject.config.pool)):
        count = _portion(subject, patterns)
        found.append(count * chunk(subject, count, math.ceil(subject.count(part) / team.ranks)))
    return max(found)


def _portion(subject: Subject, patterns: int) -> int:
    """Patterns of an instance that are read at a time, see `Predictor.portion`."""
    config = subject.config
    return min(config.patterns, patterns) if subject.data.level == "link" and config.pair == "joint" else patterns


def _find_times(subject: Subject, team: Team, costs: Costs, constants: Constants) -> Times:
    config, instances = subject.config, count_instances(subject, team)
    crowded = max(1.0, team.devices * team.threads / (os.cpu_count() or 1))
    parts = {
        name: config.accumulate * crowded * getattr(costs, name).at(instances) for name in ("sampling", "gathering")
    }
    if team.device == "cuda":
        peak = team.peak or PEAK[config.precision]
        speed = crowded * costs.flops / (PEAK_SHARE * peak) / max(costs.computing.at(instances) / instances, 1e-12)
        computing = config.accumulate * instances * costs.flops / (PEAK_SHARE * peak)
    else:
        speed = crowded
        computing = crowded * (config.accumulate * costs.computing.at(instances) + costs.updating)
    communicating = _communicate(team, WEIGHT * costs.parameters, config.accumulate)
    ahead = sum(parts.values())
    busy = computing + communicating + constants.overhead
    return Times(
        **parts, computing=computing, communicating=communicating,
        step=max(busy, ahead / team.workers) if team.workers else busy + ahead,
        steps=config.epoch_steps or math.ceil(subject.count("train") / config.batch),
        validation=speed * _read(subject, team, costs, ("val",), costs.val_patterns),
        scoring=speed * _read(subject, team, costs, ("val", "test"), config.pool), epochs=config.epochs,
    )  # fmt: skip


def _communicate(team: Team, size: float, parts: int) -> float:
    """Seconds in which gradients are averaged once around; pieces of a model are also fetched twice for every part."""
    rounds = 2 + (2 * parts if team.strategy == "fsdp" else 0)
    return rounds * size * (team.ranks - 1) / team.ranks / (team.bandwidth or BANDWIDTH[team.device])


def _read(subject: Subject, team: Team, costs: Costs, parts: tuple[str, ...], patterns: int) -> float:
    """Seconds in which a rank reads its share of some parts."""
    seconds = 0.0
    for part in parts:
        instances = math.ceil(subject.count(part) / team.ranks)
        count = _portion(subject, patterns)
        size = count * chunk(subject, count, instances)
        seconds += costs.mapping + costs.reading.at(size) * instances * patterns / size
    return seconds


def describe(found: Estimate) -> dict[str, Any]:
    """Plain values, for a file."""
    from dataclasses import asdict

    memory, times = asdict(found.memory), asdict(found.times)
    return {
        "data": found.subject.data.title, "options": found.subject.config.to_dict(), "team": asdict(found.team),
        "parameters": found.parameters, "instances_at_once": found.instances, "val_patterns": found.val_patterns,
        "memory_bytes": {key: round(value) for key, value in memory.items()} | {"total": round(found.memory.total)},
        "seconds": times | {"epoch": found.times.epoch, "whole": found.times.whole},
        "steps_per_second": 1 / found.times.step,
    }  # fmt: skip
