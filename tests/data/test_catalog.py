import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from gpm import GpmError, load_graph
from gpm.data import catalog, named_datasets
from gpm.data.graph_data import load_graph_data
from gpm.data.named_datasets import load_dataset
from gpm.data.node_data import load_node_data
from gpm.data.sources import load_task_data
from gpm.data.splits import parse_fractions
from gpm.io.cache import data_root


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

    assert "karate" in catalog.CATALOG
    for name, entry in catalog.CATALOG.items():
        assert entry.loader in ("ogb", "ogbl", "motifs", "fraud", "random", "trees", "file") or hasattr(
            torch_geometric.datasets, entry.loader
        )
        assert catalog.spell(name) == name
        assert entry.raw.startswith(entry.root)


def test_every_entry_says_how_it_is_used() -> None:
    for entry in catalog.CATALOG.values():
        assert entry.title
        assert entry.nodes
        metrics = {"node": ("accuracy", "roc_auc", "ap"), "link": ("hits@20", "hits@50", "hits@100", "roc_auc")}
        assert entry.metric in metrics.get(entry.task, ("accuracy", "roc_auc", "mae", "rmse"))
        assert (entry.task == "graph") == (entry.graphs > 1)
        assert entry.split in ("public", "scaffold", "5-fold", "10-fold") or parse_fractions(entry.split)
    with_auc = {n for n, entry in catalog.CATALOG.items() if entry.metric == "roc_auc" and entry.task == "node"}
    countries = {f"twitch-{country}" for country in ("de", "en", "es", "fr", "pt", "ru")}
    assert with_auc == {"minesweeper", "tolokers", "questions"} | countries


def test_names_may_be_spelled_as_people_do() -> None:
    for given, name in (
        ("BlogCatalog", "blog"),
        ("Roman_Empire", "roman-empire"),
        ("ogbn-arxiv", "arxiv"),
        ("Computer", "computers"),
        ("CORA", "cora"),
        ("IMDB-BINARY", "imdb-b"),
        ("REDDIT-MULTI-12K", "reddit-m12k"),
        ("D&D", "dd"),
        ("ogbl_collab", "ogbl-collab"),
    ):
        assert catalog.find_entry(given) is catalog.CATALOG[name]


def test_raw_files_are_copied_whole_from_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "raw" / "Planetoid" / "Cora" / "raw"
    raw.mkdir(parents=True)
    (raw / "ind.cora.x").write_text("x")
    raw.chmod(0o555)
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "raw"))
    catalog.copy_raw("Planetoid/Cora/raw")
    copied = data_root() / "Planetoid" / "Cora" / "raw"
    assert (copied / "ind.cora.x").read_text() == "x"
    assert [p.name for p in copied.iterdir()] == ["ind.cora.x"]
    (copied / "ind.cora.x").write_text("kept")
    raw.chmod(0o755)
    (raw / "ind.cora.y").write_text("y")
    catalog.copy_raw("Planetoid/Cora/raw")  # what is there stays, what was missing comes
    assert {p.name: p.read_text() for p in copied.iterdir()} == {"ind.cora.x": "kept", "ind.cora.y": "y"}


def test_a_failed_download_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_geometric.datasets

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no route to host")

    monkeypatch.setattr(torch_geometric.datasets, "Planetoid", fail)
    with pytest.raises(GpmError, match=r"Could not load 'cora' \(no route to host\).*GPM_RAW.*Planetoid/Cora/raw"):
        load_dataset("cora")


def test_pyg_files_are_read_without_executing_them_whatever_was_read_before(tiny: Path) -> None:
    import torch
    from torch_geometric.data import Data

    with torch.serialization.safe_globals([Data]):
        pass  # on leaving, torch forgets that PyG allowed it
    test_corafull_reads_its_npz(tiny)  # a fallback to unsafe reading warns, and a warning fails


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(GpmError, match=r"No dataset is named 'coar'\. Did you mean 'cora'\?"):
        load_dataset("coar")


@pytest.mark.needs("CitationDA")
def test_acm_and_dblp_share_their_words(raw_files: Path) -> None:
    sizes = {"acm": (9360, 31112), "dblp": (5484, 16234)}
    for name, (nodes, edges) in sizes.items():
        (data,) = load_dataset(name)
        assert (data.num_nodes, data.num_edges, data.x.shape[1], int(data.y.max()) + 1) == (nodes, edges, 6775, 5)


def test_what_has_no_address_says_where_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPM_DATA", str(tmp_path))
    monkeypatch.delenv("GPM_RAW", raising=False)
    with pytest.raises(GpmError, match=r"^ACM cannot be downloaded; put acmv9\.npz, .* into .*CitationDA, or let"):
        load_dataset("acm")


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


