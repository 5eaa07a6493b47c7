from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from gpm import GpmError, Graph
from gpm.__main__ import main
from gpm.data.node_data import build_node_data, load_node_data
from gpm.data.sources import load_task_data

_RING = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])


def _ring(**facts: object) -> Data:
    return Data(edge_index=_RING, **({"num_nodes": 6, "y": torch.tensor([0, 1, 0, 1, 0, 1])} | facts))


def _masks(**changes: torch.Tensor) -> dict[str, torch.Tensor]:
    rows = torch.eye(6, dtype=torch.bool)
    masks = {"train_mask": rows[0] | rows[1], "val_mask": rows[2] | rows[3], "test_mask": rows[4] | rows[5]}
    return masks | changes


def test_all_forms_of_a_graph_are_the_same_data(tmp_path: Path) -> None:
    data = _ring(x=torch.randn(6, 3))
    graph = Graph.from_pyg(data)
    graph.save(tmp_path / "saved")
    torch.save(data, tmp_path / "file.pt")
    for source in (data, graph, tmp_path / "saved", str(tmp_path / "file.pt")):
        loaded = load_node_data(source)
        np.testing.assert_array_equal(loaded.graph.indices, graph.indices)
        np.testing.assert_array_equal(loaded.graph.x, data.x)
        np.testing.assert_array_equal(loaded.labels, data.y)
        assert (loaded.split, loaded.metric, loaded.masks, loaded.num_classes) == ("60/20/20", "accuracy", None, 2)
    assert load_node_data(tmp_path / "file.pt").title == "file"


def test_masks_of_a_file_and_of_data_are_a_given_split(tmp_path: Path) -> None:
    data = _ring(**_masks())
    torch.save(data, tmp_path / "file.pt")
    for source in (data, tmp_path / "file.pt"):
        loaded = load_node_data(source)
        assert loaded.split == "given"
        for kind in ("", "given", "public"):  # public: the earlier name
            split = loaded.make_split(3, kind)
            assert [p.tolist() for p in (split.train, split.val, split.test)] == [[0, 1], [2, 3], [4, 5]]
            assert split.name == "given"
        drawn = "random 50/25/25, seed 0" + (", stratified" if source is not data else "")
        assert loaded.make_split(0, "50/25/25").name == drawn


@pytest.mark.parametrize("kind", ["given", "public"])
def test_without_masks_there_is_no_split_of_the_data(kind: str) -> None:
    loaded = load_node_data(_ring())
    assert loaded.masks is None
    with pytest.raises(GpmError, match=f"graph has no {kind} split; ask for shares such as '60/20/20'"):
        loaded.make_split(0, kind)


def test_a_training_mask_alone_is_the_training_split_and_the_other_labelled_nodes_are_halved(tmp_path: Path) -> None:
    y = torch.arange(40) % 3
    y[30:] = -1  # of no split
    train = torch.arange(40) % 10 == 0
    data = Data(edge_index=_RING, num_nodes=40, y=y, train_mask=train)
    torch.save(data, tmp_path / "file.pt")
    assert main(["import", str(tmp_path / "file.pt"), "-o", str(tmp_path / "folder")]) == 0
    for source in (data, tmp_path / "file.pt", tmp_path / "folder"):
        splits = [load_task_data(source).make_split(seed) for seed in (0, 0, 1)]
        for split in splits:
            assert split.train.tolist() == [0, 10, 20]
            assert (len(split.val), len(split.test)) == (13, 14)
            assert np.unique(np.concatenate([split.train, split.val, split.test])).tolist() == list(range(30))
        assert splits[0].digest == splits[1].digest != splits[2].digest
        assert "train_mask, the other instances halved into val and test, seed 0" in splits[0].name


def test_of_several_training_masks_the_seed_takes_one() -> None:
    masks = torch.stack([torch.arange(6) < 2, torch.arange(6) >= 4], 1)
    loaded = load_node_data(_ring(train_mask=masks))
    assert [loaded.make_split(seed).train.tolist() for seed in (0, 1, 2)] == [[0, 1], [4, 5], [0, 1]]
    assert loaded.make_split(1).name.startswith("given 2 of 2 train_mask")


@pytest.mark.parametrize("held", ["test_mask", "val_mask"])
def test_a_mask_of_what_is_held_out_needs_the_others(held: str) -> None:
    """Parts that are drawn would train on what the user meant to hold out."""
    with pytest.raises(GpmError, match=f"has a {held} but no .*_mask; give all three masks, train_mask al"):
        load_node_data(_ring(**{name: mask for name, mask in _masks().items() if name in ("train_mask", held)}))


