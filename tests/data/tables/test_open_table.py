import csv
import gzip
import os
import random
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import GpmError
from gpm.data.tables.open_table import Table, open_table, reading
from gpm.data.tables.session import connect, quote, text

PIECES = [
    "a", "é", "😀", "\u2028", "\x85", "\x0b", "\x0c", "\x1c", " ", "  ", "'", "NULL", "NA", "nan", "None", "007", "#",
    "%", "\\", "\\N", "|", "\u200b", "e\u0301", "\ufeff", "\U0010ffff", "-0", "1e5", "x" * 50,
]  # fmt: skip
QUOTED = ['"', '""', "\n", "\r\n", ",", ";", "\t", '",', "\n1,2\n", '"\n']


@pytest.fixture(scope="module")
def base() -> Any:
    with connect(memory="400MB") as base:
        base.execute("SET threads = 2")
        yield base


def _write(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def _read(table: Table) -> list[tuple]:
    """The rows in the order of the file."""
    with reading(table):
        rows = table.base.execute(f"SELECT * FROM {table.numbered()}").fetchall()
        plain = table.base.execute(f"SELECT * FROM {table.view}").fetchall()
    assert [row[-1] for row in rows] == list(range(len(rows)))
    assert [row[:-1] for row in rows] == plain
    assert table.count() == len(rows)
    return plain


def _expect(rows: list[list[str]]) -> list[tuple]:
    return [tuple(cell or None for cell in row) for row in rows if any(row)]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_50_000_adversarial_rows_come_back_cell_by_cell(tmp_path: Path, base: Any, quoting: Any, end: str) -> None:
    chance = random.Random(1)
    pieces = PIECES + QUOTED
    rows = [[f"{i:06}", *("".join(chance.choices(pieces, k=chance.randrange(6))) for _ in "ab")] for i in range(12_500)]
    rows[7][1] = "y" * 3_000_000
    with (tmp_path / "t.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=quoting, lineterminator=end).writerows([["id", "a", "b"], *rows])
    assert _read(open_table(base, tmp_path / "t.csv")) == _expect(rows)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_rows_without_quotes_are_read_by_many_threads_in_order(
    tmp_path: Path, base: Any, end: str, packed: bool
) -> None:
    chance = random.Random(2)
    rows = [[f"{i:06}", "".join(chance.choices(PIECES, k=4)), f"x{i}"] for i in range(60_000)]
    content = ("id,a,b" + end + "".join(",".join(row) + end for row in rows)).encode()
    path = _write(tmp_path, gzip.compress(content, 1) if packed else content, "t.csv.gz" if packed else "t.csv")
    table = open_table(base, path)
    assert (
        "read_csv" in base.execute(f"SELECT sql FROM duckdb_views() WHERE view_name = '{table.view}'").fetchall()[0][0]
    )
    assert _read(table) == _expect(rows)


CELLS = st.text(st.sampled_from([*"ab0 #\t\";,'|\\é\n\u2028\x85\ufeff😀"]), max_size=4)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), max_size=6)),
    delimiter=st.sampled_from(",;\t|"),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_the_csv_module_writes_comes_back(
    tmp_path_factory: pytest.TempPathFactory, base: Any, rows: list[list[str]], delimiter: str, end: str
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    header = [f"c{i}" for i in range(len(rows[0]) if rows else 2)]
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator=end).writerows([header, *rows])
    table = open_table(base, path, options={"delimiter": delimiter, "header": True, "trim": False})
    assert table.columns == tuple(header)
    assert _read(table) == _expect(rows)


@pytest.mark.parametrize("content", ["id,b\n1,2\n3,4\n", 'id,b\n"1",2\n3,4\n'])
def test_only_an_empty_cell_is_missing(tmp_path: Path, base: Any, content: str) -> None:
    table = open_table(base, _write(tmp_path, content + "NULL,NA\nnan,None\n,x\nx,\n,\n\n"))
    assert _read(table)[2:] == [("NULL", "NA"), ("nan", "None"), (None, "x"), ("x", None)]
    assert set(table.types.values()) == {"VARCHAR"}


@pytest.mark.parametrize(
    "content",
    [
        "# one\n\n# two\nsource,target\nr0,x\n\nr1,x\n,\nr2,x\n",
        '# one\nsource,target\n"r0","x\ny"\n\nr1,"a\r\n\nb"\nr2,x\n',
        "source target\nr0  x\n\nr1 x\n r2 x\n",
        "source, target\r\n\r\nr0, x\r\nr1, x\r\nr2, x",
    ],
)
def test_a_row_is_found_at_its_line(tmp_path: Path, base: Any, content: str) -> None:
    table = open_table(base, _write(tmp_path, content))
    lines = content.split("\n")
    for row in range(3):
        title, line = table.where(row).split(", line ")
        assert title == "t.csv"
        assert lines[int(line) - 1].strip(' "').startswith(f"r{row}")


