"""Find flags that make a training fit: those that change nothing but time come first, a smaller model last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gpm.config import SIZES, Config
from gpm.training.estimate.estimate import Estimate, Team

Predict = Callable[[dict[str, Any], Team], Estimate]


@dataclass(frozen=True)
class Remedy:
    """Flags that make a training fit, and its prediction with them."""

    flags: str
    found: Estimate


def find_remedy(config: Config, team: Team, memory: float, predict: Predict) -> Remedy | None:
    """Return the first that fits of: parts of a step, checkpointing, a sharded model, a smaller one; None for none.

    Args:
        config: Options, with which the training does not fit.
        team: Its ranks.
        memory: Bytes that a rank may take.
        predict: Predicts a training with changed options and ranks.
    """
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
    saving, flag = {"checkpointing": True}, [] if config.checkpointing else ["--checkpointing"]
    yield [], {}, team
    if flag:
        yield flag, saving, team
    whole = config.average or config.compile or config.precision == "16-mixed"  # which forbid a sharded model
    if team.ranks > 1 and team.strategy == "ddp" and not whole:
        sharded = replace(team, strategy="fsdp")
        yield ["--strategy fsdp"], {}, sharded
        if flag:
            yield ["--strategy fsdp", *flag], saving, sharded
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
