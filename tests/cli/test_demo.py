from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gpm.training.start
from gpm import Run
from gpm.cli.demo import choose_node
from gpm.cli.main import main
from gpm.data.synthetic import PlantedMotifs, planted_motifs

pytestmark = pytest.mark.usefixtures("one_thread")


def _planted() -> PlantedMotifs:
    return planted_motifs(num_houses=6, num_cycles=2, base_nodes=30, seed=1)


def test_the_demo_trains_scores_and_explains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual: Callable[..., Any] = gpm.training.start.train

    def briefly(source: str, **given: Any) -> Any:
        assert source == "motifs"
        return usual(source, **given, width=8, heads=2, patterns=6, pool=12, epochs=1)

    monkeypatch.setattr(gpm.training.start, "train", briefly)
    monkeypatch.setattr("gpm.data.synthetic.planted_motifs", _planted)
    for _ in range(2):  # also over what it left the first time
        assert main(["demo", "--out", str(tmp_path / "demo"), "--quiet"]) == 0
        printed = capsys.readouterr().out
        page = tmp_path / "demo/explain/index.html"
        assert printed.splitlines()[-1] == f"open {page} in a browser"
        assert set(Run.open(tmp_path / "demo/motifs").result["baselines"]) > {"label propagation", "gcn"}
    (told,) = json.loads((tmp_path / "demo/explain/explanation.json").read_text())["explanations"]
    assert told["headline"] in page.read_text(encoding="utf-8")
    assert told["headline"] in printed
    assert told["instance"][0] == str(choose_node(Run.open(tmp_path / "demo/motifs")))
    assert all(pattern["names"][0] == told["instance"][0] for pattern in told["patterns"])
