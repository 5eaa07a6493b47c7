import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from gpm import GpmError, Graph, load_graph
from gpm.data.catalog import CATALOG
from gpm.data.graph_data import load_graph_data
from gpm.data.named_datasets import _replace_features, load_dataset, open_collection, read_compact
from gpm.io.cache import data_root


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for tiny raw files in the layout of PyG."""
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "tiny"))
    return tmp_path / "tiny"


def _write_zinc(folder: Path, sizes: dict[str, list[int]]) -> None:
    """Chains of atoms 0, 1, 2, ..., with bonds 1, 2, 3, 1, ...; the target is the number of atoms."""
    folder.mkdir(parents=True)
    for part, lengths in sizes.items():
        molecules = []
        for n in lengths:
            bonds = torch.zeros(n, n, dtype=torch.long)
            for i in range(n - 1):
                bonds[i, i + 1] = bonds[i + 1, i] = 1 + i % 3
            facts = {
                "atom_type": torch.arange(n),
                "bond_type": bonds,
                "logP_SA_cycle_normalized": torch.tensor([float(n)]),
            }
            molecules.append(facts)
        (folder / f"{part}.pickle").write_bytes(pickle.dumps(molecules))
        (folder / f"{part}.index").write_text("1,0\n")


def test_zinc_is_one_collection_with_its_published_parts(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_zinc(tiny / "ZINC/raw", {"train": [3, 5, 4], "val": [2, 1], "test": [7, 6, 2]})
    data = load_graph_data("zinc")
    assert data.labels.tolist() == [5, 3, 1, 2, 6, 7]  # the subset is what the index names, in its order
    assert (data.labels.dtype, data.metric, data.split) == (np.float32, "mae", "public")
    split = data.make_split(seed=5)
    assert [split.train.tolist(), split.val.tolist(), split.test.tolist()] == [[0, 1], [2, 3], [4, 5]]
    assert data.graph.x[:, 0].tolist() == [*range(5), *range(3), 0, *range(2), *range(6), *range(7)]
    assert data.graph.edge_attr.shape == (data.graph.num_edges, 1)
    assert set(data.graph.edge_attr[:, 0].tolist()) == {1, 2, 3}
    with pytest.raises(GpmError, match="raw has the files of a smaller dataset than ZINC-Full; replace or remove"):
        load_graph_data("zinc-full")
    monkeypatch.setitem(CATALOG, "zinc-full", replace(CATALOG["zinc-full"], least_bytes=0))
    full = load_graph_data("zinc-full")
    assert full.labels.tolist() == [3, 5, 4, 2, 1, 7, 6, 2]
    assert load_graph("zinc").num_nodes == data.graph.num_nodes == 24


def test_moleculenet_has_scaffolds_and_names(tiny: Path) -> None:
    pytest.importorskip("rdkit")
    (tiny / "MoleculeNet/bace/raw").mkdir(parents=True)
    smiles = ["c1ccccc1O", "CCO", "c1ccccc1CC", "C1CC1 ", "not a molecule", "C"]
    rows = "".join(f"{text},id,{i % 2}\n" for i, text in enumerate(smiles))
    (tiny / "MoleculeNet/bace/raw/bace.csv").write_text(f"mol,CID,Class\n{rows}")
    data = load_graph_data("bace")
    assert data.names == ["c1ccccc1O", "CCO", "c1ccccc1CC", "C1CC1", "C"]
    assert data.labels.tolist() == [0, 1, 0, 1, 1]
    assert (data.labels.dtype, data.metric, data.split) == (np.int64, "roc_auc", "scaffold")
    assert (data.graph.x.shape[1], data.graph.edge_attr.shape[1]) == (9, 3)
    assert data.groups is not None
    assert data.groups.tolist() == [0, 1, 0, 2, 1]


def test_scaffolds_are_kept_until_the_molecules_change(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rdkit")
    import gpm.data.named_datasets

    (tiny / "MoleculeNet/esol/raw").mkdir(parents=True)
    (tiny / "MoleculeNet/esol/raw/delaney-processed.csv").write_text("id,logp,smiles\na,0.5,CC\nb,1.5,C1CC1\n")
    first = open_collection("esol")
    kept = data_root() / "MoleculeNet/esol/scaffolds.npz"
    monkeypatch.setattr(gpm.data.named_datasets, "find_scaffolds", lambda smiles: np.full(len(smiles), 7))
    assert open_collection("esol").groups.tolist() == first.groups.tolist() == [0, 1]  # type: ignore[union-attr]
    kept.write_bytes(kept.read_bytes()[:50])
    assert open_collection("esol").groups.tolist() == [7, 7]  # type: ignore[union-attr]
    np.savez(kept, groups=np.zeros(2), digest="of others")
    assert open_collection("esol").groups.tolist() == [7, 7]  # type: ignore[union-attr]


def _write_compact(path: Path) -> None:
    """A triangle, an edge, and a node alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    row, col = np.array([0, 0, 1, 3], dtype=np.int32), np.array([1, 2, 2, 4], dtype=np.int32)
    np.savez(path, row=row, col=col, num_nodes=np.array([3, 2, 1]), label=np.array([0, 2, 1], dtype=np.int8))


