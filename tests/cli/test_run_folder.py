"""What the verbs on run folders have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpm.compute
import gpm.training.start
from gpm.cli.main import main

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate"],
        ["predict", "-o", "{out}.csv"],
        ["embed", "-o", "{out}.npy"],
        ["explain", "--node", "c"],
        ["export"],
    ],
)
def test_every_verb_on_a_run_computes_with_the_threads_that_are_named(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    counts: list[int] = []
    monkeypatch.setattr(gpm.compute, "set_threads", counts.append)
    command = [words[0], str(copied), *(word.format(out=tmp_path / "out") for word in words[1:])]
    assert main([*command, "--threads", "1"]) == 0
    assert counts == [1]
    assert main([*command, "--threads", "-1"]) == 2
    assert "threads must be at least 0, got -1." in capsys.readouterr().err
