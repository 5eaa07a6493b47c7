"""Runs on one split are ranked on validation and compared in pairs; others are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gpm
from gpm import GpmError, Run
from gpm.cli.main import main
from gpm.report import diagnostics
from gpm.report.comparison import Comparison, compare
from tests.explain.runs import NODES, group_graph, ring_graphs, train_small, weighted_graph

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnostics, "FEWEST", 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    weighted_graph(x=np.random.default_rng(2).normal(size=(NODES, 3))).save(folder / "graph")
    for name, options in (("gpm", {}), ("mlp", {"model": "mlp", "lengths": [2]}), ("other", {"seed": 1})):
        train_small(str(folder / "graph"), folder / name, preset="plain", **options)
    return folder


def test_the_first_is_best_on_validation_and_scores_are_those_of_the_runs(folder: Path) -> None:
    found = compare([folder / "gpm", folder / "mlp"])
    results = {name: Run.open(folder / name).result for name in ("gpm", "mlp")}
    assert [row.val for row in found.rows] == sorted((row.val for row in found.rows), reverse=True)
    for row in found.rows:
        result = results[row.run]
        assert (row.model, row.val, row.test) == (row.run, result["val"]["accuracy"], result["test"]["accuracy"])
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.test <= row.high
    first, second = found.rows
    assert (first.behind, first.verdict) == (None, "best on validation")
    assert second.behind == pytest.approx(second.test - first.test)
    assert second.behind_low is not None
    assert second.behind_high is not None
    assert second.behind_low <= second.behind <= second.behind_high


def test_a_run_does_not_differ_from_itself(folder: Path) -> None:
    run = Run.open(folder / "gpm")
    _, again = compare([run, run]).rows
    assert (again.behind, again.behind_low, again.behind_high) == (0, 0, 0)
    assert again.verdict == "may be chance"


def test_the_order_of_the_folders_does_not_matter(folder: Path) -> None:
    one, other = (compare([folder / name for name in names]) for names in (("gpm", "mlp"), ("mlp", "gpm")))
    if one.rows[0].val != one.rows[1].val:
        assert one == other


@pytest.mark.parametrize("kind", ["numbers", "links"])
def test_numbers_and_links_compare_too(kind: str, tmp_path: Path) -> None:
    source = ring_graphs(np.random.default_rng(0).normal(size=30)) if kind == "numbers" else group_graph()
    options = {"metric": "mae"} if kind == "numbers" else {"task": "link"}
    runs = [train_small(source, tmp_path / str(epochs), epochs=epochs, **options) for epochs in (1, 2)]
    rows = compare(runs).rows
    assert (rows[0].val <= rows[1].val) == (kind == "numbers") or rows[0].val == rows[1].val
    assert rows[1].behind_low is not None


def test_runs_that_do_not_compare_are_refused(folder: Path) -> None:
    with pytest.raises(GpmError, match=r"do not compare: their split is \w+ and \w+; train them on the same data"):
        compare([folder / "gpm", folder / "other"])
    with pytest.raises(GpmError, match="needs at least two runs, got 1"):
        compare([folder / "gpm"])


def test_the_command_prints_and_writes_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = folder / "table.csv"
    assert main(["compare", str(folder / "gpm"), str(folder / "mlp"), "-o", str(table)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("accuracy, split random 60/20/20")
    assert said[1].split()[:4] == ["run", "model", "validation", "test"]
    assert {line.split()[0] for line in said[2:4]} == {"gpm", "mlp"}
    rows = table.read_text(encoding="utf-8").splitlines()
    assert rows[0].startswith("run,model,val,test,low,high,behind")
    assert len(rows) == 3
    assert main(["compare", str(folder / "gpm"), str(folder / "other")]) == 2
    assert "do not compare" in capsys.readouterr().err


def test_it_is_a_public_name_that_gives_a_frame(folder: Path) -> None:
    found = gpm.compare([folder / "gpm", folder / "mlp"])
    assert isinstance(found, Comparison)
    frame = found.frame()
    assert frame["verdict"].iloc[0] == "best on validation"
    assert len(frame) == 2
