"""The small experiments measure what they say."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from gpm.reproduce import theory
from gpm.reproduce.complexity import exponents, measure_complexity
from gpm.reproduce.theory import fingerprint_walks, make_pairs, refine_colors

pytestmark = pytest.mark.usefixtures("one_thread")


def test_fingerprints_depend_on_the_structure_alone() -> None:
    graph = nx.gnm_random_graph(6, 9, seed=1)
    renamed = nx.relabel_nodes(graph, {0: 4, 4: 2, 2: 0})
    assert fingerprint_walks(graph, 0, 6) == fingerprint_walks(renamed, 4, 6)


def test_walks_of_few_steps_see_what_is_near() -> None:
    path, cycle = fingerprint_walks(nx.path_graph(6), 2, 6), fingerprint_walks(nx.cycle_graph(6), 2, 6)
    assert path[:3] == cycle[:3]  # both have two neighbours, and these have two
    assert path[3] != cycle[3]  # one walk of the path has to turn back


def test_all_starts_are_told_apart_and_patterns_are_their_two_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory, "MOST_NODES", 4)
    found = theory.measure_neighbourhoods()
    # Connected graphs of 1 to 4 nodes, and their rooted versions (OEIS A001349 and A126100).
    assert (found["graphs"], found["rooted"]) == (1 + 1 + 2 + 6, 1 + 1 + 3 + 11)
    assert found["told"][:2] == [1, 2]  # one step tells a lone node from the others
    assert found["told"][-1] == found["rooted"] == found["refinement"]
    joint = theory.measure_joint_paths()
    assert joint["patterns"] == joint["both"] > max(joint["unordered"], joint["semantic"], joint["anonymous"])


def test_colour_refinement_tells_no_pair_apart() -> None:
    for one, other in make_pairs().values():
        assert refine_colors(one) == refine_colors(other)
        assert not nx.faster_could_be_isomorphic(one, other) or not nx.is_isomorphic(one, other)
    assert refine_colors(nx.path_graph(4)) != refine_colors(nx.star_graph(3))


def test_the_page_and_its_figure_come_from_the_records(tmp_path: Path) -> None:
    pair = {"refinement": False, "loops": 64, "induced": 32, "shape": 16, "refined": None}
    found = {
        "neighbourhoods": {"nodes": 4, "graphs": 10, "rooted": 16, "told": [1, 9, 16], "refinement": 16},
        "pairs": {"pairs": {"rings": pair}, "repeats": 10},
    }
    page = "\n".join(theory.describe(found))
    assert "All are told apart from l = 2 on." in page
    assert "| rings | not told apart | 64 | 32 | 16 | over 16,384 |" in page
    assert theory.draw(found, tmp_path / "theory.svg")
    assert (tmp_path / "theory.svg").stat().st_size > 1000
    assert not theory.draw({}, tmp_path / "none.svg")


def test_time_is_measured_for_every_number_and_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpm.reproduce import complexity

    monkeypatch.setattr(complexity, "NUMBERS", (8, 16))
    monkeypatch.setattr(complexity, "NUMBER", 8)
    monkeypatch.setattr(complexity, "LENGTHS", (2, 8))
    found = measure_complexity(nodes=4, repeats=1)
    assert [number for number, _ in found["numbers"]] == [8, 16]
    assert [length for length, _ in found["lengths"]] == [2, 8]
    assert min(time for _, time in found["numbers"] + found["lengths"]) > 0
    assert "| patterns of length 8 | 8 | 16 |" in complexity.describe({"inference": found})
    assert exponents([[1, 2.0], [2, 8.0]]) == [2.0]
    assert complexity.draw({"inference": found}, tmp_path / "cost.svg")
    assert "milliseconds per node" in (tmp_path / "cost.svg").read_text(encoding="utf-8")
