"""Features of columns: what was fitted is applied to any table, row by row."""

import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import GpmError
from gpm.data.tables.column_kinds import profile
from gpm.data.tables.encode import encode, names
from gpm.data.tables.fit_encoding import check_encoding, fit_encoding
from gpm.data.tables.open_table import Table, open_table
from gpm.data.tables.schema import Column
from gpm.data.tables.session import connect

COLUMNS = {
    "id": Column("id"),
    "age": Column("feature", "number"),
    "born": Column("feature", "date"),
    "colour": Column("feature", "category"),
    "happy": Column("feature", "flag"),
    "bio": Column("feature", "text", buckets=16),
    "label": Column("target", "category"),
}


@pytest.fixture(scope="module")
def base() -> Iterator[Any]:
    with connect() as found:
        yield found


def _people(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    bios = ["likes dogs and cats", "plays chess", "reads a lot of long books", "sings"]
    frame = pd.DataFrame(
        {
            "id": [f"n{i}" for i in range(rows)],
            "age": rng.integers(18, 90, rows).astype(str),
            "born": (np.datetime64("1960-01-01") + rng.integers(0, 20_000, rows)).astype(str),
            "colour": rng.choice(["red", "green", "blue"], rows),
            "happy": rng.choice(["yes", "no"], rows),
            "bio": rng.choice(bios, rows),
            "label": rng.choice(["a", "b"], rows),
        }
    ).astype(object)
    for name in ("age", "colour", "happy", "bio"):
        frame.loc[rng.random(rows) < 0.1, name] = rng.choice(["", "NA", "null"])
    return frame


def _table(base: Any, frame: Any) -> Table:
    return open_table(base, pd.DataFrame(frame))


def _numbers(base: Any, cells: Any, **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """A column of numbers as features."""
    table = _table(base, {"x": pd.Series(cells, dtype=object)})
    encoding = fit_encoding(table, {"x": Column("feature", "number")})
    return encode(table, encoding, rows=len(cells), **options)[0], encoding


def _dense(features: Any) -> Any:
    return features.toarray() if sp.issparse(features) else np.asarray(features)


def test_each_kind_becomes_its_columns(base: Any) -> None:
    frame = _people()
    table = _table(base, frame)
    encoding = fit_encoding(table, COLUMNS)
    features, unseen = encode(table, encoding, rows=200, known=["id", "label"])
    listed = names(encoding)
    assert listed[:2] == ["age", "age missing"]
    assert listed[2:8] == ["born", "colour = blue", "colour = green", "colour = red", "happy", "happy missing"]
    assert listed[8:] == [f"bio, word {i}" for i in range(16)]
    assert features.shape == (200, len(listed))
    assert features.dtype == np.float32
    found = pd.DataFrame(_dense(features), columns=listed)
    gone = frame.isin(["", "NA", "null"])
    for name, values in (("age", frame["age"].where(~gone["age"])), ("born", frame["born"])):
        numbers = pd.to_datetime(values).astype("int64") if name == "born" else values.astype(float)
        expected = (numbers - numbers.mean()) / numbers.std(ddof=0)
        np.testing.assert_allclose(found[name], expected.fillna(0), atol=1e-5)
    np.testing.assert_array_equal(found["age missing"], gone["age"])
    for colour in ("blue", "green", "red"):
        np.testing.assert_array_equal(found[f"colour = {colour}"], frame["colour"] == colour)
    np.testing.assert_array_equal(found["happy"], frame["happy"] == "yes")
    np.testing.assert_array_equal(found["happy missing"], gone["happy"])
    length = np.square(found.iloc[:, 8:]).sum(axis=1)
    np.testing.assert_allclose(length, ~gone["bio"], atol=1e-6)
    assert unseen.sentences() == []


def test_statistics_are_plain_values(base: Any) -> None:
    """They survive JSON, and are read back as they were."""
    encoding = fit_encoding(_table(base, _people()), COLUMNS)
    assert json.loads(json.dumps(encoding, allow_nan=False)) == encoding
    assert check_encoding(encoding, "graph.json") == encoding


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "numbr"}, {"mean": "0"}, {"mean": None}, {"std": float("nan")}, {"low": float("inf")}, {"missing": 1},
        {"column": 3}, {"fill": True}, {"kind": "text", "buckets": 10**9}, {"kind": "text", "buckets": 0},
        {"kind": "category", "values": [1], "other": False}, {"kind": "category", "values": ["a"], "other": 2},
    ],
)  # fmt: skip
def test_damaged_statistics_are_refused(change: dict[str, Any]) -> None:
    entry = {"column": "a", "kind": "number", "mean": 0.0, "std": 1, "low": 0, "high": 1, "missing": False, "fill": 1.0}
    assert check_encoding([entry], "graph.json") == [entry]
    with pytest.raises(GpmError, match=r"graph.json: entry 2 of its encoding is damaged"):
        check_encoding([entry, entry | change], "graph.json")


