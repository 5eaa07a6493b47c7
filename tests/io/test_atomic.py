from __future__ import annotations

import errno
import json
import os
import subprocess
from pathlib import Path

import pytest

from gpm import GpmError
from gpm.io.atomic import WriteError, check_plain, read_json, replacing, write_json, write_text
from gpm.io.yaml_files import read_options


def _names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    write_text(path, "old")
    with replacing(path) as scratch:
        scratch.write_text("new")
        assert path.read_text() == "old"
        assert (scratch.parent, scratch.suffix) == (path.parent, path.suffix)
    assert path.read_text() == "new"
    assert _names(path.parent) == ["file.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_old_file_stays_when_the_block_fails(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")

    def fail() -> None:
        with replacing(path) as scratch:
            scratch.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert _names(tmp_path) == ["file.txt"]


def test_nothing_is_made_by_a_block_that_fails(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_json(tmp_path / "file.json", {"x": object()})
    assert _names(tmp_path) == []


def test_it_is_synced_before_it_takes_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a crash of the machine could leave an empty file under the name."""
    path, synced = tmp_path / "file.txt", []
    write_text(path, "old")
    monkeypatch.setattr(os, "fsync", lambda number: synced.append((os.fstat(number).st_size, path.read_text())))
    write_text(path, "newer")
    assert synced == [(5, "old")]


def test_what_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(GpmError, match=r"^Cannot write .*file/below\.txt: (Not a directory|File exists)\.$"):
        write_text(tmp_path / "file" / "below.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(GpmError, match=r"^Cannot write .*folder: Is a directory\.$"):
        write_text(tmp_path / "folder", "x")
    assert _names(tmp_path) == ["file", "folder"]


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "No space left on device; make room and run it again"),
        (errno.EROFS, "Read-only file system"),
        (errno.EACCES, "Permission denied"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_full_or_closed_disk_is_one_sentence_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    write_text(tmp_path / "file.txt", "old")

    def refuse(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(WriteError, match=rf"^Cannot write .*file\.txt: {said}\.$"):
        write_text(tmp_path / "file.txt", "new")
    assert (tmp_path / "file.txt").read_text() == "old"
    assert _names(tmp_path) == ["file.txt"]


def test_what_killed_processes_left_is_cleared_and_what_others_write_is_not(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    (tmp_path / f".a[1]*.{gone.pid}.0123abcd.txt").write_text("half")
    others = [
        f".a[1]*.{os.getppid()}.0123abcd.txt",
        f".a.{gone.pid}.0123abcd.txt",
        ".a[1]*.x.txt",
        f".a[1]*.{gone.pid}.0123abcd.csv",
        f".a[1]*.{gone.pid}.txt",
        ".a[1]*.txt",
    ]
    for name in others:
        (tmp_path / name).touch()
    write_text(tmp_path / "a[1]*.txt", "new")
    assert _names(tmp_path) == sorted([*others, "a[1]*.txt"])


# Reading


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", r"\(JSONDecodeError\): it is missing or damaged; train again"),
        ("[1]", "must hold an object"),
        ("[" * 100_000, r"\(RecursionError\)"),
        ('{"x": ' * 100_000, r"\(RecursionError\)"),
        ("9" * 5000, r"\(ValueError\)"),
        (b'{"\xff"}', r"\(UnicodeDecodeError\)"),
    ],
)
def test_json_that_is_none_is_one_sentence(tmp_path: Path, content: str | bytes, said: str) -> None:
    (tmp_path / "x.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(GpmError, match=rf"x\.json.*{said}"):
        read_json(tmp_path / "x.json")


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("real.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    for name, said in (("link", "symbolic link"), ("zero", "symbolic link"), ("pipe", "plain"), ("folder", "plain")):
        for read in (read_json, read_options, check_plain):
            with pytest.raises(GpmError, match=said):
                read(tmp_path / f"{name}.json")
    assert read_json(tmp_path / "real.json") == {}


def test_json_is_utf8_and_ends_its_line(tmp_path: Path) -> None:
    content = {"name": "Zoë ± 1", "values": [1, 2.5, None]}
    write_json(tmp_path / "file.json", content)
    text = (tmp_path / "file.json").read_text(encoding="utf-8")
    assert json.loads(text) == content
    assert "Zoë ± 1" in text
    assert text.endswith("}\n")
