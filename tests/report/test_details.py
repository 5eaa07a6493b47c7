"""What a report says of each kind of run is what its predictions are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gpm import Graph, Run
from gpm.inference.calibration import calibration_error
from gpm.report.details import describe_predictions, find_statistic
from gpm.report.diagnostics import resample
from tests.explain.runs import NODES, group_graph, ring_graphs, train_small, weighted_edges, weighted_graph

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def _labelled() -> Graph:
    """Three yes-or-no labels, of which some are unknown."""
    edges, _ = weighted_edges()
    y = (np.random.default_rng(0).random((NODES, 3)) < 0.5).astype(np.float64)
    y[::5, 1] = np.nan
    return Graph.from_edges(edges, NODES, x=np.eye(NODES, 8), y=y, undirected=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("runs")
    numbers = np.random.default_rng(0).normal(size=30)
    made: dict[str, tuple[Any, dict[str, Any]]] = {
        "classes": (weighted_graph(x=np.random.default_rng(2).normal(size=(NODES, 3))), {"preset": "plain"}),
        "labels": (_labelled(), {"metric": "accuracy"}),
        "numbers": (ring_graphs(numbers), {"metric": "mae"}),
        "links": (group_graph(), {"task": "link"}),
        "f1": (weighted_graph(), {"metric": "f1"}),
        "two": (weighted_graph(y=np.arange(NODES) % 2), {"metric": "roc_auc"}),
    }
    return {name: train_small(source, folder / name, **options) for name, (source, options) in made.items()}


def _details(run: Run) -> Any:
    return describe_predictions(run, {part: run.read(part) for part in ("val", "test")})


def test_classes_are_counted_as_predicted(runs: dict[str, Run]) -> None:
    run = runs["classes"]
    details = _details(run)
    frame = run.predict_ids(run.split.test).frame().astype({"label_true": int})
    confusions = np.array(details.numbers["confusion"])
    assert confusions.sum() == len(frame)
    assert np.trace(confusions) / len(frame) == pytest.approx(run.result["test"]["accuracy"])
    for score, name in zip(details.numbers["classes"], ("0", "10", "20"), strict=True):
        mine, said = frame["label_true"].astype(str) == name, frame["prediction"].astype(str) == name
        assert (score["name"], score["count"]) == (name, int(mine.sum()))
        assert score["recall"] == pytest.approx((mine & said).sum() / max(mine.sum(), 1), abs=1e-5)
    low, high = details.interval
    assert low <= run.result["test"]["accuracy"] <= high


def test_the_calibration_error_is_that_of_calibration(runs: dict[str, Run]) -> None:
    for name in ("classes", "labels"):
        run = runs[name]
        logits, truth = run.read("test"), run.task.targets[torch.tensor(run.split.test)]
        assert _details(run).numbers["calibration_error"] == pytest.approx(
            calibration_error(run.task, logits, truth), abs=1e-4
        )


def test_mistakes_are_wrong_and_in_the_order_of_their_confidence(runs: dict[str, Run]) -> None:
    run = runs["classes"]
    (section,) = [each for each in _details(run).sections if each.title == "Most confident mistakes"]
    frame = run.predict_ids(run.split.test).frame().astype({"node": str, "label_true": int}).set_index("node")
    (table,) = section.tables
    certain = [float(row[3].rstrip("%")) for row in table.rows]
    assert certain == sorted(certain, reverse=True)
    for (name,), row in zip(table.instances, table.rows, strict=True):
        assert [str(frame.loc[name, key]) for key in ("label_true", "prediction")] == list(row[1:3])
        assert row[1] != row[2]


def test_unknown_labels_are_not_scored(runs: dict[str, Run]) -> None:
    run = runs["labels"]
    counts = [score["count"] for score in _details(run).numbers["labels"]]
    truth = run.task.targets[torch.tensor(run.split.test)]
    assert counts == [int((truth[:, i] == 1).sum()) for i in range(3)]


def test_errors_of_numbers_are_those_of_the_result(runs: dict[str, Run]) -> None:
    run = runs["numbers"]
    details = _details(run)
    (target,) = details.numbers["targets"]
    assert (target["mae"], target["rmse"]) == pytest.approx(
        (run.result["test"]["mae"], run.result["test"]["rmse"]), rel=1e-4
    )
    (worst,) = details.sections[1].tables
    errors = [abs(float(row[3])) for row in worst.rows]
    assert errors == sorted(errors, reverse=True)


def test_links_are_ranked_among_non_edges(runs: dict[str, Run]) -> None:
    run = runs["links"]
    details = _details(run)
    assert details.numbers["negatives"] == len(run.split.negatives_of("test"))  # type: ignore[attr-defined]
    assert 1 <= details.numbers["median_rank"] <= details.numbers["negatives"] + 1
    for table in details.sections[2].tables:
        assert all(len(name) == 2 for name in table.instances)


@pytest.mark.parametrize("name", ["classes", "two", "f1", "numbers", "links"])
def test_the_resampled_score_is_the_metric(name: str, runs: dict[str, Run]) -> None:
    """With every instance drawn once; F1 leaves out a class that is neither true nor predicted."""
    run = runs[name]
    logits, truth = run.read("test"), run.task.targets[torch.tensor(run.split.test)]
    if name == "f1":  # class 1 is absent
        kept = truth != 1
        logits, truth = logits[kept].clone(), truth[kept]
        logits[:, 1] = -50
    statistic = find_statistic(run.task, logits, truth)
    assert statistic is not None
    once = np.ones(statistic.count, dtype=np.int64)
    metric = run.result["metric"]
    assert statistic.measure(once) == pytest.approx(run.task.score(logits, truth)[metric], rel=1e-5)
    if statistic.right is not None:
        assert statistic.right / statistic.count == pytest.approx(statistic.measure(once))


def test_unknown_numbers_are_no_errors(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=30)
    values[4:] = np.where(np.arange(26) % 2, values[4:], np.nan)
    run = train_small(ring_graphs(values), tmp_path / "run", metric="mae", split="40/30/30")
    (table,) = _details(run).sections[1].tables
    assert not any("nan" in cell for row in table.rows for cell in row)


@pytest.mark.parametrize("scale", [0.0, 1e18, 1e-19])
def test_numbers_of_any_size_have_a_report(scale: float, tmp_path: Path) -> None:
    values = 1e18 + np.zeros(30) if scale == 0 else scale * np.random.default_rng(0).normal(size=30)
    run = train_small(ring_graphs(values), tmp_path / "run", metric="mae", epochs=1)
    assert (run.folder / "report.html").is_file()


def test_the_interval_of_a_ranking_metric_holds_its_score(runs: dict[str, Run]) -> None:
    run = runs["two"]
    statistic = find_statistic(run.task, run.read("test"), run.task.targets[torch.tensor(run.split.test)])
    assert statistic is not None
    low, high = resample(statistic.measure, statistic.count) or (1.0, 0.0)
    assert low <= run.result["test"]["roc_auc"] <= high


def test_the_result_has_what_the_report_says(runs: dict[str, Run]) -> None:
    for run in runs.values():
        assert run.result["details"] == _details(run).numbers
        assert (run.folder / "report.html").is_file()
