"""Small graphs of every kind, with labels that their features or shapes tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from gpm import GraphClassifier, GraphRegressor, LinkPredictor, NodeClassifier, NodeRegressor

NODES = 48
SMALL: dict[str, Any] = {
    "device": "cpu", "width": 16, "heads": 2, "lengths": [0, 1, 2], "patterns": 4, "pool": 8, "batch": 16, "epochs": 4,
    "warmup": 2, "lr": 0.02, "dropout": 0.0,
}  # fmt: skip
ALL: list[type[Any]] = [NodeClassifier, NodeRegressor, LinkPredictor, GraphClassifier, GraphRegressor]
TELLING = np.arange(NODES) % 3  # what the features tell


def make_parts(seed: int = 0) -> tuple[NDArray, NDArray]:
    """Edges `[2, E]`, each once, and features `[N, 3]` that tell three classes."""
    random = np.random.default_rng(seed)
    pairs = {tuple(sorted(pair)) for pair in random.integers(0, NODES, (100, 2)).tolist() if pair[0] != pair[1]}
    x = np.eye(3)[TELLING] + 0.1 * random.normal(size=(NODES, 3))
    return np.array(sorted(pairs)).T, x


def make_data(seed: int = 0, masks: bool = True) -> Data:
    edges, x = make_parts(seed)
    part = torch.arange(NODES) // 3 % 4
    found = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3} if masks else {}
    both = torch.from_numpy(np.concatenate([edges, edges[::-1]], axis=1))
    return Data(x=torch.from_numpy(x).float(), edge_index=both, y=torch.tensor([5, 6, 8])[TELLING], **found)


def make_rings(count: int = 30) -> list[Data]:
    """Rings, class 1, and paths, class 0."""
    graphs = []
    for i in range(count):
        n, ring = 4 + i % 4, i % 2
        ends = torch.tensor([[j, (j + 1) % n] for j in range(n if ring else n - 1)]).T
        graphs.append(Data(edge_index=torch.cat([ends, ends.flip(0)], 1), num_nodes=n, y=torch.tensor([ring])))
    return graphs


def make_tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The same graph as tables of edges and nodes, with names."""
    edges, x = make_parts()
    names = np.array([f"n{i:02}" for i in range(NODES)])
    nodes = pd.DataFrame({"id": names, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})
    return pd.DataFrame({"source": names[edges[0]], "target": names[edges[1]]}), nodes
