from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gpm import GpmError, Graph, walk
from gpm.data.link_data import LinkData, LinkSplit, load_link_data
from gpm.data.splits import PARTS, Split

HELD_OUT = ("val", "test")


def _sets(pairs: np.ndarray) -> list[frozenset[int]]:
    return [frozenset(pair) for pair in pairs.tolist()]


def _tuples(pairs: np.ndarray) -> list[tuple[int, int]]:
    return [tuple(pair) for pair in pairs.tolist()]


@st.composite
def link_graphs(draw: Any) -> Graph:
    """Sparse graphs of any kind, with self-loops and parallel edges, large enough for three parts."""
    nodes = draw(st.integers(16, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    edges = random.integers(0, nodes, (2, draw(st.integers(30, 70))))
    edges = np.concatenate([edges, edges[:, :5], edges[::-1, 5:12], np.tile(np.arange(3), (2, 1))], axis=1)
    weighted, attributed = draw(st.booleans()), draw(st.booleans())
    return Graph.from_edges(
        edges,
        nodes,
        edge_weight=random.integers(0, 4, edges.shape[1]) / 2 if weighted else None,
        edge_attr=np.arange(edges.shape[1]) if attributed else None,
        undirected=draw(st.booleans()),
        duplicates=draw(st.sampled_from(["merge", "keep"])),
    )


@given(link_graphs(), st.integers(0, 2**40))
def test_a_strict_split_has_every_edge_once_and_negatives_that_are_no_edges(graph: Graph, seed: int) -> None:
    data = LinkData(graph, "graph")
    split = data.make_split(seed)
    every = {frozenset(pair) for pair in _tuples(graph.edge_index().T) if pair[0] != pair[1]}
    edges = {part: _sets(split.edges_of(part)) for part in PARTS}
    together = edges["train"] + edges["val"] + edges["test"]
    assert len(together) == len(set(together))
    assert set(together) == every
    for part, share in zip(PARTS, (0.8, 0.05, 0.15), strict=True):
        assert abs(len(edges[part]) - share * len(every)) < 1.5
    negatives = _sets(split.negatives_of(*HELD_OUT))
    assert len(negatives) == len(set(negatives)) == len(edges["val"] + edges["test"])
    assert not set(negatives) & every
    assert all(len(pair) == 2 for pair in negatives + together)
    assert len(split.negatives_of("val")) == len(edges["val"])
    assert not len(split.negatives_of("train"))
    assert split.labels[split.train].all()
    assert (split.pairs[:, 0] < split.pairs[:, 1]).all()  # the order of a pair tells nothing


@given(link_graphs(), st.integers(0, 1000))
def test_no_walk_crosses_a_held_out_edge(graph: Graph, seed: int) -> None:
    data = LinkData(graph, "graph")
    split = data.make_split(seed)
    walked, held = data.walked_graph(split), set(_sets(split.edges_of(*HELD_OUT)))
    kept = [pair for pair in _tuples(graph.edge_index().T) if frozenset(pair) not in held]
    assert _tuples(walked.edge_index().T) == kept  # nothing else is gone, parallel edges and self-loops included
    assert len(kept) < graph.num_edges
    nodes, _ = walk(walked, np.arange(graph.num_nodes)[:, None], np.arange(8), 6, seed=seed)
    steps = np.stack([nodes[..., :-1], nodes[..., 1:]], axis=-1).reshape(-1, 2)
    assert not held & set(_sets(steps))


@given(link_graphs(), st.integers(0, 1000), st.integers(0, 1000))
def test_training_negatives_are_no_edges_and_no_saved_negatives(graph: Graph, seed: int, turn: int) -> None:
    data = LinkData(graph, "graph")
    split = data.make_split(seed)
    drawn = data.draw_negatives(split, 200, seed, turn)
    taken = set(_sets(graph.edge_index().T)) | set(_sets(split.negatives_of(*HELD_OUT)))
    assert not taken & set(_sets(drawn))
    assert (drawn[:, 0] < drawn[:, 1]).all()
    np.testing.assert_array_equal(data.draw_negatives(split, 200, seed, turn), drawn)
    assert data.draw_negatives(split, 200, seed, turn + 1).tolist() != drawn.tolist()


@given(link_graphs(), st.integers(0, 1000))
@settings(max_examples=30)
def test_the_papers_split_deals_directed_edges_and_walks_them_all(graph: Graph, seed: int) -> None:
    data = LinkData(graph, "graph")
    split = data.make_split(seed, protocol="paper")
    assert data.walked_graph(split) is graph
    assert sorted(_tuples(split.edges_of(*PARTS))) == _tuples(graph.edge_index().T)
    assert len(split.negatives_of("val")) == len(split.edges_of("val"))
    assert len(split.negatives_of("test")) == len(split.edges_of("test"))
    drawn = data.draw_negatives(split, 4000, seed, 0)
    assert set(drawn.ravel().tolist()) == set(range(graph.num_nodes))
    assert (drawn[:, 0] == drawn[:, 1]).any()  # nothing is checked
    assert (drawn[:, 0] > drawn[:, 1]).any()


def _ring(nodes: int = 40, **options: Any) -> Graph:
    ring = np.arange(nodes)
    return Graph.from_edges([ring, (ring + 1) % nodes], nodes, undirected=True, **options)


def test_names_say_the_protocol() -> None:
    data = LinkData(_ring(), "ring")
    assert data.make_split(3).name == "strict 80/5/15, seed 3"
    assert data.make_split(0, "50/25/25").name == "strict 50/25/25, seed 0"
    said = "paper 80/5/15 (directed edges, full graph walked: test edges are visible), seed 0"
    assert data.make_split(0, protocol="paper").name == said


def test_the_split_and_its_digest_never_change() -> None:
    data = LinkData(_ring(20), "ring")
    split = data.make_split(0)
    assert split.pairs[split.test].tolist() == [[1, 2], [9, 10], [15, 16], [3, 15], [9, 14], [15, 19]]
    assert (split.digest, data.make_split(0, protocol="paper").digest) == ("140d72b81b9c2042", "5aecd68f6d893b16")


def test_a_split_depends_on_the_edges_and_the_seed_alone() -> None:
    data, other = LinkData(_ring(), "ring"), LinkData(_ring(x=np.eye(40), names=range(100, 140)), "other")
    assert data.make_split(1).digest == other.make_split(1).digest
    assert data.make_split(1).digest != data.make_split(2).digest


def test_the_digest_covers_pairs_labels_protocol_and_size() -> None:
    split = LinkData(_ring(), "ring").make_split(0)
    moved = split.pairs.copy()
    moved[-1] = [0, 20] if moved[-1].tolist() != [0, 20] else [0, 21]
    labels = split.labels.copy()
    labels[-1] = 1
    changed = [
        replace(split, pairs=moved),
        replace(split, labels=labels),
        replace(split, protocol="paper"),
        replace(split, num_nodes=41),
        replace(split, val=split.val[1:]),
    ]
    assert len({other.digest for other in [split, *changed]}) == 6
    assert replace(split, name="other").digest == split.digest


def test_a_split_comes_back_whichever_class_reads_it(tmp_path: Path) -> None:
    data = LinkData(_ring(), "ring")
    for protocol in ("strict", "paper"):
        split = data.make_split(5, protocol=protocol)
        split.save(tmp_path / "split.npz")
        for kind in (Split, LinkSplit):
            back = kind.load(tmp_path / "split.npz")
            assert isinstance(back, LinkSplit)
            assert (back.name, back.digest, back.protocol, back.num_nodes) == (split.name, split.digest, protocol, 40)
            np.testing.assert_array_equal(back.pairs, split.pairs)
            np.testing.assert_array_equal(back.labels, split.labels)
            np.testing.assert_array_equal(back.test, split.test)
            assert not back.pairs.flags.writeable


def test_a_split_of_nodes_is_no_split_of_links(tmp_path: Path) -> None:
    Split(np.array([1]), np.array([2]), np.array([3]), "mine").save(tmp_path / "split.npz")
    with pytest.raises(GpmError, match=r"split\.npz holds a split of nodes or graphs, not of links"):
        LinkSplit.load(tmp_path / "split.npz")


def test_an_altered_or_damaged_split_is_refused(tmp_path: Path) -> None:
    path, split = tmp_path / "split.npz", LinkData(_ring(), "ring").make_split(0)
    split.save(path)
    with np.load(path) as stored:
        facts = dict(stored)
    swapped = facts["pairs"][np.roll(np.arange(len(facts["pairs"])), 1)]
    for changes in ({"pairs": swapped}, {"labels": 1 - facts["labels"] * 0}, {"protocol": np.array("paper")}):
        np.savez(path, **(facts | changes))
        with pytest.raises(GpmError, match=r"split\.npz was altered: its ids do not match its digest"):
            LinkSplit.load(path)
    for changes in ({"pairs": facts["pairs"] + 1000}, {"labels": facts["labels"][1:]}, {"protocol": np.array("lax")}):
        np.savez(path, **(facts | changes))
        with pytest.raises(GpmError, match=r"split\.npz is not a split that can be read \(.*\); save it again"):
            LinkSplit.load(path)
    del facts["pairs"]
    np.savez(path, **facts)
    with pytest.raises(GpmError, match="was altered"):
        Split.load(path)
    split.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GpmError, match="is not a split that can be read"):
        LinkSplit.load(path)


def test_a_split_refuses_what_makes_none() -> None:
    split = LinkData(_ring(), "ring").make_split(0)
    with pytest.raises(GpmError, match="pairs nodes that are not among 0 to 9"):
        replace(split, num_nodes=10)
    with pytest.raises(GpmError, match=r"Labels of the split .* must be 0 or 1, and 1 in the training split"):
        replace(split, labels=1 - split.labels)
    with pytest.raises(GpmError, match="names a pair that it does not hold"):
        replace(split, test=split.test + 1)
    with pytest.raises(GpmError, match="protocol must be one of strict, paper, got 'lax'"):
        replace(split, protocol="lax")
    with pytest.raises(GpmError, match="Instance 0 occurs twice"):
        replace(split, val=split.train[:1])


def test_graphs_that_are_no_link_task_get_a_sentence() -> None:
    full = np.argwhere(~np.eye(6, dtype=bool)).T
    with pytest.raises(GpmError, match="full has 0 pairs of nodes without an edge, too few for 3 negatives"):
        LinkData(Graph.from_edges(full, 6), "full").make_split(0)
    with pytest.raises(GpmError, match="2 links are too few for 80/5/15: a split would be empty"):
        LinkData(Graph.from_edges([[0, 1], [1, 2]], 9, undirected=True), "path").make_split(0)
    with pytest.raises(GpmError, match="0 links are too few"):
        LinkData(Graph.from_edges([[3], [3]], 9), "loop").make_split(0)
    data = LinkData(_ring(), "ring")
    with pytest.raises(GpmError, match="ring has no public split of links; ask for shares such as '80/5/15'"):
        data.make_split(0, "public")
    with pytest.raises(GpmError, match="protocol must be one of strict, paper, got 'lax'"):
        data.make_split(0, protocol="lax")  # type: ignore[arg-type]
    with pytest.raises(GpmError, match="seed must not be negative"):
        data.make_split(-1)


def test_the_split_of_another_graph_is_refused() -> None:
    split = LinkData(_ring(30), "small").make_split(0)
    for use in (LinkData(_ring(), "ring").walked_graph, lambda s: LinkData(_ring(), "ring").draw_negatives(s, 1, 0, 0)):
        with pytest.raises(GpmError, match="is of a graph with 30 nodes, ring has 40; make a split of this graph"):
            use(split)


def test_a_graph_just_sparse_enough_is_split() -> None:
    pairs = np.array([(u, v) for v in range(8) for u in range(v)])[6:]  # 22 edges: 4 are held out, 6 pairs are free
    data = LinkData(Graph.from_edges(pairs.T, 8, undirected=True), "dense")
    split = data.make_split(0)
    assert len(split.negatives_of(*HELD_OUT)) == 4
    assert len(set(_sets(data.draw_negatives(split, 100, 0, 0)))) == 2


def test_published_parts_are_used_as_they_are() -> None:
    train = _ring()
    shared = LinkData(train, "ring").make_split(0)
    edges = [shared.edges_of("train"), np.array([[0, 5], [6, 1]]), np.array([[7, 3]])]
    published = LinkSplit.assemble(edges, [np.array([[4, 4]]), np.array([[9, 2]])], "public", "strict", 40)
    data = LinkData(train, "ring", "public", "hits@50", published=published)
    assert data.make_split(7) is published
    assert data.walked_graph(published) is train
    drawn = set(_sets(data.draw_negatives(published, 5000, 0, 0)))
    taken = {(0, 5), (6, 1), (7, 3), (9, 2)} | set(_tuples(train.edge_index().T))
    assert len(drawn) == 40 * 39 // 2 - len({frozenset(pair) for pair in taken})  # all that is free, and nothing else
    assert not drawn & {frozenset(pair) for pair in taken}
    for options in ({"kind": "80/5/15"}, {"protocol": "paper"}):
        with pytest.raises(GpmError, match="ring has a published split; leave split at public and protocol at stri"):
            data.make_split(0, **options)
    with pytest.raises(GpmError, match="is not the published one of ring"):
        data.walked_graph(shared)


def test_all_forms_of_a_graph_are_the_same_links(tmp_path: Path) -> None:
    graph = _ring(x=np.eye(40))
    data = graph.to_pyg()
    graph.save(tmp_path / "saved")
    torch.save(data, tmp_path / "file.pt")
    (tmp_path / "ring.csv").write_text("".join(f"{i},{(i + 1) % 40}\n" for i in range(40)))
    digest = LinkData(graph, "ring").make_split(0).digest
    sources = (graph, data, tmp_path / "saved", str(tmp_path / "file.pt"), tmp_path / "ring.csv")
    for source, title in zip(sources, ("graph", "graph", "saved", "file", "ring"), strict=True):
        loaded = load_link_data(source)
        assert (loaded.title, loaded.split, loaded.metric, loaded.level) == (title, "80/5/15", "hits@20", "link")
        assert loaded.make_split(0).digest == digest
    assert load_link_data("motifs").title == "Planted motifs"


def test_what_holds_no_single_graph_gets_a_sentence() -> None:
    several = Graph.from_pyg([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)] * 3)
    with pytest.raises(GpmError, match="graph is a collection of 3 graphs; links are predicted in a single graph"):
        load_link_data(several)
    with pytest.raises(GpmError, match="Give a dataset's name, a file, a PyG Data or a Graph, not a int"):
        load_link_data(3)  # type: ignore[arg-type]
    with pytest.raises(GpmError, match="Did you mean 'motifs'"):
        load_link_data("moitfs")


@pytest.mark.needs("Planetoid/Cora/raw")
@pytest.mark.usefixtures("raw_files")
def test_cora_is_split_as_the_paper_says() -> None:
    data = load_link_data("cora")
    split, paper = data.make_split(0), data.make_split(0, protocol="paper")
    assert [len(split.edges_of(part)) for part in PARTS] == [4222, 264, 792]
    assert [len(paper.edges_of(part)) for part in PARTS] == [8445, 528, 1583]
    walked = data.walked_graph(split)
    assert (walked.num_edges, walked.census.directed, walked.x.shape) == (2 * 4222, False, (2708, 1433))
    reverse = set(_tuples(paper.edges_of("train")))
    share = np.mean([(b, a) in reverse for a, b in _tuples(paper.edges_of("test"))])
    assert 0.75 < share < 0.85  # what makes the paper's protocol a leak