def test_a_name_is_a_file_and_no_pattern(tmp_path: Path, base: Any) -> None:
    names = [
        "a[1].csv",
        "a1.csv",
        "*.csv",
        "?.csv",
        "x.csv",
        "it's.csv",
        "[[].csv",
        "{a,b}.csv",
        "back\\.csv",
        "%s.csv",
    ]
    for number, name in enumerate(names):
        _write(tmp_path, f"{number},1\n", name)
    for number, name in enumerate(names):
        assert _read(open_table(base, tmp_path / name)) == [(str(number), "1")]


def test_a_folder_that_looks_like_a_partition_adds_no_columns(tmp_path: Path, base: Any) -> None:
    (tmp_path / "year=2020").mkdir()
    assert open_table(base, _write(tmp_path / "year=2020", "1,2\n")).columns == ("column 1", "column 2")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\n1,2\n3\n", "t.csv, line 3: 1 cell(s) instead of 2"),
        ("a,b\n1,2\n3,4,5\n", "t.csv, line 3: 3 cell(s) instead of 2"),
        ('a,b\n"1",2\n3\n', "t.csv, line 3: 1 cell(s) instead of 2"),
        ('a,b\n1,2\n3,"4\n5,6\n', "t.csv, line 3: a quote is opened and never closed"),
        ('a,b\n1,2\n3,"4"x\n5,6\n', "t.csv, line 3: a cell continues after its closing quote"),
        ("a,b\n1,2\n3\r,4\n", "t.csv, line 3: a cell contains a carriage return"),
        ("a,b\n1,2\n\x00,4\n", "t.csv, line 3 contains a zero byte"),
        (b"a,b\n1,2\n\xe9,4\n", "t.csv, line 3 is not UTF-8 text"),
        (b"a,b\n1,2\n3,\xc3", "t.csv, line 3 is not UTF-8 text"),
        ("a,b\n1,2\n".encode("utf-16"), "t.csv is UTF-16 text"),
        (b"PK\x03\x04rest", "t.csv is a workbook or a zip file"),
        (b"\x1f\x8b\x08rest", "t.csv is compressed"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "t.csv, line 1 is not UTF-8 text"),
        ("", "t.csv has no rows"),
        ("\n  \n# x\n", "t.csv has no rows"),
        ("id,x,ID\n1,2,3\n", "t.csv, line 1: columns 1 and 3 are both called 'ID'"),
        ("# c\nid,,x\n1,2,3\n", "t.csv, line 2: column 2 has no name"),
        ("id,gpm_row\n1,2\n", "t.csv, line 1: column name 'gpm_row' is reserved"),
        ("a, b\n1, 2\n \n3, 4\n", "t.csv, line 3 differs from the other rows"),
        ('"a" "b"\n"c" "d"\n', "t.csv, line 1: quoted cells are separated by blanks"),
        ("#cat,#dog\nsun,moon\n#cat,moon\n", "t.csv, line 3: a row begins with #, like the comments above"),
        ("," * 20_001 + "\n", "t.csv has no rows"),
        ("x," * 20_001 + "\n", "t.csv, line 1: 20,002 columns"),
    ],
)
def test_a_bad_text_file_is_one_sentence(tmp_path: Path, base: Any, content: str | bytes, sentence: str) -> None:
    path = _write(tmp_path, content)
    with pytest.raises(GpmError) as error:
        _read(open_table(base, path))
    assert str(error.value).startswith(sentence)
    assert "\n" not in str(error.value)


def test_a_very_long_cell_is_a_quote_not_closed(tmp_path: Path, base: Any) -> None:
    path = _write(tmp_path, 'a,b\n1,2\n3,"' + ("4," + "x" * 99 + "\n") * 200_000)
    with pytest.raises(GpmError, match=r"t\.csv, line 3: a cell has more than 16,777,216 characters"):
        open_table(base, path)


def test_a_bad_path_is_one_sentence(tmp_path: Path, base: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GpmError, match="There is no file"):
        open_table(base, tmp_path / "none.csv")
    with pytest.raises(GpmError, match="is a folder"):
        open_table(base, tmp_path)
    with pytest.raises(GpmError, match="is not a supported table file"):
        open_table(base, _write(tmp_path, "a", "t.xlsx"))
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(GpmError, match="is a pipe or a device"):
        open_table(base, tmp_path / "pipe.csv")
    with pytest.raises(GpmError, match="is damaged, or not a gzip file"):
        open_table(base, _write(tmp_path, "a,b\n", "t.csv.gz"))
    path = _write(tmp_path, "a,b\n")

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(GpmError, match="cannot be read: Permission denied"):
        open_table(base, path)