@pytest.mark.parametrize("values", [{}, None, "x", [None], [[]]])
def test_what_is_no_list_of_statistics_is_refused(values: Any) -> None:
    with pytest.raises(GpmError, match="entry 1 of its encoding is damaged"):
        check_encoding(values, "graph.json")


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_numbers_have_mean_0_and_deviation_1(base: Any, scale: float, offset: float) -> None:
    cells = (np.random.default_rng(1).standard_normal(5000) + offset) * scale
    features, _ = _numbers(base, cells)
    assert abs(features.mean()) < 1e-5
    assert abs(features.std() - 1) < 1e-5


def test_a_constant_is_zero_and_missing_is_the_mean(base: Any) -> None:
    features, encoding = _numbers(base, ["0.1", "", "0.1"])
    np.testing.assert_array_equal(features, [[0, 0], [0, 1], [0, 0]])
    assert encoding[0]["std"] == 0
    np.testing.assert_array_equal(_numbers(base, ["", "NA"])[0], [[0, 1], [0, 1]])


def test_decimal_commas_and_days(base: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x;d\n1,5;1970-01-02\n-2,5;1970-01-04 12:00\n0.5;1970-01-04T12:00:00+12:00\n")
    table = open_table(base, tmp_path / "t.csv")
    encoding = fit_encoding(table, {"x": Column("feature", "number"), "d": Column("feature", "date")})
    features, _ = encode(table, encoding, rows=3)
    scale, mean = (np.array([entry[key] for entry in encoding]) for key in ("std", "mean"))
    np.testing.assert_allclose(features * scale + mean, [[1.5, 1], [-2.5, 3.5], [0.5, 3]], atol=1e-6)


def test_a_permuted_table_gives_permuted_features(base: Any) -> None:
    frame = _people()
    order = np.random.default_rng(3).permutation(len(frame))
    encoding = fit_encoding(_table(base, frame), COLUMNS)
    features = _dense(encode(_table(base, frame), encoding, rows=200)[0])
    again = _dense(encode(_table(base, frame.iloc[order]), encoding, rows=200)[0])
    np.testing.assert_array_equal(again, features[order])
    placed = _dense(encode(_table(base, frame.iloc[order]), encoding, rows=200, place=order)[0])
    np.testing.assert_array_equal(placed, features)
    assert fit_encoding(_table(base, frame.iloc[order]), COLUMNS) == encoding


def test_rows_go_where_they_are_placed(base: Any) -> None:
    """A negative place is no row, of two rows at one place the first holds, and a row without any is missing."""
    table = _table(base, {"x": ["1", "2", "3", ""], "c": ["a", "b", "a", "b"]})
    encoding = fit_encoding(table, {"x": Column("feature", "number"), "c": Column("feature", "category")})
    plain = encode(table, encoding, rows=4)[0]
    for sparse in (False, True):
        for entry in encoding:
            entry["fill"] = 0.0 if sparse else 1.0
        placed = encode(table, encoding, rows=5, place=np.array([3, -1, 0, 3]))[0]
        assert sp.issparse(placed) == sparse
        np.testing.assert_array_equal(_dense(placed)[[3, 0]], _dense(plain)[[0, 2]])
        for row in (1, 2, 4):
            np.testing.assert_array_equal(_dense(placed)[row], [0, 1, 0, 0])


def test_features_on_disk_are_the_same(base: Any, tmp_path: Path) -> None:
    table = _table(base, _people())
    encoding = fit_encoding(table, COLUMNS)
    kept, _ = encode(table, encoding, rows=200, path=tmp_path / "x.npy", may_be_sparse=False)
    assert isinstance(kept, np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), _dense(encode(table, encoding, rows=200)[0]))
    nothing, _ = encode(table, [], rows=200, path=tmp_path / "none.npy")
    assert nothing.shape == np.load(tmp_path / "none.npy").shape == (200, 0)


