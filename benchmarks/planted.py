"""Graphs in which motifs of one kind are planted, those of PyG's explainer datasets; and how well scores find them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse import csgraph
from scipy.stats import rankdata
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.datasets import ExplainerDataset
from torch_geometric.datasets.graph_generator import BAGraph
from torch_geometric.datasets.motif_generator import CycleMotif, GridMotif, HouseMotif

from gpm import Graph

MOTIFS = {"house": HouseMotif(), "cycle": CycleMotif(6), "grid": GridMotif()}
BASE, EDGES, COUNT = 300, 5, 80  # nodes of the base, edges that each of them brings, and motifs
LEAST_HOPS = 3


@dataclass(frozen=True, eq=False)
class Planted:
    """A base that grows by preferential attachment, and motifs that hang on it by one edge each.

    Attributes:
        edge_index: Edges in both directions `[2, 2E]`.
        y: What part of which motif a node is `[N]`; 0 for the base.
        owner: The number of the motif that a node belongs to `[N]`; -1 for the base.
    """

    edge_index: Tensor
    y: Tensor
    owner: NDArray[np.int64]

    @classmethod
    def of(cls, data: Data) -> Planted:
        """What PyG has made: `edge_mask` says which edges are of motifs, and `node_mask` which nodes."""
        n = data.num_nodes
        inside = data.edge_index[:, data.edge_mask > 0].numpy()
        _, part = csgraph.connected_components(_matrix(inside, n), directed=False)
        owner = np.where(data.node_mask.numpy() > 0, part, -1)
        return cls(data.edge_index, data.y, owner)

    @property
    def num_nodes(self) -> int:
        return len(self.owner)

    @cached_property
    def graph(self) -> Graph:
        """The same for GPM: every node has the feature 1, so only the structure tells."""
        x = np.ones((self.num_nodes, 1), dtype=np.float32)
        return Graph.from_edges(self.edge_index, self.num_nodes, y=self.y.numpy(), x=x)

    @cached_property
    def _once(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        edges, place = np.unique(np.sort(self.edge_index.numpy().T, axis=1), axis=0, return_inverse=True)
        return edges, place.ravel()

    @property
    def edges(self) -> NDArray[np.int64]:
        """Every edge once, the smaller node first `[E, 2]`."""
        return self._once[0]

    def hops(self, node: int) -> NDArray:
        """How far all nodes are from one `[N]`."""
        return np.asarray(
            csgraph.dijkstra(_matrix(self.edge_index.numpy(), self.num_nodes), indices=node, unweighted=True)
        )

    def join(self, mask: NDArray, how: str) -> NDArray:
        """One score per edge `[E]` of those of its two directions `[2E]`: their mean, or the larger."""
        place, joined = self._once[1], np.zeros(len(self.edges))
        if how == "mean":
            np.add.at(joined, place, mask)
            return joined / 2
        np.maximum.at(joined, place, mask)
        return joined

    def spread(self, weights: dict[tuple[int, int], float]) -> NDArray:
        """Scores of some edges as scores of all `[E]`; the others have 0."""
        return np.array([weights.get((a, b), 0.0) for a, b in self.edges.tolist()])

    def candidates(self, node: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The edges around a node of a motif `[E]`, and which of all edges are of its motif `[E]`.

        They are those among the nodes within k hops, where k is the smallest, from 3 on, that leaves edges to be told
        from the motif's.
        """
        inside = (self.owner[self.edges] == self.owner[node]).all(1)
        far = self.hops(node)[self.edges].max(1)
        k = next(k for k in count(LEAST_HOPS) if (near := far <= k).all() or not inside[near].all())
        return far <= k, inside

    def auc(self, node: int, scores: NDArray) -> float:
        """How well scores of the edges `[E]` tell the node's motif from what is around it."""
        near, inside = self.candidates(node)
        return auc(inside[near], scores[near])


def plant(motif: str, seed: int) -> Planted:
    """PyG's graph of a seed."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  what PyG and networkx draw with
    torch.manual_seed(seed)
    return Planted.of(ExplainerDataset(BAGraph(BASE, EDGES), MOTIFS[motif], num_motifs=COUNT)[0])


def auc(truth: NDArray[np.bool_], scores: NDArray) -> float:
    """The chance that a true one has a higher score than a false one; of equal scores, one half."""
    ranks, true, false = rankdata(scores), int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - true * (true + 1) / 2) / (true * false))


def _matrix(edge_index: NDArray, n: int) -> sp.csr_array:
    return sp.csr_array((np.ones(edge_index.shape[1]), tuple(edge_index)), shape=(n, n))
