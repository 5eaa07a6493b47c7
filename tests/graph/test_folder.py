import errno
import json
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from gpm import GpmError, Graph, walk
from gpm.graph import folder as storage
from gpm.graph import validate
from gpm.graph.folder import read_extras, save_graph, writing_graph
from gpm.graph.graph import Census
from gpm.io import manifest
from gpm.io.npy import create_array
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
    left, right = a.arrays(), b.arrays()
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


@settings(max_examples=40)
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
    monkeypatch.setattr(manifest, "_PIECES", 2)
    folder = Graph.from_edges(edges, x=np.zeros((9000, 9))).save(tmp_path / "graph")
    monkeypatch.setattr(storage, "VERIFY_BELOW", 0)
    Graph.open(folder)
    _alter(folder / "x.npy")  # in the middle, between the pieces looked at
    Graph.open(folder)
    with pytest.raises(GpmError, match="its bytes are not those that were written"):
        Graph.open(folder, verify=True)
    _cut(folder / "x.npy")
    with pytest.raises(GpmError, match=r"x\.npy is damaged: it has .* bytes instead of"):
        Graph.open(folder)


def _alter_header(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a header as someone would who means harm: with a checksum that fits."""
    content = json.loads((folder / storage.HEADER).read_text())
    change(content)
    content["checksum"] = manifest.checksum_of(content)
    (folder / storage.HEADER).write_text(json.dumps(content))


def _replace(folder: Path, key: str, array: np.ndarray) -> None:
    """Put another array in a graph's place, with checksums that fit."""
    path = folder / f"{key}.npy"
    np.save(path, array)
    _alter_header(folder, lambda content: content["arrays"].update({key: storage._describe(path)}))


def test_opening_ten_gigabytes_takes_no_time_and_no_memory(tmp_path: Path) -> None:
    entries = 2_600_000_000
    with writing_graph(tmp_path / "huge") as writer:
        writer.put("indptr", np.array([0] * 1000 + [entries]))
        with writer.path("indices").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<i4", "fortran_order": False, "shape": (entries,)})
            file.truncate(file.tell() + 4 * entries)  # a hole: no blocks on disk
        digest, manifest._digest = manifest._digest, lambda _: ""  # type: ignore[assignment]
        try:
            folder = writer.finish(Census(True, 0, 0, 0, 0, False, False, False))
        finally:
            manifest._digest = digest
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    graph = Graph.open(folder)
    assert time.perf_counter() - start < 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KB
    assert graph.num_edges == entries


def test_a_large_graph_from_elsewhere_is_read_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "VERIFY_BELOW", 0)
    folder = _rich().save(tmp_path / "graph")
    found: list[Graph] = []
    check = validate.find_fault
    monkeypatch.setattr(validate, "find_fault", lambda graph: found.append(graph) or check(graph))
    Graph.open(folder)
    assert not found  # it was written here
    (folder / "indices.npy").touch()
    for _ in range(3):
        Graph.open(folder)
    assert len(found) == 1


def test_facts_extras_and_files_come_back(tmp_path: Path) -> None:
    graph, facts = _rich(), {"task": "node", "classes": ["ä", "b"], "nested": {"1": [1, 2.5, None, True]}}
    folder = save_graph(graph, tmp_path / "graph", facts=facts, extras={"part": np.array([0, 1, 2, -1, 0, 0], np.int8)})
    found, extras = read_extras(folder)
    assert found == facts
    assert list(extras) == ["part"]
    assert extras["part"].tolist() == [0, 1, 2, -1, 0, 0]
    _assert_same(graph, Graph.open(folder))
    assert read_extras(graph.save(tmp_path / "plain")) == ({}, {})
    with writing_graph(tmp_path / "files") as writer:
        for key, array in Graph.from_edges([[0], [1]]).arrays().items():
            writer.put(key, array)
        writer.finish(Graph.from_edges([[0], [1]]).census, files={"import.yaml": "a: ü\r\n"})
    Graph.open(tmp_path / "files")
    assert (tmp_path / "files" / "import.yaml").read_bytes() == "a: ü\r\n".encode()
    (tmp_path / "files" / "import.yaml").write_text("a: u\n")
    with pytest.raises(GpmError, match=r"import\.yaml is damaged: it has 5 bytes instead of"):
        Graph.open(tmp_path / "files")


