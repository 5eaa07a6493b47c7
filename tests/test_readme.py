"""The README says what is true: its Python runs, its commands exist, its figures are those of the committed results."""

import importlib
import json
import re
import shlex
from dataclasses import replace
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
    assert "(34,) (34, 4)" in printed
    assert "34 nodes, 78 undirected edges" in printed
    assert "torch.Size([2, 16, 9])" in printed


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from gpm import Graph, training
    from gpm.recipes import find_recipe

    monkeypatch.chdir(tmp_path)
    Path("edges.csv").write_text("alice,bob\nbob,carol\ncarol,alice\n")
    Graph.from_edges([[0, 1], [1, 2]], undirected=True).save("graph")
    quick = find_recipe("motifs")
    assert quick is not None
    monkeypatch.setattr(training, "find_recipe", lambda _: replace(quick, config=quick.config.with_(epochs=1)))
    lines = [line for block in _blocks("sh") for line in block.splitlines() if line.startswith("gpm ")]
    assert {shlex.split(line, comments=True)[1] for line in lines} == set(COMMANDS)
    for line in lines:
        assert main(shlex.split(line, comments=True)[1:]) == 0, capsys.readouterr().err
    assert Path("alice.png").is_file()
    assert Path("page.html").is_file()


def test_its_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"\bmake ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.parametrize("name", ["walks", "model"])
def test_its_figures_are_the_committed_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    benchmark = importlib.import_module(name)
    result = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text(encoding="utf-8"))
    shown = README.split(benchmark.BEGIN)[1].split(benchmark.END)[0].strip()
    assert shown == benchmark.describe(result)


def test_its_accuracies_are_the_committed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    table = importlib.import_module("table")
    shown = README.split(table.BEGIN)[1].split(table.END)[0].strip()
    assert shown == table.describe(table.read_results("node"))


def test_committed_results_are_of_shipped_recipes() -> None:
    """The options beside a figure are those that the recipe has now: whoever runs it gets that figure."""
    from gpm.recipes import find_recipe

    for path in (ROOT / "results/node").glob("*.json"):
        result = json.loads(path.read_text(encoding="utf-8"))
        recipe = find_recipe(result["recipe"])
        assert recipe is not None
        options = recipe.config.to_dict()
        same = {key for key in options if key not in ("seed", "metric")}
        assert {key: result["config"][key] for key in same} == {key: options[key] for key in same}, path.name
        assert (result["paper_mean"], result["paper_std"]) == (recipe.paper_mean, recipe.paper_std)
        assert {"dataset", "model", "protocol", "seeds", "values", "mean", "std", "wall_s", "versions"} <= set(result)
