"""Train: a recipe or a dataset becomes a run folder."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import os
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from gpm.compute import choose_device, keep_memory, set_threads
from gpm.config import Config, option_names
from gpm.data.labels import VALUE_METRICS
from gpm.data.sources import TaskData, has_columns
from gpm.data.splits import PARTS
from gpm.data.tables.table_source import GRAPH, OWN_GRAPHS, Tables, find_tables, locate
from gpm.errors import GpmError, kind_of, nearest
from gpm.graph.digest import digest_data
from gpm.graph.folder import HEADER
from gpm.graph.graph import Graph
from gpm.io.atomic import WriteError, write_json
from gpm.io.manifest import check_folder
from gpm.io.run_files import CONFIG, RESULT, read_config
from gpm.run.request import PLAN, Plan
from gpm.run.run import Run
from gpm.run.workplace import TakenError, Workplace, find_place, is_complete, part_of, settle, target_of
from gpm.training.distributed.lead import (
    Errand,
    Team,
    check_devices,
    check_ranks,
    check_world,
    count_machines,
    follow_lead,
    load_by,
)
from gpm.training.distributed.ranks import LostError, find_world, joined, launch, own_device
from gpm.training.fit import carry_out
from gpm.training.prepare import Job, Strategy, Tracker, settle_options
from gpm.training.recipes import Recipe, find_recipe, recipe_names
from gpm.training.summary import describe_summary, summarise

if TYPE_CHECKING:
    from torch_geometric.data import Data

_log = logging.getLogger("gpm")
_LED = (
    "source", "out", "seeds", "folds", "resume", "track", "result", "baselines", "overwrite", "quiet", "graphs",
    "graph", "directed", "unlisted", "schema", "recipe",
)  # fmt: skip


def train(
    source: str | Path | Graph | Data | list[Data] = "",
    *,
    out: Path | None = None,
    seeds: int = 1,
    folds: int = 0,
    resume: Path | None = None,
    device: str = "auto",
    threads: int = 0,
    track: Tracker = "none",
    result: Path | None = None,
    baselines: bool = False,
    overwrite: bool = False,
    quiet: bool = False,
    nodes: Any = None,
    graphs: Any = None,
    graph: str = "",
    directed: bool = False,
    unlisted: str = "",
    schema: Any = None,
    recipe: str = "",
    devices: int = 1,
    workers: int = 0,
    strategy: Strategy = "ddp",
    restarts: int = 0,
    **options: Any,
) -> Run | list[Run]:
    """Train a model on nodes, links or graphs, score it and save it all in a run folder.

    Args:
        source: A recipe's name (gpm recipes) or YAML file, a dataset's name (gpm data), a saved graph's folder, a PyG
            file (.pt), a table of edges, a network file, a folder with a file per graph, or a table of molecules; in
            Python also a PyG Data, a list of them, a Graph, or a DataFrame of edges.
        out: The run folder; by default a new one below runs.
        seeds: Train so many times, with seeds counted from `seed`, and report mean and standard deviation.
        folds: Cross-validate: so many folds, each of which is the test part once.
        resume: Go on with a run that was interrupted, exactly as it would have gone on.
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to compute with; 0 takes what torch takes. Of several ranks, each has so many; by default the
            processors are shared out.
        track: Also log to TensorBoard, Weights & Biases or MLflow.
        result: Also write the figures, over all seeds, to this JSON file.
        baselines: For nodes, also score the most frequent class and a network on features alone, on the same split.
        overwrite: Replace a run folder that is there, once the new run is complete.
        quiet: No progress bar.
        nodes, graphs, graph, directed, unlisted, schema: Of tables, see `gpm.data.tables.import_tables`; the graph made
            of them is kept in the run folder. A whole number of nodes is instead how many machines train together, each
            by the same call, with MASTER_ADDR set to the name of one of them.
        devices: How many devices of this machine (on a CPU: processes) train together, each a share of every batch. The
            result is the same up to the order in which gradients are added.
        workers: Processes, of each rank, that draw patterns and gather features ahead of the model.
        strategy: How they do: ddp (every rank has the whole model) or fsdp (a piece of it, for models that do not fit).
        restarts: How many times to start all ranks again where one has ended, from the last epoch that was saved.
        recipe: The recipe whose options to begin with, where the source is none.
        options: Any option of `Config`, which overrides the recipe's.

    Returns:
        The run, or a list of runs where there are several seeds.
    """
    given = dict(locals())
    keep_memory()
    machines, nodes = count_machines(nodes)
    for name, count, least in (("threads", threads, 0), ("workers", workers, 0), ("devices", devices, 1),
                               ("restarts", restarts, 0), ("nodes", machines, 1)):  # fmt: skip
        if isinstance(count, bool) or not isinstance(count, int) or count < least:
            rule = f"be a whole number of at least {least}" if least else "not be negative"
            raise GpmError(f"{name} must {rule}, got {count!r}.")
    if strategy not in get_args(Strategy):
        raise GpmError(f"there is no strategy {strategy!r}; choose one of {', '.join(get_args(Strategy))}.")
    if devices * machines > 1 and find_world().size == 1:
        return _launch(given, devices, machines, restarts)
    if threads:
        set_threads(threads)
    chosen = choose_device(device)
    place = own_device(chosen, find_world())
    with joined(place) as world:
        check_world(world, chosen, devices, machines)
        team = Team(world, place, workers, strategy)
        if not world.leads:
            follow_lead(team, source)
            return []
        with team.leading():
            return _lead(team, **{key: given[key] for key in _LED}, nodes=nodes, options=options)


def _lead(
    team: Team,
    source: Any,
    out: Path | None,
    seeds: int,
    folds: int,
    resume: Path | None,
    track: Tracker,
    result: Path | None,
    baselines: bool,
    overwrite: bool,
    quiet: bool,
    nodes: Any,
    graphs: Any,
    graph: str,
    directed: bool,
    unlisted: str,
    schema: Any,
    recipe: str,
    options: dict[str, Any],
) -> Run | list[Run]:
    """What rank 0 does, or the only one: see `train`."""
    place = team.device
    _check_tracker(track)
    if seeds < 1:
        raise GpmError(f"seeds must be at least 1, got {seeds}.")
    if folds:
        if not 3 <= folds <= 100:
            raise GpmError(f"folds must lie between 3 (one each to train, validate and test) and 100, got {folds}.")
        if seeds > 1 or "split" in options:
            raise GpmError("folds are splits and have a seed each; leave out --seeds and --split.")
        seeds, options = folds, options | {"split": f"{folds}-fold"}
    if resume is not None:
        if out is not None or result is not None or baselines or overwrite or seeds > 1:
            raise GpmError("a resumed run only goes on; leave out --out, --seeds, --result, --baselines, --overwrite.")
        if isinstance(source, (str, Path)) and str(source):
            raise GpmError(f"a resumed run knows what it trains on; leave out {str(source)!r}.")
        return _resume(Path(resume), source, team, track, quiet, options)
    if result is not None and (Path(result).is_dir() or Path(result).suffix != ".json"):
        raise GpmError(f"{result}: name a .json file for the figures.")
    tables = find_tables(
        source, target=options.get("target"), smiles=options.get("smiles"), nodes=nodes, graphs=graphs, graph=graph,
        directed=directed, unlisted=unlisted, schema=schema,
    )  # fmt: skip
    with _importing(tables, out, options, quiet) as own:
        if own is not None:  # the graph goes into the run folder, and is named from there
            options = {key: value for key, value in options.items() if key != "target"}
            source = OWN_GRAPHS[0] if seeds == 1 else OWN_GRAPHS[1]
        chosen, data = _resolve(source, options, recipe, own, tables)
        if folds and data.level != "graph":
            raise GpmError(f"folds are for collections of graphs, not for {data.level}s; use --seeds.")
        if baselines and (data.level != "node" or chosen.config.model != "gpm" or data.metric in VALUE_METRICS):
            raise GpmError("--baselines goes with a gpm on classes of nodes; elsewhere train a baseline with --model.")
        plan = Plan(
            _plain(chosen.config.to_dict()), seeds, baselines, _digest(data, own or chosen.config.data),
            _version(), _plain(chosen.facts()), overwrite and out is not None,
            "" if result is None else str(Path(result).absolute()),
        )  # fmt: skip
        if out is not None and _is_finished(find_place(Path(out)), plan):
            _log.info("%s is finished, with the same options and data; --overwrite would train it again", out)
            return _reopen(find_place(Path(out)), plan, chosen, data, place)
        work = _take(out, chosen, plan)
        if own is not None:
            _move(own, work)
            data = load_by(work.part / GRAPH, chosen.config)  # from where it is now, for whoever maps it again
    with work:
        check_ranks(team, chosen.config)
        return _work(work, chosen, data, team, track, quiet)


def _launch(given: dict[str, Any], devices: int, machines: int, restarts: int) -> Run | list[Run]:
    """Train with ranks that are started here, and open what they made."""
    source, device = given["source"], choose_device(given["device"])
    check_devices(device, devices)
    threads = given["threads"] or max(1, (os.cpu_count() or 1) // devices)
    arguments = {key: value for key, value in given.items() if key != "options"} | given["options"]
    try:
        folders = launch(_train_rank, {"arguments": arguments | {"threads": threads}}, devices, machines, restarts)
    except LostError as error:
        raise GpmError(f"{str(error).rstrip('.')}; the same command again goes on from the last epoch saved.") from None
    if folders is None:  # rank 0 is on another machine
        return []
    runs = [
        Run(Path(folder), None if isinstance(source, (str, Path)) else _reload(folder, source), device)
        for folder in folders
    ]
    return runs[0] if len(runs) == 1 else runs


def _reload(folder: str, source: Any) -> TaskData:
    return load_by(source, read_config(Path(folder) / CONFIG))


def _train_rank(arguments: dict[str, Any]) -> list[str] | None:
    """What a rank that `_launch` started does; returns where its runs are."""
    runs = train(**arguments)
    found = runs if isinstance(runs, list) else [runs]
    return [str(run.folder.absolute()) for run in found] or None


def _importing(
    tables: Tables | None, out: Path | None, options: dict[str, Any], quiet: bool
) -> AbstractContextManager[Path | None]:
    """The graph made of tables, beside the run folder to be; None if there are no tables."""
    if tables is None:
        return nullcontext()
    near = Path("runs") / tables.name if out is None else find_place(Path(out))
    task, metric = options.get("task", "auto"), options.get("metric", "auto")
    return tables.importing(near, task=task, metric=metric, progress=not quiet)


def _move(graph: Path, work: Workplace) -> None:
    """Put the graph made of tables into the run folder; an unfinished training has it already."""
    try:
        if not (work.part / GRAPH).exists():
            graph.rename(work.part / GRAPH)
    except BaseException:
        work.close()
        raise


def _work(work: Workplace, recipe: Recipe, data: TaskData, team: Team, track: Tracker, quiet: bool) -> Run | list[Run]:
    """Train all seeds of a plan in its workplace, and put the folder in its place."""
    plan, began = work.plan, time.monotonic()
    if team.world.size > 1:
        source = recipe.config.data
        own = work.part.absolute() / GRAPH if source in OWN_GRAPHS else source
        team.world.share(Errand(settle_options(recipe.config, data), own))
        _log.info("%d ranks train together, %d on this machine", team.world.size, team.world.local_size)
    if work.begun:
        _log.info("going on with %s, an unfinished training with the same options and data", work.part)
    try:
        runs = []
        for seed, folder in _folders(work.part, plan):
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
            _log.info("interrupted; gpm train --resume %s goes on", work.folder)
        raise
    runs = [run.moved_to(folder) for run, (_, folder) in zip(runs, _folders(work.folder, plan), strict=True)]
    if plan.result:
        write_json(Path(plan.result), summary)
    if plan.seeds > 1:
        _log.info(describe_summary(summary))
    _log.info("saved in %s", work.folder)
    return runs[0] if plan.seeds == 1 else runs


def _folders(folder: Path, plan: Plan) -> list[tuple[int, Path]]:
    """The seeds of a plan, and where each is trained."""
    seeds = range(plan.config["seed"], plan.config["seed"] + plan.seeds)
    return [(seed, folder if plan.seeds == 1 else folder / f"seed-{seed}") for seed in seeds]


def _take(out: Path | None, recipe: Recipe, plan: Plan) -> Workplace:
    """The user's folder; or else the first that is free, or holds an unfinished training of this very plan."""
    if out is not None:
        return Workplace(find_place(Path(out)), plan)
    first = Path("runs") / recipe.name
    for i in range(1, 1_000_000):
        try:
            return Workplace(first if i == 1 else Path(f"{first}-{i}"), plan)
        except TakenError:
            continue
    raise GpmError(f"all names like {first} are taken; name a folder with --out.")


