"""What the tests share: graphs to draw from, and the folder of real datasets if there is one."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.browser import BROWSERS

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # before anything loads OpenMP or BLAS
    os.environ.setdefault(_threads, "1")

settings.register_profile(
    "gpm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("GPM_EXAMPLES", "20")),
)  # fmt: skip
settings.load_profile("gpm")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the folders with long tests first: two workers then end together."""
    items.sort(key=lambda item: not any(part in item.nodeid for part in ("tests/whole/", "/distributed/")))


def pytest_collection_finish() -> None:
    """What is loaded by now stays: the garbage collector need not look through it again and again."""
    gc.freeze()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # at exit some libraries count what was not collected


@pytest.fixture
def raw_files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of raw files that GPM_RAW names; the data root is a fresh one. The marker says which are needed."""
    needed = request.node.get_closest_marker("needs").args[0]
    given = os.environ.get("GPM_RAW")
    if not given or not (Path(given) / needed).exists():
        pytest.skip(f"needs {needed}: let GPM_RAW name a folder that holds its raw files")
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "data"))
    return Path(given)


@contextmanager
def _alone() -> Iterator[None]:
    """Tensors are tiny in tests: a second thread costs far more than it brings, above all on a busy machine."""
    import numba
    import torch

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])  # a command under test may have set it


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread for one test."""
    with _alone():
        yield


@pytest.fixture(scope="module")
def one_thread_for_all() -> Iterator[None]:
    """One thread for a module, also for the runs that its tests share."""
    with _alone():
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """No test cuts the power: syncing takes long, and tells nothing. `tests/test_files.py` asks when it is called."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True)
def _own_data_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPM_DATA", str(tmp_path / "data"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip(
        "playwright.sync_api", reason="the page is tested in a browser: pip install playwright"
    )
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"the page is tested in a browser: none of {', '.join(BROWSERS)} is installed")
    with driver.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield opened
        opened.close()
