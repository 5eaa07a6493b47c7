"""The edges that messages pass over, by target node, of a graph or of some graphs of a collection."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn import functional

from gpm.errors import GpmError
from gpm.graph import csr
from gpm.graph.graph import Graph

MANY = 16  # components from which a graph is read as a collection of them


@dataclass(frozen=True, eq=False)
class Subgraph:
    """Nodes that exchange messages, as compressed rows of incoming edges.

    Its matrices are computed on first use and kept, never as inference tensors, which have no gradient later.
    """

    nodes: Tensor  # rows of the feature table (n)
    indptr: Tensor  # row pointers (n+1): node i receives from `sources[indptr[i]:indptr[i+1]]`
    sources: Tensor  # indices in `nodes` (E)
    edge_ids: Tensor | None = None  # None if edges have no features
    edge_weight: Tensor | None = None
    batch: Tensor | None = None  # the graph of each node, ascending from 0 (n); None for a single graph
    num_graphs: int = 1

    @cached_property
    @torch.inference_mode(False)
    def edge_index(self) -> Tensor:
        """Edges `[2, E]` as in PyG: from row 0 to row 1."""
        targets = torch.arange(len(self.nodes), device=self.nodes.device)
        return torch.stack([self.sources, torch.repeat_interleave(targets, torch.diff(self.indptr))])

    @cached_property
    @torch.inference_mode(False)
    def adjacency(self) -> Tensor:
        """A sparse matrix whose entry (i, j) is 1 for an edge from j to i: several times faster than an edge list."""
        return _make_sparse(self.indptr, self.sources, torch.ones(len(self.sources), device=self.sources.device))

    @cached_property
    @torch.inference_mode(False)
    def normalised(self) -> Tensor:
        r"""The sparse matrix :math:`D^{-1/2} (A + I) D^{-1/2}`, A with the weights of the edges."""
        from torch_geometric.nn.conv.gcn_conv import gcn_norm

        count = len(self.nodes)
        (source, target), weight = gcn_norm(self.edge_index, self.edge_weight, count)
        order = torch.argsort(target, stable=True)
        indptr = functional.pad(torch.cumsum(torch.bincount(target, minlength=count), 0), (1, 0))
        return _make_sparse(indptr, source[order], weight[order])

    @cached_property
    @torch.inference_mode(False)
    def _keys(self) -> Tensor:
        source, target = self.edge_index
        return source * len(self.nodes) + target

    def hide(self, pairs: Tensor) -> Subgraph:
        """Return the same nodes without the edges between some pairs `[B, 2]`, in both directions."""
        one, two = pairs.t()
        hidden = torch.cat([one * len(self.nodes) + two, two * len(self.nodes) + one]).sort().values
        if not len(hidden):
            return self
        index = torch.searchsorted(hidden, self._keys).clamp(max=len(hidden) - 1)
        edges = hidden[index] != self._keys
        before = functional.pad(torch.cumsum(edges, 0), (1, 0))
        return replace(
            self,
            indptr=before[self.indptr],
            sources=self.sources[edges],
            edge_ids=None if self.edge_ids is None else self.edge_ids[edges],
            edge_weight=None if self.edge_weight is None else self.edge_weight[edges],
        )


def _make_sparse(indptr: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    size = (len(indptr) - 1, len(indptr) - 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(indptr, columns, values, size, check_invariants=False)


@dataclass(frozen=True, eq=False)
class IncomingEdges:
    """The edges of a graph or collection by target node, on the host.

    A single graph of many connected components that are ranges of node ids, such as trees one after the other, counts
    as a collection of them: messages never leave one.
    """

    indptr: NDArray  # row pointers (N+1)
    sources: NDArray  # source nodes of the edges (E), ascending in each row
    graph_ptr: NDArray  # graph g owns nodes `graph_ptr[g]` to `graph_ptr[g+1]`
    edge_ids: NDArray | None = None  # None if edges have no features
    edge_weight: NDArray | None = None

    @classmethod
    def of(cls, graph: Graph) -> IncomingEdges:
        """Transpose the rows of a graph, which hold the edges that leave a node."""
        source, target = graph.edge_index()
        indptr, sources, entries = csr.build(
            target, source, graph.num_nodes, undirected=False, self_loops=True, with_ids=True
        )
        assert entries is not None
        ids = entries if graph.edge_ids is None else graph.edge_ids[entries]
        return cls(
            indptr=indptr,
            sources=sources,
            graph_ptr=find_ranges(indptr, sources) if graph.graph_ptr is None else graph.graph_ptr,
            edge_ids=None if graph.edge_attr is None else ids,
            edge_weight=None if graph.edge_weight is None else graph.edge_weight[entries].astype(np.float32),
        )

    @property
    def num_graphs(self) -> int:
        return len(self.graph_ptr) - 1

    def sizes(self, graphs: NDArray) -> tuple[NDArray, NDArray]:
        """Return the numbers of nodes and edges of some graphs, `[B]` each."""
        first, last = self.graph_ptr[graphs], self.graph_ptr[graphs + 1]
        return last - first, self.indptr[last] - self.indptr[first]

    def graphs_of(self, nodes: NDArray) -> NDArray[np.int64]:
        """Return the graph of each node."""
        return np.asarray(np.searchsorted(self.graph_ptr, nodes, side="right") - 1)

    def cut_around(self, nodes: NDArray, device: torch.device | str = "cpu") -> tuple[Subgraph, Tensor]:
        """Return the graphs of some nodes as one subgraph, and the indices of these nodes in it."""
        graphs, which = np.unique(self.graphs_of(nodes), return_inverse=True)
        sizes = self.sizes(graphs)[0]
        index = nodes - self.graph_ptr[graphs][which] + (np.cumsum(sizes) - sizes)[which]
        return self.cut(graphs, device), torch.from_numpy(index).to(device)

    def cut(self, graphs: NDArray, device: torch.device | str = "cpu") -> Subgraph:
        """Return some graphs as one subgraph, in that order, repeated if an index is repeated."""
        nodes_in, edges_in = self.sizes(graphs)
        if (nodes_in == 0).any():
            raise GpmError(f"Graph {graphs[np.argmin(nodes_in)]} has no nodes to read; leave it out.")
        first = self.graph_ptr[graphs]
        nodes = _join_ranges(first, nodes_in)
        entries = _join_ranges(self.indptr[first], edges_in)
        moved = np.cumsum(nodes_in) - nodes_in - first  # index in the subgraph minus node id
        arrays = {
            "nodes": nodes,
            "indptr": np.concatenate([[0], np.cumsum(self.indptr[nodes + 1] - self.indptr[nodes])]),
            "sources": self.sources[entries] + np.repeat(moved, edges_in),
            "edge_ids": None if self.edge_ids is None else self.edge_ids[entries].astype(np.int64),
            "edge_weight": None if self.edge_weight is None else self.edge_weight[entries],
            "batch": None if len(graphs) == 1 else np.repeat(np.arange(len(graphs)), nodes_in),
        }
        tensors = {k: torch.from_numpy(np.ascontiguousarray(v)).to(device) for k, v in arrays.items() if v is not None}
        return Subgraph(**tensors, num_graphs=len(graphs))


def find_ranges(indptr: NDArray, sources: NDArray) -> NDArray[np.int64]:
    """Return the row pointers of the components `[K+1]`, or of all nodes if they are few or no ranges of ids."""
    count = len(indptr) - 1
    ones = np.ones(len(sources), dtype=np.int8)
    _, component = connected_components(sp.csr_array((ones, sources, indptr), shape=(count, count)), directed=False)
    changes = np.flatnonzero(np.diff(component)) + 1
    if len(changes) < MANY or len(changes) != component.max():
        return np.array([0, count])
    return np.concatenate([[0], changes, [count]])


def _join_ranges(first: NDArray, counts: NDArray) -> NDArray[np.int64]:
    """Concatenate the ranges that start at `first[i]` and have `counts[i]` entries."""
    offsets = np.cumsum(counts) - counts
    return np.repeat(first - offsets, counts) + np.arange(int(counts.sum()))
