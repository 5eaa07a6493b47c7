from pathlib import Path

import numpy as np
import pytest

from gpm import GpmError
from gpm.data.cells_gone import as_numbers, find_column, read_cells
from gpm.io.table_files import write_table


def _write(folder: Path, text: str, name: str = "table.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def _read(path: Path, *names: str) -> tuple[list[int], list[list[str]]]:
    return read_cells(path, lambda header: [find_column(path, header, name) for name in names])


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_what_was_written_is_read(tmp_path: Path, suffix: str) -> None:
    """Numbers come back to the last digit written, text as it was, columns in the order asked for."""
    values = np.array([0.5, -2.75, np.nan])
    write_table(tmp_path / f"t.{suffix}", {"a": ["x, y", 'qu"oted', "z"], "b": values, "c": [True, False, True]})
    lines, rows = _read(tmp_path / f"t.{suffix}", "b", "a", "c")
    assert lines == ([1, 2, 3] if suffix == "parquet" else [2, 3, 4])
    assert [row[1] for row in rows] == ["x, y", 'qu"oted', "z"]
    found = as_numbers(Path("t"), lines, [[row[0], row[2]] for row in rows])
    np.testing.assert_array_equal(found, np.column_stack([values, [1, 0, 1]]))


def test_a_row_is_known_by_the_line_it_begins_at(tmp_path: Path) -> None:
    path = _write(tmp_path, 'a,b\n1,2\n\n"over\ntwo lines",3\n4,5\n , \n6,7\n')
    assert _read(path, "b") == ([2, 4, 6, 8], [["2"], ["3"], ["5"], ["7"]])


@pytest.mark.parametrize(
    ("text", "name"), [("a;b\nx, y;2\n", "t.csv"), ("a\tb\nx, y\t2\n", "t.csv"), ("a,c\tb\nx\t2\n", "t.tsv")]
)
def test_the_delimiter_is_the_headers(tmp_path: Path, text: str, name: str) -> None:
    assert _read(_write(tmp_path, text, name), "b") == ([2], [["2"]])


def test_cells_that_are_not_there_are_empty(tmp_path: Path) -> None:
    assert _read(_write(tmp_path, "a,b\n1\n2,\n3,4,\n"), "b")[1] == [[""], [""], ["4"]]


def test_columns_are_found_whatever_their_capitals() -> None:
    path = Path("t.csv")
    assert find_column(path, ["id", "SMILES"], "smiles") == "SMILES"
    assert find_column(path, ["Smiles", "SMILES"], "SMILES") == "SMILES"
    with pytest.raises(GpmError, match="has no column 'smiles'"):  # which of them?
        find_column(path, ["Smiles", "SMILES"], "smiles")
    with pytest.raises(GpmError, match=r"no column 'smile'\. Did you mean 'smiles'\? Its columns are id, SMILES\."):
        find_column(path, ["id", "SMILES"], "smile")
    with pytest.raises(GpmError, match="Its first line is empty"):
        find_column(path, [], "smiles")


def test_words_are_numbers_or_unknown() -> None:
    rows = [["1e-3"], ["True"], ["no"], [""], ["NaN"], ["N/A"]]
    found = as_numbers(Path("t"), list(range(6)), rows)
    np.testing.assert_array_equal(found[:, 0], [1e-3, 1, 0, np.nan, np.nan, np.nan])
    assert as_numbers(Path("t"), [1, 2], [[], []]).shape == (2, 0)


@pytest.mark.parametrize("cell", ["Toxic", "1,5", "inf", "1e999", "-"])
def test_other_words_are_refused_by_line(cell: str) -> None:
    with pytest.raises(GpmError, match=f"^t, line 7: '{cell}' is not a number"):
        as_numbers(Path("t"), [3, 7], [["1", "2"], ["3", cell]])


def test_bad_tables_get_a_sentence(tmp_path: Path) -> None:
    for text, sentence in (
        ("a,b\n1,2\n1,2,3\n", r"t\.csv, line 3: more cells than columns; quote what holds ','"),
        ('a,b\n1,"2\n3,4\n', "check its quotes"),
        ("", r"no column 'a'\. Its first line is empty"),
    ):
        with pytest.raises(GpmError, match=sentence):
            _read(_write(tmp_path, text, "t.csv"), "a")
    (tmp_path / "binary.csv").write_bytes(b"a,b\n\xff\xfe,1\n")
    with pytest.raises(GpmError, match="not UTF-8"):
        _read(tmp_path / "binary.csv", "a")
    with pytest.raises(GpmError, match="cannot be read as Parquet"):
        _read(_write(tmp_path, "a,b\n", "t.parquet"), "a")
    with pytest.raises(GpmError, match=r"read as \.csv, \.tsv, \.parquet"):
        _read(_write(tmp_path, "a,b\n", "t.xlsx"), "a")
    with pytest.raises(GpmError, match="there is no file"):
        _read(tmp_path / "none.csv", "a")
