from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from gpm import GpmError
from gpm.tables import check_table, write_table

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
