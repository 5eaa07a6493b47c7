"""The ranks of a training: what rank 0 tells the others, what they then do, and what they cannot do together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gpm.config import Config
from gpm.data.sources import TaskData, load_task_data
from gpm.errors import GpmError
from gpm.training.distributed.ranks import LostError, World, listen
from gpm.training.fit import follow
from gpm.training.prepare import Strategy


@dataclass(frozen=True)
class Team:
    """The ranks of a training, and what each of them computes with."""

    world: World
    device: str
    workers: int = 0
    strategy: Strategy = "ddp"

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Lead the other ranks; at the end, or at a mistake, they are told that there is nothing more to do."""
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
    """What rank 0 tells the others to load: the data under its name, or else what they were given."""

    config: Config
    source: str | Path


def follow_lead(team: Team, source: Any) -> None:
    """What the other ranks do: load and fit what rank 0 says, until it says no more."""
    data: TaskData | None = None
    while (order := team.world.share()) is not None:
        if isinstance(order, Errand):
            data = load_by(order.source if str(order.source) else source, order.config)
        else:
            assert data is not None
            follow(order, data, team.world, team.device)


def check_world(world: World, device: str, devices: int, machines: int) -> None:
    """Refuse flags that say something else than whoever started the ranks."""
    if world.size > 1:
        check_devices(device, world.local_size)
    if world.size > 1 and devices * machines > 1 and world.size != devices * machines:
        raise GpmError(
            f"{world.size} ranks were started, where --devices {devices} on {machines} machine(s) asks for "
            f"{devices * machines}; leave --devices and --nodes out under torchrun."
        )


def check_ranks(team: Team, config: Config) -> None:
    """Refuse what ranks cannot do together."""
    if config.model != "gpm" and config.accumulate > 1:
        raise GpmError(f"accumulate is for the pattern machine; leave it out for {config.model}.")
    if config.adapt != "none":
        _check_adaptation(team, config)
    if team.world.size == 1:
        return
    if config.model != "gpm":
        raise GpmError(f"{config.model} reads the whole graph in one process; train a baseline with --devices 1.")
    if team.strategy == "fsdp" and (config.average or config.compile or config.precision == "16-mixed"):
        raise GpmError("fsdp goes without average, compile and 16-mixed; leave them out, or train with --strategy ddp.")
    if team.world.size > config.batch:
        raise GpmError(f"{team.world.size} ranks cannot share a batch of {config.batch}; raise --batch.")


def _check_adaptation(team: Team, config: Config) -> None:
    if config.model != "gpm":
        raise GpmError(f"adapt is for the pattern machine; leave it out for {config.model}.")
    if team.world.size > 1 or config.accumulate > 1:
        raise GpmError(
            f"--adapt {config.adapt} looks at all nodes of a step together; leave out --devices, --nodes and "
            "--accumulate."
        )


def load_by(source: Any, config: Config) -> TaskData:
    """Load what the options say of a source."""
    return load_task_data(
        source, config.task, metric=config.metric, smiles=config.smiles, target=config.target, shift=config.shift
    )


def count_machines(nodes: Any) -> tuple[int, Any]:
    """A whole number of nodes is that of machines; anything else is a table of a graph's nodes."""
    text = str(nodes) if isinstance(nodes, (int, str, Path)) and not isinstance(nodes, bool) else ""
    if text.isascii() and text.isdigit() and not Path(text).exists():
        return int(text), None
    return 1, nodes


def check_devices(device: str, devices: int) -> None:
    """Refuse ranks that have no device each."""
    if devices > 1 and (device.startswith("cuda:") or device == "mps"):
        raise GpmError(f"{devices} ranks do not share one {device}; write --device cuda or cpu.")
    if device == "cuda" and devices > torch.cuda.device_count():
        raise GpmError(f"there are {torch.cuda.device_count()} GPUs here, not {devices}; write --devices accordingly.")