def _is_finished(folder: Path, plan: Plan) -> bool:
    """Whether this very training is there, whole, and not to be done again."""
    settle(folder)
    if plan.overwrite or not is_complete(folder) or not (folder / PLAN).is_file():
        return False
    return not Plan.read(folder).difference(plan) and all(finding.harmless for finding in check_folder(folder))


def _reopen(folder: Path, plan: Plan, recipe: Recipe, data: TaskData | None, device: str) -> Run | list[Run]:
    """The runs of a finished folder; the figures are written again where they were asked for."""
    runs = [Run(path, data, device) for _, path in _folders(folder, plan)]
    if plan.result:
        write_json(Path(plan.result), summarise(runs, recipe, sum(run.result["train_seconds"] for run in runs)))
    return runs[0] if plan.seeds == 1 else runs


def _resume(
    given: Path, source: Any, team: Team, track: Tracker, quiet: bool, options: dict[str, Any]
) -> Run | list[Run]:
    """Go on with an unfinished training, by the plan that it keeps."""
    folder = target_of(given)
    settle(folder)
    if not (part_of(folder) / PLAN).is_file():
        return _resume_finished(folder, source, team.device, options)
    plan = Plan.read(part_of(folder))
    if plan.result:  # a folder may come from elsewhere, and must not say what is overwritten
        _log.info("the figures are not written to %s: give the same command again for that", plan.result)
        plan = replace(plan, result="")
    config = Config.from_dict(plan.config, str(part_of(folder) / PLAN))
    _refuse_changes(config, options)
    in_memory = source if not isinstance(source, (str, Path)) else config.data
    if in_memory == "":
        raise GpmError(f"{folder} was trained on a graph in memory; give it: train(graph, resume=folder).")
    if isinstance(in_memory, str):
        in_memory = locate(in_memory, _folders(part_of(folder), plan)[0][1])
        if isinstance(in_memory, Path) and not in_memory.is_dir():
            raise GpmError(f"{folder} was ended before its graph was there; give the same command again.")
    data = load_by(in_memory, config)
    if _digest(data, in_memory if isinstance(in_memory, Path) else config.data) != plan.data_digest:
        what = config.data or "the graph"
        raise GpmError(f"{folder} cannot be gone on with: {what} was changed since; train anew with --overwrite.")
    try:
        recipe = Recipe(config=config, **plan.recipe)
    except TypeError:
        raise GpmError(
            f"{part_of(folder) / PLAN} is damaged: it names no recipe; train anew with --overwrite."
        ) from None
    with Workplace(folder, plan) as work:
        check_ranks(team, config)
        return _work(work, recipe, data, team, track, quiet)


