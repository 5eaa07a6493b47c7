"""Plan a training: predict it, tell whether it fits, and find what would make it fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from gpm.compute import keep_memory, set_threads
from gpm.config import SIZES, Config
from gpm.errors import GpmError
from gpm.io.environment import available_bytes, private_bytes
from gpm.training.choose import choose_recipe, default_config
from gpm.training.distributed import lead
from gpm.training.distributed.ranks import World
from gpm.training.estimate.estimate import GB, Estimate, Team, count_instances, estimate
from gpm.training.estimate.machine_costs import STATE, find_constants, find_costs
from gpm.training.estimate.subject import Stated, Subject
from gpm.training.paper_options import choose_paper
from gpm.training.recipes import Recipe

Predict = Callable[[dict[str, Any], Team], Estimate]  # of a training with changed options and ranks


@dataclass(frozen=True)
class Remedy:
    """Flags that make a training fit, and its prediction with them."""

    flags: str
    found: Estimate


@dataclass(frozen=True)
class Plan:
    """A predicted training."""

    found: Estimate
    memory: float  # bytes that a rank may take
    notes: tuple[str, ...] = ()  # caveats about the figures
    remedy: Remedy | None = None  # flags that make it fit, if it does not and some do
    batch: int = 0  # the largest batch that fits as it is, if it does not

    @property
    def fits(self) -> bool:
        return self.found.memory.total <= self.memory

    @property
    def verdict(self) -> str:
        needed, there = self.found.memory.total / GB, self.memory / GB
        if self.fits:
            return f"It fits: a rank needs {needed:.2f} GB of {there:.2f} GB."
        begin = f"It does not fit: a rank needs {needed:.2f} GB and has {there:.2f} GB"
        if self.remedy is None:
            return f"{begin}; no flag makes it fit, not even a smaller model with more micro-batches."
        instead = f", and so would --batch {self.batch}, which changes the training" if self.batch else ""
        total = self.remedy.found.memory.total
        return f"{begin}; {self.remedy.flags} would make it fit, with {total / GB:.2f} GB{instead}."

    def to_dict(self) -> dict[str, Any]:
        best = self.remedy
        return self.found.to_dict() | {
            "memory_of_a_rank": round(self.memory), "fits": self.fits,
            "remedy": best and {"flags": best.flags, "memory_bytes": round(best.found.memory.total)},
            "largest_batch": self.batch, "notes": list(self.notes), "verdict": self.verdict,
        }  # fmt: skip

    def describe(self) -> str:
        team, config = self.found.team, self.found.subject.config
        kind, plural = ("process", "es") if team.device == "cpu" else ("GPU", "s")
        machines = f" on each of {team.machines} machines" if team.machines > 1 else ""
        head = (
            f"{self.found.subject.data.title}: {config.layers} layer(s), {config.heads} heads, width {config.width}, "
            f"{self.found.parameters:,} parameters; {team.devices} {kind}{plural * (team.devices > 1)}{machines}, "
            f"{self.found.instances:,} instances at once"
        )
        return "\n".join([head, *self._describe_memory(), *self._describe_times(), *self.notes, self.verdict])

    def _describe_memory(self) -> list[str]:
        memory, config = self.found.memory, self.found.subject.config
        files = f"; {show_bytes(memory.files)} in mapped files, not counted" if memory.files else ""
        target = " and as many of the target" if config.adapt != "none" else ""
        rows = [
            ("process", memory.process, "Python, torch and Lightning" if self.found.team.device == "cpu" else "CUDA"),
            ("graph", memory.graph, f"with features, in memory{files}"),
            ("weights", memory.weights, "with gradients and the state of AdamW"),
            *([("averaged", memory.averaged, "weights")] if memory.averaged else []),
            ("step", memory.step, f"{self.found.instances:,} instances{target} x {config.patterns} patterns"),
            ("validation", memory.reading, "not at the same time as a step; the larger of the two counts"),
        ]
        head = f"memory per rank   {show_bytes(memory.total)} of {show_bytes(self.memory)}"
        return [head, *(f"  {name:<14}  {show_bytes(size):>9}  {about}" for name, size, about in rows)]

    def _describe_times(self) -> list[str]:
        times = self.found.times
        parts = {key: getattr(times, key) for key in ("sampling", "gathering", "computing", "communicating")}
        shares = ", ".join(f"{key} {show_seconds(value)}" for key, value in parts.items() if value)
        rows = [
            ("step", times.step, f"{1 / times.step:.3g} steps/s: {shares}"),
            ("epoch", times.epoch, f"{times.steps:,} steps, and validation of {show_seconds(times.validation)} with "
                                   f"{self.found.val_patterns} patterns"),
            ("training", times.whole, f"{times.epochs} epochs, and scoring of {show_seconds(times.scoring)}"),
        ]  # fmt: skip
        return ["time", *(f"  {name:<14}  {show_seconds(value):>9}  {about}" for name, value, about in rows)]


def plan_training(
    source: str | Stated,
    team: Team = Team(),
    *,
    memory: float = 0.0,
    measure: bool = False,
    recipe: str = "",
    **options: Any,
) -> Plan:
    """Predict the memory and the time of a training before it is started, and find the flags that make it fit.

    The source, the recipe and the options are those of `gpm.train`, but a graph may also not exist yet. A rank may take
    `memory` bytes, by default what is free here, divided among the devices. `measure` ignores the cached costs.
    """
    keep_memory()
    set_threads(team.threads)
    before = private_bytes()
    if isinstance(source, Stated):
        config = default_config(recipe).with_(**options)
        if config.preset == "paper" and config.model == "gpm":
            config = choose_paper(Recipe("", config), options, "node")
        subject = Subject.of(config, source.sample(), stated=source)
        return make_plan(subject, team, memory, source.held_bytes, measure)
    chosen, data = choose_recipe(source, options, recipe)
    subject = Subject.of(chosen.config, data)
    _ = subject.table  # loads the features
    return make_plan(subject, team, memory, max(0, private_bytes() - before), measure)


def make_plan(subject: Subject, team: Team, memory: float, loaded: float, again: bool = False) -> Plan:
    """Predict a training, and look for what makes it fit; `loaded` is the bytes that loading its graph took."""
    memory = memory or _find_memory(team)
    world = World(size=team.ranks, local_size=team.devices)
    lead.check_ranks(lead.Team(world, team.device, team.workers, team.strategy), subject.config)
    _check_size(subject)
    constants = find_constants(team.threads, again)
    first = count_instances(subject, team)
    measured: dict[str, Any] = {}

    def predict(changes: dict[str, Any], who: Team) -> Estimate:
        kept = {key: value for key, value in changes.items() if key not in ("accumulate", "batch")}
        key = str(sorted(kept.items()))
        if key not in measured:
            measured[key] = find_costs(subject.with_(**kept), first, who.threads, again and not kept)
        return estimate(subject.with_(**changes) if changes else subject, who, measured[key], constants, loaded)

    found, remedy, batch = predict({}, team), None, 0
    if found.memory.total > memory:
        remedy = find_remedy(subject.config, team, memory, predict)
        batch = largest_batch(subject.config, team, memory, predict)
    return Plan(found, memory, tuple(_note(found)), remedy, batch)


def _find_memory(team: Team) -> float:
    if team.device == "cpu":
        return available_bytes() / team.devices
    if not torch.cuda.is_available():
        raise GpmError("There is no GPU here; give its memory in GB, as in --memory 80.")
    return float(torch.cuda.get_device_properties(0).total_memory)


def _check_size(subject: Subject) -> None:
    """Refuse to measure a model that this computer cannot hold."""
    needed, there = STATE * subject.count_parameters(), available_bytes()
    if there and needed > there / 2:
        raise GpmError(
            f"The model has {needed / STATE:,.0f} parameters, whose {needed / GB:.1f} GB of weights, gradients and "
            "optimizer state cannot be measured here; choose a smaller --width or --model."
        )


def _note(found: Estimate) -> list[str]:
    notes, team, subject = [], found.team, found.subject
    if team.device == "cuda":
        notes.append("Times on a GPU are rough: they are not measured, but computed from a stated peak, see --peak.")
    if team.ranks > 1:
        notes.append("Communication is computed from a stated bandwidth, see --bandwidth; no ranks were started.")
    if subject.stated is not None and subject.stated.nodes > subject.data.graph.num_nodes:
        notes.append(f"Measured on a random graph of {subject.data.graph.num_nodes:,} nodes and the same mean degree.")
    if subject.config.compile:
        notes.append("Measured without --compile.")
    return notes


def find_remedy(config: Config, team: Team, memory: float, predict: Predict) -> Remedy | None:
    """Return the first that fits of: parts of a step, checkpointing, a sharded model, a smaller one; None for none."""
    for flags, changes, who in _candidates(config, team):

        def fits(parts: int, changes: dict[str, Any] = changes, who: Team = who) -> bool:
            return predict(changes | {"accumulate": parts}, who).memory.total <= memory

        most = config.accumulate if config.adapt != "none" else -(-config.batch // who.ranks)  # adapt takes no parts
        if (parts := fewest(fits, config.accumulate, most)) is not None:
            more = [] if parts == config.accumulate else [f"--accumulate {parts}"]
            return Remedy(" ".join([*flags, *more]), predict(changes | {"accumulate": parts}, who))
    return None


def _candidates(config: Config, team: Team) -> Iterator[tuple[list[str], dict[str, Any], Team]]:
    """Yield flags, options and ranks to try, each with more and more parts of a step."""
    teams: list[tuple[list[str], Team]] = [([], team)]
    whole = config.average or config.compile or config.precision == "16-mixed"  # which forbid a sharded model
    if team.ranks > 1 and team.strategy == "ddp" and not whole:
        teams.append((["--strategy fsdp"], replace(team, strategy="fsdp")))
    for flags, who in teams:
        yield flags, {}, who
        if not config.checkpointing:
            yield [*flags, "--checkpointing"], {"checkpointing": True}, who
    for size in reversed(SIZES):
        if SIZES[size][0] * SIZES[size][2] ** 2 < (config.layers or 0) * (config.width or 0) ** 2:
            yield [f"--model {size}"], {"size": size}, team


def fewest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the smallest number that fits, where more always fits better; None if even the largest does not."""
    high = max(low, high)
    if not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def largest_batch(config: Config, team: Team, memory: float, predict: Predict) -> int:
    """Return the largest batch that fits without further parts; 0 if none does."""
    removed = fewest(
        lambda less: predict({"batch": config.batch - less}, team).memory.total <= memory, 0, config.batch - team.ranks
    )
    return 0 if removed is None else config.batch - removed


def show_bytes(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e7 else f"{size / 1e6:.2f} MB"


def show_seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"
