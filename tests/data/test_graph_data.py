import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch_geometric.data import Data

from gpm import GpmError, Graph
from gpm.data.graph_data import GraphData, build_graph_data, load_graph_data
from gpm.data.splits import Masks, Split

_NAN = np.nan


def _rings(sizes: list[int], labels: object) -> Graph:
    """A ring per size: of one node it has no edge, of two nodes one edge, of none it is empty."""
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    edges = [[first + i, first + (i + 1) % n] for first, n in zip(ptr, sizes, strict=False) if n > 1 for i in range(n)]
    pairs = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return Graph.from_edges(pairs, int(ptr[-1]), y=labels, graph_ptr=ptr, undirected=True)


def _data(labels: NDArray, **parts: object) -> GraphData:
    return build_graph_data(_rings([3] * len(labels), labels), "rings", **parts)  # type: ignore[arg-type]


def _ids(split: Split) -> list[int]:
    return sorted(np.concatenate([split.train, split.val, split.test]).tolist())


@pytest.mark.parametrize(
    ("labels", "metric", "form"),
    [
        (np.array([0, 1, 2]), "accuracy", np.array([0, 1, 2])),
        (np.array([[0], [-1], [5]], dtype=np.int8), "accuracy", np.array([0, -1, 5])),
        (np.array([True, False, True]), "accuracy", np.array([1, 0, 1])),
        (np.array([[0.0], [1.0], [_NAN]]), "accuracy", np.array([0, 1, -1])),
        (np.array([[0, 1], [1, -1], [0, 0]]), "roc_auc", np.array([[0, 1], [1, _NAN], [0, 0]], dtype=np.float32)),
        (np.array([[0, _NAN], [1, 1], [_NAN] * 2]), "roc_auc", np.array([[0, _NAN], [1, 1], [_NAN] * 2], np.float32)),
        (np.array([0.0, 1.0, 2.0]), "mae", np.array([0, 1, 2], dtype=np.float32)),
        (np.array([[0.5], [-3.0], [_NAN]]), "mae", np.array([0.5, -3, _NAN], dtype=np.float32)),
        (np.array([[0.5, 1], [_NAN, 0], [0, 0]]), "mae", np.array([[0.5, 1], [_NAN, 0], [0, 0]], dtype=np.float32)),
    ],
)
def test_labels_say_what_they_are(labels: NDArray, metric: str, form: NDArray) -> None:
    data = _data(labels)
    assert (data.metric, data.labels.dtype) == (metric, form.dtype)
    np.testing.assert_array_equal(data.labels, form)


def test_a_metric_decides_between_classes_and_values() -> None:
    counts = np.array([0, -2, 7])
    assert _data(counts, metric="rmse").labels.tolist() == [0.0, -2.0, 7.0]
    assert _data(counts, metric="f1").labels.tolist() == [0, -2, 7]
    assert _data(np.array([1.0, 2.0, _NAN]), metric="accuracy").labels.tolist() == [1, 2, -1]
    assert _data(np.array([-4, -2, -7]), metric="mae").labels.max() == -2  # of values, negative ones are known
    assert load_graph_data(_rings([1, 1, 1], counts), metric="mae").metric == "mae"
    assert _data(np.array([0.0, 1.0]), metric="mae").labels.dtype == np.float32


def test_the_number_of_outputs_follows_the_labels() -> None:
    assert _data(np.array([0, 3, -1])).num_classes == 4
    assert _data(np.array([0.5, 3.0, _NAN])).num_classes == 1
    assert _data(np.eye(3)).num_classes == _data(np.eye(3) / 2).num_classes == 3


