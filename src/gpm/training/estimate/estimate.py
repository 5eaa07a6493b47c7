"""Predict the memory and the time of a training from measured costs, on one device or on many."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass
from typing import Any

from gpm.config import Strategy
from gpm.training.estimate.machine_costs import STATE, Constants
from gpm.training.estimate.measure import Costs, chunk
from gpm.training.estimate.subject import Subject

WEIGHT = 4  # bytes of a parameter
GB = 1e9
# Stated, not measured: bytes per second of averaging gradients, and the peak speed of a GPU.
BANDWIDTH = {"cpu": 1.0 * GB, "cuda": 20.0 * GB}
PEAK = {"32-true": 19.5e12, "bf16-mixed": 312e12, "16-mixed": 312e12}  # of an A100
PEAK_SHARE = 0.3  # share of the peak that is reached
CUDA_CONTEXT, CUDA_FACTOR = 0.6 * GB, 1.1  # bytes of a process on a GPU; what its allocator keeps beyond tensors


@dataclass(frozen=True)
class Team:
    """The ranks that train together, on computers that are all like this one."""

    devices: int = 1  # devices of a computer
    machines: int = 1  # computers
    device: str = "cpu"  # cpu or cuda
    strategy: Strategy = "ddp"
    workers: int = 0  # processes of each rank that draw ahead
    threads: int = 1  # threads of each rank
    bandwidth: float = 0.0  # bytes per second between ranks; 0 for the stated figure
    peak: float = 0.0  # operations per second of a GPU; 0 for the stated figure

    @property
    def ranks(self) -> int:
        return self.devices * self.machines


@dataclass(frozen=True)
class Memory:
    """Bytes of a rank."""

    process: float  # without data and model
    graph: float  # graph and features in memory
    files: float  # graph and features in mapped files, which are not needed in memory
    weights: float  # weights, gradients and the optimizer's state
    averaged: float  # averaged weights
    step: float  # activations of a part of a step
    reading: float  # activations of a forward pass of validation, which never coincides with a step

    @property
    def total(self) -> float:
        return self.process + self.graph + self.weights + self.averaged + max(self.step, self.reading)


@dataclass(frozen=True)
class Times:
    """Seconds of a training, with the number of its steps and epochs."""

    sampling: float  # of a step; workers do this, and the gathering, beside it
    gathering: float
    computing: float
    communicating: float
    step: float  # a whole step
    steps: int  # in an epoch
    validation: float  # after an epoch
    scoring: float  # with all patterns, at the end
    epochs: int

    @property
    def epoch(self) -> float:
        return self.steps * self.step + self.validation

    @property
    def whole(self) -> float:
        return self.epochs * self.epoch + self.scoring


@dataclass(frozen=True)
class Estimate:
    """Predicted memory and times of a training."""

    subject: Subject
    team: Team
    parameters: int  # that are learned
    instances: int  # that a rank computes at once
    val_patterns: int  # of an instance in validation
    memory: Memory
    times: Times

    def to_dict(self) -> dict[str, Any]:
        memory = asdict(self.memory) | {"total": self.memory.total}
        return {
            "data": self.subject.data.title, "options": self.subject.config.to_dict(), "team": asdict(self.team),
            "parameters": self.parameters, "instances_at_once": self.instances, "val_patterns": self.val_patterns,
            "memory_bytes": {key: round(value) for key, value in memory.items()},
            "seconds": asdict(self.times) | {"epoch": self.times.epoch, "whole": self.times.whole},
            "steps_per_second": 1 / self.times.step,
        }  # fmt: skip


def count_instances(subject: Subject, team: Team) -> int:
    """Return the instances that a rank computes at once."""
    step = min(subject.config.batch, subject.count("train"))
    return math.ceil(step / (team.ranks * subject.config.accumulate))


def estimate(subject: Subject, team: Team, costs: Costs, constants: Constants, loaded: float) -> Estimate:
    """Predict memory and time; `loaded` is the bytes of memory that loading the graph and its features took."""
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
    validated, scored = subject.count_held_out()
    largest = max(
        *(_pass_size(subject, team, size, costs.val_patterns) for size in validated),
        *(_pass_size(subject, team, size, subject.config.pool) for size in scored),
    )
    return Memory(
        process=CUDA_CONTEXT if on_gpu else constants.process, graph=max(held, loaded), files=files, weights=weights,
        averaged=WEIGHT * costs.parameters if subject.config.average else 0,
        step=factor * costs.step_bytes.at(count_instances(subject, team)),
        reading=factor * (costs.map_bytes + costs.read_bytes.at(largest)),
    )  # fmt: skip


def _pass_size(subject: Subject, team: Team, instances: int, patterns: int) -> int:
    """Return the patterns in one forward pass of a rank that reads its share of some instances."""
    config = subject.config
    if subject.data.level == "link" and config.pair == "joint":  # in portions, see `Predictor.portion`
        patterns = min(config.patterns, patterns)
    return patterns * chunk(subject, patterns, math.ceil(instances / team.ranks))


def _find_times(subject: Subject, team: Team, costs: Costs, constants: Constants) -> Times:
    config, instances = subject.config, count_instances(subject, team)
    crowded = max(1.0, team.devices * team.threads / (os.cpu_count() or 1))
    drawn = (costs.sampling, costs.gathering)
    sampling, gathering = (config.accumulate * crowded * line.at(instances) for line in drawn)
    if team.device == "cuda":
        seconds = costs.flops / (PEAK_SHARE * (team.peak or PEAK[config.precision]))  # of an instance
        speed = crowded * seconds / max(costs.computing.at(instances) / instances, 1e-12)
        computing = config.accumulate * instances * seconds
    else:
        speed = crowded
        computing = crowded * (config.accumulate * costs.computing.at(instances) + costs.updating)
    # Gradients are averaged once around; a sharded model is also fetched twice for every part.
    rounds = 2 + (2 * config.accumulate if team.strategy == "fsdp" else 0)
    bandwidth = team.bandwidth or BANDWIDTH[team.device]
    communicating = rounds * (WEIGHT * costs.parameters) * (team.ranks - 1) / team.ranks / bandwidth
    ahead, busy = sampling + gathering, computing + communicating + constants.overhead
    validated, scored = subject.count_held_out()
    return Times(
        sampling, gathering, computing, communicating,
        step=max(busy, ahead / team.workers) if team.workers else busy + ahead,
        steps=config.epoch_steps or math.ceil(subject.count("train") / config.batch),
        validation=speed * _read(subject, team, costs, validated, costs.val_patterns),
        scoring=speed * _read(subject, team, costs, scored, config.pool), epochs=config.epochs,
    )  # fmt: skip


def _read(subject: Subject, team: Team, costs: Costs, sizes: list[int], patterns: int) -> float:
    """Return the seconds in which a rank reads its share of some splits."""
    seconds = 0.0
    for count in sizes:
        size, share = _pass_size(subject, team, count, patterns), math.ceil(count / team.ranks)
        seconds += costs.mapping + costs.reading.at(size) * share * patterns / size
    return seconds
