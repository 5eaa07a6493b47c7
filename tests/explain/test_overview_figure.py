import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from matplotlib.figure import Figure

from gpm import GpmError
from gpm.explain.explanation import ALL, Overview, ShapeShare
from gpm.explain.overview_figure import _ticks, save_overview_figure
from gpm.patterns.shape_names import name_shape
from tests.explain.test_figure import texts

GRAPHS = (nx.cycle_graph(6), nx.path_graph(9), nx.path_graph(2), nx.empty_graph(1))


def make_share(predicted: str, graph: nx.Graph, kinds: Sequence[str] = (), carried: float = 0.24) -> ShapeShare:
    return ShapeShare(
        predicted=predicted, shape=name_shape(nx.to_numpy_array(graph, dtype=np.bool_)), content="".join(kinds),
        carried=carried, low=carried - 0.05, high=carried + 0.06, chance=0.1, lift=10 * carried, lift_low=1.9,
        lift_high=3.0, nodes=len(graph), edges=tuple(graph.edges), kinds=tuple(kinds), example=("a", "b"),
    )  # fmt: skip


def make_overview(classes: Sequence[str], graphs: Sequence[nx.Graph] = GRAPHS) -> Overview:
    shares = tuple(make_share(name, graph) for name in classes for graph in graphs)
    counts = {name: 10 + place for place, name in enumerate(classes)}
    return Overview("Houses", "node", "left-out", "test", counts, shares)


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_every_class_and_shape_is_drawn_with_its_lift(tmp_path: Path) -> None:
    overview = make_overview([ALL, "walls", "roofs"])
    save_overview_figure(overview, tmp_path / "figure.svg")
    written = texts(tmp_path / "figure.svg")
    assert [t for t in written if t in ("all together", "walls", "roofs")] == ["all together", "walls", "roofs"]
    for share in overview.shares:
        assert written.count(share.shape) == 3
    assert written.count("2.4x [1.9, 3.0]") == len(overview.shares)
    assert {"10 nodes", "11 nodes", "12 nodes"} <= set(written)
    assert any(text.startswith("10 nodes of the test split, patterns scored by left-out") for text in written)


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_figures_are_what_their_name_says(tmp_path: Path, kind: str) -> None:
    save_overview_figure(make_overview(["a"]), tmp_path / f"figure.{kind}")
    assert (tmp_path / f"figure.{kind}").read_bytes()[:4] == {"png": b"\x89PNG", "pdf": b"%PDF"}[kind]


def test_the_same_overview_has_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        save_overview_figure(make_overview(["x", "y"]), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_of_many_classes_the_largest_are_drawn_and_that_is_said(tmp_path: Path) -> None:
    names = [f"class-{i}" for i in range(11)]
    save_overview_figure(make_overview([ALL, *names], GRAPHS[2:3]), tmp_path / "figure.svg")
    written = texts(tmp_path / "figure.svg")
    assert [text for text in written if text.startswith("class-")] == names[3:]
    assert any("8 of 11 classes drawn, those with the most nodes" in text for text in written)


def test_atoms_carry_their_symbols(tmp_path: Path) -> None:
    share = make_share("toxic", nx.star_graph(3), ["N", "O", "O", "Cl"])
    overview = Overview("Molecules", "graph", "attention", "test", {"toxic": 1}, (share,), atoms=True)
    save_overview_figure(overview, tmp_path / "figure.svg")
    written = texts(tmp_path / "figure.svg")
    assert [written.count(symbol) for symbol in ("N", "O", "Cl")] == [1, 2, 1]
    assert "star of 3 leaves NOOCl" in written
    assert "1 graph" in written


def test_names_are_text_whatever_they_say(tmp_path: Path) -> None:
    shares = tuple(
        replace(make_share(name, GRAPHS[0], ["$k"] * 6), content=name) for name in ("$x$ <b>", "漢\n字" * 99)
    )
    overview = Overview("$1_$2 {", "node", "left-out", "test", {"$x$ <b>": 1}, shares)
    for kind in ("svg", "png"):
        save_overview_figure(overview, tmp_path / f"figure.{kind}")
    assert {"$x$ <b>", "hexagon $x$ <b>", "$k"} <= set(texts(tmp_path / "figure.svg"))


def test_lifts_without_a_value_are_drawn_as_unknown(tmp_path: Path) -> None:
    share = replace(make_share("a", GRAPHS[0]), lift=float("inf"), lift_low=float("nan"), lift_high=float("nan"))
    save_overview_figure(Overview("d", "node", "left-out", "test", {"a": 1}, (share,)), tmp_path / "figure.svg")
    assert "?x [?, ?]" in texts(tmp_path / "figure.svg")


@pytest.mark.parametrize("most", [0.003, 0.02, 0.1, 0.37, 0.5, 0.94])
def test_the_scale_holds_all_bars_and_wastes_little(most: float) -> None:
    share = replace(make_share("a", GRAPHS[0]), carried=most / 2, low=most / 3, high=most, chance=most / 4)
    ticks = _ticks([share])
    assert ticks[0] == 0
    assert most <= ticks[-1] + 1e-9 < 2 * most
    assert 3 <= len(ticks) <= 6


def test_an_overview_without_shapes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match="The overview of Houses has no shapes"):
        save_overview_figure(make_overview([]), tmp_path / "figure.svg")


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "figure.png"
    path.write_text("old")
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(GpmError, match="No space left"):
        save_overview_figure(make_overview(["a"]), path)
    assert path.read_text() == "old"