@pytest.mark.parametrize(
    ("labels", "metric", "sentence"),
    [
        (None, "", "rings has no labels of graphs; give each graph a y"),
        (np.zeros(9), "", "rings has no labels of graphs"),  # they are of nodes
        (np.full(3, -1), "", "All graphs of rings are without a label"),
        (np.full((3, 2), _NAN), "mae", "All graphs of rings are without a label"),
        (np.array([0.5, np.inf, 1]), "", "graph 1 of rings has an infinite or far too large target"),
        (np.array([[0.5, 1], [1, 2], [1e300, 1]]), "", "graph 2 of rings has an infinite or far too large target"),
        (np.array([0.5, 1.0, 2.0]), "accuracy", "are not whole numbers; .* or choose --metric mae"),
        (np.array([0.0, np.inf, 1.0]), "accuracy", "are not whole numbers"),
        (np.array([[0, 1], [2, 0], [1, 1]]), "", "2 columns that are not 0 or 1; give yes-or-no labels"),
        (np.array(["a", "b", "c"]), "", "The graph labels of rings are <U1; number the classes"),
        (np.zeros((3, 2, 2)), "", "rings has no labels of graphs"),
    ],
)
def test_labels_that_cannot_be_learned_get_a_sentence(labels: object, metric: str, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        build_graph_data(_rings([3, 3, 3], labels), "rings", metric=metric)


def test_a_single_graph_is_no_collection() -> None:
    single = Graph.from_edges([[0, 1], [1, 2]], y=np.zeros(3, dtype=int))
    with pytest.raises(GpmError, match="graphs is a single graph, not a collection of graphs; give a list"):
        load_graph_data(single)
    with pytest.raises(GpmError, match=r"Cora is a single graph, .* the named collections are imdb-b, imdb-m, collab"):
        load_graph_data("cora")
    with pytest.raises(GpmError, match="ogbl-ddi is a single graph"):
        load_graph_data("ogbl-ddi")


def test_graphs_of_one_node_and_graphs_in_pieces_take_part() -> None:
    pieces = Graph.from_edges([[0], [1]], 14, y=np.arange(3) % 2, graph_ptr=[0, 4, 5, 14], undirected=True)
    data = build_graph_data(pieces, "pieces")
    assert _ids(data.make_split(0, "34/33/33")) == [0, 1, 2]


def test_empty_graphs_are_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    sizes = [0, 3, 1, 0, 2, 4] + [3] * 20 + [0] * 5
    labels = np.arange(len(sizes)) % 2
    filled = np.flatnonzero(sizes).tolist()
    masks = Masks(*(np.arange(len(sizes)) % 3 == i for i in range(3)))
    with caplog.at_level(logging.WARNING, "gpm"):
        data = build_graph_data(_rings(sizes, labels), "rings", masks=masks, groups=np.arange(len(sizes)))
    assert caplog.messages == ["rings: no nodes in 7 of 31 graphs, which are left out: 0, 3, 26, 27, 28 and 2 more."]
    for kind in ("given", "80/10/10", "3-fold", "scaffold"):
        assert _ids(data.make_split(0, kind)) == filled
    assert len(data.labels) == 31  # numbers of graphs stay what they are
    with pytest.raises(GpmError, match="All labelled graphs of rings are empty"):
        build_graph_data(_rings([0, 0, 3], np.array([0, 1, -1])), "rings")


@pytest.mark.parametrize("kind", ["80/10/10", "5-fold", "public", "scaffold", "scaffold 60/20/20"])
@pytest.mark.parametrize("several", [False, True])
def test_a_graph_without_a_known_target_is_in_no_part(kind: str, several: bool) -> None:
    targets = np.random.default_rng(0).normal(size=(60, 2))
    targets[::7] = _NAN
    targets[3, 0] = _NAN  # its other target is known
    part = np.arange(60) % 3
    masks = Masks(part == 0, part == 1, part == 2)
    data = _data(targets if several else targets[:, 0], masks=masks, groups=np.arange(60) // 2)
    known = ~np.isnan(targets).all(axis=1) if several else ~np.isnan(targets[:, 0])
    assert _ids(data.make_split(1, kind)) == np.flatnonzero(known).tolist()


def test_splits_of_classes_are_stratified() -> None:
    labels = np.repeat([0, 1], [90, 10])
    data = _data(labels)
    for kind in ("", "10-fold"):
        split = data.make_split(4, kind)
        assert [(labels[ids] == 1).sum() for ids in (split.train, split.val, split.test)] == [8, 1, 1]
    assert data.make_split(4).name == "random 80/10/10, seed 4, stratified"
    assert _data(labels / 2).make_split(4).name == "random 80/10/10, seed 4"
    assert data.make_split(4, "10-fold").name == "fold 5 of 10"


def test_as_many_seeds_as_folds_test_each_graph_once() -> None:
    data = _data(np.arange(25) % 3)
    tested = [data.make_split(seed, "5-fold").test for seed in range(5)]
    assert sorted(np.concatenate(tested).tolist()) == list(range(25))


def test_the_usual_split_follows_what_comes_with_the_data() -> None:
    labels = np.arange(10) % 2
    masks = Masks(np.arange(10) < 6, np.arange(10) == 6, np.arange(10) > 6)
    assert _data(labels).split == "80/10/10"
    assert _data(labels, groups=labels).split == "scaffold"
    given = _data(labels, masks=masks, groups=labels)
    assert (given.split, given.make_split(3).name, given.make_split(3).test.tolist()) == (
        "given",
        "given",
        [7, 8, 9],
    )
    assert _data(labels, masks=masks, split="5-fold").split == "5-fold"


def test_a_scaffold_is_in_one_part_and_the_split_says_its_shares() -> None:
    groups = np.repeat(np.arange(20), 5)
    data = _data(np.arange(100) / 7, groups=groups)
    for kind, name in (("", "scaffold 80/10/10"), ("scaffold 60/20/20", "scaffold 60/20/20")):
        split = data.make_split(0, kind)
        assert (split.name, split.digest) == (name, data.make_split(9, kind).digest)
        assert not set(groups[split.train]) & set(groups[np.concatenate([split.val, split.test])])


def test_impossible_splits_get_a_sentence() -> None:
    data = _data(np.arange(10) % 2)
    for kind, sentence in (
        ("public", "rings has no public split; ask for shares such as '80/10/10'"),
        ("scaffold", "rings has no scaffolds; ask for shares"),
        ("2-fold", "2 folds are not possible"),
        ("20-fold", "10 labelled instances are too few for 20 folds"),
        (
            "ten-fold",
            "Split 'ten-fold' must be given, public, scaffold, folds such as 10-fold, or shares such as 80/10/10",
        ),
        ("99/1", "must be three shares"),
    ):
        with pytest.raises(GpmError, match=sentence):
            data.make_split(0, kind)


def test_a_class_that_training_never_shows_is_named(caplog: pytest.LogCaptureFixture) -> None:
    part = np.array([0, 0, 0, 1, 1, 2, 2])
    masks = Masks(part == 0, part == 1, part == 2)
    data = _data(np.array([0, 1, 0, 1, 2, 3, 0]), masks=masks)
    assert not caplog.messages
    with caplog.at_level(logging.WARNING, "gpm"):
        split = data.make_split(0)
    assert caplog.messages == [
        "rings: classes in val or test but not in train of split 'given', which are never predicted: 2, 3."
    ]
    assert _ids(split) == list(range(7))


def test_classes_below_zero_are_unknown_and_that_is_said_where_it_matters(caplog: pytest.LogCaptureFixture) -> None:
    _data(np.array([0, 1, -1]))
    assert not caplog.messages
    _data(np.array([1, -1, 1]))
    assert caplog.messages == ["rings: all labels are class 1; negative labels count as missing."]


def test_what_goes_along_has_a_row_per_graph() -> None:
    some = np.zeros(4, dtype=bool)
    wrong = (("masks", Masks(some, some, some)), ("groups", np.zeros(4)), ("names", list("abcd")))
    for name, rows in wrong:
        with pytest.raises(GpmError, match=f"The {name} of rings have 4 rows for 3 graphs"):
            _data(np.arange(3), **{name: rows})
    assert _data(np.arange(3), names=list("abc")).names == ["a", "b", "c"]


def test_a_users_graphs_come_in_many_forms(tmp_path: Path) -> None:
    ring = torch.tensor([[0, 1, 2], [1, 2, 0]])
    graphs = [Data(edge_index=ring, num_nodes=3, y=torch.tensor([i % 2])) for i in range(10)]
    torch.save(graphs, tmp_path / "many.pt")
    Graph.from_pyg(graphs).save(tmp_path / "saved")
    sources = {"graphs": graphs, "many": tmp_path / "many.pt", "saved": str(tmp_path / "saved")}
    for title, source in (*sources.items(), ("graphs", Graph.from_pyg(graphs)), ("graphs", tuple(graphs))):
        data = load_graph_data(source)  # type: ignore[arg-type]
        assert (data.title, data.metric, data.split, data.level) == (title, "accuracy", "80/10/10", "graph")
        assert data.labels.tolist() == [0, 1] * 5
        assert data.make_split(0).digest == load_graph_data(graphs).make_split(0).digest
    with pytest.raises(GpmError, match="is neither a file nor a dataset"):
        load_graph_data("nowhere")
    with pytest.raises(GpmError, match="Give a PyG Data, a list of them"):
        load_graph_data(3)  # type: ignore[arg-type]


@pytest.mark.needs("TUDataset/MUTAG")
@pytest.mark.usefixtures("raw_files")
def test_mutag_is_split_as_published_figures_are() -> None:
    data = load_graph_data("mutag")
    assert (data.graph.num_graphs, data.graph.x.shape[1], data.metric, data.num_classes) == (188, 7, "accuracy", 2)
    split = data.make_split(0)
    assert [len(ids) for ids in (split.train, split.val, split.test)] == [150, 19, 19]
    tested = np.concatenate([data.make_split(seed, "10-fold").test for seed in range(10)])
    assert sorted(tested.tolist()) == list(range(188))
