"""What is missing is run, within a time; what was stopped goes on; a second call has nothing to do."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpm import Run, train
from gpm.reproduce import runner
from gpm.reproduce.paper_tables import Ours
from gpm.reproduce.records import Job, Records
from gpm.reproduce.runner import is_at_hand, list_jobs, run_jobs
from gpm.run.workplace import part_of
from tests.reproduce.toys import SMALL, TOY

pytestmark = pytest.mark.usefixtures("one_thread")
HOUR = 3600.0


def _run(jobs: list[Job], out: Path, seconds: float = HOUR) -> dict[tuple[str, str, int], str]:
    """Return the reasons why runs are missing."""
    reasons: dict[tuple[str, str, int], str] = {}
    run_jobs(jobs, out, seconds, reasons, quiet=True)
    return reasons


@pytest.fixture(autouse=True)
def _no_raw_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GPM_RAW", raising=False)
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "data"))


def test_runs_that_several_tables_ask_for_are_listed_once_the_cheapest_first() -> None:
    jobs = list_jobs([TOY, TOY], 2)
    assert len(jobs) == len({job.key for job in jobs}) == 2 * 3 * 2
    order = [(job.minutes, job.seed) for job in jobs]
    assert order == sorted(order)
    ablation = replace(TOY, ablation=True, ours=(Ours("Mean", {"path": "mean"}, "", 1e-6),))
    assert [job.options == {"path": "mean"} for job in list_jobs([ablation, TOY], 1, ["motifs"])] == [False] * 3 + [
        True
    ]
    assert {job.recipe for job in list_jobs([TOY], 1, ["motifs"])} == {"motifs"}
    rows = replace(TOY, ours=(*TOY.ours, Ours("GCN", {"model": "gcn"})))
    assert [job.options for job in list_jobs([rows], 1, ["motifs"], ["gcn"])] == [{"model": "gcn"}]


def test_a_run_is_kept_as_a_record_and_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job("motifs", SMALL, seed) for seed in (0, 1)]
    assert _run(jobs, tmp_path) == {}
    monkeypatch.setattr(runner, "train", None)
    assert _run(jobs, tmp_path) == {}
    record = Records(tmp_path).find(jobs[1])
    assert record is not None
    assert (record["seed"], record["recipe"], record["metric"]) == (1, "motifs", "accuracy")
    assert {"config", "split_digest", "protocol", "commit", "environment", "train_seconds", "command"} <= set(record)
    assert not any((tmp_path / "results/unfinished").rglob("*.json"))
    file = Records(tmp_path).folder / jobs[1].file
    file.write_text(file.read_text(encoding="utf-8").replace(record["recipe_digest"], "of another recipe"), "utf-8")
    assert Records(tmp_path).find(jobs[1]) is None


def test_what_would_take_too_long_or_has_no_data_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "train", None)
    jobs = [Job("motifs", {}, 0, minutes=90), Job("reddit-m5k"), Job("motifs", {"epochs": 7}, 0, minutes=6000)]
    reasons = _run(jobs, tmp_path)
    unknown = "not within the time limit (on one core: unknown)"
    assert list(reasons.values()) == [unknown, "the data is not here", unknown]
    assert is_at_hand("motifs")


def test_an_interrupted_run_is_resumed_however_long_it_takes(tmp_path: Path) -> None:
    job = Job("motifs", SMALL, minutes=1e6)
    assert _run([job], tmp_path) != {}
    name = f"{job.file.removesuffix('.json')}-{job.digest}"
    part_of(tmp_path / "results/unfinished" / name).mkdir(parents=True)
    assert _run([job], tmp_path) == {}


def test_a_run_that_does_not_fit_into_memory_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise RuntimeError("not enough memory: you tried to allocate 9 bytes")

    monkeypatch.setattr(runner, "train", fails)
    job = Job("motifs", SMALL)
    assert _run([job], tmp_path) == {job.key: "not enough memory"}


@pytest.mark.parametrize(
    ("minutes", "shown"),
    [(1, "about 1 minute"), (90, "about 90 minutes"), (240, "about 4 hours"), (1e4, "about 7 days")],
)
def test_times_are_shown_in_words(minutes: float, shown: str) -> None:
    assert runner.show_minutes(minutes) == shown


def test_a_mistake_is_a_reason_and_does_not_stop_the_others(tmp_path: Path) -> None:
    jobs = [Job("motifs", {"width": 7}), Job("motifs", SMALL)]
    reasons = _run(jobs, tmp_path)
    assert list(reasons) == [jobs[0].key]
    assert "width (7) must be a multiple of heads" in reasons[jobs[0].key]
    assert Records(tmp_path).find(jobs[1]) is not None


def _figures_of(job: Job, out: Path) -> dict[str, Any]:
    record = Records(out).find(job)
    assert record is not None
    return {key: record[key] for key in ("test", "val", "best_epoch", "epochs")}


def test_a_run_that_runs_out_of_time_goes_on_with_the_next_call(tmp_path: Path) -> None:
    job = Job("motifs", SMALL | {"epochs": 15})
    _run([job], tmp_path / "whole")
    began = time.monotonic()
    assert _run([job], tmp_path / "cut", 0.3) == {job.key: "interrupted; the next call resumes it"}
    assert time.monotonic() - began < 60
    assert Records(tmp_path / "cut").find(job) is None
    assert _run([job], tmp_path / "cut") == {}
    assert _figures_of(job, tmp_path / "cut") == _figures_of(job, tmp_path / "whole")


def test_ctrl_c_is_not_taken_for_the_end_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _run([Job("motifs", SMALL)], tmp_path)


def test_a_kill_before_the_record_is_written_costs_no_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(BaseException):
        pass

    def dies(*_: Any) -> None:
        raise Killed

    job, trained = Job("motifs", SMALL), []
    with monkeypatch.context() as dying:
        dying.setattr(Records, "add", dies)
        with pytest.raises(Killed):
            _run([job], tmp_path)

    def watched(*arguments: Any, **options: Any) -> Any:
        run = train(*arguments, **options)
        assert isinstance(run, Run)
        trained.append(run.result["train_seconds"])
        return run

    kept = json.loads(next((tmp_path / "results/unfinished").rglob("result.json")).read_text())
    monkeypatch.setattr(runner, "train", watched)
    assert _run([job], tmp_path) == {}
    assert trained == [kept["train_seconds"]]
