"""The layer along paths equals what autograd makes of its definition, backwards too, for pieces of any size."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from gpm.nn import path_attention as attention
from gpm.nn.path_attention import path_layer

Inputs = tuple[list[Tensor], list[Tensor]]


def _define(tensors: list[Tensor], blocks: list[Tensor]) -> list[Tensor]:
    """Means over positions of `x = h + attention` and of `relu(W norm(x) + b)`."""
    h, qkv, scale, shift, weight, bias = tensors
    means, hidden = [], []
    for places in blocks:
        q, k, v = (t[places] for t in qkv.chunk(3, 1))
        weights = (torch.einsum("pid,pjd->pij", q, k) / math.sqrt(h.shape[1])).softmax(-1)
        x = h[places] + torch.einsum("pij,pjd->pid", weights, v)
        means.append(x.mean(1))
        hidden.append((functional.layer_norm(x, x.shape[-1:], scale, shift) @ weight.T + bias).relu().mean(1))
    return means + hidden


def _ours(tensors: list[Tensor], blocks: list[Tensor]) -> list[Tensor]:
    h, qkv, scale, shift, weight, bias = tensors
    means, hidden = path_layer(h, qkv, (scale, shift), (weight, bias), blocks)
    return means + hidden


def _inputs(rows: int, width: int, shapes: list[tuple[int, int]]) -> Inputs:
    rng = torch.Generator().manual_seed(0)
    sizes = [(rows, width), (rows, 3 * width), (width,), (width,), (2 * width, width), (2 * width,)]
    tensors = [torch.randn(*size, generator=rng, dtype=torch.float64, requires_grad=True) for size in sizes]
    return tensors, [torch.randint(0, rows, shape, generator=rng) for shape in shapes]  # nodes repeat in a path


@pytest.mark.parametrize("shapes", [[(4, 6)], [(3, 1), (5, 2), (2, 9)], [(0, 3)]])
@pytest.mark.parametrize("rows_in_piece", [1, 7, 1024])
def test_it_equals_the_definition(
    shapes: list[tuple[int, int]], rows_in_piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "rows_per_piece", lambda width: rows_in_piece)
    tensors, blocks = _inputs(5, 4, shapes)
    found, expected = _ours(tensors, blocks), _define(tensors, blocks)
    torch.testing.assert_close(found, expected)
    rng = torch.Generator().manual_seed(1)
    weights = [torch.randn(out.shape, generator=rng, dtype=torch.float64) for out in expected]
    totals = [sum((o * w).sum() for o, w in zip(outs, weights, strict=True)) for outs in (found, expected)]
    fast, slow = (torch.autograd.grad(total, tensors) for total in totals)
    torch.testing.assert_close(fast, slow)


def test_its_gradient_is_that_of_finite_differences() -> None:
    tensors, blocks = _inputs(4, 3, [(3, 4), (2, 1)])
    assert torch.autograd.gradcheck(lambda *given: tuple(_ours(list(given), blocks)), tensors)


def test_a_gradient_that_reaches_one_output_only_is_enough() -> None:
    tensors, blocks = _inputs(4, 3, [(3, 4), (2, 2)])
    fast, slow = (torch.autograd.grad(f(tensors, blocks)[1].square().sum(), tensors[:2]) for f in (_ours, _define))
    torch.testing.assert_close(fast, slow)
