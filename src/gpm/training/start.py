"""Train: a recipe or a dataset becomes a run folder."""

from __future__ import annotations

import importlib.util
import logging
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from gpm import __version__
from gpm.compute import choose_device, keep_memory, using_threads, usual_threads
from gpm.config import (
    ComputeOptions,
    Config,
    OutputOptions,
    RankOptions,
    TableOptions,
    accepts,
    divide_options,
    rename_nodes,
)
from gpm.data.sources import load_by, resolve
from gpm.data.tables.table_source import GRAPH, OWN_GRAPHS, Tables
from gpm.errors import GpmError
from gpm.io.run_files import CONFIG, read_config
from gpm.run.run import Run
from gpm.run.workplace import Plan, TakenError, Workplace, find_place
from gpm.training.choose import choose_recipe
from gpm.training.distributed.lead import Team, check_devices, check_ranks, check_world, follow_lead
from gpm.training.distributed.ranks import LostError, find_world, joined, launch, own_device
from gpm.training.recipes import Recipe
from gpm.training.resume import is_finished, reopen, resume
from gpm.training.seeds import digest_inputs, plain, train_seeds

_log = logging.getLogger("gpm")


@accepts(OutputOptions, TableOptions, ComputeOptions, RankOptions, Config, without=["data"])
def train(source: Any = "", *, recipe: str = "", **options: Any) -> Run | list[Run]:
    """Train a model on nodes, links or graphs, score it and save everything in a run folder.

    Args:
        source: Name of a recipe (gpm recipes) or its YAML file, name of a dataset (gpm data), graph folder, PyG file
            (.pt), table of edges, network file, folder with a file per graph, or table of molecules; in Python also a
            PyG Data, a list of them, a Graph, or a DataFrame of edges.
        recipe: Start from the options of this recipe, where the source is data of your own.
        {options}

    Returns:
        The run, or a list of runs where there are several seeds.
    """
    options = rename_nodes(options)
    output, tables, compute, ranks, changes = divide_options(
        options, OutputOptions, TableOptions, ComputeOptions, RankOptions
    )
    keep_memory()
    if ranks.devices * ranks.machines > 1 and find_world().size == 1:
        return _launch({"source": source, "recipe": recipe} | options, compute, ranks)
    chosen = choose_device(compute.device)
    device = own_device(chosen, find_world())
    with using_threads(compute.threads), joined(device) as world:
        check_world(world, chosen, ranks.devices, ranks.machines)
        team = Team(world, device, ranks.workers, ranks.strategy)
        if not world.leads:
            follow_lead(team, source)
            return []
        with team.leading():
            if output.resume is not None:
                _check_resume(source, output)
                return resume(output.resume, source, team, output.track, output.quiet, changes)
            return _lead(team, source, recipe, output, tables, changes)


def _lead(
    team: Team, source: Any, recipe: str, output: OutputOptions, table_options: TableOptions, options: dict[str, Any]
) -> Run | list[Run]:
    """Do the work of rank 0, or of the only one."""
    _check_tracker(output.track)
    seeds, out = output.seeds, output.out
    if output.folds:
        if output.folds < 3:
            raise GpmError(f"folds must be at least 3 (to train, validate and test), got {output.folds}.")
        if seeds > 1 or "split" in options:
            raise GpmError("Each fold is a split with its own seed; leave out --seeds and --split.")
        seeds, options = output.folds, options | {"split": f"{output.folds}-fold"}
    if output.result is not None and (output.result.is_dir() or output.result.suffix != ".json"):
        raise GpmError(f"{output.result} is not a .json file; name one for the scores.")
    columns = {key: options.get(key) or "" for key in ("target", "smiles")}
    tables = resolve(source, **columns, **vars(table_options)).tables
    with _importing(tables, out, options, output.quiet) as own:
        if own is not None:  # the graph goes into the run folder, and is named from there
            options = {key: value for key, value in options.items() if key != "target"}
            source = OWN_GRAPHS[0] if seeds == 1 else OWN_GRAPHS[1]
        if team.strategy == "fsdp":  # which does not average weights
            options = {"average": 0} | options
        chosen, data = choose_recipe(source, options, recipe, own, tables)
        if output.folds and data.level != "graph":
            raise GpmError(f"--folds is for collections of graphs, not for {data.level}s; use --seeds.")
        if output.baselines and team.world.size > 1:
            raise GpmError("--baselines trains networks that read the whole graph in one process; use --devices 1.")
        plan = Plan(
            plain(chosen.config.to_dict()), seeds, output.baselines, digest_inputs(data, own or chosen.config.data),
            __version__, plain(chosen.facts()), output.overwrite and out is not None,
            "" if output.result is None else str(output.result.absolute()),
        )  # fmt: skip
        if out is not None and is_finished(find_place(out), plan):
            _log.info("%s is complete, with the same options and data; --overwrite trains it again", out)
            return reopen(find_place(out), plan, chosen, data, team.device)
        work = _take(out, chosen, plan)
        if own is not None:
            _move(own, work)
            data = load_by(work.part / GRAPH, chosen.config)  # from where it is now, for whoever maps it again
    with work:
        check_ranks(team, chosen.config)
        return train_seeds(work, chosen, data, team, output.track, output.quiet)


