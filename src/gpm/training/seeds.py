"""Train all seeds of a plan in its working folder, summarise them, and publish the run folder."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import statistics
import time
from pathlib import Path
from typing import Any, cast

import numpy as np

from gpm.config import Tracker
from gpm.data.splits import PARTS
from gpm.data.tables.table_source import GRAPH, OWN_GRAPHS
from gpm.data.task_data import TaskData
from gpm.graph.digest import digest_data
from gpm.io.atomic import WriteError, write_json
from gpm.io.environment import describe_environment
from gpm.io.run_files import CONFIG
from gpm.run.run import Run
from gpm.run.workplace import Plan, Workplace
from gpm.tasks.metrics import METRICS
from gpm.training.distributed.lead import Errand, Team
from gpm.training.fit import carry_out
from gpm.training.prepare import Job, settle_options
from gpm.training.recipes import Recipe, is_comparable

_log = logging.getLogger("gpm")


def train_seeds(
    work: Workplace, recipe: Recipe, data: TaskData, team: Team, track: Tracker, quiet: bool
) -> Run | list[Run]:
    """Train all seeds of a plan, and rename its working folder to the run folder."""
    plan, began, settled = work.plan, time.monotonic(), settle_options(recipe.config, data)  # the same for all seeds
    if team.world.size > 1:
        source = recipe.config.data
        own = work.part.absolute() / GRAPH if source in OWN_GRAPHS else source
        team.world.share(Errand(settled, own))
        _log.info("%d ranks train together, %d on this computer", team.world.size, team.world.local_size)
    if work.begun:
        _log.info("resuming %s, an unfinished training with the same options and data", work.part)
    try:
        runs = []
        for seed, folder in seed_folders(work.part, plan):
            config = settled.with_(seed=seed)
            runs.append(carry_out(Job(
                config, data, plan.data_digest.partition(" ")[0], folder, recipe, team.device, track, plan.baselines,
                quiet, team.world, team.workers, team.strategy,
            )))  # fmt: skip
        summary = summarise(runs, recipe, time.monotonic() - began)
        if plan.seeds > 1:
            write_json(work.part / "summary.json", summary)
        work.publish()
    except (KeyboardInterrupt, WriteError):
        if any(work.part.rglob(CONFIG)):
            _log.info("interrupted; gpm train --resume %s resumes it", work.folder)
        raise
    runs = [run.moved_to(folder) for run, (_, folder) in zip(runs, seed_folders(work.folder, plan), strict=True)]
    if plan.result:
        write_json(Path(plan.result), summary)
    if plan.seeds > 1:
        _log.info(describe_summary(summary))
    _log.info("saved in %s", work.folder)
    return runs[0] if plan.seeds == 1 else runs


def seed_folders(folder: Path, plan: Plan) -> list[tuple[int, Path]]:
    """Return the seeds of a plan with the folder of each."""
    seeds = range(plan.config["seed"], plan.config["seed"] + plan.seeds)
    return [(seed, folder if plan.seeds == 1 else folder / f"seed-{seed}") for seed in seeds]


def digest_inputs(data: TaskData, source: str | Path) -> str:
    """Return the digest of the graph and, after a blank, that of published splits and class names."""
    more = hashlib.sha256(json.dumps([data.class_names, data.targets]).encode())
    for part in PARTS if data.masks is not None else ():
        more.update(np.packbits(getattr(data.masks, part)).tobytes())
    for pairs in (getattr(data, "held_out", None), getattr(data, "negatives", None)):
        more.update(b"" if pairs is None else pairs.astype("<i8").tobytes())
    return f"{digest_data(data.graph, source)} {more.hexdigest()[:16]}"


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as JSON gives them back."""
    return cast(dict[str, Any], json.loads(json.dumps(values)))


