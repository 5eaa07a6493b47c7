"""A transformer layer along paths, computed from maps of distinct nodes in pieces that fit the cache.

For every path, with `h` and `[q k v]` gathered from the distinct nodes,

    x_i = h_i + sum_j softmax_j(q_i k_j / sqrt(d)) v_j        m = mean_i x_i        z = mean_i relu(W norm(x_i) + b)

Autograd alone would keep every intermediate of every position until the backward pass. Here only the attention and the
sign of each hidden unit are kept; the backward pass gathers and recomputes the rest, without a further matrix product.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from gpm.compute import rows_per_piece, share_out

Maps = tuple[Tensor, Tensor]  # scale and shift, or weight and bias


def _pieces(places: Tensor, width: int) -> list[Tensor]:
    """Split a block of paths `[P, S]` into pieces `[p, S]` that are computed together."""
    rows = rows_per_piece(width) // places.shape[1] if places.device.type == "cpu" else len(places)
    return list(places.split(max(1, rows)))


def _gather(h: Tensor, qkv: Tensor, piece: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gather `h`, `q`, `k` and `v` at every position, `[p, S, d]`."""
    flat, width = piece.reshape(-1), h.shape[1]
    mapped = qkv.index_select(0, flat).view(*piece.shape, 3 * width)
    q, k, v = mapped[..., :width], mapped[..., width : 2 * width], mapped[..., 2 * width :]
    return h.index_select(0, flat).view(*piece.shape, width), q, k, v