def test_a_failure_leaves_the_old_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = _rich(), Graph.from_edges([[0], [1]])
    folder = old.save(tmp_path / "graph")
    with pytest.raises(GpmError, match="exists already: choose another, or replace it with --overwrite"):
        new.save(folder)
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    monkeypatch.setattr(storage, "_write_text", lambda *_: (_ for _ in ()).throw(full))
    with pytest.raises(GpmError, match=r"Cannot write .*graph: No space left on device; make room and run it again"):
        new.save(folder, overwrite=True)
    monkeypatch.setattr(storage, "_write_text", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        new.save(folder, overwrite=True)
    monkeypatch.undo()
    _assert_same(old, Graph.open(folder))
    assert [p.name for p in tmp_path.iterdir()] == ["graph"]
    new.save(folder, overwrite=True)
    _assert_same(new, Graph.open(folder))
    assert [p.name for p in tmp_path.iterdir()] == ["graph"]


def test_a_block_without_finish_leaves_nothing(tmp_path: Path) -> None:
    with writing_graph(tmp_path / "graph") as writer:
        writer.put("indptr", np.array([0]))
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_grow_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(GpmError, match=r"Cannot write .*graph: File too large"):
            Graph.from_edges(np.zeros((2, 9), dtype=int), 9000).save(tmp_path / "graph")
        with pytest.raises(GpmError, match="File too large"), writing_graph(tmp_path / "graph") as writer:
            create_array(writer.path("x"), np.float32, (9000, 1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())


def test_arrays_that_are_created_and_that_grow_are_saved(tmp_path: Path) -> None:
    graph = Graph.from_edges([[0, 1], [1, 2]], x=np.arange(6, dtype=np.float32).reshape(3, 2))
    with writing_graph(tmp_path / "graph") as writer:
        writer.put("indptr", graph.indptr)
        with writer.grow("indices", np.int32) as indices:
            indices.append(np.array([1]))
            indices.append(np.array([2]))
        create_array(writer.path("x"), np.float32, (3, 2))[:] = graph.x
        writer.finish(graph.census)
    _assert_same(graph, Graph.open(tmp_path / "graph"))


def test_only_saved_graphs_are_overwritten(tmp_path: Path) -> None:
    graph = Graph.from_edges([[0], [1]])
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x")
    with pytest.raises(GpmError, match="is not a saved graph; choose another folder"):
        graph.save(tmp_path / "precious", overwrite=True)
    folder = graph.save(tmp_path / "graph")
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(GpmError, match="is not a saved graph; choose another folder"):
        graph.save(tmp_path / "link", overwrite=True)
    (folder / "notes.md").write_text("x")
    with pytest.raises(GpmError, match=r"also holds notes\.md, which is not a file of the graph"):
        graph.save(folder, overwrite=True)
    assert (folder / "notes.md").read_text() == "x"


def test_other_folders_are_no_graphs(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"is not a saved graph: it has no graph\.json"):
        Graph.open(tmp_path)
    for content, told in {
        "[1, 2]": "must hold an object",
        "{": "it is missing or damaged",
        "[" * 100_000: "it is missing or damaged",
        '{"a": ' + "9" * 5000 + "}": "it is missing or damaged",
        '{"format": "other"}': "its format is not gpm-graph",
        '{"format": "gpm-graph", "version": 99}': "has format version 99; this gpm reads version 1",
        '{"format": "gpm-graph", "version": 1}': "was altered",
    }.items():
        (tmp_path / "graph.json").write_text(content)
        with pytest.raises(GpmError, match=told):
            Graph.open(tmp_path)


def test_links_are_refused(tmp_path: Path) -> None:
    folder = _rich().save(tmp_path / "graph")
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(GpmError, match="link is a symbolic link, which is not followed"):
        Graph.open(tmp_path / "link")
    for name in ("indices.npy", "graph.json"):
        copy = _rich().save(tmp_path / f"copy-{name}")
        (copy / name).unlink()
        (copy / name).symlink_to(folder / name)
        with pytest.raises(GpmError, match=f"{name} is (damaged: it is )?a symbolic link"):
            Graph.open(copy)


HEADERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    r"its array '\.\./x' is none": lambda h: h["arrays"].update({"../x": h["arrays"]["y"]}),
    r"arrays\['y'\]: expected object, got int": lambda h: h["arrays"].update({"y": 3}),
    "its array 'z' is none": lambda h: h["arrays"].update({"z": h["arrays"]["y"]}),
    r"its entry '\.\./a\.yaml' is not a file": lambda h: h.update({"files": {"../a.yaml": {"bytes": 1, "sha256": ""}}}),
    r"its file 'graph\.json' is none": lambda h: h.update({"files": {"graph.json": {"bytes": 1, "sha256": ""}}}),
    "it lists no indptr and indices": lambda h: h["arrays"].pop("indptr"),
    "facts: expected object, got array": lambda h: h.update({"facts": [1]}),
    "isolated: expected int >= 0": lambda h: h.update({"isolated": -1}),
    "merged: expected bool, got int": lambda h: h.update({"merged": 1}),
    r"sparse\['x'\]\[1\]: expected int <= ": lambda h: h["sparse"].update({"x": [6, 2**60]}),
    "its sparse 'y' is none": lambda h: h["sparse"].update({"y": [6, 50]}),
    "is not the array that the header describes": lambda h: h["arrays"]["y"].update({"shape": [2**60]}),
    "has .* bytes instead of": lambda h: h["arrays"]["y"].update({"bytes": 2**40}),
    r"arrays\['y'\]\.bytes: expected int <= ": lambda h: h["arrays"]["y"].update({"bytes": 2**60}),
}


@pytest.mark.parametrize("told", HEADERS)
def test_a_header_that_lies_is_refused(tmp_path: Path, told: str) -> None:
    folder = _rich().save(tmp_path / "graph")
    _alter_header(folder, HEADERS[told])
    with pytest.raises(GpmError, match=told):
        Graph.open(folder)


def _npy(shape: str, descr: str = "'<i8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(48)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (_npy("(1152921504606846976,)"), "is not an array of numbers"),
        (_npy("(99999999,)"), "does not have .* bytes"),
        (_npy("(6,)", "'|O'"), "is not an array of numbers"),
        (_npy("(6,)", "'>i8'"), "is not an array of numbers"),
        (_npy("(6,)", "[('a', '<i8')]"), "is not an array of numbers"),
        (_npy("(-1, -6)"), "is not an array of numbers"),
        (_npy("()"), "is not an array of numbers"),
        (b"\x93NUMPY\x03\x00" + bytes(100), "is not an array of numbers"),
        (b"", "is not an array of numbers"),
        (b"PK\x03\x04", "is not an array of numbers"),
    ],
)
def test_an_array_file_that_lies_is_refused_before_it_is_mapped(tmp_path: Path, content: bytes, told: str) -> None:
    folder = _rich().save(tmp_path / "graph")
    path = folder / "y.npy"
    path.write_bytes(content)
    with path.open("rb") as file:
        facts = {"bytes": len(content), "sha256": manifest._digest(file)}
    _alter_header(folder, lambda h: h["arrays"]["y"].update(facts))
    with pytest.raises(GpmError, match=told):
        Graph.open(folder)


