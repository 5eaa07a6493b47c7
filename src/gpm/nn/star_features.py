"""Stars: the smallest pattern around a node, itself with its edges and neighbours, as one category.

A random walk meets the neighbours of a node one at a time; its star holds all of them. Two nodes have the same star if
they have the same category and the same multiset of (edge category, neighbour category). Nothing is learned here: the
star is a fixed property of the graph, like the degree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.random_bits import mix_array

MOST_COLUMNS = 4096  # of one-hot features
BUCKETS = 8192  # stars are hashed, so that the same star has the same category in every graph


def find_stars(graph: Graph, categories: Any, buckets: int = BUCKETS) -> NDArray[np.int64]:
    """Return the star of every node `[N]` from integer categories of nodes `[N, c]`.

    A star is an integer below `buckets`; rarely, two different stars share one.
    """
    colours = _hash_rows(categories)
    edges = np.zeros(graph.num_edges, dtype=np.uint64)
    rows = graph.edge_attr
    if rows is not None and not sp.issparse(rows) and np.issubdtype(rows.dtype, np.integer):
        edges = _hash_rows(rows)
        edges = edges if graph.edge_ids is None else edges[graph.edge_ids]
    met = mix_array(edges ^ mix_array(colours[graph.indices]))
    before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(met, dtype=np.uint64)])  # modulo 2^64
    around = before[graph.indptr[1:]] - before[graph.indptr[:-1]]
    return (mix_array(around ^ colours) % np.uint64(buckets)).astype(np.int64)


def as_categories(features: Any) -> NDArray[np.int64]:
    """Return node features as categories `[N, c]`: integers as they are, one-hot rows as the index of their column."""
    if not sp.issparse(features) and np.issubdtype(features.dtype, np.integer):
        return np.asarray(features, dtype=np.int64)
    dense = features.toarray() if sp.issparse(features) and features.shape[1] < MOST_COLUMNS else features
    if sp.issparse(dense) or not (np.isin(dense, (0, 1)).all() and (dense.sum(1) == 1).all()):
        raise GpmError("Stars are made of categories, but the node features are numbers; set stars to false.")
    return np.asarray(dense.argmax(1), dtype=np.int64)[:, None]


def _hash_rows(rows: NDArray) -> NDArray[np.uint64]:
    hashed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        hashed = mix_array(hashed + column.astype(np.uint64) + np.uint64(1))
    return hashed
