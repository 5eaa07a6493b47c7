"""The Neural Graph Pattern Machine: patterns in, logits and pattern weights out; and its form for links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from gpm.compute import keep_steady, steady_threads
from gpm.config import Kind, ModelOptions
from gpm.errors import GpmError
from gpm.nn.anonymous_path import AnonymousPath, ShapeVocabulary
from gpm.nn.dropout import drop
from gpm.nn.expected_links import ExpectedLinks
from gpm.nn.expected_patterns import ExpectedPatterns
from gpm.nn.feature_map import InputMap
from gpm.nn.feature_table import FeatureTable, InputSpec
from gpm.nn.machine import Machine
from gpm.nn.semantic_path import SemanticPath, TokenMaps
from gpm.patterns.meetings import count_marks
from gpm.patterns.tokenizer import Frame, Patterns, Tokenizer

Pair = Literal["joint", "product"]
SHAPE_SAMPLE = 4096  # nodes at which the most frequent shapes are counted


@dataclass(frozen=True)
class Output:
    """The output for B instances with M patterns each."""

    logits: Tensor  # (B, C)
    embedding: Tensor  # (B, d)
    weights: Tensor | None  # of each pattern (B, M), with sum 1; None with a mean readout


class GraphPatternMachine(nn.Module):
    r"""Encode each pattern as :math:`p = \rho_s(w) + \lambda \rho_a(\phi)`, attend over them, read out, predict.

    Args:
        inputs: Form and width of the features.
        options: Options of the model.
        outputs: C, the number of classes or targets.
        longest: L, the length of the longest walk.
        topology: Kind of topology of the patterns.
        marks: Number of different marks of a position; 0 if patterns have none.
        drawn: Patterns per instance in training. Beside expected patterns, any number of walks weighs as much as these.
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
        drawn: int = 16,
    ) -> None:
        super().__init__()
        self.inputs, self.options, self.longest, self.drawn = inputs, options, longest, drawn
        width = options.width or 0
        flips = options.pe == "lap" and options.flip_signs
        self.input_map = InputMap(inputs, width, options.feature_dropout, flip_signs=flips)
        self.semantic = SemanticPath(options)
        self.anonymous = None if options.anonymous == "none" else AnonymousPath(options, topology, longest)
        self.machine = Machine(options)
        self.outputs = outputs
        self.head = self._make_head(width)
        self.expected = self._make_expected(width) if inputs.expected else None
        if self.expected is not None and options.linear == "base":  # training begins at the linear model
            last = self.head[-1] if isinstance(self.head, nn.Sequential) else self.head
            nn.init.zeros_(cast(nn.Linear, last).weight)
            nn.init.zeros_(cast(nn.Linear, last).bias)
        learned = options.path_position == "learned"
        self.position = nn.Parameter(torch.randn(longest + 1, width) * 0.1) if learned else None
        self.marks = nn.Parameter(torch.randn(marks, width) * 0.1) if marks else None
        if options.readout == "sum":
            self.register_buffer("size", torch.ones(()))  # mean size of graphs, the unit of sums

    def _make_expected(self, width: int) -> ExpectedPatterns:
        return ExpectedPatterns(self.inputs, width, self.outputs, self.options.linear)

    def _make_head(self, width: int) -> nn.Module:
        if self.options.head == "linear":
            return nn.Linear(width, self.outputs)
        return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, self.outputs))

    @property
    def is_plain(self) -> bool:
        """Whether a position of a path has a node and nothing else."""
        return self.input_map.edge is None and self.position is None and self.marks is None

    def _fetch(self, patterns: Patterns) -> Patterns:
        """Move patterns to the device of the model."""
        device = self.input_map.bias.device
        return patterns if patterns.nodes.device == device else patterns.to(device)

    def map_nodes(self, table: FeatureTable, nodes: Tensor | None = None) -> TokenMaps:
        """Compute what the path encoder reads of nodes `[U]`, or of all rows of a table that was taken."""
        return self.semantic.map_tokens(self.input_map.nodes(table, nodes))

    @torch.inference_mode()
    def map_all_nodes(self, table: FeatureTable, size: int = 4096) -> TokenMaps:
        """Compute what the path encoder reads of all nodes, once for many batches of inference."""
        device = self.input_map.bias.device
        make = self.semantic.map_ahead if self.is_plain else TokenMaps
        ids = torch.arange(table.num_rows, device=device).split(size)
        parts = [make(self.input_map.nodes(table, part)) for part in ids]
        columns: Any = zip(*((part.h, part.qkv, part.ahead) for part in parts), strict=True)
        joined: list[Any] = [None if column[0] is None else torch.cat(column) for column in columns]
        return TokenMaps(*joined)

    def encode(self, patterns: Patterns, table: FeatureTable, nodes: TokenMaps | None = None) -> Tensor:
        """Return the embeddings of M walks and K expected patterns `[B, M + K, d]`.

        `nodes`, if given, holds the maps of all rows of the table.
        """
        patterns = self._fetch(patterns)
        instances = len(patterns.nodes)
        groups = list(patterns.groups())
        if self.is_plain:
            rows = patterns.table_rows(table.num_nodes)
            walks = [rows[:, slots, : scale + 1].reshape(-1, scale + 1) for scale, slots in groups]
            tokens, blocks = self._map_plain(walks, table, nodes)
        else:
            tokens, blocks = self._map_rich(patterns, groups, table, nodes)
        paths = zip(self._encode_paths(tokens, blocks), groups, strict=True)
        encoded = torch.cat([p.view(instances, s.stop - s.start, p.shape[1]) for p, (_, s) in paths], 1)  # (B, M, d)
        if self.anonymous is not None:
            shapes = self.anonymous(patterns.table, encoded.device)  # (T, d)
            encoded = encoded + functional.embedding(patterns.topology, shapes)
        if self.expected is None:
            return encoded
        return torch.cat([encoded, self.expected(self._know(patterns.frame), patterns.rows)], 1)

    def _know(self, frame: Frame) -> Tensor:
        """Return what is known exactly of the instances, standardised `[B, D]`."""
        assert self.expected is not None
        assert frame.expected is not None
        return self.expected.standardise(frame.expected)

    def _encode_paths(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        """Encode the paths of every block; with checkpointing, each block is recomputed in the backward pass."""
        if not (self.machine.checkpointing and torch.is_grad_enabled()):
            return self.semantic(tokens, blocks)
        return [checkpoint(self.semantic, tokens, [block], use_reentrant=False)[0] for block in blocks]

    def _map_plain(
        self, walks: list[Tensor], table: FeatureTable, nodes: TokenMaps | None
    ) -> tuple[TokenMaps, list[Tensor]]:
        """Map the distinct nodes of walks `[P, S]`; return the maps and the index of every position among them."""
        if nodes is not None:
            return nodes, walks
        if table.exact:
            return self.map_nodes(table), walks
        distinct, blocks = find_distinct(walks, table.num_rows)
        return self.map_nodes(table, distinct), blocks

    def _map_rich(
        self, patterns: Patterns, groups: list[tuple[int, slice]], table: FeatureTable, nodes: TokenMaps | None
    ) -> tuple[TokenMaps, list[Tensor]]:
        """Do the same where a token is more than a node: its id is a number of which the node is the leading digit, and
        the edge, the mark and the position on the path are the others.
        """
        edges = 0 if self.input_map.edge is None else 1 + len(table.edge)  # type: ignore[arg-type]
        learned = [part for part in (self.marks, self.position) if part is not None]
        codes = []
        for scale, slots in groups:
            code = patterns.table_rows(table.num_nodes)[:, slots, : scale + 1].long()  # (B, m, S)
            if edges:
                code = code * edges + _find_rows(patterns, table, slots, scale) + 1
            if self.marks is not None:
                assert patterns.marks is not None
                code = code * len(self.marks) + patterns.marks[:, slots, : scale + 1]
            if self.position is not None:
                code = code * len(self.position) + torch.arange(scale + 1, device=code.device)
            codes.append(code.flatten(0, 1))
        space = table.num_rows * math.prod([max(edges, 1), *(len(part) for part in learned)])
        rest, blocks = find_distinct(codes, space)
        extra = []
        for part in reversed(learned):
            extra.append(functional.embedding(rest % len(part), part))
            rest = rest // len(part)
        if edges:
            extra.append(self.input_map.edges(table, rest % edges - 1))
            rest = rest // edges
        if nodes is not None:
            h = nodes.h[rest]
        else:  # the nodes of tokens are ascending
            distinct, inverse = torch.unique_consecutive(rest, return_inverse=True)
            h = functional.embedding(inverse, self.input_map.nodes(table, distinct))
        h = sum(extra, start=h)
        often = not torch.is_grad_enabled() and sum(block.numel() for block in blocks) > 3 * len(h)
        return self.semantic.map_ahead(h) if often else self.semantic.map_tokens(h), blocks

    def pool(self, encoded: Tensor, frame: Frame, weight: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Read encoded patterns `[B, M, d]` out as instances `[B, d]` and pattern weights; see `Machine`."""
        summed = self.options.readout == "sum"
        shares = frame.shares if summed else None
        if self.expected is not None:
            walks = encoded.shape[1] - len(self.expected)
            if shares is not None:  # of the walks together as much as of those in training
                shares = functional.pad(shares * self.drawn, (0, len(self.expected)), value=1.0)
            elif walks != self.drawn:
                even = encoded.new_ones(encoded.shape[1])
                even[:walks] = self.drawn / max(walks, 1)
                weight = even.expand(len(encoded), -1) if weight is None else weight * even
        pooled, weights = self.machine(encoded, shares, weight, frame.rows)
        if summed and frame.sizes is not None:
            pooled = pooled * (frame.sizes / self.size)[:, None]
        return pooled, weights

    def embed(
        self, patterns: Patterns, table: FeatureTable, nodes: TokenMaps | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Return instances `[B, d]` and pattern weights."""
        return self.pool(*self._encode_dropped(patterns, table, nodes))

    def read(self, encoded: Tensor, frame: Frame, weight: Tensor | None = None) -> Output:
        """Return the output for encoded patterns `[B, M, d]`.

        Args:
            encoded: Result of `encode`; that of one instance may be repeated, to be read in B ways.
            frame: Frame of the patterns.
            weight: Weight of each pattern `[B, M + K]`; 0 leaves it out. By default all are equal.
        """
        pooled, weights = self.pool(encoded, frame, weight)
        logits = self.head(drop(pooled, self.options.dropout, self.training, frame.rows))
        if self.expected is not None:
            tokens = None if weight is None else weight[:, -len(self.expected) :]
            logits = self.expected.add_linear(logits, self._know(frame), tokens, frame.correction)
        return Output(logits, pooled, weights)

    def forward(self, patterns: Patterns, table: FeatureTable, nodes: TokenMaps | None = None) -> Output:
        if torch.compiler.is_compiling() or self.input_map.bias.device.type != "cpu":
            return self.read(*self._encode_dropped(patterns, table, nodes))
        with steady_threads():
            output = self.read(*self._encode_dropped(patterns, table, nodes))
        keep_steady(output.logits)
        return output

    def _encode_dropped(self, patterns: Patterns, table: FeatureTable, nodes: TokenMaps | None) -> tuple[Tensor, Frame]:
        patterns = self._fetch(patterns)
        return self._drop(self.encode(patterns, table, nodes), patterns.rows), patterns.frame

    def _drop(self, encoded: Tensor, rows: Tensor | None) -> Tensor:
        return drop(encoded, self.options.dropout, self.training, rows)

    @torch.no_grad()
    def fit(self, table: FeatureTable, tokenizer: Tokenizer, nodes: NDArray | None = None) -> None:
        """Find what is not learned by gradient: statistics of the inputs, and the most frequent shapes of the graph.

        Args:
            table: The features.
            tokenizer: The tokenizer of the graph.
            nodes: Nodes that statistics may be taken from; by default all.
        """
        graph = tokenizer.graph
        self.input_map.fit(table if nodes is None else table.restrict(graph, nodes), self.options.scale_inputs)
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
        """Return the number of learned parameters."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


class LinkPatternMachine(GraphPatternMachine):
    r"""Score pairs of nodes, the same for (u, v) as for (v, u).

    `product` (as in the paper) embeds each endpoint by its own patterns: :math:`f(z_u \odot z_v)`. `joint` reads the
    patterns of both as one set, in which every position is marked by how it is reached from the other endpoint:
    :math:`f([z_u \odot z_v \,\|\, z_u + z_v])` with the means z over the two sides. The head of `joint` also reads the
    sum of the expected patterns, see `gpm.nn.expected_links`.
    """

    def __init__(
        self, inputs: InputSpec, options: ModelOptions, longest: int, topology: Kind = "loops", pair: Pair = "joint"
    ) -> None:
        if pair == "joint" and (options.readout != "mean" or options.fusion):
            raise GpmError("Joint pairs are read by the means of their sides; leave readout at mean and fusion out.")
        self.pair = pair
        marks = count_marks(longest) if pair == "joint" else 0
        super().__init__(inputs, options, 1, longest, topology, marks)

    def _make_expected(self, width: int) -> ExpectedPatterns:
        return ExpectedLinks(self.inputs, width, self.options)

    def _make_head(self, width: int) -> nn.Module:
        read = 2 * width if self.pair == "joint" else width
        return nn.Sequential(nn.Linear(read, width), nn.ReLU(), nn.Linear(width, 1))

    def _drop(self, encoded: Tensor, rows: Tensor | None) -> Tensor:
        """Drop entries of the walks alone: tokens have a dropout of their own, where they need it."""
        if self.expected is None:
            return super()._drop(encoded, rows)
        walks = encoded.shape[1] - len(self.expected)
        return torch.cat([super()._drop(encoded[:, :walks], rows), encoded[:, walks:]], 1)

    def join(self, one: Tensor, two: Tensor, rows: Tensor | None = None, known: Tensor | None = None) -> Tensor:
        """Return the scores `[B, 1]` of pairs of endpoints `[B, d]`; `known` is the sum of the tokens `[B, d]`."""
        combined = torch.cat([one * two, one + two], 1) if self.pair == "joint" else one * two
        combined = drop(combined, self.options.dropout, self.training, rows)
        if known is None:
            return self.head(combined)
        first, bend, last = cast(nn.Sequential, self.head)
        return last(bend(first(combined) + known))

    def read(self, encoded: Tensor, frame: Frame, weight: Tensor | None = None) -> Output:
        """Return the scores of links, from the encoded patterns `[B, 2M + K, d]` of `Tokenizer.links`."""
        assert frame.sides is not None
        known = None
        if self.expected is not None:
            walks = encoded.shape[1] - len(self.expected)
            encoded, tokens = encoded[:, :walks], encoded[:, walks:]
            known = tokens.sum(1) if weight is None else (weight[:, None, walks:] @ tokens)[:, 0]
            weight = None if weight is None else weight[:, :walks]
        if self.pair == "joint":
            one, two = self.machine.read_sides(encoded, frame.sides, weight, frame.rows)
        else:
            masks = [frame.sides == side for side in (0, 1)]
            parts = [encoded[:, mine] for mine in masks]
            if weight is None and parts[0].shape == parts[1].shape:
                rows = None if frame.rows is None else torch.cat([frame.rows, -1 - frame.rows])
                one, two = self.machine(torch.cat(parts), rows=rows)[0].chunk(2)
            else:  # an explanation may have more patterns on one side than on the other
                weights = [None if weight is None else weight[:, mine] for mine in masks]
                one, two = (self.machine(part, None, w)[0] for part, w in zip(parts, weights, strict=True))
        return Output(self.join(one, two, frame.rows, known), one + two, None)


def _find_rows(patterns: Patterns, table: FeatureTable, slots: slice, scale: int) -> Tensor:
    """Return the row of edge features of every position `[B, m, S]`; -1 at the first and if no edge was crossed."""
    assert patterns.edges is not None
    crossed = patterns.edges[:, slots, :scale].long()
    if table.edge_row is not None and len(table.edge_row):
        rows = table.edge_row[crossed.clamp(min=0).to(table.edge_row.device)].to(crossed.device)
        crossed = torch.where(crossed >= 0, rows, -1)
    return functional.pad(crossed, (1, 0), value=-1)


def find_distinct(blocks: list[Tensor], count: int) -> tuple[Tensor, list[Tensor]]:
    """Return the distinct ids of some tensors of ids below `count`, ascending, and the index of each entry among them.

    Marks on all ids find them without sorting; if there are far more ids than entries, sorting is cheaper.
    """
    flat = torch.cat([block.reshape(-1) for block in blocks]).long()
    if count > 32 * len(flat):
        distinct, inverse = torch.unique(flat, return_inverse=True)
    else:
        seen = torch.zeros(count, dtype=torch.int64, device=flat.device)
        seen[flat] = 1
        distinct = seen.nonzero().squeeze(1)
        inverse = (torch.cumsum(seen, 0) - 1)[flat]
    parts = inverse.split([block.numel() for block in blocks])
    return distinct, [part.view(block.shape) for part, block in zip(parts, blocks, strict=True)]