def test_bags_of_words_are_kept_and_sparse(base: Any) -> None:
    rng = np.random.default_rng(0)
    bag = rng.integers(1, 5, (100, 50)) * (rng.random((100, 50)) < 0.05)
    table = _table(base, pd.DataFrame(bag).add_prefix("w"))
    columns = {name: Column("feature", "number") for name in table.columns}
    features, _ = encode(table, fit_encoding(table, columns), rows=100)
    assert isinstance(features, sp.csr_array)
    assert features.has_sorted_indices
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features.toarray(), bag)
    dense, _ = encode(table, fit_encoding(table, columns), rows=100, may_be_sparse=False)
    np.testing.assert_array_equal(dense, bag)
    below = _table(base, pd.DataFrame(bag - 1).add_prefix("w"))
    scaled, _ = encode(below, fit_encoding(below, columns), rows=100)
    np.testing.assert_allclose(scaled.mean(0), 0, atol=1e-5)


def test_a_few_columns_are_no_bag_of_words(base: Any) -> None:
    features, _ = _numbers(base, ["0", "0", "0", "7"])
    assert abs(features.mean()) < 1e-6


def test_rare_categories_share_a_column(base: Any) -> None:
    cells = [f"v{i:03}" for i in range(100) for _ in range(1 + (i < 64))]
    table = _table(base, {"c": cells})
    encoding = fit_encoding(table, {"c": Column("feature", "category")})
    assert encoding[0]["values"] == [f"v{i:03}" for i in range(64)]
    assert len(names(encoding)) == 65
    features, unseen = encode(table, encoding, rows=len(cells))
    np.testing.assert_array_equal(_dense(features).sum(1), 1)
    assert _dense(features)[:, 64].sum() == 36
    assert unseen.sentences() == []
    assert encode(_table(base, {"c": ["new"]}), encoding, rows=1)[0].toarray()[0, 64] == 1


