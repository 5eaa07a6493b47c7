import networkx as nx
import numpy as np
import pytest

from gpm.explain.figure_sheet import MOST_KINDS, Looks, mix
from gpm.explain.layout import nearest, places


def test_each_kind_has_a_colour_and_a_marker_of_its_own() -> None:
    looks = Looks.of([f"kind {i}" for i in range(MOST_KINDS)], atoms=False)
    names, colors, markers = zip(*looks.legend(), strict=True)
    assert names == tuple(f"kind {i}" for i in range(MOST_KINDS))
    assert len(set(colors)) == len(set(markers)) == MOST_KINDS


def test_of_too_many_kinds_the_rare_share_a_look() -> None:
    kinds = [f"kind {i}" for i in range(12) for _ in range(12 - i)]
    looks = Looks.of(kinds, atoms=False)
    assert [name for name, _, _ in looks.legend()] == [*(f"kind {i}" for i in range(MOST_KINDS - 1)), "other"]
    assert len({looks.look(kind) for kind in kinds}) == MOST_KINDS


def test_looks_do_not_depend_on_the_order_of_nodes() -> None:
    kinds = ["b", "a", "c", "", "a"]
    assert Looks.of(kinds, atoms=False) == Looks.of(kinds[::-1], atoms=False)


def test_nodes_without_kinds_need_no_legend() -> None:
    assert Looks.of(["", ""], atoms=False).legend() == []


def test_all_elements_are_shown_and_the_common_ones_differ() -> None:
    common = ["C", "H", "N", "O", "S", "P", "F", "Cl", "Br", "I"]
    looks = Looks.of([*common, "Xx"], atoms=True)
    assert len({looks.look(symbol) for symbol in [*common, "Xx"]}) == len(common) + 1


@pytest.mark.parametrize("nodes", [5, 9, 13])
def test_long_paths_leave_room_between_nodes(nodes: int) -> None:
    graph = nx.path_graph(nodes)
    points = places(nodes, graph.edges)
    lengths = [np.linalg.norm(points[a] - points[b]) for a, b in graph.edges]
    assert np.ptp(lengths) < 1e-6
    assert min(lengths) >= 0.3
    assert nearest(points) > 0.1


def test_colours_mix_with_white() -> None:
    assert mix("#000000", 0.0) == (1, 1, 1)
    assert mix("#336699", 1.0) == pytest.approx((0.2, 0.4, 0.6))