def _compute_piece(
    h: Tensor, qkv: Tensor, norm: Maps, grow: Maps, piece: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return `m [p, d]` and `z [p, f]`; and the attention and the signs of hidden units, for the backward pass."""
    width, (weight, bias) = h.shape[1], grow
    x, q, k, v = _gather(h, qkv, piece)
    attention = torch.bmm(q, k.transpose(1, 2)).mul_(1 / math.sqrt(width)).softmax(-1)
    x = x.baddbmm_(attention, v)
    normed = torch.layer_norm(x.view(-1, width), (width,), *norm)
    grown = torch.addmm(bias, normed, weight.t()).relu_()
    return x.mean(1), grown.view(*piece.shape, len(bias)).mean(1), attention, grown > 0


def _differentiate_piece(
    h: Tensor, qkv: Tensor, norm: Maps, weight: Tensor, piece: Tensor, attention: Tensor, sign: Tensor,
    to_mean: Tensor, to_hidden: Tensor,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the gradients by scale, shift, weight and bias, and those by `[h q k v]` of every position `[p S, 4d]`."""
    width, positions = h.shape[1], piece.shape[1]
    h_piece, q, k, v = _gather(h, qkv, piece)
    x = torch.baddbmm(h_piece, attention, v).view(-1, width)
    normed, mean, spread = torch.native_layer_norm(x, (width,), *norm, 1e-5)
    to_grown = (to_hidden / positions).repeat_interleave(positions, 0).mul_(sign)
    moved, to_scale, to_shift = torch.ops.aten.native_layer_norm_backward(
        to_grown @ weight, x, (width,), mean, spread, *norm, [True, True, True]
    )
    moves = h.new_empty(*piece.shape, 4 * width)
    grad = moves[..., :width]
    torch.add(moved.view(*piece.shape, width), to_mean.unsqueeze(1) / positions, out=grad)
    to_attention = torch.bmm(grad, v.transpose(1, 2))
    inner = (to_attention * attention).sum(-1, keepdim=True)
    to_scores = (to_attention - inner).mul_(attention).mul_(1 / math.sqrt(width))
    moves[..., width : 2 * width] = torch.bmm(to_scores, k)
    moves[..., 2 * width : 3 * width] = torch.bmm(to_scores.transpose(1, 2), q)
    moves[..., 3 * width :] = torch.bmm(attention.transpose(1, 2), grad)
    return to_scale, to_shift, to_grown.t() @ normed, to_grown.sum(0), moves.view(-1, 4 * width)


class _PathLayer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, keep: bool, h: Tensor, qkv: Tensor, scale: Tensor, shift: Tensor, weight: Tensor, bias: Tensor,
        *blocks: Tensor,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        pieces = [piece for places in blocks for piece in _pieces(places, h.shape[1])]
        means, hidden, kept = [], [], []
        for mean, z, *rest in share_out(_compute_piece, [(h, qkv, (scale, shift), (weight, bias), p) for p in pieces]):
            means.append(mean)
            hidden.append(z)
            if keep:
                kept += rest
        ctx.blocks = blocks
        ctx.save_for_backward(h, qkv, scale, shift, weight, bias, *kept)
        sizes = [len(places) for places in blocks]
        return (*torch.cat(means).split(sizes), *torch.cat(hidden).split(sizes))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        h, qkv, scale, shift, weight, bias, *kept = ctx.saved_tensors
        width, sizes = h.shape[1], [_pieces(places, h.shape[1]) for places in ctx.blocks]
        pieces = [piece for split in sizes for piece in split]
        parts = [
            [part for grad, split in zip(side, sizes, strict=True) for part in grad.split([len(p) for p in split])]
            for side in (grads[: len(sizes)], grads[len(sizes) :])
        ]
        every = zip(pieces, kept[::2], kept[1::2], *parts, strict=True)
        to_rows = h.new_zeros(len(h), 4 * width)
        totals = [torch.zeros_like(t) for t in (scale, shift, weight, bias)]
        work = [(h, qkv, (scale, shift), weight, *rest) for rest in every]
        for piece, (*added, moves) in zip(pieces, share_out(_differentiate_piece, work), strict=True):
            for total, part in zip(totals, added, strict=True):
                total += part
            to_rows.index_add_(0, piece.reshape(-1), moves)
        return (None, to_rows[:, :width], to_rows[:, width:], *totals, *(None for _ in ctx.blocks))


def read_ahead(h: Tensor, qkv: Tensor, norm: Maps, grow: Maps) -> Tensor:
    """Compute what `infer_layer` gathers of a node: `[q k h G(h) v G(v)]`, where `G(x) = W (x - mean(x))`.

    Up to a division by the deviation, `W norm(x)` is linear in x, and x is a sum of h and of some v: with G computed
    per node, no position needs a matrix product.
    """
    width, weight = h.shape[1], grow[0] * norm[0]  # the norm's scale is part of W
    q, k, v = qkv.split(width, 1)
    grown = [(x - x.mean(1, keepdim=True)) @ weight.t() for x in (h, v)]
    return torch.cat([q, k, h, grown[0], v, grown[1]], 1)


def infer_layer(rows: Tensor, norm: Maps, grow: Maps, blocks: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Compute `path_layer` from the rows of `read_ahead`; for inference only, since nothing is kept for gradients."""
    bias = grow[1] + grow[0] @ norm[1]
    pieces = [piece for places in blocks for piece in _pieces(places, len(norm[0]))]
    found = list(share_out(_infer_piece, [(rows, len(norm[0]), bias, piece) for piece in pieces]))
    sizes = [len(places) for places in blocks]
    means, hidden = (torch.cat(parts).split(sizes) for parts in zip(*found, strict=True))
    return list(means), list(hidden)


def _infer_piece(rows: Tensor, width: int, bias: Tensor, piece: Tensor) -> tuple[Tensor, Tensor]:
    hidden = len(bias)
    gathered = rows.index_select(0, piece.reshape(-1)).view(*piece.shape, rows.shape[1])
    q, k, own, others = gathered.split((width, width, width + hidden, width + hidden), -1)
    attention = torch.bmm(q, k.transpose(1, 2)).mul_(1 / math.sqrt(width)).softmax(-1)
    both = torch.baddbmm(own, attention, others)  # x and G(x)
    passed = both[..., :width]
    length = torch.linalg.vector_norm(passed - passed.mean(-1, keepdim=True), dim=-1, keepdim=True)
    spread = (length.square_() / width + 1e-5).rsqrt_()
    return passed.mean(1), torch.addcmul(bias, both[..., width:], spread).relu_().mean(1)


def path_layer(
    h: Tensor, qkv: Tensor, norm: Maps, grow: Maps, blocks: list[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Attend with one head along paths, blocks `[P, S]` of indices of distinct nodes `h [U, d]` and `qkv [U, 3d]`.

    `norm` is scale and shift of the layer norm, `grow` weight `[f, d]` and bias of the first map of the feed-forward
    part. Return, per block, the mean of `x` `[P, d]`; and the mean of the hidden units `[P, f]`.
    """
    means = _PathLayer.apply(torch.is_grad_enabled(), h, qkv, *norm, *grow, *blocks)
    return list(means[: len(blocks)]), list(means[len(blocks) :])
