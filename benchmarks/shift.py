"""A pair of graphs whose shift is known: what the plain model loses, and how much adaptation recovers.

    python benchmarks/shift.py

The epoch is chosen on the source, so that no label of the target is read. The pairs of the paper are in
`gpm reproduce table-4`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from gpm import Run, adapt
from gpm.data.synthetic import shifted_pair
from gpm.io.atomic import write_json
from gpm.io.environment import describe_environment

OUT = Path(__file__).parents[1] / "results" / "shift" / "planted.json"
PLANTED: dict[str, Any] = {
    "width": 32, "lengths": [0, 1], "patterns": 8, "pool": 16, "epochs": 20, "pe": "none", "dropout": 0.2, "lr": 5e-3,
    "select": "loss", "average": 1, "dann_weight": 1.0, "modes": 10, "ssreg_weight": 20.0, "ssreg_threshold": 0.3,
    "threads": 1, "quiet": True, "device": "cpu",
}  # fmt: skip


def run_planted(shift: float, seeds: int) -> None:
    """Train on pairs with and without the planted shift, plain and with each method; the source chooses the epoch."""
    found: dict[str, dict[str, list[float]]] = {}
    for move in (0.0, shift):
        for method in ("none", "dann", "ssreg", "dann+ssreg"):
            values = found.setdefault("none" if move == 0 else "planted", {}).setdefault(method, [])
            for seed in range(seeds):
                source, target = shifted_pair(move, nodes=4000, seed=seed)
                with tempfile.TemporaryDirectory() as scratch:
                    run = adapt(source, target, method=method, out=Path(scratch) / "run", seed=seed, **PLANTED)  # type: ignore[arg-type]
                    assert isinstance(run, Run)
                    values.append(round(100 * run.result["test"]["accuracy"], 2))
            print(f"shift {move:g}, {method}: {values}", flush=True)
    mean = {kind: {method: statistics.fmean(v) for method, v in rows.items()} for kind, rows in found.items()}
    lost = mean["none"]["none"] - mean["planted"]["none"]
    write_json(
        OUT,
        {
            "what": "test accuracy in the target; the epoch is chosen on the source, so that no label of the target is "
            "read before; mean over seeds",
            "shift": shift, "seeds": list(range(seeds)), "options": PLANTED, "accuracy": found,
            "mean": {kind: {m: round(v, 2) for m, v in rows.items()} for kind, rows in mean.items()},
            "lost": round(lost, 2),
            "recovered_share": {
                m: round((v - mean["planted"]["none"]) / lost, 3) for m, v in mean["planted"].items() if m != "none"
            },
            "harm_without_shift": {
                m: round(mean["none"]["none"] - v, 2) for m, v in mean["none"].items() if m != "none"
            },
            "versions": describe_environment(),
        },
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--shift", type=float, default=4.0)
    given = parser.parse_args()
    run_planted(given.shift, given.seeds)


if __name__ == "__main__":
    main()
