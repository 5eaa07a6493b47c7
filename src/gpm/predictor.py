"""A model with the graph it reads: instances in, logits out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from gpm.config import Config
from gpm.graph import Graph
from gpm.nn import FeatureTable, GraphPatternMachine, InputSpec, Output
from gpm.nn.paths import NodeMaps
from gpm.patterns import Tokenizer
from gpm.positional import embed_positions

MOST_MAPS = 1 << 30  # bytes that the maps of all nodes may take in inference
POSITIONS = 300_000  # of paths in one forward pass: bounds memory whatever the number of patterns


@dataclass(frozen=True, eq=False)
class Predictor:
    """Tokenizer, features and model of one graph.

    Attributes:
        model: The model.
        tokenizer: Draws the patterns of the graph's nodes.
        table: The graph's features.
    """

    model: GraphPatternMachine
    tokenizer: Tokenizer
    table: FeatureTable

    @classmethod
    def build(
        cls,
        config: Config,
        graph: Graph,
        outputs: int,
        *,
        inputs: InputSpec | None = None,
        device: torch.device | str = "cpu",
    ) -> Predictor:
        """Make a model for a graph, with fresh weights; its statistics are found unless `inputs` is given."""
        wanted = {"auto": None, "yes": True, "no": False}[config.bag_of_words] if inputs is None else inputs.bags
        table = FeatureTable(graph, embed_positions(graph, config.pe, config.pe_dim), device, bags=wanted)
        if inputs is not None:
            table.check(inputs)
        tokenizer = Tokenizer(
            graph, lengths=config.lengths, pool=config.pool, topology=config.topology, seed=config.seed,
            rule=config.rule, device=device,
        )  # fmt: skip
        model = GraphPatternMachine(inputs or table.spec(), config, outputs, max(config.lengths), config.topology)
        model = model.to(device)
        if inputs is None:
            model.fit(table, tokenizer)
        return cls(model, tokenizer, table)

    def map_nodes(self, model: GraphPatternMachine, patterns: int) -> NodeMaps | None:
        """The maps of all nodes, if so many patterns are to be read that it pays and they fit into memory."""
        positions = patterns * (sum(self.tokenizer.lengths) / len(self.tokenizer.lengths) + 1)
        options = model.options
        size = 4 * (4 + 2 * options.path_ffn) * self.table.num_nodes * (options.width or 0)
        return model.map_all_nodes(self.table) if positions > self.table.num_nodes and size < MOST_MAPS else None

    @torch.inference_mode()
    def outputs(
        self, nodes: NDArray, *, patterns: int | None = None, turn: int = 0, progress: bool = False
    ) -> Iterator[Output]:
        """What the model says of some nodes, batch by batch, from all k patterns or from fewer."""
        count = self.tokenizer.pool if patterns is None else patterns
        size = max(1, POSITIONS // (count * (max(self.tokenizer.lengths) + 1)))
        mode = self.model.training
        self.model.eval()
        try:
            maps = self.map_nodes(self.model, count * len(nodes))
            with tqdm(total=len(nodes), unit="node", disable=None if progress else True, leave=False) as bar:
                for first in range(0, len(nodes), size):
                    chosen = nodes[first : first + size]
                    yield self.model(self.tokenizer.nodes(chosen, count=count, turn=turn), self.table, maps)
                    bar.update(len(chosen))
        finally:
            self.model.train(mode)

    def logits(self, nodes: NDArray, *, patterns: int | None = None, progress: bool = False) -> Tensor:
        """Logits `[B, C]` of some nodes, on the host."""
        parts = [
            out.logits.float().cpu() for out in self.outputs(np.asarray(nodes), patterns=patterns, progress=progress)
        ]
        return torch.cat(parts) if parts else torch.zeros(0, self.model.head.out_features)
