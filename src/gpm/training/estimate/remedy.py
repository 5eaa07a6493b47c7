"""Which flag makes a training fit: those that change nothing but time come first, a smaller model last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gpm.config import SIZES, Config
from gpm.training.estimate.estimate import Estimate, Team

Predict = Callable[[dict[str, Any], Team], Estimate]


@dataclass(frozen=True)
class Remedy:
    """Flags that make a training fit, and what is predicted with them."""

    flags: str
    found: Estimate


def find_remedy(config: Config, team: Team, memory: float, predict: Predict) -> Remedy | None:
    """The first that fits of: parts of a step, checkpointing, a model in pieces, a smaller one; None if none does.

    Args:
        config: The options, with which it does not fit.
        team: Who trains.
        memory: Bytes that a rank may take.
        predict: Gives the estimate of changed options and of a team.
    """
    for flags, changes, who in _candidates(config, team):
        found = _in_parts(
            config.accumulate, -(-config.batch // who.ranks), memory, partial(_split, predict, changes, who)
        )
        if found is not None:
            more = [] if (parts := found.subject.config.accumulate) == config.accumulate else [f"--accumulate {parts}"]
            return Remedy(" ".join([*flags, *more]), found)
    return None


def _split(predict: Predict, changes: dict[str, Any], team: Team, parts: int) -> Estimate:
    return predict(changes | {"accumulate": parts}, team)


def _in_parts(low: int, high: int, memory: float, predict: Callable[[int], Estimate]) -> Estimate | None:
    """The estimate with the fewest parts of a step that fit."""
    parts = fewest(lambda count: predict(count).memory.total <= memory, low, high)
    return None if parts is None else predict(parts)


def _candidates(config: Config, team: Team) -> Iterator[tuple[list[str], dict[str, Any], Team]]:
    """What to try, each with more and more parts of a step."""
    saving, flag = {"checkpointing": True}, [] if config.checkpointing else ["--checkpointing"]
    yield [], {}, team
    if flag:
        yield flag, saving, team
    if team.ranks > 1 and team.strategy == "ddp" and not _is_whole(config):
        pieces = replace(team, strategy="fsdp")
        yield ["--strategy fsdp"], {}, pieces
        if flag:
            yield ["--strategy fsdp", *flag], saving, pieces
    for size in reversed(SIZES):
        if SIZES[size][0] * SIZES[size][2] ** 2 < (config.layers or 0) * (config.width or 0) ** 2:
            yield [f"--model {size}"], {"size": size}, team


def _is_whole(config: Config) -> bool:
    """Whether the options forbid a model in pieces."""
    return bool(config.average or config.compile or config.precision == "16-mixed")


def fewest(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The smallest number that fits, where more always fits better; None if even the largest does not."""
    high = max(low, high)
    if not fits(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def largest_batch(config: Config, team: Team, memory: float, predict: Predict) -> int:
    """The largest batch that fits without further parts; 0 if none does."""
    removed = fewest(
        lambda less: predict({"batch": config.batch - less}, team).memory.total <= memory, 0, config.batch - team.ranks
    )
    return 0 if removed is None else config.batch - removed
