"""What `gpm plan` predicts, beside what `gpm train` then takes: peak memory of the process and seconds of a step.

    python benchmarks/planned.py results/scale/plan.json

Prediction and training follow each other, in turn for all configurations, since other work on the machine changes what
a step takes; every figure is the median over the rounds. The graph is random: 20,000 nodes, 100,000 edges, 64 features.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpm.compute import describe_environment
from gpm.io.atomic import write_json
from gpm.training.estimate.machine_costs import GRAPH, KEPT

CONFIGURATIONS = (("xs", 256), ("s", 256), ("l", 64))
OPTIONS = ["--threads", "2", "--epochs", "1", "--epoch_steps", "15", "--pool", "16", "--split", "98/1/1", "--seed", "0"]


def run(words: list[str], root: Path) -> float:
    """Run a command of gpm; returns the most memory that it took, in bytes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gpm", *words], stdout=subprocess.DEVNULL, env={**os.environ, "GPM_DATA": str(root)}
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"gpm {' '.join(words)} failed")
    return usage.ru_maxrss * 1024.0


def predict(folder: Path, options: list[str], constants: dict[str, Any]) -> dict[str, float]:
    """Measure a configuration anew, with the constants of the machine as they are, and predict."""
    write_json(folder / KEPT, constants)
    run(["plan", str(folder / "graph"), *options, "--out", str(folder / "predicted.json")], folder)
    found = json.loads((folder / "predicted.json").read_text(encoding="utf-8"))
    return {"bytes": found["memory_bytes"]["total"], "seconds": found["seconds"]["step"]}


def train(folder: Path, options: list[str]) -> dict[str, float]:
    """Train, and say what it took."""
    peak = run(["train", str(folder / "graph"), *options, "--quiet", "--overwrite", "-o", str(folder / "run")], folder)
    result = json.loads((folder / "run" / "result.json").read_text(encoding="utf-8"))
    return {"bytes": peak, "seconds": result["seconds_per_step"]}


def find_constants(folder: Path) -> dict[str, Any]:
    """The constants of the machine, measured once."""
    run(["plan", str(folder / "graph"), *OPTIONS], folder)
    kept = json.loads((folder / KEPT).read_text(encoding="utf-8"))
    return {key: value for key, value in kept.items() if key.endswith("constants")}


def summarise(size: str, batch: int, rounds: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Medians and their ratio."""
    row: dict[str, Any] = {"size": size, "batch": batch}
    for quantity in ("bytes", "seconds"):
        middle = {kind: statistics.median(r[kind][quantity] for r in rounds) for kind in ("predicted", "measured")}
        row[quantity] = middle | {"ratio": round(middle["predicted"] / middle["measured"], 3)}
    return row | {"rounds": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--threads", type=int, default=2, help="1 on a machine that others use: threads wait for each other"
    )
    given = parser.parse_args()
    OPTIONS[1] = str(given.threads)
    found: dict[tuple[str, int], list[dict[str, dict[str, float]]]] = {each: [] for each in CONFIGURATIONS}
    with tempfile.TemporaryDirectory(prefix="gpm-planned-") as name:
        folder = Path(name)
        GRAPH.sample().graph.save(folder / "graph")
        constants = find_constants(folder)
        for _ in range(given.rounds):
            for (size, batch), rounds in found.items():
                options = ["--size", size, "--batch", str(batch), *OPTIONS]
                predicted = predict(folder, options, constants)
                rounds.append({"predicted": predicted, "measured": train(folder, options)})
                print(size, batch, rounds[-1], flush=True)
                write_json(
                    given.result,
                    {
                        "graph": "random, 20,000 nodes, 100,000 edges, 64 features", "options": " ".join(OPTIONS),
                        "seeds": [0], "constants": list(constants.values()), "date": time.strftime("%Y-%m-%d"),
                        "configurations": [summarise(*key, rounds) for key, rounds in found.items() if rounds],
                        "load": os.getloadavg(), "environment": describe_environment(),
                    },
                )  # fmt: skip


if __name__ == "__main__":
    main()
