"""The ranks of a training: rank 0 leads, the others follow; options that ranks cannot combine are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpm.config import Config, Strategy
from gpm.data.sources import load_by
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.training.distributed.ranks import LostError, World, listen
from gpm.training.fit import follow


@dataclass(frozen=True)
class Team:
    """The ranks of a training, and the device, workers and strategy of this one."""

    world: World
    device: str
    workers: int = 0
    strategy: Strategy = "ddp"

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Lead the other ranks, and dismiss them at the end or at an error."""
        try:
            yield
        except LostError:
            raise
        except BaseException:
            self._dismiss()
            raise
        self._dismiss()

    def _dismiss(self) -> None:
        if self.world.size > 1 and listen():
            with suppress(LostError):
                self.world.share(None)


@dataclass(frozen=True)
class Errand:
    """Order of rank 0 to load data: by its name, or, if that is empty, the source that each rank was given."""

    config: Config
    source: str | Path


def follow_lead(team: Team, source: Any) -> None:
    """Load and fit what rank 0 orders, until it dismisses this rank."""
    data: TaskData | None = None
    while (order := team.world.share()) is not None:
        if isinstance(order, Errand):
            data = load_by(order.source if str(order.source) else source, order.config)
        else:
            assert data is not None
            follow(order, data, team.world, team.device)


def check_world(world: World, device: str, devices: int, machines: int) -> None:
    """Refuse flags that contradict the number of ranks that torchrun started."""
    if world.size > 1:
        check_devices(device, world.local_size)
    if world.size > 1 and devices * machines > 1 and world.size != devices * machines:
        raise GpmError(
            f"{world.size} ranks were started, but --devices {devices} and --machines {machines} ask for "
            f"{devices * machines}; leave out --devices and --machines under torchrun."
        )


def check_ranks(team: Team, config: Config) -> None:
    """Refuse options that ranks cannot combine."""
    if config.model != "gpm" and config.accumulate > 1:
        raise GpmError(f"accumulate is for the pattern machine; leave it out for {config.model}.")
    if config.adapt != "none":
        _check_adaptation(team, config)
    if team.world.size == 1:
        return
    if config.model != "gpm":
        raise GpmError(f"{config.model} reads the whole graph in one process; train a baseline with --devices 1.")
    if team.strategy == "fsdp" and (config.average or config.compile or config.precision == "16-mixed"):
        raise GpmError("--strategy fsdp excludes --average, --compile and --precision 16-mixed; leave them out.")
    if team.world.size > config.batch:
        raise GpmError(f"{team.world.size} ranks cannot share a batch of {config.batch}; raise --batch.")


def _check_adaptation(team: Team, config: Config) -> None:
    if config.model != "gpm":
        raise GpmError(f"adapt is for the pattern machine; leave it out for {config.model}.")
    if team.world.size > 1 or config.accumulate > 1:
        raise GpmError(
            f"--adapt {config.adapt} needs all nodes of a step together; leave out --devices, --machines and "
            "--accumulate."
        )


def check_devices(device: str, devices: int) -> None:
    """Refuse more ranks than there are devices."""
    if devices > 1 and (device.startswith("cuda:") or device == "mps"):
        raise GpmError(f"{devices} ranks cannot share one {device}; write --device cuda or cpu.")
    if device == "cuda" and devices > torch.cuda.device_count():
        raise GpmError(f"This computer has {torch.cuda.device_count()} GPUs, not {devices}; lower --devices.")
