from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gpm import Graph
from gpm.io.cache import data_root
from gpm.nn.positional import eigenvector_cache as keeping
from gpm.nn.positional.eigenvector_cache import digest_edges, keep_positions

_EDGES = np.random.default_rng(0).integers(0, 40, (2, 100))


class _Finder:
    """Finds the same each time, and counts how often."""

    def __init__(self, rows: int = 40, columns: int = 3) -> None:
        self.times, self.found = 0, np.random.default_rng(0).random((rows, columns), dtype=np.float32)

    def __call__(self) -> NDArray[np.float32]:
        self.times += 1
        return self.found


def _kept() -> list[Path]:
    return sorted((data_root() / "positions").iterdir())


def test_what_was_found_is_mapped_the_next_time() -> None:
    graph, find = Graph.from_edges(_EDGES, 40), _Finder()
    for _ in range(3):
        np.testing.assert_array_equal(keep_positions(graph, "rwse-3", 3, find), find.found)
    assert find.times == 1
    assert not keep_positions(graph, "rwse-3", 3, find).flags.writeable
    assert [path.name for path in _kept()] == [f"rwse-3-{digest_edges(graph)}.npy"]
    keep_positions(graph, "lap-3", 3, find)
    assert find.times == 2


@pytest.mark.parametrize("damage", ["cut", "longer", "text", "other shape", "other kind", "not a number", "link"])
def test_what_is_damaged_is_found_anew(damage: str, tmp_path: Path) -> None:
    graph, find = Graph.from_edges(_EDGES, 40), _Finder()
    keep_positions(graph, "rwse-3", 3, find)
    (path,) = _kept()
    whole = path.read_bytes()
    if damage in ("cut", "longer", "text"):
        path.write_bytes({"cut": whole[:-1], "longer": whole + b"0", "text": b"text"}[damage])
    elif damage == "link":
        (tmp_path / "elsewhere.npy").write_bytes(whole)
        path.unlink()
        path.symlink_to(tmp_path / "elsewhere.npy")
    else:
        bad = find.found[:, :2] if damage == "other shape" else find.found.copy()
        bad = bad.astype(np.float64) if damage == "other kind" else bad
        bad[5, 1] = np.nan if damage == "not a number" else bad[5, 1]
        np.save(path, bad)
    np.testing.assert_array_equal(keep_positions(graph, "rwse-3", 3, find), find.found)
    assert find.times == 2
    assert path.read_bytes() == whole
    assert not path.is_symlink()


def test_where_nothing_can_be_kept_it_is_found_each_time(caplog: pytest.LogCaptureFixture) -> None:
    data_root().mkdir(parents=True)
    (data_root() / "positions").write_text("in the way")
    graph, find = Graph.from_edges(_EDGES, 40), _Finder()
    for _ in range(2):
        np.testing.assert_array_equal(keep_positions(graph, "rwse-3", 3, find), find.found)
    assert find.times == 2
    assert "positional embeddings are not cached: Cannot write" in caplog.text


def test_the_oldest_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_MOST_FILES", 2)
    graph = Graph.from_edges(_EDGES, 40)
    for name in "abc":
        keep_positions(graph, name, 3, _Finder())
    assert [path.name[0] for path in _kept()] == ["b", "c"]


def test_other_edges_and_weights_are_another_graph(tmp_path: Path) -> None:
    """Features, labels and names are not."""
    graph = Graph.from_edges(_EDGES, 40, y=np.zeros(40, dtype=np.int64), x=np.ones((40, 2)))
    same = Graph.from_edges(_EDGES, 40)
    weight = np.ones(100)
    others = [
        Graph.from_edges(_EDGES[:, 1:], 40),
        Graph.from_edges(_EDGES, 41),
        Graph.from_edges(_EDGES[::-1].copy(), 40),
        Graph.from_edges(_EDGES, 40, edge_weight=weight),
        Graph.from_edges(_EDGES, 40, edge_weight=weight + (np.arange(100) == 7)),
    ]
    assert digest_edges(graph) == digest_edges(same)
    assert len({digest_edges(other) for other in [graph, *others]}) == 6


def test_the_header_of_a_folder_stands_for_its_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not for a graph made of it with other edges."""
    graph = Graph.from_edges(_EDGES, 40)
    opened = Graph.open(graph.save(tmp_path / "graph"))
    assert opened.folder == tmp_path / "graph"
    assert digest_edges(opened) == digest_edges(Graph.open(tmp_path / "graph"))
    assert digest_edges(replace(opened, y=np.zeros(40))) == digest_edges(opened)
    made = replace(opened, indices=np.array(opened.indices))
    assert digest_edges(made) == digest_edges(graph) != digest_edges(opened)
    monkeypatch.setattr(keeping, "_SAMPLE", 1)
    before = digest_edges(opened)
    swapped = _EDGES.copy()
    swapped[1, 50] = (swapped[1, 50] + 1) % 40
    other = Graph.from_edges(swapped, 40)
    assert digest_edges(Graph.open(other.save(tmp_path / "other"))) != before
