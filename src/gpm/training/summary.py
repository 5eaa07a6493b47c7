"""The figures of several runs that differ by their seed or fold, as one result file and one line."""

from __future__ import annotations

import re
import statistics
import time
from typing import Any

from gpm.compute import describe_environment
from gpm.run.run import Run
from gpm.tasks.metrics import METRICS
from gpm.training.recipes import Recipe, is_comparable


def summarise(runs: list[Run], recipe: Recipe, seconds: float) -> dict[str, Any]:
    """The figures of some runs that differ by their seed, as tables have them, beside the paper's."""
    results = [run.result for run in runs]
    first = runs[0].config
    metric, kind = first.metric, METRICS[first.metric]
    values = [kind.scaled(r["test"][metric]) for r in results]
    digits = 2 if kind.share else 4
    seed = results[0]["seed"]
    protocol = results[0]["protocol"].replace(f"seed {seed}", "seed as listed")
    if (fold := re.search(r"fold \d+ of (\d+)", protocol)) and int(fold[1]) == len(runs):
        protocol = protocol.replace(fold[0], f"each of {fold[1]} folds")
    paper = (recipe.paper_mean, recipe.paper_std) if is_comparable(first, recipe.changed) else (None, None)
    return {
        "dataset": runs[0].data.title, "model": "GPM" if first.model == "gpm" else first.model.upper(),
        "task": first.task, "recipe": recipe.name, "changed": recipe.changed, "metric": metric, "protocol": protocol,
        "seeds": [r["seed"] for r in results], "values": values, "mean": round(statistics.fmean(values), digits),
        "std": round(statistics.stdev(values), digits) if len(values) > 1 else 0.0,
        "val_values": [kind.scaled(r["val"][metric]) for r in results],
        "test": {k: [METRICS[k].scaled(r["test"][k]) for r in results] for k in results[0]["test"]},
        "paper_mean": paper[0], "paper_std": paper[1], "wall_s": round(seconds, 1),
        "train_s": [r["train_seconds"] for r in results], "best_epochs": [r["best_epoch"] for r in results],
        "parameters": runs[0].facts["parameters"], "note": recipe.note, "date": time.strftime("%Y-%m-%d"),
        "config": {key: value for key, value in first.to_dict().items() if key != "seed"},
        "versions": describe_environment(),
    } | _summarise_other(results, metric)  # fmt: skip


def _summarise_other(results: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """Of a source and a target: what the test part would have been, had the other domain chosen the epochs."""
    if any("other" not in result for result in results):
        return {}
    kind = METRICS[metric]
    values = [kind.scaled(result["other"]["test"][metric]) for result in results]
    digits = 2 if kind.share else 4
    return {
        "chosen_on": results[0]["chosen_on"],
        "other": {
            "chosen_on": results[0]["other"]["chosen_on"], "values": values,
            "mean": round(statistics.fmean(values), digits),
            "std": round(statistics.stdev(values), digits) if len(values) > 1 else 0.0,
            "best_epochs": [result["other"]["best_epoch"] for result in results],
        },
    }  # fmt: skip


def describe_summary(summary: dict[str, Any]) -> str:
    """One line: mean ± standard deviation over seeds, beside the paper's."""
    paper, kind = summary["paper_mean"], METRICS[summary["metric"]]
    digits = 2 if kind.share else 4
    beside = "" if paper is None else f"; the paper has {paper:.{digits}f} ± {summary['paper_std']:.{digits}f}"
    mean = f"{summary['mean']:.{digits}f} ± {summary['std']:.{digits}f}"
    runs = f"{len(summary['values'])} {'folds' if 'folds' in summary['protocol'] else 'seeds'}"
    leaky = summary["task"] == "link" and summary["config"]["protocol"] == "paper"
    note = " (protocol paper: test edges are walked)" if leaky else ""
    if other := summary.get("other"):
        note = f"; chosen on the {summary['chosen_on']} (on the {other['chosen_on']}: {other['mean']:.{digits}f})"
    return f"{summary['dataset']} {kind.title} over {runs}: {mean}{beside}{note}"
