"""GPM beside baselines: each is tuned within the same number of trials, then trained on seeds that nothing was tuned on.

A trial is one training with seed 100, of which only the validation figure is kept; the best is trained again with seeds
0, 1, 2, of which the test part is read. All trials are written beside the results.

    python benchmarks/compare.py cora-link pubmed-link --models gcn sage mlp gpm
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from gpm import Run, train
from gpm.io.atomic import write_json
from gpm.tasks.metrics import METRICS
from gpm.training.recipes import find_recipe

TUNING_SEED = 100
ROOT = Path(__file__).parents[1] / "results"

FULL = {
    "epochs": 150,
    "batch": 100_000,
    "hide": False,
    "patience": 50,
    "lr": 0.01,
    "decay": 0.0,
    "feature_dropout": 0.0,
}
PARTS = {"epochs": 60, "batch": 512, "patience": 20, "lr": 0.003, "decay": 0.0, "feature_dropout": 0.0}
LINKS = [
    FULL | {"dropout": 0.5},
    FULL | {"dropout": 0.2, "width": 256},
    PARTS | {"dropout": 0.5},
    PARTS | {"dropout": 0.2, "width": 256},
]
LARGE = [
    FULL | {"dropout": 0.2, "width": 128, "epochs": 100},
    PARTS | {"dropout": 0.2, "width": 128, "epochs": 40, "batch": 4096},
]
GIVEN = {"epochs": 60, "stars": False, "pe": "rwse"}  # what is given or usual, and no stars
GRAPHS = [GIVEN | {"dropout": 0.5, "lr": 0.003}, GIVEN | {"dropout": 0.2, "lr": 0.01}]
TRIALS: dict[str, dict[str, list[dict[str, Any]]]] = {
    "cora-link": {
        "gpm": [
            {"width": 64}, {"width": 64, "dropout": 0.3, "feature_dropout": 0.2}, {"width": 128}, {"width": 64, "pair": "product"},
        ],
        "gcn": LINKS, "sage": LINKS, "mlp": LINKS,
    },
    "pubmed-link": {
        "gpm": [{"dropout": 0.3, "feature_dropout": 0.3}, {"dropout": 0.1, "feature_dropout": 0.0}],
        "gcn": LARGE, "sage": LARGE, "mlp": LARGE,
    },
    "imdb-b": {"gpm": [{}, {"dropout": 0.2, "features": "auto"}], "gin": GRAPHS},
    "proteins": {"gpm": [{"readout": "mean", "stars": False}, {"readout": "sum", "stars": True}], "gin": GRAPHS},
    "nci1": {
        "gpm": [
            {"readout": "mean", "stars": False, "path": "transformer", "pe": "rwse"},
            {"readout": "sum", "stars": True, "path": "conv", "pe": "rings"},
        ],
        "gin": GRAPHS,
    },
}  # fmt: skip


def compare(name: str, model: str, threads: int) -> None:
    """Tune a model on a recipe's data, then train it on the reported seeds."""
    recipe = find_recipe(name)
    assert recipe is not None
    folder = ROOT / ("link" if recipe.config.task == "link" else "graph")
    protocol = f"-{recipe.config.protocol}" if recipe.config.task == "link" else ""
    out, log = folder / f"{name.removesuffix('-link')}-{model}{protocol}.json", folder / "trials.json"
    shared: dict[str, Any] = {"threads": threads, "quiet": True}
    tried = []
    with tempfile.TemporaryDirectory() as scratch:
        for number, options in enumerate(TRIALS[name][model]):
            run = train(name, out=Path(scratch) / f"trial-{number}", seed=TUNING_SEED, **shared, model=model, **options)
            assert isinstance(run, Run)
            metric = run.config.metric
            tried.append(
                {"options": options, "metric": metric, "val": METRICS[metric].scaled(run.result["val"][metric])}
            )
            print(f"{name} {model} trial {number + 1}: val {tried[-1]['val']} {options}", flush=True)
        better = max if METRICS[metric].larger else min
        best = better(tried, key=lambda trial: trial["val"])
        known = json.loads(log.read_text()) if log.exists() else {}
        write_json(log, known | {f"{name} {model}": {"seed": TUNING_SEED, "trials": tried, "chosen": best["options"]}})
        train(name, out=Path(scratch) / "final", result=out, seeds=3, **shared, model=model, **best["options"])
    result = json.loads(out.read_text())
    print(f"{name} {model}: {result['metric']} {result['mean']} ± {result['std']}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=TRIALS)
    parser.add_argument("--models", nargs="+", default=[])
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    for name in given.names:
        for model in given.models or TRIALS[name]:
            if model in TRIALS[name]:
                compare(name, model, given.threads)


if __name__ == "__main__":
    main()
