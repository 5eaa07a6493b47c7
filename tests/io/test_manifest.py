"""Whether a folder is as it was written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpm import GpmError, Graph, Run, train
from gpm.data.synthetic import planted_motifs
from gpm.io.manifest import check_files, check_folder, write_checksums

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 6, "batch": 64, "epochs": 1, "warmup": 1,
}  # fmt: skip


def _graph() -> Graph:
    return planted_motifs(num_houses=4, num_cycles=2, base_nodes=30, seed=1).graph


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, one below, a graph, and a folder that has checksums of its own."""
    folder = tmp_path / "folder"
    for name in ("a.txt", "below/b.txt", "seed-0/c.txt", "explain/page.html", ".hidden"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"text of {name}")
    Graph.from_edges([[0, 1], [1, 2]]).save(folder / "graph")
    write_checksums(folder / "seed-0")
    write_checksums(folder)
    return folder


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def _link(path: Path) -> None:
    path.rename(path.with_name(f"real-{path.name}"))
    path.symlink_to(f"real-{path.name}")


def test_a_folder_as_it_was_written_has_no_findings(folder: Path, tmp_path: Path) -> None:
    assert check_folder(folder) == []
    (folder / "explain/page.html").write_text("another page, which is made later")
    assert check_folder(Path(shutil.copytree(folder, tmp_path / "copy"))) == []
    listed = json.loads((folder / "checksums.json").read_text())["files"]
    assert set(listed) == {"a.txt", "below/b.txt", "seed-0/checksums.json", "graph/graph.json"}


@pytest.mark.parametrize(
    ("damage", "state"), [(Path.unlink, "missing"), (_flip, "altered"), (_cut, "cut"), (_lengthen, "altered")]
)
@pytest.mark.parametrize("name", ["a.txt", "below/b.txt", "seed-0/c.txt"])
def test_every_damage_is_found_and_named(folder: Path, name: str, damage: Callable[[Path], None], state: str) -> None:
    damage(folder / name)
    assert [(finding.name, finding.state) for finding in check_folder(folder)] == [(name, state)]


@pytest.mark.parametrize("name", ["indices.npy", "graph.json"])
def test_a_graph_below_is_verified_by_its_header(folder: Path, name: str) -> None:
    _flip(folder / "graph" / name)
    (finding,) = check_folder(folder)
    assert finding.name.startswith("graph")
    assert not finding.harmless


def test_links_are_findings_also_of_folders(folder: Path) -> None:
    _link(folder / "a.txt")
    _link(folder / "below")
    found = {finding.name: finding.state for finding in check_folder(folder) if not finding.harmless}
    assert found == {"a.txt": "link", "below/b.txt": "link"}


def test_what_is_more_is_no_damage(folder: Path) -> None:
    (folder / "mine.csv").touch()
    (finding,) = check_folder(folder)
    assert (finding.name, finding.state, finding.harmless) == ("mine.csv", "unexpected", True)


@pytest.mark.parametrize(
    "content",
    [
        "{}", "[]", "{", '{"format": "gpm-checksums", "version": 2, "files": {}}',
        '{"format": "gpm-checksums", "version": 1, "files": {"../../etc/passwd": {"bytes": 1, "sha256": ""}}}',
        '{"format": "gpm-checksums", "version": 1, "files": {"/etc/passwd": {"bytes": 1, "sha256": ""}}}',
        '{"format": "gpm-checksums", "version": 1, "files": {"a.txt": [1]}}',
    ],
)  # fmt: skip
def test_a_list_that_is_none_is_refused(folder: Path, content: str) -> None:
    (folder / "checksums.json").write_text(content)
    with pytest.raises(GpmError, match=r"checksums\.json"):
        check_folder(folder)
    with pytest.raises(GpmError, match=r"checksums\.json"):
        check_files(folder, ["a.txt"])


def test_sizes_that_no_file_has_are_refused(folder: Path) -> None:
    listed = json.loads((folder / "checksums.json").read_text())
    listed["files"]["a.txt"]["bytes"] = 5 * 10**30
    (folder / "checksums.json").write_text(json.dumps(listed))
    with pytest.raises(GpmError, match=r"checksums\.json is damaged: files\['a\.txt'\]\.bytes: expected int"):
        check_folder(folder)


def test_opening_a_run_names_the_damaged_file(tmp_path: Path) -> None:
    run = train(_graph(), out=tmp_path / "run", quiet=True, **SMALL)
    assert isinstance(run, Run)
    for name in ("config.yaml", "model.json", "model.safetensors", "split.npz"):
        copy = Path(shutil.copytree(run.folder, tmp_path / name))
        _flip(copy / name)
        with pytest.raises(GpmError, match=rf"{name} is damaged: its bytes are not those .*; gpm doctor .* says what"):
            Run.open(copy, _graph())
        (copy / name).unlink()
        (copy / name).symlink_to(run.folder / name)
        with pytest.raises(GpmError, match=f"{name} is a symbolic link"):
            Run.open(copy, _graph())
    assert Run.open(run.folder, _graph()).evaluate() == pytest.approx(run.result["test"], abs=1e-6)
