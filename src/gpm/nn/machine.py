"""The machine: a transformer over the patterns of an instance, which finds those that matter."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpm.config import ModelOptions
from gpm.nn.dropout import drop


class MachineLayer(nn.Module):
    """`x + A(norm(x))`, then `x + F(norm(x))`, over `[B, M, d]`."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed_norm = nn.LayerNorm(width)
        self.grow = nn.Linear(width, hidden)
        self.shrink = nn.Linear(hidden, width)

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, M, d/H)

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = (self._split(t) for t in self.qkv(self.norm(x)).chunk(3, -1))
        joined = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self._drop(self.out(joined))

    def feed(self, x: Tensor) -> Tensor:
        return x + self._drop(self.shrink(functional.relu_(self.grow(self.feed_norm(x)))))

    def forward(self, x: Tensor) -> Tensor:
        return self.feed(self.attend(x))

    def forward_mean(self, x: Tensor) -> Tensor:
        """The mean over patterns of `forward`, `[B, d]`: taken before the last map, with which it commutes."""
        x = self.attend(x)
        grown = functional.relu_(self.grow(self.feed_norm(x)))
        return x.mean(1) + self._drop(self.shrink(grown.mean(1)))

    def forward_class(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """`forward` of the class token (place 0) alone `[B, d]`, and its attention to the patterns `[B, M]`."""
        token = x[:, :1]
        width = x.shape[-1]
        normed = self.norm(x)
        q = functional.linear(normed[:, :1], self.qkv.weight[:width], self.qkv.bias[:width])
        k, v = functional.linear(normed, self.qkv.weight[width:], self.qkv.bias[width:]).chunk(2, -1)
        q, k, v = self._split(q), self._split(k), self._split(v)
        attention = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(-1)  # (B, H, 1, 1 + M)
        joined = (attention @ v).transpose(1, 2).flatten(2)
        token = self.feed(token + self._drop(self.out(joined)))
        to_patterns = attention[:, :, 0, 1:].mean(1)
        return token[:, 0], to_patterns / to_patterns.sum(1, keepdim=True)


class Machine(nn.Module):
    """Stacked layers and a readout: patterns `[B, M, d]` to an instance `[B, d]` and pattern weights `[B, M]`.

    The weights are the attention of the class token (mean over heads, last layer), or that of the fusion; a mean
    readout has none. A sum is the mean of normalised patterns, by their shares if they are given, which whoever knows
    the size of the instance multiplies.
    """

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        width, heads, layers = options.width or 0, options.heads or 0, options.layers or 0
        hidden = max(1, round(options.ffn * width))
        self.layers = nn.ModuleList(MachineLayer(width, heads, hidden, options.dropout) for _ in range(layers))
        self.each = options.readout == "sum"  # patterns are normalised, not their mean
        self.token = nn.Parameter(torch.randn(width) * 0.1) if options.readout == "class" else None
        self.query = nn.Parameter(torch.zeros(width)) if options.fusion else None
        self.norm = nn.LayerNorm(width)

    def read_sides(self, patterns: Tensor, sides: Tensor) -> tuple[Tensor, Tensor]:
        """All patterns attend to all; then the mean over those of side 0 and over those of side 1, `[B, d]` each."""
        x = patterns
        for layer in self.layers:
            x = layer(x)
        zero, one = (self.norm(x[:, sides == side].mean(1)) for side in (0, 1))
        return zero, one

    def forward(self, patterns: Tensor, shares: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = patterns
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), 1, -1), x], 1)
        for layer in self.layers[:-1]:
            x = layer(x)
        last = cast(MachineLayer, self.layers[-1])
        weights: Tensor | None = None
        if self.query is not None:
            x = last(x)
            body = x if self.token is None else x[:, 1:]
            weights = (body @ self.query / math.sqrt(body.shape[-1])).softmax(-1)  # (B, M)
            first = body.mean(1) if self.token is None else x[:, 0]
            pooled = first + (weights[:, None] @ body)[:, 0]
        elif self.token is not None:
            pooled, weights = last.forward_class(x)
        elif self.each:
            each = self.norm(last(x))
            return each.mean(1) if shares is None else (shares[:, None].to(each.dtype) @ each)[:, 0], None
        else:
            pooled = last.forward_mean(x)
        return self.norm(pooled), weights
