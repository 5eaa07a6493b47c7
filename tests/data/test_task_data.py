"""What callers ask a datum, whatever its level."""

from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch

from gpm import GpmError, Graph
from gpm.data.domain_data import unite
from gpm.data.graph_data import build_graph_data
from gpm.data.link_data import LinkData
from gpm.data.node_data import NodeData, build_node_data
from gpm.data.sources import resolve
from gpm.data.splits import Masks
from gpm.data.task_data import TaskData


def _graph(count: int = 40, **options: object) -> Graph:
    edges = np.array([[i, (i + 1) % count] for i in range(count)]).T
    return Graph.from_edges(edges, count, undirected=True, y=np.arange(count) % 2, **options)  # type: ignore[arg-type]


def _data() -> dict[str, TaskData]:
    nodes = build_node_data(_graph(names=[f"n{i}" for i in range(40)]), "nodes")
    several = Graph.from_edges(np.zeros((2, 0), dtype=int), 40, graph_ptr=np.arange(0, 41, 2), y=np.arange(20) % 2)
    both = unite(nodes, build_node_data(_graph(36, names=[f"m{i}" for i in range(36)]), "others"))
    graphs = build_graph_data(several, "graphs", names=[f"g{i}" for i in range(20)])
    return {"node": nodes, "link": LinkData(nodes.graph, "links"), "graph": graphs, "domains": both}


def test_every_level_has_one_signature_of_splits() -> None:
    for data in _data().values():
        split = data.make_split(1, "auto", protocol="strict", validate="source")
        assert min(len(split.train), len(split.val), len(split.test)) > 0
        assert data.walked_graph(split).num_nodes == data.graph.num_nodes
        np.testing.assert_array_equal(data.prediction_ids(split), split.test)


def test_an_empty_part_is_refused() -> None:
    none = np.zeros(40, dtype=bool)
    data = build_node_data(_graph(), "ring", masks=Masks(np.arange(40) < 20, none, np.arange(40) >= 20))
    with pytest.raises(GpmError, match=r"^No node is in the val split of 'given'; try --split 60/20/20\.$"):
        data.make_split(0)


def test_statistics_come_from_what_may_be_seen() -> None:
    """The training graphs of a collection, the graphs of a source; all of a single graph."""
    data = _data()
    for level in ("node", "link"):
        assert data[level].statistics_graphs(data[level].make_split(0)) is None
    split = data["graph"].make_split(0)
    np.testing.assert_array_equal(data["graph"].statistics_graphs(split), split.train)
    both = data["domains"]
    np.testing.assert_array_equal(both.statistics_graphs(both.make_split(0)), [0])
    assert (both.has_domains, data["node"].has_domains) == (True, False)
    assert (both.learnable_classes(), data["node"].learnable_classes()) == ([0, 1], None)


def test_instances_are_found_by_their_names_and_named_again() -> None:
    data = _data()
    assert data["node"].name_instances(data["node"].find_instances(["n3", "n1"])) == {"node": ["n3", "n1"]}
    assert data["graph"].name_instances(data["graph"].find_instances("g3")) == {"graph": [3], "name": ["g3"]}
    pairs = data["link"].find_instances([("n3", "n1"), ("n0", "n2")])
    assert data["link"].name_instances(pairs) == {"source": ["n3", "n0"], "target": ["n1", "n2"]}
    assert [each.num_instances for each in data.values()] == [40, 40, 20, 76]
    for level in ("node", "graph"):
        assert len(data[level].find_instances()) == len(list(data[level].instance_names)) == data[level].num_instances
    with pytest.raises(GpmError, match="A link has two ends"):
        data["link"].find_instances(["n1"])


def test_what_the_user_named_is_decided_in_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _graph().save(tmp_path / "saved")
    torch.save([], tmp_path / "a.pt")
    for name in ("edges.csv", "net.gml", "notes.md"):
        (tmp_path / name).write_text("a,b\n")
    frame, ring = pd.DataFrame({"source": [0], "target": [1]}), nx.cycle_graph(4)
    kinds = {
        "dataset": "cora", "folder": "saved", "pyg file": "a.pt", "tables": "edges.csv", "unknown": "notes.md",
        "data": _data()["node"], "graph": _graph(), "graphs": [_graph()], "pyg": _graph().to_pyg(), "networkx": ring,
        "networkx list": (ring, ring), "matrix": sp.eye(3), "smiles": np.array(["CC", "CO"]), "object": 3,
    }  # fmt: skip
    assert {kind: resolve(value).kind for kind, value in kinds.items()} == {kind: kind for kind in kinds}
    assert [resolve(value).kind for value in (frame, "net.gml", [frame, "edges.csv"])] == ["tables"] * 3
    assert resolve("edges.csv", smiles="s", target="y").kind == "molecules"
    source = resolve("saved", target="cora")
    assert (source.name, source.path, source.target) == ("saved", str(tmp_path / "saved"), "cora")
    tables = resolve("edges.csv", target="y", nodes="nodes.csv").tables
    assert tables is not None
    assert (tables.name, tables.options) == (tmp_path.name, {"nodes": "nodes.csv", "target": "y"})
    with pytest.raises(GpmError, match="--nodes goes with tables of edges"):
        resolve("saved", nodes="nodes.csv")
    assert isinstance(resolve("saved").load_to_predict("node"), NodeData)
