"""One training in its folder: prepared, fitted so that it can be killed at any time, scored and written down."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from gpm.compute import describe_environment
from gpm.config import SIZES, Config, Strategy, Tracker
from gpm.data.domain_data import DomainData, DomainSplit
from gpm.data.link_data import LinkData, LinkSplit
from gpm.data.sources import TaskData, walked_graph
from gpm.data.splits import PARTS, Split
from gpm.errors import GpmError
from gpm.inference.model_json import MODEL, write_facts
from gpm.inference.weights import load_weights, save_weights
from gpm.io.archives import check_zip
from gpm.io.atomic import write_json
from gpm.io.manifest import write_checksums
from gpm.nn.predictor import Predicts
from gpm.run.run import (
    CONFIG,
    ENVIRONMENT,
    HISTORY,
    PREDICTIONS,
    RESULT,
    SPLIT,
    STATE,
    WEIGHTS,
    Run,
    build_predictor,
    write_config,
)  # fmt: skip
from gpm.run.workplace import PART, is_complete, target_of
from gpm.tasks import ClassTask, Task, make_task
from gpm.tasks.metrics import METRICS, show_scores
from gpm.training.batches import Examples, Times
from gpm.training.distributed.ranks import ALONE, LostError, World, is_lost, ordering, release
from gpm.training.recipes import Recipe, is_comparable

OTHER = "other.safetensors"  # while training: the weights of the epoch that the other domain would choose
MOST_PREDICTIONS = 1_000_000  # instances of the test part whose answers are kept in the run folder
_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class Job:
    """One training: what, on what, where to, and how it is shown."""

    config: Config
    data: TaskData
    digest: str
    folder: Path
    recipe: Recipe
    device: str = "cpu"
    track: Tracker = "none"
    baselines: bool = False
    quiet: bool = False
    world: World = ALONE
    workers: int = 0
    strategy: Strategy = "ddp"


@dataclass(frozen=True)
class Order:
    """What rank 0 tells the others to do: fit this, and help to score it."""

    job: Job
    split: Split
    saved: bool


def carry_out(job: Job) -> Run:
    """Train, score and write all that makes up a run; what an interrupted training has done is not done again.

    This is for rank 0; the others `follow` it.
    """
    folder = job.folder
    if is_complete(folder):
        return Run(folder, job.data, job.device)
    if (folder / CONFIG).is_file():
        write_config(folder / CONFIG, job.config)  # the plan's, whatever became of the file meanwhile
    if (folder / RESULT).is_file():
        run = Run(folder, job.data, job.device)
    else:
        begun = (folder / CONFIG).is_file()
        split = Split.load(folder / SPLIT, follow=False) if begun else draw_split(job.data, job.config)
        saved = begun and (folder / STATE).is_file()
        with ordering():
            if job.world.size > 1:
                job.world.share(Order(replace(job, data=cast(Any, None)), split, saved))
            prepared = _prepare_together(job, split)  # before anything is written: most mistakes show here
            if not begun:
                _begin(job, split)
            run = _fit(job, split, *prepared, saved)
    if job.baselines and "baselines" not in run.result:
        _score_baselines(run)
    for done in (STATE, OTHER):
        (folder / done).unlink(missing_ok=True)
    write_checksums(folder)
    return run


def follow(order: Order, data: TaskData, world: World, device: str) -> None:
    """Train and score beside rank 0, without writing anything."""
    job = replace(order.job, data=data, world=world, device=device, track="none", quiet=True)
    try:
        task, predictor = _prepare_together(job, order.split)
    except GpmError:  # which rank 0 tells
        return
    found = _train(job, order.split, task, predictor, order.saved)
    if not found.best_epoch:
        return
    world.send_weights(predictor.model)
    for part in ("val", "test"):
        _read(job, order.split, predictor, part)
    if isinstance(data, DomainData) and not data.scored:
        _read_nodes(job, predictor, data.nodes(away=True))
    if isinstance(order.split, DomainSplit) and found.other_epoch:
        world.send_weights(predictor.model)
        for part in ("other", "test"):
            _read(job, order.split, predictor, part)


def draw_split(data: TaskData, config: Config) -> Split:
    """The parts that the options name, none of them empty."""
    kind = "" if config.split == "auto" else config.split
    if isinstance(data, LinkData):
        split: Split = data.make_split(config.seed, kind, config.protocol)
    elif isinstance(data, DomainData):
        split = data.make_split(config.seed, kind, config.validate)
    else:
        split = data.make_split(config.seed, kind)
    for part in PARTS:
        if not len(getattr(split, part)):
            raise GpmError(f"no {data.level} is in the {part} part of split {split.name!r}; try --split 60/20/20.")
    return split


def _begin(job: Job, split: Split) -> None:
    """Write what is known before the first epoch."""
    for stale in (CONFIG, WEIGHTS, OTHER, MODEL, STATE, HISTORY):
        (job.folder / stale).unlink(missing_ok=True)
    split.save(job.folder / SPLIT)
    write_json(job.folder / "recipe.json", job.recipe.facts())
    write_json(job.folder / ENVIRONMENT, describe_environment())
    write_config(job.folder / CONFIG, job.config)  # last: from here on the run can be gone on with


def _prepare_together(job: Job, split: Split) -> tuple[Task, Predicts]:
    """Prepare on every rank; a mistake that one of them finds is raised on all, which then listen again."""
    prepared, fault = None, ""
    try:
        prepared = _prepare(job, split)
    except LostError:
        raise
    except GpmError as error:
        fault = str(error)
    if fault := job.world.agree(fault):
        release()
        raise GpmError(fault)
    assert prepared is not None
    return prepared


def _prepare(job: Job, split: Split) -> tuple[Task, Predicts]:
    """The task and a model with fresh weights."""
    config, data = job.config, job.data
    torch.manual_seed(config.seed)
    task = make_task(data, split, config)
    if config.adapt != "none" and not isinstance(data, DomainData):
        raise GpmError(f"--adapt {config.adapt} needs a target: name one with --target_graph, or try --shift degree.")
    if config.validate == "target" and not isinstance(data, DomainData):
        raise GpmError("--validate target needs a target: name one with --target_graph, or try --shift degree.")
    graph, seen = walked_graph(data, split), split.train if data.level == "graph" else None
    if isinstance(data, DomainData) and data.home_graphs:
        seen = np.arange(data.home_graphs)  # statistics are the source's
    stream = job.workers > 0 and not job.device.startswith("cpu")

    def build() -> Predicts:
        torch.manual_seed(config.seed)
        return build_predictor(config, graph, task.outputs, data.level, device=job.device, seen=seen, stream=stream)

    return task, job.world.in_turn(build, wait=config.pe != "none")  # what takes long to find is kept for the others


def _fit(job: Job, split: Split, task: Task, predictor: Predicts, saved: bool) -> Run:
    """Train, keep the best, score it and write what is left to write."""
    config, data, folder = job.config, job.data, job.folder
    _announce(job, split, predictor, task)
    write_facts(folder, predictor, task, data.level, job.digest)
    found = _train(job, split, task, predictor, saved)
    if not found.best_epoch:
        (folder / CONFIG).unlink()  # there is nothing to go on with
        release()
        raise GpmError("the validation was never a number: the training diverged; lower --lr.")
    load_weights(predictor.model, folder / WEIGHTS)
    job.world.send_weights(predictor.model)
    run = Run(folder, data, job.device)
    run.__dict__.update(predictor=predictor, task=task, split=split, config=config)  # they are loaded already
    _finish(run, found, job)
    return run


@dataclass(frozen=True)
class Trained:
    """What a training found: its best epoch, a row per epoch, where its time went, and what the other domain chose."""

    best_epoch: int
    rows: list[dict[str, float]]
    times: Times
    other_epoch: int = 0


def _train(job: Job, split: Split, task: Task, predictor: Predicts, saved: bool) -> Trained:
    """Fit a model with Lightning, from what was saved if there is such; on every rank."""
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import EarlyStopping

    from gpm.training.callbacks import AtomicCheckpoints, History, KeepBest, Progress, SaveState, StoppedError
    from gpm.training.distributed.strategies import make_strategy

    config, folder, world = job.config, job.folder, job.world
    learner = _make_learner(job, split, task, predictor)
    history, state = History(folder / HISTORY), SaveState(folder / STATE, world)
    chosen = config.metric if config.select == "metric" else "loss"
    best = KeepBest(chosen, lambda model: save_weights(model, folder / WEIGHTS))
    other = KeepBest(chosen, lambda model: save_weights(model, folder / OTHER), "other")
    both = isinstance(split, DomainSplit)
    callbacks: list[Any] = [history, best, *([other] if both else []), Progress(config.metric, not job.quiet), state]
    if config.patience:
        mode = "max" if METRICS[chosen].larger else "min"
        callbacks.insert(0, EarlyStopping(f"val_{chosen}", mode=mode, patience=config.patience))
    with calm():
        kind, _, index = job.device.partition(":")
        trainer = pl.Trainer(
            accelerator=kind,
            devices=world.local_size if world.size > 1 else [int(index)] if index else 1,
            num_nodes=world.size // world.local_size,
            strategy=make_strategy(job.strategy, world, job.device, learner.times),
            accumulate_grad_batches=config.accumulate,
            precision=config.precision,
            max_epochs=config.epochs,
            gradient_clip_val=config.clip,
            callbacks=callbacks,
            logger=_loggers(job),
            plugins=[AtomicCheckpoints(world)],
            default_root_dir=folder,
            num_sanity_val_steps=0,
            log_every_n_steps=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        try:
            with state.listening():
                if saved and job.strategy == "fsdp" and world.leads:
                    check_zip(folder / STATE)  # Lightning reads it by itself
                trainer.fit(learner, ckpt_path=str(folder / STATE) if saved else None, weights_only=True)
        except StoppedError:
            raise KeyboardInterrupt from None
        except RuntimeError as error:
            if world.size == 1 or not is_lost(error):
                raise
            raise LostError(
                f"another rank has ended; gpm train --resume {target_of(folder)} goes on from the last epoch saved."
            ) from None
    _close(trainer.loggers)
    predictor.model.to(job.device)  # Lightning leaves it on the host
    return Trained(best.epoch, history.rows, learner.times, other.epoch)


def _make_learner(job: Job, split: Split, task: Task, predictor: Predicts) -> Any:
    """What Lightning trains: on the nodes of two domains, if the options say so."""
    from gpm.shift.losses import Adaptation, DomainExamples
    from gpm.training.lightning_module import Learner

    config, data = job.config, job.data
    arguments = config, job.world, job.workers, job.strategy == "fsdp"
    if config.adapt == "none":
        return Learner(predictor, Examples(data, task, split, config.seed), *arguments)
    assert isinstance(data, DomainData)
    return Learner(
        predictor, DomainExamples(data, task, split, config.seed), *arguments, adaptation=Adaptation(config, data)
    )


def _read(job: Job, split: Split, predictor: Predicts, part: str) -> torch.Tensor:
    """Logits of a part, to which every rank adds its share; whole on rank 0."""
    ids = getattr(split, part)
    return _read_nodes(job, predictor, split.pairs[ids] if isinstance(split, LinkSplit) else ids)


def _read_nodes(job: Job, predictor: Predicts, inputs: NDArray) -> torch.Tensor:
    mine = inputs[job.world.rank :: job.world.size]
    return job.world.join(predictor.logits(mine, progress=not job.quiet), len(inputs), everywhere=False)


def _announce(job: Job, split: Split, predictor: Predicts, task: Task) -> None:
    config, data = job.config, job.data
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
def calm() -> Iterator[None]:
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
            warnings.filterwarnings("ignore", message=".*broadcast_buffers.*")  # its new name is not known to old torch
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _loggers(job: Job) -> Any:
    """The trackers that the user asked for; the CSV log is always there."""
    if job.track == "none":
        return False
    from lightning.pytorch import loggers

    if job.track == "tensorboard":
        return loggers.TensorBoardLogger(str(job.folder), name="", version="tensorboard")
    if job.track == "wandb":
        return loggers.WandbLogger(name=_title(job.folder), project=f"gpm-{job.recipe.name}", save_dir=str(job.folder))
    return loggers.MLFlowLogger(experiment_name=f"gpm-{job.recipe.name}", run_name=_title(job.folder))


def _title(folder: Path) -> str:
    return folder.name.removesuffix(PART)


def _close(loggers: list[Any]) -> None:
    """End what would go on writing into a folder that is about to be renamed."""
    for logger in loggers:
        if finish := getattr(logger.experiment, "finish", None):
            finish()


def _finish(run: Run, found: Trained, job: Job) -> None:
    """Score the kept weights with all patterns; the test part is read here, once."""
    from gpm.run.model_card import write_card

    config, metric, best_epoch, rows = run.config, run.config.metric, found.best_epoch, found.rows
    said = {part: _read(job, run.split, run.predictor, part) for part in ("val", "test")}
    scores = {part: run.score(part, logits) for part, logits in said.items()}
    asked, answers = run.split.test, said["test"]
    if isinstance(run.data, DomainData) and not run.data.scored:  # the target is what answers are wanted of
        asked = run.data.nodes(away=True)
        answers = _read_nodes(job, run.predictor, asked)
    if len(asked) <= MOST_PREDICTIONS:
        run.describe(asked, answers).save(run.folder / PREDICTIONS)
    else:
        _log.info("answers of more than %s instances are not kept; see gpm predict --shard", f"{MOST_PREDICTIONS:,}")
    used = f", with {config.pool} patterns" if config.model == "gpm" else ""
    content: dict[str, Any] = {
        "data": run.data.title, "task": run.data.level, "model": config.model, "metric": metric, "val": scores["val"],
        "test": scores["test"], "seed": config.seed,
        "protocol": f"split {run.split.name}; epoch chosen by validation {config.select}; test read once{used}",
        "split_digest": run.split.digest, "best_epoch": best_epoch, "epochs": len(rows),
        "train_seconds": rows[-1]["seconds"], "ranks": job.world.size, "workers": job.workers,
        "time_shares": found.times.shares(), "seconds_per_step": round(found.times.per_step, 6),
        "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    if isinstance(run.split, DomainSplit):
        content |= {"chosen_on": run.split.chosen_on}
        content |= {"other": _score_other(run, found, job)} if found.other_epoch else {}
    write_card(run, content, job.recipe)
    write_json(run.folder / RESULT, content)  # last: what has a result is trained and scored
    kind = METRICS[metric]
    figures = f"test {kind.show(scores['test'][metric])}, val {kind.show(scores['val'][metric])}"
    spent = f"(epoch {best_epoch} of {len(rows)}, {rows[-1]['seconds']:.0f} s)"
    _log.info("%s %s: %s %s%s", run.data.title, kind.title, figures, spent, _beside_paper(job))
    if found.times.seconds["total"]:
        _log.info("time of the steps: %s", found.times.describe(job.workers, job.world.size))
    if len(scores["test"]) > 3:
        _log.info("test: %s", show_scores(scores["test"]))
    if other := content.get("other"):
        _log.info(
            "chosen on the %s; chosen on the %s instead (epoch %d), the test would be %s", content["chosen_on"],
            other["chosen_on"], other["best_epoch"], kind.show(other["test"][metric]),
        )  # fmt: skip
    if config.task == "link" and config.protocol == "paper":
        _log.info("protocol paper: test edges are walked, so that this is no measure of quality; see strict")


def _score_other(run: Run, found: Trained, job: Job) -> dict[str, Any]:
    """What the test part would have been, had the other domain chosen the epoch."""
    assert isinstance(run.split, DomainSplit)
    model = run.predictor.model
    load_weights(model, run.folder / OTHER)
    job.world.send_weights(model)
    said = {part: _read(job, run.split, run.predictor, part) for part in ("other", "test")}
    load_weights(model, run.folder / WEIGHTS)
    scores = {part: run.score(part, logits) for part, logits in said.items()}
    return {
        "chosen_on": "target" if run.split.chosen_on == "source" else "source", "best_epoch": found.other_epoch,
        "val": scores["other"], "test": scores["test"],
    }  # fmt: skip


def _beside_paper(job: Job) -> str:
    """The paper's figure, where the run is of its model and protocol."""
    return job.recipe.beside_paper(METRICS[job.config.metric]) if is_comparable(job.config, job.recipe.changed) else ""


def _score_baselines(run: Run) -> None:
    """Score the baselines on the run's split, print them and add them to its result."""
    from gpm.training.trivial_baselines import score_baselines

    assert isinstance(run.task, ClassTask)
    found = score_baselines(run.data.graph, run.task, run.split, run.config.seed)
    write_json(run.folder / RESULT, run.result | {"baselines": found})
    _log.info(
        "beside it: most frequent class %.2f%%, MLP on features alone %.2f%%",
        100 * found["majority"],
        100 * found["mlp"],
    )
