"""Describe what another graph contains that the training graph did not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.coerce import column_ends
from gpm.graph.find import find_new
from gpm.graph.graph import Graph

FAR = 0.5  # share of the training range: values farther outside than this are reported


def describe_unseen(data: TaskData, load_home: Callable[[], Graph], pe: str) -> list[str]:
    """Describe new nodes, categories, degrees and ranges of features, in sentences.

    Args:
        data: The other graph.
        load_home: Loads the training graph.
        pe: Positional embedding of the model.
    """
    sentences = list(data.unseen)
    try:
        home = load_home()
    except GpmError as error:
        sentences.append(f"What is new cannot be told without the training graph: {error}")
    else:
        sentences += _compare_nodes(data.graph, home, data.level)
        sentences += _compare_features(data.graph.x, home.x, "node")
        sentences += _compare_features(data.graph.edge_attr, home.edge_attr, "edge")
    if pe == "lap":
        sentences.append(
            "The model reads Laplacian eigenvectors (pe lap), which differ between graphs: predictions on another "
            "graph may be far off; train with --pe rwse to predict on others."
        )
    return sentences


def _compare_nodes(graph: Graph, home: Graph, level: str) -> list[str]:
    sentences, degree, usual = [], graph.degree(), home.degree()
    if level != "graph":
        new = len(find_new(graph, home))
        sentences.append(f"{new:,} of {graph.num_nodes:,} nodes are new; {graph.num_nodes - new:,} were in training.")
    most = int(usual.max(initial=0))
    if far := int(np.count_nonzero(degree > (1 + FAR) * most)):
        sentences.append(
            f"{far:,} nodes have up to {degree.max():,} edges; in training no node had more than {most:,}."
        )
    if usual.size and usual.min() > 0 and (alone := int(np.count_nonzero(degree == 0))):
        sentences.append(f"{alone:,} nodes have no edges that lead away; in training every node had some.")
    return sentences


def _compare_features(features: Any, home: Any, what: str) -> list[str]:
    """Describe new categories, or numbers far outside; features of another form are refused elsewhere."""
    if features is None or home is None or features.shape[1] != home.shape[1] or not features.shape[0] * home.shape[0]:
        return []
    if np.issubdtype(home.dtype, np.integer):
        return _compare_categories(features, home, what)
    low, high = (column_ends(home, end) for end in ("min", "max"))
    room = FAR * (high - low)
    rows, columns, values = _entries(features)
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


def _compare_categories(features: NDArray, home: NDArray, what: str) -> list[str]:
    new = np.stack([~np.isin(mine, theirs) for mine, theirs in zip(features.T, home.T, strict=True)], 1)
    if not new.any():
        return []
    column = int(new.any(0).argmax())
    example = features[new[:, column].argmax(), column]
    return [
        f"{int(new.any(1).sum()):,} {what}s have categories that training did not, such as {example} in column "
        f"{column}; they are read as unknown."
    ]


def _entries(features: Any) -> tuple[NDArray, NDArray, NDArray]:
    """Return rows, columns and values of a matrix; of a sparse one, without its zeros."""
    if sp.issparse(features):
        rows = np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))
        return rows, features.indices, features.data
    rows, columns = (
        np.broadcast_to(ids, features.shape).reshape(-1) for ids in np.indices(features.shape, sparse=True)
    )
    return rows, columns, np.asarray(features).reshape(-1)