def _resume_finished(folder: Path, source: Any, device: str, options: dict[str, Any]) -> Run | list[Run]:
    if (folder.parent / PLAN).is_file():
        raise GpmError(f"{folder} is one of several seeds; go on with all of them: --resume {folder.parent}.")
    if is_complete(folder) and (folder / PLAN).is_file():
        plan = Plan.read(folder)
        config = Config.from_dict(plan.config, str(folder / PLAN))
    elif (folder / CONFIG).is_file():
        plan, config = None, read_config(folder / CONFIG)
    else:
        raise GpmError(f"{folder} is not a run folder: it has no {CONFIG}.")
    _refuse_changes(config, options)
    if plan is None and not (folder / RESULT).is_file():
        raise GpmError(f"{folder} was begun by an earlier gpm, and cannot be gone on with; train it anew.")
    _log.info("%s is finished; nothing to resume", folder)
    data = None if isinstance(source, (str, Path)) else load_by(source, config)
    paths = [folder] if plan is None else [path for _, path in _folders(folder, plan)]
    runs = [Run(path, data, device) for path in paths]
    return runs[0] if len(runs) == 1 else runs


def _refuse_changes(config: Config, options: dict[str, Any]) -> None:
    changed = [key for key, value in options.items() if value != getattr(config, key, None)]
    if changed:
        raise GpmError(f"a resumed run keeps its options; leave out {', '.join(changed)}.")


