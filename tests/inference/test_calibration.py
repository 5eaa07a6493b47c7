"""Temperatures and widths, found on the validation part and kept with the run."""

from __future__ import annotations

import json
import logging
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from gpm import GpmError, Run
from gpm.inference.calibration import (
    FILE,
    HOTTEST,
    LEVEL,
    calibrate_run,
    calibration_error,
    fit_intervals,
    fit_temperature,
    measure_spread,
    spread_factor,
)
from gpm.nn.predictor import Predictor
from gpm.tasks import ClassTask, LinkTask, ValueTask
from tests.small_runs import folder_of, make_graph, run_of

pytestmark = pytest.mark.usefixtures("one_thread")


def _draw(count: int, classes: int = 3) -> tuple[Tensor, Tensor]:
    """Logits that say exactly how sure one can be, and labels drawn by them."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(count, classes, generator=generator)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]


@pytest.mark.parametrize("truth", [0.3, 1.0, 4.0])
def test_logits_that_are_too_sure_are_cooled_to_what_they_should_be(truth: float) -> None:
    logits, targets = _draw(20_000)
    task = ClassTask([0, 1, 2], False, "accuracy", smoothing=0.1)
    found = fit_temperature(task, logits * truth, targets)
    assert found.temperature == pytest.approx(truth, rel=0.05)
    assert found.figures["ece_after"] < 0.02
    assert found.figures["ece_before"] > (0.05 if truth != 1 else -1)
    assert found.figures["nll_after"] <= found.figures["nll_before"]
    losses = [torch.nn.functional.cross_entropy(logits * truth / t, targets) for t in (0.9 * truth, truth, 1.1 * truth)]
    assert losses[1] < min(losses[0], losses[2])  # the law that the fit rests on


def test_labels_and_links_are_cooled_too() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(20_000, 2, generator=generator)
    yes = torch.bernoulli(logits.sigmoid(), generator=generator)
    unknown = torch.rand(yes.shape, generator=generator) < 0.2
    labels = ClassTask([0, 1], True, "roc_auc")
    assert fit_temperature(labels, 3 * logits, yes.masked_fill(unknown, math.nan)).temperature == pytest.approx(
        3, rel=0.05
    )
    found = fit_temperature(LinkTask("ap"), 3 * logits[:, :1], yes[:, 0].long())
    assert found.temperature == pytest.approx(3, rel=0.05)
    assert found.figures["ece_after"] < 0.02 < found.figures["ece_before"]


def test_a_part_without_a_mistake_has_no_boundless_temperature() -> None:
    targets = torch.arange(30) % 3
    task = ClassTask([0, 1, 2], False, "accuracy")
    sure = fit_temperature(task, torch.eye(3)[targets], targets).temperature
    unsure = fit_temperature(task, -torch.eye(3)[targets], targets).temperature
    assert 1 / HOTTEST <= sure < 0.06
    assert 19 < unsure <= HOTTEST


def test_the_error_of_calibration_is_what_it_is_defined_to_be() -> None:
    task = ClassTask([0, 1], False, "accuracy")
    logits = torch.logit(torch.tensor([0.9, 0.9, 0.9, 0.9, 0.6, 0.6])) / 2
    pairs = torch.stack([logits, -logits], 1)  # of which softmax makes 0.9 and 0.6
    targets = torch.tensor([0, 0, 0, 1, 0, 1])
    assert calibration_error(task, pairs, targets) == pytest.approx((4 * abs(0.9 - 0.75) + 2 * abs(0.6 - 0.5)) / 6)
    labels = ClassTask([0, 1], True, "f1")
    said = torch.logit(torch.tensor([[0.1, 0.9], [0.1, 0.9]]))
    wanted = torch.tensor([[0.0, 1.0], [1.0, math.nan]])
    assert calibration_error(labels, said, wanted) == pytest.approx((2 * abs(0.1 - 0.5) + abs(0.9 - 1)) / 3, abs=1e-6)


def _values(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Logits, targets and spreads: where the spread is large, so are errors; some targets are unknown."""
    random = np.random.default_rng(seed)
    spread = random.choice([0.1, 1.0, 3.0], (count, 2))
    logits = random.normal(size=(count, 2))
    targets = 5 + 2 * logits + random.normal(size=(count, 2)) * (0.5 + spread)
    targets[random.random((count, 2)) < 0.1] = np.nan
    return torch.from_numpy(logits), torch.from_numpy(targets), torch.from_numpy(spread)


def test_nine_in_ten_new_numbers_lie_inside_as_well() -> None:
    task = ValueTask("mae", [5.0, 5.0], [2.0, 2.0])
    found = fit_intervals(task, *_values(4000, 0), draws=8)
    logits, targets, spread = _values(20_000, 1)
    off = (task.answers(logits) - targets).abs()
    for column in range(2):
        known = ~targets[:, column].isnan()
        inside = (off <= found.widths(spread))[known, column].double().mean()
        assert float(inside) == pytest.approx(0.9, abs=0.015)
    assert found.figures["inside_after"] >= 0.9
    narrow, wide = found.widths(torch.tensor([[0.1, 0.1], [3.0, 3.0]], dtype=torch.float64))
    assert (wide > 1.5 * narrow).all()  # what spreads is less sure


