"""Graph from and to PyTorch Geometric, NetworkX and SciPy."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset

from gpm.errors import GpmError, kind_of
from gpm.graph.base_graph import SPARSE, BaseGraph
from gpm.graph.coerce import as_array, sparse_to_scipy

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data, Dataset, InMemoryDataset

AnyGraph = TypeVar("AnyGraph", bound=BaseGraph)
_KEYS = ("edge_weight", "edge_attr", "x", "y")  # attributes of a PyG Data that are read beside its edges


def _to_torch(features: Any) -> torch.Tensor:
    if sp.issparse(features):
        indptr, indices, data = (torch.from_numpy(np.array(getattr(features, part))) for part in SPARSE)
        return torch.sparse_csr_tensor(indptr, indices, data, size=features.shape, check_invariants=False)
    return torch.from_numpy(np.array(features))


def from_pyg(cls: type[AnyGraph], data: Data | Sequence[Data] | Dataset, **options: Any) -> AnyGraph:
    """Take what PyG holds graphs in, see `Graph.from_pyg`."""
    from torch_geometric.data import Batch, Data, Dataset

    parts = list(data.datasets) if isinstance(data, ConcatDataset) else [data]
    if all(isinstance(part, Dataset) for part in parts):
        if all(map(_is_collated, parts)):
            return from_collated(cls, parts, **options)
        data = list(data)
        data = data[0] if len(data) == 1 else data
    if isinstance(data, (list, tuple)):
        if not data:
            raise GpmError("The list of graphs is empty; give at least one PyG Data.")
        if all(type(graph) is Data for graph in data):
            return _from_list(cls, data, **options)
        try:
            data = Batch.from_data_list(list(data))  # a class of the user's may say itself how it is joined
        except (KeyError, AttributeError, RuntimeError, TypeError) as error:
            raise _apart(error) from None
    if not isinstance(data, Data):
        raise GpmError(f"Give a PyG Data, a list of them, a Batch or a Dataset, not a {kind_of(data)}.")
    count = _count(data) if data.get("edge_index") is not None else None
    if count is None:
        raise GpmError("The PyG Data has no edge_index or no number of nodes; set data.edge_index and data.num_nodes.")
    values = {key: data[key] for key in _KEYS if key in data and data[key] is not None}
    if "ptr" in data:
        values["graph_ptr"] = data["ptr"]
    elif data.get("names") is not None:
        values["names"] = data["names"]
    return cls.from_edges(data.edge_index, count, **(values | options))


def _count(data: Data) -> int | None:
    """Return the number of nodes without PyG's warning where it has to guess."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Unable to accurately infer 'num_nodes'")
        count: int | None = data.num_nodes
        return count


def from_collated(cls: type[AnyGraph], datasets: Sequence[InMemoryDataset], **options: Any) -> AnyGraph:
    """Take the graphs of PyG's `InMemoryDataset`s as the arrays they are kept in, a hundred times faster than singly.

    A dataset's `transform` or a selection such as `dataset[:10]` is ignored: `from_pyg` checks that there is none.
    """
    stores = [{key: rows for key, rows in part._data.to_dict().items() if key in part.slices} for part in datasets]
    num_nodes = np.concatenate([_count_nodes(part) for part in datasets])
    num_edges = np.concatenate([_count_edges(part) for part in datasets])
    return _join(cls, _concatenate(stores), num_nodes, num_edges, options)


def _from_list(cls: type[AnyGraph], graphs: Sequence[Data], **options: Any) -> AnyGraph:
    stores = [graph.to_dict() for graph in graphs]
    pairs = zip(graphs, stores, strict=True)
    counts = [_count(graph) if store.get("edge_index") is not None else None for graph, store in pairs]
    if None in counts:
        raise _apart(f"graph {counts.index(None)} has no edge_index or no number of nodes")
    num_edges = np.array([store["edge_index"].shape[-1] for store in stores])
    return _join(cls, _concatenate(stores), np.array(counts), num_edges, options)


def _join(
    cls: type[AnyGraph], rows: dict[str, Any], num_nodes: NDArray, num_edges: NDArray, options: dict[str, Any]
) -> AnyGraph:
    """Join many graphs, in whose edges the nodes of each count from 0."""
    graph_ptr = np.concatenate([[0], np.cumsum(num_nodes)])
    edge_index = as_array(rows.pop("edge_index")) + np.repeat(graph_ptr[:-1], num_edges)
    return cls.from_edges(edge_index, int(graph_ptr[-1]), **({"graph_ptr": graph_ptr} | rows | options))


def _concatenate(stores: list[dict[str, Any]]) -> dict[str, Any]:
    """Concatenate each attribute of all stores."""
    rows = {}
    for key in ("edge_index", *_KEYS):
        values = [store[key] for store in stores if store.get(key) is not None]
        if values and len(values) < len(stores):
            bare = next(i for i, store in enumerate(stores) if store.get(key) is None)
            raise _apart(f"graph {bare} has no {key}")
        try:
            if values:
                rows[key] = _stack(values, dim=-1 if key == "edge_index" else 0)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise _apart(f"{key}: {error}") from None
    return rows


def _stack(values: list[Any], dim: int) -> Any:
    if any(sp.issparse(value) or getattr(value, "layout", torch.strided) != torch.strided for value in values):
        parts = [value if sp.issparse(value) else sparse_to_scipy(value) for value in values]
        return sp.vstack(parts, format="csr")
    tensors = [torch.as_tensor(value) for value in values]
    return torch.cat([tensor[None] if tensor.dim() == 0 else tensor for tensor in tensors], dim)


