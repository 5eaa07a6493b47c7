"""The README says what is true: its Python runs, its commands exist, its figures are those of the committed results."""

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from gpm.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_its_python_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for block in _blocks("python"):
        exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("34 nodes, 78 undirected edges")
    assert "torch.Size([2, 16, 9])" in printed


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from gpm import Graph

    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text("alice,bob\nbob,carol\ncarol,alice\n")
    Graph.from_edges([[0, 1], [1, 2]], undirected=True).save("graph")
    lines = [line for block in _blocks("sh") for line in block.splitlines() if line.startswith("gpm ")]
    assert {shlex.split(line)[1] for line in lines} == set(COMMANDS)
    for line in lines:
        assert main(shlex.split(line, comments=True)[1:]) == 0, capsys.readouterr().err
    assert Path("alice.png").is_file()
    assert Path("page.html").is_file()


def test_its_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_its_figures_are_the_committed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module("walks")
    result = json.loads((ROOT / "benchmarks/results/walks.json").read_text(encoding="utf-8"))
    shown = README.split(benchmark.BEGIN)[1].split(benchmark.END)[0].strip()
    assert shown == benchmark.describe(result)
