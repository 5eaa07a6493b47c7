"""The user's own node names, kept beside the integer ids that the kernels use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError, nearest

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
        encoded = [str(v).encode("utf-8", "surrogateescape") for v in listed]
        pointer = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(b) for b in encoded], out=pointer[1:])
        self._arrays = {"bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8), "pointer": pointer}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray]) -> Names:
        """Rebuild from what `arrays` returned, for instance memory-mapped."""
        names = cls.__new__(cls)
        names._arrays = dict(arrays)
        return names

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

    def _matches(self, name: object) -> NDArray:
        if (integers := self._arrays.get("integers")) is not None:
            text = str(name)
            whole = int(text) if text.removeprefix("-").isdecimal() and len(text) < 21 else None
            if whole is None or str(whole) != text or not -(2**63) <= whole < 2**63:
                return np.empty(0, dtype=np.int64)
            return np.flatnonzero(integers == whole)
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
        seen: set[Name] = set()
        for i in range(len(self)):
            if (name := self[i]) in seen:
                return name
            seen.add(name)
        return None