def _launch(arguments: dict[str, Any], compute: ComputeOptions, ranks: RankOptions) -> Run | list[Run]:
    """Train with ranks that are started here, and open the runs that they made."""
    source, device = arguments["source"], choose_device(compute.device)
    check_devices(device, ranks.devices)
    arguments["threads"] = compute.threads or usual_threads(ranks.devices)
    try:
        folders = launch(_train_rank, {"arguments": arguments}, ranks.devices, ranks.machines, ranks.restarts)
    except LostError as error:
        raise GpmError(f"{str(error).rstrip('.')}; the same command resumes from the last saved epoch.") from None
    if folders is None:  # rank 0 is on another machine
        return []
    in_memory = not isinstance(source, (str, Path))
    runs = [
        Run(Path(folder), load_by(source, read_config(Path(folder) / CONFIG)) if in_memory else None, device)
        for folder in folders
    ]
    return runs[0] if len(runs) == 1 else runs


def _train_rank(arguments: dict[str, Any]) -> list[str] | None:
    """Train as one of the ranks that `_launch` started; returns the folders of its runs."""
    runs = train(**arguments)
    return [str(run.folder.absolute()) for run in (runs if isinstance(runs, list) else [runs])] or None


def _check_resume(source: Any, output: OutputOptions) -> None:
    """Refuse what a resumed run keeps from its beginning."""
    _check_tracker(output.track)
    if output.out is not None or output.result is not None or output.baselines or output.overwrite or output.seeds > 1:
        raise GpmError(
            "A resumed run keeps its options; leave out --out, --seeds, --result, --baselines and --overwrite."
        )
    if isinstance(source, (str, Path)) and str(source):
        raise GpmError(f"A resumed run keeps its data; leave out {str(source)!r}.")


def _check_tracker(track: str) -> None:
    """Refuse a tracker that is not installed before anything is written."""
    if track != "none" and importlib.util.find_spec(track) is None:
        raise GpmError(f"--track {track} needs {track}: pip install 'graph-pattern-machine[tracking]'.")


def _importing(
    tables: Tables | None, out: Path | None, options: dict[str, Any], quiet: bool
) -> AbstractContextManager[Path | None]:
    """Import tables into a graph folder beside the run folder; None if there are no tables."""
    if tables is None:
        return nullcontext()
    near = Path("runs") / tables.name if out is None else find_place(out)
    task, metric = options.get("task", "auto"), options.get("metric", "auto")
    return tables.importing(near, task=task, metric=metric, progress=not quiet)


def _move(graph: Path, work: Workplace) -> None:
    """Move the imported graph into the run folder; an unfinished training has it already."""
    try:
        if not (work.part / GRAPH).exists():
            graph.rename(work.part / GRAPH)
    except BaseException:
        work.close()
        raise


def _take(out: Path | None, recipe: Recipe, plan: Plan) -> Workplace:
    """Take the user's folder; else the first that is free, or holds an unfinished training of the same plan."""
    if out is not None:
        return Workplace(find_place(out), plan)
    first = Path("runs") / recipe.name
    for i in range(1, 1_000_000):
        try:
            return Workplace(first if i == 1 else Path(f"{first}-{i}"), plan)
        except TakenError:
            continue
    raise GpmError(f"All names like {first} are taken; name a folder with --out.")
