"""Targets and parts, in the order of the file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import GpmError
from gpm.data.tables.open_table import Table, open_table
from gpm.data.tables.schema import Column
from gpm.data.tables.session import connect
from gpm.data.tables.targets import read_parts, read_targets


@pytest.fixture(scope="module")
def base() -> Iterator[Any]:
    with connect() as found:
        yield found


def _table(base: Any, **columns: list[Any]) -> Table:
    return open_table(base, pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()}))


def _csv(base: Any, folder: Path, text: str) -> Table:
    (folder / "nodes.csv").write_text(text, encoding="utf-8")
    return open_table(base, folder / "nodes.csv")


@pytest.mark.parametrize(
    ("cells", "classes", "y"),
    [
        (["dog", "cat", "", "dog ", "NA"], ["cat", "dog"], [1, 0, -1, 1, -1]),
        (["10", "9", "-1", "10"], ["-1", "9", "10"], [2, 1, 0, 2]),
        (["10", "9", "x", "10"], ["10", "9", "x"], [0, 1, 2, 0]),
        (["1.0", "1", "01", "1"], ["01", "1", "1.0"], [2, 1, 0, 1]),
        ([1.0, 0.0, None, 2.0], ["0", "1", "2"], [1, 0, -1, 2]),
        ([True, False, None, True], ["false", "true"], [1, 0, -1, 1]),
        (["ü\n", "'", '"', "'"], ['"', "'", "ü"], [2, 1, 0, 1]),
    ],
)
def test_classes_are_numbered_in_their_order(base: Any, cells: list[Any], classes: list[str], y: list[int]) -> None:
    found = read_targets(_table(base, y=cells), {"y": Column("target", "category")})
    assert (found.kind, found.classes, found.names) == ("classes", classes, ["y"])
    assert found.y.dtype == np.int64
    assert found.y.tolist() == y


def test_an_order_that_is_given_holds(base: Any, tmp_path: Path) -> None:
    column = {"size": Column("target", "category", ("none", "small", "large"))}
    found = read_targets(_table(base, size=["large", "none", "small", ""]), column)
    assert found.classes == ["none", "small", "large"]
    assert found.y.tolist() == [2, 0, 1, -1]
    wrong = _csv(base, tmp_path, "id,size\n1,small\n2,smal\n3,tiny\n")
    with pytest.raises(GpmError, match=r"nodes.csv, line 3: 'smal' in column 'size' is not .* Did you mean 'small'\?"):
        read_targets(wrong, column)


def test_known_classes_keep_their_numbers(base: Any, tmp_path: Path) -> None:
    known = {"kind": "classes", "classes": ["a", "b", "c"], "targets": ["y"]}
    column = {"y": Column("target", "category")}
    assert read_targets(_table(base, y=["c", "", "a"]), column, known=known).y.tolist() == [2, -1, 0]
    with pytest.raises(
        GpmError, match=r"line 3: 'd' in column 'y' is not a class of the training data\. The classes are a, b, c\."
    ):
        read_targets(_csv(base, tmp_path, "id,y\n1,a\n2,d\n"), column, known=known)
    with pytest.raises(GpmError, match=r"targets y \(values\) are not those that the model was trained on, y \(cl"):
        read_targets(_table(base, y=["1"]), {"y": Column("target", "number")}, known=known)


def test_values_and_labels(base: Any) -> None:
    table = _table(base, a=["1.5", "", "-2"], b=["yes", "0", "NA"], c=["1", "f", ""])
    one = read_targets(table, {"a": Column("target", "number"), "b": Column("feature", "flag")})
    assert (one.kind, one.y.dtype, one.classes) == ("values", np.float32, [])
    np.testing.assert_array_equal(one.y, np.array([1.5, np.nan, -2], dtype=np.float32))
    several = read_targets(table, {"c": Column("target", "flag"), "b": Column("target", "flag")})
    assert (several.kind, several.names) == ("labels", ["c", "b"])
    np.testing.assert_array_equal(several.y, np.array([[1, 1], [0, 0], [np.nan, np.nan]], dtype=np.float32))
    assert read_targets(table, {"b": Column("target", "flag")}).y.shape == (3, 1)
    two = read_targets(_table(base, a=["1", "2"], b=["3", ""]), dict.fromkeys("ab", Column("target", "number")))
    np.testing.assert_array_equal(two.y, np.array([[1, 3], [2, np.nan]], dtype=np.float32))


@pytest.mark.parametrize(("kind", "cell"), [("number", "12 kg"), ("number", "inf"), ("flag", "2"), ("number", "1e38")])
def test_cells_that_are_no_targets_are_errors(base: Any, tmp_path: Path, kind: str, cell: str) -> None:
    table = _csv(base, tmp_path, f"id,y\n1,1\n2,\n3,{cell}\n")
    with pytest.raises(GpmError, match=f"nodes.csv, line 4: '{cell}' in column 'y' is not"):
        read_targets(table, {"y": Column("target", kind)})


def test_targets_are_of_one_kind(base: Any) -> None:
    table = _table(base, a=["1", "2"], b=["x", "y"])
    with pytest.raises(GpmError, match="must be of one kind"):
        read_targets(table, {"a": Column("target", "number"), "b": Column("target", "category")})
    with pytest.raises(GpmError, match="cannot all be classes"):
        read_targets(table, dict.fromkeys("ab", Column("target", "category")))
    with pytest.raises(GpmError, match="must be of one kind"):
        read_targets(table, {"a": Column("feature", "number")})


def test_parts_are_words(base: Any, tmp_path: Path) -> None:
    cells = ["train", "VAL", "Valid", "validation", "dev", " test ", "", "NA", "training", None]
    parts = read_parts(_table(base, part=cells), "part")
    assert parts.dtype == np.int8
    assert parts.tolist() == [0, 1, 1, 1, 1, 2, -1, -1, 0, -1]
    with pytest.raises(GpmError, match=r"nodes\.csv, line 4: 'tets' in column 'part' is not a split; write train"):
        read_parts(_csv(base, tmp_path, "id,part\n1,train\n2,\n3,tets\n4,foo\n"), "part")


@settings(max_examples=40)
@given(cells=st.lists(st.none() | st.sampled_from("abcxyz") | st.integers(-20, 20).map(str), min_size=1, max_size=30))
def test_names_come_back(base: Any, cells: list[str | None]) -> None:
    """The class of a row is the text of its cell."""
    found = read_targets(_table(base, y=cells), {"y": Column("target", "category")})
    assert [None if k < 0 else found.classes[k] for k in found.y] == cells
    assert len(set(found.classes)) == len(found.classes)


def test_many_rows_keep_their_order(base: Any) -> None:
    cells = np.random.default_rng(0).integers(0, 7, 300_000)
    table = open_table(base, pd.DataFrame({"y": cells}))
    np.testing.assert_array_equal(read_targets(table, {"y": Column("target", "category")}).y, cells)
