import gzip
from pathlib import Path

import pytest

from gpm import GpmError
from gpm.data.tables import scan_text as module
from gpm.data.tables.scan_text import survey


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
