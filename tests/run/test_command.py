from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from gpm.cli.main import main
from gpm.run.command import find_command, spell_flags
from gpm.run.run import Run
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
    words = shlex.split(find_command(run))
    assert words[:2] == ["gpm", "train"]
    assert main([*words[1:], "--out", str(tmp_path / "again"), "--quiet"]) == 0
    again = Run.open(tmp_path / "again")
    assert again.result["val"] == run.result["val"]
    assert again.config.with_(data="") == run.config.with_(data="")
    assert set(SMALL) <= {word.removeprefix("--") for word in words}


def test_data_in_memory_has_no_command(tmp_path: Path) -> None:
    run = train_small(weighted_graph(x=np.eye(40)), tmp_path / "run")
    assert find_command(run) == ""
