"""The benchmark of explanations measures what it says: its AUC, the edges it asks about, and the drops it compares."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

ROOT = Path(__file__).parents[2]
TRIANGLE, TAIL = [(3, 4), (4, 5), (3, 5)], [(0, 1), (1, 2), (2, 3)]  # a motif at the end of a path


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("planted")


@pytest.fixture
def explain(planted: ModuleType) -> ModuleType:
    return importlib.import_module("explain")


def _data(tail: list[tuple[int, int]] = TAIL) -> Data:
    once = torch.tensor(TRIANGLE + tail).T
    inside = torch.tensor([1.0] * len(TRIANGLE) + [0.0] * len(tail))
    n = int(once.max()) + 1
    node_mask = torch.zeros(n)
    node_mask[3:6] = 1
    edges = torch.cat([once, once.flip(0)], 1)
    return Data(edge_index=edges, edge_mask=inside.repeat(2), node_mask=node_mask, y=node_mask.long(), num_nodes=n)


def test_auc_counts_pairs(planted: ModuleType) -> None:
    random = np.random.default_rng(0)
    for _ in range(20):
        truth, scores = np.array([True, False, *(random.random(8) < 0.5)]), random.integers(0, 4, 10)
        pairs = [(a > b) + (a == b) / 2 for a in scores[truth] for b in scores[~truth]]
        assert planted.auc(truth, scores) == pytest.approx(np.mean(pairs))


def test_a_motif_is_found_by_its_own_edges_alone(planted: ModuleType) -> None:
    graph = planted.Planted.of(_data())
    assert graph.owner[:3].tolist() == [-1] * 3
    assert len(set(graph.owner[3:6].tolist())) == 1
    near, inside = graph.candidates(4)
    assert [tuple(edge) for edge in graph.edges[inside].tolist()] == sorted(TRIANGLE)
    assert [tuple(edge) for edge in graph.edges[near].tolist()] == [(1, 2), (2, 3), *sorted(TRIANGLE)]
    assert graph.auc(4, graph.spread(dict.fromkeys(TRIANGLE, 1.0))) == 1.0
    assert graph.auc(4, graph.spread(dict.fromkeys(TAIL, 1.0))) == 0.0
    assert graph.auc(4, graph.spread({})) == 0.5


def test_the_neighbourhood_grows_until_there_is_something_to_tell_apart(planted: ModuleType) -> None:
    ring = [(i, i + 1) for i in range(3, 11)] + [(3, 11)]  # nine nodes: the far side is four hops away
    once = torch.tensor([*ring, (0, 7), (0, 1)]).T
    inside = torch.tensor([1.0] * len(ring) + [0.0] * 2)
    node_mask = torch.tensor([0.0] * 3 + [1.0] * 9)
    edges = torch.cat([once, once.flip(0)], 1)
    data = Data(edge_index=edges, edge_mask=inside.repeat(2), node_mask=node_mask, y=node_mask.long(), num_nodes=12)
    graph = planted.Planted.of(data)
    near, inside = graph.candidates(3)
    assert (0, 7) in [tuple(edge) for edge in graph.edges[near].tolist()]
    assert (0, 1) not in [tuple(edge) for edge in graph.edges[near].tolist()]
    assert len(graph.edges[near & inside]) == len(ring)


def test_directions_of_an_edge_are_joined(planted: ModuleType) -> None:
    graph = planted.Planted.of(_data())
    mask = np.zeros(graph.edge_index.shape[1])
    mask[0], mask[len(mask) // 2] = 1.0, 0.5  # both directions of 3 - 4
    at = graph.edges.tolist().index([3, 4])
    assert graph.join(mask, "max")[at] == 1.0
    assert graph.join(mask, "mean")[at] == 0.75
    assert graph.join(mask, "mean").sum() == 0.75


def test_the_same_seed_plants_the_same_graph(planted: ModuleType) -> None:
    one, two, other = (planted.plant("cycle", seed) for seed in (1, 1, 2))
    assert torch.equal(one.edge_index, two.edge_index)
    assert not torch.equal(one.edge_index, other.edge_index)
    assert np.bincount(one.owner[one.owner >= 0]).max() == 6
    assert (one.owner >= 0).sum() == 6 * planted.COUNT


def test_ratios_of_drops(explain: ModuleType) -> None:
    assert explain.ratio(0.3, 0.1) == pytest.approx(3)
    assert explain.ratio(0.3, -0.1) == float("inf")
    assert explain.ratio(-0.3, -0.1) == 0
    found = explain.summarise(np.array([[0.9, 0.3, 0.7], [0.8, 0.5, 0.7], [0.6, 0.7, 0.6]]))
    assert (found["drop"], found["random_drop"]) == (pytest.approx(0.3), pytest.approx(0.1))
    assert (found["ratio"], found["node_ratio"]) == (pytest.approx(3), pytest.approx(3))
    assert explain.summarise(np.array([[0.9, 0.3, 0.9]]))["ratio"] is None


def test_tables_have_a_row_per_figure(explain: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = importlib.import_module("table")
    monkeypatch.setattr(table, "ROOT", tmp_path)
    assert table.describe_truth() == table.describe_deletion() == table.NOT_YET
    found = {
        "house": [
            {
                "default": {"GPM": "attention"},
                "auc": {("GPM", "attention"): auc},
                "seconds": {("GPM", "attention"): 0.02},
            }
            for auc in (0.9, 1.0)
        ]
    }
    row = explain.describe_row("GPM", "attention", found)
    shown = table.show_truth({"rows": [row], "nodes": {"house": [3, 3]}, "accuracy": {"GPM": {"house": [1.0, 0.9]}}})
    assert shown.splitlines()[2:] == ["| GPM | **attention** | 0.950 ± 0.071 | 95.0 % | 0.02 s |"]
    fallen = explain.summarise(np.array([[0.9, 0.3, 0.9]]))
    shared = {"data": "Blogs", "readout": "mean", "method": "left-out", "default": False}
    rows = [shared | fallen | {"by": by} for by in ("patterns", "walks")]  # of others than the default, one row
    assert table.show_deletion({"rows": rows}).splitlines()[2:] == [
        "| Blogs | mean | left-out | patterns | 0.6 (0.6 to 0.6) | 0 (0 to 0) | ∞ | ∞ | ∞ |"
    ]
