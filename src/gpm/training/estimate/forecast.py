"""A plan: the prediction of a training, whether it fits, and what would make it fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from gpm.config import Config
from gpm.errors import GpmError
from gpm.training.estimate.estimate import Estimate, Team, count_instances, describe, estimate
from gpm.training.estimate.live_bytes import available_bytes, private_bytes
from gpm.training.estimate.machine_costs import STATE, find_constants, find_costs
from gpm.training.estimate.remedy import Remedy, find_remedy, largest_batch
from gpm.training.estimate.subject import Stated, Subject
from gpm.training.start import _begin_with, _resolve


@dataclass(frozen=True)
class Plan:
    """A prediction, and what follows from it.

    Attributes:
        found: The prediction.
        memory: Bytes that a rank may take; 0 if that is not known.
        notes: What to know about its figures.
        remedy: What makes it fit, if it does not and something does.
        batch: The largest batch that fits as it is, if it does not; else 0.
    """

    found: Estimate
    memory: float
    notes: tuple[str, ...] = ()
    remedy: Remedy | None = None
    batch: int = 0

    @property
    def fits(self) -> bool:
        return self.found.memory.total <= self.memory

    @property
    def verdict(self) -> str:
        """In one sentence."""
        needed, there = self.found.memory.total / 1e9, self.memory / 1e9
        if self.fits:
            return f"It fits: {needed:.2f} GB of the {there:.2f} GB that a rank may take."
        begin = f"It does not fit: a rank needs {needed:.2f} GB and may take {there:.2f} GB"
        if self.remedy is None:
            return f"{begin}; no flag makes it fit, not even a smaller model in more parts."
        other = self.remedy.found
        instead = f", and so would --batch {self.batch}, which is another training" if self.batch else ""
        return f"{begin}; {self.remedy.flags} would make it fit, with {other.memory.total / 1e9:.2f} GB{instead}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        remedy = None
        if self.remedy is not None:
            remedy = {"flags": self.remedy.flags, "memory_bytes": round(self.remedy.found.memory.total)}
        return describe(self.found) | {
            "memory_of_a_rank": round(self.memory), "fits": self.fits, "remedy": remedy, "largest_batch": self.batch,
            "notes": list(self.notes), "verdict": self.verdict,
        }  # fmt: skip


def load(source: str, options: dict[str, Any], recipe: str, stated: Stated | None) -> tuple[Subject, float]:
    """What would be trained, and the bytes of memory that it was seen to take."""
    before = private_bytes()
    if stated is not None:
        config = _begin_with(recipe).with_(**options)
        subject = Subject.of(config, stated.sample(), stated)
        _refuse_baselines(config)
        return subject, stated.held_bytes
    chosen, data = _resolve(source, options, recipe)
    _refuse_baselines(chosen.config)
    subject = Subject.of(chosen.config, data)
    _ = subject.table
    return subject, max(0, private_bytes() - before)


def _refuse_baselines(config: Config) -> None:
    if config.model != "gpm":
        raise GpmError(f"gpm plan is for the pattern machine, not for {config.model}; name another recipe.")


def make_plan(subject: Subject, team: Team, memory: float, loaded: float, again: bool = False) -> Plan:
    """Predict a training, and look for what makes it fit.

    Args:
        subject: What is trained.
        team: By whom.
        memory: Bytes that a rank may take; 0 for what is free here.
        loaded: Bytes that graph and features were seen to take in memory.
        again: Measure again.
    """
    memory = memory or _find_memory(team)
    if team.ranks > subject.config.batch:
        raise GpmError(f"{team.ranks} ranks cannot share a batch of {subject.config.batch}; raise --batch.")
    _check_size(subject)
    constants = find_constants(team.threads, again)
    first = count_instances(subject, team)

    def predict(changes: dict[str, Any], who: Team, fresh: bool = False) -> Estimate:
        changed = subject.with_(**changes) if changes else subject
        kept = {key: value for key, value in changes.items() if key not in ("accumulate", "batch")}
        costs = known.get(name := str(sorted(kept.items())))
        if costs is None:
            costs = known[name] = find_costs(subject.with_(**kept), first, who.threads, fresh)
        return estimate(changed, who, costs, constants, loaded)

    known: dict[str, Any] = {}
    found = predict({}, team, again)
    remedy, batch = None, 0
    if found.memory.total > memory:
        remedy = find_remedy(subject.config, team, memory, predict)
        batch = largest_batch(subject.config, team, memory, predict)
    return Plan(found, memory, tuple(_note(found)), remedy, batch)


def _find_memory(team: Team) -> float:
    """What a rank may take of this machine."""
    if team.device == "cpu":
        return available_bytes() / team.devices
    if not torch.cuda.is_available():
        raise GpmError("there is no GPU here; say how much memory one has, as in --memory 80.")
    return float(torch.cuda.get_device_properties(0).total_memory)


def _check_size(subject: Subject) -> None:
    """Refuse to measure what this machine cannot hold."""
    needed, there = STATE * subject.count_parameters(), available_bytes()
    if there and needed > there / 2:
        raise GpmError(
            f"the model has {needed / STATE:,.0f} parameters, whose {needed / 1e9:.1f} GB of weights, gradients and "
            "optimizer's state cannot be measured here; take a smaller --width or --model."
        )


def _note(found: Estimate) -> list[str]:
    """What a prediction rests on that was not measured."""
    notes, team, subject = [], found.team, found.subject
    if team.device == "cuda":
        notes.append(
            "Times on a GPU are not measured: they are told from a stated peak, see --peak; take them as rough."
        )
    if team.ranks > 1:
        notes.append("Communication is told from a stated bandwidth, see --bandwidth; ranks were not started.")
    if subject.stated is not None and subject.stated.nodes > subject.data.graph.num_nodes:
        notes.append(f"Measured on a random graph of {subject.data.graph.num_nodes:,} nodes and the same mean degree.")
    if subject.config.compile:
        notes.append("Measured without --compile.")
    return notes
