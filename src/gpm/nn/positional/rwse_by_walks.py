"""Return probabilities of random walks, estimated by sampling on graphs for which exact ones would take hours."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators

from __future__ import annotations

import logging
import math

import numpy as np
from numba import prange
from numpy.typing import NDArray

from gpm.compute import threaded
from gpm.graph.graph import Graph
from gpm.patterns.walks import walk

_log = logging.getLogger("gpm")
LARGEST_ERROR = 1 / 32  # largest standard error of an entry
SEED = 0x52575345  # its own seed: independent of the walks that a model reads
_STEPS = 2**23  # steps of walks in memory at a time


def count_walks(error: float = LARGEST_ERROR) -> int:
    """Return the number of walks per node at which the standard error, at most `0.5 / sqrt(walks)`, is that small."""
    return math.ceil((0.5 / error) ** 2)


def estimate_returns(graph: Graph, dim: int, walks: int = count_walks()) -> NDArray[np.float32]:
    r"""Return the share of walks from a node that are back at it after 1 to `dim` steps `[N, dim]`.

    Walks follow the law of `embed_returns`: along the direction of edges, by weight, staying at a node without an exit.
    The standard error of a probability r is :math:`\sqrt{r (1 - r) / \mathrm{walks}}`. The result does not depend on
    the number of threads.
    """
    many = max(1, _STEPS // (walks * (dim + 1)))  # nodes at a time
    embedding = np.empty((graph.num_nodes, dim), dtype=np.float32)
    for first in range(0, graph.num_nodes, many):
        starts = np.arange(first, min(first + many, graph.num_nodes))
        nodes, _ = walk(graph, starts[:, None], np.arange(walks), dim, seed=SEED)
        _take_shares(nodes, embedding[first : first + many])
    error = 0.5 / math.sqrt(walks)
    _log.info("return probabilities estimated by %d walks per node: standard error at most %.3f.", walks, error)
    return embedding


@threaded
def _take_shares(nodes, shares):  # pragma: no cover - compiled
    count, walks, places = nodes.shape
    for v in prange(count):
        back = np.zeros(places, np.int64)
        for j in range(walks):
            for p in range(places):
                back[p] += nodes[v, j, p] == nodes[v, j, 0]
        for p in range(1, places):
            shares[v, p - 1] = back[p] / walks
