"""Counts: how often each graph of a collection has each item of a vocabulary, as inputs of the linear part."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp
from numpy.typing import NDArray

LEAST = 2  # training graphs that must have an item that is counted
MOST = 1024  # items of each kind that are counted
MOST_COUNTS = 1 << 25  # counts of a fit; in large collections fewer items are counted


@dataclass(frozen=True)
class Counts:
    """A group of columns, one per item of a vocabulary."""

    name: str  # of the group
    counts: sp.csr_array  # [G, K], on the scale of the group
    vocabulary: NDArray  # kind (a number of steps) and key of each item [K, 2], int64
    examples: NDArray  # where each item occurs first: a node or a graph, -1 if nowhere [K], int64


def most_items(graphs: int, kinds: int) -> int:
    """Return how many items of each kind are counted."""
    return min(MOST, max(1, MOST_COUNTS // max(1, graphs * kinds)))
