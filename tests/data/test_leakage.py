from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from gpm import GpmError, Graph
from gpm.cli.datasets import check_source, data
from gpm.config import Config
from gpm.data import leakage as checking
from gpm.data.leakage import check_links, check_parts
from gpm.data.link_data import LinkData, LinkSplit, load_link_data
from gpm.data.node_data import load_node_data
from gpm.data.non_edges import drop_edges
from gpm.data.splits import PARTS, Split
from gpm.io.atomic import write_json
from gpm.io.run_files import write_config

_NAMES = [f"n{i}" for i in range(40)]


def _graph() -> Graph:
    random = np.random.default_rng(0)
    return Graph.from_edges(random.integers(0, 40, (2, 90)), 40, undirected=True, names=_NAMES)


def _data() -> tuple[LinkData, LinkSplit]:
    data = LinkData(_graph(), "graph")
    return data, data.make_split(0)


def _rebuild(split: LinkSplit, **changes: np.ndarray) -> LinkSplit:
    """The split with other edges or negatives in some parts."""
    edges = [changes.get(f"{part}_edges", split.edges_of(part)) for part in PARTS]
    negatives = [changes.get(f"{part}_negatives", split.negatives_of(part)) for part in PARTS[1:]]
    return LinkSplit.assemble(edges, negatives, split.name, "strict", split.num_nodes)


def _say(pair: np.ndarray) -> str:
    return f"The pair '{_NAMES[pair[0]]}' and '{_NAMES[pair[1]]}'"


def test_a_clean_split_is_told_with_counts() -> None:
    data, split = _data()
    assert check_links(data, split) == check_links(data, _rebuild(split))
    said = {line[:16].strip(): line[16:] for line in check_links(data, split)}
    assert said["links"] == f"graph, strict 80/5/15, seed 0, digest {split.digest}"
    counts = ", ".join(f"{len(split.edges_of(part))} {part}" for part in PARTS)
    assert said["edges"] == f"{counts}; no edge is in two splits, in either direction"
    walked = data.walked_graph(split).num_edges
    assert said["walked graph"].startswith(f"{walked} of {data.graph.num_edges} directed edges;")
    held = len(split.edges_of("val", "test"))
    assert said["walked graph"].endswith(f"none of {held} held-out edges, in either direction")
    assert f"{len(np.unique(split.edges_of('val', 'test'))) * 64 * 8:,} steps of 64 walks" in said["walks"]


def test_an_edge_in_two_parts_is_named() -> None:
    data, split = _data()
    train, test = split.edges_of("train"), split.edges_of("test")
    leaky = _rebuild(split, test_edges=np.concatenate([test, train[3:4]]))
    with pytest.raises(GpmError, match=rf"{_say(train[3])} is an edge in train and in test \(split 'strict 80"):
        check_links(data, leaky)
    with pytest.raises(GpmError, match=rf"{_say(test[0])} is an edge twice in test \("):
        check_links(data, _rebuild(split, test_edges=np.concatenate([test, test[:1]])))


def test_the_reverse_of_an_edge_in_another_part_is_named() -> None:
    data, split = _data()
    test = split.edges_of("test")
    leaky = _rebuild(split, train_edges=np.concatenate([split.edges_of("train"), test[1:2, ::-1]]))
    with pytest.raises(GpmError, match=rf"{_say(test[1][::-1])} is an edge in train and in test, the other way round"):
        check_links(data, leaky)


def test_an_edge_that_is_none_is_named() -> None:
    data, split = _data()
    foreign = split.negatives_of("val")[:1]
    leaky = _rebuild(split, val_edges=np.concatenate([split.edges_of("val"), foreign]))
    with pytest.raises(GpmError, match=rf"{_say(foreign[0])} counts as an edge of val but is none of the graph"):
        check_links(data, leaky)


def test_negatives_that_are_edges_loops_or_shared_are_named() -> None:
    data, split = _data()
    val, test = split.negatives_of("val"), split.negatives_of("test")
    for part in PARTS:
        edge = split.edges_of(part)[:1, ::-1]
        with pytest.raises(GpmError, match=rf"{_say(edge[0])} is a negative of val but is an edge"):
            check_links(data, _rebuild(split, val_negatives=np.concatenate([val, edge])))
    with pytest.raises(GpmError, match="The pair 'n7' and 'n7' is a negative of test but is a node with itself"):
        check_links(data, _rebuild(split, test_negatives=np.concatenate([test, [[7, 7]]])))
    with pytest.raises(GpmError, match=rf"{_say(val[0])} is a negative of val and of test"):
        check_links(data, _rebuild(split, test_negatives=np.concatenate([test, val[:1, ::-1]])))
    with pytest.raises(GpmError, match=rf"{_say(val[0])} is a negative twice of val"):
        check_links(data, _rebuild(split, val_negatives=np.concatenate([val, val[:1]])))


