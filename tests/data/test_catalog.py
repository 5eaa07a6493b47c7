from pathlib import Path

import pytest

from gpm import GpmError, load_graph
from gpm.data import catalog, data_root, dataset_names, load_dataset


def test_the_data_root_is_the_users_cache_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "here"))
    assert data_root() == tmp_path / "here"
    monkeypatch.delenv("GPM_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_root() == tmp_path / "cache" / "gpm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert data_root() == tmp_path / "home" / ".cache" / "gpm"


def test_every_name_has_a_loader() -> None:
    import torch_geometric.datasets

    assert "karate" in dataset_names()
    assert all(hasattr(torch_geometric.datasets, entry.loader) for entry in catalog.CATALOG.values())


def test_raw_files_are_copied_whole_from_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "raw" / "Planetoid" / "Cora" / "raw"
    raw.mkdir(parents=True)
    (raw / "ind.cora.x").write_text("x")
    raw.chmod(0o555)
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "raw"))
    catalog._copy_raw(catalog.CATALOG["cora"])
    copied = data_root() / "Planetoid" / "Cora" / "raw"
    assert (copied / "ind.cora.x").read_text() == "x"
    assert [p.name for p in copied.iterdir()] == ["ind.cora.x"]
    (copied / "ind.cora.x").write_text("kept")
    raw.chmod(0o755)
    (raw / "ind.cora.y").write_text("y")
    catalog._copy_raw(catalog.CATALOG["cora"])  # what is there stays, what was missing comes
    assert {p.name: p.read_text() for p in copied.iterdir()} == {"ind.cora.x": "kept", "ind.cora.y": "y"}


def test_a_failed_download_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_geometric.datasets

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no route to host")

    monkeypatch.setattr(torch_geometric.datasets, "Planetoid", fail)
    with pytest.raises(GpmError, match=r"could not load 'cora' \(no route to host\).*GPM_RAW.*Planetoid/Cora/raw"):
        load_dataset("cora")


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(GpmError, match=r"no dataset is named 'coar'\. Did you mean 'cora'\?"):
        load_dataset("coar")


@pytest.mark.needs("Planetoid/Cora")
@pytest.mark.usefixtures("raw_files")
def test_cora_has_its_published_size() -> None:
    graph = load_graph("cora")
    assert (graph.num_nodes, graph.num_edges, graph.x.shape[1]) == (2708, 10556, 1433)
    assert not graph.census.directed


@pytest.mark.needs("TUDataset/MUTAG")
@pytest.mark.usefixtures("raw_files")
def test_mutag_is_one_collection() -> None:
    graph = load_graph("mutag")
    assert (graph.num_graphs, graph.num_nodes, graph.num_edges) == (188, 3371, 7442)
    assert graph.edge_attr is not None