def test_collab_is_read_from_one_file_unless_its_own_are_there(tiny: Path) -> None:
    _write_compact(tiny / "COLLAB.compact.npz")
    data = load_graph_data("collab")
    assert (data.title, data.graph.num_graphs, data.graph.num_edges) == ("COLLAB", 3, 8)
    assert data.graph.graph_ptr.tolist() == [0, 3, 5, 6]
    assert data.labels.tolist() == [0, 2, 1]
    assert [graph.num_nodes for graph in load_dataset("collab")] == [3, 2, 1]
    assert not data_root().exists()  # nothing is copied or kept
    raw = tiny / "TUDataset/COLLAB/raw"
    raw.mkdir(parents=True)
    (raw / "COLLAB_A.txt").write_text("1, 2\n2, 1\n3, 4\n4, 3\n")
    (raw / "COLLAB_graph_indicator.txt").write_text("1\n1\n2\n2\n")
    (raw / "COLLAB_graph_labels.txt").write_text("1\n2\n")
    data = load_graph_data("collab")
    assert (data.graph.num_graphs, data.graph.num_edges, data.labels.tolist()) == (2, 4, [0, 1])


def test_a_damaged_compact_file_gets_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "COLLAB.compact.npz"
    _write_compact(path)
    assert isinstance(read_compact(path), Graph)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(GpmError, match=r"COLLAB\.compact\.npz is not a compact collection"):
        read_compact(path)
    np.savez(path, row=np.zeros(1))
    with pytest.raises(GpmError, match=r"is not a compact collection \(KeyError\)"):
        read_compact(path)


def test_features_of_their_own_are_checked_before_the_graph_is_loaded(tiny: Path) -> None:
    file = tiny / CATALOG["deezer-artists"].features
    with pytest.raises(GpmError, match=r"cannot be downloaded; put DeezerEurope/multihot_csr\.npz below"):
        load_dataset("deezer-artists")
    file.parent.mkdir(parents=True)
    file.write_bytes(b"no archive")
    with pytest.raises(GpmError, match=rf"{re.escape(str(file))} is not a sparse matrix"):
        load_dataset("deezer-artists")


def test_features_replace_those_of_the_loader_row_by_row() -> None:
    features, entry = sp.csr_array(np.array([[0.0, 2.0], [0.0, 0.0], [3.0, 0.0]])), CATALOG["deezer-artists"]
    data = _replace_features(Data(x=torch.zeros(3, 1), num_nodes=3), features, entry)
    assert data.x.to_dense().tolist() == features.toarray().tolist()
    with pytest.raises(GpmError, match="has 3 rows for 4 nodes; replace the file"):
        _replace_features(Data(num_nodes=4), features, entry)
