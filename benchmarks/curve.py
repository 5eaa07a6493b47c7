"""Validation error against training time, of several runs in one picture, and where the curves point.

    python benchmarks/curve.py results/curves/zinc.json docs/zinc-curve.svg GPM=runs/zinc GIN=runs/zinc-gin

Seconds are those of the training process on one shared core. The line through the best error so far, fitted in both
logarithms over the last nine tenths of the time, says how fast the error falls; it is no promise beyond the last point.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt
import numpy as np

METRIC = "val_mae"


def read_curve(folder: Path) -> dict[str, Any]:
    """Seconds and error of every epoch, the best so far, and the exponent of its fall."""
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    seconds, error = (np.array([float(row[key]) for row in rows]) for key in ("seconds", METRIC))
    best = np.minimum.accumulate(error)
    late = seconds > seconds[-1] / 10
    slope, level = np.polyfit(np.log(seconds[late]), np.log(best[late]), 1)
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return {
        "seconds": seconds.round(1).tolist(), "error": error.round(4).tolist(), "exponent": round(float(slope), 3),
        "at_last": round(float(best[-1]), 4), "at_tenfold_time": round(float(np.exp(level) * (10 * seconds[-1]) ** slope), 4),
        "test": result["test"], "seed": result["seed"], "protocol": result["protocol"], "date": result["date"],
    }  # fmt: skip


def draw(curves: dict[str, dict[str, Any]], paper: float, out: Path) -> None:
    figure, axes = plt.subplots(figsize=(7, 4))
    for (name, curve), style in zip(curves.items(), ("-", "--", ":"), strict=False):
        axes.plot(curve["seconds"], curve["error"], style, label=f"{name} ({curve['at_last']:.3f} at the end)")
    axes.axhline(paper, color="gray", linewidth=0.8)
    axes.text(0.99, 1.04 * paper, "the paper, on GPUs", transform=axes.get_yaxis_transform(), ha="right", color="gray")
    axes.set(xscale="log", yscale="log", xlabel="seconds of training on one shared core", ylabel="validation MAE")
    axes.set_yticks([0.06, 0.1, 0.2, 0.4, 0.8], ["0.06", "0.1", "0.2", "0.4", "0.8"])
    axes.minorticks_off()
    axes.set_ylim(0.05, 1.2)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("runs", nargs="+", help="NAME=FOLDER")
    given = parser.parse_args()
    curves = {name: read_curve(Path(folder)) for name, _, folder in (run.partition("=") for run in given.runs)}
    given.result.write_text(json.dumps(curves, indent=1) + "\n", encoding="utf-8")
    draw(curves, 0.064, given.picture)
    for name, curve in curves.items():
        print(
            f"{name}: {curve['at_last']} at the end, falls as time^{curve['exponent']}, {curve['at_tenfold_time']} at ten times the time"
        )


if __name__ == "__main__":
    main()
