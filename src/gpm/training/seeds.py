"""Train all seeds of a plan in its working folder, and publish the run folder."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np

from gpm.config import Tracker
from gpm.data.splits import PARTS
from gpm.data.tables.table_source import GRAPH, OWN_GRAPHS
from gpm.data.task_data import TaskData
from gpm.graph.digest import digest_data
from gpm.io.atomic import WriteError, write_json
from gpm.io.run_files import CONFIG
from gpm.run.run import Run
from gpm.run.workplace import Plan, Workplace
from gpm.training.distributed.lead import Errand, Team
from gpm.training.fit import carry_out
from gpm.training.prepare import Job, settle_options
from gpm.training.recipes import Recipe
from gpm.training.summary import describe_summary, summarise

_log = logging.getLogger("gpm")


def train_seeds(
    work: Workplace, recipe: Recipe, data: TaskData, team: Team, track: Tracker, quiet: bool
) -> Run | list[Run]:
    """Train all seeds of a plan, and rename its working folder to the run folder."""
    plan, began = work.plan, time.monotonic()
    if team.world.size > 1:
        source = recipe.config.data
        own = work.part.absolute() / GRAPH if source in OWN_GRAPHS else source
        team.world.share(Errand(settle_options(recipe.config, data), own))
        _log.info("%d ranks train together, %d on this computer", team.world.size, team.world.local_size)
    if work.begun:
        _log.info("resuming %s, an unfinished training with the same options and data", work.part)
    try:
        runs = []
        for seed, folder in seed_folders(work.part, plan):
            config = settle_options(recipe.config.with_(seed=seed), data)
            job = Job(
                config, data, plan.data_digest.partition(" ")[0], folder, recipe, team.device, track, plan.baselines,
                quiet, team.world, team.workers, team.strategy,
            )  # fmt: skip
            runs.append(carry_out(job))
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
    graph, masks = digest_data(data.graph, source), data.masks
    words = json.dumps([data.class_names, data.targets])
    more = hashlib.sha256(words.encode())
    for part in PARTS if masks is not None else ():
        more.update(np.packbits(getattr(masks, part)).tobytes())
    return f"{graph} {more.hexdigest()[:16]}"


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """Return values as JSON gives them back."""
    content: dict[str, Any] = json.loads(json.dumps(values))
    return content