@dataclass(frozen=True, eq=False)
class _Leaky(LinkData):
    """Data whose walked graph, or training negatives, are given."""

    shown: Graph | None = None
    negatives: np.ndarray | None = None

    def walked_graph(self, split: LinkSplit) -> Graph:
        return super().walked_graph(split) if self.shown is None else self.shown

    def draw_negatives(self, split: LinkSplit, count: int, seed: int, turn: int) -> np.ndarray:
        drawn = super().draw_negatives(split, count, seed, turn)
        return drawn if self.negatives is None else np.concatenate([drawn, self.negatives])


@pytest.mark.parametrize("turn", [slice(None), slice(None, None, -1)])
def test_a_held_out_edge_in_the_walked_graph_is_named(turn: slice) -> None:
    data, split = _data()
    held = split.edges_of("val", "test")
    pair = held[2][turn]
    entries = data.walked_graph(split).edge_index()
    shown = Graph.from_edges(np.concatenate([entries, pair[:, None]], axis=1), 40)  # one direction is enough
    with pytest.raises(GpmError, match=rf"{_say(pair)} is held out but is in the walked graph"):
        check_links(_Leaky(data.graph, "graph", shown=shown), split)
    with pytest.raises(GpmError, match="is held out but is in the walked graph"):
        check_links(_Leaky(data.graph, "graph", shown=data.graph), split)


def test_a_training_edge_that_cannot_be_walked_is_named() -> None:
    data, split = _data()
    train = split.edges_of("train")
    shown = drop_edges(data.walked_graph(split), train[5:6])
    with pytest.raises(GpmError, match=rf"{_say(train[5])} is a training edge but is not in the walked graph"):
        check_links(_Leaky(data.graph, "graph", shown=shown), split)


def test_a_walk_over_a_held_out_edge_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    data, split = _data()
    monkeypatch.setattr(checking, "has_edge", lambda graph, a, b: np.zeros(len(a), dtype=bool))
    with pytest.raises(GpmError, match=r"A walk goes from 'n\d+' to 'n\d+', which is held out; do not walk this graph"):
        check_links(_Leaky(data.graph, "graph", shown=data.graph), split)


@pytest.mark.parametrize("kind", ["train", "test", "negative", "loop"])
def test_a_training_negative_that_is_taken_is_named(kind: str) -> None:
    data, split = _data()
    pairs = {"negative": split.negatives_of("test"), "loop": np.array([[4, 4]])}
    pair = pairs[kind][:1] if kind in pairs else split.edges_of(kind)[:1, ::-1]
    with pytest.raises(GpmError, match=rf"{_say(pair[0])} is drawn as a training negative but is an edge or a saved"):
        check_links(_Leaky(data.graph, "graph", negatives=pair), split)


def test_the_papers_protocol_is_told_as_a_leak_and_not_refused() -> None:
    data = LinkData(_graph(), "graph")
    split = data.make_split(0, protocol="paper")
    lines = check_links(data, split)
    assert "test edges are visible" in lines[0]
    leaks = [line[16:] for line in lines if line.startswith("LEAK")]
    assert leaks[0].startswith("100.0% of ")
    train, test = ([tuple(pair) for pair in split.edges_of(part).tolist()] for part in ("train", "test"))
    assert leaks[1].startswith(f"{np.mean([(b, a) in train for a, b in test]):.1%} of them have their reverse")
    assert leaks[2].startswith("100.0% have their far end on one of 64 walks")  # one of which takes the test edge


def test_what_is_published_is_counted_and_the_rest_is_law() -> None:
    data, drawn = _data()
    train, val, test = (drawn.edges_of(part) for part in PARTS)
    again = np.concatenate([test, train[:2, ::-1]])
    no = np.concatenate([drawn.negatives_of("test"), [[3, 3]], train[:1]])
    split = LinkSplit.assemble([train, val, again], [drawn.negatives_of("val"), no], "public", "strict", 40)
    shown = data.walked_graph(drawn)
    lines = check_links(LinkData(shown, "graph", "public", published=split), split)
    said = next(line for line in lines if line.startswith("test "))
    assert f"{len(again)} edges, of which 2 are training pairs too (published so)" in said
    assert "of which 1 pair a node with itself and 1 are edges of train or test (published so)" in said
    with pytest.raises(GpmError, match="is held out but is in the walked graph"):
        check_links(LinkData(data.graph, "graph", "public", published=split), split)


def test_parts_of_nodes_are_checked() -> None:
    split = Split(np.array([1, 4]), np.array([2]), np.array([3]), "mine")
    lines = check_parts(split, 5)
    assert lines[0].endswith(f"mine, digest {split.digest}")
    assert lines[1].endswith("2 train, 1 val, 1 test of 5; none is in two splits")
    with pytest.raises(GpmError, match="The split 'mine' names instance 4, but there are 4"):
        check_parts(split, 4)
    object.__setattr__(split, "test", np.array([2]))
    with pytest.raises(GpmError, match="Instance 2 is in val and in test of the split 'mine'"):
        check_parts(split, 5)


