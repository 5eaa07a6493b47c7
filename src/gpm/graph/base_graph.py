"""The arrays of a graph: compressed sparse rows with features, labels and the user's own node names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from gpm.errors import GpmError
from gpm.graph import coerce, csr
from gpm.graph.coerce import Features
from gpm.graph.names import Name, Names
from gpm.io.json_schema import Count
from gpm.io.npy import freeze, thaw

SPARSE = ("indptr", "indices", "data")  # the arrays of a sparse matrix, in the order in which they are digested


@dataclass(frozen=True)
class Census:
    """Counts of the edges that a graph was built from, and what was done with them."""

    directed: bool  # some edge has no reverse
    isolated: Count  # nodes without any edge, in or out
    self_loops: Count  # input edges that are self-loops
    duplicates: Count  # input edges that repeat an earlier one
    loop_entries: Count  # self-loops among the graph's own edges
    dropped_loops: bool
    merged: bool  # the duplicates were merged
    mirrored: bool  # each edge was listed once and entered in both directions


@dataclass(frozen=True, eq=False)
class BaseGraph:
    """Nodes 0..N-1 and their out-edges; `gpm.graph.graph.Graph` adds conversions and saved folders.

    Attributes:
        indptr: Row pointers `[N+1]`, int64.
        indices: Columns `[E]`, ascending in each row; int32 while node ids fit.
        census: Counts of the edges it was built from.
        edge_ids: Row of `edge_attr` for each entry `[E]`; None if entry e has row e.
        edge_weight: Weights `[E]`, not negative; None for an unweighted graph.
        edge_cdf: Integer running sums of the weights in each row `[E]`.
        x: Node features `[N, d]`. Floats are dense or sparse, integers are categories.
        edge_attr: Edge features, by edge id.
        y: Labels, of nodes or of graphs.
        graph_ptr: `[G+1]`, graph g owns nodes `graph_ptr[g]` to `graph_ptr[g+1]`; None for a single graph.
        names: The user's node names; None if nodes have ids only.
        folder: The folder it was opened from, or None; not saved.
    """

    indptr: NDArray
    indices: NDArray
    census: Census
    edge_ids: NDArray | None = None
    edge_weight: NDArray | None = None
    edge_cdf: NDArray | None = None
    x: Features | None = None
    edge_attr: Features | None = None
    y: NDArray | None = None
    graph_ptr: NDArray | None = None
    names: Names | None = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value = value.view(np.ndarray)
                value.flags.writeable = False
                object.__setattr__(self, field.name, value)
        if self.indptr.dtype != np.int64 or self.indices.dtype not in (np.int32, np.int64):
            kinds = f"{self.indptr.dtype} and {self.indices.dtype}"
            raise GpmError(f"Row pointers must be int64 and columns int32 or int64, got {kinds}.")
        for name in ("edge_ids", "edge_weight", "edge_cdf"):
            if (values := getattr(self, name)) is not None and values.shape != self.indices.shape:
                raise GpmError(f"{name} must have one entry per edge ({self.num_edges:,}), got {list(values.shape)}.")

    def __getstate__(self) -> dict[str, Any]:
        """Pickle mapped arrays as their files, so that another process maps them again."""
        return {field.name: freeze(getattr(self, field.name)) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, thaw(value))
        self.__post_init__()

    @classmethod
    def from_edges(
        cls,
        edge_index: ArrayLike,
        num_nodes: int | None = None,
        *,
        edge_weight: ArrayLike | None = None,
        edge_attr: Any = None,
        x: Any = None,
        y: Any = None,
        names: Iterable[object] | None = None,
        graph_ptr: ArrayLike | None = None,
        undirected: bool = False,
        duplicates: Literal["merge", "keep"] = "merge",
        self_loops: Literal["keep", "drop"] = "keep",
        keep_ids: bool = False,
    ) -> Self:
        """Build a graph from a list of edges.

        Args:
            edge_index: Integers `[2, E]`: sources and targets, as in PyG (NumPy or torch).
            num_nodes: N; by default one more than the largest id.
            edge_weight: `[E]`, finite and not negative. An edge of weight 0 exists but is never walked.
            edge_attr: Features of the E edges: dense, SciPy sparse, or integer categories.
            x: Features of the N nodes, likewise.
            y: Labels of nodes or graphs.
            names: N distinct names.
            graph_ptr: `[G+1]` node ranges of a collection of graphs.
            undirected: Each edge is listed once and goes both ways.
            duplicates: "merge" keeps the first of equal edges and adds up their weights; "keep" walks them as
                parallel edges.
            self_loops: "keep" or "drop" edges from a node to itself.
            keep_ids: Keep the input edge of each entry in `edge_ids` even without `edge_attr`.
        """
        coerce.check_choice("duplicates", duplicates, ("merge", "keep"))
        coerce.check_choice("self_loops", self_loops, ("keep", "drop"))
        source, target = coerce.as_endpoints(edge_index)
        count = coerce.check_range(source, target, num_nodes)
        weight = None if edge_weight is None else coerce.as_weights(edge_weight, len(source))
        attributes = coerce.as_features(edge_attr, len(source), "edge_attr")
        with_ids = keep_ids or weight is not None or attributes is not None
        drop_loops = self_loops == "drop"
        loops = int(np.count_nonzero(source == target))
        indptr, indices, ids = csr.build(
            source, target, count, undirected=undirected, self_loops=not drop_loops, with_ids=with_ids
        )
        if weight is not None:
            weight = weight[ids]
        repeats, merged_ptr = csr.count_duplicates(indptr, indices)
        if repeats and duplicates == "merge":
            indices, ids, weight = csr.merge_duplicates(indptr, indices, ids, weight, merged_ptr)
            indptr = merged_ptr
            if weight is not None and not np.isfinite(weight).all():
                raise GpmError("The weights of equal edges add up to infinity; scale the weights down.")
        repeated_loops = 0 if drop_loops or not loops else loops - len(np.unique(source[source == target]))
        symmetric = undirected or bool(csr.is_symmetric(indptr, indices))
        census = Census(
            directed=not symmetric,
            isolated=csr.count_isolated(indptr, indices, symmetric),
            self_loops=loops,
            duplicates=(repeats + repeated_loops) // 2 if undirected else repeats,
            loop_entries=0 if drop_loops else loops - (repeated_loops if duplicates == "merge" else 0),
            dropped_loops=bool(loops and drop_loops),
            merged=bool(repeats and duplicates == "merge"),
            mirrored=undirected,
        )
        return cls(
            indptr=indptr,
            indices=indices,
            census=census,
            edge_ids=ids if keep_ids or attributes is not None else None,
            edge_weight=weight,
            edge_cdf=None if weight is None else csr.cumulate_weights(indptr, weight),
            x=coerce.as_features(x, count, "x"),
            edge_attr=attributes,
            y=None if y is None else coerce.check_labels(coerce.as_array(y), count, graph_ptr),
            graph_ptr=None if graph_ptr is None else coerce.check_graph_ptr(graph_ptr, indptr, indices),
            names=None if names is None else coerce.check_names(Names(names), count),
        )

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1

    @property
    def num_edges(self) -> int:
        """Directed edges: an undirected edge counts twice."""
        return len(self.indices)

    @property
    def num_graphs(self) -> int:
        return 1 if self.graph_ptr is None else len(self.graph_ptr) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that walks read."""
        return sum(a.nbytes for a in (self.indptr, self.indices, self.edge_cdf) if a is not None)

    @property
    def is_simple(self) -> bool:
        """True if no two edges have the same source and target."""
        return self.census.merged or self.census.duplicates == 0

    def degree(self) -> NDArray:
        """Out-degree of every node `[N]`."""
        return np.diff(self.indptr)

    def neighbors(self, node: int) -> NDArray:
        """Targets of the edges that leave a node, ascending."""
        self._check_node(node)
        return self.indices[self.indptr[node] : self.indptr[node + 1]]

    def edge_index(self) -> NDArray:
        """All edges `[2, E]` in the order of the rows, int64."""
        edges = np.empty((2, self.num_edges), dtype=np.int64)
        edges[0] = np.repeat(np.arange(self.num_nodes, dtype=self.indices.dtype), self.degree())
        edges[1] = self.indices
        return edges

    def name(self, node: int) -> Name:
        """Return a node's name, else its id; in a collection without names "graph:node", counted in the graph."""
        self._check_node(node)
        return self.names_of(np.array([node]))[0]

    def names_of(self, nodes: NDArray) -> list[Name]:
        """Return the names of many nodes, see `name`."""
        ids = np.asarray(nodes, dtype=np.int64)
        if ids.size and not 0 <= ids.min() <= ids.max() < self.num_nodes:
            raise GpmError(f"Nodes are numbered 0 to {self.num_nodes - 1}, got {ids.min()} to {ids.max()}.")
        if self.names is not None:
            return self.names.take(ids)
        if self.graph_ptr is None:
            return [*ids.tolist()]
        graphs = np.searchsorted(self.graph_ptr, ids, side="right") - 1
        offsets = ids - self.graph_ptr[graphs]
        return [f"{graph}:{offset}" for graph, offset in zip(graphs.tolist(), offsets.tolist(), strict=True)]

    def _check_node(self, node: int) -> None:
        if not 0 <= node < self.num_nodes:
            raise GpmError(f"No node {node}: nodes are numbered 0 to {self.num_nodes - 1}.")

    def find(self, name: object) -> int:
        """Return the node with a name, as `name` spells it."""
        if self.names is not None:
            return self.names.find(name)
        text = str(name)
        node = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
        if self.graph_ptr is not None and (pair := re.fullmatch(r"(\d{1,18}):(\d{1,18})", text)):
            graph = min(int(pair[1]), self.num_graphs)
            node = int(self.graph_ptr[graph]) + int(pair[2])
            return node if node < self.num_nodes and self.name(node) == text else self._unknown(name)
        if not 0 <= node < self.num_nodes or str(node) != text:
            return self._unknown(name)
        return node

    def _unknown(self, name: object) -> NoReturn:
        if self.graph_ptr is not None:
            raise GpmError(f"No node {name!r}: write graph:node, as in '0:0', with graphs 0 to {self.num_graphs - 1}.")
        raise GpmError(f"No node {name!r}: this graph's nodes are numbered 0 to {self.num_nodes - 1}.")

    def summary(self) -> str:
        """Describe in one line the size of the graph and the edges it was built from."""
        c, count = self.census, self.num_edges
        edges = f"{count:,} directed" if c.directed else f"{(count + c.loop_entries) // 2:,} undirected"
        parts = [f"{self.num_nodes:,} nodes", f"{edges} edges", f"{c.isolated:,} isolated"]
        parts.append(f"{c.self_loops:,} self-loops" + (" (dropped)" if c.dropped_loops else ""))
        handled = " (merged)" if c.merged else " (kept)"
        parts.append(f"{c.duplicates:,} duplicates" + (handled if c.duplicates else ""))
        if self.graph_ptr is not None:
            parts.insert(0, f"{self.num_graphs:,} graphs")
        if self.edge_weight is not None:
            parts.append("weighted")
        if self.x is not None:
            parts.append(f"{self.x.shape[1]:,} {_kind(self.x)}")
        return ", ".join(parts)

    def arrays(self) -> dict[str, NDArray]:
        """Return every array of the graph under the name that its file has in a graph folder."""
        arrays: dict[str, NDArray] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if sp.issparse(value):
                arrays |= {f"{field.name}.{part}": getattr(value, part) for part in SPARSE}
            elif isinstance(value, Names):
                arrays |= {f"{field.name}.{key}": array for key, array in sorted(value.arrays().items())}
            elif isinstance(value, np.ndarray):
                arrays[field.name] = value
        return arrays

    def __repr__(self) -> str:
        return f"Graph({self.summary()})"


def _kind(features: Features) -> str:
    if sp.issparse(features):
        return "sparse features"
    return "categories" if np.issubdtype(features.dtype, np.integer) else "features"
