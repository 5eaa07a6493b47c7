from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from gpm import GpmError, Graph
from gpm.cli.datasets import data, find_state, list_datasets
from gpm.cli.main import main
from gpm.data.catalog import CATALOG
from gpm.io.cache import data_root


def test_the_table_has_a_row_per_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    data()
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "title", "graphs", "nodes", "task", "split", "metric", "state"]
    assert [row.split()[0] for row in rows] == list(CATALOG)
    cora = next(row for row in rows if row.startswith("cora "))
    assert cora.split()[:7] == ["cora", "Cora", "1", "2,708", "nodes", "public", "accuracy"]
    zinc = next(row for row in rows if row.startswith("zinc "))
    assert zinc.split()[:7] == ["zinc", "ZINC", "12,000", "278,000", "graphs", "public", "mae"]
    assert all(len(line) <= 104 for line in list_datasets())


def test_the_state_follows_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPM_RAW", raising=False)
    cora, arxiv = CATALOG["cora"], CATALOG["arxiv"]
    assert find_state(CATALOG["motifs"]) == find_state(CATALOG["karate"]) == "ready"
    assert find_state(cora) == find_state(arxiv) == "would download"
    for entry in (cora, arxiv):
        (tmp_path / "at-hand" / entry.raw / "raw").mkdir(parents=True)
        (tmp_path / "at-hand" / entry.raw / "raw/file").touch()
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "at-hand"))
    assert find_state(cora) == find_state(arxiv) == "raw files at hand"
    processed = data_root() / cora.raw / "processed"
    processed.mkdir(parents=True)
    (processed / "pre_filter.pt").touch()
    assert find_state(cora) == "raw files at hand"
    (processed / "data.pt").touch()
    assert find_state(cora) == "ready"
    Graph.from_edges([[0], [1]]).save(data_root() / arxiv.raw / "graph")
    assert find_state(arxiv) == "raw files at hand"  # the split is missing
    (data_root() / arxiv.raw / "split.npz").touch()
    assert find_state(arxiv) == "ready"


def test_the_state_of_collections_follows_their_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPM_RAW", str(tmp_path))
    zinc, full, collab = CATALOG["zinc"], CATALOG["zinc-full"], CATALOG["collab"]
    assert find_state(zinc) == find_state(collab) == "would download"
    (tmp_path / "COLLAB.compact.npz").touch()
    assert find_state(collab) == "raw files at hand"
    (data_root() / "ZINC/subset/processed").mkdir(parents=True)
    (data_root() / "ZINC/subset/processed/train.pt").touch()
    assert (find_state(zinc), find_state(full)) == ("ready", "would download")


def _facts(printed: str) -> dict[str, str]:
    return {line[:18].strip(): line[18:] for line in printed.splitlines()}


def test_a_dataset_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    data("motifs")
    facts = _facts(capsys.readouterr().out)
    assert facts["title"] == "Planted motifs"
    assert facts["graph"].startswith("2,120 nodes, 3,157 undirected edges")
    assert (facts["features"], facts["classes"]) == ("8 dense, float32", "6")
    assert facts["nodes of each"] == "600, 80, 160, 160, 360, 760"
    assert facts["split"] == "1,272 train, 424 val, 424 test (random 60/20/20, seed 0)"
    assert (facts["unlabelled"], facts["metric"]) == ("0", "accuracy")


def test_a_file_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ring = torch.stack([torch.arange(20), (torch.arange(20) + 1) % 20])
    torch.save(Data(edge_index=ring, x=torch.eye(20).to_sparse_csr(), y=torch.arange(20) - 1), tmp_path / "ring.pt")
    data(str(tmp_path / "ring.pt"))
    facts = _facts(capsys.readouterr().out)
    assert (facts["title"], facts["features"]) == ("ring", "20 sparse, float32, 5.00% filled")
    assert (facts["classes"], facts["unlabelled"]) == ("19", "1")
    assert facts["nodes of each"].endswith("1, 1, and 7 more")
    torch.save(Data(edge_index=ring, num_nodes=20, y=torch.eye(20, 3)), tmp_path / "ring.pt")
    data(str(tmp_path / "ring.pt"))
    facts = _facts(capsys.readouterr().out)
    assert (facts["labels per node"], facts["nodes of each"], facts["features"]) == ("3", "1, 1, 1", "none")
    assert facts["metric"] == "roc_auc"


@pytest.mark.needs("TUDataset/MUTAG")
@pytest.mark.usefixtures("raw_files")
def test_a_collection_of_graphs_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    data("mutag")
    facts = _facts(capsys.readouterr().out)
    assert facts["graphs"].startswith("188 graphs, 3,371 nodes")
    assert facts["mean size"] == "17.9 nodes, 39.6 directed edges; 10 to 28 nodes"
    assert (facts["classes"], facts["graphs of each"]) == ("2", "63, 125")
    assert facts["split"] == "150 train, 19 val, 19 test (random 80/10/10, seed 0, stratified)"


def _save_graphs(path: Path, labels: list) -> None:
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    torch.save([Data(edge_index=ring, num_nodes=3, y=torch.tensor([y])) for y in labels], path)


def test_values_of_graphs_are_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nan = float("nan")
    _save_graphs(tmp_path / "values.pt", [-1.0, 2.5, nan, 3.0, 1.5, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0])
    data(str(tmp_path / "values.pt"))
    facts = _facts(capsys.readouterr().out)
    assert facts["value"] == "mean 1, standard deviation 1.565, from -1 to 4"
    assert (facts["unlabelled"], facts["metric"], facts["features"]) == ("1", "mae", "none")
    _save_graphs(tmp_path / "values.pt", [[0.5 * i, nan] for i in range(10)])
    data(str(tmp_path / "values.pt"))
    facts = _facts(capsys.readouterr().out)
    assert (facts["values per graph"], facts["value 1"]) == ("2", "never known")
    assert facts["value 0"].startswith("mean 2.25, ")


def test_several_labels_of_graphs_are_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _save_graphs(tmp_path / "labels.pt", [[1.0, 0.0], [1.0, float("nan")]] * 5)
    data(str(tmp_path / "labels.pt"))
    facts = _facts(capsys.readouterr().out)
    assert (facts["labels per graph"], facts["graphs of each"], facts["known"]) == ("2", "10, 0", "100%, 50%")
    assert (facts["metric"], facts["split"]) == ("roc_auc", "8 train, 1 val, 1 test (random 80/10/10, seed 0)")


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(GpmError, match="Did you mean 'motifs'"):
        data("moitfs")


def test_data_are_listed_and_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    assert "Karate Club" in capsys.readouterr().out
    assert main(["data", "karate"]) == 0
    assert "34 nodes, 78 undirected edges" in capsys.readouterr().out