def test_masks_may_have_a_column_per_split() -> None:
    several = {key: _masks()[key][:, None].expand(6, 3) for key in ("train_mask", "val_mask")}
    loaded = load_node_data(_ring(**_masks(**several)))
    assert loaded.masks is not None
    assert (loaded.masks.count, loaded.masks.test.shape) == (3, (6, 3))
    assert loaded.make_split(7).name == "given 2 of 3"


def test_unlabelled_nodes_are_in_no_part() -> None:
    loaded = load_node_data(_ring(y=torch.tensor([0, -1, 1, -1, 0, -1]), **_masks()))
    split = loaded.make_split(0)
    assert [p.tolist() for p in (split.train, split.val, split.test)] == [[0], [2], [4]]
    drawn = loaded.make_split(0, "34/33/33")
    assert sorted(np.concatenate([drawn.train, drawn.val, drawn.test]).tolist()) == [0, 2, 4]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.tensor([0, 1, 2, 0, 1, 2]), np.array([0, 1, 2, 0, 1, 2])),
        (torch.tensor([[0], [1], [2], [0], [1], [2]]), np.array([0, 1, 2, 0, 1, 2])),
        (torch.tensor([0, 1, 0, 1, 1, 1], dtype=torch.int8), np.array([0, 1, 0, 1, 1, 1])),
        (torch.tensor([False, True] * 3), np.array([0, 1, 0, 1, 0, 1])),
        (torch.tensor([0.0, 1.0, float("nan"), 2.0, 0.0, 1.0]), np.array([0, 1, -1, 2, 0, 1])),
        (torch.eye(6, 2, dtype=torch.int64), np.eye(6, 2, dtype=np.float32)),
        (torch.eye(6, 2, dtype=torch.float64), np.eye(6, 2, dtype=np.float32)),
        (torch.eye(6, 2) * 2 - 1, np.where(np.eye(6, 2) == 1, 1, np.nan).astype(np.float32)),  # -1 is unknown
    ],
)
def test_labels_have_one_form(given: torch.Tensor, kept: np.ndarray) -> None:
    loaded = load_node_data(_ring(y=given))
    np.testing.assert_array_equal(loaded.labels, kept)
    assert loaded.labels.dtype == kept.dtype
    assert loaded.metric == ("accuracy" if kept.ndim == 1 else "roc_auc")
    assert loaded.num_classes == (kept.shape[1] if kept.ndim == 2 else kept.max() + 1)


_NUMBERS = np.array([0.5, -3.0, np.nan, 2.0, 1e6, 0.0])


@pytest.mark.parametrize(
    ("given", "metric", "kept"),
    [
        (_NUMBERS, "", _NUMBERS),
        (_NUMBERS[:, None], "", _NUMBERS),
        (np.stack([_NUMBERS, np.arange(6)], 1), "", np.stack([_NUMBERS, np.arange(6)], 1)),
        (np.arange(6), "mae", np.arange(6)),
        (np.array([-1, -2, 0, 1, 2, 3]), "rmse", np.array([-1, -2, 0, 1, 2, 3])),  # of values, negative ones are known
        (np.arange(6.0), "rmse", np.arange(6)),
    ],
)
def test_fractions_and_a_metric_of_values_make_values(given: np.ndarray, metric: str, kept: np.ndarray) -> None:
    loaded = load_node_data(_ring(y=torch.from_numpy(given)), metric)
    assert (loaded.labels.dtype, loaded.metric) == (np.float32, metric or "mae")
    np.testing.assert_array_equal(loaded.labels, kept.astype(np.float32))
    assert loaded.num_classes == (1 if kept.ndim == 1 else kept.shape[1])


def test_values_that_are_not_known_are_in_no_part() -> None:
    loaded = load_node_data(_ring(y=torch.from_numpy(_NUMBERS), **_masks()))
    assert loaded.make_split(0).val.tolist() == [3]
    drawn = loaded.make_split(0, "60/20/20")
    assert sorted(np.concatenate([drawn.train, drawn.val, drawn.test]).tolist()) == [0, 1, 3, 4, 5]


