"""A record names the command that makes it again, and has a file of its own."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpm.cli.main import main
from gpm.reproduce import records
from gpm.reproduce.pages import MOST_SEEDS
from gpm.reproduce.paper_tables import Column, Ours, read_tables
from gpm.reproduce.records import FOLDER, Job, Record, Records
from gpm.reproduce.runner import list_jobs, run_jobs
from gpm.reproduce.studies import STUDIES
from gpm.training.recipes import find_recipe
from tests.reproduce.toys import SMALL, TOY

pytestmark = pytest.mark.usefixtures("one_thread")


def _check_again(record: Record, out: Path) -> None:
    """Run the command of a record, which makes the same figures."""
    program, *words = shlex.split(record["command"])
    assert program == "gpm"
    assert main([*words, "--quiet", "--out", str(out)]) == 0
    again = json.loads((out / "result.json").read_text(encoding="utf-8"))
    for key in ("test", "val", "split_digest"):
        assert again[key] == record[key]


def test_the_command_of_a_record_makes_the_same_figure_again(tmp_path: Path) -> None:
    job = Job("motifs", SMALL, 3)
    run_jobs([job], tmp_path, 3600, {}, quiet=True)
    record = Records(tmp_path).find(job)
    assert record is not None
    _check_again(record, tmp_path / "again")


def test_a_shift_also_keeps_what_the_other_rule_would_have_chosen(tmp_path: Path) -> None:
    options = SMALL | {"shift": "degree", "epochs": 4, "average": 1}
    jobs = [
        Job("motifs", options | {"validate": rule}, 1, extras=frozenset({"other"})) for rule in ("target", "source")
    ]
    run_jobs(jobs, tmp_path, 3600, {}, quiet=True)
    one, other = map(Records(tmp_path).find, jobs)
    assert one is not None
    assert other is not None
    assert one["best_epoch"] != other["best_epoch"]
    assert (one["other"], other["other"]) == (other["test"], one["test"])


@pytest.mark.needs("GNNBenchmarkDataset/CSL")
@pytest.mark.usefixtures("raw_files")
def test_a_committed_record_comes_out_again_to_the_last_digit(tmp_path: Path) -> None:
    record = Records(Path(__file__).parents[2]).find(Job("csl"))
    assert record is not None
    _check_again(record, tmp_path / "again")


def test_every_committed_record_belongs_to_a_table_or_study_of_today() -> None:
    root = Path(__file__).parents[2]
    jobs = {job.file: job for job in list_jobs(read_tables(), MOST_SEEDS)}
    studies = {study.file(part): study for study in STUDIES for part in study.parts}
    for file in (root / FOLDER).rglob("*.json"):
        name = file.relative_to(root / FOLDER).as_posix()
        if name in studies:
            assert file.stem in studies[name].find(root), f"{name} was measured by other constants; remove it"
        else:
            assert name in jobs, f"{name} is of no table; remove it"
            assert Records(root).find(jobs[name]) is not None, f"{name} is of an earlier recipe; remove it"


@pytest.mark.parametrize(
    ("change", "apart"),
    [({"lengths": [3], "path": "gru", "epochs": 7}, {"gpm"}), ({"split": "50/25/25"}, {"gpm", "gcn"})],
)
def test_a_network_does_not_depend_on_what_a_recipe_says_of_patterns(
    change: dict[str, Any], apart: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = {model: Job("trees-4", {"model": model}) for model in ("gpm", "gcn")}
    before = {model: job.digest for model, job in jobs.items()}
    recipe = find_recipe("trees-4")
    assert recipe is not None
    monkeypatch.setattr(records, "_recipe_of", lambda _: replace(recipe, config=recipe.config.with_(**change)))
    assert {model for model, job in jobs.items() if job.digest != before[model]} == apart


def test_options_that_a_recipe_has_anyway_are_no_other_run() -> None:
    column = Column("ZINC", "zinc")
    assert Job.of(TOY, column, Ours("w/o PE", {"pe": "none"})).options == {"pe": "none"}
    assert Job.of(TOY, column, Ours("GPM", {"pe": "rings", "width": 64})).key == Job.of(TOY, column, Ours("GPM")).key


def test_options_that_a_recipe_leaves_open_are_kept() -> None:
    column = Column("Blog", "blog")
    assert Job.of(TOY, column, Ours("w/o PE", {"pe": "none"})).options == {"pe": "none"}
    assert Job.of(TOY, column, Ours("GPM", {"data": "blog"})).key == Job.of(TOY, column, Ours("GPM")).key


def test_rows_of_a_table_share_its_options_and_networks_have_their_own() -> None:
    column = Column("Trees", "trees-2", networks={"layers": 3})
    base = {"patterns": 20, "lr": 0.1}
    table = replace(TOY, base=base)
    assert Job.of(table, column, Ours("GPM", {"lr": 0.2})).options == base | {"lr": 0.2}
    assert Job.of(table, column, Ours("GCN", {"model": "gcn"})).options == {"model": "gcn", "layers": 3}


def test_many_options_have_a_short_file_name_of_their_own() -> None:
    many = {f"option{i}": i for i in range(30)}
    one, other = Job("blog", many), Job("blog", many | {"option29": 30})
    assert one.variant != other.variant
    assert len(one.variant) < 100