_SIZES = [  # name, raw folder; published nodes, directed edges, features, classes; edges once they go both ways
    ("blog", "AttributedGraphDataset/blogcatalog", 5196, 343486, 8189, 6, 343486),
    ("flickr-s", "AttributedGraphDataset/flickr", 7575, 479476, 12047, 9, 479476),
    ("computers", "Amazon/Computers", 13752, 491722, 767, 10, 491722),
    ("deezer", "DeezerEurope", 28281, 185504, 128, 2, 185504),
    ("actor", "Actor", 7600, 30019, 932, 5, 53411),
    ("chameleon", "WikipediaNetwork/chameleon", 2277, 36101, 2325, 5, 62792),
    ("texas", "WebKB/texas", 183, 325, 1703, 5, 574),
    ("minesweeper", "HeterophilousGraphDataset/minesweeper", 10000, 78804, 7, 2, 78804),
    ("twitch-pt", "Twitch/PT", 1912, 64510, 128, 2, 64510),
]


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "both_ways"),
    [pytest.param(row[0], *row[2:], marks=pytest.mark.needs(row[1]), id=row[0]) for row in _SIZES],
)
@pytest.mark.usefixtures("raw_files", "_no_download")
def test_published_sizes(name: str, nodes: int, edges: int, features: int, classes: int, both_ways: int) -> None:
    dataset = load_dataset(name)
    assert dataset._data.edge_index.shape == (2, edges)
    data = load_node_data(name)
    graph = data.graph
    assert (graph.num_nodes, graph.x.shape[1], data.num_classes) == (nodes, features, classes)
    assert nodes == catalog.CATALOG[name].nodes
    assert not graph.census.directed
    assert graph.num_edges == dataset[0].num_edges == both_ways
    assert sp.issparse(graph.x) == (name == "flickr-s")
    assert (data.masks is not None) == (data.split == "public")
    assert data.masks is None or data.masks.count == 10


_FURTHER = [  # name, raw folder; published nodes, edges once they go both ways, features, classes, labelled nodes
    ("deezer-artists", "DeezerEurope/multihot_csr.npz", 28281, 185504, 31241, 2, 28281),
    ("reed98", "LINKXDataset/reed98", 962, 37624, 745, 2, 865),
    ("airports-europe", "Airports/europe", 399, 11988, 0, 4, 399),
    ("polblogs", "NetworkFiles", 1490, 33430, 0, 2, 1490),
    ("uai", "NetworkFiles", 3067, 56616, 4973, 19, 3067),
    ("chameleon-filtered", "WikipediaFiltered", 890, 17708, 2325, 5, 890),
    ("imdb-movies", "IMDB", 4278 + 2081 + 5257, 34212, 3066, 3, 4278),
]


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "features", "classes", "labelled"),
    [pytest.param(row[0], *row[2:], marks=pytest.mark.needs(row[1]), id=row[0]) for row in _FURTHER],
)
@pytest.mark.usefixtures("raw_files", "_no_download")
def test_published_sizes_of_networks(
    name: str, nodes: int, edges: int, features: int, classes: int, labelled: int
) -> None:
    data = load_node_data(name)
    graph = data.graph
    assert (graph.num_nodes, graph.num_edges, data.num_classes) == (nodes, edges, classes)
    assert (0 if graph.x is None else graph.x.shape[1]) == features  # the identity says nothing and is left out
    assert np.count_nonzero(data.labels >= 0) == labelled
    assert (catalog.CATALOG[name].nodes, graph.census.directed) == (nodes, False)
    assert (data.masks is not None) == (data.split == "public")


@pytest.mark.needs("IMDB")
@pytest.mark.usefixtures("raw_files", "_no_download")
def test_the_movies_keep_their_published_split() -> None:
    split = load_node_data("imdb-movies").make_split(seed=0)
    assert [len(split.train), len(split.val), len(split.test)] == [400, 400, 3478]


@pytest.mark.parametrize(
    ("name", "nodes", "pairs"),
    [("usair", 332, 2126), ("ns", 1589, 2742), ("yeast", 2375, 11693), ("celegans", 297, 2148)],
)
@pytest.mark.needs("LinkSets")
@pytest.mark.usefixtures("raw_files")
def test_published_sizes_of_link_sets(name: str, nodes: int, pairs: int) -> None:
    data = load_task_data(name)
    assert (data.level, data.metric, data.split) == ("link", "roc_auc", "85/5/10")
    assert (data.graph.num_nodes, data.graph.num_edges, data.graph.x) == (nodes, 2 * pairs, None)
    assert (catalog.CATALOG[name].nodes, data.graph.census.directed) == (nodes, False)


