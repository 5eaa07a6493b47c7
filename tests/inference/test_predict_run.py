"""What a run says, with intervals and calibrated, of all, some or new instances."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from gpm import GpmError, Graph, Run
from tests.small_runs import NODES, features, folder_of, make_graph, run_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_numbers_of_nodes_go_all_the_way() -> None:
    """Trained, scored, predicted, explained and described as those of graphs are."""
    run = run_of("values")
    assert list(run.result["test"]) == ["mae", "rmse", "loss"]
    assert run.evaluate() == pytest.approx(run.result["test"], abs=1e-4)
    labels = run.data.labels  # type: ignore[union-attr]
    np.testing.assert_allclose(run.metadata["mean"], [np.nanmean(labels[run.split.train])], rtol=1e-5)
    assert np.isnan(labels).sum() == 18
    assert not np.isnan(labels[np.concatenate([run.split.train, run.split.val, run.split.test])]).any()
    found = run.predict()
    assert len(found) == NODES
    off = np.abs(found.probability[run.split.test, 0] - labels[run.split.test]).mean()
    assert off == pytest.approx(run.result["test"]["mae"], rel=1e-4)
    told = run.explain("n3")
    assert (told.name, told.kind) == ("node n3", "value")
    card = (run.folder / "README.md").read_text()
    assert "a number, MAE" in card
    assert "with an interval" in card


def test_an_interval_leaves_the_answer_where_it_is() -> None:
    run = run_of("values")
    plain, wide, wider = run.predict(), run.predict(interval=True, calibrate=False), run.predict(interval=True)
    assert plain.low is None
    for found, before in ((wide, "spread_"), (wider, "")):  # only a calibrated interval is called low and high
        assert list(found.columns()) == ["node", "prediction", "label_true", f"{before}low", f"{before}high"]
        np.testing.assert_array_equal(found.columns()["prediction"], plain.columns()["prediction"])
        assert found.low is not None
        assert found.high is not None
        np.testing.assert_allclose((found.low + found.high) / 2, plain.probability, rtol=1e-9)
        assert (found.high >= found.low).all()
    np.testing.assert_array_equal(run.predict(calibrate=True).low, wider.low)
    fewer = run.predict(interval=True, calibrate=False, patterns=3)
    assert (fewer.high - fewer.low).mean() > (wide.high - wide.low).mean()  # type: ignore[operator]


def test_calibrated_intervals_hold_nine_in_ten_of_the_validation_part() -> None:
    for kind in ("values", "two values", "gcn values", "graphs"):
        run = run_of(kind)
        found, part = run.predict(calibrate=True), run.split.val
        labels = run.data.labels.reshape(len(found), -1)[part]  # type: ignore[union-attr]
        assert found.low is not None
        assert found.high is not None
        inside = (found.low[part] <= labels) & (labels <= found.high[part])
        for column, known in zip(inside.T, ~np.isnan(labels).T, strict=True):
            assert 0.9 <= column[known].mean() <= 0.9 + 2 / known.sum()
        assert np.isfinite(found.high).all()


def test_two_numbers_have_an_interval_each() -> None:
    columns = run_of("two values").predict(["n1"], interval=True, draws=2).columns()
    assert list(columns) == [
        "node", "prediction_0", "prediction_1", "label_true_0", "label_true_1", "low_0", "low_1", "high_0", "high_1",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["classes", "labels", "gcn", "product", "links"])
def test_calibration_changes_no_prediction(kind: str) -> None:
    run = run_of(kind)
    names = [("n1", "n2"), ("n5", "n9")] if run.data.level == "link" else None
    plain, cooled = run.predict(names), run.predict(names, calibrate=True)
    assert cooled.temperature != 1
    np.testing.assert_array_equal(plain.labels, cooled.labels)
    assert list(plain.columns()) == list(cooled.columns())
    if kind in ("classes", "gcn"):
        assert plain.columns()["prediction"] == cooled.columns()["prediction"]
        np.testing.assert_array_equal(cooled.probability.argmax(1), plain.logits.numpy().argmax(1))
        np.testing.assert_allclose(cooled.probability.sum(1), 1, rtol=1e-6)


def test_classes_have_no_interval() -> None:
    with pytest.raises(GpmError, match="predicts no numbers, which alone have intervals"):
        run_of("classes").predict(interval=True)
    with pytest.raises(GpmError, match="holds a gcn, which draws no patterns; calibrate its intervals"):
        run_of("gcn values").predict(interval=True, calibrate=False)


def test_with_too_few_validation_values_a_run_tells_the_spread_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpm.inference.calibration.LEVEL", 0.9999)
    for kind, ends in (("values", ["spread_low", "spread_high"]), ("gcn values", [])):
        shutil.copytree(run_of(kind).folder, tmp_path / kind, ignore=shutil.ignore_patterns("calibration.json"))
        run = Run.open(tmp_path / kind, device="cpu")
        assert list(run.predict(["n1"], interval=True, draws=2).columns())[3:] == ends
        assert "No calibrated intervals" in caplog.messages[-1]
        with pytest.raises(GpmError, match="labelled values, and calibration needs 9; choose a larger"):
            run.predict(["n1"], interval=True, calibrate=True)


def test_the_order_asked_for_is_kept_and_a_name_asked_twice_is_answered_twice() -> None:
    run = run_of("classes")
    every, names = run.predict(), ["n7", "n2", "n7", "n150", *[f"n{i}" for i in range(40)]]
    some = run.predict(names)
    assert some.names == names
    np.testing.assert_allclose(some.probability, every.probability[[int(name[1:]) for name in names]], rtol=1e-4)
    assert run.predict("n7").names == ["n7"]
    pairs = run_of("product").predict([("n3", "n1"), ("n1", "n3"), ("n3", "n1")])
    assert pairs.names == [("n3", "n1"), ("n1", "n3"), ("n3", "n1")]
    assert pairs.probability[0] == pytest.approx(pairs.probability[2])
    with pytest.raises(GpmError, match="A link has two ends; name two nodes, as in --link A B"):
        run_of("product").predict(["n3", "n1"])


def _grown(folder: Path) -> Graph:
    """The graph that a run was trained on with five more nodes, in another order and without labels."""
    old = Graph.open(folder.parent / "graph")
    order = np.random.default_rng(2).permutation(NODES + 5)
    place = np.argsort(order)
    edges = np.concatenate([old.edge_index(), [[NODES + i for i in range(5)], [0, 1, 2, 3, 4]]], 1)
    x = np.concatenate([features(), np.ones((5, 3))])
    names = [*[f"n{i}" for i in range(NODES)], *[f"new {i}" for i in range(5)]]
    return Graph.from_edges(
        place[edges.astype(np.int64)], NODES + 5, undirected=True, x=x[order], names=[names[i] for i in order]
    )


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_new_nodes_of_a_grown_graph_are_predicted_without_training_again(kind: str, tmp_path: Path) -> None:
    grown = _grown(folder_of(kind))
    grown.save(tmp_path / "grown")
    for given in (grown, tmp_path / "grown"):
        run = Run.open(folder_of(kind), given, device="cpu", other=True)
        found = run.predict(new=True, calibrate=True)
        assert sorted(found.names) == [f"new {i}" for i in range(5)]
        assert len(run.predict()) == NODES + 5
        assert run.predict(["new 3", "n0"]).names == ["new 3", "n0"]
    assert "5 of 165 nodes are new; 160 were in training." in run.unseen()


def test_labels_of_another_graph_are_not_needed(tmp_path: Path) -> None:
    for y in (None, np.full(NODES, 0.5), np.arange(NODES) % 2, np.full(NODES, -1)):
        make_graph(y).save(tmp_path / "other", overwrite=True)
        run = Run.open(folder_of("classes"), tmp_path / "other", device="cpu", other=True)
        assert len(run.predict(["n1"])) == 1
        assert run.data.title == "other"


def test_new_nodes_need_another_graph() -> None:
    with pytest.raises(GpmError, match="New nodes are those of another graph that were not in training; open the run"):
        run_of("classes").predict(new=True)
    other = Run.open(folder_of("classes"), make_graph(), device="cpu", other=True)
    with pytest.raises(GpmError, match="New nodes are those of another graph"):
        other.predict(["n1"], new=True)
    assert len(other.predict(new=True)) == 0
