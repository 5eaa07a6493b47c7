import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpm import GpmError
from gpm.io import publish as scratch
from gpm.io.publish import claiming, publish, put_aside, scratch_for, settle


def _make(folder: Path, content: str) -> None:
    with claiming(folder), scratch_for(folder) as scratch:
        (scratch / "more").mkdir()
        made = scratch / "new"
        made.mkdir()
        (made / "content").write_text(content)
        publish(made, folder)


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_with_publish_and_replaces_the_old_one(tmp_path: Path) -> None:
    folder = tmp_path / "below" / "made"
    for content in ("one", "two"):
        _make(folder, content)
        assert (folder / "content").read_text() == content
        assert _names(folder) == ["content"]
        assert _names(folder.parent) == ["made"]


def test_a_second_maker_is_told(tmp_path: Path) -> None:
    with claiming(tmp_path / "made"):
        with pytest.raises(GpmError, match="made is being written by another process"), claiming(tmp_path / "made"):
            pass
        with claiming(tmp_path / "made.other"):
            pass
    _make(tmp_path / "made", "x")
    assert _names(tmp_path) == ["made"]


KILLED = """
import os, sys
from pathlib import Path
from gpm.io import publish as scratch
folder, moment = Path(sys.argv[1]), sys.argv[2]
rename, count = Path.rename, []
def stop(self, target):
    count.append(1)
    if len(count) == int(moment):
        print("there", flush=True)
        import time; time.sleep(60)
    return rename(self, target)
Path.rename = stop
with scratch.claiming(folder), scratch.scratch_for(folder) as room:
    made = room / "new"
    made.mkdir()
    (made / "content").write_text("new")
    scratch.publish(made, folder)
    print("there", flush=True)
    import time; time.sleep(60)
"""


def _run_until_there(folder: Path, moment: int) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(folder), str(moment)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    return process


@pytest.mark.parametrize(("moment", "expected"), [(1, "old"), (2, "old"), (9, "new")])
@pytest.mark.parametrize("then", ["read", "write"])
def test_what_a_killed_maker_leaves_is_mended(tmp_path: Path, moment: int, expected: str, then: str) -> None:
    folder = tmp_path / "made"
    _make(folder, "old")
    process = _run_until_there(folder, moment)
    with pytest.raises(GpmError, match="being written by another process"):
        _make(folder, "other")
    process.kill()
    process.communicate()
    if then == "read":
        settle(folder)
        assert (folder / "content").read_text() == expected
    _make(folder, "next")
    assert (folder / "content").read_text() == "next"
    assert _names(tmp_path) == ["made"]


def test_sigterm_clears_what_is_half_made(tmp_path: Path) -> None:
    process = _run_until_there(tmp_path / "made", 1)
    assert len(_names(tmp_path)) == 2  # the lock and the scratch folder
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143
    assert _names(tmp_path) == []
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_folder_that_waits_and_cannot_be_put_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _make(tmp_path / "made", "x")
    put_aside(tmp_path / "made")
    with claiming(tmp_path / "other"):
        pass
    monkeypatch.setattr(
        scratch, "_take_lock", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied"))
    )
    with pytest.raises(GpmError, match=r"rename .*\.made\.old to it"):
        settle(tmp_path / "made")


def test_foreign_folders_stay(tmp_path: Path) -> None:
    foreign = tmp_path / f".made.{os.getpid()}.abcdefgh"
    foreign.mkdir()
    (foreign / "file").write_text("mine")
    empty = tmp_path / ".made.1.abcdefgh"
    empty.mkdir()
    _make(tmp_path / "made", "x")
    assert _names(tmp_path) == [foreign.name, "made"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_is_not_ours_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    start = time.perf_counter()
    with pytest.raises(GpmError, match=r"Cannot write .*made: Permission denied"):
        _make(tmp_path / "made", "x")
    assert time.perf_counter() - start < 1
