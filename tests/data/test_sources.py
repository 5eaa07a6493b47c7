"""What a source is taken for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, InMemoryDataset

from gpm import GpmError, Graph
from gpm.data.graph_data import GraphData
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData
from gpm.data.sources import load_task_data
from gpm.data.splits import Split

RING = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
LEVELS = {NodeData: "node", LinkData: "link", GraphData: "graph"}


def _ring(labels: list[int] | None) -> Data:
    return Data(edge_index=RING, num_nodes=6, y=None if labels is None else torch.tensor(labels))


def _nodes() -> Data:
    return _ring([0, 1] * 3)


def _many() -> list[Data]:
    """Ten graphs with a label each."""
    return [_ring([i % 2]) for i in range(10)]


class Rings(InMemoryDataset):
    """A PyG dataset in memory."""

    def __init__(self, graphs: list[Data]) -> None:
        super().__init__()
        self.data, self.slices = self.collate(graphs)


SOURCES: dict[str, tuple[Any, str]] = {
    "a PyG Data": (_nodes(), "node"),
    "a graph": (Graph.from_pyg(_nodes()), "node"),
    "a list": (_many(), "graph"),
    "a tuple": (tuple(_many()), "graph"),
    "a batch": (Batch.from_data_list(_many()), "graph"),
    "a collection": (Graph.from_pyg(_many()), "graph"),
    "a collection with labels of nodes": (Graph.from_pyg([_nodes()] * 3), "node"),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_is_taken_for_what_it_is(name: str, tmp_path: Path) -> None:
    source, level = SOURCES[name]
    data = load_task_data(source)
    assert LEVELS[type(data)] == data.level == level
    assert type(load_task_data(source, level)) is type(data)
    graph = source if isinstance(source, Graph) else Graph.from_pyg(source)
    np.testing.assert_array_equal(data.graph.indices, graph.indices)
    graph.save(tmp_path / "saved")
    saved = load_task_data(str(tmp_path / "saved"))
    assert type(saved) is type(data)
    np.testing.assert_array_equal(saved.graph.indices, graph.indices)
    assert saved.title == "saved"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_dataset_of_pyg_is_a_collection() -> None:
    data = load_task_data(Rings(_many()))
    assert isinstance(data, GraphData)
    assert data.labels.tolist() == [0, 1] * 5


@pytest.mark.parametrize(("given", "kind"), [(_nodes(), NodeData), (_many(), GraphData)])
def test_a_pyg_file_is_what_it_holds(given: Any, kind: type, tmp_path: Path) -> None:
    torch.save(given, tmp_path / "mine.pt")
    data = load_task_data(tmp_path / "mine.pt")
    assert type(data) is kind
    assert data.title == "mine"


def test_masks_of_a_pyg_file_come_along(tmp_path: Path) -> None:
    parts = torch.arange(6) // 2
    masks = {f"{part}_mask": parts == i for i, part in enumerate(("train", "val", "test"))}
    torch.save(Data(edge_index=RING, num_nodes=6, y=parts, **masks), tmp_path / "mine.pt")
    data = load_task_data(tmp_path / "mine.pt")
    assert isinstance(data, NodeData)
    assert data.make_split(0).test.tolist() == [4, 5]


def test_a_name_is_what_it_is_known_for() -> None:
    karate = load_task_data("karate")
    assert (type(karate), karate.title) == (NodeData, "Karate Club")
    links = load_task_data("karate", "link")
    assert (type(links), links.title, links.metric) == (LinkData, "Karate Club", "hits@20")
    with pytest.raises(GpmError, match="Karate Club is a single graph, not a collection of graphs"):
        load_task_data("karate", "graph")


@pytest.mark.needs("TUDataset/MUTAG")
@pytest.mark.usefixtures("raw_files")
def test_a_named_collection_is_one() -> None:
    assert isinstance(load_task_data("mutag"), GraphData)


def test_a_saved_graph_goes_before_a_dataset_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Graph.from_pyg(_many()).save("karate")
    assert isinstance(load_task_data("karate"), GraphData)
    Path("motifs").mkdir()  # a folder that is no graph
    assert load_task_data("motifs").title == "Planted motifs"


def test_links_need_no_labels(tmp_path: Path) -> None:
    (tmp_path / "friends.csv").write_text("ann,bob\nbob,eve\n")
    for source in (_ring(None), Graph.from_pyg(_ring(None)), tmp_path / "friends.csv"):
        assert isinstance(load_task_data(source, "link"), LinkData)
    assert load_task_data(tmp_path / "friends.csv", "link").title == "friends"


def test_molecules_are_a_table_with_columns(tmp_path: Path) -> None:
    pytest.importorskip("rdkit")
    table = tmp_path / "drugs.csv"
    table.write_text("smiles,name,logp\nCCO,a,0.1\nC,b,1.5\nCCC,c,2.5\n")
    for columns in ({"target": "logp"}, {"smiles": "smiles", "target": "logp"}):
        for task in ("auto", "graph"):
            data = load_task_data(str(table), task, **columns)
            assert isinstance(data, GraphData)
            assert data.labels.tolist() == pytest.approx([0.1, 1.5, 2.5])
            assert data.targets == ("logp",)
    table.write_text("smiles,a,b c\nCCO,0.1,1\nC,1.5,2\nCCC,2.5,0.5\n")
    several = load_task_data(str(table), target="a, b c")
    assert isinstance(several, GraphData)
    assert several.targets == ("a", "b c")


def test_a_metric_says_whether_labels_of_nodes_are_numbers(tmp_path: Path) -> None:
    Graph.from_pyg(_nodes()).save(tmp_path / "saved")
    for source in (_nodes(), tmp_path / "saved"):
        for metric, kind in (("auto", "i"), ("roc_auc", "i"), ("mae", "f")):
            data = load_task_data(source, metric=metric)
            assert isinstance(data, NodeData)
            assert (data.labels.dtype.kind, data.labels.tolist()) == (kind, [0, 1] * 3)


def test_a_metric_says_whether_labels_of_graphs_are_numbers(tmp_path: Path) -> None:
    torch.save(_many(), tmp_path / "mine.pt")
    for source in (_many(), tmp_path / "mine.pt"):
        for metric, kind in (("auto", "i"), ("accuracy", "i"), ("rmse", "f")):
            data = load_task_data(source, metric=metric)
            assert isinstance(data, GraphData)
            assert data.labels.dtype.kind == kind
            assert data.labels.tolist() == [0, 1] * 5


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        ("kartae", {}, r"'kartae' is neither a file nor a dataset\. Did you mean 'karate'"),
        (_ring(None), {}, "graph has no node labels"),
        (_many()[0], {}, "graph has no node labels"),  # one graph of a collection
        ([_ring(None)] * 2, {}, "graphs has no labels of graphs"),
        ([], {}, "The list of graphs is empty"),
        (_many(), {"task": "node"}, "Give a dataset's name, a file, a PyG Data or a Graph, not a list"),
        (_nodes(), {"task": "graph"}, "is a single graph, not a collection of graphs"),
        (Graph.from_pyg(_many()), {"task": "link"}, "is a collection of 10 graphs; links are predicted in a single"),
        (3, {}, "Give a dataset's name, a file, a PyG Data or a Graph, not a int"),
        (None, {}, "Give a dataset's name, a file, a PyG Data or a Graph, not a NoneType"),
        (np.eye(3), {}, "Give a dataset's name, a file, a PyG Data or a Graph, not a "),
        (
            _nodes(),
            {"target": "logp"},
            "The target 'logp' is not a dataset .* columns to predict are named for tables only",
        ),
        (
            _nodes(),
            {"smiles": "s", "target": "y"},
            "smiles and target are columns of a table of molecules; give the table",
        ),
        ("a.csv", {"target": "logp"}, "'a.csv' is neither a file nor a dataset"),
        (_nodes(), {"task": "nodes"}, "task must be one of auto, node, link, graph, got 'nodes'"),
    ],
)
def test_a_mistake_gets_a_sentence(source: Any, options: dict[str, str], sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        load_task_data(source, **options)


def test_a_table_of_edges_is_there_for_its_links(tmp_path: Path) -> None:
    for name in ("friends.csv", "friends.TSV", "enemies.txt"):
        (tmp_path / name).write_text("ann\tbob\nbob\teve\n")
        found = load_task_data(tmp_path / name)
        assert isinstance(found, LinkData)
        assert (found.title, found.graph.num_edges) == (name.partition(".")[0], 4)
    with pytest.raises(GpmError, match="enemies has no node labels"):
        load_task_data(tmp_path / "enemies.txt", "node")
    (tmp_path / "molecules.csv").write_text("smiles,logp\nCC,1\nCCC,2\n")
    with pytest.raises(GpmError, match=r"If molecules\.csv contains molecules, add --smiles smiles and --target NAME"):
        load_task_data(tmp_path / "molecules.csv")
    (tmp_path / "notes.md").write_text("0 1")
    with pytest.raises(GpmError, match="is not a kind of file that is read here"):
        load_task_data(tmp_path / "notes.md")


def test_held_out_links_alone_are_missing_from_the_walked_graph() -> None:
    ends = np.random.default_rng(0).integers(0, 30, (2, 60))
    graph = Graph.from_edges(ends, 30, undirected=True, y=np.arange(30) % 2)
    links = load_task_data(graph, "link")
    assert isinstance(links, LinkData)
    split = links.make_split(0)
    walked = {tuple(edge) for edge in links.walked_graph(split).edge_index().T.tolist()}
    held = {pair for a, b in split.edges_of("val", "test").tolist() for pair in ((a, b), (b, a))}
    assert {tuple(edge) for edge in graph.edge_index().T.tolist()} - walked == held
    assert links.walked_graph(links.make_split(0, protocol="paper")) is graph
    nodes = load_task_data(graph)
    assert nodes.walked_graph(Split(*np.arange(30).reshape(3, 10), "by hand")).indices is graph.indices  # type: ignore[arg-type]
