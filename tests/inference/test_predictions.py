"""Predictions: columns, frames and intervals."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from gpm import Predictions
from gpm.tasks import ClassTask, LinkTask, ValueTask

LOGITS = torch.tensor([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]])


def test_a_frame_is_the_table() -> None:
    task = ClassTask([3, 7], False, "accuracy", class_names=("well", "ill"))
    found = Predictions({"node": ["a", "b", "c"]}, LOGITS, task)
    frame = found.frame()
    assert list(frame.columns) == ["node", "prediction", "p_well", "p_ill"]
    assert frame["prediction"].tolist() == ["ill", "well", "well"]
    assert found.labels.tolist() == [7, 3, 3]
    np.testing.assert_array_equal(frame[["p_well", "p_ill"]].to_numpy(), found.probability)


def test_intervals_have_a_column_for_each_end() -> None:
    one = ValueTask("mae", [10.0], [2.0])
    middle = one.answers(LOGITS[:, :1]).numpy()
    found = Predictions({"node": [1, 2, 3]}, LOGITS[:, :1], one, low=middle - 1, high=middle + 2)
    columns = found.columns()
    assert list(columns) == ["node", "prediction", "low", "high"]
    assert columns["low"].tolist() == [9.0, 13.0, 10.0]
    assert columns["high"].tolist() == [12.0, 16.0, 13.0]
    two = ValueTask("mae", [0.0, 1.0], [1.0, 1.0], target_names=("a", "b"))
    both = Predictions({"node": [1, 2, 3]}, LOGITS, two, low=LOGITS.numpy(), high=LOGITS.numpy())
    names = ["prediction_a", "prediction_b", "low_a", "low_b", "high_a", "high_b"]
    assert list(both.columns())[1:] == names
    assert list(Predictions({"node": [1, 2, 3]}, LOGITS, two).columns())[1:] == names[:2]


@pytest.mark.parametrize("task", [ClassTask([0, 1], False, "f1"), ClassTask([0, 1], True, "f1"), LinkTask("ap")])
def test_a_temperature_moves_probabilities_alone(task: ClassTask | LinkTask) -> None:
    logits = LOGITS if isinstance(task, ClassTask) else LOGITS[:, :1]
    plain, cooled = (Predictions({"node": [1, 2, 3]}, logits, task, temperature=t) for t in (1.0, 4.0))
    assert plain.labels.tolist() == cooled.labels.tolist()
    np.testing.assert_allclose(cooled.probability, task.answers(logits / 4).numpy(), rtol=1e-6)
    assert (np.abs(cooled.probability - 0.5) <= np.abs(plain.probability - 0.5) + 1e-7).all()
