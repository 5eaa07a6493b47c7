"""Dropout whose masks are cheap on a CPU, and independent of how a batch is divided among ranks."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gpm.random_bits import GOLDEN, mix_tensor, signed

LEVELS = 256  # one random byte decides on an entry, so shares are multiples of 1/256


def drop(x: Tensor, share: float, training: bool, rows: Tensor | None = None) -> Tensor:
    """Set a share of the entries of `[B, ...]` to zero and scale the others, so that the expectation stays the same.

    The bits of a row are a hash of its id in `rows [B]` (by default its index) and of one draw of torch's generator:
    ranks with the same seed drop the same entries of a row, whichever of them holds it.
    """
    if not training or share == 0:
        return x
    dropped = min(max(round(share * LEVELS), 1), LEVELS - 1)
    kept = _draw_bytes(x.shape, draw_key(x.device), rows, x.device) >= dropped
    return x * (kept.to(x.dtype) * (LEVELS / (LEVELS - dropped)))


def keep_entries(rows: Tensor, columns: Tensor, share: float) -> Tensor:
    """Return which entries of sparse rows to keep `[E]`, by a hash of row, column and one draw of torch's generator."""
    bits = mix_tensor(mix_tensor(rows ^ draw_key(rows.device)) + columns * signed(GOLDEN))
    return (bits & ((1 << 31) - 1)) >= round(share * (1 << 31))


def draw_key(device: torch.device) -> Tensor:
    """Draw a 64-bit key from torch's generator on the host and move it to a device."""
    return torch.randint(-(2**63), 2**63 - 1, ()).to(device, non_blocking=True)


def _draw_bytes(shape: torch.Size, key: Tensor, rows: Tensor | None, device: torch.device) -> Tensor:
    entries = math.prod(shape[1:])
    words = (entries + 7) // 8
    rows = torch.arange(shape[0], device=device) if rows is None else rows
    counters = rows[:, None] * words + torch.arange(words, device=device)
    bits = mix_tensor(counters * signed(GOLDEN) + key)
    return bits.view(torch.uint8)[:, :entries].reshape(shape)