def test_parquet_keeps_its_types_and_its_order(tmp_path: Path, base: Any) -> None:
    path = tmp_path / "t.parquet"
    base.execute(
        f"""COPY (SELECT i AS id, 'é' || i AS name, CASE WHEN i % 2 = 0 THEN 'nan'::DOUBLE ELSE i END AS x,
        TIMESTAMPTZ '2020-01-01 12:00:00+02' AS t, encode('ü') AS b FROM range(300000) t(i))
        TO '{path}' (FORMAT parquet)"""
    )
    table = open_table(base, path)
    assert table.types == {"id": "BIGINT", "name": "VARCHAR", "x": "DOUBLE", "t": "TIMESTAMP", "b": "VARCHAR"}
    odd = base.execute(f"SELECT count(*) FROM {table.numbered()} WHERE gpm_row <> id OR name <> 'é' || gpm_row")
    assert odd.fetchall() == [(0,)]
    first = base.execute(f"SELECT id, x, CAST(t AS VARCHAR), b FROM {table.view} LIMIT 2").fetchall()
    assert first == [(0, None, "2020-01-01 10:00:00", "ü"), (1, 1.0, "2020-01-01 10:00:00", "ü")]
    assert table.where(16) == "t.parquet, row 17"
    assert table.options == {}


def test_a_parquet_column_may_be_called_as_a_row_number(tmp_path: Path, base: Any) -> None:
    base.execute(f"COPY (SELECT 5 AS file_row_number, 'a' AS id) TO '{tmp_path / 't.parquet'}' (FORMAT parquet)")
    assert _read(open_table(base, tmp_path / "t.parquet")) == [(5, "a")]


def test_bad_parquet_is_one_sentence(tmp_path: Path, base: Any) -> None:
    path = tmp_path / "t.parquet"
    for content in (b"", b"PAR1", b"PAR1" + b"x" * 20 + b"PAR1", b"a,b\n1,2\n"):
        path.write_bytes(content)
        with pytest.raises(GpmError, match=r"t\.parquet cannot be read"):
            open_table(base, path)
    base.execute(f"COPY (SELECT 'a' || i AS id FROM range(9999) t(i)) TO '{path}' (FORMAT parquet)")
    damaged = bytearray(path.read_bytes())
    damaged[2000:2100] = b"z" * 100
    path.write_bytes(damaged)
    with pytest.raises(GpmError, match=r"t\.parquet cannot be read"):
        _read(open_table(base, path))


def test_frames_are_tables(base: Any) -> None:
    table = open_table(base, pd.DataFrame({"id": ["b", "a"], 7: [1, None]}, index=[5, 3]), title="edges")
    assert _read(table) == [("b", 1.0), ("a", None)]
    assert table.columns == ("id", "7")
    assert (table.where(1), table.path, table.options) == ("edges, row 2", None, {})
    with pytest.raises(GpmError, match="edges: columns 1 and 2 are both called 'A'"):
        open_table(base, pd.DataFrame([[1, 2]], columns=["a", "A"]), title="edges")
    with pytest.raises(GpmError, match="the data frame has no columns"):
        open_table(base, pd.DataFrame())


def test_names_and_cells_in_sql(base: Any) -> None:
    odd = "a \"b\" 'c' é; --"
    table = open_table(base, pd.DataFrame({odd: ["", "x", None, " "]}))
    assert base.execute(f"SELECT {text(odd)}, {quote(odd)} IS NULL FROM {table.view}").fetchall() == [
        (None, False), ("x", False), (None, True), (" ", False),
    ]  # fmt: skip


def test_what_duckdb_raises_is_one_sentence(tmp_path: Path, base: Any) -> None:
    table = open_table(base, _write(tmp_path, "a,b\n1,2\n"))
    with pytest.raises(GpmError, match=r"t\.csv needs more memory than the limit allows"), reading(table):
        raise duckdb.OutOfMemoryException("failed to allocate")
    with pytest.raises(GpmError, match=r"t\.csv: the disk for temporary files is full"), reading(table):
        raise duckdb.IOException("Could not write file: No space left on device")
    with pytest.raises(GpmError, match=r"edges cannot be read \(odd\); write the file again"), reading("edges"):
        raise duckdb.InvalidInputException("Invalid Input Error: odd\nmore")
    with pytest.raises(KeyboardInterrupt), reading(table):
        raise duckdb.InterruptException("INTERRUPT")
    with pytest.raises(duckdb.BinderException), reading(table):  # a mistake of ours, not of the file
        base.execute(f"SELECT nothing FROM {table.view}")
    (tmp_path / "t.csv").unlink()
    with pytest.raises(GpmError, match="There is no file"):
        table.count()
