"""What a model meets in another graph that it had not seen in training, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.errors import GpmError
from gpm.graph.coerce import column_ends
from gpm.graph.find import find_new
from gpm.graph.graph import Graph

if TYPE_CHECKING:
    from gpm.inference.opened import OpenedRun as Run

FAR = 0.5  # of the range that training had: what lies farther outside is said to be far


def describe_unseen(run: Run) -> list[str]:
    """What of a run's other graph the training had not: nodes, categories, degrees, ranges of features."""
    if not run.other:
        return []
    graph, found = run.data.graph, list(run.data.unseen)
    try:
        known = run.home.data.graph
    except GpmError as error:
        found.append(f"What is new cannot be told without the graph that the model was trained on: {error}")
    else:
        found += _compare_nodes(graph, known, run.data.level)
        for what in ("node", "edge"):
            features = [g.x if what == "node" else g.edge_attr for g in (graph, known)]
            found += _compare_features(features[0], features[1], what)
    if run.config.pe == "lap":
        found.append(
            "The model reads Laplacian eigenvectors (pe lap), which mean something else in every graph: answers on "
            "another graph may be far off; train with --pe rwse to predict on others."
        )
    return found


def _compare_nodes(graph: Graph, known: Graph, level: str) -> list[str]:
    found, degree, usual = [], graph.degree(), known.degree()
    if level != "graph":
        new = len(find_new(graph, known))
        found.append(f"{new:,} of {graph.num_nodes:,} nodes are new; {graph.num_nodes - new:,} were in training.")
    most = int(usual.max(initial=0))
    if far := int(np.count_nonzero(degree > (1 + FAR) * most)):
        found.append(f"{far:,} nodes have up to {degree.max():,} edges; in training no node had more than {most:,}.")
    if usual.size and usual.min() > 0 and (alone := int(np.count_nonzero(degree == 0))):
        found.append(f"{alone:,} nodes have no edges that lead away; in training every node had some.")
    return found


def _compare_features(given: Any, known: Any, what: str) -> list[str]:
    """Categories that are new, or numbers far outside; features of another form are refused elsewhere."""
    if given is None or known is None or given.shape[1] != known.shape[1] or not (given.shape[0] and known.shape[0]):
        return []
    if np.issubdtype(known.dtype, np.integer):
        return _compare_categories(given, known, what)
    low, high = (column_ends(known, end) for end in ("min", "max"))
    room = FAR * (high - low)
    rows, columns, values = _entries(given)
    outside = np.flatnonzero((values > (high + room)[columns]) | (values < (low - room)[columns]))
    if not outside.size:
        return []
    beyond = np.maximum(values - high[columns], low[columns] - values)[outside]
    worst = outside[beyond.argmax()]
    column = columns[worst]
    return [
        f"{len(np.unique(rows[outside])):,} {what}s have features far outside what training had, such as "
        f"{values[worst]:.4g} in column {column}, where it had {low[column]:.4g} to {high[column]:.4g}."
    ]


def _compare_categories(given: NDArray, known: NDArray, what: str) -> list[str]:
    new = np.stack([~np.isin(mine, theirs) for mine, theirs in zip(given.T, known.T, strict=True)], 1)
    if not new.any():
        return []
    column = int(new.any(0).argmax())
    example = given[new[:, column].argmax(), column]
    return [
        f"{int(new.any(1).sum()):,} {what}s have categories that training did not, such as {example} in column "
        f"{column}; they are read as unknown."
    ]


def _entries(features: Any) -> tuple[NDArray, NDArray, NDArray]:
    """Rows, columns and values of a matrix; of a sparse one, without its zeros."""
    if sp.issparse(features):
        rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
        return rows, features.indices, features.data
    rows, columns = np.indices(features.shape, sparse=True)
    return (
        np.broadcast_to(rows, features.shape).reshape(-1),
        np.broadcast_to(columns, features.shape).reshape(-1),
        (np.asarray(features).reshape(-1)),
    )
