import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from gpm import GpmError, load_graph
from gpm.data import ogb
from gpm.data.leakage import check_links
from gpm.data.link_data import load_link_data
from gpm.data.named_datasets import load_dataset
from gpm.data.node_data import load_node_data
from gpm.data.non_edges import number_edges
from gpm.io.cache import data_root


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
        _write(folder / "split" / ogb.SOURCES[f"ogbn-{name}"].split / f"{part}.csv.gz", ids)
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
    with pytest.raises(GpmError, match=r"The saved 'ogbn-arxiv' is damaged .*Remove .*ogbn_arxiv and load it again"):
        load_dataset("arxiv")


def test_without_files_and_connection_it_says_what_to_do(at_hand: Path) -> None:
    sentence = r"Could not load 'ogbn-products' \(no route to host\); .* GPM_RAW .* OGB/ogbn_products/raw and OGB"
    with pytest.raises(GpmError, match=sentence):
        load_node_data("products")


def _archive(
    monkeypatch: pytest.MonkeyPatch, members: dict[str, Path | str], served: str = "nodeproppred/arxiv.zip"
) -> None:
    """Let the next download bring an archive with these members."""

    def download(url: str, folder: str) -> str:
        assert url == f"http://snap.stanford.edu/ogb/data/{served}"
        path = Path(folder) / Path(served).name
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
    with pytest.raises(GpmError, match=r"The archive of 'ogbn-arxiv' holds no raw/edge\.csv\.gz"):
        load_node_data("arxiv")


_PARTS = {  # of nine nodes; the pair 0, 1 of two years is in train twice, and again in test
    "train": {"edge": [(0, 1), (1, 0), (1, 2), (2, 3), (4, 3), (5, 5)], "weight": [1, 2, 1, 1, 4, 1]},
    "valid": {"edge": [(5, 6)], "weight": [1], "edge_neg": [(0, 8), (7, 7)]},
    "test": {"edge": [(8, 6), (1, 0)], "weight": [1, 1], "edge_neg": [(2, 8), (3, 8), (4, 8)]},
}


def _link_files(folder: Path, name: str, *, form: str = "numpy", parts: dict = _PARTS, weighted: bool = True) -> Path:
    """Nine nodes in OGB's format for links; the raw edges are those of training in one direction."""
    source = ogb.SOURCES[name]
    if "node-feat" in source.tables:
        _write(folder / "raw/node-feat.csv.gz", [(i, 0.5) for i in range(9)])
    _write(folder / "raw/edge.csv.gz", parts["train"]["edge"])
    _write(folder / "raw/num-node-list.csv.gz", [9])
    for part, values in parts.items():
        path = folder / "split" / source.split / f"{part}.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {key: np.array(value) for key, value in values.items() if weighted or key != "weight"}
        if form == "torch":
            arrays = {key: torch.from_numpy(value) for key, value in arrays.items()}
        torch.save(arrays, path, _use_new_zipfile_serialization=form != "old")
        if form == "old":  # as NumPy 1 and an early torch wrote it
            path.write_bytes(path.read_bytes().replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    return folder


@pytest.mark.parametrize("form", ["numpy", "torch", "old"])
@pytest.mark.parametrize(
    ("name", "metric", "weighted"),
    [("ogbl-collab", "hits@50", True), ("ogbl-ppa", "hits@100", False), ("ogbl-ddi", "hits@20", False)],
)
def test_the_parts_become_a_graph_of_training_edges_and_a_split(
    at_hand: Path, name: str, metric: str, weighted: bool, form: str
) -> None:
    _link_files(at_hand / name.replace("-", "_"), name, form=form, weighted=weighted)
    data = load_link_data(name)
    assert (data.title, data.split, data.metric) == (name, "public", metric)
    assert (data.graph.num_nodes, data.graph.num_edges, data.graph.census.directed) == (9, 9, False)
    assert (data.graph.x is None) == (name == "ogbl-ddi")
    split = data.make_split(seed=3)
    assert (split.protocol, split.name) == ("strict", "strict public")
    assert split.edges_of("train").tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]  # each pair once, no self-loop
    assert split.pairs[split.val].tolist() == [[5, 6], [0, 8], [7, 7]]
    assert split.edges_of("test").tolist() == [[8, 6], [1, 0]]
    assert split.negatives_of("test").tolist() == [[2, 8], [3, 8], [4, 8]]
    assert data.walked_graph(split) is data.graph
    if weighted:
        weight = dict(zip(map(tuple, data.graph.edge_index().T.tolist()), data.graph.edge_weight, strict=True))
        assert (weight[0, 1], weight[1, 0], weight[3, 4], weight[5, 5]) == (
            3,
            3,
            4,
            1,
        )  # years added up, of train alone
    else:
        assert data.graph.edge_weight is None


