"""Which epoch is kept: the best metric, and of equal ones the lowest loss. What is said about the time that is left."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gpm.training.callbacks import KeepBest, Progress
from gpm.training.lightning_module import Learner
from gpm.training.pace import Pace

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


def _say_times(caplog: pytest.LogCaptureFixture, seconds: float, stopping: bool, show: bool = True) -> list[str]:
    """Return what is logged in 2 of 60 epochs of 30 steps, whose steps take so many seconds."""
    progress, now = Progress("accuracy", show, every=-1.0), [0.0]
    scores = {"train_loss": torch.tensor(0.41), "val_accuracy": torch.tensor(0.88)}
    trainer: Any = SimpleNamespace(
        callback_metrics=scores, current_epoch=0, max_epochs=60, is_global_zero=True, num_training_batches=30,
        early_stopping_callback=object() if stopping else None,
    )  # fmt: skip
    learner: Any = None
    with caplog.at_level(logging.INFO, "gpm"):
        progress.on_train_start(trainer, learner)
        progress._pace = Pace(30, lambda: now[0])
        for trainer.current_epoch in range(2):
            for step in range(30):
                now[0] += seconds
                progress.on_train_batch_end(trainer, learner, None, None, step)
            progress.on_train_epoch_end(trainer, learner)
        progress.on_train_end(trainer, learner)
    return caplog.messages


def test_an_epoch_is_logged_with_its_time_and_the_time_left_at_most(caplog: pytest.LogCaptureFixture) -> None:
    assert _say_times(caplog, 0.07, stopping=True) == [
        "epoch 1 of at most 60: loss 0.410, val 88.00%, 2.1 s per epoch, at most 2.1 min left",
        "epoch 2 of at most 60: loss 0.410, val 88.00%, 2.1 s per epoch, at most 2 min left",
    ]


def test_without_early_stopping_no_time_is_a_maximum(caplog: pytest.LogCaptureFixture) -> None:
    assert _say_times(caplog, 0.07, stopping=False)[1] == (
        "epoch 2 of 60: loss 0.410, val 88.00%, 2.1 s per epoch, about 2 min left"
    )


def test_a_long_training_is_announced_before_its_first_epoch_ends(caplog: pytest.LogCaptureFixture) -> None:
    announced, first = _say_times(caplog, 1.0, stopping=True)[:2]
    assert announced == "training takes at most 38 min: at most 60 epochs of 38 s (measured on the first steps)"
    assert first.startswith("epoch 1 ")


def test_a_quiet_training_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert _say_times(caplog, 1.0, stopping=True, show=False) == []


@given(_EPOCHS)
def test_the_last_epoch_is_kept_if_asked(epochs: Epochs) -> None:
    saved: list[Any] = []
    keep = KeepBest("accuracy", saved.append, always=True)
    _follow(keep, epochs)
    assert keep.epoch == len(saved) == len(epochs)
