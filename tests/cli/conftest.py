"""A small run for the verbs that read one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from gpm import Graph
from gpm.cli.main import main

SMALL = [
    "--width", "8", "--heads", "2", "--lengths", "0", "1", "2", "--patterns", "6", "--pool", "12", "--epochs", "1",
    "--quiet", "--device", "cpu", "--linear", "none",
]  # fmt: skip


def _named(folder: Path) -> Path:
    """A saved graph of 20 nodes called a, b, c, ..."""
    ring = np.stack([np.arange(20), (np.arange(20) + 1) % 20])
    graph = Graph.from_edges(ring, 20, undirected=True, y=np.arange(20) % 2, names=[chr(97 + i) for i in range(20)])
    graph.save(folder / "ring")
    return folder / "ring"


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    assert main(["train", str(_named(folder)), "--out", str(folder / "run"), *SMALL]) == 0
    return folder / "run"


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    """A run folder to write below."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))