def test_classes_are_stratified_if_asked_for_and_values_never() -> None:
    y = np.repeat([0, 1], [80, 20])
    graph = Graph.from_edges([[0], [1]], 100, y=y)
    data = replace(build_node_data(graph, "dots"), stratify=True)
    for seed in range(3):
        split = data.make_split(seed)
        assert [int(y[part].sum()) for part in (split.train, split.val, split.test)] == [12, 4, 4]
        assert split.name.endswith(", stratified")
        values = replace(build_node_data(graph, "dots", "mae"), stratify=True).make_split(seed)
        plain = build_node_data(graph, "dots").make_split(seed)
        assert values.digest == plain.digest != split.digest


def test_sparse_features_stay_sparse() -> None:
    x = torch.eye(6).to_sparse_csr()
    loaded = load_node_data(_ring(x=x))
    assert sp.issparse(loaded.graph.x)
    np.testing.assert_array_equal(loaded.graph.x.toarray(), np.eye(6))


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"y": None}, "graph has no node labels; give a graph whose y has a class for each of its nodes"),
        ({"y": torch.tensor([1])}, "graph has no node labels"),
        ({"y": torch.full((6,), -1)}, "All nodes of graph are without a label; give at least some of them a y"),
        ({"y": torch.full((6,), float("nan"))}, "All nodes of graph are without a label"),
        ({"y": torch.tensor([float("inf")] * 6)}, "are not whole numbers; .* or choose --metric mae to predict values"),
        ({"y": torch.tensor([0.5, 1, 2, float("inf"), 3, 4])}, "node 3 of graph has an infinite or far too large"),
        ({"y": torch.tensor([[0, 1], [2, 0]] * 3)}, "The node labels of graph have 2 columns that are not 0 or 1"),
        ({"y": torch.zeros(6, 2, 2)}, "graph has no node labels"),
        ({"y": np.array(list("abcdef"))}, "The node labels of graph are <U1; number the classes"),
        ({key: mask[:4] for key, mask in _masks().items()}, "The masks of graph have 4 rows for 6 nodes"),
    ],
)
def test_unusable_data_gets_a_sentence(facts: dict, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        load_node_data(_ring(**facts))


def test_fractions_are_no_classes() -> None:
    with pytest.raises(GpmError, match="The node labels of graph are not whole numbers; number the classes 0, 1, 2"):
        load_node_data(_ring(y=torch.tensor([0.5] * 6)), "accuracy")


def test_what_has_no_node_labels_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "friends.csv").write_text("ann,bob\nbob,eve\n")
    with pytest.raises(GpmError, match="friends has no node labels"):
        load_node_data(tmp_path / "friends.csv")
    with pytest.raises(GpmError, match=r"'moitfs' is neither a file nor a dataset\. Did you mean 'motifs'\?"):
        load_node_data("moitfs")
    with pytest.raises(GpmError, match=r"Give a dataset's name, a file, a PyG Data or a Graph, not a list"):
        load_node_data([1, 2])  # type: ignore[arg-type]


@pytest.mark.needs("TUDataset/MUTAG")
@pytest.mark.usefixtures("raw_files")
def test_labels_of_graphs_are_no_node_labels() -> None:
    with pytest.raises(GpmError, match="MUTAG has no node labels"):
        load_node_data("mutag")


def test_names_bring_their_usual_split() -> None:
    karate, motifs = load_node_data("karate"), load_node_data("motifs")
    assert (karate.title, karate.split, karate.metric, karate.num_classes) == ("Karate Club", "60/20/20", "accuracy", 4)
    assert karate.masks is None  # the training mask of PyG's copy is not its usual split
    assert (motifs.title, motifs.graph.num_nodes, motifs.num_classes) == ("Planted motifs", 2120, 6)


def test_a_saved_graph_goes_before_a_dataset_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Graph.from_pyg(_ring()).save("karate")
    assert load_node_data("karate").graph.num_nodes == 6
    Path("cora").mkdir()
    Path("motifs").mkdir()  # a folder that is no graph
    assert load_node_data("motifs").graph.num_nodes == 2120


@pytest.mark.needs("Splits")
def test_a_split_that_was_published_apart_is_taken_on_request(raw_files: Path) -> None:
    data = load_node_data("photo")
    public = data.make_split(0, "public")
    assert public.digest == data.make_split(1, "public").digest
    assert sum(map(len, (public.train, public.val, public.test))) == data.graph.num_nodes
    assert data.make_split(0).name.startswith("random 60/20/20")
