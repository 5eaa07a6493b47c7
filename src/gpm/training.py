"""Train: a recipe or a dataset becomes a run folder."""

from __future__ import annotations

import importlib.util
import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch

from gpm.config import SIZES, Config, option_names
from gpm.data.links import LinkData
from gpm.data.load import TaskData, load_task_data, walked_graph
from gpm.data.splits import PARTS, Split
from gpm.devices import choose_device, keep_memory
from gpm.errors import GpmError, nearest
from gpm.files import write_json
from gpm.graph import Graph
from gpm.predictor import Predicts
from gpm.recipes import Recipe, find_recipe, is_comparable
from gpm.run import (
    CARD,
    CONFIG,
    ENVIRONMENT,
    HISTORY,
    MODEL,
    PREDICTIONS,
    RESULT,
    SPLIT,
    STATE,
    WEIGHTS,
    Run,
    build_predictor,
    load_weights,
    read_config,
    save_weights,
    write_config,
    write_facts,
)  # fmt: skip
from gpm.summary import describe_summary, environment, summarise
from gpm.tasks import ClassTask, Task, make_task
from gpm.tasks.metrics import METRICS, show_scores
from gpm.threads import set_threads

if TYPE_CHECKING:
    from torch_geometric.data import Data

Tracker = Literal["none", "tensorboard", "wandb", "mlflow"]
_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class _Job:
    """One training: what, on what, where to, and how it is shown."""

    config: Config
    data: TaskData
    split: Split
    folder: Path
    recipe: Recipe
    device: str
    track: Tracker
    quiet: bool


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
    **options: Any,
) -> Run | list[Run]:
    """Train a model on nodes, links or graphs, score it and save it all in a run folder.

    Args:
        source: A recipe's name (gpm recipes) or YAML file, a dataset's name (gpm data), a saved graph's folder, a PyG
            file (.pt) or a table of molecules; in Python also a PyG Data, a list of them, or a Graph.
        out: The run folder; by default a new one below runs.
        seeds: Train so many times, with seeds counted from `seed`, and report mean and standard deviation.
        folds: Cross-validate: so many folds, each of which is the test part once.
        resume: Go on with a run that was interrupted, exactly as it would have gone on.
        device: auto, cpu, cuda, cuda:1 or mps.
        threads: Threads to compute with; 0 takes what torch takes.
        track: Also log to TensorBoard, Weights & Biases or MLflow.
        result: Also write the figures, over all seeds, to this JSON file.
        baselines: For nodes, also score the most frequent class and a network on features alone, on the same split.
        overwrite: Write into a run folder that is there.
        quiet: No progress bar.
        options: Any option of `Config`, which overrides the recipe's.

    Returns:
        The run, or a list of runs where there are several seeds.
    """
    keep_memory()
    if threads < 0:
        raise GpmError(f"threads must not be negative, got {threads}.")
    if threads:
        set_threads(threads)
    place = choose_device(device)
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
        return _resume(Path(resume), source, place, track, quiet, options)
    if result is not None and (Path(result).is_dir() or Path(result).suffix != ".json"):
        raise GpmError(f"{result}: name a .json file for the figures.")
    recipe, data = _resolve(source, options)
    if folds and data.level != "graph":
        raise GpmError(f"folds are for collections of graphs, not for {data.level}s; use --seeds.")
    if baselines and (data.level != "node" or recipe.config.model != "gpm"):
        raise GpmError("--baselines goes with a gpm on nodes; elsewhere train a baseline with --model.")
    began = time.monotonic()
    folder = _choose_folder(out, recipe, overwrite)
    runs = []
    for seed in range(recipe.config.seed, recipe.config.seed + seeds):
        config = recipe.config.with_(seed=seed)
        where = folder if seeds == 1 else folder / f"seed-{seed}"
        runs.append(_train_one(config, data, where, place, track, quiet, recipe))
        if baselines:
            _score_baselines(runs[-1])
    summary = summarise(runs, recipe, time.monotonic() - began)
    if seeds > 1:
        write_json(folder / "summary.json", summary)
        _log.info(describe_summary(summary))
    if result is not None:
        write_json(Path(result), summary)
    return runs[0] if seeds == 1 else runs


