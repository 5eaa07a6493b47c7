"""Prepare a training: settle the options, draw the split, make the task, the model and its examples.

`gpm train`, `gpm tune` and `gpm plan` all start here, so that they train, search and measure the same thing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from gpm.config import Config, Strategy, Tracker
from gpm.data.domain_data import DomainData
from gpm.data.link_data import LinkData
from gpm.data.splits import Split
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.build import build_predictor
from gpm.nn.predictor import Predicts
from gpm.tasks import Task, make_task
from gpm.tasks.task import known_answers
from gpm.training.adaptation import Adaptation, DomainExamples
from gpm.training.batches import Examples
from gpm.training.distributed.ranks import ALONE, World
from gpm.training.imbalance import choose_metric
from gpm.training.recipes import Recipe

if TYPE_CHECKING:
    from gpm.training.lightning_module import Learner


@dataclass(frozen=True)
class Job:
    """One training to run: its options and data, its folder, and the processes that take part."""

    config: Config
    data: TaskData
    digest: str
    folder: Path
    recipe: Recipe
    device: str = "cpu"
    track: Tracker = "none"
    baselines: bool = False  # also train other networks and boosted trees
    quiet: bool = False
    world: World = ALONE
    workers: int = 0
    strategy: Strategy = "ddp"


@dataclass(frozen=True, eq=False)
class Training:
    """A prepared training."""

    config: Config  # with nothing left to guess
    data: TaskData
    split: Split
    task: Task
    device: str = "cpu"
    stream: bool = False  # walk and gather on the host, and bring to the device what a batch touches

    @classmethod
    def of(cls, config: Config, data: TaskData, split: Split | None = None, **more: Any) -> Self:
        """Settle and check the options, draw the split unless it is given, and make the task."""
        config = settle_options(config, data)
        for name, idle in (("adapt", "none"), ("validate", "source")):
            if (value := getattr(config, name)) != idle and not data.has_domains:
                raise GpmError(f"--{name} {value} needs a target: name one with --target_graph, or try --shift degree.")
        _check_inputs(config, data)
        split = draw_split(data, config) if split is None else split
        return cls(config, data, split, make_task(data, split, config), **more)

    @cached_property
    def graph(self) -> Graph:
        """Graph that may be walked; for links, without the edges that are held out."""
        return self.data.walked_graph(self.split)

    def build(self) -> Predicts:
        torch.manual_seed(self.config.seed)
        return build_predictor(
            self.config, self.graph, self.task.outputs, self.data.level, device=self.device,
            seen=self.data.statistics_graphs(self.split), stream=self.stream,
            answers=known_answers(self.task, self.split),
            descriptors=self.data.describe_instances() if self.config.descriptors else None,
        )  # fmt: skip

    def make_learner(
        self, predictor: Predicts, world: World = ALONE, workers: int = 0, sharded: bool = False
    ) -> Learner:
        """Make the module that Lightning trains; with --adapt, on the nodes of both domains."""
        from gpm.training.lightning_module import Learner

        config, data, adaptation = self.config, self.data, None
        examples = Examples(data, self.task, self.split, config.seed)
        if config.adapt != "none":
            assert isinstance(data, DomainData)
            examples, adaptation = DomainExamples(data, self.task, self.split, config.seed), self.make_adaptation(data)
        return Learner(predictor, examples, config, world, workers, sharded, adaptation)

    def make_adaptation(self, data: DomainData) -> Adaptation:
        return Adaptation(self.config, data)


def _check_inputs(config: Config, data: TaskData) -> None:
    """Refuse inputs that the task or the model does not have."""
    asked = {
        "labels": config.labels == "on", "position": config.position, "linear": config.linear != "none",
        "neighbourhoods": config.neighbourhoods, "frequencies": config.frequencies,
    }  # fmt: skip
    counts = ("neighbourhoods", "frequencies")
    known = {"node": ("labels", "position", "linear"), "graph": ("linear", *counts), "link": ()}[data.level]
    for name, is_on in asked.items():
        if is_on and name not in known and config.model == "gpm":
            where = "nodes and graphs" if name == "linear" else "graphs" if name in counts else "nodes"
            raise GpmError(f"--{name} is for predicting {where}, but here {data.level}s are predicted; leave it out.")
    if config.linear == "blend" and data.has_domains:
        raise GpmError("--linear blend is for one graph: with a target graph, take --linear base, or leave it out.")
    for name in counts:
        if asked[name] and config.linear == "none" and config.model == "gpm":
            raise GpmError(f"--{name} are read by the linear part of a model; add --linear base, or leave them out.")
    if config.topology == "refined" and data.level == "link" and config.model == "gpm":
        raise GpmError("--topology refined is for nodes and graphs, not for links; choose loops, induced or shape.")
    if config.descriptors and config.model != "gpm":
        raise GpmError(f"--descriptors are read by --model gpm, not by {config.model}; leave them out.")


def settle_options(config: Config, data: TaskData) -> Config:
    """Return the options with the metric and the task that the data decides."""
    return config.with_(metric=choose_metric(config, data), task=data.level)


def selection_metric(config: Config) -> str:
    """Return the validation figure by which the epoch is chosen, and a training stops early."""
    return "loss" if config.select == "loss" else config.metric


def draw_split(data: TaskData, config: Config) -> Split:
    if isinstance(data, LinkData):
        data = replace(data, bipartite=config.bipartite)
    return data.make_split(config.seed, config.split, protocol=config.protocol, validate=config.validate)
