"""Names of many nodes at once are those of each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpm import GpmError, Graph
from gpm.graph.find import FEW, find_graphs, find_new, find_nodes
from tests.io.test_table_files import hostile_names

COUNT = 500
BAD = b"caf\xe9".decode("utf-8", "surrogateescape")
KINDS: dict[str, Any] = {
    "hostile": {"names": [*hostile_names(COUNT - 1), BAD]},
    "integers": {"names": np.random.default_rng(0).permutation(10 * COUNT)[:COUNT] - 700},
    "numbered": {},
    "collection": {"graph_ptr": np.array([0, 3, 3, 200, COUNT])},
}


def _graph(kind: str) -> Graph:
    return Graph.from_edges([[0], [1]], COUNT, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_numbers_are_each_others_inverse(kind: str) -> None:
    graph = _graph(kind)
    nodes = np.random.default_rng(1).integers(0, COUNT, 3 * COUNT)  # in any order, some of them twice
    names = graph.names_of(nodes)
    assert names == [graph.name(int(i)) for i in nodes]
    assert {type(name) for name in names} == {int if kind in ("integers", "numbered") else str}
    np.testing.assert_array_equal(find_nodes(graph, names), nodes)
    np.testing.assert_array_equal(find_nodes(graph, [str(name) for name in names]), nodes)
    np.testing.assert_array_equal(find_nodes(graph, names[:FEW]), nodes[:FEW])
    assert graph.names_of(np.zeros(0, dtype=np.int64)) == []
    assert find_nodes(graph, []).dtype == np.int64


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True])
def test_a_name_that_is_not_there_is_said(kind: str, many: bool) -> None:
    graph = _graph(kind)
    known = graph.names_of(np.arange(COUNT if many else 2))
    with pytest.raises(GpmError, match="'nobody of them'"):
        find_nodes(graph, [*known, "nobody of them"])
    with pytest.raises(GpmError, match="Nodes are numbered 0 to 499, got 0 to 500"):
        graph.names_of(np.array([0, 500]))


def _named(names: Any) -> Graph:
    return Graph.from_edges([[0], [1]], len(names), names=names)


def test_new_are_those_whose_names_are_not_known() -> None:
    known = _named(["a", "b", "007"])
    assert find_new(_named(["7", "b", "c", "007", "A"]), known).tolist() == [0, 2, 4]
    assert find_new(known, known).tolist() == []
    assert find_new(_named(np.array([5, 1, 9])), _named(np.array([1, 2]))).tolist() == [0, 2]
    assert find_new(_named(["1", "x", "2"]), _named(np.array([1, 2]))).tolist() == [1]  # a number and its text are one
    assert find_new(Graph.from_edges([[0], [1]], 6), Graph.from_edges([[0], [1]], 4)).tolist() == [4, 5]
    assert find_new(Graph.from_edges([[0], [1]], 3), Graph.from_edges([[0], [1]], 4)).tolist() == []


def test_graphs_are_found_by_name_or_number() -> None:
    assert find_graphs(["CCO", "2"], 3, ["C", "CCO", "CC"]).tolist() == [1, 2]
    assert find_graphs([2], 3).tolist() == [2]
    assert find_graphs(["9"], 3, ["7", "9", "11"]).tolist() == [1]
    with pytest.raises(GpmError, match=r"No graph '2': .*the first is named '7'"):
        find_graphs(["2"], 3, ["7", "9", "11"])  # whose names are numbers, so that a number is a name
    with pytest.raises(GpmError, match="2 graphs are named 'C'; give the number of one, such as 0"):
        find_graphs(["C"], 3, ["C", "CCO", "C"])
    for wrong in ("3", "-1", "x", "²", "9" * 30):
        with pytest.raises(GpmError, match=r"No graph .*: graphs are numbered 0 to 2\."):
            find_graphs([wrong], 3)
