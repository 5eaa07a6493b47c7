"""`gpm report`: the page again, with figures, shapes and explained mistakes; and what it refuses."""

from __future__ import annotations

import html
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from gpm import Run
from gpm.cli.main import main
from gpm.cli.report import _explain
from gpm.explain.write import PAGE
from gpm.io.atomic import write_json
from gpm.io.manifest import check_folder
from gpm.report.run_report import Report
from tests.explain.runs import NODES, ring_graphs, train_small, weighted_graph

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("report")
    weighted_graph(x=np.random.default_rng(2).normal(size=(NODES, 3))).save(folder / "graph")
    return train_small(str(folder / "graph"), folder / "run", preset="plain")


def test_it_adds_figures_shapes_and_explanations(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    before = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "gpm explain . --node" in before
    assert main(["report", str(run.folder), "--explain", "1", "--shapes", "4"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].split() == ["class", "in", "test", "precision", "recall", "F1", "ROC-AUC"]
    assert [line.split()[0] for line in said[1:4]] == ["0", "10", "20"]
    after = (run.folder / "report.html").read_text(encoding="utf-8")
    (explained,) = (run.folder / "explain").glob(f"*/{PAGE}")
    assert f"explain/{explained.parent.name}/{PAGE}" in after
    assert "Which patterns carry the predictions" in after
    assert "Which patterns carry the predictions" not in before
    names = {file.name for file in (run.folder / "figures").iterdir()}
    assert {f"{name}.{kind}" for name in ("confusion", "roc", "loss") for kind in ("svg", "png")} <= names
    assert check_folder(run.folder) == []  # what is written later is not damage


def test_nothing_extra_is_done_without_need(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    first = main(["report", str(run.folder), "--explain", "0", "--shapes", "0"])
    page, explained = (run.folder / "report.html").read_bytes(), sorted((run.folder / "explain").glob("*"))
    assert b"Which patterns carry the predictions" not in page
    again = main(["report", str(run.folder), "--explain", "0", "--shapes", "0"])
    assert sorted((run.folder / "explain").glob("*")) == explained
    assert (first, again) == (0, 0)
    assert (run.folder / "report.html").read_bytes() == page


def test_several_numbers_are_explained_by_the_first(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(30, 2))
    run = train_small(ring_graphs(values), tmp_path / "run", metric="mae")
    run = Run.open(run.folder, ring_graphs(values))
    report = Report.of(run, run.result, {part: run.read(part) for part in ("val", "test")})
    (name,) = report.mistakes(1)
    command = shlex.split(html.unescape(re.findall("<code>(gpm explain [^<]*)</code>", report.page())[0]))
    assert command[-2:] == ["--target", "value 0"]
    _explain(run, name)
    assert list((run.folder / "explain").glob(f"*/{PAGE}"))


def test_runs_of_earlier_versions_get_a_report(tmp_path: Path) -> None:
    weighted_graph().save(tmp_path / "graph")
    run = train_small(str(tmp_path / "graph"), tmp_path / "run")
    (run.folder / "report.html").unlink()
    result = run.result
    for name in ("details", "command", "peak_memory_mb", "seconds_per_step", "time_shares", "best_epoch"):
        result.pop(name)
    result["baselines"] = {"most frequent class": 0.4}
    write_json(run.folder / "result.json", result)
    assert main(["report", str(run.folder), "--explain", "0", "--shapes", "0"]) == 0
    assert (run.folder / "report.html").is_file()


def test_names_of_classes_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "\n".join(f"p{i},{i % 7},{('ok', chr(27) + '[31mred')[i % 2]}" for i in range(60))
    (tmp_path / "nodes.csv").write_text(f"id,age,label\n{rows}\n", encoding="utf-8")
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(f"p{i},p{i + 1}" for i in range(59)))
    files = {"nodes": str(tmp_path / "nodes.csv"), "target": "label"}
    run = train_small(str(tmp_path / "edges.csv"), tmp_path / "run", **files)
    assert main(["report", str(run.folder), "--explain", "0", "--shapes", "0"]) == 0
    said = capsys.readouterr().out
    assert "red" in said
    assert "\x1b" not in said


def test_a_baseline_has_a_report_without_patterns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weighted_graph().save(tmp_path / "graph")
    run = train_small(str(tmp_path / "graph"), tmp_path / "run", model="mlp", lengths=[2])
    assert main(["report", str(run.folder)]) == 0
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "gpm explain" not in page
    assert "MLP" in page


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--explain", "-1"], "--explain and --shapes must be at least 0, got -1 and 60."),
        (["--shapes", "many"], "shapes"),
    ],
)
def test_mistakes_are_told_in_a_sentence(
    run: Run, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run.folder), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_a_run_that_was_not_scored_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weighted_graph().save(tmp_path / "graph")
    run = train_small(str(tmp_path / "graph"), tmp_path / "run")
    (run.folder / "result.json").unlink()
    assert main(["report", str(run.folder)]) == 2
    assert "has no result.json" in capsys.readouterr().err


def test_folders_are_not_written_through_links(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run.folder, copy)
    shutil.rmtree(copy / "figures", ignore_errors=True)
    (tmp_path / "elsewhere").mkdir()
    (copy / "figures").symlink_to(tmp_path / "elsewhere")
    assert main(["report", str(copy), "--explain", "0", "--shapes", "0"]) == 2
    assert "symbolic link" in capsys.readouterr().err
    assert not list((tmp_path / "elsewhere").iterdir())