def _digest(data: TaskData, source: str | Path) -> str:
    """Of the graph; and after a blank of what else a training rests on: published parts, names of classes."""
    graph, masks = digest_data(data.graph, source), getattr(data, "masks", None)
    words = json.dumps([getattr(data, key, ()) for key in ("class_names", "targets")])
    more = hashlib.sha256(words.encode())
    for part in PARTS if masks is not None else ():
        more.update(np.packbits(getattr(masks, part)).tobytes())
    return f"{graph} {more.hexdigest()[:16]}"


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    content: dict[str, Any] = json.loads(json.dumps(values))
    return content


def _version() -> str:
    from gpm import __version__

    return __version__


def _resolve(
    source: Any, options: dict[str, Any], base: str = "", own: Path | None = None, tables: Tables | None = None
) -> tuple[Recipe, TaskData]:
    """The recipe (or the defaults) with the options in it, and the data.

    Args:
        source: What the user named.
        options: What was chosen besides.
        base: A recipe to begin with, where the source is none.
        own: The graph that was made of the user's tables, if any.
        tables: These tables.
    """
    if own is None and "target" in options:
        options = options | {"target": _name_target(source, options)}
    recipe = find_recipe(str(source)) if own is None and isinstance(source, (str, Path)) and str(source) else None
    if recipe is None and "data" in options:
        raise GpmError("data is an option of recipes; without one, the first argument says what to train on.")
    if isinstance(source, (str, Path)) and not str(source):
        raise GpmError("say what to train on: a recipe (gpm recipes), a dataset (gpm data) or a file.")
    unknown = [key for key in options if key not in option_names()]
    if unknown:
        raise GpmError(f"there is no option {unknown[0]!r}.{nearest(unknown[0], option_names())}")
    if recipe is not None and not base:
        recipe = replace(recipe, config=recipe.config.with_(**options), changed=recipe.config.changes(options))
        return recipe, load_by(recipe.config.data, recipe.config)
    name, begin = "graph", _begin_with(base)
    if isinstance(source, (str, Path)):
        path = Path(source).expanduser()
        place = str(path.resolve()) if own is None and path.exists() else str(source)  # found from any folder later on
        name, options = path.stem, {"data": place} | options
    config = begin.with_(**options)
    return Recipe(name if tables is None else tables.name, config), load_by(own or source, config)


