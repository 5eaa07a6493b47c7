"""How far the answers of a model move when other patterns are drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from scipy.special import stdtrit
from torch import Tensor

from gpm.errors import GpmError, whole_number
from gpm.nn.predictor import Predictor, Predicts

DRAWS = 8
LEVEL = 0.9  # share of intervals that hold what they promise


def measure_spread(
    predictor: Predicts, inputs: Any, logits: Tensor, *, draws: int = DRAWS, patterns: int | None = None,
    progress: bool = False,
) -> Tensor:  # fmt: skip
    """Standard deviation `[B, C]` of the logits over so many independent draws of patterns.

    Args:
        predictor: The model on its graph. A baseline draws nothing: its answers do not spread.
        inputs: Nodes, graphs or pairs.
        logits: What it says of them, which is the first draw.
        draws: How many, the first among them.
        patterns: Per instance and draw; by default the whole pool.
        progress: Show a bar for every draw.
    """
    if whole_number(draws, "draws") < 2:
        raise GpmError(f"draws must be at least 2, since one tells nothing of a spread, got {draws}.")
    said = [logits]
    for other in _redraw(predictor, draws - 1):
        said.append(other.logits(inputs, patterns=patterns, progress=progress))
    return torch.stack(said).double().std(0) if len(said) > 1 else torch.zeros_like(logits, dtype=torch.float64)


def spread_factor(draws: int) -> float:
    """How many standard deviations, themselves estimated from so many draws, reach `LEVEL` to both sides."""
    return float(stdtrit(draws - 1, (1 + LEVEL) / 2))


def _redraw(predictor: Predicts, times: int) -> Iterator[Predicts]:
    """The same model on other patterns."""
    if isinstance(predictor, Predictor):
        own = predictor.tokenizer
        yield from (replace(predictor, tokenizer=own.redraw(own.seed + 1 + i)) for i in range(times))
