"""The counter-based generator: random bits are a hash of their purpose, so they do not depend on the order of draws.

The bits of draw r in step t of pattern j of node v under seed s are

    mix(state + ((t << 32) + r + 1) * GOLDEN),    state = mix(mix(key ^ v) + j),    key = mix(s + GOLDEN),

modulo 2^64, where `mix` is the finaliser of splitmix64. It is written for compiled code, for NumPy and for torch (whose
integers are signed); the tests hold the three equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.errors import whole_number

if TYPE_CHECKING:
    import torch

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_FIRST_U, _SECOND_U, GOLDEN_U = np.uint64(_FIRST), np.uint64(_SECOND), np.uint64(GOLDEN)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)

WALK, GRAPH_START, POOL, TRAINING_STEP, LABEL_HIDING = 0, 1, 2, 3, 4  # purposes of keys: a stream each


def signed(bits: int) -> int:
    """Return the signed 64-bit integer with the same bits."""
    return bits - (1 << 64) if bits >> 63 else bits


def make_key(seed: int, purpose: int = WALK) -> int:
    """Return the 64-bit key of a seed for one purpose."""
    key = _mix_int((whole_number(seed, "seed") + GOLDEN) & MASK)
    return key if purpose == WALK else _mix_int(key ^ purpose)


def _mix_int(bits: int) -> int:
    bits = ((bits ^ (bits >> 30)) * _FIRST) & MASK
    bits = ((bits ^ (bits >> 27)) * _SECOND) & MASK
    return bits ^ (bits >> 31)


def mix_array(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Scramble an array of uint64."""
    bits = (bits ^ (bits >> _S30)) * _FIRST_U
    bits = (bits ^ (bits >> _S27)) * _SECOND_U
    return bits ^ (bits >> _S31)


mix = njit(nogil=True)(mix_array)  # of one uint64, in compiled code


def mix_tensor(bits: torch.Tensor) -> torch.Tensor:
    """Scramble the bits of an int64 tensor on any device (multiplication wraps as it does for uint64)."""
    bits = (bits ^ _shift(bits, 30)) * signed(_FIRST)
    bits = (bits ^ _shift(bits, 27)) * signed(_SECOND)
    return bits ^ _shift(bits, 31)


def _shift(bits: torch.Tensor, by: int) -> torch.Tensor:
    return (bits >> by) & ((1 << (64 - by)) - 1)  # torch fills with the sign


def below_array(bits: NDArray[np.uint64], count: NDArray) -> NDArray[np.int64]:
    """Map 64 random bits to 0..count-1 without a modulo, `(bits * count) >> 64`, for counts below 2^32."""
    count = count.astype(np.uint64)
    high, low = bits >> np.uint64(32), bits & np.uint64(0xFFFFFFFF)
    drawn: NDArray[np.uint64] = (high * count + ((low * count) >> np.uint64(32))) >> np.uint64(32)
    return drawn.astype(np.int64)