@pytest.mark.parametrize("error", [0.0, 1.0])
def test_numbers_that_never_spread_have_one_width(error: float) -> None:
    task = ValueTask("mae", [0.0], [1.0])
    targets = torch.full((30, 1), error)
    found = fit_intervals(task, torch.zeros(30, 1), targets, torch.zeros(30, 1, dtype=torch.float64), draws=8)
    assert float(found.widths(torch.zeros(1, 1, dtype=torch.float64))) == pytest.approx(error, abs=1e-6)


def test_too_few_numbers_are_said_so() -> None:
    task = ValueTask("mae", [0.0], [1.0])
    given = torch.zeros(9, 1), torch.arange(9.0)[:, None], torch.zeros(9, 1, dtype=torch.float64)
    assert fit_intervals(task, *given, draws=8).factor  # nine are just enough
    with pytest.raises(GpmError, match="The validation split has 8 labelled values, and calibration needs 9"):
        fit_intervals(task, *(part[:8] for part in given), draws=8)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(folder_of("classes"), tmp_path / "copy"))
    (folder / FILE).unlink(missing_ok=True)
    return folder


def test_it_is_found_once_and_kept(
    copied: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.INFO, "gpm"):
        first = Run.open(copied, device="cpu").predict(calibrate=True)
    assert "Calibrated on 48 instances of the validation split: temperature " in caplog.text
    assert "ECE" in caplog.text
    kept = json.loads((copied / FILE).read_text())
    assert kept["temperature"] == first.temperature
    assert set(kept["figures"]) == {"count", "ece_before", "ece_after", "nll_before", "nll_after"}
    monkeypatch.setattr("gpm.inference.calibration.fit_temperature", lambda *_: pytest.fail("found again"))
    assert Run.open(copied, device="cpu").predict(calibrate=True).temperature == first.temperature
    shutil.rmtree(copied.parent / "graph", ignore_errors=True)
    moved = Run.open(copied, make_graph(), device="cpu", other=True, home=Run(copied / "none"))  # no data is needed now
    assert moved.predict(calibrate=True).temperature == first.temperature


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 1e-9}, {"temperature": "hot"}, {"temperature": 10**400}, {"key": {}}, {"floor": [1.0]},
        {"floor": 3}, {"import os": 1}, None,
    ],
)  # fmt: skip
def test_a_file_that_is_damaged_or_of_another_model_is_not_believed(copied: Path, change: dict | None) -> None:
    run = Run.open(copied, device="cpu")
    truth = calibrate_run(run, draws=8)
    kept = json.loads((copied / FILE).read_text())
    (copied / FILE).write_text("[" if change is None else json.dumps(kept | change))
    assert calibrate_run(run, draws=8) == truth
    assert json.loads((copied / FILE).read_text()) == kept  # and it is written again


def test_another_number_of_patterns_is_calibrated_anew(copied: Path) -> None:
    run = Run.open(copied, device="cpu")
    assert run.predict(calibrate=True).temperature != run.predict(calibrate=True, patterns=3).temperature


def test_without_the_data_it_says_what_is_missing(copied: Path) -> None:
    run = Run.open(copied, make_graph(), device="cpu", other=True)
    run.home.config.__dict__["data"] = ""
    with pytest.raises(GpmError, match=r"Calibration needs the validation split that .* was trained with: .* memory"):
        run.predict(calibrate=True)
    assert not (copied / FILE).exists()


def test_a_folder_that_cannot_be_written_to_does_not_stop_it(
    copied: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, content: object) -> None:
        raise GpmError(f"Cannot write {path}: Read-only file system.")

    monkeypatch.setattr("gpm.inference.calibration.write_json", refuse)
    assert Run.open(copied, device="cpu").predict(calibrate=True).temperature != 1
    assert "The calibration is not saved: Cannot write" in caplog.text


def test_the_spread_is_the_deviation_over_independent_draws() -> None:
    run = run_of("values")
    assert isinstance(run.predictor, Predictor)
    nodes = np.arange(20)
    own = run.predictor.logits(nodes)
    spread = measure_spread(run.predictor, nodes, own, draws=4)
    assert spread.shape == own.shape
    assert (spread > 0).any()
    torch.testing.assert_close(measure_spread(run.predictor, nodes, own, draws=4), spread)  # the same draws again
    torch.testing.assert_close(run.predictor.logits(nodes), own)  # and the run's own patterns are untouched
    wide = measure_spread(run.predictor, nodes, run.predictor.logits(nodes, patterns=3), draws=4, patterns=3)
    assert wide.mean() > spread.mean()  # fewer patterns, more chance


def test_a_baseline_draws_nothing() -> None:
    run = run_of("gcn")
    nodes = np.arange(5)
    spread = measure_spread(run.predictor, nodes, run.predictor.logits(nodes))
    assert spread.tolist() == [[0.0] * 3] * 5


def test_one_draw_tells_nothing() -> None:
    run = run_of("values")
    with pytest.raises(GpmError, match="draws must be at least 2, since one draw has no spread, got 1"):
        measure_spread(run.predictor, np.arange(2), torch.zeros(2, 1), draws=1)


def test_few_draws_are_allowed_for() -> None:
    """A deviation of few draws is itself uncertain: with Student's t, 9 in 10 intervals still hold the mean."""
    assert spread_factor(8) == pytest.approx(stats.t.ppf(0.95, 7))
    random = np.random.default_rng(0)
    draws = random.normal(size=(200_000, 4))
    inside = np.abs(random.normal(size=200_000)) <= spread_factor(4) * draws.std(1, ddof=1)
    assert inside.mean() == pytest.approx(LEVEL, abs=0.01)
