from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpm import GpmError, Graph
from gpm.data.tables.node_ids import Ends, Ids, Listed
from gpm.data.tables.number_nodes import number_nodes
from gpm.data.tables.open_table import open_table
from gpm.data.tables.session import connect
from gpm.data.tables.write_edges import write_edges
from gpm.graph.folder import writing_graph

ADVERSARIAL = ["ä", "a,b", 'say "x"', "line\nbreak", "007", "7", "-0", "<img>", "数", "a" * 300, "null\0byte", "'; --"]


@pytest.fixture(scope="module")
def base() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(memory="500MB") as base:
        yield base


def _ends(base: duckdb.DuckDBPyConnection, pairs: list[tuple[Any, ...]], graph: str = "") -> Ends:
    columns = ["a", "b", "g"] if graph else ["a", "b"]
    frame = pd.DataFrame(pairs, columns=columns)
    return Ends(open_table(base, frame, title="edges"), "a", "b", graph=graph)


def _listed(
    base: duckdb.DuckDBPyConnection, ids: list[Any], graphs: list[Any] | None = None, title: str = "nodes"
) -> Listed:
    frame = pd.DataFrame({"id": ids} if graphs is None else {"id": ids, "g": graphs})
    return Listed(open_table(base, frame, title=title), "id", "" if graphs is None else "g")


def _graph(folder: Path, ends: Ends, ids: Ids) -> Graph:
    with writing_graph(folder) as writer:
        ids.write(writer)
        writer.finish(write_edges(ends, ids, writer, directed=True))
    return Graph.open(folder)


def _names(folder: Path, ends: Ends, ids: Ids) -> list[Any]:
    graph = _graph(folder, ends, ids)
    return [graph.name(node) for node in range(graph.num_nodes)]


def _look_different(names: list[str]) -> bool:
    import unicodedata

    bare = [unicodedata.normalize("NFC", name).strip() for name in names]
    return len(set(bare)) == len(bare) and all(name == other for name, other in zip(names, bare, strict=True))


@settings(max_examples=40)
@given(
    names=st.lists(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), min_size=1, max_size=8, unique=True
    ).filter(_look_different)
    | st.lists(st.integers(-(10**18) + 1, 10**18 - 1), min_size=1, max_size=8, unique=True),
    data=st.data(),
    listed=st.booleans(),
)
def test_every_node_comes_back_under_its_own_name(
    base: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    names: list[Any],
    data: st.DataObject,
    listed: bool,
) -> None:
    places = st.integers(0, len(names) - 1)
    pairs = data.draw(st.lists(st.tuples(places, places), min_size=1, max_size=12))
    ends = _ends(base, [(names[a], names[b]) for a, b in pairs])
    graph = _graph(
        tmp_path_factory.mktemp("g") / "g", ends, number_nodes(ends, _listed(base, names) if listed else None)
    )
    found = [graph.name(node) for node in range(graph.num_nodes)]
    appeared = list(dict.fromkeys(names[end] for pair in pairs for end in pair))
    whole = [name for name in appeared if not isinstance(name, str)]
    numbers = whole or ([int(n) for n in appeared if _is_whole(n)] if all(map(_is_whole, appeared)) else [])
    assert [str(name) for name in found] == [str(n) for n in (names if listed else sorted(numbers) or appeared)]
    source, target = graph.edge_index()
    assert {(str(found[a]), str(found[b])) for a, b in zip(source, target, strict=True)} == {
        (str(names[a]), str(names[b])) for a, b in pairs
    }


def _is_whole(name: str) -> bool:
    return name.isascii() and name.removeprefix("-").isdigit() and str(int(name)) == name


