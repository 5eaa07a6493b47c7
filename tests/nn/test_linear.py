"""A shared linear map equals a plain one, backwards too, with the same bits for any number of threads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gpm import compute
from gpm.nn import linear
from gpm.nn.linear import SharedLinear


def _differentiate(layer: torch.nn.Linear, x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    y = layer(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), [x, layer.weight, layer.bias])]


@pytest.mark.parametrize("shape", [(50, 6), (5, 11, 6), (3, 6), (0, 6)])
def test_it_equals_a_plain_one(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "rows_per_piece", lambda width: 7)
    torch.manual_seed(0)
    shared, plain = SharedLinear(6, 4).double(), torch.nn.Linear(6, 4).double()
    plain.load_state_dict(shared.state_dict())
    x = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(_differentiate(shared, x), _differentiate(plain, x))


def test_threads_change_no_bit() -> None:
    torch.manual_seed(0)
    layer, x = SharedLinear(96, 160), torch.randn(5000, 96)
    found = []
    for threads in (1, 2, 3):
        with compute.using_threads(threads):
            found.append(_differentiate(layer, x))
    for others in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(found[0], others, strict=True))


def test_inference_may_be_shared_too() -> None:
    layer, x = SharedLinear(64, 64), torch.randn(9000, 64)
    with compute.using_threads(2), torch.inference_mode():
        shared = layer(x)
    torch.testing.assert_close(shared, torch.nn.functional.linear(x, layer.weight, layer.bias).detach())
