from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from gpm.cli.main import main
from gpm.run.run import Run
from gpm.training.command import spell_flags
from tests.explain.runs import SMALL, train_small, weighted_graph

pytestmark = pytest.mark.usefixtures("one_thread_for_all")


def test_options_are_spelled_as_the_command_line_reads_them() -> None:
    assert spell_flags({"lengths": [0, 2], "structure": True, "data": "a b"}) == (
        "--data 'a b' --lengths '[0, 2]' --structure true"
    )


def test_the_command_makes_the_run_again(tmp_path: Path) -> None:
    """The same scores, from the options that were given; the others are chosen again."""
    weighted_graph().save(tmp_path / "my graph")
    run = train_small(str(tmp_path / "my graph"), tmp_path / "run", seed=3, epochs=1)
    words = shlex.split(run.result["command"])
    assert words[:2] == ["gpm", "train"]
    assert main([*words[1:], "--out", str(tmp_path / "again"), "--quiet"]) == 0
    again = Run.open(tmp_path / "again")
    assert again.result["val"] == run.result["val"]
    assert again.config.with_(data="") == run.config.with_(data="")
    assert set(SMALL) <= {word.removeprefix("--") for word in words}


def test_a_recipe_is_named_with_what_was_changed(tmp_path: Path) -> None:
    assert main(["train", "motifs", *_flags(), "--epochs", "1", "--out", str(tmp_path / "run"), "--quiet"]) == 0
    command = Run.open(tmp_path / "run").result["command"]
    assert command.startswith("gpm train motifs --batch 16 --epochs 1 ")
    assert command.endswith(" --seed 0")


def test_runs_on_tables_name_the_graph_in_the_finished_folder(tmp_path: Path) -> None:
    """Also those of several seeds, which share it."""
    (tmp_path / "n.csv").write_text("id,a,label\n" + "\n".join(f"p{i},{i % 5},{i % 2}" for i in range(60)))
    (tmp_path / "e.csv").write_text("source,target\n" + "\n".join(f"p{i},p{i + 1}" for i in range(59)))
    words = ["train", str(tmp_path / "e.csv"), "--nodes", str(tmp_path / "n.csv"), "--target", "label", *_flags()]
    for name, seeds, folder in (("one", "1", "one"), ("two", "2", "two/seed-1")):
        assert main([*words, "--seeds", seeds, "--out", str(tmp_path / name), "--quiet"]) == 0
        source = shlex.split(Run.open(tmp_path / folder).result["command"])[2]
        assert Path(source) == tmp_path / name / "graph"
        assert Path(source).is_dir()


def test_where_only_the_caller_knows_there_is_no_command(tmp_path: Path) -> None:
    """Data in memory, a recipe for other data, and a recipe of one's own."""
    graph = weighted_graph(x=np.eye(40))
    graph.save(tmp_path / "graph")
    (tmp_path / "mine.yaml").write_text(f"data: {tmp_path / 'graph'}\nepochs: 1\n")
    runs = [
        train_small(graph, tmp_path / "memory"),
        train_small(str(tmp_path / "graph"), tmp_path / "recipe", recipe="motifs"),
        train_small(str(tmp_path / "mine.yaml"), tmp_path / "mine"),
    ]
    assert [run.result["command"] for run in runs] == ["", "", ""]
    assert "Make it again" not in (runs[0].folder / "report.html").read_text(encoding="utf-8")


def _flags() -> list[str]:
    return shlex.split(spell_flags(SMALL))
