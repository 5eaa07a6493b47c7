"""Columns are matched by their names: what they say of a node does not depend on how its table was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpm import GpmError, Graph
from gpm.data.domain_data import DomainData
from gpm.data.sources import load_task_data
from gpm.data.tables.importer import import_tables


def _table(seed: int, nodes: int = 40) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame({
        "id": [f"{seed}-{i}" for i in range(nodes)], "age": random.normal(50 + 10 * seed, 5, nodes).round(2),
        "colour": random.choice(["red", "green", "blue"], nodes), "wealth": random.exponential(5, nodes).round(3),
        "kind": np.where(np.arange(nodes) % 2, "good", "bad"),
    })  # fmt: skip


def _import(folder: Path, table: pd.DataFrame, **options: object) -> Path:
    ids = table["id"].tolist()
    edges = pd.DataFrame({"source": ids, "target": ids[1:] + ids[:1]})
    chosen = options or {"target": "kind"}
    return import_tables(edges, folder, nodes=table, **chosen)  # type: ignore[arg-type]


def test_columns_in_another_order_and_scale_say_the_same(tmp_path: Path) -> None:
    one, two = _table(0), _table(1)
    home = _import(tmp_path / "home", one)
    away = _import(tmp_path / "away", two[["id", "wealth", "kind", "colour", "age"]])
    like = _import(tmp_path / "like", two, like=home)
    found = [load_task_data(home, target=str(folder)) for folder in (away, like)]
    for data in found:
        assert isinstance(data, DomainData)
    np.testing.assert_allclose(found[0].graph.x, found[1].graph.x, atol=1e-4)
    np.testing.assert_array_equal(found[0].labels, found[1].labels)  # type: ignore[union-attr]
    assert found[0].graph.name(40) == "1:1-0"


def test_what_is_missing_is_at_the_mean_of_the_source(tmp_path: Path) -> None:
    one, two = _table(0), _table(1)
    one.loc[5, "age"] = np.nan
    two.loc[7, "age"] = np.nan
    home = _import(tmp_path / "home", one)
    found = [
        load_task_data(home, target=str(_import(tmp_path / name, two[list(columns)], **options)))
        for name, columns, options in (
            ("away", ["id", "kind", "wealth", "colour", "age"], {}), ("like", two.columns, {"like": home}),
        )
    ]  # fmt: skip
    np.testing.assert_allclose(found[0].graph.x, found[1].graph.x, atol=1e-4)


def test_values_that_the_source_does_not_have_are_others(tmp_path: Path) -> None:
    table = _table(1)
    table.loc[3, "colour"] = "violet"
    home = load_task_data(_import(tmp_path / "home", _table(0)))
    both = load_task_data(tmp_path / "home", target=str(_import(tmp_path / "away", table)))
    assert both.graph.x is not None
    assert home.graph.x is not None
    assert both.graph.x.shape[1] == home.graph.x.shape[1]
    colours = both.graph.x[:, 1:4]
    np.testing.assert_array_equal(np.delete(colours, 43, axis=0).sum(1), 1)
    np.testing.assert_array_equal(colours[43], 0)


def test_what_cannot_be_matched_is_told(tmp_path: Path) -> None:
    home = _import(tmp_path / "home", _table(0))
    with pytest.raises(GpmError, match=r"away has no column 'age' whose values differ, as .*home has; import"):
        load_task_data(home, target=str(_import(tmp_path / "away", _table(1).drop(columns="age"))))
    words = _table(1).assign(age=lambda t: t["age"].astype(int).astype(str) + " years")
    with pytest.raises(GpmError, match=r"Column 'age' is of kind \w+ in .*words and of kind number in .*home"):
        load_task_data(home, target=str(_import(tmp_path / "words", words)))
    plain = Graph.from_edges([[0, 1], [1, 0]], 2, x=np.zeros((2, 5)), y=np.array([0, 1]))
    plain.save(tmp_path / "plain")
    with pytest.raises(GpmError, match=r"those of plain have none; import its tables with --like .*home"):
        load_task_data(home, target=str(tmp_path / "plain"))
    with pytest.raises(GpmError, match=r"have names, those of plain have none; import the tables of both"):
        load_task_data(tmp_path / "plain", target=str(home))


def test_a_target_imported_without_labels_is_not_scored(tmp_path: Path) -> None:
    home = _import(tmp_path / "home", _table(0))
    away = _import(tmp_path / "away", _table(1).drop(columns="kind"), like=home)
    both = load_task_data(home, target=str(away))
    assert isinstance(both, DomainData)
    assert not both.scored
