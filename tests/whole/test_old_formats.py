"""Folders written by earlier versions open, verify, predict and explain as they did."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gpm import Graph, Run
from gpm.__main__ import main

FORMATS = Path(__file__).parents[1] / "fixtures" / "formats"
pytestmark = pytest.mark.usefixtures("one_thread")


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["run-nodes", "run-graphs", "run-gcn", "run-gcn-graphs"])
def test_a_run_predicts_what_it_predicted_then(name: str, tmp_path: Path) -> None:
    how = ["--device", "cpu", "--calibrate", "false"]
    assert main(["predict", str(FORMATS / name), "-o", str(tmp_path / "now.csv"), *how]) == 0
    then, now = _read(FORMATS / f"{name}.csv"), _read(tmp_path / "now.csv")
    assert len(then) == len(now) > 0
    for before, row in zip(then, now, strict=True):
        after = {column.removeprefix("spread_"): cell for column, cell in row.items()}  # ends of an interval
        assert list(before) == [column for column in after if column != "label_true"]  # the label, which came later
        for key, value in before.items():
            try:
                expected = float(value)
            except ValueError:
                assert after[key] == value
            else:
                assert float(after[key]) == pytest.approx(expected, abs=1e-5)


def test_a_run_explains_as_it_explained_then() -> None:
    then = json.loads((FORMATS / "run-nodes-p03.json").read_text(encoding="utf-8"))
    explanation = Run.open(FORMATS / "run-nodes", device="cpu").explain("p03")
    assert (explanation.headline, explanation.method) == (then["headline"], then["method"])
    assert len(explanation.patterns) == len(then["patterns"])
    for pattern, before in zip(explanation.patterns, then["patterns"], strict=True):
        assert (list(pattern.names), pattern.shape) == (before["names"], before["shape"])
        assert (pattern.scale, pattern.count) == (before["scale"], before["count"])
        assert pattern.score == pytest.approx(before["score"], abs=1e-4)


@pytest.mark.parametrize("name", ["run-nodes", "run-graphs", "run-gcn", "run-gcn-graphs", "graph"])
def test_a_folder_passes_the_doctor(name: str) -> None:
    assert main(["doctor", str(FORMATS / name)]) == 0


def test_a_graph_folder_can_be_trained_on(tmp_path: Path) -> None:
    graph = Graph.open(FORMATS / "graph")
    assert graph.num_nodes == 40
    assert graph.x is not None
    assert np.isfinite(graph.x).all()
    options = ["--epochs", "1", "--width", "8", "--heads", "2", "--patterns", "4", "--pool", "4", "--warmup", "1"]
    out = ["--out", str(tmp_path / "run"), "--device", "cpu", "--quiet"]
    assert main(["train", str(FORMATS / "graph"), *options, *out]) == 0


def test_a_damaged_file_is_still_found(tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(FORMATS / "run-nodes", copy)
    path = copy / "config.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("dropout: 0.3", "dropout: 0.4"), encoding="utf-8")
    assert main(["doctor", str(copy)]) != 0
