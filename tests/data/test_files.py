from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from gpm import GpmError, Graph, load_graph


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
        graph = load_graph(
            _write(tmp_path, "person_a,person_b,since,weight\nann,bob,1,5\nbob,eve,2,1\n"), directed=True
        )
    np.testing.assert_array_equal(graph.edge_weight, [5, 1])
    assert _names(graph) == ["ann", "bob", "eve"]
    assert caplog.messages == [
        "edges.csv: a header, source is column 'person_a', target is column 'person_b', weight is column 'weight', "
        "1 other column(s) ignored"
    ]


def test_semicolons_go_before_commas(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, "Boston, MA;New York, NY;1,5\nNew York, NY;Albany, NY;2\n"), directed=True)
    assert _names(graph) == ["Boston, MA", "New York, NY", "Albany, NY"]
    np.testing.assert_array_equal(graph.edge_weight, [1.5, 2])


def test_only_edge_lists_are_asked_for_their_direction() -> None:
    with pytest.raises(GpmError, match="directed is for edge lists"):
        load_graph("karate", directed=True)


def test_only_a_column_called_weight_is_the_weight_under_a_header(tmp_path: Path) -> None:
    assert load_graph(_write(tmp_path, "a,b,timestamp\n1,2,99\n2,3,98\n")).edge_weight is None
    graph = load_graph(_write(tmp_path, "x,y,t,weight\n1,2,99,4\n2,3,98,5\n"), directed=True)
    np.testing.assert_array_equal(graph.edge_weight, [4, 5])


def test_a_stray_quote_neither_hangs_nor_hides_edges(tmp_path: Path) -> None:
    blanks = "\n".join(f"{i} {i + 1}" for i in range(2000))
    assert load_graph(_write(tmp_path, f'5" 6\n{blanks}\n')).num_edges == 2 * 2001
    commas = "\n".join(f"{i},{i + 1}" for i in range(60_000))
    with pytest.raises(GpmError, match="check its quotes"):
        load_graph(_write(tmp_path, f'"5,6\n{commas}\n'))


def test_a_hash_in_a_name_is_no_comment(tmp_path: Path) -> None:
    assert _names(load_graph(_write(tmp_path, "tag,user\n#one,ann\n"))) == ["tag", "user", "#one", "ann"]


_CELLS = st.text(st.characters(blacklist_categories=["Cs", "Cc"], blacklist_characters="\x85\u2028\u2029"), min_size=1)


@given(st.lists(st.tuples(_CELLS, _CELLS), min_size=1, max_size=20))
def test_names_come_back(tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]) -> None:
    pairs = [(a.strip() or "x", b.strip() or "y") for a, b in pairs]
    quoted = "\n".join(",".join('"' + cell.replace('"', '""') + '"' for cell in pair) for pair in pairs)
    graph = load_graph(_write(tmp_path_factory.mktemp("table"), f"source,target\n{quoted}\n"), directed=True)
    assert {(str(a), str(b)) for a, b in _edges(graph)} == set(pairs)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"edges\.csv holds no edges"),
        ("# only a comment\n", "holds no edges"),
        ("ann\nbob\n", "a row has one column"),
        ("a,b\nc\n", r"edges\.csv, line 2: 1 column\(s\) where 2 are needed"),
        ("a,b\nc,\n", "line 2: an end of the edge is empty"),
        ("source,target,weight\na,b,1\na,c,heavy\n", "line 3: weight 'heavy' is not a number"),
        ("source,target,weight\na,b,-1\n", "line 2: weight '-1' is not a number of 0 or more"),
        ('a,"b\nc,d\n', "check its quotes"),
    ],
)
def test_bad_tables_get_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(GpmError, match=sentence):
        load_graph(_write(tmp_path, text))


def test_binary_files_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_bytes(b"\xff\xfe\x00\x01,\x80")
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


def test_saved_folders_names_and_nothing(tmp_path: Path) -> None:
    folder = Graph.from_edges([[0], [1]]).save(tmp_path / "graph")
    assert load_graph(folder).num_nodes == 2
    assert load_graph("Karate").num_nodes == 34
    with pytest.raises(GpmError, match=r"neither a file nor a dataset\. Did you mean 'karate'\?"):
        load_graph("karat")
    with pytest.raises(GpmError, match="is no saved graph"):
        load_graph(tmp_path)
    (tmp_path / "x.docx").write_text("")
    with pytest.raises(GpmError, match="not a kind of file that is read here"):
        load_graph(tmp_path / "x.docx")
