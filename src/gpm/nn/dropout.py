"""Dropout whose masks are cheap on a CPU, where drawing a number per entry costs more than using it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

LEVELS = 256  # a byte of random bits decides on an entry, so shares are multiples of 1/256


def drop(x: Tensor, share: float, training: bool) -> Tensor:
    """Set a share of the entries to zero and scale the others, so that the expectation stays.

    On a CPU one 64-bit random number decides on eight entries, and the share is rounded to a multiple of 1/256.
    """
    if not training or share == 0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, share)
    dropped = min(max(round(share * LEVELS), 1), LEVELS - 1)
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
    kept = words.view(torch.uint8)[: x.numel()].view(x.shape) >= dropped
    return x * (kept.to(x.dtype) * (LEVELS / (LEVELS - dropped)))
