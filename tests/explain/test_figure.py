import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure

from gpm import GpmError
from gpm.explain.figure import save_figure
from tests.explain.samples import make_explanation

SVG = "{http://www.w3.org/2000/svg}"
LETTERS = tuple("abcdefghijklmn")


def texts(path: Path) -> list[str]:
    """All that is written in an SVG file."""
    return ["".join(element.itertext()).strip() for element in ET.parse(path).iter(f"{SVG}text")]


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("kind", [".png", ".svg", ".pdf"])
def test_figures_are_what_their_name_says(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"figure{kind}"
    save_figure(make_explanation(nodes=8, patterns=1), path)
    begin = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[kind]
    assert path.read_bytes().startswith(begin)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_the_same_explanation_has_the_same_bytes(tmp_path: Path, kind: str) -> None:
    for name in ("a", "b"):
        save_figure(make_explanation(nodes=10, patterns=2), tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_the_top_patterns_are_drawn_with_rank_label_score_and_class(tmp_path: Path) -> None:
    explanation = make_explanation(nodes=15, patterns=6)
    save_figure(explanation, tmp_path / "figure.svg", top=4)
    written = texts(tmp_path / "figure.svg")
    for rank, pattern in enumerate(explanation.patterns[:4], 1):
        assert f"{rank}. {pattern.label}" in written
        below = written[written.index(f"{rank}. {pattern.label}") + 1]
        score = re.fullmatch(r"(\S+) ± (\S+), for (.+)", below)
        assert score is not None
        assert float(score[1]) == pytest.approx(pattern.score, rel=0.005)
        assert float(score[2]) == pytest.approx(pattern.spread, abs=0.005 * pattern.score)
        assert score[3] == explanation.classes[pattern.argues]
    assert not any(text.startswith("5. ") for text in written)


def test_headline_method_and_trust_stand_above(tmp_path: Path) -> None:
    explanation = make_explanation(nodes=8, patterns=1)
    save_figure(explanation, tmp_path / "figure.svg")
    written = texts(tmp_path / "figure.svg")
    assert explanation.headline in written
    above = " ".join(" ".join(written).split())
    assert explanation.method in above
    assert f"falls by {explanation.trust.drop:.2g}" in above
    assert f"falls by {explanation.trust.random_drop:.2g}" in above
    assert "stability 0.93 over 5 draws" in above


@pytest.mark.parametrize("place", [0, 3, 5])
def test_every_step_is_on_an_edge_and_edges_off_the_walk_are_dashed(tmp_path: Path, place: int) -> None:
    explanation = make_explanation(nodes=12, patterns=6, name="start", names=LETTERS)
    pattern = explanation.patterns[place]
    save_figure(replace(explanation, patterns=(pattern,)), tmp_path / "figure.svg")
    numbers = [text for text in texts(tmp_path / "figure.svg") if re.fullmatch(r"[\d,-]+", text)]
    runs = [[int(end) for end in run.split("-")] for text in numbers for run in text.split(",")]
    steps = sorted(step for run in runs for step in range(run[0], run[-1] + 1))
    assert steps == list(range(1, pattern.scale + 1))
    crossed = {frozenset(step) for step in pairwise(pattern.walk)}
    assert len(numbers) == len(crossed)
    dashed = (tmp_path / "figure.svg").read_text().count("stroke-dasharray: ")
    assert dashed == len({frozenset(edge) for edge in pattern.edges} - crossed)


def test_names_and_classes_are_text_whatever_they_say(tmp_path: Path) -> None:
    names = ["$x$", "<b>", "汉字", "a\nb", "\x00\ud800", "$\\frac{", "x" * 300]
    explanation = make_explanation(nodes=10, patterns=3, name="<img src=x>$y", names=names)
    classes = tuple(f"<i>{name} $z_" for name in explanation.classes)
    nodes = tuple(replace(node, kind=f"</svg>{node.kind}$") for node in explanation.view.nodes)
    hostile = replace(explanation, classes=classes, data="漢 $1_$2 {" * 50, view=replace(explanation.view, nodes=nodes))
    for kind in ("svg", "png"):
        save_figure(hostile, tmp_path / f"figure.{kind}")
    written = texts(tmp_path / "figure.svg")
    assert {"$x$", "<b>", "汉字", "a b", "$\\frac{"} <= set(written)
    assert any(text.startswith("node <img src=x>$y") for text in written)
    assert max(map(len, written)) < 250
    tags = {element.tag.removeprefix(SVG) for element in ET.parse(tmp_path / "figure.svg").iter()}
    assert not tags & {"b", "i", "img", "script"}


def test_nodes_are_named_where_names_are_short_and_few(tmp_path: Path) -> None:
    explanation = make_explanation(nodes=40, patterns=1, names=["a", "eight888", "nine99999"])
    save_figure(replace(explanation, patterns=()), tmp_path / "few.svg")
    assert {"17", "a", "eight888", "139"} <= set(texts(tmp_path / "few.svg"))
    assert "nine99999" not in texts(tmp_path / "few.svg")
    save_figure(replace(make_explanation(nodes=41, patterns=1), patterns=()), tmp_path / "many.svg")
    assert not {"17", "103", "139"} & set(texts(tmp_path / "many.svg"))


def test_atoms_carry_their_symbols(tmp_path: Path) -> None:
    explanation = make_explanation(nodes=13, patterns=1, atoms=True)
    save_figure(replace(explanation, patterns=()), tmp_path / "figure.svg")
    written = texts(tmp_path / "figure.svg")
    for symbol in {node.kind for node in explanation.view.nodes}:
        assert written.count(symbol) == sum(node.kind == symbol for node in explanation.view.nodes)


@pytest.mark.parametrize(("kind", "words"), [("link", "for link"), ("value", "es it|ers it"), ("labels", "for travel")])
def test_all_kinds_of_answers_are_drawn(tmp_path: Path, kind: str, words: str) -> None:
    save_figure(make_explanation(nodes=10, patterns=1, kind=kind), tmp_path / "figure.svg")
    assert any(re.search(f"±.*({words})", text) for text in texts(tmp_path / "figure.svg"))


def test_a_walk_that_stays_where_it_is_is_drawn(tmp_path: Path) -> None:
    explanation = make_explanation(nodes=1, patterns=1)
    assert set(explanation.patterns[0].walk) == {0}
    save_figure(explanation, tmp_path / "figure.svg")
    assert "1. node" in texts(tmp_path / "figure.svg")


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figure.png"
    path.write_text("old")
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(GpmError, match="No space left"):
        save_figure(make_explanation(nodes=8, patterns=1), path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["figure.png"]


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    explanation = make_explanation(nodes=8, patterns=1)
    for name in ("figure.gif", "figure.html", "figure"):
        with pytest.raises(GpmError, match=r"end in one of \.png, \.svg, \.pdf\."):
            save_figure(explanation, tmp_path / name)
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(GpmError, match="is a folder"):
        save_figure(explanation, tmp_path / "folder.png")
    with pytest.raises(GpmError, match="top must be at least 1, got 0"):
        save_figure(explanation, tmp_path / "figure.png", top=0)


def test_the_settings_of_matplotlib_stay_as_they_were(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    save_figure(make_explanation(nodes=8, patterns=1), tmp_path / "figure.svg")
    assert dict(mpl.rcParams) == before
