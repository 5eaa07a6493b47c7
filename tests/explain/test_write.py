"""Explanations in words and files: nothing is lost, no name leads astray, and a file is there whole or not at all."""

from __future__ import annotations

import csv
import errno
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import GpmError
from gpm.explain.explanation import ALL, Explanation, Overview, ShapeShare
from gpm.explain.write import (
    file_name,
    save_explanations,
    save_overview,
    tabulate,
    tell,
    tell_overview,
)
from gpm.graph.names import join_names
from tests.explain.conftest import HOSTILE
from tests.explain.samples import CLASSES, make_explanation

pytestmark = pytest.mark.usefixtures("one_thread")


def _tiny(name: str = "17", **given: Any) -> Explanation:
    return make_explanation(**{"nodes": 6, "patterns": 2, "name": name} | given)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_explanations([_tiny()], tmp_path_factory.mktemp("saved")).parent


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A folder in which an explanation was written before."""
    return Path(shutil.copytree(saved, tmp_path / "folder"))


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


# Words


@pytest.mark.parametrize("kind", CLASSES)
def test_every_pattern_is_told(kind: str) -> None:
    found = make_explanation(kind=kind)
    lines = tell(found)
    assert found.headline in lines[0]
    assert found.truth in lines[0]
    told = lines[2 : 2 + len(found.patterns)]
    for rank, (line, pattern) in enumerate(zip(told, found.patterns, strict=True), 1):
        assert line.split()[:2] == [str(rank), f"{pattern.score:.3g}"]
        assert f"± {pattern.spread:.2g}" in line
        assert pattern.label in line
        assert found.argument(pattern) in line
        assert line.endswith(join_names(pattern.names))
    assert f"{found.found} patterns in {found.walks} walks" in lines[1]
    assert any("without the edges of the best" in line for line in lines)
    assert any("mean cosine of their scores 0.93" in line for line in lines)


def test_what_is_not_known_is_not_told() -> None:
    found = replace(_tiny(), truth="", patterns=())
    found = replace(found, trust=replace(found.trust, edges=replace(found.trust.edges, top=(0.5,))))
    lines = tell(found)
    assert "known" not in lines[0]
    assert not any("forbidden" in line for line in lines)


def test_values_are_in_their_units_and_chances_in_percent() -> None:
    value, chance = make_explanation(kind="value"), make_explanation(kind="link")
    assert any(f"{value.answer:.4g} becomes {value.answer - value.trust.drop:.4g}" in line for line in tell(value))
    assert any(f"{chance.answer:.1%} becomes {chance.answer - chance.trust.drop:.1%}" in line for line in tell(chance))


@pytest.mark.parametrize(
    ("kind", "argues", "words"),
    [
        ("classes", 1, "for house roof"), ("labels", 2, "for cooking"), ("link", 1, "for link"),
        ("link", 0, "for no link"), ("value", 1, "raises it"), ("value", 0, "lowers it"),
    ],
)  # fmt: skip
def test_what_a_pattern_speaks_for(kind: str, argues: int, words: str) -> None:
    found = _tiny(kind=kind)
    assert found.argument(replace(found.patterns[0], argues=argues)) == words


# Names of files


ODD = ("..", ".", "/", "///", "\0", "~", "CON", "名" * 300, "\U00020000" * 300, "\udcff", " ")


@pytest.mark.parametrize("name", [*HOSTILE, *ODD])
def test_a_file_can_be_named_after_anything(name: str, tmp_path: Path) -> None:
    for text in (name, f"node {name}", f"link {name} - {name}"):
        found = file_name(text)
        assert found
        assert not found.startswith((".", "-", "~"))
        assert not set(found) & set('/\\:*?"<>|\0\n\x1b. $=')
        assert len(os.fsencode(f".{found}.4194304.png")) <= 255  # while it is written it has a longer name
        assert Path(f"{found}.png").name == f"{found}.png"
        (tmp_path / f"{found}.png").write_text("")
    assert {file.parent for file in tmp_path.rglob("*.png")} == {tmp_path}


def test_plain_names_stay_as_they_are() -> None:
    assert file_name("node 17") == "node-17"
    assert file_name("n_1-b") == "n_1-b"
    assert file_name("Ångström") == "Ångström"


# Files


def test_the_five_files_are_written(tmp_path: Path) -> None:
    found = make_explanation(nodes=12, patterns=3)
    page = save_explanations([found], tmp_path / "deep" / "folder")
    assert page == tmp_path / "deep" / "folder" / "index.html"
    assert {file.name for file in page.parent.iterdir()} == {
        "explanation.json", "patterns.csv", "index.html", "node-17.png", "node-17.svg",
    }  # fmt: skip
    stored = json.loads((page.parent / "explanation.json").read_text(encoding="utf-8"))
    assert stored["format"] == 1
    assert stored["explanations"] == json.loads(json.dumps([found.to_dict()]))
    assert (page.parent / "node-17.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (page.parent / "node-17.svg").read_text(encoding="utf-8")
    rows = _rows(page.parent / "patterns.csv")
    assert [(row["rank"], row["shape"], row["path"]) for row in rows] == [
        (str(rank), p.shape, join_names(p.names)) for rank, p in enumerate(found.patterns, 1)
    ]
    np.testing.assert_allclose([float(row["score"]) for row in rows], [p.score for p in found.patterns], rtol=1e-5)


def test_names_in_the_table_and_in_the_json_are_the_users_own(tmp_path: Path) -> None:
    name, *names = HOSTILE
    found = make_explanation(nodes=len(HOSTILE), patterns=6, name=name, names=names)
    folder = save_explanations([found], tmp_path / "out").parent
    rows = _rows(folder / "patterns.csv")
    assert [row["instance"] for row in rows] == [f"node {name}"] * len(found.patterns)
    assert [row["path"] for row in rows] == [join_names(p.names) for p in found.patterns]
    stored = json.loads((folder / "explanation.json").read_text(encoding="utf-8"))["explanations"][0]
    assert stored["instance"] == [name]
    assert [tuple(p["names"]) for p in stored["patterns"]] == [p.names for p in found.patterns]
    assert {tuple(node["name"] for node in stored["view"]["nodes"])} == {HOSTILE}
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == list(folder.iterdir())


def test_a_table_has_all_explanations_below_one_another() -> None:
    some = [_tiny("a", patterns=3), _tiny("b", patterns=2), make_explanation(kind="link", patterns=1)]
    table = tabulate(some)
    assert table["instance"] == [e.name for e in some for _ in e.patterns]
    assert table["rank"] == [rank for e in some for rank in range(1, len(e.patterns) + 1)]
    assert table["argues"] == [e.argument(p) for e in some for p in e.patterns]
    assert len({len(column) for column in table.values()}) == 1
    assert tabulate([]) == tabulate([replace(_tiny(), patterns=())]) == {}


@pytest.mark.parametrize("pair", [("a/b", "a b"), ("l" * 80, "l" * 81), ("/", "."), ("A", "a"), ("one", "one")])
def test_no_figure_is_written_over_another(
    pair: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one instance that is explained twice, for two classes; and where A and a are one name for a file."""
    drawn: list[tuple[str, int]] = []
    monkeypatch.setattr("gpm.explain.figure.save_figure", lambda e, file: drawn.append((file.name.lower(), e.target)))
    save_explanations([replace(_tiny(name), target=target) for target, name in enumerate(pair)], tmp_path)
    assert sorted(target for _, target in drawn) == [0, 0, 1, 1]
    assert len({name for name, _ in drawn}) == 4
    assert {Path(name).suffix for name, _ in drawn} == {".png", ".svg"}


