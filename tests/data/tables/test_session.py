import io
import sys
import tempfile
from pathlib import Path

import duckdb
import pytest

from gpm import GpmError
from gpm.data.tables.session import connect, file_literal, literal, quote, show_bar, watching


def test_what_does_not_fit_goes_to_a_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    with connect(memory="30MB", folder=tmp_path / "spill") as base:
        base.execute("CREATE TEMP TABLE t AS SELECT hash(i) || 'x' AS h FROM range(2000000) t(i)")
        assert any((tmp_path / "spill").iterdir())
        assert base.execute("SELECT count(*) FROM t").fetchall() == [(2_000_000,)]
    assert not (tmp_path / "spill").exists()


def test_more_than_memory_and_disk_is_refused_by_duckdb(tmp_path: Path) -> None:
    with connect(memory="20MB", folder=tmp_path / "spill") as base:
        base.execute("SET max_temp_directory_size = '1MB'")
        with pytest.raises(duckdb.OutOfMemoryException):
            base.execute("CREATE TEMP TABLE t AS SELECT hash(i) || 'x' AS h FROM range(2000000) t(i)")


def test_nothing_is_fetched_or_installed(tmp_path: Path) -> None:
    with connect(folder=tmp_path / "it's") as base:
        for query in ("SELECT * FROM 'http://example.org/t.csv'", "SELECT * FROM read_parquet('s3://b/t.parquet')"):
            with pytest.raises(duckdb.Error, match="httpfs"):
                base.execute(query)
        here = 1
        with pytest.raises(duckdb.CatalogException):
            base.execute("SELECT * FROM here")
        assert here


def test_memory_is_bounded_unless_told() -> None:
    def limit(memory: str) -> str:
        with connect(memory=memory) as base:
            return str(base.execute("SELECT current_setting('memory_limit')").fetchall()[0][0])

    number, unit = limit("").split()
    assert float(number) * {"MiB": 1, "GiB": 1024}[unit] <= 2048
    assert limit("4GiB") == "4.0 GiB"
    for wrong in ("lots", "4", "-3GB", "4GB'", "0x4GB"):
        with pytest.raises(GpmError, match="memory must be a size such as 4GB"):
            connect(memory=wrong)


def test_nothing_is_left_among_the_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with connect(memory="30MB") as base:
        base.execute("CREATE TEMP TABLE t AS SELECT hash(i) || 'x' AS h FROM range(2000000) t(i)")
        assert any(tmp_path.iterdir())
    assert not any(tmp_path.iterdir())


def test_sql_is_written_safely() -> None:
    assert quote('a"b') == '"a""b"'
    assert literal("it's") == "'it''s'"
    assert file_literal(Path("/x/a[1]*'?.csv")) == "'/x/a[[]1][*]''[?].csv'"


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
