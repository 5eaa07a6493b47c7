"""Walk means of node features as columns: wide features projected, large results on disk, slow ones cached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from gpm.config import ModelOptions
from gpm.graph.graph import Graph
from gpm.nn.feature_rows import LARGE, look_like_bags, normalise_bags
from gpm.nn.feature_table import BAGS, InputSpec
from gpm.nn.positional.eigenvector_cache import (
    digest_array,
    digest_edges,
    digest_features,
    fill_columns,
    keep_columns,
)
from gpm.patterns.walk_means import fill_walk_means

MOST_COLUMNS = 1024  # of the features that means are taken of as they are
MOST_ENTRIES = 30_000_000  # of such features
PROJECTED = 256  # columns that other features are projected to
ON_DISK = 1 << 28  # entries; walk means that have more are not held in memory
ROWS = 8192  # nodes whose features are converted at a time
SAMPLE = 200_000  # nodes that a projection is found from
KEPT_WORK = 2e9  # multiplications of walk means that are worth caching: some seconds
KEPT_ROWS = 20_000  # rows and columns of features whose projection is worth caching


@dataclass(frozen=True)
class StepColumns:
    """Means of the features over all walks of t steps, `[steps + 1, N, k]`."""

    means: NDArray[np.float32]
    sizes: list[int]  # categories in each column of the features, if that is their form
    bags: bool  # features are bags of words
    even: bool  # columns keep their relative scale
    projection: NDArray[np.float32] | None  # of the features [columns, k]; None if they are narrow
    on_disk: bool


def find_steps(
    graph: Graph, steps: int, sizes: list[int] | None, projection: NDArray | None, seen: NDArray | None = None,
    disk: bool = False, most: int = MOST_COLUMNS, bags: bool | None = None,
) -> StepColumns:  # fmt: skip
    """Compute the walk means of a graph's features.

    Args:
        graph: A graph with node features.
        steps: Number of steps.
        sizes, projection: Those of a trained model; by default found here.
        seen: Nodes that a projection may be found from; by default all.
        disk: Leave large results on disk, in the cache.
        most: Columns of features that are not projected.
        bags: Read features as bags of words; by default if they look like it.
    """
    x: Any = graph.x
    form = Form.of(x, sizes, bags)
    columns = form.count(x)
    wide = is_wide(graph.num_nodes, columns, most) if sizes is None else projection is not None
    even = form.bags or wide
    if wide:
        projection = _keep_projection(graph, form, seen) if projection is None else projection
        columns = projection.shape[1]
    shape = (steps + 1, graph.num_nodes, columns)
    large = disk and float(np.prod(shape)) > ON_DISK

    def fill(out: NDArray[np.float32]) -> None:
        for first in range(0, graph.num_nodes, ROWS):
            out[0, first : first + ROWS] = _project(form.flatten(x[first : first + ROWS]), projection)
        fill_walk_means(graph, out)

    def find() -> NDArray[np.float32]:
        out = np.empty(shape, dtype=np.float32)
        fill(out)
        return out

    if not large and float(graph.num_edges) * columns * steps < KEPT_WORK:
        return StepColumns(find(), form.sizes, form.bags, even, projection, False)
    parts = (digest_edges(graph), digest_features(graph), str(form), digest_array(projection))
    name = f"means-{steps}-{digest_array(np.frombuffer('-'.join(parts).encode(), dtype=np.uint8))}"
    means = fill_columns(name, shape, fill) if large else keep_columns(name, shape, find)
    return StepColumns(means, form.sizes, form.bags, even, projection, large)


def is_wide(rows: int, columns: int, most: int = MOST_COLUMNS) -> bool:
    """Return whether features of such a shape are projected before means are taken of them."""
    return columns > PROJECTED and (columns > most or rows * columns > MOST_ENTRIES)


@dataclass(frozen=True)
class Form:
    """How features become columns of numbers."""

    bags: bool  # bags of words: damped counts, and every row has the same length
    sizes: list[int]  # categories in each column; empty for numbers

    @classmethod
    def of(cls, x: Any, sizes: list[int] | None, bags: bool | None = None) -> Form:
        """Find the form of features `[N, d]`; sizes of categories, and whether they are bags, may be known."""
        if look_like_bags(x) if bags is None else bags:
            return cls(True, [])
        if sp.issparse(x) or not np.issubdtype(x.dtype, np.integer):
            return cls(False, [])
        return cls(False, sizes or (x.max(0, initial=0) + 1).tolist())

    def count(self, x: Any) -> int:
        """Return the number of columns."""
        return sum(self.sizes) if self.sizes else int(x.shape[1])

    def flatten(self, x: Any) -> Any:
        """Return some rows of the features as columns of numbers."""
        if self.bags:
            return normalise_bags(x)
        if not self.sizes:
            return x
        counts = np.array(self.sizes)
        known = x < counts  # a value that training did not have is no flag
        columns = (x + np.cumsum(counts) - counts)[known]
        flags = (np.ones(columns.size, dtype=np.float32), (np.nonzero(known)[0], columns))
        return sp.csr_array(flags, shape=(len(x), int(counts.sum())))


def asked_bags(options: ModelOptions, inputs: InputSpec | None) -> bool | None:
    """Return whether features are read as bags of words: as a trained model or the options say; None to find out."""
    return BAGS[options.bag_of_words] if inputs is None else inputs.expected_bags


def _project(x: Any, projection: NDArray | None) -> NDArray[np.float32]:
    """Return rows of features, dense and projected."""
    if projection is not None:
        with threadpool_limits(1):  # the same bits for any number of threads
            x = x @ projection
    return np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32)


def _keep_projection(graph: Graph, form: Form, seen: NDArray | None) -> NDArray[np.float32]:
    """Return a projection of the features of a graph, from the cache if it is slow to find."""
    shape = (form.count(graph.x), PROJECTED)
    if seen is not None or graph.num_nodes + shape[0] < KEPT_ROWS:
        return _find_projection(graph.x, form, seen)
    name = f"projection-{PROJECTED}-{digest_features(graph)}"
    return np.array(keep_columns(name, shape, lambda: _find_projection(graph.x, form, None)))


def _find_projection(x: Any, form: Form, seen: NDArray | None) -> NDArray[np.float32]:
    """Return the leading right singular vectors of features, `[columns, k]`; of large ones, from some of their rows."""
    from sklearn.utils.extmath import randomized_svd

    rows = np.arange(x.shape[0]) if seen is None else seen
    entries = len(rows) * (x.nnz / max(1, x.shape[0]) if sp.issparse(x) else x.shape[1])
    most = int(min(SAMPLE, len(rows) * min(1.0, LARGE / max(entries, 1))))
    if most < len(rows):
        rows = rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
    some = x if len(rows) == x.shape[0] else x[rows]
    with threadpool_limits(1):  # the same bits for any number of threads
        matrix = sp.csr_array(form.flatten(some)).astype(np.float64)
        _, _, vectors = randomized_svd(matrix, PROJECTED, n_iter=3, random_state=0)
    projection = np.zeros((matrix.shape[1], PROJECTED), dtype=np.float32)
    projection[:, : len(vectors)] = vectors.T
    return projection
