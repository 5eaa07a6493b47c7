"""The board ranks models as it says, resumes what is missing, and hides test figures."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
board: Any = importlib.import_module("board")
board_summary: Any = importlib.import_module("board_summary")
sys.path.pop(0)
MODELS = {"node": ("gpm", "gcn", "mlp"), "graph": ("gpm", "gin")}


def _record(dataset: str, model: str, seed: int, test: float | None, **more: Any) -> dict[str, Any]:
    done = {"status": "time limit"} if test is None else {"status": "done", "val": test, "test": test}
    facts = {"task": "node", "metric": "accuracy", "split": f"split of {seed}", "commit": "abc", "date": "2026-01-01"}
    seconds = {"wall": 1.0, "cpu": 2.0}
    return {"dataset": dataset, "model": model, "seed": seed, "seconds": seconds} | facts | done | more


def _summarise(*records: dict[str, Any]) -> dict[str, Any]:
    return dict(board_summary.summarise(records, MODELS))


def test_ties_share_the_mean_rank_and_missing_models_are_last() -> None:
    rank = board_summary.rank
    assert rank({"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0}) == {"a": 1, "b": 2.5, "c": 2.5, "d": 4}
    assert rank({"a": 3.0, "b": 2.0}, larger=False) == {"a": 2, "b": 1}
    assert rank({"a": None, "b": 0.0, "c": None}) == {"a": 2.5, "b": 1, "c": 2.5}
    assert rank({"a": None, "b": 9.0}, larger=False) == {"a": 2, "b": 1}


@given(st.dictionaries(st.text("abcdefg", min_size=1), st.none() | st.integers(0, 5), min_size=1))
def test_ranks_sum_to_the_same_whatever_the_ties(values: dict[str, float | None]) -> None:
    ranks = board_summary.rank(values)
    assert sum(ranks.values()) == pytest.approx(len(values) * (len(values) + 1) / 2)


def test_losses_are_points_and_for_errors_percent_of_the_best() -> None:
    assert board_summary.find_losses({"a": 80.0, "b": 77.5, "c": None}, "accuracy") == {"a": 0, "b": 2.5, "c": None}
    assert board_summary.find_losses({"a": 0.8, "b": 1.0}, "rmse") == {"a": 0, "b": 25}
    assert board_summary.find_losses({"a": None}, "rmse") == {"a": None}


def test_a_model_that_lacks_a_seed_has_no_figure_and_is_last() -> None:
    found = _summarise(
        _record("texas", "gpm", 0, 0.8), _record("texas", "gpm", 1, 0.9), _record("texas", "gcn", 0, 0.99),
        _record("texas", "gcn", 1, None), _record("cora", "gpm", 0, 0.7, seconds={"wall": 300.0, "cpu": 130.0}),
        _record("cora", "gcn", 0, 0.705), _record("cora", "mlp", 0, 0.4),
    )  # fmt: skip
    texas = found["datasets"]["texas"]
    assert texas["seeds"] == [0, 1]
    assert (texas["models"]["gpm"]["mean"], texas["models"]["gpm"]["std"]) == (85, 7.07)
    assert (texas["models"]["gcn"]["mean"], texas["models"]["gcn"]["missing"]) == (None, "time limit")
    assert [texas["models"][model]["rank"] for model in MODELS["node"]] == [1, 2.5, 2.5]
    gpm, gcn, mlp = (found["tasks"]["node"][model] for model in MODELS["node"])
    assert (gpm["mean_rank"], gpm["wins"], gpm["near"]) == (1.5, 1, 1)
    assert (gpm["worst_loss"], gpm["worst_on"], gpm["slow"]) == (0.5, "cora", {"cora": 130})
    assert (gcn["wins"], gcn["near"], gcn["missing"]) == (1, 0.5, {"texas": "time limit"})
    assert (mlp["missing"], mlp["worst_loss"], gpm["cpu_seconds"]) == ({"texas": "not run"}, 30.5, 134)
    assert "graph" not in found["tasks"]


def test_models_must_have_the_same_splits() -> None:
    with pytest.raises(ValueError, match="texas, seed 0: the models have different splits"):
        _summarise(_record("texas", "gpm", 0, 0.8), _record("texas", "gcn", 0, 0.8, split="another"))


def test_the_page_says_what_is_missing(tmp_path: Path) -> None:
    assert board_summary.NOT_YET in board_summary.describe(_summarise())
    found = _summarise(
        _record("texas", "gpm", 0, 0.8), _record("texas", "gcn", 0, None), _record("texas", "mlp", 0, 0.81),
        _record("esol", "gpm", 0, 0.6, task="graph", metric="rmse"),
        _record("esol", "gin", 0, 0.9, task="graph", metric="rmse"),
    )  # fmt: skip
    page = board_summary.describe(found)
    assert "| texas | 80.0 | time limit | **81.0** |" in page
    assert "| esol (RMSE) | **0.600** | 0.900 |" in page
    assert "Without a figure, and therefore last: GCN on texas (time limit)." in page
    board_summary.draw(found, tmp_path / "board.svg")
    assert "chameleon" not in (drawn := (tmp_path / "board.svg").read_text(encoding="utf-8"))
    assert ">texas<" in drawn.replace(" ", "")
    board_summary.draw(found, tmp_path / "again.svg")
    assert drawn == (tmp_path / "again.svg").read_text(encoding="utf-8")


def test_every_dataset_has_three_seeds_and_minesweeper_those_whose_splits_can_be_scored() -> None:
    jobs = list(board.list_jobs([board.BOARD["texas"], board.BOARD["minesweeper"]], ["gpm"]))
    assert [(job.dataset.name, job.seed) for job in jobs] == [
        ("texas", 0), ("minesweeper", 1), ("texas", 1), ("minesweeper", 2), ("texas", 2), ("minesweeper", 3),
    ]  # fmt: skip
    page = board_summary.describe(
        _summarise(_record("a", "gpm", 0, 0.5), _record("b", "gpm", 0, 0.5), _record("c", "gpm", 1, 0.5))
    )
    assert "over seeds 0; c 1 (" in page


def test_nothing_is_run_again_that_is_there(tmp_path: Path) -> None:
    records = board.Records(tmp_path / "board")
    jobs = list(board.list_jobs([board.BOARD["texas"], board.BOARD["usair"]], ["gpm", "trees"], [0, 1]))
    assert [job.key for job in jobs] == [
        (*pair, seed) for seed in (0, 1) for pair in (("texas", "gpm"), ("texas", "trees"), ("usair", "gpm"))
    ]  # links have no trees

    def missing(commit: str = "abc", **options: bool) -> list[tuple[str, str, int]]:
        return [job.key for job in board.find_missing(jobs, records.read(), commit, **options)]

    assert missing() == [job.key for job in jobs]
    records.add(_record("texas", "gpm", 0, 0.8))
    records.add(_record("texas", "trees", 0, None))  # ended at its limit: that is a result too
    hidden = _record("usair", "gpm", 0, 0.5)
    del hidden["test"]
    records.add(hidden)  # of tuning, which knew no test figure
    assert missing() == [("usair", "gpm", 0), *(job.key for job in jobs if job.seed == 1)]
    assert missing("def") == [job.key for job in jobs]
    assert missing("def", keep=True) == missing()
    records.add(_record("texas", "gpm", 0, 0.9, commit="def"))
    assert [each["test"] for each in records.read() if each["model"] == "gpm" and "test" in each] == [0.9]
    assert sorted(path.name for path in records.folder.iterdir()) == ["texas.jsonl", "usair.jsonl"]


def test_the_board_has_the_datasets_of_the_catalog() -> None:
    from gpm.data.catalog import CATALOG

    assert len(board.BOARD) == 31
    for dataset in (*board.BOARD.values(), *board.EXTRA.values()):
        entry = CATALOG[dataset.name]
        assert dataset.task == "link" or entry.task == dataset.task
        assert dataset.metric in (entry.metric, "hits@20")


def test_the_page_is_the_committed_one() -> None:
    reported = board.find_reported(board.Records(board.RESULTS))
    found = board_summary.summarise(reported, board.MODELS, list(board.BOARD))
    shown = (ROOT / "docs/board.md").read_text(encoding="utf-8")
    assert shown == board_summary.describe(found, board.ODD_SEEDS_WHY), "python benchmarks/board.py table writes it"


@pytest.mark.usefixtures("one_thread")
def test_all_models_have_the_same_split_and_hidden_figures_are_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "run_job", _run_here)
    command = [
        "board.py",
        "run",
        "--only",
        "karate",
        "--models",
        "gcn",
        "propagation",
        "--hide-test",
        "--out",
        str(tmp_path),
    ]
    monkeypatch.setattr(sys, "argv", command)
    board.main()
    board.main()
    printed = capsys.readouterr().out
    assert "2 runs to do, 0 are there" in printed
    assert "0 runs to do, 2 are there" in printed
    assert "test" not in printed
    gcn, labels = board.Records(tmp_path).read()
    assert gcn["split"] == labels["split"]
    assert (gcn["status"], labels["status"], labels["chosen"]) == ("done", "done", "label propagation")
    assert {"val", "seconds", "epochs", "commit", "versions", "date"} <= set(gcn)
    assert "test" not in gcn
    assert "test" not in labels


def _run_here(job: Any, facts: dict[str, Any]) -> dict[str, Any]:
    """Do a job in this process; the board has one for each."""
    found: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        from gpm.training import simple_baselines

        patch.setattr(simple_baselines, "score_baselines", simple_baselines.score_baselines)  # put back afterwards
        patch.setattr(board.resource, "setrlimit", lambda *_: None)

        class Answer:
            send = found.append

        board.work(job, Answer)
    return dict(board.make_record(job, found[0], facts))


def test_reported_seeds_are_not_for_tuning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["board.py", "run", "--hide-test", "--seeds", "0"])
    with pytest.raises(SystemExit):
        board.main()
    assert "take 100 and up" in capsys.readouterr().err


def test_the_table_of_the_readme_says_how_far_behind_gpm_is_and_in_what_unit() -> None:
    lines = board_summary.describe_short(
        _summarise(
            _record("a", "gpm", 0, 0.5),
            _record("a", "gcn", 0, 0.75),
            _record("b", "gpm", 0, 1.5, task="graph", metric="rmse"),
            _record("b", "gin", 0, 1.0, task="graph", metric="rmse"),
        )
    ).splitlines()
    assert lines[-2].startswith("| nodes | 1 | 2.00 of 3 | GCN 1.00 | 0% (GCN 100%) | 25.0 points (a) |")
    assert lines[-1].startswith("| graphs | 1 | 2.00 of 2 | GIN 1.00 | 0% (GIN 100%) | 50.0% (b) |")
