"""Ranks that train together end where one would have, whatever becomes of one of them on the way."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from gpm import GpmError, Graph, train
from gpm.io.run_files import STATE
from gpm.training.distributed.ranks import ALONE, LostError, find_world, joined, launch
from gpm.training.lightning_module import Learner

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "batch": 10, "epochs": 4, "quiet": True,
    "threads": 1, "lr": 0.02, "device": "cpu",
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "nodes": {"average": 2},
    "parts": {"accumulate": 3, "epoch_steps": 3, "patience": 2, "checkpointing": True},
    "pieces": {"strategy": "fsdp", "layers": 2, "epoch_steps": 3, "average": 0},
    "links": {"task": "link", "metric": "ap", "batch": 16},
    "rare": {"class_weight": "balanced", "loss": "focal", "accumulate": 3, "batch": 13},
    # The last batch is of one instance; the share of the linear part is among the weights that are compared.
    "edges": {"path_position": "learned", "feature_dropout": 0.3, "batch": 35, "linear": "blend"},
}


def _graph(kind: str) -> Graph:
    random = np.random.default_rng(0)
    y = np.arange(60) % 7 // 3 if kind == "rare" else np.arange(60) % 3
    x = np.eye(3)[y] + random.normal(0, 0.5, (60, 3))
    edges = random.integers(0, 60, (2, 120))
    extra: dict[str, Any] = {"edge_attr": random.integers(0, 3, (120, 1))} if kind == "edges" else {}
    return Graph.from_edges(edges, 60, undirected=True, x=x, y=y, **extra)


def _train_cases(folder: Path) -> list[str]:
    """What each rank does."""
    with joined("cpu"):
        for name, options in CASES.items():
            train(_graph(name), out=folder / name, **SMALL | options)
    return sorted(path.name for path in folder.iterdir())


def _die_once(folder: Path, marker: Path) -> None:
    """Train; rank 1 kills itself in the middle of the third epoch, once."""
    begin = Learner.on_train_batch_start

    def begin_or_die(self: Learner, batch: Any, batch_idx: int) -> None:
        if self.world.rank == 1 and self.current_epoch == 2 and batch_idx == 1 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        begin(self, batch, batch_idx)

    Learner.on_train_batch_start = begin_or_die  # type: ignore[method-assign]
    train(_graph("nodes"), out=folder, **SMALL | CASES["nodes"])


def _curve(folder: Path) -> list[list[float]]:
    with (folder / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    return [[float(value) for key, value in row.items() if key != "seconds"] for row in rows]


def _assert_same(one: Path, other: Path) -> None:
    """Equal up to the order in which gradients are added."""
    np.testing.assert_allclose(_curve(one), _curve(other), atol=1e-3)
    weights = [load_file(folder / "model.safetensors") for folder in (one, other)]
    for name, value in weights[0].items():
        if name.endswith("qkv.bias"):  # a third of it, of the keys, changes nothing, so that its gradient is noise
            continue
        # AdamW turns rounding into a step where a gradient is almost zero, by as much as the processor rounds.
        assert (value - weights[1][name]).norm() <= 1e-3 + 0.02 * value.norm(), name


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cases, each trained by one process, without parts."""
    folder = tmp_path_factory.mktemp("alone")
    for name, options in CASES.items():
        plain = {"accumulate": 1, "checkpointing": False, "strategy": "ddp"}
        train(_graph(name), out=folder / name, **SMALL | options | plain)
    return folder


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_ranks_learn_what_one_process_does(alone: Path, tmp_path: Path, ranks: int) -> None:
    """The same curve and weights: with dropout, uneven batches, fresh non-edges, parts of a step, pieces of a model."""
    made = launch(_train_cases, {"folder": tmp_path}, ranks, 1, 0)
    assert made == sorted(CASES)
    for name in CASES:
        _assert_same(alone / name, tmp_path / name)


def test_a_rank_that_dies_ends_the_run_and_the_same_command_goes_on(alone: Path, tmp_path: Path) -> None:
    order = {"folder": tmp_path / "run", "marker": tmp_path / "died"}
    with pytest.raises(LostError, match=r"Rank 1 ended: signal SIGKILL"):
        launch(_die_once, order, 2, 1, 0)
    assert (tmp_path / "run.part" / STATE).is_file()
    assert not (tmp_path / "run").exists()
    train(_graph("nodes"), out=tmp_path / "run", **SMALL | CASES["nodes"])  # with any number of ranks, here one
    _assert_same(alone / "nodes", tmp_path / "run")


@pytest.mark.slow
def test_ranks_that_are_started_again_go_on(alone: Path, tmp_path: Path) -> None:
    launch(_die_once, {"folder": tmp_path / "run", "marker": tmp_path / "died"}, 2, 1, 1)
    assert (tmp_path / "died").exists()
    _assert_same(alone / "nodes", tmp_path / "run")


@pytest.mark.slow
def test_two_machines_train_together(alone: Path, tmp_path: Path) -> None:
    """Two agents that meet on the loopback, as two machines would, each with a rank of its own."""
    _graph("nodes").save(tmp_path / "graph")
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = str(probe.getsockname()[1])
    flags = [f"--{key}={value}" for key, value in (SMALL | CASES["nodes"]).items()]
    command = [sys.executable, "-m", "gpm", "train", str(tmp_path / "graph"), "--out", str(tmp_path / "run"), *flags]
    where = os.environ | {"MASTER_ADDR": "localhost", "MASTER_PORT": port}
    machines = [subprocess.Popen([*command, "--devices=1", "--machines=2"], env=where) for _ in range(2)]
    assert [machine.wait(timeout=300) for machine in machines] == [0, 0]
    _assert_same(alone / "nodes", tmp_path / "run")


@pytest.mark.slow
def test_a_mistake_is_told_once_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(GpmError, match=r"^There is no option 'widht'.* 'width'"):
        train(_graph("nodes"), out=tmp_path / "run", devices=2, widht=3, **SMALL)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_mistake_that_shows_late_is_told_once_too(tmp_path: Path) -> None:
    """While the other ranks carry out what they were told."""
    with pytest.raises(GpmError, match=r"^bag_of_words is for features that are not negative; set it to no\.$"):
        train(_graph("nodes"), out=tmp_path / "run", devices=2, bag_of_words="yes", **SMALL)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"devices": 0}, "devices must be at least 1, got 0"),
        ({"workers": -1}, "workers must be at least 0, got -1"),
        ({"nodes": 0}, "machines must be at least 1, got 0"),
        ({"machines": 2}, "2 machines must know where to meet: set MASTER_ADDR"),
        ({"nodes": "2"}, "2 machines must know where to meet: set MASTER_ADDR"),
        ({"devices": 2, "device": "mps"}, "Device 'mps' is not available|cannot share one mps"),
        ({"strategy": "dpd"}, "strategy must be one of ddp, fsdp, got 'dpd'"),
        ({"model": "gcn", "accumulate": 2}, "accumulate is for the pattern machine; leave it out for gcn"),
    ],
)
def test_flags_of_ranks_are_checked(options: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(GpmError, match=sentence):
        train(_graph("nodes"), **SMALL | options)


def test_without_others_a_rank_is_alone() -> None:
    assert find_world() == ALONE
    rows = torch.arange(6).view(3, 2)
    assert ALONE.join(rows, 3) is rows
    assert ALONE.share("word") == "word"
    assert ALONE.add_up(torch.tensor(3)) == 3
