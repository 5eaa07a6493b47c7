import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.datasets import KarateClub

from gpm import GpmError, Graph


def _molecule(atoms: int, label: float) -> Data:
    ring = torch.arange(atoms)
    there, back = torch.stack([ring, ring.roll(-1)]), torch.stack([ring.roll(-1), ring])
    return Data(
        x=torch.randint(0, 9, (atoms, 2)),
        edge_index=torch.cat([there, back], 1),
        edge_attr=torch.arange(2 * atoms)[:, None],
        y=torch.tensor([label]),
    )


def test_pyg_data_comes_back() -> None:
    data = KarateClub()[0]
    again = Graph.from_pyg(data).to_pyg()
    assert torch.equal(again.edge_index, data.edge_index)
    assert torch.equal(again.x, data.x)
    assert torch.equal(again.y, data.y)
    assert again.num_nodes == 34


def test_datasets_are_taken_as_they_are() -> None:
    assert Graph.from_pyg(KarateClub()).num_nodes == 34
    with pytest.raises(GpmError, match="give a PyG Data, a list of them, a Batch or a Dataset, not a gpm Graph"):
        Graph.from_pyg(Graph.from_edges([[0], [1]]))  # type: ignore[arg-type]


def test_edge_features_follow_their_edges() -> None:
    edges = torch.tensor([[2, 0, 1, 0], [0, 1, 2, 2]])
    features = torch.tensor([[20.0], [1.0], [12.0], [2.0]])
    data = Data(edge_index=edges, edge_attr=features, edge_weight=torch.rand(4), num_nodes=3)
    again = Graph.from_pyg(data).to_pyg()

    def by_edge(d: Data) -> dict:
        rows = zip(d.edge_index.T.tolist(), d.edge_weight.tolist(), d.edge_attr.tolist(), strict=True)
        return {tuple(edge): (weight, attributes) for edge, weight, attributes in rows}

    assert by_edge(again) == by_edge(data)


@pytest.mark.parametrize("as_batch", [False, True])
def test_a_collection_is_one_disjoint_graph_and_comes_back(as_batch: bool) -> None:
    no_edges = torch.zeros(2, 0, dtype=torch.long)
    atom = Data(x=torch.zeros(1, 2, dtype=torch.long), edge_index=no_edges, edge_attr=no_edges[:1].T, y=torch.ones(1))
    molecules = [_molecule(5, 0.5), _molecule(3, -1.0), atom]
    graph = Graph.from_pyg(Batch.from_data_list(molecules) if as_batch else molecules)
    assert graph.num_graphs == 3
    np.testing.assert_array_equal(graph.graph_ptr, [0, 5, 8, 9])
    assert graph.summary().startswith("3 graphs, 9 nodes, 8 undirected edges, 1 isolated")
    for before, after in zip(molecules, graph.to_pyg(), strict=True):
        order = np.lexsort(before.edge_index.numpy()[::-1])
        assert torch.equal(after.x, before.x)
        assert torch.equal(after.y, before.y)
        assert torch.equal(after.edge_index, before.edge_index[:, order])
        assert torch.equal(after.edge_attr, before.edge_attr[order])


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_sparse_features_stay_sparse(layout: str) -> None:
    dense = torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]])
    sparse = dense.to_sparse_csr() if layout == "csr" else dense.to_sparse_coo()
    graph = Graph.from_pyg(Data(x=sparse, edge_index=torch.tensor([[0], [1]]), num_nodes=2))
    assert sp.issparse(graph.x)
    assert torch.equal(graph.to_pyg().x.to_dense(), dense)


def test_a_collection_with_sparse_features_comes_back() -> None:
    graph = Graph.from_edges([[0, 2], [1, 3]], 5, x=sp.eye_array(5), graph_ptr=[0, 2, 5])
    for first, part in zip((0, 2), graph.to_pyg(), strict=True):
        assert torch.equal(part.x.to_dense(), torch.eye(5, dtype=torch.float64)[first : first + part.num_nodes])


def test_networkx_nodes_become_names() -> None:
    graph = nx.Graph()
    graph.add_edge("ann", "bob", weight=2.0)
    graph.add_edge("bob", ("t", 1), weight=0.5)
    graph.add_node("eve")
    for node, value in zip(graph, range(4), strict=True):
        graph.nodes[node]["h"] = [value, 1.0]
    ours = Graph.from_networkx(graph, x="h")
    assert [ours.name(i) for i in range(4)] == ["ann", "bob", "('t', 1)", "eve"]
    assert ours.summary() == "4 nodes, 2 undirected edges, 1 isolated, 0 self-loops, 0 duplicates, weighted, 2 features"
    assert ours.to_pyg().names == ["ann", "bob", "('t', 1)", "eve"]


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_every_networkx_kind_keeps_its_edges(kind: type) -> None:
    theirs = kind([(0, 1), (0, 1), (1, 2), (2, 2)])
    ours = Graph.from_networkx(theirs)
    matrix = sp.csr_array((np.ones(ours.num_edges), ours.indices, ours.indptr), shape=(3, 3)).toarray()
    np.testing.assert_array_equal(matrix, nx.to_numpy_array(theirs))


def test_scipy_matrices_of_every_format() -> None:
    matrix = np.array([[0, 2.0, 0], [0, 0, 1.0], [3.0, 0, 0]])
    for form in ("csr", "csc", "coo", "lil"):
        graph = Graph.from_scipy(sp.csr_array(matrix).asformat(form))
        np.testing.assert_array_equal(graph.edge_weight, [2, 1, 3])
        assert graph.census.directed
    assert Graph.from_scipy(sp.csr_array(matrix != 0)).edge_weight is None


def test_mistakes_get_a_sentence() -> None:
    with pytest.raises(GpmError, match="list of graphs is empty"):
        Graph.from_pyg([])
    with pytest.raises(GpmError, match="no edge_index"):
        Graph.from_pyg(Data(x=torch.ones(2, 2)))
    with pytest.raises(GpmError, match="must be square, got 2 x 3"):
        Graph.from_scipy(sp.csr_array((2, 3)))
    partly = nx.Graph()
    partly.add_edge("a", "b", weight=1.0)
    partly.add_edge("b", "c")
    with pytest.raises(GpmError, match=r"the edge \('b', 'c'\) has no 'weight' though others have one"):
        Graph.from_networkx(partly)
    with pytest.raises(GpmError, match="do not go together"):
        Graph.from_pyg([Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 0, dtype=int)), Data(num_nodes=1)])
    graph = nx.path_graph(2)
    graph.nodes[0]["h"] = 1.0
    with pytest.raises(GpmError, match="node 1 has no attribute 'h'"):
        Graph.from_networkx(graph, x="h")