def summarise(runs: list[Run], recipe: Recipe, seconds: float) -> dict[str, Any]:
    """Return the figures of runs that differ by their seed or fold, and the paper's."""
    results = [run.result for run in runs]
    first = runs[0].config
    metric, kind = first.metric, METRICS[first.metric]
    values = [kind.scaled(r["test"][metric]) for r in results]
    protocol = results[0]["protocol"].replace(f"seed {results[0]['seed']}", "seed as listed")
    if (fold := re.search(r"fold \d+ of (\d+)", protocol)) and int(fold[1]) == len(runs):
        protocol = protocol.replace(fold[0], f"each of {fold[1]} folds")
    paper = (recipe.paper_mean, recipe.paper_std) if is_comparable(first, recipe.changed) else (None, None)
    return {
        "dataset": runs[0].data.title, "model": "GPM" if first.model == "gpm" else first.model.upper(),
        "task": first.task, "recipe": recipe.name, "changed": recipe.changed, "metric": metric, "protocol": protocol,
        "seeds": [r["seed"] for r in results], "values": values, **_mean_and_std(values, metric),
        "val_values": [kind.scaled(r["val"][metric]) for r in results],
        "test": {k: [METRICS[k].scaled(r["test"][k]) for r in results] for k in results[0]["test"]},
        "paper_mean": paper[0], "paper_std": paper[1], "wall_s": round(seconds, 1),
        "train_s": [r["train_seconds"] for r in results], "best_epochs": [r["best_epoch"] for r in results],
        "parameters": runs[0].facts["parameters"], "note": recipe.note, "date": time.strftime("%Y-%m-%d"),
        "config": {key: value for key, value in first.to_dict().items() if key != "seed"},
        "versions": describe_environment(),
    } | _summarise_baselines(results, metric) | _summarise_other(results, metric)  # fmt: skip


def _summarise_baselines(results: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """Return the test figures of the baselines that all runs have; earlier versions stored plain numbers."""
    each = [result.get("baselines") or {} for result in results]
    common = [name for name, scores in each[0].items() if isinstance(scores, dict) and all(name in e for e in each)]
    values = {name: [METRICS[metric].scaled(scores[name]["test"]) for scores in each] for name in common}
    return {"baselines": {name: {"values": row, **_mean_and_std(row, metric)} for name, row in values.items()}}


def _summarise_other(results: list[dict[str, Any]], metric: str) -> dict[str, Any]:
    """Return the test figures of a source and a target if the other domain had chosen the epochs."""
    if any("other" not in result for result in results):
        return {}
    values = [METRICS[metric].scaled(result["other"]["test"][metric]) for result in results]
    other = {"chosen_on": results[0]["other"]["chosen_on"], "values": values, **_mean_and_std(values, metric)}
    epochs = [result["other"]["best_epoch"] for result in results]
    return {"chosen_on": results[0]["chosen_on"], "other": other | {"best_epochs": epochs}}


def _mean_and_std(values: list[float], metric: str) -> dict[str, float]:
    digits = 2 if METRICS[metric].share else 4
    std = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": round(statistics.fmean(values), digits), "std": round(std, digits)}


def describe_summary(summary: dict[str, Any]) -> str:
    """Return one line: mean ± standard deviation over seeds, and the paper's."""
    paper, kind = summary["paper_mean"], METRICS[summary["metric"]]
    digits = 2 if kind.share else 4
    beside = "" if paper is None else f"; the paper has {paper:.{digits}f} ± {summary['paper_std']:.{digits}f}"
    mean = f"{summary['mean']:.{digits}f} ± {summary['std']:.{digits}f}"
    rows = summary["baselines"].items()
    if shown := ", ".join(f"{name} {row['mean']:.{digits}f} ± {row['std']:.{digits}f}" for name, row in rows):
        mean += f" ({shown})"
    runs = f"{len(summary['values'])} {'folds' if 'folds' in summary['protocol'] else 'seeds'}"
    leaky = summary["task"] == "link" and summary["config"]["protocol"] == "paper"
    note = " (protocol paper: test edges are walked)" if leaky else ""
    if other := summary.get("other"):
        note = f"; chosen on the {summary['chosen_on']} (on the {other['chosen_on']}: {other['mean']:.{digits}f})"
    return f"{summary['dataset']} {kind.title} over {runs}: {mean}{beside}{note}"
