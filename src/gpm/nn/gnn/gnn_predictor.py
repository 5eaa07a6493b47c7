"""A message-passing network with the graph it reads: instances in, logits out, as for the pattern machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from gpm.config import Config
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.expected_table import Answers, spread_answers
from gpm.nn.feature_table import FeatureTable, InputSpec, nodes_of
from gpm.nn.gnn.network import GraphNetwork, Level, Network, usual_layers
from gpm.nn.gnn.subgraph import IncomingEdges, Subgraph
from gpm.nn.predictor import Predicts, evaluating, show_progress
from gpm.random_bits import mix_array

ENTRIES = 1 << 18  # nodes and edges in one forward pass over graphs: bounds memory
ATTENTION = 16  # pairs of nodes in attention that cost as much as one node or edge
ROWS = 1 << 16  # nodes or pairs that the head reads at a time
FOLDS = 4  # parts in which the labels of training nodes are hidden to predict these nodes


def make_network(
    config: Config, inputs: InputSpec, outputs: int, level: Level, layers: int | None = None
) -> GraphNetwork:
    """Make the network that reads such inputs, with fresh weights; see `NetworkPredictor.build`."""
    if layers is None:
        layers = config.layers if (config.layers or 0) > 1 else usual_layers(config.model, level)
    return GraphNetwork(cast(Network, config.model), inputs, config, outputs, level, layers)


def reads_labels(config: Config, level: str) -> bool:
    """Return whether a network reads known labels: those of other nodes, which do not reach a perceptron."""
    return config.labels == "on" and level == "node" and config.model != "mlp"


@dataclass(frozen=True, eq=False)
class NetworkPredictor(Predicts):
    """Network, features and edges of one graph or collection.

    If links are hidden, no message passes over the links of a training batch, so that the network learns to predict
    links that are not in the graph. A batch must be small compared with the graph, or few edges are left.

    Known labels are inputs of their nodes, and must be hidden where these nodes are predicted: a training step hides
    the labels of its batch. In inference all are shown, and a node that has one is embedded by another pass, without
    the labels of its fold.
    """

    model: GraphNetwork
    table: FeatureTable
    edges: IncomingEdges
    hide: bool = True
    embedded: Tensor | None = None  # embeddings of all nodes, see `look_ahead`

    @classmethod
    def build(
        cls,
        config: Config,
        graph: Graph,
        outputs: int,
        level: Level,
        *,
        inputs: InputSpec | None = None,
        device: torch.device | str = "cpu",
        layers: int | None = None,
        hide: bool = True,
        seen: NDArray | None = None,
        answers: Answers | None = None,
    ) -> NetworkPredictor:
        """Make a network for a graph, with fresh weights; see `Predictor.build` for the arguments.

        Layers of message passing are by default those of the options if more than one, else `usual_layers`.
        """
        table = FeatureTable.build(config, graph, inputs, device)
        table = table.take(torch.arange(table.num_nodes)) if table.lazy else table  # the network reads all of it
        if reads_labels(config, level) if inputs is None else inputs.label_dim:
            assert answers is not None
            table.show_labels(*spread_answers(answers, graph.num_nodes))
        part = table if seen is None else table.restrict(graph, nodes_of(graph, seen))
        model = make_network(config, inputs or part.spec(), outputs, level, layers).to(device)
        if inputs is None:
            model.input_map.fit(part, config.scale_inputs)
        return cls(model, table, IncomingEdges.of(graph), hide)

    @property
    def _in_parts(self) -> bool:
        """Whether nodes are read with their component alone: there are several, and no labels are passed on."""
        return self.model.level == "node" and self.edges.num_graphs > 1 and self.table.label is None

    @cached_property
    @torch.inference_mode(False)
    def whole(self) -> Subgraph:
        """All nodes and edges, on the device."""
        return self.edges.cut(np.arange(self.edges.num_graphs), self.device)

    def prepare(self, inputs: Tensor, turn: int, rows: Tensor | None = None) -> tuple[Tensor, dict[str, float]]:
        """Return the instances: a network samples nothing, and reads them as they are."""
        return inputs, {}

    def compute(self, content: Tensor, model: nn.Module | None = None) -> Tensor:
        """Return the logits of a training step, with gradients.

        Nodes need a pass over the components that they belong to, links over the whole graph.
        """
        network = self.model if model is None else model
        network.train()
        chosen = self._check(content)
        if self.model.level == "graph":
            return cast(Tensor, network(self.table, self.edges.cut(chosen, self.device)))
        instances = torch.from_numpy(chosen).to(self.device)
        table = self.table if self.table.label is None else self.table.hide_labels(instances)
        if self._in_parts and len(np.unique(self.edges.graphs_of(chosen))) < self.edges.num_graphs:
            return cast(Tensor, network(table, *self.edges.cut_around(chosen, self.device)))
        visible = self.whole.hide(instances) if self.hide and self.model.level == "link" else self.whole
        return cast(Tensor, network(table, visible, instances))

    @torch.inference_mode()
    def logits(self, inputs: Any, *, patterns: int | None = None, model: Any = None, progress: bool = False) -> Tensor:
        """Return the logits `[B, C]` on the host; nodes are embedded once for all instances, `patterns` is ignored.

        Nodes of a graph of many components are read in batches of these.
        """
        chosen, level, h = self._check(inputs), self.model.level, None
        logits = torch.zeros(len(chosen), self.model.outputs)
        network = cast(GraphNetwork, self.model if model is None else model)
        if not len(chosen):
            return logits
        if level == "graph":
            batches = self._share_out(chosen)
        elif self._in_parts:
            batches = self._share_out_nodes(chosen)
        else:
            batches = np.split(np.arange(len(chosen)), range(ROWS, len(chosen), ROWS))
            fresh = self.embedded is None or network is not self.model
            h = self.embed(network, chosen if level == "node" else None) if fresh else self.embedded
        with evaluating(network):
            for rows in show_progress(batches, len(chosen), level, progress):
                if self._in_parts:
                    found = network(self.table, *self.edges.cut_around(chosen[rows], self.device))
                elif h is None:
                    found = network(self.table, self.edges.cut(chosen[rows], self.device))
                else:
                    found = network.read(h, torch.from_numpy(chosen[rows]).to(self.device))
                logits[rows] = found.float().cpu()
        return logits

    @torch.inference_mode()
    def embed(self, model: nn.Module | None = None, nodes: NDArray | None = None) -> Tensor:
        """Return the embeddings of all nodes `[N, d]`; without their own labels those of `nodes`, by default of all."""
        network = cast(GraphNetwork, self.model if model is None else model)
        with evaluating(network):
            h = network.embed(self.table, self.whole)
            for fold in self._fold_known(nodes):
                h[fold] = network.embed(self.table.hide_labels(fold), self.whole)[fold]
        return h

    def _fold_known(self, nodes: NDArray | None) -> list[Tensor]:
        """Return the nodes with known labels by folds, which depend on ids alone; only folds with one of `nodes`."""
        if self.table.label is None:
            return []
        known = np.flatnonzero((self.table.label[:, -1] > 0).cpu().numpy())
        fold = mix_array(known.astype(np.uint64)) % np.uint64(FOLDS)
        asked = np.unique(fold if nodes is None else fold[np.isin(known, nodes)])
        return [torch.from_numpy(known[fold == each]).to(self.device) for each in asked]

    def look_ahead(self, total: int, patterns: int | None = None) -> NetworkPredictor:
        """Return a predictor with the embeddings of all nodes."""
        if self.model.level == "graph" or self._in_parts or not total:
            return self
        return replace(self, embedded=self.embed())

    def count_together(self, patterns: int | None = None) -> int:
        """Return how many instances the head reads at a time; 1 for graphs, which are batched by size."""
        return 1 if self.model.level == "graph" else ROWS

    def _share_out(self, graphs: NDArray) -> list[NDArray]:
        """Return the indices of graphs in batches of bounded cost, graphs of similar size together."""
        nodes, edges = self.edges.sizes(graphs)
        order = np.argsort(nodes, kind="stable")
        cost = nodes + edges + (nodes**2 // ATTENTION if self.model.kind == "gps" else 0)
        first = np.flatnonzero(np.diff(np.cumsum(cost[order]) // ENTRIES, prepend=-1))
        return [order[a:b] for a, b in pairwise([*first, len(order)])]

    def _share_out_nodes(self, nodes: NDArray) -> list[NDArray]:
        """Return the indices of nodes in batches of bounded cost, those of one component together."""
        graphs, which = np.unique(self.edges.graphs_of(nodes), return_inverse=True)
        batch = np.empty(len(graphs), dtype=np.int64)
        for number, some in enumerate(self._share_out(graphs)):
            batch[some] = number
        order = np.argsort(batch[which], kind="stable")
        return np.split(order, np.flatnonzero(np.diff(batch[which][order])) + 1)

    def _check(self, inputs: Tensor | NDArray) -> NDArray[np.int64]:
        """Return instances as an array on the host, or say what is wrong with them."""
        level = self.model.level
        array = inputs.cpu().numpy() if isinstance(inputs, Tensor) else np.asarray(inputs)
        shape, what = ((-1, 2), "pairs [B, 2]") if level == "link" else ((-1,), f"{level}s [B]")
        if not array.size:
            array = np.zeros(0, dtype=np.int64).reshape(shape)
        if array.ndim != len(shape) or array.shape[1:] != shape[1:] or not np.issubdtype(array.dtype, np.integer):
            raise GpmError(f"A {level} network reads {what} as integers, got {array.dtype} {list(array.shape)}.")
        count = self.edges.num_graphs if level == "graph" else self.table.num_nodes
        if array.size and not (array.min() >= 0 and array.max() < count):
            unit = "Graphs" if level == "graph" else "Nodes"
            raise GpmError(f"{unit} are numbered 0 to {count - 1}, got {array.min()} to {array.max()}.")
        return array.astype(np.int64)