@pytest.mark.parametrize("broken", ["explanation.json", "patterns.csv", "node-17.png", "node-17.svg", "index.html"])
def test_a_write_that_fails_leaves_the_old_files(broken: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    plain = Path.replace

    def fail(file: Path, target: Path) -> Path:
        if Path(target).name == broken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return plain(file, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(GpmError, match=f"Cannot write .*{broken}: No space left on device"):
        save_explanations([_tiny(seed=5, patterns=1)], folder)
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert after.keys() == before.keys()  # nothing half-written beside them
    assert after[broken] == before[broken]


def test_a_second_explanation_takes_the_place_of_the_first(folder: Path) -> None:
    before = (folder / "node-17.png").read_bytes()
    save_explanations([_tiny(seed=5)], folder)
    stored = json.loads((folder / "explanation.json").read_text(encoding="utf-8"))["explanations"]
    assert [each["seed"] for each in stored] == [5]
    assert (folder / "node-17.png").read_bytes() != before


# Overviews


def _overview() -> Overview:
    edges = ((0, 1), (1, 2), (0, 2))
    share = ShapeShare(ALL, "triangle", "C3", 0.5, 0.4, 0.6, 0.1, 5.0, 4.0, 6.0, 3, edges, (), ("a", "b", "c"))
    rows = (share, replace(share, shape="square", content="", carried=0.2, lift=2.0), replace(share, predicted="yes"))
    return Overview("made up", "node", "banzhaf", "test", {ALL: 12, "yes": 7}, rows)


def test_every_shape_of_an_overview_is_told() -> None:
    overview = _overview()
    lines = tell_overview(overview)
    assert lines[0].startswith("(all) (12 nodes)")
    assert lines[3].startswith("yes (7 nodes)")
    for line, row in zip(lines[1:3] + lines[4:], overview.shares, strict=True):
        assert f"{row.shape} {row.content}".strip() in line
        assert f"{row.carried:.1%} [{row.low:.1%}, {row.high:.1%}]" in line
        assert line.endswith(f"{row.lift:.2f}x [{row.lift_low:.2f}, {row.lift_high:.2f}]")


def test_an_overview_is_written(tmp_path: Path) -> None:
    overview = _overview()
    picture = save_overview(overview, tmp_path / "all")
    names = {"overview.json", "overview.csv", "overview.svg", "overview.png"}
    assert {file.name for file in picture.parent.iterdir()} == names
    assert picture == tmp_path / "all" / "overview.png"
    stored = json.loads((picture.parent / "overview.json").read_text(encoding="utf-8"))
    assert (stored["format"], stored["instances"]) == (1, overview.instances)
    assert [row["shape"] for row in stored["shares"]] == [row.shape for row in overview.shares]
    rows = _rows(picture.parent / "overview.csv")
    assert [(row["predicted"], row["shape"], float(row["lift"])) for row in rows] == [
        (row.predicted, row.shape, row.lift) for row in overview.shares
    ]
