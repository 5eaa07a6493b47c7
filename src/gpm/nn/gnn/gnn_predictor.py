"""A message-passing network with the graph it reads: instances in, logits out, as for the pattern machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from tqdm.auto import tqdm

from gpm.config import Config
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.feature_map import FeatureTable, InputSpec
from gpm.nn.gnn.network import LAYERS, GraphNetwork, Level, Network
from gpm.nn.gnn.subgraph import IncomingEdges, Subgraph
from gpm.nn.predictor import evaluating, make_table, nodes_of

ENTRIES = 1 << 18  # nodes and edges in one forward pass over graphs: bounds memory
ATTENTION = 16  # pairs of nodes that attend to each other and cost as much as an entry
ROWS = 1 << 16  # nodes or pairs that the head reads at a time


def make_network(
    config: Config,
    inputs: InputSpec,
    outputs: int,
    level: Level,
    kind: Network | None = None,
    layers: int | None = None,
) -> GraphNetwork:
    """The network that reads such inputs, with fresh weights; see `NetworkPredictor.build`."""
    if layers is None:
        layers = config.layers if (config.layers or 0) > 1 else LAYERS[level]
    name = cast(Network, config.model) if kind is None else kind
    return GraphNetwork(name, inputs, config, outputs, level, layers)


@dataclass(frozen=True, eq=False)
class NetworkPredictor:
    """Network, features and edges of one graph or collection.

    Attributes:
        model: The network.
        table: The graph's features.
        edges: The edges that messages pass over.
        hide: In training, no message passes over the links of the batch: what is learned is then what is left where the
            links are not known. A batch must be small beside the graph, or there is nothing left to hear.
        embedded: The embeddings of all nodes, where they were made ahead, see `look_ahead`.
    """

    model: GraphNetwork
    table: FeatureTable
    edges: IncomingEdges
    hide: bool = True
    embedded: Tensor | None = None

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
        kind: Network | None = None,
        layers: int | None = None,
        hide: bool = True,
        seen: NDArray | None = None,
    ) -> NetworkPredictor:
        """Make a network for a graph, with fresh weights; its statistics are found unless `inputs` is given.

        Args:
            config: The options.
            graph: What is read.
            outputs: C, the classes or targets.
            level: What is predicted.
            inputs: What a trained network reads.
            device: Where it runs.
            kind: The network; by default the options' model.
            layers: Of message passing; by default those of the options if more than one, else 2 for nodes and links
                and 4 for graphs.
            hide: Hide the links of a batch in training.
            seen: Of a collection, the graphs that statistics may be taken from; by default all.
        """
        table = make_table(config, graph, inputs, device)
        table = table.take(torch.arange(table.num_nodes)) if table.lazy else table  # it reads the whole graph at once
        part = table if seen is None else table.restrict(graph, nodes_of(graph, seen))
        model = make_network(config, inputs or part.spec(), outputs, level, kind, layers).to(device)
        if inputs is None:
            model.fit(part)
        return cls(model, table, IncomingEdges.of(graph), hide)

    @property
    def device(self) -> torch.device:
        """Where the network runs."""
        return self.model.input_map.bias.device

    @cached_property
    @torch.inference_mode(False)
    def whole(self) -> Subgraph:
        """All nodes and edges, on the device."""
        return self.edges.cut(np.arange(self.edges.num_graphs), self.device)

    def prepare(self, inputs: Tensor, turn: int, rows: Tensor | None = None) -> tuple[Tensor, dict[str, float]]:
        """A network reads instances as they are."""
        return inputs, {}

    def compute(self, content: Tensor, model: nn.Module | None = None) -> Tensor:
        """Logits of a training step, with gradients."""
        return self.learn(content, 0, model)

    def learn(self, inputs: Tensor, turn: int, model: nn.Module | None = None) -> Tensor:
        """Logits `[B, C]` of nodes `[B]`, graphs `[B]` or pairs `[B, 2]` in a training step.

        Nodes and links are read from a pass over the whole graph; `turn` is for what samples, which a network does not.
        """
        network = self.model if model is None else model
        network.train()
        chosen = self._check(inputs)
        if self.model.level == "graph":
            return cast(Tensor, network(self.table, self.edges.cut(chosen, self.device)))
        instances = torch.from_numpy(chosen).to(self.device)
        heard = self.whole.hide(instances) if self.hide and self.model.level == "link" else self.whole
        return cast(Tensor, network(self.table, heard, instances))

    @torch.inference_mode()
    def logits(
        self,
        inputs: Tensor | NDArray,
        *,
        patterns: int | None = None,
        model: nn.Module | None = None,
        progress: bool = False,
    ) -> Tensor:
        """Logits `[B, C]` of nodes, graphs or pairs, on the host; nodes are embedded once for all of them.

        `patterns` is for what samples, which a network does not.
        """
        chosen = self._check(inputs)
        logits = torch.zeros(len(chosen), self.model.outputs)
        network = cast(GraphNetwork, self.model if model is None else model)
        with (
            evaluating(network),
            tqdm(total=len(chosen), unit=self.model.level, disable=None if progress else True, leave=False) as bar,
        ):
            for places, found in self._read(network, chosen):
                logits[places] = found.float().cpu()
                bar.update(len(found))
        return logits

    @torch.inference_mode()
    def embed(self, model: nn.Module | None = None) -> Tensor:
        """Embeddings of all nodes `[N, d]`."""
        network = cast(GraphNetwork, self.model if model is None else model)
        with evaluating(network):
            return network.embed(self.table, self.whole)

    def look_ahead(self, total: int, patterns: int | None = None) -> NetworkPredictor:
        """The same, with the embeddings of all nodes, for those who ask for a few of `total` instances at a time."""
        return self if self.model.level == "graph" or not total else replace(self, embedded=self.embed())

    def count_together(self, patterns: int | None = None) -> int:
        """How many instances the head reads at a time; graphs are read by their sizes, not in turn: of them it is 1."""
        return 1 if self.model.level == "graph" else ROWS

    def _read(self, network: GraphNetwork, chosen: NDArray) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits batch by batch, with the places of their instances."""
        if self.model.level == "graph":
            for part in self._share_out(chosen):
                yield torch.from_numpy(part), network(self.table, self.edges.cut(chosen[part], self.device))
        elif len(chosen):
            ahead = self.embedded if network is self.model else None
            h = network.embed(self.table, self.whole) if ahead is None else ahead
            for first in range(0, len(chosen), ROWS):
                part = chosen[first : first + ROWS]
                places = torch.arange(first, first + len(part))
                yield places, network.read(h, torch.from_numpy(part).to(self.device))

    def _share_out(self, graphs: NDArray) -> list[NDArray]:
        """Places of graphs in batches of bounded cost, those of like size together."""
        nodes, edges = self.edges.sizes(graphs)
        order = np.argsort(nodes, kind="stable")
        cost = nodes + edges + (nodes**2 // ATTENTION if self.model.kind == "gps" else 0)
        first = np.flatnonzero(np.diff(np.cumsum(cost[order]) // ENTRIES, prepend=-1))
        return [order[a:b] for a, b in pairwise([*first, len(order)])]

    def _check(self, inputs: Tensor | NDArray) -> NDArray[np.int64]:
        """Instances as an array on the host, or a sentence that says what is wrong with them."""
        level = self.model.level
        array = inputs.cpu().numpy() if isinstance(inputs, Tensor) else np.asarray(inputs)
        shape, what = ((-1, 2), "pairs [B, 2]") if level == "link" else ((-1,), f"{level}s [B]")
        if not array.size:
            array = np.zeros(0, dtype=np.int64).reshape(shape)
        if array.ndim != len(shape) or array.shape[1:] != shape[1:] or not np.issubdtype(array.dtype, np.integer):
            raise GpmError(f"a {level} network reads {what} as integers, got {array.dtype} {list(array.shape)}.")
        count = self.edges.num_graphs if level == "graph" else self.table.num_nodes
        if array.size and not (array.min() >= 0 and array.max() < count):
            unit = "graphs" if level == "graph" else "nodes"
            raise GpmError(f"{unit} are numbered 0 to {count - 1}, got {array.min()} to {array.max()}.")
        return array.astype(np.int64)