def _name_target(source: Any, options: dict[str, Any]) -> str:
    """A target as the options keep it: a graph of the user's by a path that is found from any folder."""
    target = "" if options["target"] is None else options["target"]
    if not isinstance(target, (str, Path)):
        raise GpmError(f"a target in memory, as this {kind_of(target)}, goes with gpm.adapt(source, target).")
    path = Path(target).expanduser()
    there = path.is_file() or (path / HEADER).is_file()
    if not str(target) or options.get("smiles") or has_columns(source) or not there:
        return str(target)
    return str(path.resolve())


def _begin_with(name: str) -> Config:
    """The options of a recipe, for data of the user's own."""
    if not name:
        return Config()
    recipe = find_recipe(name)
    if recipe is None:
        raise GpmError(f"there is no recipe {name!r}.{nearest(name, recipe_names())} gpm recipes lists them.")
    plain = {"data": "", "task": "auto", "metric": "auto", "split": "auto", "smiles": "", "target": ""}
    plain |= {"validate": "source", "adapt": "none", "shift": "none"}
    return recipe.config.with_(**plain)


def _check_tracker(track: Tracker) -> None:
    """Refuse a tracker that is not installed before anything is written."""
    if track not in get_args(Tracker):
        raise GpmError(f"there is no tracker {track!r}; choose one of {', '.join(get_args(Tracker))}.")
    if track != "none" and importlib.util.find_spec(track) is None:
        raise GpmError(f"--track {track} needs {track}: pip install 'graph-pattern-machine[tracking]'.")
