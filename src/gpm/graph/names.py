"""The user's own node names, kept beside the integer ids that the kernels use.

Names that are text are one buffer of bytes: name i is `buffer[pointer[i] : pointer[i + 1]]`. Many are found at once by
64-bit hashes, and then byte for byte.
"""
# mypy: allow-untyped-defs, allow-untyped-decorators

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpm.errors import GpmError, nearest
from gpm.io.npy import freeze, thaw
from gpm.random_bits import mix

Name = int | str


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


def join_names(names: Iterable[Name]) -> str:
    """Write a walk as text: names joined by dashes, or by arrows where a name contains a dash."""
    texts = [str(name) for name in names]
    return (" > " if any("-" in text for text in texts) else "-").join(texts)


class Names:
    """Names of nodes 0..N-1: integers, or strings held as one UTF-8 buffer (so that they can be memory-mapped).

    Args:
        values: The names of nodes 0, 1, 2, ...; all integers, or anything else, which is kept as `str(value)`.
    """

    def __init__(self, values: Iterable[object]) -> None:
        if isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.signedinteger):
            self._arrays = {"integers": values.astype(np.int64)}
            return
        listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
        if all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in listed):
            try:
                self._arrays = {"integers": np.array(listed, dtype=np.int64)}
                return
            except OverflowError:
                pass  # integers beyond 64 bits are kept as text
        self._arrays = _join([encode_names(listed)])

    @classmethod
    def from_chunks(cls, chunks: Iterable[Sequence[str]]) -> Names:
        """Build names from several lists, always kept as text."""
        return cls.from_arrays(_join(map(encode_names, chunks)))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> Names:
        """Rebuild names from what `arrays` returned, for instance memory-mapped."""
        names = cls.__new__(cls)
        names._arrays = dict(arrays)
        return names

    def __getstate__(self) -> dict[str, Any]:
        return {key: freeze(array) for key, array in self._arrays.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._arrays = {key: thaw(value) for key, value in state.items()}

    def arrays(self) -> dict[str, NDArray]:
        """Return the arrays that hold the names, by a short key each."""
        return self._arrays

    def __len__(self) -> int:
        return len(self._arrays["integers"]) if self._integers is not None else len(self._arrays["pointer"]) - 1

    def __getitem__(self, node: int) -> Name:
        return self.take(np.array([node]))[0]

    def take(self, nodes: NDArray[np.int64]) -> list[Name]:
        """Return the names of many nodes, at a million nodes a second."""
        if self._integers is not None:
            return [*self._integers[nodes].tolist()]
        pointer, buffer = self._arrays["pointer"], np.ascontiguousarray(self._arrays["bytes"]).data
        ends = zip(pointer[nodes].tolist(), pointer[nodes + 1].tolist(), strict=True)
        return [str(buffer[first:last], "utf-8", "surrogateescape") for first, last in ends]

    def find(self, name: object) -> int:
        """Return the node that has a name, passed as itself or as its text. A scan: it needs no index in memory."""
        nodes = self._scan(name)
        if len(nodes) == 0:
            some = [str(self[i]) for i in range(min(len(self), 10_000))]
            raise GpmError(f"No node is named {name!r}.{nearest(str(name), some)}")
        return int(nodes[0])

    def find_many(self, names: Sequence[object]) -> NDArray[np.int64]:
        """Return the nodes that have names, in their order; an unknown name is an error, see `look_up`."""
        nodes = self.look_up(names)
        if (unknown := np.flatnonzero(nodes < 0)).size:
            self.find(names[int(unknown[0])])
        return nodes

    def look_up(self, names: Sequence[object]) -> NDArray[np.int64]:
        """Like `find` for many names at once, by one sort, which is kept; -1 for a name that no node has."""
        if self._integers is None:
            return self._look_up_text(_join([encode_names(names)]))
        integers = [_as_integer(name) for name in names]
        values = np.array([value or 0 for value in integers], dtype=np.int64)
        if not len(self):
            return np.full(len(values), -1, dtype=np.int64)
        at = np.searchsorted(self._integers, values, sorter=self._order)
        nodes = self._order[np.minimum(at, len(self) - 1)]
        named = np.array([value is not None for value in integers], dtype=bool)
        return np.where(named & (self._integers[nodes] == values), nodes, -1)

    def _look_up_text(self, wanted: dict[str, NDArray]) -> NDArray[np.int64]:
        """Return the first node that has each name; -1 where there is none."""
        own, nodes = self._arrays, np.empty(len(wanted["pointer"]) - 1, dtype=np.int64)
        _find(*self._index, own["bytes"], own["pointer"], hash_names(wanted), wanted["bytes"], wanted["pointer"], nodes)
        return nodes

    @property
    def _integers(self) -> NDArray[np.int64] | None:
        return self._arrays.get("integers")

    @cached_property
    def _index(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The hashes of names, ascending, and the node of each: 16 bytes per name."""
        hashes = hash_names(self._arrays)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self._arrays["integers"], kind="stable")

    def _scan(self, name: object) -> NDArray:
        if self._integers is not None:
            integer = _as_integer(name)
            return np.empty(0, dtype=np.int64) if integer is None else np.flatnonzero(self._integers == integer)
        wanted = np.frombuffer(str(name).encode("utf-8", "surrogateescape"), dtype=np.uint8)
        pointer, buffer = self._arrays["pointer"], self._arrays["bytes"]
        nodes = np.flatnonzero(np.diff(pointer) == len(wanted))
        for offset, byte in enumerate(wanted):
            nodes = nodes[buffer[pointer[nodes] + offset] == byte]
        return nodes

    def first_duplicate(self) -> Name | None:
        """Return a name that two nodes share, or None."""
        if self._integers is not None:
            values, counts = np.unique(self._integers, return_counts=True)
            return next(iter(values[counts > 1].tolist()), None)
        twice = np.flatnonzero(self._look_up_text(self._arrays) != np.arange(len(self)))
        return self[int(twice[0])] if twice.size else None


def hash_names(arrays: Mapping[str, NDArray]) -> NDArray[np.uint64]:
    """Return a hash of every name."""
    hashes = np.empty(len(arrays["pointer"]) - 1, dtype=np.uint64)
    _hash(arrays["bytes"], arrays["pointer"], hashes)
    return hashes


def encode_names(names: Sequence[object]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the UTF-8 bytes of names one after the other, and the length of each."""
    encoded = [str(name).encode("utf-8", "surrogateescape") for name in names]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), lengths


def _join(pieces: Iterable[tuple[NDArray, NDArray]]) -> dict[str, NDArray]:
    """Join encoded pieces to one buffer with pointers into it."""
    buffers, lengths = zip((np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)), *pieces, strict=True)
    return {"bytes": np.concatenate(buffers), "pointer": np.cumsum(np.concatenate(lengths))}


def _as_integer(name: object) -> int | None:
    """Return the 64-bit integer that a name, or its usual text, is."""
    text = str(name)
    integer = int(text) if text.removeprefix("-").isdecimal() and len(text) < 21 else None
    return integer if integer is not None and str(integer) == text and -(2**63) <= integer < 2**63 else None
