"""Compiled search among many names held as one buffer of bytes: by 64-bit hashes, and then byte for byte."""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.random_bits import mix

Index = tuple[NDArray[np.uint64], NDArray[np.int64]]


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
def _find(hashes, order, buffer, pointer, wanted_hashes, wanted, wanted_pointer, nodes):  # pragma: no cover - compiled
    for i in range(nodes.size):
        nodes[i] = -1
        name = wanted[wanted_pointer[i] : wanted_pointer[i + 1]]
        at = np.searchsorted(hashes, wanted_hashes[i])
        while at < hashes.size and hashes[at] == wanted_hashes[i]:
            node = order[at]
            if np.array_equal(buffer[pointer[node] : pointer[node + 1]], name):
                nodes[i] = node
                break
            at += 1


def hash_names(buffer: NDArray, pointer: NDArray) -> NDArray[np.uint64]:
    """Return a hash of every name: name i is `buffer[pointer[i] : pointer[i + 1]]`."""
    hashes = np.empty(len(pointer) - 1, dtype=np.uint64)
    _hash(buffer, pointer, hashes)
    return hashes


def index_names(buffer: NDArray, pointer: NDArray) -> Index:
    """Return the hashes of names, ascending, and the node of each: 16 bytes per name."""
    hashes = hash_names(buffer, pointer)
    order = np.argsort(hashes, kind="stable")
    return hashes[order], order


def find_names(
    index: Index, buffer: NDArray, pointer: NDArray, wanted: NDArray, wanted_pointer: NDArray
) -> NDArray[np.int64]:
    """Return the first node that has each wanted name among indexed names; -1 where there is none."""
    nodes = np.empty(len(wanted_pointer) - 1, dtype=np.int64)
    _find(*index, buffer, pointer, hash_names(wanted, wanted_pointer), wanted, wanted_pointer, nodes)
    return nodes
