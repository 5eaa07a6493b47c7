import io
import sys

import pytest

from gpm.data.tables.open_table import connect
from gpm.data.tables.progress import show_bar, watching


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bars_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := io.StringIO())
    with connect() as base, watching(base, "finding nodes", True), show_bar("reading", True, 3) as bar:
        bar.update(3)
        base.execute("SELECT 1")
    assert written.getvalue() == ""


def test_queries_are_watched_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", written := _Terminal())
    with connect() as base:
        with watching(base, "finding nodes", True):
            counted = base.execute("SELECT count(DISTINCT hash(i)) FROM range(5000000) AS r(i)").fetchall()
        with pytest.raises(ZeroDivisionError), watching(base, "finding nodes", True):
            _ = 1 // 0
    assert counted == [(5_000_000,)]
    assert "finding nodes" in written.getvalue()