def test_no_held_out_edge_can_get_into_the_graph_of_links(at_hand: Path) -> None:
    folder = _link_files(at_hand / "ogbl_collab", "ogbl-collab")
    _write(folder / "raw/edge.csv.gz", [*_PARTS["train"]["edge"], (5, 6), (6, 8)])  # a raw table with all edges
    data = load_link_data("ogbl-collab")
    assert len(number_edges(data.graph)) == 4
    lines = check_links(data, data.make_split(0))
    assert any("2 edges, of which 1 are training pairs too (published so)" in line for line in lines)
    assert any("2 negatives, of which 1 pair a node with itself and 0 are edges" in line for line in lines)


def test_links_are_read_once_and_mapped_ever_after(at_hand: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _link_files(at_hand / "ogbl_collab", "ogbl-collab")
    first = load_link_data("ogbl-collab").make_split(0)
    monkeypatch.setattr(ogb, "_read", None)
    monkeypatch.setattr(ogb, "_read_part", None)
    second = load_link_data("ogbl-collab")
    assert second.make_split(0).digest == first.digest
    assert second.walked_graph(first) is second.graph  # the digest tells that it is the published one
    assert isinstance(second.graph.x.base, np.memmap)
    assert load_graph("ogbl-collab").num_edges == 9


def test_links_are_downloaded_under_their_archives_name(
    tmp_path: Path, at_hand: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _link_files(tmp_path / "served", "ogbl-ppa")
    members = {f"ppassoc/{f.relative_to(folder)}": f for f in folder.rglob("*") if f.is_file()}
    _archive(monkeypatch, members, "linkproppred/ppassoc.zip")
    assert load_link_data("ogbl-ppa").graph.num_nodes == 9
    assert sorted(p.name for p in (data_root() / "OGB").iterdir()) == ["ogbl_ppa"]


def test_damaged_parts_of_links_get_a_sentence(at_hand: Path) -> None:
    folder = _link_files(at_hand / "ogbl_collab", "ogbl-collab")
    part = data_root() / "OGB/ogbl_collab/split/time/valid.pt"
    (folder / "split/time/valid.pt").write_bytes(b"no archive")
    with pytest.raises(GpmError, match=r"valid\.pt is not a split file of OGB \(.*\); remove it and load the data"):
        load_link_data("ogbl-collab")
    torch.save({"edge": Path("code")}, part)
    with pytest.raises(GpmError, match=r"valid\.pt is not a split file of OGB \(UnpicklingError\)"):
        load_link_data("ogbl-collab")
    torch.save({"edge": torch.tensor([[0, 1]])}, part)
    with pytest.raises(
        GpmError, match=r"The files in .*time do not make a split \('edge_neg'\); load the dataset again"
    ):
        load_link_data("ogbl-collab")
    torch.save({"edge": torch.tensor([[0, 9]]), "edge_neg": torch.tensor([[0, 1]])}, part)
    with pytest.raises(
        GpmError, match=r"do not make a split \(The split 'strict public' pairs nodes that are not among"
    ):
        load_link_data("ogbl-collab")
    torch.save({"edge": torch.tensor([[0, 7]]), "edge_neg": torch.tensor([[0, 8]])}, part)
    load_link_data("ogbl-collab")
    (data_root() / "OGB/ogbl_collab/split.npz").write_bytes(b"")
    with pytest.raises(GpmError, match=r"The saved 'ogbl-collab' is damaged .*Remove .*ogbl_collab and load it"):
        load_link_data("ogbl-collab")


def test_links_without_files_and_connection_say_what_to_do(at_hand: Path) -> None:
    sentence = r"Could not load 'ogbl-ddi' \(no route to host\); .* GPM_RAW .* OGB/ogbl_ddi/raw and OGB/ogbl_ddi/split"
    with pytest.raises(GpmError, match=sentence):
        load_link_data("ogbl-ddi")
