"""All instances that a run can predict, in one fixed order, read a block at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpm.data.graph_files import PairTable, opening_pairs
from gpm.errors import GpmError
from gpm.graph.find import find_nodes
from gpm.inference.opened import OpenedRun

_BLOCK = 1 << 20  # instances that are looked at together
Reader = Callable[[int, int], Iterable[NDArray]]


@dataclass(frozen=True, eq=False)
class Instances:
    """All instances, in order.

    Attributes:
        total: Number of instances.
        reader: Returns instances `first` to `last - 1`, in blocks of any size: nodes or graphs `[B]`, or pairs
            `[B, 2]`.
        digest: The SHA-256 of the file of a table of pairs; else empty.
    """

    total: int
    reader: Reader
    digest: str = ""

    def read(self, first: int, last: int, size: int) -> Iterator[NDArray]:
        """Read instances `first` to `last - 1`, `size` at a time; the last block may have fewer."""
        waiting: list[NDArray] = []
        for block in self.reader(first, last):
            while len(block):
                room = size - sum(map(len, waiting))
                waiting.append(block[:room])
                block = block[room:]
                if sum(map(len, waiting)) == size:
                    yield np.concatenate(waiting)
                    waiting = []
        if waiting:
            yield np.concatenate(waiting)


@contextmanager
def opening_instances(run: OpenedRun, pairs: Path | None = None, *, new: bool = False) -> Iterator[Instances]:
    """Open all nodes or graphs of a run's data, its new nodes, or the pairs of a table.

    Args:
        run: The run.
        pairs: The table of pairs, for a run that predicts links.
        new: Only nodes that the training graph does not have, for a run that is opened on another graph.
    """
    level, graph = run.data.level, run.data.graph
    if (level == "link") != (pairs is not None) or (level == "link" and new):
        needs = "a table of pairs, and no new nodes" if level == "link" else "no table of pairs"
        raise GpmError(f"{run.folder} predicts {level}s, for which it needs {needs}.")
    if pairs is not None:
        with opening_pairs(pairs) as table:
            yield _pairs_of(run, table, pairs)
    elif level == "node" and not new:
        yield Instances(graph.num_nodes, _count)
    else:
        ids = run.find(new=new)
        yield Instances(len(ids), lambda first, last: [ids[first:last]])


def _count(first: int, last: int) -> Iterator[NDArray]:
    for begin in range(first, last, _BLOCK):
        yield np.arange(begin, min(begin + _BLOCK, last))


def _pairs_of(run: OpenedRun, table: PairTable, path: Path) -> Instances:
    def read(first: int, last: int) -> Iterator[NDArray]:
        for block in table.read(first, last):
            yield find_nodes(run.data.graph, [name for pair in block for name in pair]).reshape(-1, 2)

    total = table.table.count()
    if not total:
        raise GpmError(f"{path} holds no pairs; write one 'source,target' per line.")
    with path.open("rb") as file:
        return Instances(total, read, hashlib.file_digest(file, "sha256").hexdigest())
