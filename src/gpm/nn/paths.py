"""Semantic path encoders: what a pattern passes through becomes one vector.

Each encoder reads one scale at a time, as a dense block `[P, S]` of places among the batch's distinct nodes, so that
there is no padding. What depends on a node alone is computed once per distinct node and gathered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpm.config import ModelOptions
from gpm.nn.attention import infer_layer, path_layer, read_ahead


@dataclass(frozen=True)
class PathBlock:
    """The paths of one scale.

    Attributes:
        places: `[P, S]`, places among the distinct nodes.
        edges: Mapped edge features `[P, S, d]`, or None.
    """

    places: Tensor
    edges: Tensor | None = None


@dataclass(frozen=True)
class NodeMaps:
    """What a path encoder reads of nodes, computed once per node.

    Attributes:
        h: Mapped features `[U, d]`.
        qkv: Queries, keys and values `[U, 3d]` of a transformer's first layer; None for the other encoders.
        ahead: What `infer_layer` reads, `[U, 4d + 2f]`, in inference by a single layer of one head; else None.
    """

    h: Tensor
    qkv: Tensor | None = None
    ahead: Tensor | None = None


def embed_positions(h: Tensor, block: PathBlock, position: Tensor | None) -> Tensor:
    """`h_i` of every position `[P, S, d]`: node, edge into it, and place on the path."""
    paths = functional.embedding(block.places, h)
    if block.edges is not None:
        paths = paths + block.edges
    return paths if position is None else paths + position[: block.places.shape[1]]


class MeanPath(nn.Module):
    """The mean of the positions: `mean_i h_i`."""

    def forward(self, nodes: NodeMaps, blocks: list[PathBlock], position: Tensor | None) -> list[Tensor]:
        return [embed_positions(nodes.h, block, position).mean(1) for block in blocks]


class GruPath(nn.Module):
    """The last state of a GRU along the path."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, width, layers, batch_first=True)

    def forward(self, nodes: NodeMaps, blocks: list[PathBlock], position: Tensor | None) -> list[Tensor]:
        return [self.gru(embed_positions(nodes.h, block, position))[1][-1] for block in blocks]


