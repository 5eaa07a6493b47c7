"""Known labels around a node: their means over all walks of a few steps, without the node's own label.

The walk law is rounded to whole numbers, so that all sums are exact and do not depend on their order. What a node's own
label adds to its own mean is then subtracted without a trace: changing the label changes no bit of the mean.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.graph.graph import Graph
from gpm.patterns.walk_means import walk_law

STEPS = 2  # longer walks come back on ways that take long to count
UNIT = 1 << 10  # a value of 1 in whole numbers
LARGEST = 16.0  # a value is cut off here
BITS = 46  # of a probability of all steps together; with a value they fit into 62
PRIOR = 0.05  # share of walks without a label that is added, so that a mean over few labels is near 0


def label_means(graph: Graph, values: NDArray, known: NDArray[np.bool_]) -> NDArray[np.float32]:
    r"""Return the means of known values around every node, `[N, STEPS * (C + 1)]`.

    For t steps these are :math:`\sum_{u \ne v} P^t_{vu} y_u / (m + 0.05)` for each of the C columns, and the share of
    walks :math:`m = \sum_{u \ne v} P^t_{vu}` that end at another node whose value is known.

    Args:
        graph: The graph.
        values: Values `[N, C]`, such as one-hot classes. Rows that are not known are not read.
        known: Which rows are known `[N]`.
    """
    count = graph.num_nodes
    whole = np.zeros((count, values.shape[1] + 1), dtype=np.int64)
    whole[known, :-1] = np.round(np.clip(values[known], -LARGEST, LARGEST) * UNIT)
    whole[known, -1] = UNIT
    law, columns = walk_law(graph), []
    for steps in range(1, STEPS + 1):
        unit = 1 << min(30, BITS // steps)
        step = sp.csr_array((np.round(law.data * unit).astype(np.int64), law.indices, law.indptr), shape=law.shape)
        total = whole
        for _ in range(steps):
            total = step @ total
        total = total - _returns(step, steps)[:, None] * whole
        mass = total[:, -1] / float(UNIT * unit**steps)
        columns += [total[:, :-1] / float(UNIT * unit**steps) / (mass + PRIOR)[:, None], mass[:, None]]
    return np.column_stack(columns).astype(np.float32)


def label_agreement(graph: Graph, values: NDArray, known: NDArray[np.bool_]) -> float:
    """Return how far the known values of nodes agree with those around them: a correlation, the best over the steps.

    Values are compared as differences from their mean. A node's own value is not among those around it.
    """
    own = values[known]
    mean = own.mean(0)
    blocks = label_means(graph, values, known)[known].reshape(len(own), STEPS, -1)
    best = 0.0
    for block in blocks.transpose(1, 0, 2):
        mass = block[:, -1:]
        around = block[:, :-1] - mean * mass / (mass + PRIOR)
        size = np.sqrt(np.square(own - mean).sum() * np.square(around).sum())
        best = max(best, float(((own - mean) * around).sum() / size) if size > 0 else 0.0)
    return best


def _returns(step: sp.csr_array, steps: int) -> NDArray[np.int64]:
    """Return the weight of walks of one or two steps that end where they began `[N]`."""
    if steps == 1:
        return np.asarray(step.diagonal())
    return np.asarray(step.multiply(sp.csr_array(step.T)).sum(1)).reshape(-1)
