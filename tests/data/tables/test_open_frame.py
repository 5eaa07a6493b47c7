import datetime as dt
import decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpm import GpmError
from gpm.data.tables.open_table import open_table, reading
from gpm.data.tables.session import connect


@pytest.fixture(scope="module")
def base() -> Any:
    with connect(memory="400MB") as base:
        yield base


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pd.Series(["a", None, "007"], dtype=object), "VARCHAR", ["a", None, "007"]),
        (pd.Series(["a", None, "é😀\n"]), "VARCHAR", ["a", None, "é😀\n"]),
        (pd.Series(["a", None, "nan"], dtype="string"), "VARCHAR", ["a", None, "nan"]),
        (pd.Series([1, "a", 2.5, None, np.nan, True], dtype=object), "VARCHAR", ["1", "a", "2.5", None, None, "True"]),
        (pd.Series([7] * 3000 + ["07"], dtype=object), "VARCHAR", ["7"] * 3000 + ["07"]),
        (pd.Series([1, 2**62, None], dtype=object), "BIGINT", [1, 2**62, None]),
        (pd.Series([1, 2**80], dtype=object), "VARCHAR", ["1", str(2**80)]),
        (pd.Series([1, None, 2**60 + 1], dtype="Int64"), "BIGINT", [1, None, 2**60 + 1]),
        (pd.Series([True, None], dtype="boolean"), "BOOLEAN", [True, None]),
        (pd.Series([True, None], dtype=object), "BOOLEAN", [True, None]),
        (pd.Series([1.5, np.nan, np.inf]), "DOUBLE", [1.5, None, np.inf]),
        (pd.Series([1.5, None], dtype="Float64"), "DOUBLE", [1.5, None]),
        (pd.Series([1.5, None], dtype=object), "DOUBLE", [1.5, None]),
        (pd.Series([2**64 - 1], dtype="uint64"), "UBIGINT", [2**64 - 1]),
        (pd.Series(["b", None, "a"], dtype="category"), "VARCHAR", ["b", None, "a"]),
        (pd.Series([3, None, 4], dtype="category"), "BIGINT", [3, None, 4]),
        (pd.Series([3, 4], dtype="category"), "BIGINT", [3, 4]),
        (pd.Series(pd.to_datetime(["2020-01-31", None])), "TIMESTAMP", [dt.datetime(2020, 1, 31), None]),
        (
            pd.Series(pd.to_datetime(["2020-01-31 12:00"]).tz_localize("Europe/Berlin")),
            "TIMESTAMP",
            [dt.datetime(2020, 1, 31, 11)],
        ),
        (pd.Series([dt.date(2020, 1, 31), None], dtype=object), "VARCHAR", ["2020-01-31", None]),
        (pd.Series([decimal.Decimal("1.50")], dtype=object), "VARCHAR", ["1.50"]),
        (pd.Series([[1, "é"], {"a": None}, None], dtype=object), "VARCHAR", ['[1, "é"]', '{"a": null}', None]),
        (pd.Series([{1}, (b"x",)], dtype=object), "VARCHAR", ["{1}", "(b'x',)"]),
        (pd.Series([b"a", "b"], dtype=object), "VARCHAR", ["a", "b"]),
        (pd.Series(pd.period_range("2020-01", periods=1, freq="M")), "VARCHAR", ["2020-01"]),
        (pd.Series([1 + 2j]), "VARCHAR", ["(1+2j)"]),
        (pd.Series(pd.arrays.SparseArray([0, 0, 1])), "BIGINT", [0, 0, 1]),
        (pd.Series([None, None], dtype=object), "VARCHAR", [None, None]),
        (pd.Series([], dtype=object), "VARCHAR", []),
        (pd.Series(["a", pd.NA, pd.NaT], dtype=object), "VARCHAR", ["a", None, None]),
    ],
    ids=lambda value: None if not isinstance(value, pd.Series) else f"{value.dtype}{value.tolist()[:3]}",
)
def test_columns_of_every_kind_are_read_exactly(base: Any, column: pd.Series, kind: str, values: list[Any]) -> None:
    table = open_table(base, pd.DataFrame({"x": column}))
    assert table.types == {"x": kind}
    assert [row[0] for row in base.execute(f"SELECT x FROM {table.view}").fetchall()] == values


def test_what_is_no_text_is_one_sentence(base: Any) -> None:
    with pytest.raises(GpmError, match=r"the data frame, column 'x': b'.xff' is not UTF-8 text"):
        open_table(base, pd.DataFrame({"x": pd.Series([b"\xff"], dtype=object)}))
    table = open_table(base, pd.DataFrame({"x": ["\ud800"]}))
    with pytest.raises(GpmError, match="the data frame cannot be read"), reading(table):
        base.execute(f"SELECT * FROM {table.view}").fetchall()
    with pytest.raises(GpmError, match="columns of 2 levels"):
        open_table(base, pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])))


def test_the_frame_of_the_user_is_left_alone(base: Any) -> None:
    frame = pd.DataFrame({"id": [3, 1], "x": ["a", None]}, index=["p", "q"])
    before = frame.copy(deep=True)
    open_table(base, frame)
    pd.testing.assert_frame_equal(frame, before)
