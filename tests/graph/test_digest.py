"""Whether the data of a run is what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from gpm import GpmError, Graph, Run, train
from gpm.data.synthetic import planted_motifs
from gpm.graph import digest as module
from gpm.graph.digest import check_digest, digest_data

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 6, "batch": 64, "epochs": 1, "warmup": 1,
}  # fmt: skip


def _variants() -> dict[str, Graph]:
    edges, x, y = [[0, 1, 2], [1, 2, 3]], np.eye(4, dtype=np.float32), np.arange(4)
    turned = x.copy()
    turned[2, 2] = 2
    usual: dict[str, Any] = {"x": x, "y": y, "names": ["a", "b", "c", "d"]}
    changes: dict[str, dict[str, Any]] = {
        "usual": {}, "label": {"y": np.array([0, 1, 3, 2])}, "feature": {"x": turned}, "no features": {"x": None},
        "sparse": {"x": sp.csr_array(x)}, "sparse value": {"x": sp.csr_array(turned)},
        "weights": {"edge_weight": [1.0, 2.0, 1.0]}, "weight": {"edge_weight": [1.0, 2.0, 3.0]},
        "name": {"names": ["a", "b", "c", "e"]}, "names moved": {"names": ["a", "bc", "", "d"]},
        "edge features": {"edge_attr": np.ones((3, 1))}, "doubles": {"x": x.astype(np.float64)},
    }  # fmt: skip
    graphs = {key: Graph.from_edges(edges, 4, **usual | change) for key, change in changes.items()}
    graphs["edge"] = Graph.from_edges([[0, 1, 2], [1, 2, 2]], 4, **usual)
    graphs["parts"] = Graph.from_edges(edges, 4, graph_ptr=[0, 4, 4], **usual)
    return graphs


def test_every_change_of_a_graph_changes_its_digest() -> None:
    digests = {key: digest_data(graph) for key, graph in _variants().items()}
    assert len(set(digests.values())) == len(digests)
    assert digests == {key: digest_data(graph) for key, graph in _variants().items()}


def test_the_digest_is_of_the_graph_and_not_of_its_place(tmp_path: Path) -> None:
    for key, graph in _variants().items():
        graph.save(tmp_path / key)
        assert digest_data(Graph.open(tmp_path / key), tmp_path / key) == digest_data(graph)


def test_a_large_folder_goes_by_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "READ_WHOLE", 100)
    graph = _variants()["usual"]
    graph.save(tmp_path / "graph")
    checksum = json.loads((tmp_path / "graph/graph.json").read_text())["checksum"]
    assert digest_data(Graph.open(tmp_path / "graph"), tmp_path / "graph") == f"folder:{checksum}"
    assert digest_data(graph).startswith("blake2b:")  # in memory there is no header


def test_a_run_refuses_data_that_was_changed(tmp_path: Path) -> None:
    graph = planted_motifs(num_houses=4, num_cycles=2, base_nodes=30, seed=1).graph
    graph.save(tmp_path / "graph")
    run = train(str(tmp_path / "graph"), out=tmp_path / "run", quiet=True, **SMALL)
    assert isinstance(run, Run)

    def check(graph: Graph) -> None:
        check_digest(graph, run.facts["data_digest"], tmp_path / "run", run.config.data)

    check(run.data.graph)
    y = np.array(graph.y)
    y[:2] = y[:2][::-1] + 1
    changed = Graph.from_edges(graph.edge_index(), graph.num_nodes, x=graph.x, y=y)
    changed.save(tmp_path / "graph", overwrite=True)
    with pytest.raises(GpmError, match=r"graph is no longer what .*run was trained on: .* train again, or predict"):
        check(Graph.open(tmp_path / "graph"))
    with pytest.raises(GpmError, match=r"graph is no longer what .*run was trained on"):
        Run.open(tmp_path / "run", tmp_path / "graph")
