from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from gpm import GpmError, Graph
from gpm.data.catalog import CATALOG
from gpm.data.node_data import load_node_data
from gpm.data.splits import PARTS
from gpm.data.synthetic import (
    ACCOUNT,
    FRAUD,
    MOTIFS,
    PlantedMotifs,
    count_trees,
    neighbour_trees,
    planted_fraud,
    planted_motifs,
    write_fraud,
)
from gpm.data.tables.importer import import_tables


@pytest.fixture(scope="module")
def planted() -> PlantedMotifs:
    return planted_motifs(num_houses=12, num_cycles=8, base_nodes=50, seed=3)


def _inside(planted: PlantedMotifs, number: int) -> nx.Graph:
    graph = nx.Graph(planted.graph.edge_index().T.tolist())
    return graph.subgraph(np.flatnonzero(planted.motif == number).tolist())


def test_every_motif_is_what_its_kind_says(planted: PlantedMotifs) -> None:
    assert planted.kinds.count("house") == planted.kinds.count("bipartite decoy") == 12
    assert planted.kinds.count("six-cycle") == 2 * planted.kinds.count("octagon decoy") == 8
    for number, kind in enumerate(planted.kinds):
        assert nx.is_isomorphic(_inside(planted, number), nx.Graph(MOTIFS[kind].edges))


def test_labels_are_the_roles(planted: PlantedMotifs) -> None:
    assert planted.graph.y is not None
    assert ((planted.graph.y == 0) == (planted.motif < 0)).all()
    for number, kind in enumerate(planted.kinds):
        part = _inside(planted, number)
        for node, degree in part.degree:
            name = CATALOG["motifs"].classes[planted.graph.y[node]]
            if kind == "house":
                role = "middle" if degree == 3 else "roof" if nx.triangles(part, node) else "bottom"
                assert name == f"house {role}"
            else:
                assert name == ("six-cycle" if kind == "six-cycle" else "decoy")


def test_a_decoy_has_the_degrees_of_what_it_stands_beside() -> None:
    def degrees(*kinds: str) -> list[int]:
        return sorted(degree for kind in kinds for _, degree in nx.Graph(MOTIFS[kind].edges).degree)

    assert degrees("house") == degrees("bipartite decoy")
    assert degrees("six-cycle", "six-cycle") == degrees("square decoy", "octagon decoy")


def test_each_motif_hangs_on_the_base_by_one_edge(planted: PlantedMotifs) -> None:
    owner = planted.motif[planted.graph.edge_index()]
    crossing = owner[:, owner[0] != owner[1]]
    outward = crossing[:, crossing[0] >= 0]
    assert (outward[1] == -1).all()
    assert sorted(outward[0].tolist()) == list(range(len(planted.kinds)))
    assert nx.is_connected(nx.Graph(planted.graph.edge_index().T.tolist()))


def test_motif_edges_are_the_edges_inside_motifs(planted: PlantedMotifs) -> None:
    edges = planted.motif_edges()
    assert edges.shape[1] == 2 * sum(len(MOTIFS[kind].edges) for kind in planted.kinds)
    assert (planted.motif[edges[0]] == planted.motif[edges[1]]).all()


def test_it_is_a_pure_function_of_its_arguments() -> None:
    one, same, other = (planted_motifs(4, 2, 20, seed=seed) for seed in (1, 1, 2))
    for field in ("indptr", "indices", "x", "y"):
        np.testing.assert_array_equal(getattr(one.graph, field), getattr(same.graph, field))
    assert not np.array_equal(one.graph.y, other.graph.y)


def test_features_and_numbers_say_nothing_about_the_class() -> None:
    graph = planted_motifs().graph
    assert graph.x is not None
    assert graph.y is not None
    columns = np.column_stack([graph.x, np.arange(graph.num_nodes) / graph.num_nodes])
    for label in range(len(CATALOG["motifs"].classes)):
        members = columns[graph.y == label]
        surprise = (members.mean(axis=0) - columns.mean(axis=0)) / (columns.std(axis=0) / np.sqrt(len(members)))
        assert (abs(surprise) < 4).all()


def test_degree_alone_is_far_from_the_answer() -> None:
    graph = planted_motifs().graph
    assert graph.y is not None
    table = np.zeros((graph.degree().max() + 1, len(CATALOG["motifs"].classes)))
    np.add.at(table, (graph.degree(), graph.y), 1)
    assert table.max(axis=1).sum() / graph.num_nodes < 0.55  # the best guess that knows the degree
    assert np.bincount(graph.y).max() / graph.num_nodes < 0.4  # the best guess that knows nothing


def test_impossible_graphs_get_a_sentence() -> None:
    with pytest.raises(GpmError, match="num_cycles must be even, got 3"):
        planted_motifs(num_cycles=3)
    with pytest.raises(GpmError, match="base_nodes must be at least 3, got 2"):
        planted_motifs(base_nodes=2)
    with pytest.raises(GpmError, match="num_houses must be a whole number"):
        planted_motifs(num_houses=1.5)  # type: ignore[arg-type]


