"""The Neural Graph Pattern Machine: patterns in, logits and pattern weights out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from gpm.config import Kind, ModelOptions
from gpm.nn.anonymous_path import AnonymousPath, ShapeVocabulary
from gpm.nn.dropout import drop
from gpm.nn.feature_map import FeatureTable, InputMap, InputSpec
from gpm.nn.machine import Machine
from gpm.nn.semantic_path import SemanticPath, TokenMaps
from gpm.patterns.tokenizer import Frame, Patterns, Tokenizer

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
        marks: How many marks a position may have; 0 where patterns have none.
    """

    size: Tensor

    def __init__(
        self,
        inputs: InputSpec,
        options: ModelOptions,
        outputs: int,
        longest: int,
        topology: Kind = "loops",
        marks: int = 0,
    ) -> None:
        super().__init__()
        self.inputs, self.options, self.longest = inputs, options, longest
        width = options.width or 0
        self.input_map = InputMap(inputs, width, options.feature_dropout)
        self.input_map.flip_signs = options.pe == "lap"
        self.semantic = SemanticPath(options)
        self.anonymous = None if options.anonymous == "none" else AnonymousPath(options, topology, longest)
        self.machine = Machine(options)
        self.outputs = outputs
        self.head = self._make_head(width)
        learned = options.path_position == "learned"
        self.position = nn.Parameter(torch.randn(longest + 1, width) * 0.1) if learned else None
        self.marks = nn.Parameter(torch.randn(marks, width) * 0.1) if marks else None
        if options.readout == "sum":
            self.register_buffer("size", torch.ones(()))  # the mean size of graphs, in which sums are measured

    def _make_head(self, width: int) -> nn.Module:
        if self.options.head == "linear":
            return nn.Linear(width, self.outputs)
        return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, self.outputs))

    @property
    def is_plain(self) -> bool:
        """Whether a position of a path is its node and nothing more."""
        return self.input_map.edge is None and self.position is None and self.marks is None

    def _fetch(self, patterns: Patterns) -> Patterns:
        """Patterns where the model is; those of a graph that stays on the host are drawn there."""
        device = self.input_map.bias.device
        return patterns if patterns.nodes.device == device else patterns.to(device)

    def map_nodes(self, table: FeatureTable, nodes: Tensor | None = None) -> TokenMaps:
        """What the path encoder reads of some nodes `[U]`, or of all of a table that was taken."""
        return self.semantic.map_tokens(self.input_map.nodes(table, nodes))

    @torch.inference_mode()
    def map_all_nodes(self, table: FeatureTable, size: int = 4096) -> TokenMaps:
        """What the path encoder reads of all nodes, once for many batches of inference."""
        device = self.input_map.bias.device
        make = self.semantic.map_ahead if self.is_plain else TokenMaps
        ids = torch.arange(table.num_nodes, device=device).split(size)
        parts = [make(self.input_map.nodes(table, part)) for part in ids]
        return TokenMaps(*(_join([getattr(part, name) for part in parts]) for name in ("h", "qkv", "ahead")))

    def encode(self, patterns: Patterns, table: FeatureTable, nodes: TokenMaps | None = None) -> Tensor:
        """Pattern embeddings `[B, M, d]`; `nodes`, if given, holds the maps of all nodes."""
        patterns = self._fetch(patterns)
        instances = len(patterns.nodes)
        groups = list(patterns.groups())
        if self.is_plain:
            walks = [patterns.nodes[:, slots, : scale + 1].reshape(-1, scale + 1) for scale, slots in groups]
            tokens, blocks = self._map_plain(walks, table, nodes)
        else:
            tokens, blocks = self._map_rich(patterns, groups, table, nodes)
        paths = zip(self._encode_paths(tokens, blocks), groups, strict=True)
        encoded = torch.cat([p.view(instances, s.stop - s.start, p.shape[1]) for p, (_, s) in paths], 1)  # (B, M, d)
        if self.anonymous is not None:
            shapes = self.anonymous(patterns.table, encoded.device)  # (T, d)
            encoded = encoded + functional.embedding(patterns.topology, shapes)
        return encoded

    def _encode_paths(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        """Encode the paths of every block; with checkpointing, one block at a time is computed again for gradients."""
        if not (self.machine.checkpointing and torch.is_grad_enabled()):
            return self.semantic(tokens, blocks)
        return [checkpoint(self.semantic, tokens, [block], use_reentrant=False)[0] for block in blocks]

    def _map_plain(
        self, walks: list[Tensor], table: FeatureTable, nodes: TokenMaps | None
    ) -> tuple[TokenMaps, list[Tensor]]:
        """The distinct nodes of some walks `[P, S]`, mapped, and the place of every position among them."""
        if nodes is not None:
            return nodes, walks
        if table.exact:
            return self.map_nodes(table), walks
        distinct, places = find_distinct([walk.reshape(-1) for walk in walks], table.num_nodes)
        return self.map_nodes(table, distinct), [p.view(w.shape) for p, w in zip(places, walks, strict=True)]

    def _map_rich(
        self, patterns: Patterns, groups: list[tuple[int, slice]], table: FeatureTable, nodes: TokenMaps | None
    ) -> tuple[TokenMaps, list[Tensor]]:
        """The same where a position is more than its node: all that tells tokens apart goes into one number, of which
        the node is the leading digit, and its edge, mark and place are the others.
        """
        edges = 0 if self.input_map.edge is None else 1 + len(table.edge)  # type: ignore[arg-type]
        learned = [part for part in (self.marks, self.position) if part is not None]
        codes = []
        for scale, slots in groups:
            walks = patterns.nodes[:, slots, : scale + 1].long()
            digits = []
            if edges:
                digits.append(_find_rows(patterns, table, slots, scale) + 1)
            if self.marks is not None:
                assert patterns.marks is not None
                digits.append(patterns.marks[:, slots, : scale + 1].long())
            if self.position is not None:
                digits.append(torch.arange(scale + 1, device=walks.device).expand(walks.shape))
            code = walks
            for digit, base in zip(digits, [edges] * bool(edges) + [len(part) for part in learned], strict=True):
                code = code * base + digit
            codes.append(code.flatten(0, 1))
        space = table.num_nodes * math.prod([max(edges, 1), *(len(part) for part in learned)])
        distinct, found = find_distinct([code.reshape(-1) for code in codes], space)
        blocks = [place.view(code.shape) for place, code in zip(found, codes, strict=True)]
        rest, extra = distinct, []
        for part in reversed(learned):
            extra.append(functional.embedding(rest % len(part), part))
            rest = rest // len(part)
        if edges:
            extra.append(self.input_map.edges(table, rest % edges - 1))
            rest = rest // edges
        h = sum(extra, start=self._map_rest(rest, table, nodes))
        often = not torch.is_grad_enabled() and sum(block.numel() for block in blocks) > 3 * len(h)
        return self.semantic.map_ahead(h) if often else self.semantic.map_tokens(h), blocks

    def _map_rest(self, rest: Tensor, table: FeatureTable, nodes: TokenMaps | None) -> Tensor:
        """The mapped features of the nodes of tokens, ascending, `[U, d]`."""
        if nodes is not None:
            return nodes.h[rest]
        distinct, place = torch.unique_consecutive(rest, return_inverse=True)
        return functional.embedding(place, self.input_map.nodes(table, distinct))

    def pool(self, encoded: Tensor, frame: Frame, weight: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Encoded patterns `[B, M, d]` as instances `[B, d]`, and how much each pattern counted; see `Machine`."""
        summed = self.options.readout == "sum"
        pooled, weights = self.machine(encoded, frame.shares if summed else None, weight, frame.rows)
        if summed and frame.sizes is not None:
            pooled = pooled * (frame.sizes / self.size)[:, None]
        return pooled, weights

    def embed(
        self, patterns: Patterns, table: FeatureTable, nodes: TokenMaps | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Instances `[B, d]`, and how much each pattern counted."""
        patterns = self._fetch(patterns)
        encoded = drop(self.encode(patterns, table, nodes), self.options.dropout, self.training, patterns.rows)
        return self.pool(encoded, patterns.frame)

    def read(self, encoded: Tensor, frame: Frame, weight: Tensor | None = None) -> Output:
        """What the model says of encoded patterns `[B, M, d]`.

        Args:
            encoded: From `encode`; of one instance it may be repeated, to be read in B ways.
            frame: Of the patterns.
            weight: How much each is to count `[B, M]`; 0 leaves it out. By default all count alike.
        """
        pooled, weights = self.pool(encoded, frame, weight)
        return Output(self.head(drop(pooled, self.options.dropout, self.training, frame.rows)), pooled, weights)

    def forward(self, patterns: Patterns, table: FeatureTable, nodes: TokenMaps | None = None) -> Output:
        patterns = self._fetch(patterns)
        encoded = drop(self.encode(patterns, table, nodes), self.options.dropout, self.training, patterns.rows)
        return self.read(encoded, patterns.frame)

    @torch.no_grad()
    def fit(self, table: FeatureTable, tokenizer: Tokenizer, nodes: NDArray | None = None) -> None:
        """Find what is not learned by gradient: statistics of the inputs, and the most frequent shapes of the graph.

        Args:
            table: The features.
            tokenizer: Of the graph.
            nodes: Those that may be looked at; by default all.
        """
        graph = tokenizer.graph
        self.input_map.fit(table if nodes is None else table.restrict(graph, nodes))
        nodes = np.arange(graph.num_nodes) if nodes is None else nodes
        if self.options.readout == "sum":
            pointer = np.array([0, graph.num_nodes]) if graph.graph_ptr is None else graph.graph_ptr
            graphs = np.unique(np.searchsorted(pointer, nodes, side="right"))
            self.size.fill_(len(nodes) / max(1, len(graphs)))
        if self.anonymous is not None and isinstance(self.anonymous.encoder, ShapeVocabulary):
            starts = nodes[np.linspace(0, len(nodes) - 1, min(len(nodes), SHAPE_SAMPLE)).astype(np.int64)]
            patterns = tokenizer.nodes(starts, count=min(tokenizer.pool, 4 * len(tokenizer.lengths)))
            counts = np.bincount(patterns.topology.cpu().numpy().reshape(-1), minlength=len(patterns.table))
            order = np.lexsort((patterns.table.keys, -counts))
            self.anonymous.encoder.learn_keys(patterns.table.keys[order])

    def count_parameters(self) -> int:
        """Numbers that are learned."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _find_rows(patterns: Patterns, table: FeatureTable, slots: slice, scale: int) -> Tensor:
    """The row of edge features behind every position, `[B, m, S]`; -1 at the first and where no edge was crossed."""
    assert patterns.edges is not None
    crossed = patterns.edges[:, slots, :scale].long()
    if table.edge_row is not None and len(table.edge_row):
        rows = table.edge_row[crossed.clamp(min=0).to(table.edge_row.device)].to(crossed.device)
        crossed = torch.where(crossed >= 0, rows, -1)
    return functional.pad(crossed, (1, 0), value=-1)


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
