"""Neighbourhoods: what lies within some steps of a node, as one category; and how often each graph has each of them.

A neighbourhood of one step is a star, see `gpm.nn.star_features`; one of t steps is the star of those of t - 1 steps.
Two nodes with the same neighbourhood look the same to every walk of so many steps. Walks meet neighbourhoods at random;
here they are counted exactly. The counts are inputs of the linear part of a model of graphs.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.config import ModelOptions
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.counts import LEAST, Counts, most_items
from gpm.nn.feature_table import choose_features
from gpm.nn.star_features import as_categories, find_stars

NEIGHBOURHOODS = "neighbourhoods"  # name of the group of columns
_SPACE = 1 << 53  # neighbourhoods are hashed to so many numbers


def count_neighbourhoods(
    graph: Graph, options: ModelOptions, seen: NDArray | None = None, vocabulary: NDArray | None = None
) -> Counts:
    """Count neighbourhoods in every graph, as log(1 + n); examples are nodes.

    Args:
        graph: A collection, or one graph.
        options: Options of the model: which features are read, and how far neighbourhoods reach.
        seen: Nodes of the training split, where the neighbourhoods to count are found. Default: all nodes.
        vocabulary: Neighbourhoods that a trained model counts. Default: those that are frequent in the training split.
    """
    try:
        categories = as_categories(choose_features(graph, options.features, stars=True))
    except GpmError:
        raise GpmError(
            "Neighbourhoods are made of categories, but the node features are numbers; leave out --neighbourhoods."
        ) from None
    hashes = find_neighbourhoods(graph, categories, options.neighbourhoods)
    pointer = np.array([0, graph.num_nodes]) if graph.graph_ptr is None else np.asarray(graph.graph_ptr)
    graphs = len(pointer) - 1
    owner = np.repeat(np.arange(graphs), np.diff(pointer))
    most = most_items(graphs, len(hashes))
    rows = slice(None) if seen is None else seen
    counts, words, examples = [], [], []
    for step, around in enumerate(hashes, 1):
        if vocabulary is None:
            chosen = _choose_frequent(owner[rows], around[rows], most)
        else:
            chosen = vocabulary[vocabulary[:, 0] == step, 1]
        at = np.searchsorted(chosen, around)
        nodes = np.flatnonzero(at < len(chosen))
        nodes = nodes[chosen[at[nodes]] == around[nodes]]  # that have one of the chosen
        counts.append(_count(owner[nodes], at[nodes], (graphs, len(chosen))))
        example = np.full(len(chosen), -1, dtype=np.int64)
        example[at[nodes[::-1]]] = nodes[::-1]  # the first of each
        examples.append(example)
        words.append(np.stack([np.full(len(chosen), step, dtype=np.int64), chosen], 1))
    joined = sp.csr_array(sp.hstack(counts))
    return Counts(NEIGHBOURHOODS, joined, np.concatenate(words), np.concatenate(examples))


def find_neighbourhoods(graph: Graph, categories: NDArray, steps: int) -> list[NDArray[np.int64]]:
    """Return the hash of the neighbourhood of every node `[N]`, for 1 to `steps` steps.

    `categories` are those of the nodes `[N, c]`, integers.
    """
    found = [categories]
    for _ in range(steps):
        found.append(find_stars(graph, found[-1].reshape(graph.num_nodes, -1), _SPACE))
    return found[1:]


def _choose_frequent(owner: NDArray, around: NDArray, most: int) -> NDArray[np.int64]:
    """Return the neighbourhoods that the most graphs have, ascending; `owner` is the graph of each node."""
    order = np.lexsort((owner, around))
    owner, around = owner[order], around[order]
    first = np.ones(len(around), dtype=bool)  # of each neighbourhood in each graph
    first[1:] = (around[1:] != around[:-1]) | (owner[1:] != owner[:-1])
    values, graphs = np.unique(around[first], return_counts=True)
    best = np.lexsort((values, -graphs))[:most]
    return np.sort(values[best[graphs[best] >= LEAST]]).astype(np.int64)


def _count(owner: NDArray, chosen: NDArray, shape: tuple[int, int]) -> sp.csr_array:
    """Return log(1 + n) of how often each pair of a graph and a neighbourhood occurs `[G, K]`."""
    counts = sp.csr_array((np.ones(len(owner), dtype=np.float32), (owner, chosen)), shape=shape)  # equal pairs add up
    counts.data = np.log1p(counts.data)
    return counts
