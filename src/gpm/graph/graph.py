"""Graph: one graph, or a collection of graphs, as compressed sparse rows with features and the user's own names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp

from gpm.graph.base_graph import BaseGraph, Census

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

__all__ = ["Census", "Graph"]


class Graph(BaseGraph):
    """Nodes 0..N-1 and their out-edges. Immutable: its arrays are read-only, in memory or mapped from disk.

    Build one with `from_edges`, `from_pyg`, `from_networkx`, `from_scipy` or `open`. `BaseGraph` lists its arrays.
    """

    @classmethod
    def from_pyg(cls, data: Data | list[Data], **options: Any) -> Graph:
        """Take a PyG `Data`, a list of them, a `Batch`, a `Dataset`, or torch's `ConcatDataset` of several.

        `x`, `edge_index`, `edge_attr`, `edge_weight`, `y`, `num_nodes`, `names` and, for a collection, `ptr` are read.
        The names of a collection are not. `options` are those of `from_edges` and win over what the data holds.
        """
        from gpm.graph.convert import from_pyg

        return from_pyg(cls, data, **options)

    @classmethod
    def from_networkx(cls, graph: nx.Graph, *, weight: str | None = "weight", x: str | None = None) -> Graph:
        """Take a NetworkX graph of any kind; its nodes become the names.

        Args:
            graph: Directed or not, with parallel edges or not.
            weight: Edge attribute to use as weight if the edges have it; None for an unweighted graph.
            x: Node attribute to use as features: a number or a list of numbers on every node.
        """
        from gpm.graph.convert import from_networkx

        return from_networkx(cls, graph, weight, x)

    @classmethod
    def from_scipy(cls, matrix: sp.sparray | sp.spmatrix, *, weighted: bool | None = None, **options: Any) -> Graph:
        """Take a square SciPy sparse matrix: the stored entry (i, j) is the edge from i to j.

        Args:
            matrix: Any sparse format.
            weighted: Use the values as weights; by default when they are not all 1.
            options: Those of `from_edges`.
        """
        from gpm.graph.convert import from_scipy

        return from_scipy(cls, matrix, weighted, **options)

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool | None = None) -> Graph:
        """Open a saved graph; its arrays stay on disk until they are used.

        Args:
            folder: A folder that `save` wrote.
            verify: Read every byte and compare checksums. By default for graphs below 64 MB; for larger ones the
                header, the sizes and 64 pieces of every file are checked, which takes milliseconds at any size. A large
                graph that was neither written nor opened on this computer before is read once.
        """
        from gpm.graph.folder import open_graph

        return open_graph(cls, Path(folder), verify=verify)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the graph as a folder of `.npy` files and a JSON header. See `gpm.graph.folder.save_graph`."""
        from gpm.graph.folder import save_graph

        return save_graph(self, Path(folder), overwrite=overwrite)

    def to_pyg(self) -> Data | list[Data]:
        """Return a PyG `Data` (edges in the order of the rows), or a list of them for a collection of graphs.

        Node names, where there are some, are `data.names`, a list.
        """
        from gpm.graph.convert import to_pyg

        return to_pyg(self)
