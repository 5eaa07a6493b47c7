from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from torch_geometric.data import HeteroData

from gpm import load_graph
from gpm.data import network_files
from gpm.data.network_files import join_types, read_network
from gpm.data.sources import load_task_data

RING = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])


def test_a_matrix_of_links_is_a_graph_without_features(tmp_path: Path) -> None:
    links = sp.csc_matrix((np.ones(4), RING.T), shape=(5, 5))
    scipy.io.savemat(tmp_path / "net.mat", {"net": links})
    data = read_network(tmp_path / "net.mat")
    assert (data.num_nodes, data.num_edges, data.x) == (5, 8, None)  # the last node has no links
    assert data.is_undirected()


def test_edges_and_masks_come_from_one_file(tmp_path: Path) -> None:
    masks = {f"{part}_masks": np.eye(4, dtype=bool)[[at] * 3] for at, part in enumerate(("train", "val", "test"))}
    x, y = np.eye(4, 2, dtype=np.float32), np.array([0, 1, 0, 1])
    np.savez(tmp_path / "net.npz", edges=RING, node_features=x, node_labels=y, **masks)
    data = read_network(tmp_path / "net.npz")
    assert (data.num_edges, data.val_mask.shape) == (8, (4, 3))
    assert data.val_mask[:, 2].nonzero().flatten().tolist() == [1]
    np.testing.assert_array_equal(data.x, x)
    np.testing.assert_array_equal(data.y, y)


def test_large_features_with_few_entries_are_sparse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((4, 30), dtype=np.float32)
    x[1, 2] = 3
    np.savez(tmp_path / "net.npz", edges=RING, node_features=x, node_labels=np.zeros(4))
    assert read_network(tmp_path / "net.npz").x.layout == torch.strided
    monkeypatch.setattr(network_files, "MANY", 100)
    sparse = read_network(tmp_path / "net.npz").x
    assert sparse.layout == torch.sparse_csr
    np.testing.assert_array_equal(sparse.to_dense(), x)


def test_types_of_nodes_are_joined_into_one_graph() -> None:
    data = HeteroData()
    data["film"].x, data["film"].y = torch.ones(2, 3), torch.tensor([1, 0])
    data["film"].train_mask = torch.tensor([True, False])
    data["person"].x = torch.zeros(3, 3)
    data["film", "person"].edge_index = torch.tensor([[0, 0, 1], [0, 1, 2]])
    plain = join_types(data)
    assert plain.y.tolist() == [1, 0, -1, -1, -1]
    assert plain.train_mask.tolist() == [True, False, False, False, False]
    assert plain.x.sum(1).tolist() == [3, 3, 0, 0, 0]
    assert sorted(map(tuple, plain.edge_index.T.tolist())) == [(0, 2), (0, 3), (1, 4), (2, 0), (3, 0), (4, 1)]


def test_link_sets_are_copied_to_the_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "raw"))
    (tmp_path / "raw/LinkSets").mkdir(parents=True)
    scipy.io.savemat(tmp_path / "raw/LinkSets/NS.mat", {"net": sp.csc_matrix((np.ones(4), RING.T), shape=(4, 4))})
    assert load_graph("ns").num_edges == 8
    assert (tmp_path / "data/LinkSets/NS.mat").is_file()
    data = load_task_data("ns")
    assert (data.level, data.metric, data.split) == ("link", "roc_auc", "85/5/10")
