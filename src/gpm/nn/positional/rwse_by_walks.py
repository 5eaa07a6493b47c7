"""Return probabilities of random walks on graphs for which the exact ones would take hours: the share of many walks."""
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
LARGEST_ERROR = 1 / 32  # standard error of an entry, at most
SEED = 0x52575345  # of its own: walks that a model reads say nothing about the error of these
_STEPS = 2**23  # of walks that are in memory at a time


def count_walks(error: float = LARGEST_ERROR) -> int:
    """The walks per node after which the standard error of a share, at most `0.5 / sqrt(walks)`, is not larger."""
    return math.ceil((0.5 / error) ** 2)


def estimate_returns(graph: Graph, dim: int, walks: int = count_walks()) -> NDArray[np.float32]:
    """The share of walks from a node that are back at it after 1 to `dim` steps `[N, dim]`.

    Each entry is the mean of as many draws as there are walks, of the law of `embed_returns`: along the
    direction of edges, by weight, staying where there is no way out. Its standard error is `sqrt(r (1 - r) / walks)`
    for a probability r, at most `0.5 / sqrt(walks)`. Walks are the same for any number of threads.
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
