"""Nothing that is held out can be seen: the laws of `strict`, from the split to the trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpm import Config, Graph, Run, train
from gpm.data.link_data import LinkData
from gpm.data.synthetic import random_graph
from gpm.nn.positional.encodings import embed_positions
from gpm.nn.predictor import Predictor
from gpm.patterns.walks import has_edge

QUICK: dict[str, Any] = {
    "task": "link", "width": 16, "lengths": [0, 1, 2], "patterns": 9, "pool": 9, "epochs": 2, "batch": 512,
    "metric": "roc_auc", "dropout": 0.0,
}  # fmt: skip


def _train(graph: Graph, folder: Path, **options: Any) -> Run:
    run = train(graph, out=folder, quiet=True, device="cpu", **(QUICK | options))
    assert isinstance(run, Run)
    return run


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("pair", ["joint", "product"])
def test_what_is_random_cannot_be_predicted_under_strict(pair: str, tmp_path: Path) -> None:
    """2,000 test pairs: by chance the area lies within 0.03 of a half."""
    run = _train(random_graph(1500, 7000), tmp_path / "run", pair=pair, pe="lap", pe_dim=4)
    assert run.result["test"]["roc_auc"] == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_same_is_predicted_under_paper_for_it_is_seen(tmp_path: Path) -> None:
    run = _train(random_graph(1500, 7000), tmp_path / "run", protocol="paper")
    assert run.result["test"]["roc_auc"] > 0.8
    assert "paper" in run.result["protocol"]
    assert "the walks see test edges" in (run.folder / "README.md").read_text()


def test_neither_walks_nor_positions_nor_degrees_know_held_out_edges() -> None:
    """All that a model reads is that of a graph from which the held-out edges were taken by hand."""
    data = LinkData(random_graph(300, 1200, seed=1), "random")
    split = data.make_split(0)
    held = split.pairs[np.concatenate([split.val, split.test])][
        split.labels[np.concatenate([split.val, split.test])] == 1
    ]
    edges = data.graph.edge_index()
    low, high = edges.min(0) * 300 + edges.max(0), held.min(1) * 300 + held.max(1)
    rest = Graph.from_edges(edges[:, ~np.isin(low, high)], 300, x=data.graph.x)
    walked = data.walked_graph(split)
    assert not has_edge(walked, held[:, 0], held[:, 1]).any()
    assert not has_edge(walked, held[:, 1], held[:, 0]).any()
    np.testing.assert_array_equal(walked.indices, rest.indices)
    np.testing.assert_array_equal(walked.degree(), rest.degree())
    config = Config(pe="lap", pe_dim=4, width=8)
    predictor = Predictor.build(config, walked, 1, "link")
    assert predictor.table.pe is not None
    np.testing.assert_array_equal(predictor.table.pe.numpy(), embed_positions(rest, "lap", 4))
    assert not np.allclose(predictor.table.pe.numpy(), embed_positions(data.graph, "lap", 4))


def test_a_link_does_not_see_itself_in_training() -> None:
    """Patterns, topologies and marks of a link are those of a graph without it."""
    data = LinkData(random_graph(60, 240, seed=2), "random")
    split = data.make_split(0)
    walked = data.walked_graph(split)
    config = Config(width=8, lengths=[1, 3], patterns=16, pool=16, topology="induced")
    predictor = Predictor.build(config, walked, 1, "link")
    for pair in split.pairs[split.train][:10]:
        edges = walked.edge_index()
        own = ((edges[0] == pair[0]) & (edges[1] == pair[1])) | ((edges[0] == pair[1]) & (edges[1] == pair[0]))
        assert own.any()
        without = Graph.from_edges(edges[:, ~own], 60, x=data.graph.x)
        seen = predictor.tokenize(pair[None], 16)
        wanted = Predictor.build(config, without, 1, "link").tokenize(pair[None], 16)
        np.testing.assert_array_equal(seen.nodes, wanted.nodes)
        np.testing.assert_array_equal(seen.marks, wanted.marks)  # type: ignore[arg-type]
        np.testing.assert_array_equal(seen.table.keys[seen.topology], wanted.table.keys[wanted.topology])