def test_a_dataset_is_checked_for_its_task_and_for_links(capsys: pytest.CaptureFixture[str]) -> None:
    data("check", "motifs")
    keys = [line[:16].strip() for line in capsys.readouterr().out.splitlines()]
    assert keys == ["split", "sizes", "links", "edges", "negatives", "walked graph", "walks", "training"]


def test_large_graphs_known_for_their_nodes_are_not_searched_for_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "MOST_EDGES", 100)
    assert check_source("motifs")[-1].startswith("links           not checked: 6,314 directed edges")


def test_a_file_without_labels_is_checked_for_links_alone(tmp_path: Path) -> None:
    path = tmp_path / "ring.csv"
    path.write_text("".join(f"{i},{(i + 1) % 40}\n" for i in range(40)))
    assert check_source(str(path))[0].startswith("links           ring, strict 80/5/15, seed 0")
    graph = _graph()
    graph.save(tmp_path / "saved")
    assert check_source(str(tmp_path / "saved"))[0].startswith("links           saved")
    replace(graph, y=np.arange(40) % 2).save(tmp_path / "labelled")
    lines = check_source(str(tmp_path / "labelled"))
    assert lines[0].startswith("split           random 60/20/20, seed 0, digest")
    assert lines[2].startswith("links           labelled")


def test_a_collection_has_no_links_to_check(tmp_path: Path) -> None:
    whole = Graph.from_edges(np.zeros((2, 0), dtype=int), 40, graph_ptr=np.arange(0, 41, 2), y=np.arange(20) % 2)
    whole.save(tmp_path / "saved")
    lines = check_source(str(tmp_path / "saved"))
    assert len(lines) == 2
    assert lines[1].endswith("16 train, 2 val, 2 test of 20; none is in two splits")


FACTS = {
    task: {"format": 1, "task": task, "kind": kind, "metric": metric, "inputs": {}, "parameters": 0} | more
    for task, kind, metric, more in (
        ("node", "classes", "accuracy", {"classes": [0, 1], "multilabel": False}),
        ("link", "links", "hits@20", {"protocol": "strict"}),
    )
}


def _run_folder(folder: Path, split: Split, digest: str = "") -> str:
    task = "link" if isinstance(split, LinkSplit) else "node"
    write_config(folder / "config.yaml", Config(data="motifs", task=task))
    split.save(folder / "split.npz")
    write_json(folder / "model.json", FACTS[task])
    write_json(folder / "result.json", {"split_digest": digest or split.digest})
    return str(folder)


def test_the_split_of_a_run_is_checked(tmp_path: Path) -> None:
    data = load_link_data("motifs")
    split = data.make_split(4)
    assert check_source(_run_folder(tmp_path / "links", split)) == check_links(data, split)
    paper = data.make_split(4, protocol="paper")
    assert any(line.startswith("LEAK") for line in check_source(_run_folder(tmp_path / "paper", paper)))
    nodes = load_node_data("motifs").make_split(4)
    assert check_source(_run_folder(tmp_path / "nodes", nodes)) == check_parts(nodes, 2120)
    leaky = _rebuild(split, test_negatives=split.edges_of("train")[: len(split.negatives_of("test"))])
    with pytest.raises(GpmError, match="is a negative of test but is an edge"):
        check_source(_run_folder(tmp_path / "leaky", leaky))
    with pytest.raises(GpmError, match=r"are of the split 0123, but split\.npz is .*; train again"):
        check_source(_run_folder(tmp_path / "other", split, "0123"))


def test_a_run_on_a_graph_in_memory_is_told_so(tmp_path: Path) -> None:
    folder = Path(_run_folder(tmp_path / "memory", _data()[1]))
    write_config(folder / "config.yaml", Config())
    with pytest.raises(GpmError, match="was trained on a graph in memory; give it to"):
        check_source(str(folder))


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(GpmError, match="Did you mean 'motifs'"):
        check_source("moitfs")


@pytest.mark.needs("Planetoid/Cora/raw")
@pytest.mark.usefixtures("raw_files")
def test_cora_leaks_under_the_papers_protocol_and_not_under_ours() -> None:
    data = load_link_data("cora")
    lines = check_links(data, data.make_split(0))
    assert not any("LEAK" in line for line in lines)
    leaks = [line for line in check_links(data, data.make_split(0, protocol="paper")) if line.startswith("LEAK")]
    assert "79.0% of them have their reverse in training" in leaks[1]
    assert "98.8% have their far end on one of 64 walks of the near end; of negatives 4.9%" in leaks[2]
