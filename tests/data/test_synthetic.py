import networkx as nx
import numpy as np
import pytest

from gpm import GpmError
from gpm.data.catalog import CATALOG
from gpm.data.synthetic import MOTIFS, PlantedMotifs, planted_motifs


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