class PathLayer(nn.Module):
    """One layer of a transformer along the path: `x + A(x)`, then `x + F(norm(x))`.

    With one head the value map holds the output map too, and all three maps are linear in `h_i`, so they are applied
    once per distinct node. In the last layer the mean over positions is taken before the second map of F, with which it
    commutes.
    """

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width) if heads > 1 else None
        self.norm = nn.LayerNorm(width)
        self.grow = nn.Linear(width, hidden)
        self.shrink = nn.Linear(hidden, width)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attention among the positions of each path, `[P, S, d]` each."""
        if self.heads == 1:
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
            return torch.bmm(scores.softmax(-1), v)
        split = [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v)]
        joined = functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
        assert self.out is not None
        return self.out(joined)

    def first(self, nodes: NodeMaps, blocks: list[PathBlock], position: Tensor | None) -> list[Tensor]:
        """`x + A(x)` of every block, `[P, S, d]`."""
        assert nodes.qkv is not None
        moved = None if position is None else functional.linear(position, self.qkv.weight)
        result = []
        for block in blocks:
            x = embed_positions(nodes.h, block, position)
            qkv = functional.embedding(block.places, nodes.qkv)
            if block.edges is not None:
                qkv = qkv + functional.linear(block.edges, self.qkv.weight)
            if moved is not None:
                qkv = qkv + moved[: x.shape[1]]
            result.append(x + self.attend(*qkv.chunk(3, -1)))
        return result

    def alone(self, nodes: NodeMaps, blocks: list[PathBlock]) -> list[Tensor]:
        """The whole of a one-headed layer on paths of nodes alone, and the mean of its positions."""
        norm, grow = (self.norm.weight, self.norm.bias), (self.grow.weight, self.grow.bias)
        places = [block.places for block in blocks]
        if nodes.ahead is not None:
            means, hidden = infer_layer(nodes.ahead, norm, grow, places)
        else:
            assert nodes.qkv is not None
            means, hidden = path_layer(nodes.h, nodes.qkv, norm, grow, places)
        return [mean + self.shrink(z) for mean, z in zip(means, hidden, strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        """A later layer: `x + A(x)` of `[P, S, d]`."""
        return x + self.attend(*self.qkv(x).chunk(3, -1))

    def feed(self, x: Tensor) -> Tensor:
        """`x + F(norm(x))`."""
        return x + self.shrink(functional.relu_(self.grow(self.norm(x))))

    def feed_mean(self, x: Tensor) -> Tensor:
        """The mean over positions of `feed`: `[P, S, d]` to `[P, d]`."""
        grown = functional.relu_(self.grow(self.norm(x)))
        return x.mean(1) + self.shrink(grown.mean(1))


def _is_special(h: Tensor) -> bool:
    """Whether torch chooses types or makes kernels itself, which it does best with plain operations."""
    return torch.is_autocast_enabled(h.device.type) or torch.compiler.is_compiling()


class TransformerPath(nn.Module):
    """A transformer along the path and the mean of its positions."""

    def __init__(self, width: int, layers: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PathLayer(width, heads, hidden) for _ in range(layers))
        self.single = layers == heads == 1

    def forward(self, nodes: NodeMaps, blocks: list[PathBlock], position: Tensor | None) -> list[Tensor]:
        layers = cast(list[PathLayer], list(self.layers))
        plain = position is None and all(block.edges is None for block in blocks)
        if nodes.ahead is not None or (plain and self.single and not _is_special(nodes.h)):
            return layers[0].alone(nodes, blocks)
        states = layers[0].first(nodes, blocks, position)
        for earlier, layer in pairwise(layers):
            states = [layer(earlier.feed(x)) for x in states]
        return [layers[-1].feed_mean(x) for x in states]


class SemanticPath(nn.Module):
    """The semantic path encoder that the options name, with path positions if they are learned."""

    def __init__(self, options: ModelOptions, longest: int) -> None:
        super().__init__()
        width = options.width or 0
        if options.path == "transformer":
            hidden = max(1, round(options.path_ffn * width))
            self.encoder: nn.Module = TransformerPath(width, options.path_layers, options.path_heads, hidden)
        else:
            self.encoder = GruPath(width, options.path_layers) if options.path == "gru" else MeanPath()
        learned = options.path_position == "learned"
        self.position = nn.Parameter(torch.randn(longest + 1, width) * 0.1) if learned else None

    def map_nodes(self, h: Tensor) -> NodeMaps:
        """What the encoder reads of some nodes, given their mapped features `[U, d]`."""
        if not isinstance(self.encoder, TransformerPath):
            return NodeMaps(h)
        return NodeMaps(h, cast(PathLayer, self.encoder.layers[0]).qkv(h))

    def map_all(self, h: Tensor, has_edges: bool) -> NodeMaps:
        """The same for nodes that many batches of inference will ask for: as much as can be is computed now."""
        maps = self.map_nodes(h)
        if maps.qkv is None or has_edges or self.position is not None or _is_special(h):
            return maps
        encoder = cast(TransformerPath, self.encoder)
        layer = cast(PathLayer, encoder.layers[0])
        if not encoder.single:
            return maps
        norm, grow = (layer.norm.weight, layer.norm.bias), (layer.grow.weight, layer.grow.bias)
        return NodeMaps(maps.h[:, :0], None, read_ahead(h, maps.qkv, norm, grow))

    def forward(self, nodes: NodeMaps, blocks: list[PathBlock]) -> list[Tensor]:
        """Distinct nodes and blocks of paths to one `[P, d]` per block."""
        encoded: list[Tensor] = self.encoder(nodes, blocks, self.position)
        return encoded
