from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gpm import GpmError
from gpm.files import replacing, write_json, write_text


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
    with pytest.raises(GpmError, match=r"^cannot write .*file/below\.txt: (Not a directory|File exists)\.$"):
        write_text(tmp_path / "file" / "below.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(GpmError, match=r"^cannot write .*folder: Is a directory\.$"):
        write_text(tmp_path / "folder", "x")
    assert _names(tmp_path) == ["file", "folder"]


def test_json_is_utf8_and_ends_its_line(tmp_path: Path) -> None:
    content = {"name": "Zoë ± 1", "values": [1, 2.5, None]}
    write_json(tmp_path / "file.json", content)
    text = (tmp_path / "file.json").read_text(encoding="utf-8")
    assert json.loads(text) == content
    assert "Zoë ± 1" in text
    assert text.endswith("}\n")