_COLLECTIONS = [  # name, raw folder; published graphs, nodes, directed edges, features, classes
    ("mutag", "TUDataset/MUTAG", 188, 3371, 7442, 7, 2),
    ("enzymes", "TUDataset/ENZYMES", 600, 19580, 74564, 3, 6),
    ("csl", "GNNBenchmarkDataset/CSL", 150, 6150, 24600, 0, 10),
    ("sr25", "TUDataset/SR25", 300, 7500, 90000, 0, 15),
]


@pytest.mark.parametrize(
    ("name", "graphs", "nodes", "edges", "features", "classes"),
    [pytest.param(row[0], *row[2:], marks=pytest.mark.needs(row[1]), id=row[0]) for row in _COLLECTIONS],
)
@pytest.mark.usefixtures("raw_files", "_no_download")
def test_published_sizes_of_collections(
    name: str, graphs: int, nodes: int, edges: int, features: int, classes: int
) -> None:
    data = load_graph_data(name)
    assert (data.graph.num_graphs, data.graph.num_nodes, data.graph.num_edges) == (graphs, nodes, edges)
    assert (catalog.CATALOG[name].graphs, catalog.CATALOG[name].nodes) == (graphs, nodes)
    assert (0 if data.graph.x is None else data.graph.x.shape[1]) == features
    assert data.num_classes == classes
    assert not data.graph.census.directed


@pytest.mark.needs("GNNBenchmarkDataset/CSL")
@pytest.mark.usefixtures("raw_files", "_no_download")
def test_csl_has_its_five_published_folds() -> None:
    data = load_graph_data("csl")
    splits = [data.make_split(seed, "public") for seed in range(5)]
    assert {tuple(map(len, (split.train, split.val, split.test))) for split in splits} == {(90, 30, 30)}
    assert sorted(np.concatenate([split.test for split in splits])) == list(range(150))
    for split in splits:
        assert np.bincount(data.labels[split.test]).tolist() == [3] * 10


@pytest.mark.needs("TUDataset/SR25")
@pytest.mark.usefixtures("raw_files", "_no_download")
def test_each_graph_of_sr25_comes_in_copies() -> None:
    data = load_graph_data("sr25")
    assert np.bincount(data.labels).tolist() == [20] * 15
    assert set(np.diff(data.graph.indptr)) == {12}  # as strongly regular graphs of 25 nodes are


@pytest.fixture
def _no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch_geometric.datasets

    def refuse(*_: object) -> None:
        raise AssertionError("a download was tried")

    for loader in {
        entry.loader
        for entry in catalog.CATALOG.values()
        if entry.root and not entry.loader.startswith(("ogb", "file"))
    }:
        monkeypatch.setattr(getattr(torch_geometric.datasets, loader), "download", refuse)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, _no_download: None) -> Path:
    """A folder for tiny raw files in the layout of PyG, which may not download."""
    monkeypatch.setenv("GPM_RAW", str(tmp_path / "tiny"))
    return tmp_path / "tiny"


_LABELS = np.array([0, 1, 2, 0, 1, 2])
_FEATURES = np.eye(6, 4, dtype=np.float32)
_RING = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]])
_PARTS = np.array([[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]], dtype=bool)


def _check_ring(name: str, splits: int = 1) -> None:
    """What all tiny files hold: a ring of six nodes, given in one direction, with a published split."""
    data = load_node_data(name)
    assert (data.graph.num_nodes, data.graph.num_edges, data.graph.census.directed) == (6, 12, False)
    np.testing.assert_array_equal(data.labels, _LABELS)
    np.testing.assert_array_equal(data.graph.x, _FEATURES)
    assert data.masks is not None
    assert data.masks.count == splits
    split = data.make_split(seed=splits - 1)
    assert [split.train.tolist(), split.val.tolist(), split.test.tolist()] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("name", ["reddit-m5k", "reddit-m12k", "dd"])
def test_tu_collections_read_their_text(tiny: Path, name: str) -> None:
    title = catalog.CATALOG[name].title
    raw = tiny / "TUDataset" / title / "raw"
    raw.mkdir(parents=True)
    (raw / f"{title}_A.txt").write_text("".join(f"{a + 1}, {b + 1}\n{b + 1}, {a + 1}\n" for a, b in _RING))
    (raw / f"{title}_graph_indicator.txt").write_text("1\n" * 6 + "2\n")
    (raw / f"{title}_graph_labels.txt").write_text("1\n3\n")
    (raw / f"{title}_node_labels.txt").write_text("5\n6\n" * 3 + "5\n")
    data = load_graph_data(name)
    assert (data.graph.num_edges, data.graph.graph_ptr.tolist(), data.labels.tolist()) == (12, [0, 6, 7], [0, 1])
    np.testing.assert_array_equal(data.graph.x, np.eye(2)[[0, 1] * 3 + [0]])


