import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.utils.data import ConcatDataset
from torch_geometric.data import Batch, Data, InMemoryDataset
from torch_geometric.datasets import KarateClub

from gpm import GpmError, Graph
from gpm.graph.convert import from_collated


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
    with pytest.raises(GpmError, match="Give a PyG Data, a list of them, a Batch or a Dataset, not a gpm Graph"):
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


class _Kept(InMemoryDataset):
    """Graphs as PyG keeps those of its own datasets."""

    def __init__(self, graphs: list[Data], transform: object = None) -> None:
        super().__init__(None, transform)
        self._data, self.slices = self.collate(graphs)


def _collection(with_x: bool = True, weighted: bool = False) -> list[Data]:
    """Graphs of 0 to 6 nodes, some without edges, some with parallel edges and loops."""
    generator = torch.Generator().manual_seed(3)
    graphs = []
    for nodes in (3, 1, 0, 6, 2, 5, 5, 4, 0):
        count = 0 if nodes < 2 else 3 * nodes
        graph = Data(edge_index=torch.randint(0, max(1, nodes), (2, count), generator=generator))
        if with_x:
            graph.x = torch.randn(nodes, 2, generator=generator)
        else:
            graph.num_nodes = nodes
        if weighted:
            graph.edge_weight = torch.rand(count, generator=generator)
        graph.edge_attr = torch.randint(0, 4, (count,), generator=generator)
        graph.y = torch.randn(1, 2, generator=generator)
        graphs.append(graph)
    return graphs


def _assert_equal(one: Graph, two: Graph) -> None:
    assert one.census == two.census
    for key in ("indptr", "indices", "graph_ptr", "edge_ids", "edge_weight", "edge_cdf", "x", "edge_attr", "y"):
        a, b = getattr(one, key), getattr(two, key)
        assert (a is None) == (b is None), key
        if a is not None:
            assert a.dtype == b.dtype, key
            np.testing.assert_array_equal(a, b, key)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("with_x", [False, True])
def test_whole_arrays_give_what_pygs_batch_gives(with_x: bool, weighted: bool) -> None:
    graphs = _collection(with_x, weighted)
    batch = Graph.from_pyg(Batch.from_data_list(graphs))
    _assert_equal(Graph.from_pyg(graphs), batch)
    _assert_equal(Graph.from_pyg(_Kept(graphs)), batch)
    _assert_equal(from_collated(Graph, [_Kept(graphs)]), batch)
    _assert_equal(Graph.from_pyg(ConcatDataset([_Kept(graphs[:4]), _Kept(graphs[4:])])), batch)
    once = {"duplicates": "keep", "self_loops": "drop"}
    _assert_equal(Graph.from_pyg(graphs, **once), Graph.from_pyg(Batch.from_data_list(graphs), **once))


def test_what_a_dataset_does_to_its_graphs_is_done() -> None:
    graphs = _collection()
    chosen = [7, 0, 3]
    _assert_equal(Graph.from_pyg(_Kept(graphs)[chosen]), Graph.from_pyg([graphs[i] for i in chosen]))

    def double(graph: Data) -> Data:
        graph.x = 2 * graph.x
        return graph

    changed = Graph.from_pyg(_Kept(graphs, double))
    np.testing.assert_array_equal(changed.x, 2 * Graph.from_pyg(graphs).x)
    assert Graph.from_pyg(_Kept(graphs)[3:4]).graph_ptr is None  # a single graph, as ever
    with pytest.raises(GpmError, match="list of graphs is empty"):
        Graph.from_pyg(_Kept(graphs)[[]])


def test_a_dataset_that_gives_other_graphs_than_it_keeps_is_asked_for_each() -> None:
    class Cut(_Kept):
        def get(self, idx: int) -> Data:
            graph = super().get(idx)
            graph.edge_index, graph.edge_attr = graph.edge_index[:, :0], graph.edge_attr[:0]
            return graph

    assert Graph.from_pyg(Cut(_collection())).num_edges == 0


def test_a_class_of_data_says_itself_how_it_is_joined() -> None:
    class Apart(Data):
        def __inc__(self, key: str, value: object, *_: object) -> int:
            return 10 if key == "edge_index" else 0

    graphs = [Apart(edge_index=torch.tensor([[0], [1]]), num_nodes=10) for _ in range(2)]
    np.testing.assert_array_equal(Graph.from_pyg(graphs).edge_index(), [[0, 10], [1, 11]])


def test_labels_of_a_list_come_in_any_form() -> None:
    forms: dict[str, list] = {
        "int64": [0, 2, 1],
        "float32": [0.5, 1.0, 2.0],
        "bool": [True, False, True],
        "int32": list(torch.tensor([3, 4, 5], dtype=torch.int32)),
        "float64": [np.array([0.5]), np.zeros(1), np.ones(1)],
    }
    for dtype, labels in forms.items():
        graph = Graph.from_pyg([Data(edge_index=torch.zeros(2, 0, dtype=int), num_nodes=2, y=y) for y in labels])
        assert (graph.y.dtype, graph.y.shape) == (dtype, (3,))
        np.testing.assert_array_equal(graph.y, np.array([np.asarray(y).item() for y in labels]))


@pytest.mark.parametrize("layout", ["csr", "coo", "scipy"])
def test_sparse_features_of_a_list_stay_sparse(layout: str) -> None:
    rows = [torch.tensor([[0.0, 2.0], [1.0, 0.0]]), torch.tensor([[0.0, 3.0]])]
    make = {"csr": torch.Tensor.to_sparse_csr, "coo": torch.Tensor.to_sparse_coo, "scipy": sp.csr_array}[layout]
    graph = Graph.from_pyg([Data(edge_index=torch.zeros(2, 0, dtype=int), num_nodes=len(x), x=make(x)) for x in rows])
    assert sp.issparse(graph.x)
    np.testing.assert_array_equal(graph.x.toarray(), torch.cat(rows))


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
    with pytest.raises(GpmError, match=r"The edge \('b', 'c'\) has no 'weight' though others have one"):
        Graph.from_networkx(partly)
    none = torch.zeros(2, 0, dtype=int)
    with pytest.raises(GpmError, match=r"do not go together \(graph 1 has no edge_index or no number of nodes\)"):
        Graph.from_pyg([Data(x=torch.ones(1, 1), edge_index=none), Data(num_nodes=1)])
    for other, reason in (
        (Data(edge_index=none, num_nodes=1), "graph 1 has no x"),
        (Data(edge_index=none, x=torch.ones(1, 2)), "x: Sizes of tensors must match"),
    ):
        with pytest.raises(GpmError, match=rf"do not go together \({reason}.*; give all the same attributes"):
            Graph.from_pyg([Data(x=torch.ones(1, 1), edge_index=none), other])
    with pytest.raises(GpmError, match="The edge from node 1 to node 3 joins two graphs of the collection"):
        Graph.from_pyg([Data(edge_index=torch.tensor([[1], [3]]), num_nodes=2), Data(edge_index=none, num_nodes=2)])
    graph = nx.path_graph(2)
    graph.nodes[0]["h"] = 1.0
    with pytest.raises(GpmError, match="Node 1 has no attribute 'h'"):
        Graph.from_networkx(graph, x="h")
