"""Walks tell pairs of graphs apart; the test is right about samples of one distribution."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from gpm import GpmError
from gpm.reproduce import brec
from gpm.reproduce.brec import Walks, compare_samples, measure_topology, read_pairs
from gpm.reproduce.theory import make_pairs

pytestmark = pytest.mark.usefixtures("one_thread")


def _write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["part\tpair\tgraph6_a\tgraph6_b", *lines, ""]), encoding="utf-8")
    return path


def _spell(graph: nx.Graph) -> str:
    return nx.to_graph6_bytes(nx.convert_node_labels_to_integers(graph), header=False).decode().strip()


def test_values_of_equal_distributions_are_evenly_spread() -> None:
    random = np.random.default_rng(0)
    values = [compare_samples(*random.integers(0, 30, (2, 200)), random, 199) for _ in range(300)]
    assert 0.02 <= np.mean(np.array(values) <= 0.05) <= 0.09
    assert 0.4 <= np.mean(values) <= 0.6


def test_different_distributions_have_the_smallest_value() -> None:
    random = np.random.default_rng(0)
    assert compare_samples(random.integers(0, 30, 400), random.integers(0, 36, 400), random) == 1 / 2000
    assert compare_samples(np.arange(50), np.arange(50, 100), random) == 1.0  # nothing occurs twice


def test_pairs_are_counted_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in brec.WALKS:
        monkeypatch.setitem(brec.WALKS, kind, Walks(brec.WALKS[kind].lengths, 256))
    pairs = [tuple(map(_spell, pair)) for pair in make_pairs().values()]
    parts = ("basic", "basic", "regular", "str")
    file = _write(tmp_path / "pairs.tsv", *("\t".join((p, "0", *pair)) for p, pair in zip(parts, pairs, strict=True)))
    loops, refined = measure_topology("loops", file), measure_topology("refined", file)
    assert loops["told"] == [1, 1, 1, 0]  # Shrikhande's graph is beyond anonymous walks of this length
    assert refined["told"] == [1, 1, 1, 1]
    assert (loops["apart"], loops["of"]) == ({"basic": 2, "regular": 1}, {"basic": 2, "regular": 1, "str": 1})
    assert loops["wrong"] == refined["wrong"] == 0
    assert loops["copies"] == 8
    page = "\n".join(brec.describe({"loops": loops, "refined": refined}))
    assert "| `loops` | 768, 4, 6, 9 | 2 of 2 | 1 of 1 | 0 of 1 | 3 of 4 | 75.0% | 0 of 8 (0.0%) |" in page


@pytest.mark.parametrize("line", ["basic\t0\tICZJvZsNg", "basic\t0\tI\tI", "\t0\tA_\tA_"])
def test_a_broken_line_is_named(line: str, tmp_path: Path) -> None:
    file = _write(tmp_path / "pairs.tsv", "basic\t0\tA_\tA?", line)
    with pytest.raises(GpmError, match=r"pairs\.tsv, line 3: give a part, a pair and two graphs in graph6\."):
        read_pairs(file)