UNSOUND: list[tuple[str, list[Any], Any, str]] = [
    ("indptr", [0, 5, 3, 9, 20, 25, 30], np.int64, "row pointers of its edges"),
    ("indptr", [0, 0, 2**40, 0, 0, 0, 30], np.int64, "row pointers of its edges"),
    ("indptr", [0, 30], np.int64, "x is a float32 array|not one name for each"),
    ("indices", [9] * 30, np.int32, "a column of its edges is out of range"),
    ("indices", [-1] * 30, np.int32, "a column of its edges is out of range"),
    ("indices", [0], np.int32, "must have one entry per edge"),
    ("indices", [5, 4, 3, 2, 1, 0] * 5, np.int32, "a row of its edges is not in order"),
    ("edge_ids", [30] * 30, np.int32, "edge_ids is out of range"),
    ("edge_ids", [-1] * 30, np.int32, "edge_ids is out of range"),
    ("edge_weight", [float("nan")] * 30, np.float32, "a weight is not a number"),
    ("edge_cdf", [9] + [1] * 29, np.int64, "edge_cdf falls in a row"),
    ("edge_cdf", [0.5] * 30, np.float64, "edge_cdf is a float64 array"),
    ("x.indices", [50], None, "a column of its x is out of range"),
    ("x.indptr", [0, 9, 3, 4, 5, 6], None, "do not fit together|row pointers of its x"),
    ("x.data", [[1.0]], np.float32, "the pieces of x do not fit together"),
    ("edge_attr", [[1, 2]], np.int64, "edge_ids is out of range"),
    ("y", [1, 2, 3], np.int64, "y has shape"),
    ("names.pointer", [0, 99, 2, 3, 4, 5, 6], np.int64, "the pointers of its names"),
    ("names.pointer", [0, 1], np.int64, "not one name for each"),
    ("names.bytes", [1, 2], np.int64, "its names are of a wrong kind"),
]


