"""An earlier import as the rule for other tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from gpm import GpmError, Graph
from gpm.data.tables import import_tables
from gpm.data.tables.settle_schema import Origin
from tests.small_tables import friends, people, rings, without


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("origin")
    return import_tables(pd.DataFrame(friends()), root / "run/graph", nodes=pd.DataFrame(people()), target="pet")


def test_a_run_is_as_good_as_the_graph_that_it_carries(imported: Path) -> None:
    run = imported.parent
    (run / "seed-3").mkdir()
    found = [Origin.read(place) for place in (imported, run, run / "seed-3")]
    assert found[0].facts == found[1].facts == found[2].facts
    assert found[0].schema.task == "node"
    assert found[0].columns("nodes") == list(people())
    assert found[0].columns("graphs") == []


def test_folders_that_say_nothing_of_tables(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match="is neither an imported graph nor a run trained on one"):
        Origin.read(tmp_path)
    Graph.from_edges([[0], [1]]).save(tmp_path / "plain")
    with pytest.raises(GpmError, match="was not imported from tables"):
        Origin.read(tmp_path / "plain")


@pytest.mark.parametrize(
    ("edges", "nodes", "options", "sentence"),
    [
        (friends(), None, {}, "Training had a table of nodes; give one here too"),
        (without(friends(), "target"), people(), {}, "has no column 'target', which training had; add or rename it"),
        (friends(), without(people(), "id"), {}, "the table of nodes has no column 'id', which training had"),
        (friends(), people(), {"graphs": rings()[2]}, "training had no table of graphs; leave it out"),
        (friends(), people(), {"directed": True}, "edges are directed, but were undirected in training"),
    ],
)
def test_tables_that_do_not_fit(
    imported: Path, tmp_path: Path, edges: Any, nodes: Any, options: dict[str, Any], sentence: str
) -> None:
    given = {key: pd.DataFrame(value) if isinstance(value, dict) else value for key, value in options.items()}
    table = None if nodes is None else pd.DataFrame(nodes)
    with pytest.raises(GpmError, match=sentence):
        import_tables(pd.DataFrame(edges), tmp_path / "graph", nodes=table, like=imported, **given)
    assert not list(tmp_path.iterdir())
