"""Compiled search among many names held as one buffer of bytes: by 64-bit hashes, and then byte for byte."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.random_bits import mix


@njit(cache=True, nogil=True)
def _hash(buffer, pointer, hashes):  # pragma: no cover - compiled
    for i in range(hashes.size):
        state = np.uint64(pointer[i + 1] - pointer[i])
        word = np.uint64(0)
        for j in range(pointer[i], pointer[i + 1]):
            word = (word << np.uint64(8)) | np.uint64(buffer[j])
            if (j - pointer[i]) % 8 == 7:
                state, word = mix(state ^ word), np.uint64(0)
        hashes[i] = mix(state ^ word)


@njit(cache=True, nogil=True)
def _is_same(buffer, begin, end, other, other_begin, other_end):  # pragma: no cover - compiled
    if end - begin != other_end - other_begin:
        return False
    for i in range(end - begin):  # noqa: SIM110
        if buffer[begin + i] != other[other_begin + i]:
            return False
    return True


@njit(cache=True, nogil=True)
def _find(hashes, order, buffer, pointer, wanted_hashes, wanted, wanted_pointer, found):  # pragma: no cover - compiled
    for i in range(found.size):
        found[i] = -1
        at = np.searchsorted(hashes, wanted_hashes[i])
        while at < hashes.size and hashes[at] == wanted_hashes[i]:
            node = order[at]
            if _is_same(buffer, pointer[node], pointer[node + 1], wanted, wanted_pointer[i], wanted_pointer[i + 1]):
                found[i] = node
                break
            at += 1


@njit(cache=True, nogil=True)
def _first_twin(hashes, order, buffer, pointer):  # pragma: no cover - compiled
    for first in range(hashes.size):
        a = order[first]
        second = first + 1
        while second < hashes.size and hashes[second] == hashes[first]:
            b = order[second]
            if _is_same(buffer, pointer[a], pointer[a + 1], buffer, pointer[b], pointer[b + 1]):
                return a
            second += 1
    return -1


def hash_names(buffer: NDArray, pointer: NDArray) -> NDArray[np.uint64]:
    """A hash of every name: name i is `buffer[pointer[i] : pointer[i + 1]]`."""
    hashes = np.empty(len(pointer) - 1, dtype=np.uint64)
    _hash(buffer, pointer, hashes)
    return hashes


Index = tuple[NDArray[np.uint64], NDArray[np.int64]]


def index_names(buffer: NDArray, pointer: NDArray) -> Index:
    """The hashes of names, ascending, and where each name stands: 16 bytes per name."""
    hashes = hash_names(buffer, pointer)
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order


def find_names(
    index: Index, buffer: NDArray, pointer: NDArray, wanted: NDArray, wanted_pointer: NDArray
) -> NDArray[np.int64]:
    """Where each wanted name first stands among others, which are indexed; -1 where it does not."""
    found = np.empty(len(wanted_pointer) - 1, dtype=np.int64)
    hashes_wanted = hash_names(wanted, wanted_pointer)
    _find(*index, buffer, pointer, hashes_wanted, wanted, wanted_pointer, found)
    return found


def find_twin(buffer: NDArray, pointer: NDArray) -> int:
    """The place of a name that stands twice; -1 if there is none."""
    return int(_first_twin(*index_names(buffer, pointer), buffer, pointer))
