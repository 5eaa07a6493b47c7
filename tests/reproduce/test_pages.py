"""Pages have the paper's figures and ours, say what was not run, and come from the records alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpm.cli.main import main
from gpm.io.atomic import write_json
from gpm.reproduce import pages, studies
from gpm.reproduce.pages import describe_table, find_cells, write_pages
from gpm.reproduce.paper_tables import Column, Ours
from gpm.reproduce.records import FOLDER, Job, Records
from gpm.training.recipes import find_recipe
from tests.reproduce.toys import SMALL, TOY


def _record(out: Path, seed: int, test: float, name: str = "motifs", **more: Any) -> None:
    job, recipe = Job(name, SMALL, seed), find_recipe(name)
    assert recipe is not None
    path = out / FOLDER / job.file
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {
        "recipe_digest": recipe.digest, "metric": "accuracy",
        "test": {"accuracy": test}, "protocol": f"split random, seed {seed}; test read once",
        "seed": seed, "train_seconds": 10.0 + seed, "commit": "abc", "date": "2026-01-01",
        "command": job.command, **more,
    })  # fmt: skip


def test_a_page_has_the_papers_figures_ours_and_the_difference(tmp_path: Path) -> None:
    for seed, test in enumerate((0.53, 0.55)):
        _record(tmp_path, seed, test)
    reasons = {Job("reddit-m5k", SMALL).key: "the data is not here"}
    page = describe_table(TOY, find_cells(TOY, Records(tmp_path)), reasons)
    assert "| paper | GPM | 50.00 ± 2.00 | 51.87 ± 1.04 |" in page
    assert "| paper | SAN | OOM | - |" in page
    assert "| **here** | **GPM** | 54.00 ± 1.41 (2) | - |" in page
    assert "| difference | GPM, from GPM | +2.0 |  |" in page
    command = Job("motifs", SMALL).command.removesuffix(" --seed 0")
    assert f"| Motifs | GPM | `{command}` | 0, 1 | 10 | split random, seed as listed; test read once |" in page
    assert "| GPM | Far | the data is not here |" in page
    assert "| w/o AP | Motifs, Far | not asked for |" in page
    assert "2 runs of 2026-01-01; code `abc`" in page


def test_a_mean_over_datasets_is_of_the_seeds_that_all_of_them_have(tmp_path: Path) -> None:
    columns = (TOY.columns[0], Column("Blog", "blog"), Column("Mean", mean_of=("Motifs", "Blog")))
    table = replace(TOY, columns=columns, paper=(), ours=(Ours("GPM", SMALL),), show=("test", "other"))
    for seed, (test, other) in enumerate([(0.5, 0.4), (0.6, 0.3)]):
        _record(tmp_path, seed, test, other={"accuracy": other})
        _record(tmp_path, seed + 1, test + 0.2, "blog", other={"accuracy": other})
    _record(tmp_path, 2, 0.7)  # made before the other rule was measured: it is not found
    page = describe_table(table, find_cells(table, Records(tmp_path)), {})
    assert "| **here** | **GPM** | 55.00 ± 7.07 (2) | 75.00 ± 7.07 (2) | 65.00 (1) |" in page
    assert "| **GPM, epoch chosen on the source** | 35.00 ± 7.07 (2) | 35.00 ± 7.07 (2) | 35.00 (1) |" in page


def test_pages_are_written_whatever_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "read_tables", lambda: (TOY,))
    _record(tmp_path, 0, 0.5)
    index = write_pages(tmp_path, {})
    text = index.read_text(encoding="utf-8")
    assert "| Table 1 | [Toys (accuracy)](table-1.md) | 1 |" in text
    assert "| Table 6 | hyper-parameters: " in text
    assert (index.parent / "table-1.md").is_file()
    assert "paper.md" not in text  # the docs are not there
    (tmp_path / "docs" / "paper.md").touch()
    assert "(../paper.md)" in write_pages(tmp_path, {}).read_text(encoding="utf-8")


def test_all_tables_and_figures_of_the_paper_are_listed(tmp_path: Path) -> None:
    text = write_pages(tmp_path, {}).read_text(encoding="utf-8")
    for number in range(1, 13):
        assert f"| Table {number} |" in text
    assert all(f"| Figure{name} |" in text for name in ("s 1 to 3", " 4", " 5", " 6", " 7", " 8"))
    for page in ("table-8", "figure-7", "brec", "theory"):
        assert f"({page}.md)" in text
        assert (tmp_path / pages.FOLDER / f"{page}.md").is_file()


def test_the_command_runs_what_is_missing_and_writes_the_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (pages, studies):
        monkeypatch.setattr(module, "read_tables", lambda: (TOY,))
    monkeypatch.delenv("GPM_RAW", raising=False)
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "data"))
    out = str(tmp_path / "made")
    assert main(["reproduce", "1", "--seeds", "1", "--only", "motifs", "--budget", "2h", "--out", out, "--quiet"]) == 0
    assert "2 of 3 runs are complete" in capsys.readouterr().out
    assert main(["reproduce", "--list", "--seeds", "1", "--out", out]) == 0
    shown = capsys.readouterr().out
    assert "rows: GPM, w/o AP, slow" in shown
    assert "not here: see gpm data" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["6"], "'6' is not among what is reproduced."),
        (["--only", "blogg"], "No table has the recipe 'blogg'. Did you mean 'blog'?"),
        (["brec", "--only", "blog"], "--only and --models choose runs of tables, but no table was asked for"),
        (["--models", "gcm"], "No table has the model 'gcm'. Did you mean 'gpm'?"),
        (["--seeds", "0"], "--seeds must lie between 1 and 10, got 0."),
        (["--budget", "soon"], "must be written as 45s, 30m, 2h or 1h30m, got 'soon'."),
    ],
)
def test_mistakes_get_one_sentence(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["reproduce", *words, "--out", str(tmp_path)]) == 2
    assert sentence in capsys.readouterr().err
    assert not any(tmp_path.iterdir())
