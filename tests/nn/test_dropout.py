"""Dropout keeps the expectation, drops the share it is told, and is a function of the seed."""

from __future__ import annotations

import pytest
import torch

from gpm.nn.dropout import drop


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("shape", [(300_001,), (100, 50, 61)])
def test_it_drops_the_share_and_keeps_the_expectation(share: float, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    found = drop(torch.ones(shape), share, True)
    assert found.shape == shape
    assert float((found == 0).double().mean()) == pytest.approx(share, abs=0.004)
    assert float(found.double().mean()) == pytest.approx(1, abs=0.015)
    assert len(found.unique()) == 2


def test_neighbours_are_independent() -> None:
    """Eight entries share a random number; none of its bytes tells of another."""
    torch.manual_seed(0)
    kept = (drop(torch.ones(800_000), 0.5, True) > 0).double().view(-1, 8)
    correlation = torch.corrcoef(kept.T) - torch.eye(8)
    assert float(correlation.abs().max()) < 0.02


def test_it_is_a_function_of_the_seed() -> None:
    x = torch.randn(1000)
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(drop(x, 0.3, True))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_without_training_nothing_is_dropped() -> None:
    x = torch.randn(10)
    assert drop(x, 0.5, False) is x
    assert drop(x, 0.0, True) is x


def test_its_gradient_is_its_mask() -> None:
    x = torch.randn(64, requires_grad=True)
    y = drop(x, 0.5, True)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_a_row_drops_the_same_entries_wherever_it_stands() -> None:
    """So that ranks which share a batch drop what one of them would."""
    x = torch.randn(12, 3, 5)
    torch.manual_seed(4)
    whole = drop(x, 0.4, True)
    for rows in (torch.arange(0, 12, 2), torch.tensor([7, 1, 11])):
        torch.manual_seed(4)
        assert torch.equal(drop(x[rows], 0.4, True, rows), whole[rows])
