"""SIGKILL at some moments of train and predict; `benchmarks/kill.py` does the same at many, and of import too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/kill.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_killed_commands_leave_nothing_half_made_and_can_be_run_again(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--kills=1", "--aimed=2", "--commands", "train", "predict"]
    ended = subprocess.run(
        [*command, "--seed=5", "--out", str(tmp_path / "kill.json")], capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}, check=False, timeout=300,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    result = json.loads((tmp_path / "kill.json").read_text())
    assert (result["kills"], result["aimed_kills"], result["faults"]) == (1, 2, 0)