def test_categories_in_an_order_that_is_given(base: Any) -> None:
    """A word that usually means missing may be a category."""
    table = _table(base, {"c": ["none", "few", "many", "", "NONE"]})
    encoding = fit_encoding(table, {"c": Column("feature", "category", ("none", "few", "many"))})
    features, unseen = encode(table, encoding, rows=5)
    np.testing.assert_array_equal(_dense(features), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert unseen.values == {}


def test_what_is_new_says_nothing_and_is_reported(base: Any) -> None:
    encoding = fit_encoding(_table(base, _people()), COLUMNS)
    other = _people(6, seed=1).drop(columns=["happy"]).assign(new="x")
    other["colour"] = ["red", "pink", "pink", "grey", "", "blue"]
    other["age"] = ["30", "1000", "-500", "", "50", "60"]
    other["born"] = ["", *other["born"][1:]]
    features, unseen = encode(_table(base, other), encoding, rows=6, known=["id", "label"])
    found = pd.DataFrame(_dense(features), columns=names(encoding))
    assert found.filter(like="colour").sum(axis=1).tolist() == [1, 0, 0, 0, 0, 1]
    assert found["happy missing"].tolist() == [1] * 6
    assert found["happy"].tolist() == [0] * 6
    assert found["born"][0] == 0
    assert unseen.missing_columns == ["happy"]
    assert unseen.new_columns == ["new"]
    assert unseen.values == {"colour": {"pink": 2, "grey": 1}}
    assert unseen.far == {"age": 2}
    assert unseen.empty == {"born": 1}
    assert unseen.sentences() == [
        "there is no column 'happy': all its cells count as missing.",
        "not read, because training had no such column: 'new'.",
        "3 row(s) have a value of 'colour' unseen in training: 'pink' (2), 'grey' (1).",
        "2 value(s) of 'age' are far outside the range seen in training.",
        "1 cell(s) of 'born' are missing, but none were in training.",
    ]


def test_numbers_far_away_stay_finite(base: Any) -> None:
    _, encoding = _numbers(base, ["1", "1.0000001"])
    features, unseen = encode(_table(base, {"x": ["1e36", "-1e36"]}), encoding, rows=2)
    np.testing.assert_array_equal(features, [[1e6], [-1e6]])
    assert unseen.far == {"x": 2}
    _, tiny = _numbers(base, ["0", "1e-150"])
    assert abs(encode(_table(base, {"x": ["1e37"]}), tiny, rows=1)[0][0, 0]) == 1e6


def test_many_columns_are_read_in_several_passes(base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _table(base, _people())
    encoding = fit_encoding(table, COLUMNS)
    features = _dense(encode(table, encoding, rows=200)[0])
    monkeypatch.setattr("gpm.data.tables.cell_sql._WIDEST", 1)
    assert fit_encoding(table, COLUMNS) == encoding
    np.testing.assert_array_equal(_dense(encode(table, encoding, rows=200)[0]), features)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [("number", "1", "1.5 kg"), ("number", "2", "inf"), ("number", "2", "1e38"), ("date", "2020-01-31", "1/31/2020"),
     ("flag", "yes", "maybe"), ("flag", "1", "2")],
)  # fmt: skip
def test_cells_that_are_not_of_their_kind_are_errors(base: Any, tmp_path: Path, kind: str, good: str, bad: str) -> None:
    (tmp_path / "t.csv").write_text(f"a,x\n1,{good}\n2,\n3,{bad}\n")
    (tmp_path / "good.csv").write_text(f"a,x\n1,{good}\n2,\n3,{good}\n")
    columns = {"x": Column("feature", kind)}
    table = open_table(base, tmp_path / "t.csv")
    with pytest.raises(GpmError, match=f"t.csv, line 4: '{bad}' in column 'x' is not "):
        fit_encoding(table, columns)
    encoding = fit_encoding(open_table(base, tmp_path / "good.csv"), columns)
    if kind != "flag":
        with pytest.raises(GpmError, match=f"t.csv, line 4: '{bad}' in column 'x' is not "):
            encode(table, encoding, rows=3)


@pytest.mark.parametrize("gaps", [True, False])
def test_a_new_value_of_a_yes_or_no_column_is_read_as_missing_and_reported(base: Any, gaps: bool) -> None:
    encoding = fit_encoding(
        _table(base, {"x": ["yes", "no", "yes"], "n": ["1", "2", "3"]}),
        {"x": Column("feature", "flag"), "n": Column("feature", "number")}, gaps=gaps,
    )  # fmt: skip
    new, old = ["yes", "maybe", "", "maybe", "2"], ["yes", "", "", "", ""]
    found, expected = (
        encode(_table(base, {"x": x, "n": ["1", "2", "3", "2", "1"]}), encoding, rows=5) for x in (new, old)
    )
    np.testing.assert_array_equal(_dense(found[0]), _dense(expected[0]))
    assert found[1].values == {"x": {"maybe": 2, "2": 1}}
    assert found[1].empty == ({} if gaps else {"x": 1})
    assert found[1].sentences()[0] == "3 row(s) have a value of 'x' unseen in training: 'maybe' (2), '2' (1)."


def test_words_have_the_same_place_everywhere(base: Any) -> None:
    """Whatever their capitals, and whatever version of whatever library reads them."""
    table = _table(base, {"t": ["Über, the-dogs", "THE DOGS über", "the the dogs", "..."]})
    encoding = fit_encoding(table, {"t": Column("feature", "text")})
    features = _dense(encode(table, encoding, rows=4)[0])
    assert features.shape == (4, 64)
    np.testing.assert_array_equal(features[0], features[1])
    places = [zlib.crc32(word.encode()) % 64 for word in ("über", "the", "dogs")]
    assert len(set(places)) == 3
    np.testing.assert_allclose(features[0, places], np.sqrt(1 / 3), atol=1e-6)
    np.testing.assert_allclose(features[2, places], np.array([0, 2, 1]) / np.sqrt(5), atol=1e-6)
    np.testing.assert_array_equal(features[3], 0)


def test_the_kind_of_file_makes_no_difference(base: Any, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.5, np.nan, 4.0], "b": [1, 2, 1, 2], "c": [True, False, True, True]})
    frame["d"] = pd.to_datetime(["2020-01-01", "2020-01-02", None, "2020-01-04 06:00"], format="mixed")
    frame.to_csv(tmp_path / "t.csv", index=False)
    base.register("whatever", frame)
    base.execute(f"COPY whatever TO '{tmp_path}/t.parquet'")
    kinds = {"a": "number", "b": "category", "c": "flag", "d": "date"}
    columns = {name: Column("feature", kind) for name, kind in kinds.items()}
    tables = [open_table(base, tmp_path / "t.csv"), open_table(base, tmp_path / "t.parquet"), _table(base, frame)]
    encodings = [fit_encoding(table, columns) for table in tables]
    assert encodings[0] == encodings[1] == encodings[2]
    assert encodings[0][1]["values"] == ["1", "2"]
    found = [_dense(encode(table, encodings[0], rows=4)[0]) for table in tables]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_floats_that_are_such_in_their_file_give_what_their_text_gives(base: Any) -> None:
    """They are read another way; missing ones, whole ones and zeros count the same."""
    random = np.random.default_rng(0)
    columns = {"plain": random.normal(3, 2, 500), "whole": random.integers(0, 90, 500) * 1.0, "few": random.random(500)}
    columns["few"][random.random(500) < 0.3] = np.nan
    columns["whole"][::7] = 0.0
    as_text = {name: ["" if np.isnan(v) else repr(float(v)) for v in values] for name, values in columns.items()}
    found = []
    for frame in (columns, as_text):
        table = _table(base, frame)
        kinds = {name: Column("feature", "number") for name in columns}
        encoding = fit_encoding(table, kinds)
        counts = [asdict(profile(table, list(columns))[name]) for name in columns]
        for count in counts:  # about the distinct ones each way has its own estimate
            del count["distinct"], count["points"], count["absent"]
        found.append((encoding, counts, encode(table, encoding, rows=500)[0]))
    (encoding, counts, x), (other, other_counts, other_x) = found
    assert [set(entry) for entry in encoding] == [set(entry) for entry in other]
    assert counts == other_counts
    np.testing.assert_allclose(x, other_x, rtol=1e-6)
    assert encoding[2]["missing"]


