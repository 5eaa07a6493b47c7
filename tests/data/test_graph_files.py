"""Graphs and pairs from files of every kind."""

from pathlib import Path
from typing import Any
from unicodedata import normalize

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from gpm import GpmError, Graph, load_graph
from gpm.data.graph_files import read_pairs
from gpm.io.table_files import write_table


def _write(folder: Path, text: str, name: str = "edges.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _names(graph: Graph) -> list:
    return [graph.name(i) for i in range(graph.num_nodes)]


def _edges(graph: Graph) -> set:
    return {(graph.name(a), graph.name(b)) for a, b in graph.edge_index().T}


@pytest.mark.parametrize(
    "text",
    [
        "source,target\nann,bob\nbob,eve\n",
        "ann,bob\nbob,eve\n",
        "ann;bob\nbob;eve",
        "ann\tbob\r\nbob\teve\r\n",
        "# a comment\n\nann bob\nbob  eve\n",
        "source,destination\nann,bob\nbob,eve\n",
        '\ufefftarget,weightless,source\nann,x,bob\n"bob",y,"eve"\n',
    ],
)
def test_edge_lists_of_many_forms_are_the_same_graph(tmp_path: Path, text: str) -> None:
    graph = load_graph(_write(tmp_path, text))
    assert _edges(graph) == {("ann", "bob"), ("bob", "ann"), ("bob", "eve"), ("eve", "bob")}
    assert graph.edge_weight is None


def test_numbers_stay_numbers_and_sort(tmp_path: Path) -> None:
    assert _names(load_graph(_write(tmp_path, "id_a,id_b\n30,7\n7,-2\n"))) == [-2, 7, 30]
    assert load_graph(_write(tmp_path, "0,1\n1,2\n")).names is None
    assert _names(load_graph(_write(tmp_path, "007,8\n8,7\n"))) == ["007", "8", "7"]


def test_directed_and_weighted(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, "from,to,weight\na,b,2\nb,c,0.5\n"), directed=True)
    assert _edges(graph) == {("a", "b"), ("b", "c")}
    np.testing.assert_array_equal(graph.edge_weight, [2, 0.5])
    np.testing.assert_array_equal(load_graph(_write(tmp_path, "a b 3\nb c 1\n"), directed=True).edge_weight, [3, 1])


def test_words_that_are_nodes_are_no_header(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, "u,v\nv,w\nw,u\n"))
    assert (_names(graph), graph.num_edges) == (["u", "v", "w"], 6)


def test_a_weight_column_proves_a_header(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "gpm"):
        graph = load_graph(_write(tmp_path, "person_a,person_b,weight\nann,bob,5\nbob,eve,1\n"), directed=True)
    np.testing.assert_array_equal(graph.edge_weight, [5, 1])
    assert _names(graph) == ["ann", "bob", "eve"]
    assert [message.split()[1:3] for message in caplog.messages[1:]] == [
        ["person_a", "source"], ["person_b", "target"], ["weight", "weight"],
    ]  # fmt: skip


def test_semicolons_go_before_commas(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, "Boston, MA;New York, NY;1,5\nNew York, NY;Albany, NY;2\n"), directed=True)
    assert _names(graph) == ["Boston, MA", "New York, NY", "Albany, NY"]
    np.testing.assert_array_equal(graph.edge_weight, [1.5, 2])


def test_only_tables_are_asked_for_their_direction() -> None:
    with pytest.raises(GpmError, match="directed is for tables of edges"):
        load_graph("karate", directed=True)


def test_only_a_column_called_weight_is_the_weight_under_a_header(tmp_path: Path) -> None:
    assert load_graph(_write(tmp_path, "a,b,timestamp\n1,2,99\n2,3,98\n")).edge_weight is None
    graph = load_graph(_write(tmp_path, "from,to,t,weight\n1,2,99,4\n2,3,98,5\n"), directed=True)
    np.testing.assert_array_equal(graph.edge_weight, [4, 5])


