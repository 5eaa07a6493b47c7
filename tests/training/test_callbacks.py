"""Which epoch is kept: the best metric, and of equal ones the lowest loss."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpm.training.callbacks import KeepBest
from gpm.training.lightning_module import Learner

Epochs = list[tuple[float, float]]  # metric and loss


def _follow(keep: KeepBest, epochs: Epochs, metric: str = "accuracy", first: int = 0) -> None:
    learner: Any = Mock(spec=Learner)
    for number, (value, loss) in enumerate(epochs, first):
        scores = {f"val_{metric}": torch.tensor(value), "val_loss": torch.tensor(loss)}
        trainer: Any = SimpleNamespace(callback_metrics=scores, current_epoch=number, is_global_zero=True)
        keep.on_train_epoch_end(trainer, learner)


_EPOCHS = st.lists(st.tuples(st.sampled_from([0.25, 0.5, 0.75]), st.sampled_from([0.5, 1.0, 2.0])), min_size=1)


@given(_EPOCHS)
def test_of_equal_epochs_the_one_with_the_lowest_loss_is_kept(epochs: Epochs) -> None:
    saved: list[Any] = []
    keep = KeepBest("accuracy", saved.append)
    _follow(keep, epochs)
    best = max(epochs, key=lambda epoch: (epoch[0], -epoch[1]))
    assert keep.epoch == 1 + epochs.index(best)  # the first, if the losses are equal too
    ranks = [(value, -loss) for value, loss in epochs]
    assert len(saved) == sum(all(rank > before for before in ranks[:i]) for i, rank in enumerate(ranks))


@pytest.mark.parametrize("metric", ["loss", "mae"])
def test_an_error_must_be_low(metric: str) -> None:
    keep = KeepBest(metric, lambda model: None)
    _follow(keep, [(2.0, 2.0), (1.0, 1.0), (1.0, 1.0), (3.0, 3.0)], metric)
    assert keep.epoch == 2


@given(_EPOCHS, _EPOCHS)
def test_a_resumed_training_keeps_the_same_epoch(before: Epochs, after: Epochs) -> None:
    whole, first, second = (KeepBest("accuracy", lambda model: None) for _ in range(3))
    _follow(whole, before + after)
    _follow(first, before)
    second.load_state_dict(first.state_dict())
    _follow(second, after, first=len(before))
    assert second.state_dict() == whole.state_dict()


def test_a_checkpoint_without_the_loss_keeps_the_first_of_equal_epochs() -> None:
    keep = KeepBest("accuracy", lambda model: None)
    keep.load_state_dict({"best": 0.5, "epoch": 3})
    _follow(keep, [(0.5, 0.1)], first=3)
    assert keep.epoch == 3
    _follow(keep, [(0.75, 0.1)], first=4)
    assert keep.epoch == 5
