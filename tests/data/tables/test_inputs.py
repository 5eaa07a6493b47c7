"""What is imported, sorted out: files, frames, network files and folders of graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest

from gpm import GpmError
from gpm.data.tables import import_tables
from gpm.data.tables.inputs import Stack, brings_nodes, gather, name_of, suffix_of, title_of
from gpm.data.tables.session import connect
from tests.small_tables import edges_of, graphs_of, nodes_of, rings, save, without


def _save_each(folder: Path, suffix: str = ".csv") -> None:
    """A file per graph, with its edges."""
    edges = pd.DataFrame(rings()[0])
    for name, rows in edges.groupby("graph"):
        save(folder, suffix, **{str(name): without(rows.to_dict("list"), "graph")})


def _save_networks(folder: Path, suffix: str = ".graphml") -> None:
    edges, nodes, _ = rings()
    folder.mkdir()
    for name in dict.fromkeys(nodes["graph"]):
        network = nx.Graph()
        for graph, node, element in zip(*nodes.values(), strict=True):
            if graph == name:
                network.add_node(node, element=element)
        for graph, a, b, bond in zip(*edges.values(), strict=True):
            if graph == name:
                network.add_edge(a, b, bond=bond)
        writer = nx.write_graphml if suffix == ".graphml" else nx.write_gexf
        writer(network, folder / f"{name}{suffix}")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_folder_of_tables_is_a_table_with_a_column_of_graphs(tmp_path: Path, suffix: str) -> None:
    edges, _, graphs = rings()
    whole = import_tables(pd.DataFrame(edges), tmp_path / "one", graphs=pd.DataFrame(graphs), target="shape")
    _save_each(tmp_path / "all", suffix)
    several = import_tables(tmp_path / "all", tmp_path / "two", graphs=pd.DataFrame(graphs), target="shape")
    assert graphs_of(whole) == graphs_of(several)
    assert edges_of(whole) == edges_of(several)


@pytest.mark.parametrize("suffix", [".graphml", ".gexf"])
def test_a_folder_of_networks_has_nodes_too(tmp_path: Path, suffix: str) -> None:
    edges, nodes, graphs = (pd.DataFrame(table) for table in rings())
    whole = import_tables(edges, tmp_path / "one", nodes=nodes, graphs=graphs, target="size")
    _save_networks(tmp_path / "all", suffix)
    graphs.to_csv(tmp_path / "all/graphs.csv", index=False)  # it may stand among them
    several = import_tables(tmp_path / "all", tmp_path / "two", graphs=tmp_path / "all/graphs.csv", target="size")
    assert graphs_of(whole) == graphs_of(several)
    assert nodes_of(whole) == nodes_of(several)
    assert edges_of(whole) == edges_of(several)


def test_a_network_file_says_what_its_edges_are(tmp_path: Path) -> None:
    network = nx.DiGraph([("a", "b"), ("b", "c")])
    nx.write_gml(network, tmp_path / "net.gml")
    found = gather(tmp_path / "net.gml")
    assert (found.directed, found.title, found.file) == (True, "net", str(tmp_path / "net.gml"))
    assert set(edges_of(import_tables(tmp_path / "net.gml", tmp_path / "graph"))) == {("a", "b"), ("b", "c")}
    assert brings_nodes(tmp_path / "net.gml")
    assert brings_nodes(tmp_path)
    assert not brings_nodes(pd.DataFrame())


def test_names_and_endings() -> None:
    assert [(name_of(Path(name)), suffix_of(Path(name))) for name in ("a.csv", "x/b.CSV.gz", "c.tar.json", "d")] == [
        ("a", ".csv"), ("b", ".csv"), ("c.tar", ".json"), ("d", ""),
    ]  # fmt: skip


def test_a_row_of_several_files_is_told_by_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all/a.csv").write_text("source,target\n0,1\n1,2\n")
    (tmp_path / "all/b.csv").write_text('source,target\n0,"x\ny"\n1,\n')
    found = gather(tmp_path / "all")
    assert isinstance(found.edges, Stack)
    with connect() as base:
        table = found.edges.open(base, "all, edges")
        assert [table.where(row) for row in range(4)] == [
            "a.csv, line 2", "a.csv, line 3", "b.csv, line 2", "b.csv, line 4",
        ]  # fmt: skip
    graphs = pd.DataFrame({"graph": ["a", "b"], "y": ["s", "t"]})
    with pytest.raises(GpmError, match=r"b\.csv, line 4: an end of the edge is empty"):
        import_tables(tmp_path / "all", tmp_path / "graph", graphs=graphs, target="y")


def test_files_without_a_header_and_with_semicolons(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    for name, weight in (("a", "1,5"), ("b", "2,5")):
        (tmp_path / f"all/{name}.csv").write_text(f"x;y;{weight}\ny;z;{weight}\n")
    graphs = pd.DataFrame({"graph": ["a", "b"], "y": ["s", "t"]})
    folder = import_tables(tmp_path / "all", tmp_path / "graph", graphs=graphs, target="y")
    assert {key: weight for key, (weight,) in edges_of(folder).items()}["a:x", "a:y"] == 1.5
    assert {key: weight for key, (weight,) in edges_of(folder).items()}["b:z", "b:y"] == 2.5


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, r"all has no graphs; add one file per graph \(\.csv"),
        ({"a.csv": "0,1\n", "b.graphml": ""}, "mixes tables of edges with network files"),
        ({"a.csv": "0,1\n", "a.tsv": "0\t1\n"}, r"a\.csv and a\.tsv name the same graph"),
        ({"a.csv": "source,target\n0,1\n", "b.csv": "source,target,kind\n0,1,2\n"}, "have different columns"),
        ({"a.csv": "source,target\n0,1\n", "b.csv": "source,target\n"}, r"b\.csv has no edges; remove the file"),
        ({"a.csv": "source,target,graph\n0,1,x\n"}, "column 'graph' is reserved for the names of files"),
    ],
)
def test_folders_that_are_no_graphs(tmp_path: Path, files: dict[str, str], sentence: str) -> None:
    (tmp_path / "all").mkdir()
    for name, text in files.items():
        (tmp_path / "all" / name).write_text(text)
    with pytest.raises(GpmError, match=sentence):
        gather(tmp_path / "all")


def test_a_header_is_the_same_in_all_files(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all/a.csv").write_text("here,there\n0,1\n")
    (tmp_path / "all/b.csv").write_text("here,there\nann,bob\n")  # text above text alone is no header
    edges: Any = gather(tmp_path / "all").edges
    assert edges.frame.to_dict("list") == {"here": ["0", "ann"], "there": ["1", "bob"], "graph": ["a", "b"]}


def test_what_is_no_table(tmp_path: Path) -> None:
    for given, sentence in (
        (3, "Give edges as a file or a DataFrame, not as a int"),
        (tmp_path / "none.csv", r"There is no file .*none\.csv"),
    ):
        with pytest.raises(GpmError, match=sentence):
            gather(given)
    with pytest.raises(GpmError, match="Give a table as a file or a DataFrame, not as a list"):
        gather(pd.DataFrame({"source": [1], "target": [2]}), nodes=[1, 2])
    (tmp_path / "net.json").write_text('{"nodes": [], "links": []}')
    with pytest.raises(GpmError, match="contains its own nodes; leave out --nodes"):
        gather(tmp_path / "net.json", nodes=pd.DataFrame())
    (tmp_path / "links").mkdir()
    (tmp_path / "links/a.csv").symlink_to(tmp_path / "net.json")
    with pytest.raises(GpmError, match="is a link or not a file"):
        gather(tmp_path / "links")


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("bank/edges.csv", "bank"),
        ("bank/Edges.csv.gz", "bank"),
        ("bank/data/edges.csv", "bank"),
        ("bank/graph", "bank"),
        ("bank/loans.csv", "loans"),
        ("/edges.csv", "edges"),
        ("/data/edges.csv", "edges"),
    ],
)
def test_a_graph_in_a_file_with_a_generic_name_is_called_after_the_folder(path: str, title: str) -> None:
    assert title_of(Path(path)) == title
