from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from gpm import GpmError, Graph
from gpm.data.tasks import load_node_data

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


def test_masks_of_a_file_and_of_data_are_a_public_split(tmp_path: Path) -> None:
    data = _ring(**_masks())
    torch.save(data, tmp_path / "file.pt")
    for source in (data, tmp_path / "file.pt"):
        loaded = load_node_data(source)
        assert loaded.split == "public"
        split = loaded.make_split(seed=3)
        assert [p.tolist() for p in (split.train, split.val, split.test)] == [[0, 1], [2, 3], [4, 5]]
        assert loaded.make_split(0, "50/25/25").name == "random 50/25/25, seed 0"


def test_without_all_three_masks_there_is_no_public_split() -> None:
    loaded = load_node_data(_ring(train_mask=_masks()["train_mask"]))
    assert loaded.masks is None
    with pytest.raises(GpmError, match="graph has no public split; ask for shares such as '60/20/20'"):
        loaded.make_split(0, "public")


def test_masks_may_have_a_column_per_split() -> None:
    several = {key: _masks()[key][:, None].expand(6, 3) for key in ("train_mask", "val_mask")}
    loaded = load_node_data(_ring(**_masks(**several)))
    assert loaded.masks is not None
    assert (loaded.masks.count, loaded.masks.test.shape) == (3, (6, 3))
    assert loaded.make_split(7).name == "public 2 of 3"


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
        (torch.eye(6, 2, dtype=torch.float64), np.eye(6, 2)),
    ],
)
def test_labels_have_one_form(given: torch.Tensor, kept: np.ndarray) -> None:
    loaded = load_node_data(_ring(y=given))
    np.testing.assert_array_equal(loaded.labels, kept)
    assert loaded.labels.dtype == kept.dtype
    assert loaded.metric == ("accuracy" if kept.ndim == 1 else "roc_auc")
    assert loaded.num_classes == (kept.shape[1] if kept.ndim == 2 else kept.max() + 1)


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
        ({"y": torch.full((6,), -1)}, "graph has no node labels"),
        ({"y": torch.tensor([0.5] * 6)}, "the node labels of graph are not whole numbers"),
        ({"y": torch.tensor([float("inf")] * 6)}, "are not whole numbers"),
        ({"y": np.array(list("abcdef"))}, "the node labels of graph are <U1; number the classes"),
        ({key: mask[:4] for key, mask in _masks().items()}, "the masks of graph have 4 rows for 6 nodes"),
    ],
)
def test_unusable_data_gets_a_sentence(facts: dict, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        load_node_data(_ring(**facts))


def test_what_has_no_node_labels_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "friends.csv").write_text("ann,bob\nbob,eve\n")
    with pytest.raises(GpmError, match="friends has no node labels"):
        load_node_data(tmp_path / "friends.csv")
    with pytest.raises(GpmError, match=r"'moitfs' is neither a file nor a dataset\. Did you mean 'motifs'\?"):
        load_node_data("moitfs")
    with pytest.raises(GpmError, match=r"give a dataset's name, a file, a PyG Data or a Graph, not a list"):
        load_node_data([1, 2])  # type: ignore[arg-type]


@pytest.mark.needs("TUDataset/MUTAG")
@pytest.mark.usefixtures("raw_files")
def test_labels_of_graphs_are_no_node_labels() -> None:
    with pytest.raises(GpmError, match="MUTAG has no node labels"):
        load_node_data("mutag")


def test_names_bring_their_usual_split() -> None:
    karate, motifs = load_node_data("karate"), load_node_data("motifs")
    assert (karate.title, karate.split, karate.metric, karate.num_classes) == ("Karate Club", "60/20/20", "accuracy", 4)
    assert karate.masks is None  # it comes with a training mask only
    assert (motifs.title, motifs.graph.num_nodes, motifs.num_classes) == ("Planted motifs", 2120, 6)


def test_a_saved_graph_goes_before_a_dataset_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Graph.from_pyg(_ring()).save("karate")
    assert load_node_data("karate").graph.num_nodes == 6
    Path("cora").mkdir()
    Path("motifs").mkdir()  # a folder that is no graph
    assert load_node_data("motifs").graph.num_nodes == 2120