def test_names_of_all_kinds_survive(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    ends = _ends(base, [(ADVERSARIAL[0], name) for name in ADVERSARIAL])
    assert _names(tmp_path / "found", ends, number_nodes(ends)) == ADVERSARIAL
    listed = number_nodes(ends, _listed(base, ADVERSARIAL[::-1]))
    assert _names(tmp_path / "listed", ends, listed) == ADVERSARIAL[::-1]


def test_numbers_from_0_need_no_names_and_large_ones_are_text(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    for place, (pairs, names) in enumerate(
        [
            ([(2, 0), (1, 2)], None),
            ([("2", "0"), ("1", "2")], None),
            ([(20, 3), (-1, 20)], [-1, 3, 20]),
            ([("20", "3"), ("03", "20")], ["20", "3", "03"]),
            ([(10**18, 5)], [str(10**18), "5"]),
            ([(-(2**63), 5)], [str(-(2**63)), "5"]),
        ]
    ):
        ends = _ends(base, pairs)
        graph = _graph(tmp_path / str(place), ends, number_nodes(ends))
        assert (graph.names is None) == (names is None)
        assert names is None or [graph.name(i) for i in range(graph.num_nodes)] == names


def test_floats_that_are_whole_name_the_same_nodes(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    ends = _ends(base, [(1.0, 2.0), (2.0, 5.0)])
    assert _names(tmp_path / "g", ends, number_nodes(ends, _listed(base, [5, 2, 1]))) == [5, 2, 1]


def test_nodes_are_added_behind_those_listed(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    ends = _ends(base, [("q", "b"), ("a", "p"), ("q", "p")])
    ids = number_nodes(ends, _listed(base, ["b", "a", "z"]), unlisted="add")
    assert ids.rows().tolist() == [0, 1, 2, -1, -1]
    assert _names(tmp_path / "g", ends, ids) == ["b", "a", "z", "q", "p"]


def test_graphs_come_in_the_order_of_their_table(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    ends = _ends(base, [(1, 0, "m"), (0, 1, "k"), (1, 2, "k")], "g")
    nodes = _listed(base, [0, 0, 1, 2, 1], ["k", "m", "k", "k", "m"])
    ids = number_nodes(ends, nodes, _listed(base, ["m", "k"], title="graphs"))
    assert ids.graph_names == ("m", "k")
    assert ids.rows().tolist() == [1, 4, 0, 2, 3]
    graph = _graph(tmp_path / "listed", ends, ids)
    assert graph.graph_ptr is not None
    assert graph.graph_ptr.tolist() == [0, 2, 5]
    assert graph.edge_index().tolist() == [[1, 2, 3], [0, 3, 4]]
    assert [graph.name(i) for i in range(5)] == ["m:0", "m:1", "k:0", "k:1", "k:2"]
    ids = number_nodes(ends, nodes)
    assert ids.graph_names == ("k", "m")
    ids = number_nodes(ends)
    assert ids.graph_names == ("m", "k")
    assert _names(tmp_path / "found", ends, ids) == ["m:0", "m:1", "k:0", "k:1", "k:2"]


def test_in_a_collection_unique_ids_stay_as_they_are(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    ends = _ends(base, [(3, 1), (0, 2)])
    ids = number_nodes(ends, _listed(base, [0, 3, 2, 1], ["x", "y", "x", "y"]))
    assert _names(tmp_path / "unique", ends, ids) == [0, 2, 3, 1]
    ends = _ends(base, [(0, 1, "0"), (1, 0, "1")], "g")
    graph = _graph(tmp_path / "counted", ends, number_nodes(ends))
    assert graph.names is None
    assert graph.name(3) == "1:1"


def test_mistakes_are_named_with_their_rows(base: duckdb.DuckDBPyConnection) -> None:
    plain, graphs = _ends(base, [("a", "b")]), _ends(base, [("a", "b", "g"), ("a", "b", "h")], "g")
    two = _listed(base, ["a", "b", "a", "b"], ["g", "g", "h", "h"])
    for told, ends, nodes, listed in (
        ("edges, row 2: an end of the edge is empty", _ends(base, [("a", "b"), ("a", None)]), None, None),
        ("edges, row 1: the edge names no graph", _ends(base, [("a", "b", None)], "g"), None, None),
        ("nodes, row 2: column 'id' is empty", plain, _listed(base, ["a", None]), None),
        ("nodes, row 2: column 'g' is empty", graphs, _listed(base, ["a", "b"], ["g", None]), None),
        ("nodes, row 2 and nodes, row 4: both are node 'b'", plain, _listed(base, ["a", "b", "c", "b", "b"]), None),
        ("nodes, row 1 and nodes, row 3: both are node 'a'; name the graph of each edge", plain, two, None),
        (
            "nodes, row 1 and nodes, row 2: ids 'a' and 'a ' differ only in blanks",
            plain,
            _listed(base, ["a", "a "]),
            None,
        ),
        (
            "edges, row 1 and edges, row 2: ids ' b' and 'b ' differ",
            _ends(base, [("a", " b"), ("a", "b ")]),
            None,
            None,
        ),
        ("differ only in how their letters are encoded", _ends(base, [("e\u0301", "\u00e9")]), None, None),
        ("graphs, row 1 and graphs, row 2: both are graph 'g'", graphs, two, ["g", "g", "h"]),
        ("graphs, row 2: column 'id' is empty", graphs, two, ["g", None, "h"]),
        ("nodes, row 3: graphs does not list graph 'h'", graphs, two, ["g"]),
        ("graphs, row 3: graph 'i' has no nodes", graphs, two, ["g", "h", "i"]),
        ("edges has a column of graphs, but nodes has none", graphs, _listed(base, ["a", "b"]), None),
        ("graphs lists graphs, but no other table has a column", plain, None, ["g"]),
        ("nodes has no rows, so there are no nodes", plain, _listed(base, []), None),
        ("edges has no rows, so there are no nodes", _ends(base, []), None, None),
    ):
        with pytest.raises(GpmError, match=told):
            number_nodes(ends, nodes, None if listed is None else _listed(base, listed, title="graphs"))
    with pytest.raises(GpmError, match="edges, row 1: node 'q' is not listed, so its graph is unknown"):
        number_nodes(_ends(base, [("a", "q")]), _listed(base, ["a", "b"], ["g", "h"]), unlisted="add")


def test_a_name_that_is_two_nodes_is_refused(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    ends = _ends(base, [("b:c", "c", "a"), ("c", "c", "a:b"), ("x", "x", "a"), ("x", "x", "a:b")], "g")
    with writing_graph(tmp_path / "g") as writer, pytest.raises(GpmError, match="Two nodes would have the same name"):
        number_nodes(ends).write(writer)


def test_many_names_stay_in_their_order(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    path = tmp_path / "edges.parquet"
    base.execute(f"COPY (SELECT 'n' || i AS a, 'n' || (i + 1) AS b FROM range(100000) AS r(i)) TO '{path}'")
    ends = Ends(open_table(base, path), "a", "b")
    graph = _graph(tmp_path / "g", ends, number_nodes(ends))
    assert graph.names is not None
    picked = np.random.default_rng(0).integers(0, graph.num_nodes, 1000)
    assert [graph.name(i) for i in picked] == [f"n{i}" for i in picked]