def _resolve(source: Any, options: dict[str, Any]) -> tuple[Recipe, TaskData]:
    """The recipe (or the defaults) with the options in it, and the data."""
    recipe = find_recipe(str(source)) if isinstance(source, (str, Path)) and str(source) else None
    if recipe is None and "data" in options:
        raise GpmError("data is an option of recipes; without one, the first argument says what to train on.")
    if isinstance(source, (str, Path)) and not str(source):
        raise GpmError("say what to train on: a recipe (gpm recipes), a dataset (gpm data) or a file.")
    if recipe is None:
        name = "graph"
        if isinstance(source, (str, Path)):
            path = Path(source).expanduser()
            place = str(path.resolve()) if path.exists() else str(source)  # found from any folder later on
            name, options = path.stem, {"data": place} | options
        config = Config.from_dict(options)
        return Recipe(name, config), _load(source, config)
    unknown = [key for key in options if key not in option_names()]
    if unknown:
        raise GpmError(f"there is no option {unknown[0]!r}.{nearest(unknown[0], option_names())}")
    recipe = replace(recipe, config=recipe.config.with_(**options), changed=recipe.config.changes(options))
    return recipe, _load(recipe.config.data, recipe.config)


def _load(source: Any, config: Config) -> TaskData:
    return load_task_data(source, config.task, metric=config.metric, smiles=config.smiles, target=config.target)


def _choose_folder(out: Path | None, recipe: Recipe, overwrite: bool) -> Path:
    """A folder that is not there yet, unless the user allows another's place to be taken."""
    if out is not None:
        folder = Path(out)
        if folder.exists() and not overwrite and (not folder.is_dir() or any(folder.iterdir())):
            raise GpmError(f"{folder} exists; name another folder, or add --overwrite to write into it.")
        return folder
    first = Path("runs") / recipe.name
    return next(path for i in range(1, 1_000_000) if not (path := first if i == 1 else Path(f"{first}-{i}")).exists())


def _train_one(
    config: Config, data: TaskData, folder: Path, device: str, track: Tracker, quiet: bool, recipe: Recipe
) -> Run:
    config = config.with_(metric=data.metric if config.metric == "auto" else config.metric, task=data.level)
    if data.level == "node" and config.metric in ("mae", "rmse"):
        raise GpmError(f"{config.metric} is for numbers, but the labels of nodes are classes; choose another --metric.")
    split = make_split(data, config)
    for part in PARTS:
        if not len(getattr(split, part)):
            raise GpmError(f"no {data.level} is in the {part} part of split {split.name!r}; try --split 60/20/20.")
    job = _Job(config, data, split, folder, recipe, device, track, quiet)
    prepared = _prepare(job)  # before anything is written: most mistakes show here
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (CONFIG, WEIGHTS, MODEL, RESULT, STATE, HISTORY, PREDICTIONS, CARD):
        (folder / stale).unlink(missing_ok=True)
    split.save(folder / SPLIT)
    write_json(folder / "recipe.json", recipe.facts())
    write_json(folder / ENVIRONMENT, environment())
    write_config(folder / CONFIG, config)  # last: from here on the run can be resumed
    return _fit(job, *prepared)


def make_split(data: TaskData, config: Config) -> Split:
    """The parts that the options name."""
    kind = "" if config.split == "auto" else config.split
    if isinstance(data, LinkData):
        return data.make_split(config.seed, kind, config.protocol)
    return data.make_split(config.seed, kind)


