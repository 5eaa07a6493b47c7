"""The Neural Graph Pattern Machine: patterns in, logits and pattern weights out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from gpm.config import ModelOptions
from gpm.nn.dropout import drop
from gpm.nn.features import FeatureTable, InputMap, InputSpec
from gpm.nn.machine import Machine
from gpm.nn.paths import NodeMaps, PathBlock, SemanticPath
from gpm.nn.topology import AnonymousPath, ShapeVocabulary
from gpm.patterns import Patterns, Tokenizer
from gpm.topology import Kind

SHAPE_SAMPLE = 4096  # nodes from which the most frequent shapes are counted


@dataclass(frozen=True)
class Output:
    """What the model says of B instances with M patterns each.

    Attributes:
        logits: `[B, C]`.
        embedding: `[B, d]`.
        weights: How much each pattern counted `[B, M]`, adding up to 1; None with a mean readout.
    """

    logits: Tensor
    embedding: Tensor
    weights: Tensor | None


class GraphPatternMachine(nn.Module):
    r"""Encode each pattern as :math:`p = \rho_s(w) + \lambda \rho_a(\phi)`, attend over them, read out, predict.

    Args:
        inputs: What the model reads.
        options: What it is made of.
        outputs: C, the classes or targets.
        longest: Length of the longest walk.
        topology: Kind of topology of the patterns.
    """

    def __init__(
        self, inputs: InputSpec, options: ModelOptions, outputs: int, longest: int, topology: Kind = "loops"
    ) -> None:
        super().__init__()
        self.inputs, self.options = inputs, options
        width = options.width or 0
        self.input_map = InputMap(inputs, width, options.feature_dropout)
        self.input_map.flip_signs = options.pe == "lap"
        self.semantic = SemanticPath(options, longest)
        self.anonymous = None if options.anonymous == "none" else AnonymousPath(options, topology, longest)
        self.machine = Machine(options)
        self.head = nn.Linear(width, outputs)

    def map_nodes(self, table: FeatureTable, nodes: Tensor) -> NodeMaps:
        """What the path encoder reads of some nodes `[U]`."""
        return self.semantic.map_nodes(self.input_map.nodes(table, nodes))

    @torch.inference_mode()
    def map_all_nodes(self, table: FeatureTable, size: int = 4096) -> NodeMaps:
        """What the path encoder reads of all nodes, once for many batches of inference."""
        device = self.head.weight.device
        edges = self.input_map.edge is not None
        ids = torch.arange(table.num_nodes, device=device).split(size)
        parts = [self.semantic.map_all(self.input_map.nodes(table, part), edges) for part in ids]
        return NodeMaps(*(_join([getattr(part, name) for part in parts]) for name in ("h", "qkv", "ahead")))

    def encode(self, patterns: Patterns, table: FeatureTable, nodes: NodeMaps | None = None) -> Tensor:
        """Pattern embeddings `[B, M, d]`; `nodes`, if given, holds the maps of all nodes."""
        instances = len(patterns.nodes)
        groups = list(patterns.groups())
        walks = [patterns.nodes[:, slots, : scale + 1].reshape(-1, scale + 1) for scale, slots in groups]
        if nodes is None:
            distinct, places = find_distinct([w.reshape(-1) for w in walks], table.num_nodes)
            nodes = self.map_nodes(table, distinct)
        else:
            places = [w.reshape(-1) for w in walks]
        blocks = []
        for (scale, slots), walk, place in zip(groups, walks, places, strict=True):
            edges = None
            if self.input_map.edge is not None and patterns.edges is not None:
                crossed = patterns.edges[:, slots, :scale].flatten(0, 1)
                edges = self.input_map.edges(table, crossed.long())
            blocks.append(PathBlock(place.view(walk.shape), edges))
        paths = zip(self.semantic(nodes, blocks), groups, strict=True)
        encoded = torch.cat([p.view(instances, s.stop - s.start, p.shape[1]) for p, (_, s) in paths], 1)  # (B, M, d)
        if self.anonymous is not None:
            shapes = self.anonymous(patterns.table, encoded.device)  # (T, d)
            encoded = encoded + functional.embedding(patterns.topology, shapes)
        return encoded

    def forward(self, patterns: Patterns, table: FeatureTable, nodes: NodeMaps | None = None) -> Output:
        encoded = drop(self.encode(patterns, table, nodes), self.options.dropout, self.training)
        pooled, weights = self.machine(encoded)
        logits = self.head(drop(pooled, self.options.dropout, self.training))
        return Output(logits, pooled, weights)

    @torch.no_grad()
    def fit(self, table: FeatureTable, tokenizer: Tokenizer) -> None:
        """Find what is not learned by gradient: statistics of the inputs, and the most frequent shapes of the graph."""
        self.input_map.fit(table)
        if self.anonymous is not None and isinstance(self.anonymous.encoder, ShapeVocabulary):
            starts = np.linspace(0, table.num_nodes - 1, min(table.num_nodes, SHAPE_SAMPLE)).astype(np.int64)
            patterns = tokenizer.nodes(starts, count=min(tokenizer.pool, 4 * len(tokenizer.lengths)))
            counts = np.bincount(patterns.topology.cpu().numpy().reshape(-1), minlength=len(patterns.table))
            order = np.lexsort((patterns.table.keys, -counts))
            self.anonymous.encoder.learn_keys(patterns.table.keys[order])

    def count_parameters(self) -> int:
        """Numbers that are learned."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _join(parts: list[Tensor | None]) -> Any:
    """Pieces of a tensor as one; None if there are none."""
    there = [part for part in parts if part is not None]
    return torch.cat(there) if there else None


def find_distinct(parts: list[Tensor], num_nodes: int) -> tuple[Tensor, list[Tensor]]:
    """The distinct nodes of some tensors of node ids, ascending, and the place of each entry among them.

    Marks on all nodes find them without sorting; where the graph is far larger than the batch, sorting is cheaper.
    """
    flat = torch.cat(parts).long()
    if num_nodes > 32 * len(flat):
        nodes, places = torch.unique(flat, return_inverse=True)
    else:
        seen = torch.zeros(num_nodes, dtype=torch.int64, device=flat.device)
        seen[flat] = 1
        nodes = seen.nonzero().squeeze(1)
        places = (torch.cumsum(seen, 0) - 1)[flat]
    return nodes, list(places.split([len(part) for part in parts]))
