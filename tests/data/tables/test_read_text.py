import gzip
from pathlib import Path
from typing import Any

import pytest

from gpm import GpmError
from gpm.data.tables import read_text as module
from gpm.data.tables.read_text import find_line, read_form, read_rows, survey


def _read(folder: Path, content: str, name: str = "t.csv", **options: Any) -> tuple[dict[str, Any], list[list[str]]]:
    path = folder / name
    path.write_bytes(content.encode())
    form = read_form(path, options)
    rows = list(read_rows(path, form))
    assert [find_line(path, form, i) for i in range(len(rows))] == [line for line, _ in rows]
    again = read_form(path, form.options)
    assert again == form
    return form.options | {"columns": form.columns}, [row for _, row in rows]


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ("ann,bob\nbob,eve\n", ","),
        ("ann;bob\r\nbob;eve", ";"),
        ("ann\tbob\rbob\teve\r", "\t"),
        ("# a; comment\n\nann bob\nbob  eve\n", " "),
        ("\ufeff'ann',bob\nbob,eve\n".replace("'", '"'), ","),
        (" ann\tbob \n\n\tbob eve", "\t"),
    ],
)
def test_the_delimiter_is_found(tmp_path: Path, content: str, delimiter: str) -> None:
    facts, rows = _read(tmp_path, content)
    assert facts["delimiter"] == delimiter
    if not content.startswith(" "):
        assert rows == [["ann", "bob"], ["bob", "eve"]]
        assert facts["columns"] == ("column 1", "column 2")


@pytest.mark.parametrize(
    ("content", "delimiter", "width"),
    [
        ("id;x\na;1,5\nb;2,5\n", ";", 2),  # decimal commas
        ("a;1,5\nb;2,5\n", ";", 2),
        ("id,what; where\n1,a; b\n2,c\n", ",", 2),  # semicolons in some cells only
        ('id,"a;b"\n1,2\n', ",", 2),
        ("id\nann lee\n", ",", 1),
        ('"full name"\nann lee\n', ",", 1),
        ("id\tfull name, title\n1\tann, dr\n", "\t", 2),
    ],
)
def test_the_delimiter_cuts_all_rows_alike(tmp_path: Path, content: str, delimiter: str, width: int) -> None:
    facts, rows = _read(tmp_path, content)
    assert facts["delimiter"] == delimiter
    assert {len(row) for row in rows} == {len(facts["columns"])} == {width}


def test_the_name_tsv_means_tabs(tmp_path: Path) -> None:
    assert _read(tmp_path, "id\na,b\n", "t.tsv") == (
        {"delimiter": "\t", "header": True, "trim": False, "columns": ("id",)},
        [["a,b"]],
    )


def test_blanks_belong_to_the_delimiter_where_all_cells_have_them(tmp_path: Path) -> None:
    facts, rows = _read(tmp_path, 'source, target , w\n1, "a, b",  3\n 2 , x,4 \n'.replace(",4", ", 4"))
    assert facts["trim"]
    assert facts["columns"] == ("source", "target", "w")
    assert rows == [["1", "a, b", "3"], ["2", "x", "4"]]
    assert _read(tmp_path, "source,target\n1, 2\n3, 4\n")[1] == [["1", "2"], ["3", "4"]]
    facts, rows = _read(tmp_path, " source , target\n1, 2\n 3 ,4\n")
    assert not facts["trim"]
    assert facts["columns"] == ("source", "target")
    assert rows == [["1", " 2"], [" 3 ", "4"]]
    assert _read(tmp_path, "source,target\n1, 2\n", trim=False)[1] == [["1", " 2"]]
    assert _read(tmp_path, "source,target\n1 ,2\n", trim=True)[1] == [["1", "2"]]


def test_what_is_said_is_not_found_out(tmp_path: Path) -> None:
    _, rows = _read(tmp_path, "a|b;c\n1|2;3\n", delimiter="|", header=False)
    assert rows == [["a", "b;c"], ["1", "2;3"]]
    assert _read(tmp_path, "ann,bob\nbob,eve\n", header=True)[0]["columns"] == ("ann", "bob")
    assert _read(tmp_path, "a b,c\n", delimiter=" ")[1] == [["a", "b,c"]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delimiter": ""}, "delimiter must be one character"),
        ({"delimiter": "ab"}, "delimiter must be one character"),
        ({"delimiter": '"'}, "delimiter must be one character"),
        ({"delimiter": "\n"}, "delimiter must be one character"),
        ({"delimiter": 1}, "delimiter must be one character"),
        ({"header": "yes"}, "header must be true or false"),
        ({"trim": 1}, "trim must be true or false"),
        ({"encoding": "x"}, "A text file has no option 'encoding'"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        _read(tmp_path, "a,b\n", **options)


def test_a_delimiter_at_the_end_of_a_line_is_no_cell(tmp_path: Path) -> None:
    assert _read(tmp_path, "source,target\n1,2,\n3,4,,\n")[1] == [["1", "2"], ["3", "4"]]


def test_a_header_alone_is_a_table_without_rows(tmp_path: Path) -> None:
    assert _read(tmp_path, "source,target\n")[1] == []


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("a,b\nc,d\n", set()),
        ("a,b\r\nc,d\r\n", set()),
        ("a,b\r\nc,d", set()),
        ("a,b\r\nc,d\n", {"mixed"}),
        ("a\rb\n", {"mixed"}),
        ("a\rb\r", {"mixed", "returns"}),
        ('a,"b"\n', {"quotes"}),
        ("a,b\n,d\n", {","}),
        (",b\n", {","}),
        ("\ufeff,b\n", {","}),
        ("a  b\n", {"blanks"}),
        ("a b \n", {"blanks"}),
        ("a b\n c d\n", {"blanks", " "}),
        ("a b ", {"blanks"}),
        ("a b\nc d\n", set()),
        ("", set()),
    ],
)
@pytest.mark.parametrize("chunk", [1, 2, 3, 2**20])
def test_marks_are_found_wherever_chunks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, found: set[str], chunk: int
) -> None:
    (tmp_path / "t.csv").write_bytes(content.encode())
    monkeypatch.setattr(module, "_CHUNK", max(chunk, 3) if content.startswith("\ufeff") else chunk)
    assert survey(tmp_path / "t.csv", ", ") - {"long"} == found


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 2**20])
@pytest.mark.parametrize("content", [b"a\n\xc3\xa9\n\xff,b\n", b"a\n\xc3\xa9\n\xc3", b"a\n\xc3\xa9\nb\0"])
def test_what_is_no_text_is_found_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, chunk: int
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    monkeypatch.setattr(module, "_CHUNK", chunk)
    with pytest.raises(GpmError, match=r"t\.csv, line 3 "):
        survey(tmp_path / "t.csv", ",")


def test_a_long_line_is_found(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"x" * 2**21 + b",b\n")
    assert survey(tmp_path / "t.csv", ",") == {"long"}


def test_a_cut_gzip_file_is_one_sentence(tmp_path: Path) -> None:
    whole = gzip.compress(b"a,b\n" * 9999)
    for content in (whole[:-9], whole[:20] + b"x" + whole[21:], b""):
        (tmp_path / "t.csv.gz").write_bytes(content)
        if content:
            with pytest.raises(GpmError, match=r"t\.csv\.gz is damaged"):
                survey(tmp_path / "t.csv.gz", ",")
        else:
            assert survey(tmp_path / "t.csv.gz", ",") == set()
