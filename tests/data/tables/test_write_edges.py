from __future__ import annotations

import shutil
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
from gpm.data.tables import external_sort as sorting
from gpm.data.tables.node_ids import Ends, Ids, Listed
from gpm.data.tables.number_nodes import number_nodes
from gpm.data.tables.open_table import open_table
from gpm.data.tables.session import connect
from gpm.data.tables.write_edges import write_edges
from gpm.graph.folder import writing_graph
from tests.graphs import edge_lists


@pytest.fixture(scope="module")
def base() -> Iterator[duckdb.DuckDBPyConnection]:
    with connect(memory="500MB") as base:
        yield base


def _csv(base: duckdb.DuckDBPyConnection, path: Path, text: str) -> Any:
    path.write_text(text, encoding="utf-8")
    return open_table(base, path, options={"header": True})


def _write(folder: Path, ends: Ends, ids: Ids, **options: Any) -> Graph:
    shutil.rmtree(folder, ignore_errors=True)
    with writing_graph(folder) as writer:
        ids.write(writer)
        writer.finish(write_edges(ends, ids, writer, **options))
    return Graph.open(folder)


WEIGHTS = st.sampled_from([0.0, 0.1, 0.25, 1.0, 3.0, 1e300])


@settings(max_examples=40)
@given(
    drawn=edge_lists(),
    weights=st.none() | st.lists(WEIGHTS, min_size=40, max_size=40),
    narrow=st.booleans(),
    how=st.fixed_dictionaries(
        {
            "directed": st.booleans(),
            "duplicates": st.sampled_from(["merge", "keep"]),
            "self_loops": st.sampled_from(["keep", "drop"]),
            "keep_ids": st.booleans(),
        }
    ),
    most=st.sampled_from([1, 3, 10, 1000]),
)
def test_the_graph_is_that_of_from_edges(
    base: duckdb.DuckDBPyConnection,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[int, np.ndarray],
    weights: list[float] | None,
    narrow: bool,
    how: dict[str, Any],
    most: int,
) -> None:
    nodes, edges = drawn
    edge_weight = None if weights is None else np.array(weights[: edges.shape[1]], dtype=np.float64)
    if edge_weight is not None and narrow:
        edge_weight = np.minimum(edge_weight, 1e6).astype(np.float32)
    names = [f"n{node}" for node in range(nodes)]
    frame = pd.DataFrame({"from": [names[v] for v in edges[0]], "to": [names[v] for v in edges[1]]}, dtype=object)
    if edge_weight is not None:
        frame["w"] = edge_weight
    ends = Ends(open_table(base, frame), "from", "to", "w" if edge_weight is not None else "")
    listed = Listed(open_table(base, pd.DataFrame({"id": names}, dtype=object)), "id")
    before, sorting.MOST = sorting.MOST, most
    try:
        graph = _write(tmp_path_factory.mktemp("graph") / "g", ends, number_nodes(ends, listed), **how)
    finally:
        sorting.MOST = before
    undirected = not how.pop("directed")
    expected = Graph.from_edges(edges, nodes, edge_weight=edge_weight, names=names, undirected=undirected, **how)
    assert graph.census == expected.census
    found, wanted = graph.arrays(), expected.arrays()
    assert found.keys() == wanted.keys()
    for key in wanted:
        assert found[key].dtype == wanted[key].dtype, key
        np.testing.assert_array_equal(found[key], wanted[key], err_msg=key)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_files_give_the_same_graph_as_frames(base: duckdb.DuckDBPyConnection, tmp_path: Path, suffix: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 3000, 9000), "b": rng.integers(0, 3000, 9000), "w": rng.random(9000)})
    path = tmp_path / f"edges{suffix}"
    base.register("gpm_test", frame)
    base.execute(f"COPY gpm_test TO '{path}'")
    ends = Ends(open_table(base, path), "a", "b", "w")
    graph = _write(tmp_path / "g", ends, number_nodes(ends), keep_ids=True)
    nodes, numbered = np.unique(frame[["a", "b"]].to_numpy(), return_inverse=True)
    expected = Graph.from_edges(
        numbered.reshape(-1, 2).T, edge_weight=frame["w"].to_numpy(), names=nodes, undirected=True, keep_ids=True
    )
    assert graph.census == expected.census
    for key, array in expected.arrays().items():
        np.testing.assert_array_equal(graph.arrays()[key], array, err_msg=key)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("names", [("b", "a", "g", "w"), ("name", "place", "s", "graph"), ('x"y', "a b", "gpm", "t")])
