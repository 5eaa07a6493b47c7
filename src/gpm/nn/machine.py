"""The pattern machine: a transformer over the patterns of an instance, which finds the patterns that matter."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from gpm.config import ModelOptions
from gpm.nn.dropout import drop
from gpm.nn.linear import SharedLinear

_NOTHING = 1e-30  # weight of a pattern that is left out: its share vanishes, but if all are left out 0 / 0 is avoided


class MachineLayer(nn.Module):
    r"""One transformer layer over patterns `[B, M, d]`: :math:`x + A(\mathrm{norm}(x))`, then
    :math:`x + F(\mathrm{norm}(x))`. With `literal`, as in the paper: :math:`F(x + A(x))`.
    """

    def __init__(self, width: int, heads: int, hidden: int, dropout: float, literal: bool = False) -> None:
        super().__init__()
        self.heads, self.dropout, self.literal = heads, dropout, literal
        self.norm = _make_norm(width, literal)
        self.qkv = SharedLinear(width, 3 * width)
        self.out = SharedLinear(width, width)
        self.feed_norm = _make_norm(width, literal)
        self.grow = SharedLinear(width, hidden)
        self.shrink = SharedLinear(hidden, width)

    def _drop(self, x: Tensor, rows: Tensor | None) -> Tensor:
        return drop(x, self.dropout, self.training, rows)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, M, d/H)

    def attend(self, x: Tensor, bias: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        q, k, v = (self._split(t) for t in self.qkv(self.norm(x)).chunk(3, -1))
        mask = None if bias is None else bias[:, None, None]
        joined = functional.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        return x + self._drop(self.out(joined), rows)

    def feed(self, x: Tensor, rows: Tensor | None = None) -> Tensor:
        fed = self._drop(self.shrink(functional.relu_(self.grow(self.feed_norm(x)))), rows)
        return fed if self.literal else x + fed

    def forward(self, x: Tensor, bias: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        return self.feed(self.attend(x, bias, rows), rows)

    def forward_mean(
        self, x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, rows: Tensor | None = None
    ) -> Tensor:
        """Return the mean over patterns of `forward`, `[B, d]`: taken before the last map, with which it commutes."""
        x = self.attend(x, bias, rows)
        grown = functional.relu_(self.grow(self.feed_norm(x)))
        fed = self._drop(self.shrink(_mean(grown, weight)), rows)
        return fed if self.literal else _mean(x, weight) + fed

    def forward_class(self, x: Tensor, bias: Tensor | None = None, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return `forward` of the class token (index 0) alone `[B, d]`, and its attention to the patterns `[B, M]`."""
        token = x[:, :1]
        width = x.shape[-1]
        normed = self.norm(x)
        q = functional.linear(normed[:, :1], self.qkv.weight[:width], self.qkv.bias[:width])
        k, v = functional.linear(normed, self.qkv.weight[width:], self.qkv.bias[width:]).chunk(2, -1)
        q, k, v = self._split(q), self._split(k), self._split(v)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # (B, H, 1, 1 + M)
        attention = (scores if bias is None else scores + bias[:, None, None]).softmax(-1)
        joined = (attention @ v).transpose(1, 2).flatten(2)
        token = self.feed(token + self._drop(self.out(joined), rows), rows)
        to_patterns = attention[:, :, 0, 1:].mean(1)
        return token[:, 0], to_patterns / to_patterns.sum(1, keepdim=True)


class Machine(nn.Module):
    """Stacked layers and a readout: patterns `[B, M, d]` to instances `[B, d]` and pattern weights `[B, M]`.

    The weights are the attention of the class token (mean over heads, last layer), or of the fusion; a mean readout
    has none. A sum readout returns the mean of normalised patterns, weighted by `shares` if given; the caller
    multiplies it by the size of the instance. With `checkpointing`, the backward pass recomputes activations.

    Patterns may have weights `[B, M]`: one of weight 2 counts like two equal patterns, one of weight 0 as if it were
    absent. Explanations are based on leaving patterns out and on the derivative by their weights.
    """

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        width, heads, layers = options.width or 0, options.heads or 0, options.layers or 0
        hidden = max(1, round(options.ffn * width))
        literal = options.layer == "literal"
        self.layers = nn.ModuleList(MachineLayer(width, heads, hidden, options.dropout, literal) for _ in range(layers))
        self.each = options.readout == "sum"  # normalise each pattern, not their mean
        self.token = nn.Parameter(torch.randn(width) * 0.1) if options.readout == "class" else None
        self.query = nn.Parameter(torch.zeros(width)) if options.fusion else None
        self.norm = _make_norm(width, literal)
        self.checkpointing = False

    def _pass(self, layer: nn.Module, x: Tensor, bias: Tensor | None, rows: Tensor | None) -> Tensor:
        if self.checkpointing and torch.is_grad_enabled():
            return cast(Tensor, checkpoint(layer, x, bias, rows, use_reentrant=False))
        return cast(Tensor, layer(x, bias, rows))

    def read_sides(
        self, patterns: Tensor, sides: Tensor, weight: Tensor | None = None, rows: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Let all patterns attend to each other; return the means of side 0 and of side 1, `[B, d]` each."""
        x, bias = patterns, _find_bias(weight)
        for layer in self.layers:
            x = self._pass(layer, x, bias, rows)
        parts = [(x[:, mine], None if weight is None else weight[:, mine]) for mine in (sides == 0, sides == 1)]
        zero, one = (self.norm(_mean(*part)) for part in parts)
        return zero, one

    def forward(
        self, patterns: Tensor, shares: Tensor | None = None, weight: Tensor | None = None, rows: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        x, inner = patterns, _find_bias(weight)
        bias = inner
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), 1, -1), x], 1)  # (B, 1 + M, d)
            bias = None if inner is None else functional.pad(inner, (1, 0))
        for layer in self.layers[:-1]:
            x = self._pass(layer, x, bias, rows)
        last = cast(MachineLayer, self.layers[-1])
        weights: Tensor | None = None
        if self.query is not None:
            x = self._pass(last, x, bias, rows)
            body = x if self.token is None else x[:, 1:]
            scores = body @ self.query / math.sqrt(body.shape[-1])  # (B, M)
            weights = (scores if inner is None else scores + inner).softmax(-1)
            first = _mean(body, weight) if self.token is None else x[:, 0]
            pooled = first + (weights[:, None] @ body)[:, 0]  # (B, d)
        elif self.token is not None:
            pooled, weights = last.forward_class(x, bias, rows)
        elif self.each:
            if shares is not None:
                weight = shares.to(x.dtype) if weight is None else weight * shares
            return _mean(self.norm(self._pass(last, x, bias, rows)), weight), None
        else:
            pooled = last.forward_mean(x, weight, bias, rows)
        return self.norm(pooled), weights


def _make_norm(width: int, literal: bool) -> nn.Module:
    return nn.Identity() if literal else nn.LayerNorm(width)


def _find_bias(weight: Tensor | None) -> Tensor | None:
    """Return what to add to attention scores so that a pattern counts by its weight."""
    return None if weight is None else weight.clamp(min=_NOTHING).log()


def _mean(x: Tensor, weight: Tensor | None) -> Tensor:
    """Return the (weighted) mean over patterns of `[B, M, d]`; the mean of no patterns is 0."""
    if weight is None:
        return x.mean(1)
    return (weight[:, None] @ x)[:, 0] / weight.sum(1, keepdim=True).clamp(min=_NOTHING)
