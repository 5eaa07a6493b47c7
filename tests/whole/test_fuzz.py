"""Some broken, strange and hostile inputs of every kind; `benchmarks/fuzz.py` tries many thousands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks/fuzz.py"


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="memory is watched through /proc")
def test_no_input_brings_a_traceback_a_hang_a_leftover_or_a_wrong_answer(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--count=60", "--seed=5", f"--keep={tmp_path / 'kept'}"]
    ended = subprocess.run(
        [*command, "--out", str(tmp_path / "fuzz.json")], capture_output=True, text=True, check=False, timeout=500,
        env=os.environ | {"NUMBA_BOUNDSCHECK": "0"},  # with it every kernel would be compiled a second time
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
    result = json.loads((tmp_path / "fuzz.json").read_text())
    assert result["inputs"] >= 58
    assert result["failures"] == []
