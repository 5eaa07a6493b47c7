"""The machine's shortcuts equal its full layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

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


# Weights of patterns

READOUTS: dict[str, dict[str, Any]] = {
    "mean": {"readout": "mean"},
    "class": {"readout": "class"},
    "sum": {"readout": "sum"},
    "fusion": {"readout": "mean", "fusion": True},
    "class and fusion": {"readout": "class", "fusion": True},
    "sum and fusion": {"readout": "sum", "fusion": True},
}
readouts = pytest.mark.parametrize("readout", READOUTS)


def _machine(readout: str, layers: int = 2) -> Machine:
    """A machine in double precision, whose fusion has something to look for."""
    torch.manual_seed(0)
    machine = Machine(ModelOptions(width=8, heads=2, layers=layers, dropout=0.0, **READOUTS[readout])).double()
    if machine.query is not None:
        torch.nn.init.normal_(machine.query)
    return machine


def _patterns() -> tuple[Tensor, Tensor]:
    """Patterns of three instances `[3, 5, 8]`, and shares of them `[3, 5]`."""
    torch.manual_seed(1)
    return torch.randn(3, 5, 8, dtype=torch.float64), torch.rand(3, 5, dtype=torch.float64).softmax(1)


@readouts
@pytest.mark.parametrize("shared", [False, True])
def test_weights_of_1_change_nothing(readout: str, shared: bool) -> None:
    machine, (x, shares) = _machine(readout), _patterns()
    given = shares if shared else None
    plain, weights = machine(x, given)
    found, again = machine(x, given, torch.ones(3, 5, dtype=torch.float64))
    torch.testing.assert_close(found, plain)
    assert (weights is None) == (again is None)
    if weights is not None:
        torch.testing.assert_close(again, weights)


@readouts
@pytest.mark.parametrize("layers", [1, 3])
def test_a_pattern_of_weight_0_is_not_there(readout: str, layers: int) -> None:
    """In every instance it is another one, and what stands there does not matter."""
    machine, (x, shares) = _machine(readout, layers), _patterns()
    weight = torch.ones(3, 5, dtype=torch.float64)
    weight[range(3), [0, 2, 4]] = 0
    found, weights = machine(x, shares, weight)
    for row, out in enumerate([0, 2, 4]):
        kept = [i for i in range(5) if i != out]
        alone, among = machine(x[row : row + 1, kept], shares[row : row + 1, kept])
        torch.testing.assert_close(found[row : row + 1], alone)
        if weights is not None:
            torch.testing.assert_close(weights[row : row + 1, kept], among)
            assert weights[row, out] < 1e-20
    assert not torch.allclose(found, machine(x, shares)[0], atol=1e-4)
    x[range(3), [0, 2, 4]] = 7.0
    torch.testing.assert_close(machine(x, shares, weight)[0], found)


@readouts
def test_a_pattern_of_weight_2_is_there_twice(readout: str) -> None:
    machine, (x, shares) = _machine(readout), _patterns()
    weight = torch.ones(3, 5, dtype=torch.float64)
    weight[range(3), [0, 2, 4]] = 2
    found, weights = machine(x, shares, weight)
    for row, twice in enumerate([0, 2, 4]):
        chosen = [*range(5), twice]
        doubled, among = machine(x[row : row + 1, chosen], shares[row : row + 1, chosen])
        torch.testing.assert_close(found[row : row + 1], doubled)
        if weights is not None:
            torch.testing.assert_close(weights[row, twice], among[0, twice] + among[0, 5])
    assert not torch.allclose(found, machine(x, shares)[0], atol=1e-4)


SIDES = torch.tensor([0, 1, 1, 0, 1])


@pytest.mark.parametrize("layers", [1, 2])
def test_weights_count_likewise_on_the_sides_of_a_link(layers: int) -> None:
    machine, (x, _) = _machine("mean", layers), _patterns()
    ones = torch.ones(3, 5, dtype=torch.float64)
    plain = machine.read_sides(x, SIDES)
    for a, b in zip(machine.read_sides(x, SIDES, ones), plain, strict=True):
        torch.testing.assert_close(a, b)
    for out in range(5):
        for count in (0, 2):
            weight = ones.clone()
            weight[:, out] = count
            chosen = [i for i in range(5) if i != out] + [out] * count
            wanted = machine.read_sides(x[:, chosen], SIDES[chosen])
            for side, (a, b) in enumerate(zip(machine.read_sides(x, SIDES, weight), wanted, strict=True)):
                torch.testing.assert_close(a, b)
                assert not torch.allclose(a, plain[side], atol=1e-4)  # a pattern counts on both sides


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_patterns_at_all_give_numbers(dtype: torch.dtype) -> None:
    x, shares = (part.to(dtype) for part in _patterns())
    for readout in READOUTS:
        machine, weight = _machine(readout).to(dtype), torch.zeros(3, 5, dtype=dtype, requires_grad=True)
        found, _ = machine(x, shares, weight)
        assert found.isfinite().all()
        assert torch.autograd.grad(found.sum(), weight)[0].isfinite().all()
    one, two = _machine("mean").to(dtype).read_sides(x, SIDES, torch.zeros(3, 5, dtype=dtype))
    assert one.isfinite().all()
    assert two.isfinite().all()


def test_a_side_without_patterns_gives_numbers() -> None:
    machine, (x, _) = _machine("mean"), _patterns()
    zero, one = machine.read_sides(x, SIDES, (SIDES == 1).double().expand(3, -1))
    assert zero.isfinite().all()
    alone = machine.read_sides(x[:, SIDES == 1], SIDES[SIDES == 1], torch.ones(3, 3, dtype=torch.float64))[1]
    torch.testing.assert_close(one, alone)


@readouts
def test_the_derivative_by_a_weight_is_that_of_the_function(readout: str) -> None:
    machine, (x, shares) = _machine(readout), _patterns()
    weight = (0.5 + torch.rand(3, 5, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: machine(x, shares, w)[0], weight)
