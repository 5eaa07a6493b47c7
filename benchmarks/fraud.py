"""Plain `gpm train edges.csv --nodes nodes.csv --target label` on a table with 1% fraud, planted where only neighbours tell.

    python benchmarks/fraud.py                writes results/board/fraud.json

Accuracy says nothing here: a model that calls every account "ok" has 99%. What is reported is the ROC-AUC of the test
split, how many accounts are called fraud, and the simple baselines beside the run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from board import RESULTS, SEEDS, describe_versions, find_commit

from gpm import Run, train
from gpm.data.synthetic import FRAUD, write_fraud
from gpm.io.atomic import write_json

COMMAND = "gpm train edges.csv --nodes nodes.csv --target label --metric roc_auc --seed {seed}"


def train_once(folder: Path, seed: int) -> dict[str, Any]:
    """Train on the table with one seed; return the figures of the test split."""
    edges, nodes = write_fraud(folder / "table")
    began = time.process_time()
    run = train(
        str(edges),
        nodes=str(nodes),
        target="label",
        metric="roc_auc",
        seed=seed,
        out=folder / f"run-{seed}",
        quiet=True,
    )
    assert isinstance(run, Run)
    found = run.result
    every = run.predict().columns()["prediction"]
    called = [every[i] for i in run.split.test]
    simple = {name: row["test"] for name, row in found["baselines"].items()}
    return {
        "seed": seed, "roc_auc": found["test"]["roc_auc"], "called_fraud": sum(str(each) == FRAUD[1] for each in called),
        "accounts": len(called), "baselines": simple, "cpu_seconds": round(time.process_time() - began, 1),
        "split": found["split_digest"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=RESULTS / "fraud.json")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        runs = [train_once(Path(scratch), seed) for seed in given.seeds]
    values = [100 * each["roc_auc"] for each in runs]
    about = {"dataset": "planted fraud, 8,000 accounts", "model": "gpm", "metric": "roc_auc", "command": COMMAND}
    spread = statistics.stdev(values) if len(values) > 1 else None
    figures = {"mean": round(statistics.fmean(values), 2), "std": spread and round(spread, 2), "runs": runs}
    facts = {"commit": find_commit(), "versions": describe_versions(), "date": time.strftime("%Y-%m-%d")}
    write_json(given.out, about | {"seeds": given.seeds} | figures | facts)
    print(f"ROC-AUC {figures['mean']} over seeds {given.seeds}; written to {given.out}")


if __name__ == "__main__":
    main()
