import json
import pickle
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest

from gpm import GpmError
from gpm.data.tables.read_network import network_tables

WRITERS = {".graphml": nx.write_graphml, ".gexf": nx.write_gexf, ".gml": nx.write_gml}
NAMES = ["ann", "00 7", 'é "😀" & <x>', "d;,\t"]


def _write(folder: Path, graph: Any, suffix: str) -> Path:
    path = folder / f"t{suffix}"
    if suffix == ".json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="links")), encoding="utf-8")
    else:
        WRITERS[suffix](graph, path)
    return path


def _pairs(edges: pd.DataFrame, directed: bool) -> list:
    pairs = list(zip(edges["source"], edges["target"], strict=True))
    return sorted(pairs if directed else [tuple(sorted(pair)) for pair in pairs])


@pytest.mark.parametrize("suffix", [".graphml", ".gexf", ".gml", ".json"])
@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph])
def test_what_networkx_writes_comes_back(tmp_path: Path, suffix: str, kind: Any) -> None:
    graph = kind()
    for i, name in enumerate(NAMES):
        graph.add_node(name, age=i + 20, job="cook" if i % 2 else "smith")
    graph.add_edge(NAMES[0], NAMES[1], since=1990)
    graph.add_edge(NAMES[2], NAMES[1], since=1991)
    if graph.is_multigraph():
        graph.add_edge(NAMES[2], NAMES[1], since=1992)
    nodes, edges, directed = network_tables(_write(tmp_path, graph, suffix))
    assert directed == graph.is_directed()
    assert list(nodes["id"]) == NAMES
    assert list(nodes["age"]) == [20, 21, 22, 23]
    assert list(nodes["job"]) == ["smith", "cook", "smith", "cook"]
    expected = [(a, b) if directed else tuple(sorted((a, b))) for a, b in graph.edges()]
    assert _pairs(edges, directed) == sorted(expected)
    assert sorted(edges["since"]) == sorted(value for *_, value in graph.edges(data="since"))


def test_an_attribute_may_be_called_as_a_column(tmp_path: Path) -> None:
    graph = nx.Graph()
    graph.add_node("a", id="x", Id="y")
    graph.add_edge("a", "b", source="s", weight=2.5)
    nodes, edges, _ = network_tables(_write(tmp_path, graph, ".graphml"))
    assert nodes.iloc[0].to_dict() == {"id": "a", "attribute id": "x", "attribute Id": "y"}
    assert edges.iloc[0].to_dict() == {"source": "a", "target": "b", "attribute source": "s", "weight": 2.5}


def test_gml_as_others_write_it(tmp_path: Path) -> None:
    path = tmp_path / "t.gml"
    path.write_text(
        'Creator "x"\ngraph\n[\n directed 1\n node [ id 3 label "é" ]\n node [ id 5 label "é" ]\n'
        " edge [ source 3 target 5 ]\n edge [ source 3 target 5 ]\n]\n",
        encoding="utf-8",
    )
    nodes, edges, directed = network_tables(path)
    assert (list(nodes["id"]), list(nodes["label"]), directed) == ([3, 5], ["é", "é"], True)
    assert _pairs(edges, True) == [(3, 5), (3, 5)]


def test_json_ids_may_be_numbers_or_text(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"nodes": [{"id": 1}, {"id": "1"}], "edges": [{"source": 1, "target": "1", "key": 0}]}')
    nodes, edges, directed = network_tables(path)
    assert (list(nodes["id"]), list(edges.columns), directed) == ([1, "1"], ["source", "target"], False)
    assert list(edges.iloc[0]) == [1, "1"]


NODE = '<graphml><graph><node id="&x;"/></graph></graphml>'
LAUGHS = f'<!DOCTYPE g [<!ENTITY a "ha"><!ENTITY x "&a;&a;&a;&a;">]>{NODE}'
EXTERNAL = f'<!DOCTYPE g [<!ENTITY x SYSTEM "file:///etc/passwd">]>{NODE}'
PARAMETER = f'<!DOCTYPE g [<!ENTITY % y SYSTEM "file:///etc/passwd"> %y;]>{NODE}'


@pytest.mark.parametrize("suffix", [".graphml", ".gexf"])
@pytest.mark.parametrize("content", [LAUGHS, EXTERNAL, PARAMETER])
def test_entities_are_never_expanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, content: str
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the file was read")

    monkeypatch.setattr(nx, "read_graphml", never)
    monkeypatch.setattr(nx, "read_gexf", never)
    (tmp_path / f"t{suffix}").write_text(content)
    with pytest.raises(GpmError, match="declares XML entities"):
        network_tables(tmp_path / f"t{suffix}")


class _Canary:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("suffix", [".gpickle", ".pkl", ".pickle", ".graphml", ".gexf", ".gml", ".json"])
def test_a_pickle_is_never_executed(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"t{suffix}").write_bytes(pickle.dumps(_Canary(tmp_path / "canary")))
    with pytest.raises(GpmError):
        network_tables(tmp_path / f"t{suffix}")
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.pkl", "", "is a pickle, which can run code"),
        ("t.net", "", "is not a supported network file"),
        ("t.graphml", "", "t.graphml, line 1 is not XML"),
        ("t.graphml", "<graphml>\n<graph>", "t.graphml, line 2 is not XML"),
        ("t.graphml", "<html><graph/></html>", "t.graphml cannot be read"),
        ("t.graphml", "<graphml><graph/><graph/></graphml>", "t.graphml has 2 graphs"),
        ("t.gexf", "<gexf><graph><nodes><node/></nodes></graph></gexf>", "t.gexf cannot be read"),
        ("t.gml", "graph [ node [ id ", "t.gml cannot be read"),
        ("t.gml", "", "t.gml cannot be read"),
        ("t.json", "", "t.json cannot be read"),
        ("t.json", "[" * 100_000, "t.json cannot be read"),
        ("t.json", "[]", "t.json is not node-link JSON"),
        ("t.json", '{"nodes": [], "linkz": []}', "t.json is not node-link JSON"),
        ("t.json", '{"nodes": {}, "links": []}', "t.json: the nodes are not a list"),
        ("t.json", '{"nodes": [{"id": "a"}, {"name": "b"}], "links": []}', "t.json: node 2 needs id"),
        ("t.json", '{"nodes": [], "links": [{"source": "a"}]}', "t.json: link 1 needs source and target"),
        ("t.json", '{"nodes": [{"id": true}], "links": []}', "t.json: node 1 needs id"),
    ],
)
def test_a_bad_network_file_is_one_sentence(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(GpmError) as error:
        network_tables(tmp_path / name)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
