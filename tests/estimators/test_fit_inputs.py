"""Labels of any kind become numbers and come back as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from gpm import GpmError
from gpm.estimators.fit_inputs import Classes, align, as_labels


@pytest.mark.parametrize(
    ("labels", "classes", "kind"),
    [
        ([True, False, True], [False, True], "b"),
        ([-1, 1, 3], [-1, 1, 3], "i"),
        ([3, 7, None], [3, 7], "i"),
        (torch.tensor([9, 2, 2]), [2, 9], "i"),
        (np.array([1, 2, 2], dtype=np.int8), [1, 2], "i"),
        (pd.Series([4, None, 5], dtype="Int64"), [4, 5], "i"),
        ([1.5, float("nan"), 2.5], [1.5, 2.5], "f"),
        (["x", "y", "x"], ["x", "y"], "U"),
        (pd.Series(["x", None, "y"]), ["x", "y"], "O"),
        (pd.Series(["x", None, "y"], dtype="category"), ["x", "y"], "O"),
        (["x", "y\0", "x"], ["x", "y\0"], "O"),  # which an array of text would cut
        ([(1, 2), (0, 5), None], [(0, 5), (1, 2)], "O"),
        ([1, "1", None], [1, "1"], "O"),
    ],
)
def test_labels_may_be_anything(labels: Any, classes: list[Any], kind: str) -> None:
    found = as_labels(labels)
    known = Classes.find(found)
    assert (known.values.tolist(), known.values.dtype.kind) == (classes, kind)
    place = {number: i for i, number in enumerate(known.numbers.tolist())}
    back = [known.values.tolist()[place[n]] if n >= 0 else None for n in known.encode(found).tolist()]
    assert back == [None if pd.isna(value) is True else value for value in list(found)]
    assert [known.number(value) for value in classes] == known.numbers.tolist()


def test_what_cannot_be_a_key_is_no_label() -> None:
    with pytest.raises(GpmError, match="which cannot be a class"):
        Classes.find(as_labels([{"a": 1}, "b"]))


def test_classes_keep_whole_numbers_as_their_own() -> None:
    assert Classes.find(as_labels([7, 3, 7])).numbers.tolist() == [3, 7]
    assert Classes.find(as_labels([7, 3, 7])).names == ()
    assert Classes.find(as_labels([-1, 3])).numbers.tolist() == [0, 1]
    assert Classes.find(as_labels([-1, 3])).names == ("-1", "3")
    assert Classes.find(as_labels([2**40, 3])).numbers.tolist() == [0, 1]


def test_labels_by_name_are_put_in_order() -> None:
    names = ["a", "b", "c"]
    assert align({"c": 1, "a": 2}, names) == [2, None, 1]
    assert align(pd.Series([1, 2], index=["c", "a"]), names).tolist()[::2] == [2, 1]
    whole = as_labels(align(pd.Series([1, 2], index=["c", "a"]), names))
    assert Classes.find(whole).values.dtype.kind == "i"  # though one is missing
    assert align(pd.Series([1, 2, 3]), names).tolist() == [1, 2, 3]  # an index that counts is none
    assert align(pd.Series([1, 2], index=[9, 7]), [7, 8, 9]).tolist()[::2] == [2, 1]
    table = align(pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=["c", "a", "b"]), names)
    assert table["x"].tolist() == [2, 3, 1]
    with pytest.raises(GpmError, match="y has 2 entries for 3 nodes"):
        align([1, 2], names)
