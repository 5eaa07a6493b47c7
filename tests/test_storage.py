import json
import resource
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from gpm import GpmError, Graph, storage, walk
from tests.graphs import graphs

NAMES = ["ä", "a,b", 'say "x"', "line\nbreak", "007", "7"]


def _rich() -> Graph:
    rng = np.random.default_rng(0)
    return Graph.from_edges(
        rng.integers(0, 6, (2, 30)),
        6,
        edge_weight=rng.random(30).astype(np.float32),
        edge_attr=rng.integers(0, 5, (30, 2)),
        x=sp.random_array((6, 50), density=0.1, rng=rng, dtype=np.float32),
        y=rng.integers(0, 3, 6),
        names=NAMES,
        duplicates="keep",
    )


def _assert_same(a: Graph, b: Graph) -> None:
    assert a.census == b.census
    left, right = storage._arrays(a), storage._arrays(b)
    assert left.keys() == right.keys()
    for key in left:
        assert left[key].dtype == right[key].dtype, key
        assert left[key].tobytes() == right[key].tobytes(), key


def test_every_part_comes_back_bit_for_bit(tmp_path: Path) -> None:
    graph = _rich()
    again = Graph.open(graph.save(tmp_path / "graph"))
    _assert_same(graph, again)
    assert [again.name(i) for i in range(6)] == NAMES
    assert sp.issparse(again.x)
    assert again.x.shape == (6, 50)
    assert again.summary() == graph.summary()
    np.testing.assert_array_equal(walk(graph, range(6), 3, 8)[0], walk(again, range(6), 3, 8)[0])


@given(graph=graphs())
def test_any_graph_comes_back(tmp_path_factory: pytest.TempPathFactory, graph: Graph) -> None:
    _assert_same(graph, Graph.open(graph.save(tmp_path_factory.mktemp("saved") / "graph")))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def _alter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [_cut, _alter, Path.unlink])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, damage) -> None:
    whole = _rich().save(tmp_path / "graph")
    files = sorted(p.name for p in whole.iterdir())
    assert len(files) > 8
    for name in files:
        folder = _rich().save(tmp_path / f"without-{name}")
        damage(folder / name)
        with pytest.raises(GpmError) as caught:
            Graph.open(folder)
        assert name in str(caught.value)


def test_of_a_large_graph_sizes_and_samples_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edges = np.random.default_rng(0).integers(0, 9000, (2, 9000))
    monkeypatch.setattr(storage, "_PIECES", 2)
    folder = Graph.from_edges(edges).save(tmp_path / "graph")
    monkeypatch.setattr(storage, "VERIFY_BELOW", 0)
    Graph.open(folder)
    _alter(folder / "indices.npy")  # in the middle, between the pieces looked at
    Graph.open(folder)
    with pytest.raises(GpmError, match="altered"):
        Graph.open(folder, verify=True)
    _cut(folder / "indices.npy")
    with pytest.raises(GpmError, match="it was cut or altered"):
        Graph.open(folder)


def test_opening_ten_gigabytes_takes_no_time_and_no_memory(tmp_path: Path) -> None:
    folder, entries = tmp_path / "huge", 2_600_000_000
    folder.mkdir()
    listed = {}
    for name, dtype, size in (("indptr", np.int64, 1001), ("indices", np.int32, entries)):
        path = folder / f"{name}.npy"
        array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(size,))  # a hole: no blocks on disk
        if name == "indptr":
            array[-1] = entries
        array.flush()
        listed[name] = {"dtype": array.dtype.str, "shape": [size], "bytes": path.stat().st_size,
                        "sample": storage._digest_sample(path), "sha256": ""}  # fmt: skip
    header = {"format": storage.FORMAT, "version": storage.VERSION, "sparse": {}, "arrays": listed}
    header |= {"directed": True, "isolated": 0, "self_loops": 0, "duplicates": 0, "loop_entries": 0}
    header |= {"dropped_loops": False, "merged": False, "mirrored": False}
    header["checksum"] = storage._header_checksum(header)
    (folder / storage.HEADER).write_text(json.dumps(header))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    graph = Graph.open(folder)
    assert time.perf_counter() - start < 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KB
    assert graph.num_edges == entries


def test_a_failure_leaves_the_old_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = _rich(), Graph.from_edges([[0], [1]])
    folder = old.save(tmp_path / "graph")
    with pytest.raises(GpmError, match="exists already: choose another or pass overwrite=True"):
        new.save(folder)
    monkeypatch.setattr(storage, "_write_text", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        new.save(folder, overwrite=True)
    monkeypatch.undo()
    _assert_same(old, Graph.open(folder))
    assert [p.name for p in tmp_path.iterdir()] == ["graph"]
    new.save(folder, overwrite=True)
    _assert_same(new, Graph.open(folder))
    assert [p.name for p in tmp_path.iterdir()] == ["graph"]


def test_only_saved_graphs_are_overwritten(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    with pytest.raises(GpmError, match="no saved graph; choose another folder"):
        Graph.from_edges([[0], [1]]).save(tmp_path / "precious", overwrite=True)


def test_other_folders_are_no_graphs(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"is no saved graph: it has no graph\.json"):
        Graph.open(tmp_path)
    (tmp_path / "graph.json").write_text("[1, 2]")
    with pytest.raises(GpmError, match="is not a graph header"):
        Graph.open(tmp_path)
    (tmp_path / "graph.json").write_text('{"format": "gpm-graph", "version": 99}')
    with pytest.raises(GpmError, match="has format version 99; this gpm reads version 1"):
        Graph.open(tmp_path)
