"""The model written the slow and obvious way: what `gpm.nn.GraphPatternMachine` must equal.

It reads the parameters of a model and takes none of its shortcuts. Every position of every pattern has its own raw
features, made dense; patterns are padded to the longest and masked; every map is applied at every position; every
pattern is anonymised by itself; every layer attends from every token. It has no dropout.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.nn import functional

from gpm import Graph
from gpm.nn import FeatureTable, GraphPatternMachine, LinkPatternMachine, Output
from gpm.nn.anonymous_path import GruTopology, MeanTopology, ShapeVocabulary
from gpm.nn.feature_map import FeatureMap
from gpm.nn.feature_rows import SparseRows, Table
from gpm.nn.semantic_path import ConvPath, GruPath
from gpm.patterns.tokenizer import Patterns
from gpm.random_bits import mix_array


class ReferenceModel:
    """The same function of patterns and features as a model, with the model's own parameters.

    Args:
        model: Whose parameters to read; gradients reach them.
        graph: Where the patterns were walked; all of its edges count for topologies of kind induced, so that patterns
            of forbidden links are not for them.
        batched: Run a GRU over all patterns at once, padded, and take the state at the last position; else one call
            per pattern. The second is the plainer, the first is what an honest race runs against.
    """

    def __init__(self, model: GraphPatternMachine, graph: Graph, batched: bool = False) -> None:
        self.model, self.batched, self.num_nodes = model, batched, graph.num_nodes
        source, target = torch.from_numpy(graph.edge_index())
        self.edges = source * graph.num_nodes + target  # (E,), one number per edge

    def __call__(self, patterns: Patterns, table: FeatureTable) -> Output:
        batch, slots, positions = patterns.nodes.shape
        walks = patterns.nodes.long().view(batch * slots, positions)  # (W, S), -1 past the end
        there = walks >= 0
        if patterns.edges is None:
            crossed = torch.full_like(walks, -1)
        else:
            into = patterns.edges.long().view(batch * slots, positions - 1)
            crossed = functional.pad(into, (1, 0), value=-1)  # (W, S): no edge leads to the first position
        x = self.map_inputs(walks, crossed, table)
        if self.model.marks is not None:
            assert patterns.marks is not None
            x = x + self.model.marks[patterns.marks.long().view(batch * slots, positions)]
        if self.model.input_map.label is not None:
            x = x + self.find_labels(patterns, table).view(batch * slots, positions, -1) @ self.model.input_map.label
        encoded = self.encode_semantic(x, there)
        if self.model.anonymous is not None:
            encoded = encoded + self.model.anonymous.weight * self.encode_anonymous(walks, patterns)
        encoded = encoded.view(batch, slots, -1)
        if isinstance(self.model, LinkPatternMachine):
            assert patterns.sides is not None
            return self.score_links(encoded, patterns.sides)
        shares, weight = patterns.shares, torch.ones(batch, slots)
        summed = self.model.options.readout == "sum"
        if self.model.expected is not None:
            tokens = self.encode_expected(patterns)  # (B, K, d)
            encoded, ones = torch.cat([encoded, tokens], 1), torch.ones(tokens.shape[:2])
            even = summed and shares is not None  # then shares weigh the readout, and attention is even
            weight = torch.cat([weight if even else weight * self.model.drawn / slots, ones], 1)
            shares = None if shares is None else torch.cat([shares * self.model.drawn, ones], 1)
        if not summed or shares is None:
            shares = weight
        pooled, weights = self.attend_patterns(encoded, shares / shares.sum(1, keepdim=True), weight)
        if summed and patterns.sizes is not None:
            pooled = pooled * patterns.sizes[:, None] / self.model.size
        logits = self.model.head(pooled)
        return Output(logits if self.model.expected is None else self.add_linear(logits, patterns), pooled, weights)

    def find_labels(self, patterns: Patterns, table: FeatureTable) -> Tensor:
        """The known label at every position `[B, M, S, c]`: zeros past the end, and where a node is the instance."""
        assert table.label is not None
        assert patterns.own is not None
        rows = table.label[patterns.nodes.long().clamp(min=0)]
        hidden = (patterns.nodes < 0) | (patterns.nodes == patterns.own[:, None, None])
        return rows.masked_fill(hidden[..., None], 0.0)

    def standardise(self, patterns: Patterns) -> Tensor:
        """What is known exactly `[B, D]`, number by number; unknown is 0."""
        expected = self.model.expected
        assert expected is not None
        assert patterns.expected is not None
        rows = [
            [
                0.0 if math.isnan(v) else max(-8.0, min(8.0, (v - m) * s))
                for v, m, s in zip(row, expected.shift.tolist(), expected.scale.tolist(), strict=True)
            ]
            for row in patterns.expected.tolist()
        ]
        return torch.tensor(rows)

    def encode_expected(self, patterns: Patterns) -> Tensor:
        """A token per group of columns: `[B, K, d]`."""
        expected, values = self.model.expected, self.standardise(patterns)
        assert expected is not None
        tokens, first = [], 0
        for size, map_ in zip(expected.sizes, expected.maps, strict=True):
            tokens.append(values[:, first : first + size] @ map_.weight.T + map_.bias)
            first += size
        return torch.stack(tokens, 1)

    def add_linear(self, logits: Tensor, patterns: Patterns) -> Tensor:
        """Logits `[B, C]` with the linear part."""
        expected = self.model.expected
        assert expected is not None
        if expected.linear == "none":
            return logits
        linear = self.standardise(patterns) @ expected.weight + expected.intercept
        if expected.gain is None:
            return (1 - expected.share) * logits + expected.share * linear
        return logits + expected.gain * linear

    def map_inputs(self, walks: Tensor, crossed: Tensor, table: FeatureTable) -> Tensor:
        """`[x || e || pe] W + b` at every position: `[W, S, d]`."""
        maps = self.model.input_map
        parts = [take_standardised(maps.node, table.node, walks)]
        weights = [maps.node.weight]
        if maps.edge is not None:
            features = table.edge if table.edge_row is None else table.edge[table.edge_row]  # type: ignore[index]
            parts.append(take_standardised(maps.edge, features, crossed))
            weights.append(maps.edge.weight)
        if maps.pe is not None:
            parts.append(take_standardised(maps.pe, table.pe, walks))
            weights.append(maps.pe.weight)
        joined = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
        return joined @ torch.cat(weights) + maps.bias

    def encode_semantic(self, x: Tensor, there: Tensor) -> Tensor:
        """What the patterns pass through: `[W, S, d]` to `[W, d]`."""
        semantic = self.model.semantic
        if self.model.position is not None:
            x = x + self.model.position[: x.shape[1]]
        if isinstance(semantic.encoder, GruPath):
            return self.last_states(semantic.encoder.gru, x, there)
        if isinstance(semantic.encoder, ConvPath):
            paths = zip(x, there.sum(1).tolist(), strict=True)
            return torch.stack([convolve_path(semantic.encoder, path[:length]) for path, length in paths])
        for layer in getattr(semantic.encoder, "layers", []):  # a mean has none
            joined, _ = attend(layer.qkv(x), layer.heads, there)
            x = x + (joined if layer.out is None else layer.out(joined))
            x = x + layer.shrink(layer.grow(layer.norm(x)).relu())
        return masked_mean(x, there)

    def encode_anonymous(self, walks: Tensor, patterns: Patterns) -> Tensor:
        """The shape of every pattern, found from its own walk: `[W, S]` to `[W, d]`."""
        assert self.model.anonymous is not None
        encoder = self.model.anonymous.encoder
        if isinstance(encoder, ShapeVocabulary):
            return encoder.rows.weight[find_shape_rows(encoder, patterns)]
        walks = functional.pad(walks, (0, self.model.anonymous.longest + 1 - walks.shape[1]), value=-1)
        there = walks >= 0
        here, other = walks[:, :, None], walks[:, None, :]
        both = there[:, :, None] & there[:, None, :]
        z = (here == other) & both
        if patterns.table.kind == "induced":
            adjacent = torch.isin(here * self.num_nodes + other, self.edges) & (here != other) & both
            z = torch.cat([z, adjacent], -1)
        x = z.float()
        if isinstance(encoder, GruTopology):
            return self.last_states(encoder.gru, x, there)
        x = encoder.map(x)
        if isinstance(encoder, MeanTopology):
            return masked_mean(x, there)
        layer = encoder.layer
        qkv = functional.linear(x, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias)
        joined, _ = attend(qkv, layer.self_attn.num_heads, there)
        x = layer.norm1(x + layer.self_attn.out_proj(joined))
        x = layer.norm2(x + layer.linear2(layer.linear1(x).relu()))
        return masked_mean(x, there)

    def score_links(self, x: Tensor, sides: Tensor) -> Output:
        """Links from the patterns of both ends `[B, 2M, d]`: read together, or each by itself."""
        assert isinstance(self.model, LinkPatternMachine)
        joint = self.model.pair == "joint"
        if joint:
            x, _ = self.attend_all(x)
            ends = [self.model.machine.norm(x[:, sides == side].mean(1)) for side in (0, 1)]
        else:
            ends = [self.attend_patterns(x[:, sides == side])[0] for side in (0, 1)]
        product, total = ends[0] * ends[1], ends[0] + ends[1]
        read = torch.cat([product, total], 1) if joint else product
        return Output(self.model.head(read), total, None)

    def attend_all(self, x: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """All layers of the machine, `[B, M, d]` to the same, and the attention of the last `[B, H, M, M]`."""
        everywhere = torch.ones(x.shape[:2], dtype=torch.bool)
        for layer in self.model.machine.layers:
            joined, attention = attend(layer.qkv(layer.norm(x)), layer.heads, everywhere, weight)
            x = x + layer.out(joined)
            fed = layer.shrink(layer.grow(layer.feed_norm(x)).relu())
            x = fed if layer.literal else x + fed
        return x, attention

    def attend_patterns(
        self, x: Tensor, shares: Tensor | None = None, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """The machine: `[B, M, d]` to instances `[B, d]` and the weights of their patterns `[B, M]`.

        A pattern of weight w counts like w equal patterns; `shares` weigh the readout, with sum 1.
        """
        machine = self.model.machine
        weight = torch.ones(x.shape[:2]) if weight is None else weight
        shares = weight / weight.sum(1, keepdim=True) if shares is None else shares
        inner = weight
        if machine.token is not None:
            x = torch.cat([machine.token.expand(len(x), 1, -1), x], 1)
            inner = functional.pad(weight, (1, 0), value=1.0)
        x, attention = self.attend_all(x, inner)
        if machine.each and machine.query is None:
            each = zip(shares.unbind(1), x.unbind(1), strict=True)
            return sum((share[:, None] * machine.norm(pattern) for share, pattern in each), start=torch.zeros(())), None
        weights = None
        if machine.token is None:
            body, pooled = x, (weight[:, :, None] * x).sum(1) / weight.sum(1, keepdim=True)
        else:
            body, pooled = x[:, 1:], x[:, 0]
            weights = attention[:, :, 0, 1:].mean(1)
            weights = weights / weights.sum(1, keepdim=True)
        if machine.query is not None:
            weights = weight * (body @ machine.query / math.sqrt(body.shape[-1])).exp()
            weights = weights / weights.sum(1, keepdim=True)
            pooled = pooled + (weights[:, :, None] * body).sum(1)
        return machine.norm(pooled), weights

    def last_states(self, gru: nn.GRU, x: Tensor, there: Tensor) -> Tensor:
        """The state of a GRU at the last position of every path: `[W, S, c]` to `[W, d]`."""
        lengths = there.sum(1)
        if self.batched:
            return gru(x)[0][torch.arange(len(x)), lengths - 1]
        return torch.stack([gru(path[:length])[0][-1] for path, length in zip(x, lengths.tolist(), strict=True)])


def convolve_path(encoder: ConvPath, h: Tensor) -> Tensor:
    """Convolutions along one path `[S, d]`, position by position, to `[d]`."""
    x = h
    for i, layer in enumerate(encoder.maps):
        before, here, after = layer(x if i == 0 else encoder.norms[i - 1](x)).chunk(3, -1)
        rows = []
        for at in range(len(h)):
            total = here[at]
            total = total + before[at - 1] if at > 0 else total
            total = total + after[at + 1] if at + 1 < len(h) else total
            rows.append(total.relu())
        x = torch.stack(rows) if i == 0 else x + torch.stack(rows)
    return h.mean(0) + encoder.shrink(x.mean(0))


def take_standardised(part: FeatureMap, table: Table, rows: Tensor) -> Tensor:
    """Features of some rows `[W, S]`, dense and standardised: `[W, S, c]`, zero where a row is negative."""
    flat = rows.reshape(-1)
    if isinstance(table, SparseRows):
        parts = (table.values.numpy(), table.indices.numpy(), table.indptr.numpy())
        matrix = sp.csr_array(parts, shape=(len(table.indptr) - 1, table.columns))
        raw = torch.from_numpy(matrix[flat.clamp(min=0).numpy()].toarray())
    else:
        assert table is not None
        raw = table[flat.clamp(min=0)]
    if part.form == "categories":
        sizes = part.known.tolist()  # a category that is not known has the last slot of its column
        slots = zip(raw.unbind(1), sizes, strict=True)
        values = torch.cat([functional.one_hot(c.clamp(max=size), size + 1) for c, size in slots], 1).float()
    else:
        values = raw.sub_(part.shift).mul_(part.scale)  # in place: `raw` is a copy, and large
    values[flat < 0] = 0
    return values.view(*rows.shape, -1)


def find_shape_rows(vocabulary: ShapeVocabulary, patterns: Patterns) -> list[int]:
    """The row of every pattern's shape: its own if the key is known, else one that it shares."""
    own = {key: row for row, key in enumerate(vocabulary.keys.tolist())}
    keys = patterns.table.keys[patterns.topology.reshape(-1).numpy()]
    shared = len(vocabulary.keys) + mix_array(keys.view(np.uint64)) % np.uint64(vocabulary.shared)
    return [own.get(key, int(row)) for key, row in zip(keys.tolist(), shared, strict=True)]


def attend(qkv: Tensor, heads: int, there: Tensor, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Attention among the positions that are there: `[W, S, 3d]` to `[W, S, d]`, and its weights `[W, H, S, S]`.

    A position of weight w `[W, S]` counts like w equal ones.
    """
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in qkv.chunk(3, -1))
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    attention = scores.masked_fill(~there[:, None, None, :], -math.inf).softmax(-1)
    if weight is not None:
        attention = attention * weight[:, None, None]
        attention = attention / attention.sum(-1, keepdim=True)
    return (attention @ v).transpose(1, 2).flatten(2), attention


def masked_mean(x: Tensor, there: Tensor) -> Tensor:
    """The mean over the positions that are there: `[W, S, d]` to `[W, d]`."""
    return (x * there[:, :, None]).sum(1) / there.sum(1, keepdim=True)