def test_threads_make_no_difference() -> None:
    cells = np.random.default_rng(5).lognormal(0, 3, 150_000)
    found = []
    for threads in (1, 2, 4):
        with connect() as base:
            base.execute(f"SET threads = {threads}")
            found.append(_numbers(base, cells)[1])
    assert found[0] == found[1] == found[2]


CELLS = st.one_of(st.sampled_from(["", "NA", "nan", None]), st.floats(-1e6, 1e6).map(repr), st.integers(-9, 9).map(str))
ASCII = st.characters(min_codepoint=32, max_codepoint=126)  # Python and SQL differ in what other blanks are
WORDS = st.sampled_from(["", "a", "b", "c d", "ü", "None", "'", '"', "\n", "a "]) | st.text(ASCII, max_size=3)


@settings(max_examples=25)
@given(
    rows=st.lists(st.tuples(CELLS, WORDS), min_size=1, max_size=15), new=st.lists(st.tuples(CELLS, WORDS), max_size=9)
)
def test_features_are_those_of_plain_python(base: Any, rows: list[Any], new: list[Any]) -> None:
    """Statistics of one table applied to another, cell by cell."""
    blanks = " \t\n\r\u00a0\u3000"
    missing = {"", "nan", "na", "n/a", "none", "null"}

    def _say(cell: Any) -> str | None:
        text = "" if cell is None else str(cell).strip(blanks)
        return None if text.lower() in missing else text

    frame = {"x": [row[0] for row in rows], "c": [row[1] for row in rows]}
    table = _table(base, {key: pd.Series(cells, dtype=object) for key, cells in frame.items()})
    encoding = fit_encoding(table, {"x": Column("feature", "number"), "c": Column("feature", "category")})
    numbers = np.array([np.nan if _say(cell) is None else float(cell) for cell in frame["x"]])
    known = numbers[~np.isnan(numbers)]
    mean, std = (known.mean(), known.std()) if len(known) else (0.0, 0.0)
    values = sorted({text for text in map(_say, frame["c"]) if text is not None})
    flag = len(known) < len(numbers)
    for part in (rows, new):
        columns = {
            "x": pd.Series([r[0] for r in part], dtype=object),
            "c": pd.Series([r[1] for r in part], dtype=object),
        }
        features = _dense(encode(_table(base, columns), encoding, rows=len(part))[0])
        expected = np.zeros((len(part), 1 + flag + len(values)))
        for i, (x, c) in enumerate(part):
            if _say(x) is not None and len(set(known.tolist())) > 1:
                expected[i, 0] = np.clip((float(x) - mean) / std, -1e6, 1e6)
            if flag:
                expected[i, 1] = _say(x) is None
            if _say(c) in values:
                expected[i, 1 + flag + values.index(str(_say(c)))] = 1
        np.testing.assert_allclose(features, expected, atol=1e-4, rtol=1e-4)
