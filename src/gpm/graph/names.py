"""The user's own node names, kept beside the integer ids that the kernels use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError, nearest
from gpm.graph.name_index import Index, find_names, find_twin, index_names
from gpm.io.npy import freeze, thaw

Name = int | str


def join_names(names: Iterable[Name]) -> str:
    """A walk as text: names with dashes between, or arrows where a name has a dash of its own."""
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
        """Names that come piece by piece, always kept as text."""
        return cls.from_arrays(_join(map(encode_names, chunks)))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> Names:
        """Rebuild from what `arrays` returned, for instance memory-mapped."""
        names = cls.__new__(cls)
        names._arrays = dict(arrays)
        return names

    def __getstate__(self) -> dict[str, Any]:
        return {key: freeze(array) for key, array in self._arrays.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._arrays = {key: thaw(value) for key, value in state.items()}

    def arrays(self) -> dict[str, NDArray]:
        """The arrays that hold the names, by a short key each."""
        return self._arrays

    def __len__(self) -> int:
        integers = self._arrays.get("integers")
        return len(integers) if integers is not None else len(self._arrays["pointer"]) - 1

    def __getitem__(self, node: int) -> Name:
        if (integers := self._arrays.get("integers")) is not None:
            return int(integers[node])
        start, stop = self._arrays["pointer"][node : node + 2]
        return self._arrays["bytes"][start:stop].tobytes().decode("utf-8", "surrogateescape")

    def find(self, name: object) -> int:
        """Return the node that carries a name, given as itself or as its text. A scan: it needs no index in memory."""
        found = self._matches(name)
        if len(found) == 0:
            raise GpmError(f"no node is named {name!r}.{nearest(str(name), self._some_names())}")
        return int(found[0])

    def find_many(self, names: Sequence[object]) -> NDArray[np.int64]:
        """Return the nodes that carry names, in their order; an unknown one is an error, see `look_up`."""
        found = self.look_up(names)
        if (unknown := np.flatnonzero(found < 0)).size:
            self.find(names[int(unknown[0])])
        return found

    def look_up(self, names: Sequence[object]) -> NDArray[np.int64]:
        """Like `find` for many names at once, by one sort, which is kept; -1 for a name that no node carries."""
        if (integers := self._arrays.get("integers")) is None:
            wanted, own = _join([encode_names(names)]), self._arrays
            return find_names(self._index, own["bytes"], own["pointer"], wanted["bytes"], wanted["pointer"])
        wholes = [_as_whole(name) for name in names]
        known = np.array([whole is not None for whole in wholes], dtype=bool)
        values = np.array([whole or 0 for whole in wholes], dtype=np.int64)
        order = self._order
        places = np.searchsorted(integers, values, sorter=order)
        nodes = order[np.minimum(places, len(order) - 1)] if len(order) else np.zeros(len(values), dtype=np.int64)
        known &= integers[nodes] == values if len(order) else False
        return np.where(known, nodes, -1)

    @cached_property
    def _index(self) -> Index:
        return index_names(self._arrays["bytes"], self._arrays["pointer"])

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self._arrays["integers"], kind="stable")

    def _matches(self, name: object) -> NDArray:
        if (integers := self._arrays.get("integers")) is not None:
            whole = _as_whole(name)
            return np.empty(0, dtype=np.int64) if whole is None else np.flatnonzero(integers == whole)
        wanted = np.frombuffer(str(name).encode("utf-8", "surrogateescape"), dtype=np.uint8)
        pointer, buffer = self._arrays["pointer"], self._arrays["bytes"]
        found = np.flatnonzero(np.diff(pointer) == len(wanted))
        for offset, byte in enumerate(wanted):
            found = found[buffer[pointer[found] + offset] == byte]
        return found

    def _some_names(self, most: int = 10_000) -> list[str]:
        return [str(self[i]) for i in range(min(len(self), most))]

    def first_duplicate(self) -> Name | None:
        """Return a name that two nodes share, or None."""
        if (integers := self._arrays.get("integers")) is not None:
            ordered = np.sort(integers)
            twice = np.flatnonzero(ordered[1:] == ordered[:-1])
            return int(ordered[twice[0]]) if twice.size else None
        twin = find_twin(self._arrays["bytes"], self._arrays["pointer"])
        return self[twin] if twin >= 0 else None


def encode_names(names: Sequence[object]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The UTF-8 bytes of names one after the other, and the length of each."""
    encoded = [str(name).encode("utf-8", "surrogateescape") for name in names]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), lengths


def _join(pieces: Iterable[tuple[NDArray, NDArray]]) -> dict[str, NDArray]:
    """One buffer and one list of pointers into it, of encoded pieces."""
    buffers, lengths = [np.empty(0, dtype=np.uint8)], [np.zeros(1, dtype=np.int64)]
    for buffer, length in pieces:
        buffers.append(buffer)
        lengths.append(length)
    return {"bytes": np.concatenate(buffers), "pointer": np.cumsum(np.concatenate(lengths))}


def _as_whole(name: object) -> int | None:
    """The 64-bit integer that a name, or its text in its one usual way, is."""
    text = str(name)
    whole = int(text) if text.removeprefix("-").isdecimal() and len(text) < 21 else None
    return whole if whole is not None and str(whole) == text and -(2**63) <= whole < 2**63 else None
