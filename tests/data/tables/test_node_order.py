"""Another order of nodes is the same graph by name, and one that walks read fewer pages of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gpm import GpmError, Graph
from gpm.cli.doctor import doctor
from gpm.cli.import_ import import_run
from gpm.data.tables import import_tables
from gpm.data.tables.node_order import find_order, rank_of
from gpm.data.tables.schema import read_schema
from gpm.graph.folder import read_extras
from gpm.graph.validate import find_fault
from gpm.patterns.walks import walk
from tests.small_tables import edges_of, friends, graphs_of, nodes_of, people, rings, save, without

KINDS = ("degree", "locality")


def _import(root: Path, kind: str, **options: Any) -> Path:
    edges, nodes = save(root, edges=friends(), nodes=people())
    return import_tables(edges, root / kind, nodes=nodes, target="pet", order=kind, **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("directed", [False, True])
def test_edges_features_labels_and_parts_are_the_same_by_name(tmp_path: Path, kind: str, directed: bool) -> None:
    given, found = (_import(tmp_path, each, directed=directed) for each in ("given", kind))
    assert nodes_of(found) == nodes_of(given)
    assert edges_of(found) == edges_of(given)
    names = [[graph.name(i) for i in range(graph.num_nodes)] for graph in map(Graph.open, (given, found))]
    assert names[0] != names[1]
    assert Graph.open(found).census == Graph.open(given).census


@pytest.mark.parametrize("kind", KINDS)
def test_the_folder_is_sound_and_says_its_order(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    edges, nodes = save(tmp_path, edges=friends(), nodes=people())
    import_run(str(edges), tmp_path / "graph", nodes, target=["pet"], order=kind, quiet=True)  # type: ignore[arg-type]
    assert f"ordered by {kind}" in capsys.readouterr().out
    doctor(tmp_path / "graph")
    assert find_fault(Graph.open(tmp_path / "graph")) == ""
    assert read_extras(tmp_path / "graph")[0]["order"] == kind
    assert read_schema(tmp_path / "graph" / "import.yaml").order == kind


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_repeats_the_import(tmp_path: Path, kind: str) -> None:
    first = _import(tmp_path, kind)
    schema = first / "import.yaml"
    again = import_tables(tmp_path / "edges.csv", tmp_path / "again", nodes=tmp_path / "nodes.csv", schema=schema)
    files = sorted(path.name for path in first.glob("*.npy"))
    assert files == sorted(path.name for path in again.glob("*.npy"))
    assert all((first / name).read_bytes() == (again / name).read_bytes() for name in files)


def test_degrees_fall(tmp_path: Path) -> None:
    degree = Graph.open(_import(tmp_path, "degree")).degree()
    assert (np.diff(degree) <= 0).all()
    assert degree[0] > degree[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_known_by_number_keep_it_as_their_name(tmp_path: Path, kind: str) -> None:
    edges = save(tmp_path, edges={"source": [0, 1, 2, 2, 3], "target": [3, 3, 3, 4, 5]})[0]
    given, found = (import_tables(edges, tmp_path / each, order=each) for each in ("given", kind))
    graph = Graph.open(found)
    assert Graph.open(given).names is None
    assert graph.names is not None
    assert edges_of(found) == edges_of(given)
    assert all(graph.name(graph.find(number)) == number for number in range(6))


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_of_a_collection_keep_their_place(tmp_path: Path, kind: str) -> None:
    edges, nodes, graphs = save(tmp_path, **dict(zip(("edges", "nodes", "graphs"), rings(), strict=True)))
    given, found = (
        import_tables(edges, tmp_path / each, nodes=nodes, graphs=graphs, target="shape", order=each)
        for each in ("given", kind)
    )
    assert graphs_of(found) == graphs_of(given)
    assert nodes_of(found) == nodes_of(given)
    assert edges_of(found) == edges_of(given)
    assert find_fault(Graph.open(found)) == ""


def test_a_graph_has_the_label_of_its_listed_nodes_when_another_comes_first(tmp_path: Path) -> None:
    edges = {"graph": ["a", "a", "b", "b"], "source": ["1", "1", "1", "1"], "target": ["2", "3", "2", "3"]}
    nodes = {"graph": ["a", "a", "b", "b"], "id": ["2", "3", "2", "3"], "active": ["yes", "yes", "no", "no"]}
    files = save(tmp_path, edges=edges, nodes=nodes)
    options: dict[str, Any] = {"nodes": files[1], "graph": "graph", "target": "active", "unlisted": "add"}
    given, found = (import_tables(files[0], tmp_path / each, order=each, **options) for each in ("given", "degree"))
    assert graphs_of(found) == graphs_of(given)
    assert str(Graph.open(found).name(0)).endswith("1")  # which is not listed, and has most edges


def test_equal_edges_that_are_kept_keep_their_weights(tmp_path: Path) -> None:
    edges = save(tmp_path, edges={"source": [0, 1, 1, 1, 2], "target": [1, 2, 2, 2, 3], "weight": [1, 5, 2, 9, 1]})[0]
    schema = tmp_path / "columns.yaml"
    schema.write_text("duplicates: keep\norder: degree\n")
    graph = Graph.open(import_tables(edges, tmp_path / "graph", schema=schema))
    row = slice(graph.indptr[graph.find(1)], graph.indptr[graph.find(1) + 1])
    assert graph.edge_weight is not None
    weights = {graph.name(u): [] for u in set(graph.indices[row].tolist())}  # type: ignore[var-annotated]
    for u, weight in zip(graph.indices[row].tolist(), graph.edge_weight[row].tolist(), strict=True):
        weights[graph.name(u)].append(weight)
    assert weights == {0: [1.0], 2: [5.0, 2.0, 9.0]}
    assert find_fault(graph) == ""


def test_an_unknown_order_is_refused(tmp_path: Path) -> None:
    edges = save(tmp_path, edges=without(friends(), "how", "years"))[0]
    with pytest.raises(GpmError, match="order must be"):
        import_tables(edges, tmp_path / "graph", order="alphabet")
    assert not (tmp_path / "graph").exists()


def _communities(groups: int = 500, size: int = 20, seed: int = 0) -> Graph:
    """Groups of nodes that have most of their edges among themselves, and numbers that do not tell the group."""
    random = np.random.default_rng(seed)
    count = groups * size
    source = np.repeat(np.arange(count), 6)
    inside = source - source % size + random.integers(size, size=len(source))
    target = np.where(random.random(len(source)) < 0.9, inside, random.integers(count, size=len(source)))
    names = random.permutation(count)
    return Graph.from_edges(np.stack([names[source], names[target]]), num_nodes=count, undirected=True)


def _pages(graph: Graph, rank: NDArray[np.int64]) -> int:
    """Pages of 4 KiB that a batch of walks reads of 100 features of 32 bits."""
    starts = np.random.default_rng(1).choice(graph.num_nodes, 8, replace=False)
    visited, _ = walk(graph, starts[:, None], np.arange(16), length=8)
    rows = rank[np.unique(visited)] * 400
    return len(np.unique([rows // 4096, (rows + 399) // 4096]))


def test_walks_read_fewer_pages_in_an_order_of_locality() -> None:
    graph = _communities()
    order = find_order("locality", graph.indptr, graph.indices)
    assert sorted(order.tolist()) == list(range(graph.num_nodes))
    assert _pages(graph, rank_of(order)) < 0.6 * _pages(graph, np.arange(graph.num_nodes))


@pytest.mark.parametrize("kind", KINDS)
def test_components_do_not_mix_in_locality_and_graphs_in_no_order(kind: str) -> None:
    parts = [_communities(4, 10, seed) for seed in range(3)]
    edges = np.concatenate([part.edge_index() + 40 * i for i, part in enumerate(parts)], axis=1)
    whole = Graph.from_edges(edges, num_nodes=120)
    order = find_order(kind, whole.indptr, whole.indices, np.array([0, 40, 80, 120]))
    assert [sorted(order[i : i + 40].tolist()) for i in (0, 40, 80)] == [list(range(i, i + 40)) for i in (0, 40, 80)]
