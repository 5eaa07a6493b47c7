"""Resume an interrupted training from the plan in its folder, and reopen a complete one."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpm.config import Config, Tracker
from gpm.data.sources import load_by
from gpm.data.tables.table_source import locate
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.io.atomic import write_json
from gpm.io.manifest import check_folder
from gpm.io.run_files import CONFIG, RESULT, read_config
from gpm.run.run import Run
from gpm.run.workplace import PLAN, Plan, Workplace, is_complete, part_of, settle, target_of
from gpm.training.distributed.lead import Team, check_ranks
from gpm.training.recipes import Recipe
from gpm.training.seeds import digest_inputs, seed_folders, summarise, train_seeds

_log = logging.getLogger("gpm")


def resume(
    path: Path, source: Any, team: Team, track: Tracker, quiet: bool, options: dict[str, Any]
) -> Run | list[Run]:
    """Resume an unfinished training (RUN or RUN.part), or open a complete one; options must be those of the run."""
    folder = target_of(path)
    settle(folder)
    if not (part_of(folder) / PLAN).is_file():
        return _open_complete(folder, source, team.device, options)
    plan = Plan.read(part_of(folder))
    if plan.result:  # a folder may come from elsewhere, and must not say what is overwritten
        _log.info("the scores are not written to %s; repeat the original command for that", plan.result)
        plan = replace(plan, result="")
    config = Config.from_dict(plan.config, str(part_of(folder) / PLAN))
    _refuse_changes(config, options)
    data = _load(folder, plan, config, source)
    try:
        recipe = Recipe(config=config, **plan.recipe)
    except TypeError:
        path = part_of(folder) / PLAN
        raise GpmError(f"{path} is damaged: it names no recipe; train again with --overwrite.") from None
    with Workplace(folder, plan) as work:
        check_ranks(team, config)
        return train_seeds(work, recipe, data, team, track, quiet)


def _load(folder: Path, plan: Plan, config: Config, source: Any) -> TaskData:
    """Load the data of an unfinished training, which must not have changed."""
    location = source if not isinstance(source, (str, Path)) else config.data
    if location == "":
        raise GpmError(f"{folder} was trained on a graph in memory; pass it again: train(graph, resume=folder).")
    if isinstance(location, str):
        location = locate(location, seed_folders(part_of(folder), plan)[0][1])
        if isinstance(location, Path) and not location.is_dir():
            raise GpmError(f"{folder} was interrupted before its graph was imported; repeat the original command.")
    data = load_by(location, config)
    if digest_inputs(data, location if isinstance(location, Path) else config.data) != plan.data_digest:
        what = config.data or "the graph"
        raise GpmError(f"{folder} cannot be resumed: {what} has changed; train again with --overwrite.")
    return data


def _open_complete(folder: Path, source: Any, device: str, options: dict[str, Any]) -> Run | list[Run]:
    if (folder.parent / PLAN).is_file():
        raise GpmError(f"{folder} is one of several seeds; resume all of them: --resume {folder.parent}.")
    if is_complete(folder) and (folder / PLAN).is_file():
        plan = Plan.read(folder)
        config = Config.from_dict(plan.config, str(folder / PLAN))
    elif (folder / CONFIG).is_file():
        plan, config = None, read_config(folder / CONFIG)
    else:
        raise GpmError(f"{folder} is not a run folder: it has no {CONFIG}.")
    _refuse_changes(config, options)
    if plan is None and not (folder / RESULT).is_file():
        raise GpmError(f"{folder} was started by an earlier version of gpm and cannot be resumed; train again.")
    _log.info("%s is complete; nothing to resume", folder)
    data = None if isinstance(source, (str, Path)) else load_by(source, config)
    runs = [Run(folder, data, device)] if plan is None else _open(folder, plan, data, device)
    return runs[0] if len(runs) == 1 else runs


def is_finished(folder: Path, plan: Plan) -> bool:
    """Return whether the folder holds this very training, complete, and need not be trained again."""
    settle(folder)
    if plan.overwrite or not is_complete(folder) or not (folder / PLAN).is_file():
        return False
    return not Plan.read(folder).difference(plan) and all(finding.harmless for finding in check_folder(folder))


def reopen(folder: Path, plan: Plan, recipe: Recipe, data: TaskData | None, device: str) -> Run | list[Run]:
    """Open the runs of a complete folder, and write the scores again if the plan asks for them."""
    runs = _open(folder, plan, data, device)
    if plan.result:
        write_json(Path(plan.result), summarise(runs, recipe, sum(run.result["train_seconds"] for run in runs)))
    return runs[0] if plan.seeds == 1 else runs


def _open(folder: Path, plan: Plan, data: TaskData | None, device: str) -> list[Run]:
    return [Run(path, data, device) for _, path in seed_folders(folder, plan)]


def _refuse_changes(config: Config, options: dict[str, Any]) -> None:
    other = Config.from_dict(config.to_dict() | options)
    if changed := [key for key in options if getattr(other, key) != getattr(config, key)]:
        raise GpmError(f"A resumed run keeps its options; leave out {', '.join(changed)}.")
