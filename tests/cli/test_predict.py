"""The verbs `evaluate` and `predict`, as a user types them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from gpm import Run
from gpm.cli.main import main

pytestmark = pytest.mark.usefixtures("one_thread")


def test_train_evaluate_and_predict_go_together(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run.open(trained)
    accuracy = run.result["test"]["accuracy"]
    assert main(["evaluate", str(trained), "--out", str(tmp_path / "scores.json")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"ring, test: accuracy {accuracy:.2%}, loss ")
    assert second == f"4 nodes, 12 patterns each, split random 60/20/20, seed 0 ({run.split.digest}), seed 0"
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["scores"] == run.result["test"]
    assert (scores["part"], scores["patterns"], scores["digest"]) == ("test", 12, run.split.digest)
    assert main(["evaluate", str(trained), "--part", "val", "--patterns", "3"]) == 0
    assert "4 nodes, 3 patterns each" in capsys.readouterr().out
    for form in (
        ["-o", str(tmp_path / "all.csv")],
        [f"-o={tmp_path / 'all.csv'}"],
        ["--out", str(tmp_path / "all.csv")],
    ):
        (tmp_path / "all.csv").unlink(missing_ok=True)
        assert main(["predict", str(trained), *form]) == 0
        assert capsys.readouterr().out == f"20 nodes of ring written to {tmp_path / 'all.csv'}\n"
        assert len((tmp_path / "all.csv").read_text().splitlines()) == 21


def test_nodes_are_a_list_of_names(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "some.tsv"
    for form in (["--nodes", "c", "a"], ["--nodes", '["c", "a"]'], ['--nodes=["c","a"]']):
        assert main(["predict", str(trained), *form, "-o", str(out)]) == 0
        with out.open() as file:
            assert [row["node"] for row in csv.DictReader(file, delimiter="\t")] == ["c", "a"]
    assert main(["predict", "--nodes", "c", "--out", str(out), "--run", str(trained)]) == 2  # the run has no flag