@pytest.mark.parametrize(("key", "values", "dtype", "told"), UNSOUND)
@pytest.mark.parametrize("large", [False, True])
def test_arrays_that_do_not_fit_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, values: list[Any], dtype: Any, told: str, large: bool
) -> None:
    folder = _rich().save(tmp_path / "graph")
    old = np.load(folder / f"{key}.npy")
    array = np.array(values, dtype=old.dtype if dtype is None else dtype)
    if key == "x.indices":
        array = np.full_like(old, values[0])
    if key == "x.indptr":
        array = np.append(array, old[-1]).astype(old.dtype)
    _replace(folder, key, array)
    if large:
        monkeypatch.setattr(storage, "VERIFY_BELOW", 0)
    with pytest.raises(GpmError, match=told):
        Graph.open(folder)


def test_claims_of_the_header_that_kernels_rely_on_are_checked(tmp_path: Path) -> None:
    folder = Graph.from_edges([[0, 1], [1, 2]]).save(tmp_path / "directed")
    _alter_header(folder, lambda h: h.update({"directed": False}))
    with pytest.raises(GpmError, match="some of its edges have no reverse"):
        Graph.open(folder)
    folder = Graph.from_edges([[0, 0], [1, 1]], duplicates="keep").save(tmp_path / "parallel")
    _alter_header(folder, lambda h: h.update({"duplicates": 0}))
    with pytest.raises(GpmError, match="not in order, or repeats an entry"):
        Graph.open(folder)
    folder = Graph.from_edges([[0, 1], [1, 0]], graph_ptr=[0, 2]).save(tmp_path / "collection")
    _replace(folder, "graph_ptr", np.array([0, 1, 2]))
    with pytest.raises(GpmError, match="an edge joins two of its graphs"):
        Graph.open(folder)
    _replace(folder, "graph_ptr", np.array([0, 9, 2]))
    with pytest.raises(GpmError, match="graph_ptr does not rise"):
        Graph.open(folder)


def test_a_saved_graph_of_before_opens(tmp_path: Path) -> None:
    graph = _rich()
    folder = graph.save(tmp_path / "graph")
    _alter_header(folder, lambda h: [h.pop(key, None) for key in ("facts", "files")])
    _assert_same(graph, Graph.open(folder))
    assert read_extras(folder) == ({}, {})
