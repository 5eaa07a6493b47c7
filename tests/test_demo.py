from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpm.training
from gpm import GpmError, Graph, Run, train
from gpm.__main__ import main
from gpm.data.synthetic import PlantedMotifs, planted_motifs
from gpm.demo import weigh_patterns

SMALL: dict[str, Any] = {
    "width": 8, "heads": 2, "lengths": [2, 4, 6], "patterns": 6, "pool": 24, "batch": 32, "epochs": 2,
    "readout": "class", "topology": "shape",
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


def _planted() -> PlantedMotifs:
    return planted_motifs(num_houses=6, num_cycles=2, base_nodes=30, seed=1)


def _trained(out: Path, **options: Any) -> tuple[Run, Graph]:
    graph = _planted().graph
    run = train(graph, out=out, quiet=True, device="cpu", **SMALL | options)
    assert isinstance(run, Run)
    return run, graph


@pytest.mark.parametrize("options", [{}, {"readout": "mean", "fusion": True}])
def test_the_shares_of_the_shapes_add_up_to_one(tmp_path: Path, options: dict[str, Any]) -> None:
    run, graph = _trained(tmp_path / "run", **options)
    for node in (0, 5):
        found = weigh_patterns(run, node, top=1000)
        shares = [pattern.share for pattern in found]
        assert shares == sorted(shares, reverse=True)
        assert all(share >= 0 for share in shares)
        assert sum(shares) == pytest.approx(1, abs=1e-5)
        assert sum(pattern.count for pattern in found) == 24
        assert len({pattern.key for pattern in found}) == len(found)
        fewer = weigh_patterns(run, node, top=2)
        assert [pattern.share for pattern in fewer] == shares[:2]
        assert sum(pattern.share for pattern in fewer) <= 1
        edges = set(map(tuple, graph.edge_index().T.tolist()))
        for pattern in found:
            assert pattern.example[0] == node
            steps = zip(pattern.example, pattern.example[1:], strict=False)
            assert all((a, b) in edges for a, b in steps)


def test_the_weights_are_those_of_the_prediction(tmp_path: Path) -> None:
    """Added up by hand, pattern by pattern, from what the model puts out."""
    run, _ = _trained(tmp_path / "run")
    output = next(run.predictor.outputs(np.array([3])))
    assert output.weights is not None
    heaviest = weigh_patterns(run, 3, top=1)[0]
    patterns = run.predictor.tokenizer.nodes([3])
    by_shape: dict[int, float] = {}
    for weight, place in zip(output.weights[0].tolist(), patterns.topology[0].tolist(), strict=True):
        key = int(patterns.table.keys[place])
        by_shape[key] = by_shape.get(key, 0.0) + weight
    assert heaviest.share == pytest.approx(max(by_shape.values()), rel=1e-5)


def test_a_mean_readout_has_no_weights(tmp_path: Path) -> None:
    run, _ = _trained(tmp_path / "run", readout="mean", epochs=1)
    with pytest.raises(GpmError, match="a mean readout weighs all patterns alike; train with --readout class"):
        weigh_patterns(run, 0)


def test_the_demo_trains_scores_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual: Callable[..., Any] = gpm.training.train

    def briefly(source: str, **given: Any) -> Any:
        assert source == "motifs"
        return usual(source, **given, width=8, heads=2, patterns=6, pool=12, epochs=1)

    monkeypatch.setattr(gpm.training, "train", briefly)
    monkeypatch.setattr("gpm.data.synthetic.planted_motifs", _planted)
    for _ in range(2):  # also over what it left the first time
        assert main(["demo", "--out", str(tmp_path / "demo"), "--quiet"]) == 0
        printed = capsys.readouterr().out
        assert "the shapes that the model looked at, with their share of its attention" in printed
        assert f"drawn in {tmp_path}/demo/node.html" in printed
        page = (tmp_path / "demo/node.html").read_text(encoding="utf-8")
        assert "<svg" in page
        assert "shapes by their share of the attention" in page
        assert set(Run.open(tmp_path / "demo/motifs").result["baselines"]) == {"majority", "mlp"}
    shares = [float(line.split("%")[0]) for line in printed.splitlines() if line.startswith("  ")]
    assert 1 <= len(shares) <= 8
    assert sum(shares) <= 100.5