def test_columns_may_have_any_name(
    base: duckdb.DuckDBPyConnection, tmp_path: Path, names: tuple[str, ...], suffix: str
) -> None:
    rows = [("u", "v", "1", 2.0), ("v", "u", "2", 1.0), ("v", "w", "1", 0.5)]
    base.register("gpm_test", pd.DataFrame(rows, columns=list(names)))
    base.execute(f"COPY gpm_test TO '{tmp_path / f'edges{suffix}'}'")
    source, target, group, weight = names
    ends = Ends(open_table(base, tmp_path / f"edges{suffix}"), source, target, weight, group)
    graph = _write(tmp_path / "g", ends, number_nodes(ends), directed=True)
    assert [graph.name(i) for i in range(5)] == ["1:u", "1:v", "1:w", "2:v", "2:u"]
    assert graph.edge_index().tolist() == [[0, 1, 3], [1, 2, 4]]
    assert graph.edge_weight is not None
    assert graph.edge_weight.tolist() == [2.0, 0.5, 1.0]


NODES = "id,age\nx,1\ny,2\n\u00e9,3\nberlin,4\n"
MISTAKES = {
    "a,b\nx,y\nx,\n": "edges.csv, line 3: an end of the edge is empty",
    "a,b\nx,y\n\nx,q\n": "edges.csv, line 4: nodes.csv does not list node 'q'",
    "a,b\nx,berln\n": "Did you mean 'berlin'",
    "a,b\nx,y\u00a0\n": r"edges.csv, line 2 and nodes.csv: ids 'y\\xa0' and 'y' differ only in blanks around them",
    "a,b\nx,e\u0301\n": "differ only in how their letters are encoded",
    "a,b,w\nx,y,1\ny,x,-2\n": "edges.csv, line 3: weight '-2' is not a number of 0 or more",
    "a,b,w\nx,y,inf\n": "line 2: weight 'inf'",
    "a,b,w\nx,y,much\n": "line 2: weight 'much'",
    "a,b,w\nx,y,\n": "line 2: weight ''",
}


@pytest.mark.parametrize("content", MISTAKES)
def test_a_mistake_is_named_with_its_line(base: duckdb.DuckDBPyConnection, tmp_path: Path, content: str) -> None:
    ends = Ends(_csv(base, tmp_path / "edges.csv", content), "a", "b", "w" if ",w" in content else "")
    nodes = Listed(_csv(base, tmp_path / "nodes.csv", NODES), "id")
    with pytest.raises(GpmError, match=MISTAKES[content]):
        _write(tmp_path / "g", ends, number_nodes(ends, nodes))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


@pytest.mark.parametrize("end", ["y ", "e\u0301"])
def test_no_edge_is_dropped_for_an_id_that_only_looks_different(
    base: duckdb.DuckDBPyConnection, tmp_path: Path, end: str
) -> None:
    ends = Ends(_csv(base, tmp_path / "edges.csv", f"a,b\nx,y\nx,{end}\n"), "a", "b")
    nodes = Listed(_csv(base, tmp_path / "nodes.csv", NODES), "id")
    with pytest.raises(GpmError, match="differ only in"):
        _write(tmp_path / "g", ends, number_nodes(ends, nodes, unlisted="drop"))


def test_edges_with_unlisted_ends_are_dropped_and_counted(
    base: duckdb.DuckDBPyConnection, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ends = Ends(_csv(base, tmp_path / "edges.csv", "a,b\nx,y\nx,q\nq,r\ny,x\n"), "a", "b")
    nodes = Listed(_csv(base, tmp_path / "nodes.csv", "id,age\ny,1\nx,2\nz,3\n"), "id")
    with caplog.at_level("WARNING", "gpm"):
        graph = _write(tmp_path / "g", ends, number_nodes(ends, nodes, unlisted="drop"), directed=True, keep_ids=True)
    assert "edges.csv: 2 of 4 edges were dropped" in caplog.text
    assert graph.edge_index().tolist() == [[0, 1], [1, 0]]
    assert graph.edge_ids is not None
    assert graph.edge_ids.tolist() == [3, 0]  # rows of the table, those dropped among them
    assert graph.census.isolated == 1


def test_an_edge_between_two_graphs_is_refused(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    nodes = Listed(_csv(base, tmp_path / "nodes.csv", "id,g\n1,a\n2,a\n3,b\n"), "id", "g")
    ends = Ends(_csv(base, tmp_path / "edges.csv", "a,b\n1,2\n2,3\n"), "a", "b")
    with pytest.raises(GpmError, match=r"edges.csv, line 3: the edge joins '2' and '3' of two different graphs"):
        _write(tmp_path / "g", ends, number_nodes(ends, nodes))
    ends = Ends(_csv(base, tmp_path / "edges2.csv", "a,b,g\n1,2,a\n1,3,b\n"), "a", "b", graph="g")
    with pytest.raises(GpmError, match=r"edges2.csv, line 3: nodes.csv lists node '1' only in other graphs"):
        _write(tmp_path / "g", ends, number_nodes(ends, nodes))


def test_too_heavy_edges_are_refused(base: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    ends = Ends(_csv(base, tmp_path / "edges.csv", "a,b,w\nx,y,1e308\nx,y,1e308\n"), "a", "b", "w")
    with pytest.raises(GpmError, match="add up to infinity"):
        _write(tmp_path / "g", ends, number_nodes(ends))