def _area(score: NDArray, positive: NDArray) -> float:
    """ROC-AUC, by ranks; a score has no ties here."""
    ranks = np.argsort(np.argsort(score))[positive]
    return float((ranks - np.arange(len(ranks))[np.argsort(np.argsort(ranks))]).mean() / (~positive).sum())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fraud_shows_in_the_neighbours_of_an_account_and_hardly_in_itself(seed: int) -> None:
    graph = planted_fraud(seed=seed)
    assert isinstance(graph.x, np.ndarray)
    assert graph.y is not None
    positive = graph.y == 1
    assert positive.mean() == 0.01
    risk = ((graph.x - graph.x.mean(0)) / graph.x.std(0)) @ [sign for *_, sign in ACCOUNT.values()]
    source, target = graph.edge_index()
    around = np.bincount(source, risk[target], graph.num_nodes) / np.maximum(graph.degree(), 1)
    assert 0.5 < _area(risk + 1e-9 * np.arange(graph.num_nodes), positive) < 0.7
    assert 0.93 < _area(around + 1e-9 * np.arange(graph.num_nodes), positive) < 0.99
    degree = graph.degree() + 1e-6 * np.random.default_rng(0).random(graph.num_nodes)
    assert 0.4 < _area(degree, positive) < 0.6  # the number of transfers says nothing


def test_fraud_is_a_pure_function_of_its_arguments() -> None:
    one, same, other = (planted_fraud(400, 0.05, seed) for seed in (1, 1, 2))
    for field in ("indptr", "indices", "x", "y"):
        np.testing.assert_array_equal(getattr(one, field), getattr(same, field))
    assert not np.array_equal(one.y, other.y)
    with pytest.raises(GpmError, match="num_accounts must be at least 100, got 9"):
        planted_fraud(9)
    with pytest.raises(GpmError, match=r"share must lie between 0 and 0\.5, got 0"):
        planted_fraud(share=0)


def test_every_part_of_the_usual_split_has_fraud() -> None:
    data = load_node_data("fraud")
    assert data.class_names == FRAUD == CATALOG["fraud"].classes
    for seed in range(5):
        split = data.make_split(seed)
        shares = [data.labels[getattr(split, part)].mean() for part in PARTS]
        assert all(0.004 < share < 0.02 for share in shares)


def test_tables_of_fraud_are_read_as_the_graph_is(tmp_path: Path) -> None:
    edges, nodes = write_fraud(tmp_path / "bank", 300, 0.05, 4)
    graph, read = (
        planted_fraud(300, 0.05, 4),
        Graph.open(import_tables(edges, tmp_path / "g", nodes=nodes, target="label")),
    )
    order = [read.find(graph.name(i)) for i in range(300)]
    assert read.y is not None
    assert graph.y is not None
    assert (read.num_nodes, read.num_edges) == (graph.num_nodes, graph.num_edges)
    assert [FRAUD[label] for label in graph.y] == [("fraud", "ok")[label] for label in read.y[order]]  # by the alphabet
    pairs = {frozenset(pair) for pair in np.array(order)[graph.edge_index()].T.tolist()}
    assert pairs == {frozenset(pair) for pair in read.edge_index().T.tolist()}
    assert isinstance(read.x, np.ndarray)
    assert read.x.shape == (300, len(ACCOUNT))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_root_of_a_tree_has_the_value_of_the_leaf_with_its_key(depth: int) -> None:
    graph, trees = neighbour_trees(depth), count_trees(depth)
    nodes, leaves = 2 ** (depth + 1) - 1, 2**depth
    assert graph.num_nodes == trees * nodes
    assert graph.num_edges == 2 * trees * (nodes - 1)
    assert graph.y is not None
    assert np.flatnonzero(graph.y >= 0).tolist() == list(range(0, trees * nodes, nodes))  # roots
    for tree in {0, 1, trees // 2, trees - 1}:
        root = tree * nodes
        found = nx.single_source_shortest_path_length(
            nx.Graph(graph.edge_index()[:, graph.edge_index()[0] // nodes == tree].T.tolist()), root
        )
        values = {int(key): int(value) for key, value in (graph.x[node] for node, far in found.items() if far == depth)}
        assert sorted(values) == sorted(values.values()) == list(range(1, leaves + 1))
        assert graph.y[root] == values[int(graph.x[root, 0])] - 1
        assert all((graph.x[node] == 0).all() for node, far in found.items() if 0 < far < depth)


def test_every_key_is_asked_for_once_per_arrangement_of_the_values() -> None:
    graph = neighbour_trees(3)
    keys = graph.x[::15, 0].reshape(-1, 8)
    assert (keys == np.arange(8) + 1).all()
    values = graph.x.reshape(-1, 8, 15, 2)[:, :, 7:, 1]
    assert (values == values[:, :1]).all()
    assert len(np.unique(values[:, 0], axis=0)) > 900  # of 1,000 drawn of 40,320


def test_trees_are_as_many_as_published_and_of_a_depth_that_is_known() -> None:
    assert [count_trees(depth) for depth in (2, 3, 4, 5, 7)] == [96, 8000, 16_000, 32_000, 32_000]
    for depth in range(2, 8):
        assert CATALOG[f"trees-{depth}"].nodes == count_trees(depth) * (2 ** (depth + 1) - 1)
    with pytest.raises(GpmError, match="depth must lie between 1 and 7, got 8"):
        neighbour_trees(8)
