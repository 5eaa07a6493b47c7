"""Predictions: columns, frames and intervals."""

from __future__ import annotations

import csv
from pathlib import Path

import duckdb
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


def test_the_true_label_stands_beside_the_prediction_and_is_empty_where_it_is_unknown(tmp_path: Path) -> None:
    nan = float("nan")
    cases = [
        (
            ClassTask([3, 7], False, "f1", class_names=("well", "ill")),
            torch.tensor([1, -1, 0]), {"label_true": "ill,,well"},
        ),
        (ClassTask([3, 7], False, "f1"), torch.tensor([1, -1, 0]), {"label_true": "7,,3"}),
        (
            ClassTask([0, 1], True, "f1", target_names=("tea", "jazz")),
            torch.tensor([[1.0, nan], [0, 1], [nan, nan]]), {"label_true_tea": "1,0,", "label_true_jazz": ",1,"},
        ),
        (ValueTask("mae", [0.0], [1.0]), torch.tensor([[0.5], [nan], [2.0]]), {"label_true": "0.5,,2"}),
        (LinkTask("ap"), torch.tensor([1, 0, 1]), {"label_true": "1,0,1"}),
    ]  # fmt: skip
    for task, truth, expected in cases:
        keys = {"node": [1, 2, 3]}
        made = Predictions(keys, LOGITS[:, : task.outputs], task, truth=truth)
        first = list(Predictions(keys, LOGITS[:, : task.outputs], task).columns())[1]
        assert list(made.columns())[: 2 + len(expected)] == ["node", first, *expected]
        made.save(tmp_path / "made.csv")
        made.save(tmp_path / "made.parquet")
        with (tmp_path / "made.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert {name: ",".join(row[name] for row in rows) for name in expected} == expected
        stored = duckdb.sql(f"SELECT {', '.join(expected)} FROM '{tmp_path}/made.parquet'").fetchall()
        assert len(stored) == 3
        unknown = [any(cell is None or cell != cell for cell in row) for row in stored]
        assert unknown == [any(row[name] == "" for name in expected) for row in rows]


def test_a_column_of_the_users_gives_way_to_one_of_ours() -> None:
    task = ValueTask("mae", [0.0], [1.0])
    made = Predictions({"graph": [0], "line": [2], "smiles": ["C"], "prediction": ["x"]}, LOGITS[:1, :1], task)
    assert list(made.columns()) == ["graph", "line", "smiles", "prediction_2", "prediction"]
    assert made.names == ["C"]


@pytest.mark.parametrize("task", [ClassTask([0, 1], False, "f1"), ClassTask([0, 1], True, "f1"), LinkTask("ap")])
def test_a_temperature_moves_probabilities_alone(task: ClassTask | LinkTask) -> None:
    logits = LOGITS if isinstance(task, ClassTask) else LOGITS[:, :1]
    plain, cooled = (Predictions({"node": [1, 2, 3]}, logits, task, temperature=t) for t in (1.0, 4.0))
    assert plain.labels.tolist() == cooled.labels.tolist()
    np.testing.assert_allclose(cooled.probability, task.answers(logits / 4).numpy(), rtol=1e-6)
    assert (np.abs(cooled.probability - 0.5) <= np.abs(plain.probability - 0.5) + 1e-7).all()