def _resume(folder: Path, source: Any, device: str, track: Tracker, quiet: bool, options: dict[str, Any]) -> Run:
    if not (folder / CONFIG).is_file():
        raise GpmError(f"{folder} is not a run folder: it has no {CONFIG}.")
    config = read_config(folder / CONFIG)
    changed = [key for key, value in options.items() if value != getattr(config, key, None)]
    if changed:
        raise GpmError(f"a resumed run keeps its options; leave out {', '.join(changed)}.")
    in_memory = source if not isinstance(source, (str, Path)) else config.data
    if (folder / RESULT).is_file():
        _log.info("%s is finished; nothing to resume", folder)
        return Run(folder, _load(in_memory, config) if in_memory is source else None, device)
    if in_memory == "":
        raise GpmError(f"{folder} was trained on a graph in memory; give it: train(graph, resume=folder).")
    data = _load(in_memory, config)
    recipe = Recipe.from_facts(folder / "recipe.json", config)
    job = _Job(config, data, Split.load(folder / SPLIT), folder, recipe, device, track, quiet)
    return _fit(job, *_prepare(job), resume=True)


def _prepare(job: _Job) -> tuple[Task, Predicts]:
    """The task and a model with fresh weights."""
    config, data = job.config, job.data
    torch.manual_seed(config.seed)
    task = make_task(data, job.split, config)
    graph, seen = walked_graph(data, job.split), job.split.train if data.level == "graph" else None
    return task, build_predictor(config, graph, task.outputs, data.level, device=job.device, seen=seen)