def _is_collated(dataset: Dataset) -> bool:
    """Return True if a dataset returns its graphs exactly as its arrays hold them."""
    from torch_geometric.data import Data, InMemoryDataset

    return (
        isinstance(dataset, InMemoryDataset)
        and type(dataset).get is InMemoryDataset.get
        and type(dataset._data) is Data
        and dataset._indices is None
        and dataset.transform is None
        and "edge_index" in (dataset.slices or {})
        and _count_nodes(dataset) is not None
    )


def _count_nodes(dataset: InMemoryDataset) -> NDArray | None:
    """Return the number of nodes of each graph `[G]`; None if PyG does not know."""
    counts = getattr(dataset._data._store, "_num_nodes", None)
    if counts is None and "x" in dataset.slices:
        return np.diff(as_array(dataset.slices["x"]))
    return None if counts is None else np.asarray(counts)


def _count_edges(dataset: InMemoryDataset) -> NDArray:
    """Return the number of edges of each graph `[G]`."""
    counts = np.diff(as_array(dataset.slices["edge_index"]))
    # PyG's reader of TU files forgets graphs without edges at the end
    return np.pad(counts, (0, len(_count_nodes(dataset)) - len(counts)))  # type: ignore[arg-type]


def _apart(reason: object) -> GpmError:
    return GpmError(f"The graphs of the list do not go together ({reason}); give all the same attributes.")


def to_pyg(graph: BaseGraph) -> Data | list[Data]:
    """Return a graph as PyG holds it, see `Graph.to_pyg`."""
    from torch_geometric.data import Data

    data = Data(edge_index=torch.from_numpy(graph.edge_index()), num_nodes=graph.num_nodes)
    if graph.x is not None and graph.graph_ptr is None:
        data.x = _to_torch(graph.x)
    if graph.edge_attr is not None:
        data.edge_attr = _to_torch(graph.edge_attr if graph.edge_ids is None else graph.edge_attr[graph.edge_ids])
    for key in ("edge_weight", "y"):
        if getattr(graph, key) is not None:
            data[key] = _to_torch(getattr(graph, key))
    if graph.names is not None:
        data.names = graph.names_of(np.arange(graph.num_nodes))
    return data if graph.graph_ptr is None else _split(data, graph)


def _split(whole: Data, graph: BaseGraph) -> list[Data]:
    from torch_geometric.data import Data

    assert graph.graph_ptr is not None
    parts = []
    for i in range(graph.num_graphs):
        first, last = int(graph.graph_ptr[i]), int(graph.graph_ptr[i + 1])
        edges = slice(int(graph.indptr[first]), int(graph.indptr[last]))
        part = Data(edge_index=whole.edge_index[:, edges] - first, num_nodes=last - first)
        for key in ("edge_attr", "edge_weight"):
            if key in whole:
                part[key] = whole[key][edges]
        if graph.x is not None:
            part.x = _to_torch(graph.x[first:last])
        if "names" in whole:
            part.names = whole.names[first:last]
        if "y" in whole:
            per_graph = len(whole.y) == graph.num_graphs != graph.num_nodes
            part.y = whole.y[i : i + 1] if per_graph else whole.y[first:last]
        parts.append(part)
    return parts


def from_networkx(cls: type[AnyGraph], graph: nx.Graph, weight: str | None, x: str | None) -> AnyGraph:
    """Take a NetworkX graph, see `Graph.from_networkx`."""
    nodes = list(graph.nodes)
    ids = {node: i for i, node in enumerate(nodes)}
    edges = list(graph.edges(data=True))
    pairs = np.array([(ids[u], ids[v]) for u, v, _ in edges], dtype=np.int64).reshape(-1, 2)
    weighted = weight is not None and any(weight in d for _, _, d in edges)
    bare = next(((u, v) for u, v, d in edges if weighted and weight not in d), None)
    if bare is not None:
        raise GpmError(f"The edge {bare} has no {weight!r} though others have one; set it, or pass weight=None.")
    features = None
    if x is not None:
        missing = next((node for node in nodes if x not in graph.nodes[node]), None)
        if missing is not None:
            raise GpmError(f"Node {missing!r} has no attribute {x!r}; set it on every node.")
        features = np.array([graph.nodes[node][x] for node in nodes])
    return cls.from_edges(
        pairs.T,
        len(nodes),
        edge_weight=np.array([d[weight] for _, _, d in edges], dtype=float) if weighted else None,
        x=features,
        names=nodes,
        undirected=not graph.is_directed(),
        duplicates="keep" if graph.is_multigraph() else "merge",
    )


def from_scipy(
    cls: type[AnyGraph], matrix: sp.sparray | sp.spmatrix, weighted: bool | None, **options: Any
) -> AnyGraph:
    """Take a SciPy adjacency matrix, see `Graph.from_scipy`."""
    if matrix.shape[0] != matrix.shape[1]:
        raise GpmError(f"An adjacency matrix must be square, got {matrix.shape[0]} x {matrix.shape[1]}.")
    coo = sp.coo_array(matrix)
    use = weighted if weighted is not None else bool((coo.data != 1).any())
    weight = {"edge_weight": coo.data.astype(float)} if use else {}
    return cls.from_edges(np.stack([coo.row, coo.col]), matrix.shape[0], **(weight | options))