def test_molecules_without_rdkit_get_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_datasets, "find_spec", lambda name: None)
    with pytest.raises(GpmError, match=r"Tox21 needs RDKit; install it with pip install '.*\[molecules\]'"):
        load_dataset("tox21")


def test_wikics_reads_its_json(tiny: Path) -> None:
    (tiny / "WikiCS/raw").mkdir(parents=True)
    many = [[part.tolist()] * 20 for part in _PARTS]
    facts = {
        "features": _FEATURES.tolist(), "labels": _LABELS.tolist(), "links": [[1], [2], [3], [4], [5], [0]],
        "train_masks": many[0], "val_masks": many[1], "stopping_masks": many[2], "test_mask": _PARTS[2].tolist(),
    }  # fmt: skip
    (tiny / "WikiCS/raw/data.json").write_text(json.dumps(facts))
    _check_ring("wikics", splits=20)


def test_corafull_reads_its_npz(tiny: Path) -> None:
    (tiny / "CoraFull/cora/raw").mkdir(parents=True)
    x, ring = sp.csr_matrix(_FEATURES), sp.csr_matrix((np.ones(6), _RING.T), shape=(6, 6))
    facts = {"labels": _LABELS}
    for key, matrix in (("attr", x), ("adj", ring)):
        facts |= {f"{key}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(tiny / "CoraFull/cora/raw/cora.npz", **facts)
    data = load_node_data("corafull")
    assert (data.graph.num_edges, data.graph.census.directed, data.masks) == (12, False, None)
    np.testing.assert_array_equal(data.labels, _LABELS)
    np.testing.assert_array_equal(data.graph.x, _FEATURES)


def test_flickr_reads_its_four_files(tiny: Path) -> None:
    raw = tiny / "Flickr/raw"
    raw.mkdir(parents=True)
    both = np.concatenate([_RING, _RING[:, ::-1]])
    sp.save_npz(raw / "adj_full.npz", sp.csr_matrix((np.ones(12), both.T), shape=(6, 6)))
    np.save(raw / "feats.npy", _FEATURES)
    (raw / "class_map.json").write_text(json.dumps({str(i): int(label) for i, label in enumerate(_LABELS)}))
    (raw / "role.json").write_text(json.dumps({"tr": [0, 1], "va": [2, 3], "te": [4, 5]}))
    _check_ring("flickr")


@pytest.mark.parametrize("name", ["roman-empire", "amazon-ratings", "tolokers", "questions"])
def test_mixed_graphs_read_their_npz(tiny: Path, name: str) -> None:
    file = name.replace("-", "_")
    raw = tiny / "HeterophilousGraphDataset" / file / "raw"
    raw.mkdir(parents=True)
    masks = {f"{key}_masks": np.tile(part, (10, 1)) for key, part in zip(("train", "val", "test"), _PARTS, strict=True)}
    np.savez(raw / f"{file}.npz", node_features=_FEATURES, node_labels=_LABELS, edges=_RING, **masks)
    _check_ring(name, splits=10)


def test_squirrel_is_the_version_with_splits(tiny: Path) -> None:
    raw = tiny / "WikipediaNetwork/squirrel/geom_gcn/raw"
    raw.mkdir(parents=True)
    rows = (f"{i}\t{','.join(map(str, _FEATURES[i]))}\t{label}\n" for i, label in enumerate(_LABELS))
    (raw / "out1_node_feature_label.txt").write_text("id\tfeature\tlabel\n" + "".join(rows))
    (raw / "out1_graph_edges.txt").write_text("from\tto\n" + "".join(f"{a}\t{b}\n" for a, b in _RING))
    masks = {f"{key}_mask": part for key, part in zip(("train", "val", "test"), _PARTS, strict=True)}
    for i in range(10):
        np.savez(raw / f"squirrel_split_0.6_0.2_{i}.npz", **masks)
    _check_ring("squirrel", splits=10)


def test_a_damaged_raw_file_gets_a_sentence(tiny: Path) -> None:
    (tiny / "WikiCS/raw").mkdir(parents=True)
    (tiny / "WikiCS/raw/data.json").write_text("{")
    with pytest.raises(GpmError, match=r"Could not load 'wikics' \(.*GPM_RAW name a folder with WikiCS/raw\.$"):
        load_dataset("wikics")
