"""What a notebook shows of runs, predictions and explanations: their numbers, and names as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpm
from gpm import Run
from tests.explain.runs import train_small, weighted_graph

pytestmark = pytest.mark.usefixtures("one_thread_for_all")
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("notebook")
    rows = "\n".join(f"{HOSTILE if i == 3 else f'p{i}'},{i % 7},{'ab'[i % 2]}" for i in range(60))
    (folder / "nodes.csv").write_text(f"id,age,label\n{rows}\n", encoding="utf-8")
    ends = np.random.default_rng(0).integers(4, 60, (150, 2))
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(f"p{a},p{b}" for a, b in ends), encoding="utf-8")
    return train_small(str(folder / "edges.csv"), folder / "run", nodes=str(folder / "nodes.csv"), target="label")


def test_the_history_is_that_of_the_training(run: Run) -> None:
    history = run.history
    assert list(history.index) == [1, 2]
    assert history.loc[run.result["best_epoch"], "val_accuracy"] == pytest.approx(
        run.result["val"]["accuracy"], abs=0.1
    )


def test_a_run_shows_its_scores_beside_the_baselines(run: Run, tmp_path: Path) -> None:
    shown = run._repr_html_()
    assert f"{run.result['test']['accuracy']:.2%}" in shown
    assert all(name in shown for name in run.result["baselines"])
    assert str(tmp_path) in Run(tmp_path)._repr_html_()


def test_names_stay_text(run: Run) -> None:
    for shown in (run.predict()._repr_html_(), run.explain(HOSTILE, draws=2)._repr_html_()):
        assert HOSTILE not in shown
        assert "&lt;script&gt;" in shown


def test_an_explanation_shows_its_verdict_and_patterns(run: Run) -> None:
    explanation = run.explain("p5", draws=2)
    shown: Any = explanation._repr_html_()
    assert f"{explanation.strength.word} evidence." in shown
    assert shown.count("<tr>") == len(explanation.patterns) + 1


def test_without_scores_a_run_shows_its_folder(tmp_path: Path) -> None:
    run = train_small(weighted_graph(), tmp_path / "run")
    (run.folder / "result.json").unlink()
    assert "run" in gpm.Run(tmp_path / "run")._repr_html_()
