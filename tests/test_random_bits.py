import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from gpm.random_bits import MASK, _mix_int, below_array, make_key, mix, mix_array, mix_tensor, signed

words = st.integers(0, MASK)


@njit
def _mix_one(bits):
    return mix(bits)


@given(words)
def test_compiled_numpy_and_torch_scramble_alike(bits: int) -> None:
    expected = _mix_int(bits)
    assert int(_mix_one(np.uint64(bits))) == expected
    assert int(mix_array(np.array([bits], dtype=np.uint64))[0]) == expected
    assert mix_tensor(torch.tensor([signed(bits)]))[0].item() == signed(expected)


def test_the_finaliser_is_splitmix64() -> None:
    # First outputs of splitmix64 seeded with 1234567, as its authors' reference program prints them.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    golden = 0x9E3779B97F4A7C15
    assert [_mix_int((1234567 + i * golden) & MASK) for i in (1, 2, 3)] == expected


@given(words, st.integers(1, 2**31))
def test_below_is_the_high_word_of_the_product(bits: int, count: int) -> None:
    drawn = below_array(np.array([bits], dtype=np.uint64), np.array([count]))
    assert int(drawn[0]) == (bits * count) >> 64


def test_keys_differ_by_seed_and_purpose() -> None:
    keys = {make_key(seed, purpose) for seed in range(100) for purpose in range(3)}
    assert len(keys) == 300
