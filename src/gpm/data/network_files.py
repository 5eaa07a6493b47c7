"""Read graphs that no class of PyG reads: .npz files of papers, words and links, and .mat files of links alone."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

MANY, FEW = 10_000_000, 0.05  # features are kept sparse if they have this many entries, of which fewer are filled


def read_network(path: Path) -> Any:
    """Read a graph as an undirected PyG `Data`.

    A .mat file has the adjacency matrix `net`. A .npz file has the parts of two sparse matrices, as PyG's `read_npz`
    reads them, or `edges` `[E, 2]` with `node_features`, `node_labels` and masks `[splits, N]`.
    """
    if path.suffix == ".mat":
        return _read_matrix(path)
    with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
        arrays = dict(stored)
    return _read_edges(arrays) if "edges" in arrays else _read_sparse(arrays)


def join_types(data: Any) -> Any:
    """Return PyG's `HeteroData` as one undirected `Data`: nodes type by type, labels and masks of those that have them.

    The features of all types must have the same columns.
    """
    import torch

    plain = data.to_homogeneous(node_attrs=["x"], edge_attrs=[], add_node_type=False, add_edge_type=False)
    first = dict(zip(data.node_types, np.cumsum([0, *(store.num_nodes for store in data.node_stores)]), strict=False))
    labelled = [kind for kind, store in zip(data.node_types, data.node_stores, strict=True) if "y" in store]
    plain.y = torch.full((plain.num_nodes,), -1)
    for kind in labelled:
        rows = slice(first[kind], first[kind] + data[kind].num_nodes)
        plain.y[rows] = data[kind].y
        for mask in (key for key in data[kind].keys() if key.endswith("_mask")):  # noqa: SIM118 - not a dict
            if mask not in plain:
                plain[mask] = torch.zeros(plain.num_nodes, dtype=torch.bool)
            plain[mask][rows] = data[kind][mask]
    return _finish(plain)


def _read_matrix(path: Path) -> Any:
    import torch
    from scipy.io import loadmat
    from torch_geometric.data import Data

    links = loadmat(str(path))["net"].tocoo()
    ends = torch.from_numpy(np.stack([links.row, links.col]).astype(np.int64))
    return _finish(Data(edge_index=ends, num_nodes=links.shape[0]))


def _read_edges(arrays: dict[str, Any]) -> Any:
    import torch
    from torch_geometric.data import Data

    masks = {key.removesuffix("s"): torch.from_numpy(arrays[key]).T for key in arrays if key.endswith("_masks")}
    x, y = (torch.from_numpy(arrays[key]) for key in ("node_features", "node_labels"))
    ends = torch.from_numpy(arrays["edges"]).T.contiguous()
    return _finish(Data(x=x.float(), y=y.long(), edge_index=ends, **masks))


def _read_sparse(arrays: dict[str, Any]) -> Any:
    from torch_geometric.io.npz import parse_npz

    return _finish(parse_npz(arrays, to_undirected=True))


def _finish(data: Any) -> Any:
    """Add the reverse of every edge, and make large features sparse if few of them are filled."""
    from torch_geometric.utils import to_undirected

    data.edge_index = to_undirected(data.edge_index, num_nodes=data.num_nodes)
    if data.x is not None and data.x.numel() > MANY and data.x.count_nonzero() < FEW * data.x.numel():
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse (CSR tensor support|invariant checks)", UserWarning)
            data.x = data.x.to_sparse_csr()
    return data