def test_a_stray_quote_neither_hangs_nor_hides_edges(tmp_path: Path) -> None:
    blanks = "\n".join(f"{i} {i + 1}" for i in range(2000))
    assert load_graph(_write(tmp_path, f'5" 6\n{blanks}\n')).num_edges == 2 * 2001
    commas = "\n".join(f"{i},{i + 1}" for i in range(60_000))
    with pytest.raises(GpmError, match="line 1: a quote is opened and never closed"):
        load_graph(_write(tmp_path, f'"5,6\n{commas}\n'))


def test_a_hash_in_a_name_is_no_comment(tmp_path: Path) -> None:
    assert _names(load_graph(_write(tmp_path, "tag,user\n#one,ann\n"))) == ["tag", "user", "#one", "ann"]


_CELLS = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1).map(lambda text: f"_{text}_")


@given(st.lists(st.tuples(_CELLS, _CELLS), min_size=1, max_size=20))
@settings(max_examples=10)
def test_names_come_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    names = {name for pair in pairs for name in pair}
    assume(len({normalize("NFC", name) for name in names}) == len(names))  # such as look the same are refused
    quoted = "\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in pair) for pair in pairs)
    graph = load_graph(_write(tmp_path_factory.mktemp("table"), f"source,target\n{quoted}\n"), directed=True)
    assert {(str(a), str(b)) for a, b in _edges(graph)} == set(pairs)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"edges\.csv has no rows"),
        ("# only a comment\n", "has no rows"),
        ("source,target\n", "has no rows, so there are no nodes"),
        ("ann\nbob\n", "which column is the source of an edge"),
        ("a,b\nc\n", r"edges\.csv, line 2: 1 cell\(s\) instead of 2"),
        ("a,b\nc,\n", "line 2: an end of the edge is empty"),
        ("source,target,weight\na,b,1\na,c,\n", "line 3: weight '' is not a number"),
        ("source,target,weight\na,b,-1\n", "line 2: weight '-1' is not a number of 0 or more"),
        ('a,"b\nc,d\n', "line 1: a quote is opened and never closed"),
        ("source,target\nann,bob\n ann,eve\n", "differ only in blanks"),
    ],
)
def test_bad_tables_get_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        load_graph(_write(tmp_path, text))


def test_binary_files_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_bytes(b"a,b\n\xff\xfe\x00\x01,\x80")
    with pytest.raises(GpmError, match="not UTF-8"):
        load_graph(tmp_path / "edges.csv")


def test_pyg_files(tmp_path: Path) -> None:
    ring = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3)
    for name, saved, count in (
        ("one", ring, 1),
        ("list", [ring, ring], 2),
    ):
        torch.save(saved, tmp_path / f"{name}.pt")
        assert load_graph(tmp_path / f"{name}.pt").num_graphs == count


class _Canary:
    def __reduce__(self):
        return (Path.touch, (Path("canary-was-here"),))


def test_a_malicious_file_is_not_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(_Canary(), "evil.pt")
    with pytest.raises(GpmError, match=r"evil\.pt cannot be read as a PyG file"):
        load_graph("evil.pt")
    assert not Path("canary-was-here").exists()
    torch.save({"a": 1}, "dict.pt")
    with pytest.raises(GpmError, match=r"dict\.pt holds a dict, not a PyG Data"):
        load_graph("dict.pt")


def test_whatever_is_imported_is_loaded(tmp_path: Path) -> None:
    pairs = {"source": ["a", "b"], "target": ["b", "c"]}
    for suffix in (".parquet", ".jsonl", ".tsv"):
        write_table(tmp_path / f"edges{suffix}", pairs)
        assert _edges(load_graph(tmp_path / f"edges{suffix}", directed=True)) == {("a", "b"), ("b", "c")}
    network = nx.DiGraph([("a", "b"), ("b", "c")])
    network.nodes["a"]["age"] = 3
    network.nodes["b"]["age"] = 4
    nx.write_graphml(network, tmp_path / "edges.graphml")
    graph = load_graph(tmp_path / "edges.graphml")
    assert (_edges(graph), graph.census.directed) == ({("a", "b"), ("b", "c")}, True)
    assert graph.x is not None


