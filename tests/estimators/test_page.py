"""The page of the documentation says what is true: its code runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rdkit")
    monkeypatch.chdir(tmp_path)
    page, names = (ROOT / "docs/python.md").read_text(encoding="utf-8"), dict[str, Any]()
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, "docs/python.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "['blue' 'red']" in printed
    assert "prediction" in printed
    assert "(2, 16)" in printed
    assert (tmp_path / "karate-run/graph").is_dir()