def _fit(job: _Job, task: Task, predictor: Predicts, resume: bool = False) -> Run:
    """Train, keep the best, score it and write what is left to write."""
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import EarlyStopping

    from gpm.callbacks import AtomicCheckpoints, History, KeepBest, Progress, SaveState, StoppedError
    from gpm.learner import Examples, Learner

    config, data, folder = job.config, job.data, job.folder
    _announce(job, predictor, task)
    learner = Learner(predictor, Examples(data, task, job.split, config.seed), config)
    write_facts(folder, predictor, task, data.level)
    history, state = History(folder / HISTORY), SaveState(folder / STATE)
    chosen = config.metric if config.select == "metric" else "loss"
    best = KeepBest(chosen, lambda model: save_weights(model, folder / WEIGHTS))
    callbacks: list[Any] = [history, best, Progress(config.metric, not job.quiet), state]
    if config.patience:
        mode = "max" if METRICS[chosen].larger else "min"
        callbacks.insert(0, EarlyStopping(f"val_{chosen}", mode=mode, patience=config.patience))
    with _calm():
        kind, _, index = job.device.partition(":")
        trainer = pl.Trainer(
            accelerator=kind,
            devices=[int(index)] if index else 1,
            precision=config.precision,
            max_epochs=config.epochs,
            gradient_clip_val=config.clip,
            callbacks=callbacks,
            logger=_loggers(job),
            plugins=[AtomicCheckpoints()],
            default_root_dir=folder,
            num_sanity_val_steps=0,
            log_every_n_steps=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        try:
            with state.listening():
                saved = str(folder / STATE) if resume and (folder / STATE).is_file() else None
                trainer.fit(learner, ckpt_path=saved, weights_only=True)
        except StoppedError:
            _log.info("interrupted; gpm train --resume %s goes on", folder)
            raise KeyboardInterrupt from None
    if not best.epoch:
        raise GpmError("the validation was never a number: the training diverged; lower --lr.")
    load_weights(predictor.model, folder / WEIGHTS)
    run = Run(folder, data, job.device)
    run.__dict__.update(predictor=predictor, task=task, split=job.split, config=config)  # they are loaded already
    _finish(run, best.epoch, history.rows, job)
    return run


def _announce(job: _Job, predictor: Predicts, task: Task) -> None:
    config, data, split = job.config, job.data, job.split
    sizes = {shape: name for name, shape in SIZES.items()}
    shape = (config.layers, config.heads, config.width)
    size = f"size {sizes[shape]}, " if shape in sizes else ""
    parameters = predictor.model.count_parameters()
    _log.info("%s: %s; %s", data.title, data.graph.summary(), task.describe())
    _log.info(
        "split %s: %d train, %d val, %d test (%s)",
        split.name,
        *map(len, (split.train, split.val, split.test)),
        split.digest,
    )
    if config.model != "gpm":
        _log.info("model: %s, width %d, %s parameters", config.model, config.width, f"{parameters:,}")
        return
    _log.info(
        "model: %s%d layer(s), %d heads, width %d, %s parameters; patterns of lengths %s, %d of %d in training",
        size, *shape, f"{parameters:,}", config.lengths, config.patterns, config.pool,
    )  # fmt: skip


@contextmanager
def _calm() -> Iterator[None]:
    """Without Lightning's own remarks, of which none is for the user."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module="lightning")
            warnings.filterwarnings("ignore", message=".*treespec.*")
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _check_tracker(track: Tracker) -> None:
    """Refuse a tracker that is not installed before anything is written."""
    if track not in get_args(Tracker):
        raise GpmError(f"there is no tracker {track!r}; choose one of {', '.join(get_args(Tracker))}.")
    if track != "none" and importlib.util.find_spec(track) is None:
        raise GpmError(f"--track {track} needs {track}: pip install 'graph-pattern-machine[tracking]'.")


def _loggers(job: _Job) -> Any:
    """The trackers that the user asked for; the CSV log is always there."""
    if job.track == "none":
        return False
    from lightning.pytorch import loggers

    if job.track == "tensorboard":
        return loggers.TensorBoardLogger(str(job.folder), name="", version="tensorboard")
    if job.track == "wandb":
        return loggers.WandbLogger(name=job.folder.name, project=f"gpm-{job.recipe.name}", save_dir=str(job.folder))
    return loggers.MLFlowLogger(experiment_name=f"gpm-{job.recipe.name}", run_name=job.folder.name)


def _finish(run: Run, best_epoch: int, rows: list[dict[str, float]], job: _Job) -> None:
    """Score the kept weights with all patterns; the test part is read here, once."""
    from gpm.card import write_card

    config, metric = run.config, run.config.metric
    said = {part: run.read(part, progress=not job.quiet) for part in ("val", "test")}
    scores = {part: run.score(part, logits) for part, logits in said.items()}
    run.describe(run.split.test, said["test"]).save(run.folder / PREDICTIONS)
    used = f", with {config.pool} patterns" if config.model == "gpm" else ""
    content = {
        "data": run.data.title, "task": run.data.level, "model": config.model, "metric": metric, "val": scores["val"],
        "test": scores["test"], "seed": config.seed,
        "protocol": f"split {run.split.name}; epoch chosen by validation {config.select}; test read once{used}",
        "split_digest": run.split.digest, "best_epoch": best_epoch, "epochs": len(rows),
        "train_seconds": rows[-1]["seconds"], "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    write_card(run, content, job.recipe)
    write_json(run.folder / RESULT, content)  # last: a run with a result is finished
    (run.folder / STATE).unlink(missing_ok=True)
    kind = METRICS[metric]
    figures = f"test {kind.show(scores['test'][metric])}, val {kind.show(scores['val'][metric])}"
    spent = f"(epoch {best_epoch} of {len(rows)}, {rows[-1]['seconds']:.0f} s)"
    _log.info("%s %s: %s %s%s", run.data.title, kind.title, figures, spent, _beside_paper(job))
    if len(scores["test"]) > 3:
        _log.info("test: %s", show_scores(scores["test"]))
    if config.task == "link" and config.protocol == "paper":
        _log.info("protocol paper: test edges are walked, so that this is no measure of quality; see strict")
    _log.info("saved in %s", run.folder)


def _beside_paper(job: _Job) -> str:
    """The paper's figure, where the run is of its model and protocol."""
    return job.recipe.beside_paper(METRICS[job.config.metric]) if is_comparable(job.config, job.recipe.changed) else ""


def _score_baselines(run: Run) -> None:
    """Score the baselines on the run's split, print them and add them to its result."""
    from gpm.baselines import score_baselines

    assert isinstance(run.task, ClassTask)
    found = score_baselines(run.data.graph, run.task, run.split, run.config.seed)
    write_json(run.folder / RESULT, run.result | {"baselines": found})
    _log.info(
        "beside it: most frequent class %.2f%%, MLP on features alone %.2f%%",
        100 * found["majority"],
        100 * found["mlp"],
    )
