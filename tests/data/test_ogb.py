import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest

from gpm import GpmError, load_graph
from gpm.data import data_root, load_dataset, ogb
from gpm.data.tasks import load_node_data


def _write(path: Path, rows: list) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt") as file:
        file.writelines(",".join(map(str, np.atleast_1d(row))) + "\n" for row in rows)


def _tables(folder: Path, name: str) -> Path:
    """Five nodes in OGB's format: edges in one direction, one of them also in the other."""
    _write(folder / "raw/edge.csv.gz", [(0, 1), (1, 2), (2, 1), (3, 0)])
    _write(folder / "raw/node-feat.csv.gz", [(-0.5, 2.25), (0.125, 1e-3), (1, 2), (3, 4), (5, 6)])
    _write(folder / "raw/node-label.csv.gz", [4, 0, 1, 2, 3])
    _write(folder / "raw/num-node-list.csv.gz", [5])
    for part, ids in (("train", [4, 0]), ("valid", [1]), ("test", [3, 2])):
        _write(folder / "split" / ogb.SPLITS[name] / f"{part}.csv.gz", ids)
    return folder


@pytest.fixture
def at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of raw files; the network is not touched."""

    def refuse(*_: object) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr("torch_geometric.data.download_url", refuse)
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "at-hand"))
    return tmp_path / "at-hand" / "OGB"


@pytest.mark.parametrize("name", ["arxiv", "products"])
def test_the_tables_become_an_undirected_graph_with_its_split(at_hand: Path, name: str) -> None:
    _tables(at_hand / f"ogbn_{name}", name)
    data = load_node_data(f"ogbn-{name}")
    assert (data.title, data.split, data.metric) == (name.capitalize(), "public", "accuracy")
    assert (data.graph.num_nodes, data.graph.num_edges, data.graph.census.directed) == (5, 6, False)
    assert (data.labels.tolist(), data.labels.dtype) == ([4, 0, 1, 2, 3], np.int64)
    assert data.graph.x.dtype == np.float32
    np.testing.assert_array_equal(data.graph.x[:2], np.array([(-0.5, 2.25), (0.125, 1e-3)], dtype=np.float32))
    split = data.make_split(seed=3)
    assert [p.tolist() for p in (split.train, split.val, split.test)] == [[0, 4], [1], [2, 3]]


def test_the_second_load_maps_what_the_first_kept(at_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _tables(at_hand / "ogbn_arxiv", "arxiv")
    first = load_node_data("arxiv")

    def refuse(*_: object) -> None:
        raise AssertionError("the tables were read again")

    monkeypatch.setattr(ogb, "_read", refuse)
    second = load_node_data("arxiv")
    np.testing.assert_array_equal(second.graph.indices, first.graph.indices)
    assert second.make_split(0).digest == first.make_split(0).digest
    assert isinstance(second.graph.x.base, np.memmap)


def test_it_is_a_pyg_dataset_and_a_graph_too(at_hand: Path) -> None:
    _tables(at_hand / "ogbn_arxiv", "arxiv")
    (data,) = load_dataset("arxiv")
    assert (data.num_nodes, data.num_edges) == (5, 6)
    assert data.val_mask.tolist() == [False, True, False, False, False]
    assert load_graph("arxiv").num_edges == 6


def test_damage_gets_a_sentence(at_hand: Path) -> None:
    folder = _tables(at_hand / "ogbn_arxiv", "arxiv")
    _write(folder / "raw/node-label.csv.gz", ["a", 1, 2, 3, 4])
    with pytest.raises(GpmError, match=r"node-label\.csv\.gz is not a table of numbers \("):
        load_dataset("arxiv")
    kept = data_root() / "OGB/ogbn_arxiv"
    (kept / "raw/node-label.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(GpmError, match=r"node-label\.csv\.gz is not a table of numbers"):
        load_dataset("arxiv")
    _write(kept / "raw/node-label.csv.gz", [4, 0, 1, 2, 3])
    _write(kept / "split/time/valid.csv.gz", [5])
    with pytest.raises(GpmError, match="names node 5, but there are 5; load the dataset again"):
        load_dataset("arxiv")
    _write(kept / "split/time/valid.csv.gz", [1])
    load_dataset("arxiv")
    (kept / "graph/y.npy").write_bytes(b"")
    with pytest.raises(GpmError, match=r"what is kept of 'arxiv' is damaged .*Remove .*ogbn_arxiv and load it again"):
        load_dataset("arxiv")


def test_without_files_and_connection_it_says_what_to_do(at_hand: Path) -> None:
    sentence = r"could not load 'products' \(no route to host\); .* GPM_RAW .* OGB/ogbn_products/raw and OGB"
    with pytest.raises(GpmError, match=sentence):
        load_node_data("products")


def _archive(monkeypatch: pytest.MonkeyPatch, members: dict[str, Path | str]) -> None:
    """Let the next download bring an archive with these members."""

    def download(url: str, folder: str) -> str:
        assert url == "http://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"
        path = Path(folder) / "arxiv.zip"
        with zipfile.ZipFile(path, "w") as content:
            for name, source in members.items():
                content.write(source, name) if isinstance(source, Path) else content.writestr(name, source)
        return str(path)

    monkeypatch.setattr("torch_geometric.data.download_url", download)


def test_a_download_is_unpacked_in_its_place(tmp_path: Path, at_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _tables(tmp_path / "served", "arxiv")
    _archive(monkeypatch, {f"arxiv/{f.relative_to(folder)}": f for f in folder.rglob("*") if f.is_file()})
    assert load_node_data("arxiv").graph.num_nodes == 5
    assert sorted(p.name for p in (data_root() / "OGB").iterdir()) == ["ogbn_arxiv"]


@pytest.mark.parametrize("member", ["../evil", "/evil", "arxiv/../../evil", "C:\\evil", "..\\evil"])
def test_an_archive_that_leads_out_is_refused(
    tmp_path: Path, at_hand: Path, monkeypatch: pytest.MonkeyPatch, member: str
) -> None:
    _archive(monkeypatch, {member: "x"})
    with pytest.raises(GpmError, match=r"arxiv\.zip holds the path .* which leads out of its folder"):
        load_node_data("arxiv")
    assert not list(tmp_path.rglob("evil"))


def test_an_archive_that_lacks_a_table_gets_a_sentence(at_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _archive(monkeypatch, {"arxiv/RELEASE.txt": "x"})
    with pytest.raises(GpmError, match=r"the archive of 'arxiv' holds no raw/edge\.csv\.gz"):
        load_node_data("arxiv")
