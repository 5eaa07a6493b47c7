"""Frequencies: how often walks of a graph have each topology, estimated from thousands of walks per graph.

A readout over some hundred patterns cannot tell graphs apart whose shapes differ in how often they occur. Frequencies
cost no pass through the network, so they are taken over many more walks. They are inputs of the linear part of a model
of graphs.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gpm.config import Config
from gpm.graph.graph import Graph
from gpm.nn.counts import LEAST, Counts, most_items
from gpm.patterns.tokenizer import Tokenizer
from gpm.patterns.walks import WalkRule

FREQUENCIES = "frequencies"  # name of the group of columns
POSITIONS = 1 << 22  # of walks that are drawn at a time


def count_topologies(
    graph: Graph, config: Config, seen: NDArray | None = None, vocabulary: NDArray | None = None
) -> Counts:
    """Count the topologies of `config.frequencies` walks in every graph, divided evenly among the lengths.

    Columns hold the square root of the share of the walks of a length that have a topology: its sampling noise is the
    same for frequent and rare ones. The walks are those that the network reads, and more.

    Args:
        graph: A collection, or one graph.
        config: Options of the run: lengths, topology, law and seed of the walks.
        seen: Nodes of the training split, where the topologies to count are found. Default: all nodes.
        vocabulary: Topologies that a trained model counts. Default: the most frequent in the training split.
    """
    pointer = np.array([0, graph.num_nodes]) if graph.graph_ptr is None else np.asarray(graph.graph_ptr)
    graphs = len(pointer) - 1
    owner, length, key, share = _draw(graph, config, np.flatnonzero(np.diff(pointer)))
    most = most_items(graphs, len(config.lengths))
    rows = slice(None) if seen is None else np.isin(owner, np.searchsorted(pointer, np.unique(seen), side="right") - 1)
    counts, words, examples = [], [], []
    for steps in config.lengths:
        here = length == steps
        if vocabulary is None:
            trained = here if seen is None else here & rows
            chosen = _choose(key[trained], share[trained], most)
        else:
            chosen = vocabulary[vocabulary[:, 0] == steps, 1]
        at = np.searchsorted(chosen, key)
        found = np.flatnonzero(here & (at < len(chosen)))
        found = found[chosen[at[found]] == key[found]]
        shape = graphs, len(chosen)
        counts.append(sp.csr_array((np.sqrt(share[found]), (owner[found], at[found])), shape=shape, dtype=np.float32))
        example = np.full(len(chosen), -1, dtype=np.int64)
        example[at[found[::-1]]] = owner[found[::-1]]  # the first of each
        examples.append(example)
        words.append(np.stack([np.full(len(chosen), steps, dtype=np.int64), chosen], 1))
    joined = sp.csr_array(sp.hstack(counts))
    return Counts(FREQUENCIES, joined, np.concatenate(words), np.concatenate(examples))


def make_tokenizer(graph: Graph, config: Config) -> Tokenizer:
    """Return the tokenizer of the walks that are counted."""
    rule = WalkRule.from_config(config)
    lengths, pool = config.lengths, config.frequencies
    return Tokenizer(
        graph, lengths=lengths, pool=pool, topology=config.topology, seed=config.seed, rule=rule, edges=False
    )


def _draw(graph: Graph, config: Config, graphs: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Return the topologies that occur: their graph, the length of the walks, their key and their share of these."""
    tokenizer = make_tokenizer(graph, config)
    size = max(1, POSITIONS // (config.frequencies * (max(config.lengths) + 1)))
    parts = []
    for first in range(0, len(graphs), size):
        ids = graphs[first : first + size]
        patterns = tokenizer.graphs(ids)
        index, keys = patterns.topology.numpy(), patterns.table.keys
        for steps, slots in patterns.groups():
            codes = index[:, slots] + np.arange(len(ids))[:, None] * len(keys)
            values, times = np.unique(codes, return_counts=True)
            walks = slots.stop - slots.start
            parts.append(
                (ids[values // len(keys)], np.full(len(values), steps), keys[values % len(keys)], times / walks)
            )
    if not parts:
        return tuple(np.zeros(0, dtype=kind) for kind in (np.int64, np.int64, np.int64, np.float64))  # type: ignore[return-value]
    return tuple(np.concatenate(each) for each in zip(*parts, strict=True))  # type: ignore[return-value]


def _choose(key: NDArray, share: NDArray, most: int) -> NDArray[np.int64]:
    """Return the topologies with the largest shares, over graphs that each list a key once, ascending."""
    values, inverse, graphs = np.unique(key, return_inverse=True, return_counts=True)
    best = np.lexsort((values, -np.bincount(inverse, share, minlength=len(values))))
    best = best[graphs[best] >= LEAST][:most]
    return np.sort(values[best]).astype(np.int64)
