"""A linear map that several threads share, with the same bits for any number of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gpm.compute import rows_per_piece, share_out


class _Linear(torch.autograd.Function):
    """`x W' + b` of rows `[n, i]`, piece by piece; gradients of the pieces are added in their order."""

    @staticmethod
    def forward(ctx: Any, rows: int, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.rows = rows
        y = x.new_empty(len(x), len(weight))
        for _ in share_out(
            lambda part, out: torch.addmm(bias, part, weight.t(), out=out),
            list(zip(x.split(rows), y.split(rows), strict=True)),
        ):
            pass
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        to_x, to_weight, to_bias = torch.empty_like(x), torch.zeros_like(weight), weight.new_zeros(len(weight))

        def differentiate(part: Tensor, grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
            torch.mm(grad, weight, out=out)
            return grad.t() @ part, grad.sum(0)

        pieces = zip(x.split(ctx.rows), grad.split(ctx.rows), to_x.split(ctx.rows), strict=True)
        for by_weight, by_bias in share_out(differentiate, list(pieces)):
            to_weight += by_weight
            to_bias += by_bias
        return None, to_x, to_weight, to_bias


class SharedLinear(nn.Linear):
    """A linear map of many rows. On a CPU it is computed in pieces of a fixed size, see `gpm.compute.share_out`."""

    def forward(self, x: Tensor) -> Tensor:
        count = x.numel() // max(x.shape[-1], 1)
        rows = rows_per_piece(min(self.weight.shape))
        plain = x.device.type != "cpu" or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu")
        if plain or count <= rows:
            return functional.linear(x, self.weight, self.bias)
        return _Linear.apply(rows, x.reshape(count, -1), self.weight, self.bias).view(*x.shape[:-1], -1)
