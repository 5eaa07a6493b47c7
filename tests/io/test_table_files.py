from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from gpm import GpmError
from gpm.io.table_files import check_table, distinct, write_table

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
    for suffix in (".csv", ".parquet", ".jsonl"):
        with pytest.raises(ValueError, match=r"shorter|longer|same length"):
            write_table(tmp_path / f"table{suffix}", {"a": [1, 2], "b": [1]})
    assert list(tmp_path.iterdir()) == []


def test_other_kinds_of_file_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"x\.docx: a table is written as \.csv, \.tsv, \.parquet, \.jsonl; name the"):
        check_table(tmp_path / "x.docx")
    with pytest.raises(GpmError, match="a table is written as"):
        write_table(tmp_path / "x", COLUMNS)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(GpmError, match=r"folder\.csv is a folder; name a file"):
        check_table(tmp_path / "folder.csv")
    check_table(tmp_path / "new.CSV")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.csv"]


ALPHABET = [
    *'"\',;\t \\|#=+-@%_.', "\r", "\n", "\r\n", "0", "007", "1e5", "NULL", "nan", "é", "e\u0301", "ß", "名前", "\u2028",
    "\u00a0", "\ufeff", "\u202e", "\x00", "\x1b", "😀", "\x85", "=HYPERLINK(1)",
]  # fmt: skip


def hostile_names(count: int) -> list[str]:
    """Distinct names of whatever text can hold, the empty one among them."""
    draw = random.Random(0)
    names = dict.fromkeys(["", " ", "0", "00", "None", "null"])
    while len(names) < count:
        names["".join(draw.choices(ALPHABET, k=draw.randint(1, 6))) + str(draw.randint(0, 99))] = None
    listed = list(names)
    draw.shuffle(listed)
    return listed


def _read_back(path: Path) -> list[list[Any]]:
    """The rows of a table; numbers of text files are float32 again."""
    if path.suffix == ".parquet":
        return [list(row) for row in duckdb.sql(f"SELECT * FROM '{path}'").fetchall()]
    if path.suffix == ".jsonl":
        return [list(json.loads(line).values()) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ",", strict=True))[1:]
    return [[name, int(number), float(value)] for name, number, value in rows]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_any_names_any_numbers_and_their_order_come_back(tmp_path: Path, suffix: str) -> None:
    names = hostile_names(20_000)
    numbers = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, len(names))
    values = (np.random.default_rng(1).normal(size=len(names)) * 10.0 ** (numbers % 60 - 30)).astype(np.float32)
    write_table(tmp_path / f"table{suffix}", {"node": names, "number": numbers, "value": values})
    found = list(zip(*_read_back(tmp_path / f"table{suffix}"), strict=True))
    assert list(found[0]) == names
    assert list(found[1]) == numbers.tolist()
    np.testing.assert_array_equal(np.array(found[2], dtype=np.float32), values)
    if suffix in (".csv", ".tsv"):
        delimiter = "'\t'" if suffix == ".tsv" else "','"
        options = f"all_varchar=true, header=true, delim={delimiter}, quote='\"', escape='\"', allow_quoted_nulls=false"
        plain = [name for name in names if "\x00" not in name]
        write_table(tmp_path / f"again{suffix}", {"node": plain, "number": range(len(plain))})
        read = duckdb.sql(f"SELECT * FROM read_csv('{tmp_path}/again{suffix}', {options})").fetchall()
        assert [row[0] or "" for row in read] == plain
        assert [int(row[1]) for row in read] == list(range(len(plain)))


def test_names_that_are_no_unicode_come_back_as_bytes(tmp_path: Path) -> None:
    """What was read with `surrogateescape` is written with it."""
    name = b"caf\xe9 \xff".decode("utf-8", "surrogateescape")
    write_table(tmp_path / "t.csv", {"node": ["a", name]})
    assert (tmp_path / "t.csv").read_bytes() == b"node\na\ncaf\xe9 \xff\n"
    write_table(tmp_path / "t.jsonl", {"node": ["a", name]})
    assert [json.loads(line)["node"] for line in (tmp_path / "t.jsonl").read_bytes().splitlines()] == ["a", name]
    with pytest.raises(GpmError, match=r"Cannot write Parquet .*try a \.csv file"):
        write_table(tmp_path / "t.parquet", {"node": ["a", name]})
    with pytest.raises(GpmError, match="cannot be stored as text"):
        write_table(tmp_path / "u.csv", {"node": ["a", "\ud800"]})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.jsonl"]


def test_a_single_column_keeps_its_empty_rows(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", {"node": ["", "a", ""]})
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["node"], [""], ["a"], [""]]


def test_what_is_no_number_is_null_in_json(tmp_path: Path) -> None:
    write_table(tmp_path / "t.jsonl", {"a": np.array([1.5, np.nan, -np.inf, 1e-20]), "b": [None, 1, "x", True]})
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [row["a"] for row in rows] == [1.5, None, None, 1e-20]
    assert [row["b"] for row in rows] == [None, 1, "x", True]


def test_columns_of_one_name_are_told_apart() -> None:
    assert distinct(["a", "b", "a", "a_2", "a", "A"]) == ["a", "b", "a_2", "a_2_2", "a_3", "A"]
    assert distinct([]) == []
