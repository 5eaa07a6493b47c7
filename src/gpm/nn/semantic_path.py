"""Semantic path encoders: the features along a pattern become a vector.

Each encoder reads one scale at a time, as a dense block `[P, S]` of indices of the batch's distinct tokens, without
padding. A token is a node, with the edge into it, its mark and its position on the path if the model reads these. What
depends on a token alone is computed once per distinct token and gathered.
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
from gpm.nn.linear import SharedLinear
from gpm.nn.path_attention import infer_layer, path_layer, read_ahead


@dataclass(frozen=True)
class TokenMaps:
    """What a path encoder reads of tokens, computed once per distinct token."""

    h: Tensor  # mapped features (U, d)
    qkv: Tensor | None = None  # first maps of a transformer (U, 3d) or of a convolution (U, 3f)
    ahead: Tensor | None = None  # input of `infer_layer` (U, 4d + 2f), for inference by a single layer of one head


class MeanPath(nn.Module):
    r"""The mean of the positions, :math:`\frac{1}{S} \sum_i h_i`."""

    def forward(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        return [functional.embedding(block, tokens.h).mean(1) for block in blocks]


class GruPath(nn.Module):
    """The last state of a GRU along the path."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.gru = nn.GRU(width, width, layers, batch_first=True)

    def forward(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        return [self.gru(functional.embedding(block, tokens.h))[1][-1] for block in blocks]


class ConvPath(nn.Module):
    r"""Convolutions along the path, each over a position and its two neighbours, and the mean of the positions.

    :math:`x_i = \mathrm{relu}(A h_{i-1} + B h_i + C h_{i+1})` with affine maps; those past an end are left out, and
    later layers are residual. The three maps of the first layer are applied once per distinct token.
    """

    def __init__(self, width: int, layers: int, hidden: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(SharedLinear(width if i == 0 else hidden, 3 * hidden) for i in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers - 1))
        self.shrink = nn.Linear(hidden, width)

    def forward(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        assert tokens.qkv is not None
        encoded = []
        for block in blocks:
            x = _shift_and_add(functional.embedding(block, tokens.qkv))  # (P, S, f)
            for norm, layer in zip(self.norms, self.maps[1:], strict=True):
                x = x + _shift_and_add(layer(norm(x)))
            encoded.append(functional.embedding(block, tokens.h).mean(1) + self.shrink(x.mean(1)))  # (P, d)
        return encoded


def _shift_and_add(mapped: Tensor) -> Tensor:
    """Add the three maps of every position and its neighbours, `[P, S, 3f]` to `[P, S, f]`, then apply relu."""
    before, here, after = mapped.chunk(3, -1)
    total = here + functional.pad(before[:, :-1], (0, 0, 1, 0)) + functional.pad(after[:, 1:], (0, 0, 0, 1))
    return functional.relu(total)


class PathLayer(nn.Module):
    r"""One layer of a transformer along the path: :math:`x + A(x)`, then :math:`x + F(\mathrm{norm}(x))`.

    With one head the value map includes the output map, and all three maps are linear in :math:`h_i`, so they are
    applied once per distinct token. In the last layer the mean over positions is taken before the second map of F, with
    which it commutes.
    """

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = SharedLinear(width, 3 * width)
        self.out = nn.Linear(width, width) if heads > 1 else None
        self.norm = nn.LayerNorm(width)
        self.grow = nn.Linear(width, hidden)
        self.shrink = nn.Linear(hidden, width)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend among the positions of each path, `[P, S, d]` each."""
        if self.heads == 1:
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
            return torch.bmm(scores.softmax(-1), v)
        split = [t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v)]
        joined = functional.scaled_dot_product_attention(*split).transpose(1, 2).flatten(2)
        assert self.out is not None
        return self.out(joined)

    def first(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        """Return `x + A(x)` of every block, `[P, S, d]`."""
        assert tokens.qkv is not None
        h, qkv = tokens.h, tokens.qkv
        gather = functional.embedding
        return [gather(block, h) + self.attend(*gather(block, qkv).chunk(3, -1)) for block in blocks]

    def alone(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        """Return the mean over positions of a whole one-headed layer, `[P, d]`."""
        norm, grow = (self.norm.weight, self.norm.bias), (self.grow.weight, self.grow.bias)
        if tokens.ahead is not None:
            means, hidden = infer_layer(tokens.ahead, norm, grow, blocks)
        else:
            assert tokens.qkv is not None
            means, hidden = path_layer(tokens.h, tokens.qkv, norm, grow, blocks)
        return [mean + self.shrink(z) for mean, z in zip(means, hidden, strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        """Return `x + A(x)` of `[P, S, d]`, for layers after the first."""
        return x + self.attend(*self.qkv(x).chunk(3, -1))

    def feed(self, x: Tensor) -> Tensor:
        """Return `x + F(norm(x))`."""
        return x + self.shrink(functional.relu_(self.grow(self.norm(x))))

    def feed_mean(self, x: Tensor) -> Tensor:
        """Return the mean over positions of `feed`: `[P, S, d]` to `[P, d]`."""
        grown = functional.relu_(self.grow(self.norm(x)))
        return x.mean(1) + self.shrink(grown.mean(1))


def _is_special(h: Tensor) -> bool:
    """Return whether torch chooses types or compiles kernels itself, which works best with plain operations."""
    return torch.is_autocast_enabled(h.device.type) or torch.compiler.is_compiling()


class TransformerPath(nn.Module):
    """A transformer along the path and the mean of its positions."""

    def __init__(self, width: int, layers: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(PathLayer(width, heads, hidden) for _ in range(layers))
        self.single = layers == heads == 1

    def forward(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        layers = cast(list[PathLayer], list(self.layers))
        if tokens.ahead is not None or (self.single and not _is_special(tokens.h)):
            return layers[0].alone(tokens, blocks)
        states = layers[0].first(tokens, blocks)
        for earlier, layer in pairwise(layers):
            states = [layer(earlier.feed(x)) for x in states]
        return [layers[-1].feed_mean(x) for x in states]


class SemanticPath(nn.Module):
    """The semantic path encoder that the options name."""

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        width = options.width or 0
        hidden = max(1, round(options.path_ffn * width))
        if options.path == "transformer":
            self.encoder: nn.Module = TransformerPath(width, options.path_layers, options.path_heads, hidden)
        elif options.path == "conv":
            self.encoder = ConvPath(width, options.path_layers, hidden)
        else:
            self.encoder = GruPath(width, options.path_layers) if options.path == "gru" else MeanPath()

    def map_tokens(self, h: Tensor) -> TokenMaps:
        """Compute what the encoder reads of tokens from their mapped features `[U, d]`."""
        if isinstance(self.encoder, ConvPath):
            return TokenMaps(h, self.encoder.maps[0](h))
        if not isinstance(self.encoder, TransformerPath):
            return TokenMaps(h)
        return TokenMaps(h, cast(PathLayer, self.encoder.layers[0]).qkv(h))

    def map_ahead(self, h: Tensor) -> TokenMaps:
        """Do the same for tokens that inference meets many times: compute as much as possible in advance."""
        maps = self.map_tokens(h)
        encoder = self.encoder
        if maps.qkv is None or not isinstance(encoder, TransformerPath) or not encoder.single or _is_special(h):
            return maps
        layer = cast(PathLayer, encoder.layers[0])
        norm, grow = (layer.norm.weight, layer.norm.bias), (layer.grow.weight, layer.grow.bias)
        return TokenMaps(h[:, :0], None, read_ahead(h, maps.qkv, norm, grow))

    def forward(self, tokens: TokenMaps, blocks: list[Tensor]) -> list[Tensor]:
        """Encode the paths of every block: `[P, d]` each."""
        return self.encoder(tokens, blocks)
