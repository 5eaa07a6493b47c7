"""The machine's shortcuts equal its full layers."""

from __future__ import annotations

import pytest
import torch

from gpm.config import ModelOptions
from gpm.nn.machine import Machine, MachineLayer


def _layer(heads: int, dropout: float = 0.0) -> MachineLayer:
    torch.manual_seed(0)
    return MachineLayer(8, heads, 20, dropout)


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_the_mean_is_that_of_all_patterns(heads: int) -> None:
    layer, x = _layer(heads), torch.randn(3, 5, 8)
    torch.testing.assert_close(layer.forward_mean(x), layer(x).mean(1))


@pytest.mark.parametrize("heads", [1, 2, 8])
def test_the_class_token_alone_is_that_among_all(heads: int) -> None:
    layer, x = _layer(heads), torch.randn(3, 5, 8)
    token, weights = layer.forward_class(x)
    torch.testing.assert_close(token, layer(x)[:, 0])
    assert weights.shape == (3, 4)
    torch.testing.assert_close(weights.sum(1), torch.ones(3))


def test_one_pattern_has_all_the_weight() -> None:
    for options in ({"readout": "class"}, {"fusion": True}, {"readout": "class", "fusion": True}):
        machine = Machine(ModelOptions(width=8, heads=2, layers=2, dropout=0.0, **options))  # type: ignore[arg-type]
        pooled, weights = machine(torch.randn(3, 1, 8))
        assert pooled.shape == (3, 8)
        assert weights is not None
        torch.testing.assert_close(weights, torch.ones(3, 1))


def test_a_mean_readout_weighs_nothing() -> None:
    assert Machine(ModelOptions(width=8, heads=2, layers=1))(torch.randn(3, 4, 8))[1] is None


def test_dropout_acts_in_training_only() -> None:
    layer, x = _layer(2, dropout=0.5), torch.randn(3, 5, 8)
    assert not torch.equal(layer(x), layer(x))
    assert not torch.equal(layer.forward_mean(x), layer.forward_mean(x))
    assert not torch.equal(layer.forward_class(x)[0], layer.forward_class(x)[0])
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    torch.testing.assert_close(layer.forward_mean(x), layer(x).mean(1))
