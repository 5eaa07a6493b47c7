"""Walk means as columns: the same bits from memory, disk and cache, for every form of features."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from threadpoolctl import threadpool_limits

from gpm import Config, GpmError, Graph, Run, train
from gpm.io.cache import data_root
from gpm.io.npy import MappedArray
from gpm.nn import step_columns
from gpm.nn.expected_table import ExpectedTable
from gpm.nn.step_columns import MOST_COLUMNS, StepColumns, find_steps
from gpm.patterns import walk_means

pytestmark = pytest.mark.usefixtures("one_thread")
NODES = 50


def _features(form: str, nodes: int = NODES) -> Any:
    random = np.random.default_rng(0)
    wide = random.random((nodes, MOST_COLUMNS + 10)) < 0.05
    return {
        "numbers": random.normal(size=(nodes, 4)).astype(np.float32),
        "double": random.normal(size=(nodes, 4)),
        "wide": random.normal(size=(nodes, MOST_COLUMNS + 10)).astype(np.float32),
        "bags": wide.astype(np.float32),
        "sparse": sp.csr_array(wide.astype(np.float32)),
        "categories": random.integers(0, 5, (nodes, 3)),
    }[form]


FORMS = ("numbers", "double", "wide", "bags", "sparse", "categories")


def _open(folder: Path, form: str = "numbers") -> Graph:
    """A graph that is mapped from a folder."""
    edges = np.random.default_rng(1).integers(0, NODES - 2, (2, 120))
    Graph.from_edges(edges, NODES, undirected=True, x=_features(form), y=np.arange(NODES) % 2).save(folder)
    return Graph.open(folder)


def _lower_limits(monkeypatch: pytest.MonkeyPatch, *, disk: bool) -> None:
    monkeypatch.setattr(step_columns, "ON_DISK" if disk else "KEPT_WORK", 0)
    monkeypatch.setattr(step_columns, "KEPT_ROWS", 0)
    monkeypatch.setattr(walk_means, "BLOCK", 16)


def _find(graph: Graph, steps: int = 3) -> StepColumns:
    return find_steps(graph, steps, None, None, None, disk=True)


@pytest.mark.parametrize("disk", [True, False], ids=["disk", "cache"])
@pytest.mark.parametrize("form", FORMS)
def test_disk_and_cache_have_the_bits_of_memory(
    form: str, disk: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = _open(tmp_path / "graph", form)
    known = _find(graph)
    assert (known.on_disk, known.means.shape[:2]) == (False, (4, NODES))
    _lower_limits(monkeypatch, disk=disk)
    for _ in range(2):
        found = _find(graph)
        np.testing.assert_array_equal(found.means, known.means)
        assert (found.on_disk, found.even, found.sizes) == (disk, known.even, known.sizes)
        assert (found.projection is None) == (known.projection is None)
        if known.projection is not None:
            np.testing.assert_array_equal(found.projection, known.projection)
        monkeypatch.setattr(step_columns, "fill_walk_means", None)  # the second time nothing is computed
        monkeypatch.setattr(step_columns, "_find_projection", None)


def test_rows_at_a_time_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for form in ("numbers", "double", "sparse", "categories"):
        graph = _open(tmp_path / form, form)
        known = _find(graph).means
        monkeypatch.setattr(step_columns, "ROWS", 7)
        np.testing.assert_array_equal(_find(graph).means, known)
        monkeypatch.undo()


def test_what_the_means_depend_on_has_files_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _lower_limits(monkeypatch, disk=False)
    graph = _open(tmp_path / "graph")
    x, edges = np.array(graph.x), graph.edge_index()
    weight = np.ones(edges.shape[1])
    others = [
        replace(graph, x=x + 1),
        replace(graph, x=x.astype(np.float64)),
        Graph.from_edges(edges[:, 1:], NODES, x=x),
        Graph.from_edges(edges, NODES, x=x, edge_weight=weight + (np.arange(len(weight)) == 5)),
    ]
    for other in [graph, *others]:
        _find(other)
    _find(graph, 2)
    _find(replace(graph, y=np.zeros(NODES, dtype=np.int64)))  # labels are not read
    assert len(list((data_root() / "columns").iterdir())) == 6


def test_memory_is_that_of_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, columns = 20_000, 32
    random = np.random.default_rng(0)
    x = random.normal(size=(nodes, columns)).astype(np.float32)
    Graph.from_edges(random.integers(0, nodes, (2, 60_000)), nodes, x=x).save(tmp_path / "graph")
    graph = Graph.open(tmp_path / "graph")
    known = _find(graph).means
    monkeypatch.setattr(step_columns, "ON_DISK", 1 << 16)
    monkeypatch.setattr(step_columns, "ROWS", 256)
    monkeypatch.setattr(walk_means, "BLOCK", 1 << 13)
    tracemalloc.start()
    found = _find(graph)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.on_disk
    assert peak < 1 << 20 < known.nbytes / 9  # 10 MB in all
    np.testing.assert_array_equal(found.means, known)


def test_a_table_on_disk_is_read_as_one_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, options = _open(tmp_path / "graph"), Config(expected=2, structure=True, position=3)
    known = ExpectedTable.build(options, graph, "node")
    _lower_limits(monkeypatch, disk=True)
    found = ExpectedTable.build(options, graph, "node")
    assert known is not None
    assert found is not None
    assert (found.groups, found.even, len(found.values)) == (known.groups, known.even, NODES)
    assert found.values.shape[1] == 3 * 8 + 3  # the others are not in memory
    ids = torch.tensor([7, 0, 7, NODES - 1])
    assert torch.equal(found.take(ids), known.take(ids))
    assert torch.equal(found.take_training(ids, 0, 3)[0], known.take_training(ids, 0, 3)[0])
    assert isinstance(found.__getstate__()["means"], MappedArray)  # another process maps the file
    assert torch.equal(pickle.loads(pickle.dumps(found)).take(ids), known.take(ids))


def test_a_run_on_disk_is_that_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _open(tmp_path / "graph")
    small: dict[str, Any] = {"width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "epochs": 1}
    small |= {"expected": 2, "labels": "on", "linear": True, "quiet": True, "device": "cpu", "split": "60/20/20"}
    train(str(tmp_path / "graph"), out=tmp_path / "memory", **small)
    _lower_limits(monkeypatch, disk=True)
    train(str(tmp_path / "graph"), out=tmp_path / "disk", **small)
    assert len(list((data_root() / "large-columns").iterdir())) == 1
    one, two = (Run.open(tmp_path / name, device="cpu") for name in ("memory", "disk"))
    assert (tmp_path / "memory/model.safetensors").read_bytes() == (tmp_path / "disk/model.safetensors").read_bytes()
    assert torch.equal(one.predict().logits, two.predict().logits)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _lower_limits(monkeypatch, disk=True)
    data_root().mkdir(parents=True, exist_ok=True)
    (data_root() / "large-columns").write_text("in the way")
    with pytest.raises(GpmError, match=r"^Cannot write .* GB\); set GPM_DATA to another folder\.$"):
        _find(_open(tmp_path / "graph"))


@pytest.mark.parametrize("form", ["wide", "bags"])
def test_threads_change_no_bit(form: str) -> None:
    """At this size products and decompositions are divided among threads."""
    edges = np.random.default_rng(0).integers(0, 1000, (2, 3000))
    graph, found = Graph.from_edges(edges, 1000, x=_features(form, 1000)), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(_find(graph))
    np.testing.assert_array_equal(found[0].projection, found[1].projection)
    np.testing.assert_array_equal(found[0].means, found[1].means)


@pytest.mark.parametrize("form", ["wide", "sparse"])
def test_a_projection_of_many_rows_is_found_from_some(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _features(form, 2000)
    graph = Graph.from_edges(np.zeros((2, 0), dtype=np.int64), 2000, x=x)
    monkeypatch.setattr(step_columns, "SAMPLE", 600)
    some = graph.x[np.linspace(0, 1999, 600).astype(np.int64)]  # type: ignore[index]
    alone = Graph.from_edges(np.zeros((2, 0), dtype=np.int64), 600, x=some)
    np.testing.assert_array_equal(_find(graph, 1).projection, _find(alone, 1).projection)
