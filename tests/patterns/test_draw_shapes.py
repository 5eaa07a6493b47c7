import csv
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from gpm import GpmError, Graph, find_frequent
from gpm.patterns import draw_shapes as draw
from gpm.patterns.draw_shapes import layout, save_frequent

EVIL = "<img src=x onerror=alert(1)>"


def _found() -> list:
    names = {i: f"{EVIL}{i}" for i in range(34)}
    return find_frequent(Graph.from_networkx(nx.relabel_nodes(nx.karate_club_graph(), names)), samples=2000, top=7)


@pytest.mark.parametrize("kind", [".png", ".svg", ".pdf"])
def test_figures_are_what_their_name_says(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"figure{kind}"
    save_frequent(_found(), path, title="karate")
    begin = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[kind]
    assert path.read_bytes().startswith(begin)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_same_figure_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_frequent(_found(), tmp_path / name, title="karate")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str | None] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.links += [value for key, value in attrs if key in ("src", "href")]


def test_a_page_draws_every_pattern_loads_nothing_and_escapes_names(tmp_path: Path) -> None:
    found = _found()
    save_frequent(found, tmp_path / "page.html", title=f"graph {EVIL}")
    parser = _Tags()
    parser.feed((tmp_path / "page.html").read_text())
    assert parser.tags.count("svg") == len(found)
    assert parser.tags.count("circle") == sum(len(f.adjacency) for f in found)
    assert "img" not in parser.tags
    assert not parser.links


def test_a_table_holds_the_counts(tmp_path: Path) -> None:
    found = _found()
    save_frequent(found, tmp_path / "table.csv", title="")
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["name"], int(r["count"]), int(r["key"])) for r in rows] == [(f.name, f.count, f.key) for f in found]


@pytest.mark.parametrize("graph", [nx.empty_graph(1), nx.path_graph(2), nx.cycle_graph(7), nx.complete_graph(5),
                                   nx.star_graph(5), nx.house_graph(), nx.balanced_tree(2, 2)])  # fmt: skip
def test_nodes_are_placed_apart_in_the_unit_square(graph: nx.Graph) -> None:
    points = layout(nx.to_numpy_array(graph, dtype=bool))
    assert points.shape == (len(graph), 2)
    assert (points >= -1e-9).all()
    assert (points <= 1 + 1e-9).all()
    distance = np.linalg.norm(points[:, None] - points, axis=-1) + np.eye(len(graph))
    assert distance.min() > 0.05


@pytest.mark.parametrize(
    "graph", [nx.house_graph(), nx.diamond_graph(), nx.bull_graph(), nx.wheel_graph(6), nx.ladder_graph(3)]
)
def test_flat_graphs_are_drawn_without_crossings(graph: nx.Graph) -> None:
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(graph)).tolist()
        shuffled = nx.relabel_nodes(graph, dict(zip(graph, order, strict=True)))
        adjacency = nx.to_numpy_array(shuffled, nodelist=range(len(graph)), dtype=bool)
        places = dict(enumerate(layout(adjacency)))
        assert draw._count_crossings(nx.from_numpy_array(adjacency), places) == 0


def test_svg_is_well_formed() -> None:
    ET.fromstring(draw.svg_graph(np.ones((4, 4), dtype=bool), 'a "label" <b>'))


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr(draw, "_write_page", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(GpmError, match="No space left"):
        save_frequent(_found(), path, title="")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_titles_are_not_read_as_mathematics(tmp_path: Path) -> None:
    save_frequent(_found(), tmp_path / "figure.png", title="cost $1_$2 {")


def test_figures_stay_of_a_size_to_look_at(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"at most 100 patterns, not 777; draw to \.html or \.csv"):
        save_frequent(_found() * 111, tmp_path / "figure.png", title="")


def test_unknown_kinds_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"let its name end in one of \.png"):
        save_frequent(_found(), tmp_path / "figure.gif", title="")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(GpmError, match="is a folder"):
        save_frequent(_found(), tmp_path / "folder.png", title="")