def test_saved_folders_names_and_nothing(tmp_path: Path) -> None:
    folder = Graph.from_edges([[0], [1]]).save(tmp_path / "graph")
    assert load_graph(folder).num_nodes == 2
    assert load_graph("Karate").num_nodes == 34
    with pytest.raises(GpmError, match=r"neither a file nor a dataset\. Did you mean 'karate'\?"):
        load_graph("karat")
    with pytest.raises(GpmError, match="is not a saved graph"):
        load_graph(tmp_path)
    (tmp_path / "x.docx").write_text("")
    with pytest.raises(GpmError, match="not a kind of file that is read here"):
        load_graph(tmp_path / "x.docx")


# Pairs of nodes


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.csv", "source,target\na,b\nb,c\n"),
        ("pairs.csv", "a,b\nb,c"),
        ("pairs.csv", " Source , TARGET ,weight\r\na,b,1\r\n\r\nb,c,2\r\n"),
        ("pairs.csv", "weight,target,source\n1,b,a\n2,c,b\n"),
        ("pairs.CSV", '"a","b"\n"b","c"\n'),
        ("pairs.tsv", "source\ttarget\na\tb\nb\tc\n"),
        ("pairs.txt", "a,b\nb,c\n"),
    ],
)
def test_pairs_are_read_as_edges_are(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_bytes(content.encode())
    assert read_pairs(tmp_path / name) == [("a", "b"), ("b", "c")]


def test_names_of_pairs_may_hold_anything(tmp_path: Path) -> None:
    names = ["bob, the 2nd", 'say "hi"', "über", " 007 ", "two\nlines"]
    for suffix in (".csv", ".tsv", ".parquet"):
        write_table(tmp_path / f"pairs{suffix}", {"source": names, "target": names[::-1], "note": [1, 2, 3, 4, 5]})
        assert read_pairs(tmp_path / f"pairs{suffix}") == list(zip(names, names[::-1], strict=True))


def test_numbers_in_a_parquet_file_are_names(tmp_path: Path) -> None:
    write_table(tmp_path / "pairs.parquet", {"one": [3, 4], "two": [5, 6]})
    assert read_pairs(tmp_path / "pairs.parquet") == [("3", "5"), ("4", "6")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a,b\nb,\n", r"pairs\.csv, line 2: a pair needs two names; fix or remove the row\.$"),
        ("a,b\nb\n", r"pairs\.csv, line 2: 1 cell\(s\) instead of 2"),
        ("source,target\na,b\n,c\n", r"pairs\.csv, line 3: a pair needs two names"),
        ("source,target\n", r"pairs\.csv holds no pairs; write one 'source,target' per line\.$"),
        ("\n\n", r"pairs\.csv has no rows"),
    ],
)
def test_rows_that_are_no_pairs_are_named(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "pairs.csv").write_text(content)
    with pytest.raises(GpmError, match=sentence):
        read_pairs(tmp_path / "pairs.csv")
    with pytest.raises(GpmError, match=r"There is no file .*none\.csv"):
        read_pairs(tmp_path / "none.csv")


def test_a_mark_at_the_start_of_a_file_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("source,target\na,b\n", encoding="utf-8-sig")
    assert read_pairs(tmp_path / "pairs.csv") == [("a", "b")]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("pairs.csv", b"a,caf\xe9\n", "is not UTF-8 text"),
        ("pairs.parquet", b"junk", r"pairs\.parquet cannot be read"),
        ("pairs.parquet", {"one": ["a"]}, "which column is the source of an edge"),
        ("pairs.parquet", {"one": ["a", "a"], "two": ["b", None]}, "row 2: a pair needs two names"),
        ("pairs.parquet", {"one": [], "two": []}, "holds no pairs"),
    ],
)
def test_files_that_cannot_be_read_get_a_sentence(tmp_path: Path, name: str, content: Any, sentence: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        write_table(tmp_path / name, content)
    with pytest.raises(GpmError, match=sentence):
        read_pairs(tmp_path / name)
