"""Baselines come in by the same door: a flag, and the same data, parts, metrics and run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from gpm import Graph, Run, train
from gpm.cli.main import main
from gpm.nn.gnn.network import Level, Network
from gpm.training.callbacks import SaveState

KINDS: tuple[Network, ...] = get_args(Network)
LEVELS: tuple[Level, ...] = get_args(Level)
SMALL: dict[str, Any] = {"width": 8, "heads": 2, "lengths": [0, 1, 2], "patterns": 6, "pool": 12, "epochs": 1}

pytestmark = pytest.mark.usefixtures("one_thread")


def make(level: Level) -> Graph:
    """A graph of 60 nodes, or 30 graphs of 2 nodes, with features and with labels of what is predicted."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    if level != "graph":
        return Graph.from_edges(rng.integers(0, 60, (2, 150)), 60, undirected=True, x=x, y=np.arange(60) % 3)
    pairs = np.arange(60).reshape(-1, 2).T
    return Graph.from_edges(pairs, 60, undirected=True, x=x, y=np.arange(30) % 2, graph_ptr=np.arange(0, 61, 2))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_baseline_trains_and_its_run_opens_again(kind: Network, level: Level, tmp_path: Path) -> None:
    make(level).save(tmp_path / "graph")
    run = train(str(tmp_path / "graph"), out=tmp_path / "run", task=level, model=kind, quiet=True, **SMALL)
    assert isinstance(run, Run)
    assert run.result["model"] == kind
    assert "patterns" not in run.result["protocol"]  # which a network has none of
    again = Run.open(tmp_path / "run", device="cpu")
    assert again.evaluate() == pytest.approx(run.result["test"], abs=1e-6)
    asked = [("0", "1"), ("1", "0"), ("5", "7")] if level == "link" else None
    found = again.predict(asked)
    assert len(found) == {"node": 60, "link": 3, "graph": 30}[level]
    assert np.isfinite(found.probability).all()
    torch.testing.assert_close(found.logits, run.predict(asked).logits)
    assert f"baseline ({kind})" in (tmp_path / "run/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("level", LEVELS)
def test_a_comparison_is_one_flag(level: Level, tmp_path: Path) -> None:
    """Same parts, to the digest, and the same figures by name."""
    make(level).save(tmp_path / "graph")
    flags = ["--task", level, "--quiet", "--epochs", "1", "--width", "8", "--heads", "2", "--pool", "16"]
    for kind in ("gpm", "gcn"):
        arguments = ["train", str(tmp_path / "graph"), "--model", kind, "--out", str(tmp_path / kind), *flags]
        assert main(arguments) == 0
    ours, theirs = Run(tmp_path / "gpm").result, Run(tmp_path / "gcn").result
    assert (ours["split_digest"], ours["metric"]) == (theirs["split_digest"], theirs["metric"])
    assert list(ours["test"]) == list(theirs["test"])
    assert (tmp_path / "gpm/metrics.csv").read_text().splitlines()[0].split(",") == (
        tmp_path / "gcn/metrics.csv"
    ).read_text().splitlines()[0].split(",")
    assert {path.name for path in (tmp_path / "gpm").iterdir()} == {path.name for path in (tmp_path / "gcn").iterdir()}


class Killed(BaseException):
    """No one catches it."""


def test_a_killed_network_that_reads_labels_resumes_to_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The labels that a step hides depend on seed and step alone, also in the middle of a pass."""
    make("node").save(tmp_path / "graph")
    flags = ["--model", "gcn", "--labels", "on", "--width", "8", "--epochs", "4", "--quiet"]
    whole, killed = (["train", str(tmp_path / "graph"), *flags, "--out", str(tmp_path / name)] for name in "ab")
    assert main(whole) == 0
    usual = SaveState.on_train_epoch_end

    def dying(self: SaveState, trainer: Any, learner: Any) -> None:
        if trainer.current_epoch == 2:
            raise Killed
        self._next = 0.0  # saved every time
        usual(self, trainer, learner)

    with monkeypatch.context() as patched:
        patched.setattr(SaveState, "on_train_epoch_end", dying)
        with pytest.raises(Killed):
            main(killed)
    assert main(["train", "--resume", str(tmp_path / "b"), "--quiet"]) == 0
    for name in ("model.safetensors", "predictions.csv", "split.npz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_there_are_no_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make("node").save(tmp_path / "graph")
    assert main(["train", str(tmp_path / "graph"), "--model", "gnn", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "--model" in said
    assert all(kind in said for kind in KINDS)
    assert not (tmp_path / "run").exists()
