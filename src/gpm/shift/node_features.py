"""Features of sampled nodes as a matrix of numbers, whatever form the graph has them in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gpm.data.imported import is_imported
from gpm.data.tables.encode import names
from gpm.data.tables.table_source import locate
from gpm.graph.folder import read_extras
from gpm.inference.opened import OpenedRun
from gpm.random_bits import make_key

WIDEST = 64  # columns that the classifier of domains reads: of more, the main directions
LONGEST = 80  # letters of a column's name


def read_features(run: OpenedRun, nodes: NDArray) -> tuple[Any, list[str]]:
    """The features of nodes as numbers `[n, C]`, dense or sparse, and what the columns are called.

    A category becomes a column per value that these nodes have. The graph must have features.
    """
    x = run.data.graph.x
    assert x is not None
    titles = _find_names(run, x.shape[1])
    part = x[nodes]
    if sp.issparse(part):
        return sp.csr_array(part).astype(np.float64), titles
    part = np.asarray(part)
    if not np.issubdtype(part.dtype, np.integer):
        return part.astype(np.float64), titles
    blocks, called = [], []
    for column, title in zip(part.T, titles, strict=True):
        values, place = np.unique(column, return_inverse=True)
        shape = len(nodes), len(values)
        blocks.append(sp.csr_array((np.ones(len(nodes)), (np.arange(len(nodes)), place.reshape(-1))), shape=shape))
        called += [f"{title} = {value}" for value in values.tolist()]
    return sp.csr_array(sp.hstack(blocks)), called


def _find_names(run: OpenedRun, width: int) -> list[str]:
    """What columns are called in the tables that the graph was imported from; else by their places."""
    source = locate(run.config.data, run.folder)
    if source and is_imported(source):
        encoding = read_extras(Path(source).expanduser())[0].get("encoding") or {}
        called = names(encoding.get("node") or [])
        if len(called) == width:
            return [name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in called]
    return [f"column {place}" for place in range(width)]


def narrow(features: Any, seed: int) -> NDArray[np.float64]:
    """The features in at most 64 columns: as they are, or along their main directions."""
    if features.shape[1] <= WIDEST:
        return np.asarray(features.toarray() if sp.issparse(features) else features)
    if sp.issparse(features):
        entries = features.tocoo()
        places, values = torch.from_numpy(np.stack(entries.coords)), torch.from_numpy(entries.data)
        matrix = torch.sparse_coo_tensor(places, values, entries.shape, check_invariants=False)
    else:
        scale = features.std(axis=0)
        matrix = torch.from_numpy((features - features.mean(axis=0)) / np.where(scale > 0, scale, 1.0))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(make_key(seed) >> 1)
        most = min(WIDEST, *features.shape)
        left, strength, _ = torch.svd_lowrank(matrix, q=most, niter=2)
    return np.asarray((left * strength).numpy())
