from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from gpm import GpmError
from gpm.tables import check_table, read_pairs, write_table

COLUMNS: dict[str, Any] = {
    "node": ["ann", "bob, the 2nd", 'say "hi"\tüber'],
    "prediction": [3, 7, 3],
    "p_3": np.array([0.25, 1e-9, 1 / 3], dtype=np.float32),
}


@pytest.mark.parametrize(("suffix", "delimiter"), [(".csv", ","), (".tsv", "\t"), (".TSV", "\t")])
def test_text_comes_back(tmp_path: Path, suffix: str, delimiter: str) -> None:
    path = tmp_path / f"table{suffix}"
    write_table(path, COLUMNS)
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file, delimiter=delimiter)
    assert head == ["node", "prediction", "p_3"]
    assert [row[0] for row in rows] == COLUMNS["node"]
    assert [row[1] for row in rows] == ["3", "7", "3"]
    assert [float(row[2]) for row in rows] == pytest.approx(COLUMNS["p_3"].tolist(), rel=1e-5)
    assert rows[0][2] == "0.25"


def test_parquet_comes_back_with_its_types(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "table.parquet"
    write_table(path, COLUMNS)
    found = duckdb.sql(f"SELECT * FROM '{path}'")
    assert found.columns == ["node", "prediction", "p_3"]
    assert [str(kind) for kind in found.types] == ["VARCHAR", "BIGINT", "FLOAT"]
    nodes, said, chance = zip(*found.fetchall(), strict=True)
    assert list(nodes) == COLUMNS["node"]
    assert list(said) == COLUMNS["prediction"]
    np.testing.assert_array_equal(np.array(chance, dtype=np.float32), COLUMNS["p_3"])


def test_a_table_may_have_no_rows(tmp_path: Path) -> None:
    empty = {"node": [], "p_0": np.zeros(0)}
    write_table(tmp_path / "table.csv", empty)
    assert (tmp_path / "table.csv").read_text() == "node,p_0\n"
    write_table(tmp_path / "table.parquet", empty)
    assert duckdb.sql(f"SELECT * FROM '{tmp_path}/table.parquet'").fetchall() == []


def test_columns_of_unequal_length_leave_no_file(tmp_path: Path) -> None:
    for suffix in (".csv", ".parquet"):
        with pytest.raises(ValueError, match=r"shorter|longer|same length"):
            write_table(tmp_path / f"table{suffix}", {"a": [1, 2], "b": [1]})
    assert list(tmp_path.iterdir()) == []


def test_other_kinds_of_file_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"x\.docx: a table is written as \.csv, \.tsv, \.parquet; name the file so"):
        check_table(tmp_path / "x.docx")
    with pytest.raises(GpmError, match="a table is written as"):
        write_table(tmp_path / "x", COLUMNS)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(GpmError, match=r"folder\.csv is a folder; name a file"):
        check_table(tmp_path / "folder.csv")
    check_table(tmp_path / "new.CSV")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


# Pairs


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.csv", "source,target\na,b\nb,c\n"),
        ("pairs.csv", "a,b\nb,c"),
        ("pairs.csv", " Source , TARGET ,weight\r\n a , b ,1\r\n\r\nb,c,2,3\r\n"),
        ("pairs.CSV", '"a","b"\n"b","c"\n'),
        ("pairs.tsv", "source\ttarget\na\tb\nb\tc\n"),
        ("pairs.txt", "a,b\nb,c\n"),
    ],
)
def test_pairs_are_the_first_two_columns(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_bytes(content.encode())
    assert read_pairs(tmp_path / name) == [("a", "b"), ("b", "c")]


def test_names_of_pairs_may_hold_anything(tmp_path: Path) -> None:
    names = ["bob, the 2nd", 'say "hi"', "über"]
    for suffix in (".csv", ".tsv", ".parquet"):
        write_table(tmp_path / f"pairs{suffix}", {"source": names, "target": names[::-1], "note": [1, 2, 3]})
        assert read_pairs(tmp_path / f"pairs{suffix}") == list(zip(names, names[::-1], strict=True))


def test_numbers_in_a_parquet_file_are_names(tmp_path: Path) -> None:
    write_table(tmp_path / "pairs.parquet", {"one": [3, 4], "two": [5, 6]})
    assert read_pairs(tmp_path / "pairs.parquet") == [("3", "5"), ("4", "6")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\nb\n", r"pairs\.csv, line 2: a pair needs two names; mend or remove the line\.$"),
        ("source,target\na,b\n,c\n", r"pairs\.csv, line 3: a pair needs two names"),
        ("source,target\n", r"pairs\.csv holds no pairs; write one 'source,target' per line\.$"),
        ("\n\n", r"pairs\.csv holds no pairs"),
    ],
)
def test_rows_that_are_no_pairs_are_named(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "pairs.csv").write_text(content)
    with pytest.raises(GpmError, match=sentence):
        read_pairs(tmp_path / "pairs.csv")
    with pytest.raises(GpmError, match=r"there is no file .*none\.csv\.$"):
        read_pairs(tmp_path / "none.csv")


def test_a_mark_at_the_start_of_a_file_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("source,target\na,b\n", encoding="utf-8-sig")
    assert read_pairs(tmp_path / "pairs.csv") == [("a", "b")]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("pairs.csv", b"a,caf\xe9\n", "is not UTF-8 text"),
        ("pairs.parquet", b"junk", "cannot be read as Parquet"),
        ("pairs.parquet", {"one": ["a"]}, "line 1: a pair needs two names"),
        ("pairs.parquet", {"one": ["a"], "two": [None]}, "line 1: a pair needs two names"),
        ("pairs.parquet", {"one": [], "two": []}, "holds no pairs"),
    ],
)
def test_files_that_cannot_be_read_get_a_sentence(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        write_table(tmp_path / name, content)
    with pytest.raises(GpmError, match=sentence):
        read_pairs(tmp_path / name)
