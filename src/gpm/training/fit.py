"""Run one training in its folder with Lightning, so that it can be killed at any time and resumed."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import torch

from gpm.compute import steady_threads
from gpm.config import Config
from gpm.data.domain_data import DomainSplit
from gpm.data.sources import TaskData
from gpm.data.splits import Split
from gpm.errors import GpmError
from gpm.inference.model_files import load_weights, save_weights, write_metadata
from gpm.inference.opened import Loaded
from gpm.io.archives import check_zip
from gpm.io.atomic import write_json
from gpm.io.environment import describe_environment
from gpm.io.manifest import write_checksums
from gpm.io.run_files import CONFIG, ENVIRONMENT, HISTORY, MODEL, RECIPE, RESULT, SPLIT, STATE, WEIGHTS, write_config
from gpm.nn.predictor import Predicts
from gpm.run.run import Run
from gpm.run.workplace import PART, is_complete, target_of
from gpm.tasks.metrics import METRICS
from gpm.training.baseline_options import baseline_config
from gpm.training.baseline_question import Scores, log_left_out
from gpm.training.distributed.ranks import ALONE, LostError, World, is_lost, ordering, release, silenced
from gpm.training.imbalance import choose_threshold
from gpm.training.prepare import Job, Training, draw_split, selection_metric
from gpm.training.score import OTHER, Trained, announce, read_held_out, read_splits, score_run

if TYPE_CHECKING:
    import lightning.pytorch as pl

NETWORKS = ("gcn", "sage", "mlp")  # that --baselines trains
_log = logging.getLogger("gpm")


@dataclass(frozen=True)
class Order:
    """What rank 0 tells the other ranks to fit and to help scoring."""

    job: Job
    split: Split
    saved: bool


def carry_out(job: Job) -> Run:
    """Train, score and write a run on rank 0, skipping what an interrupted training has done; others `follow` it."""
    folder = job.folder
    if is_complete(folder):
        return Run(folder, job.data, job.device)
    begun = (folder / CONFIG).is_file()
    if begun:
        write_config(folder / CONFIG, job.config)  # as planned, whatever became of the file meanwhile
    if (folder / RESULT).is_file():
        run = Run(folder, job.data, job.device)
    else:
        split = Split.load(folder / SPLIT, follow=False) if begun else draw_split(job.data, job.config)
        saved = begun and (folder / STATE).is_file()
        with ordering():
            if job.world.size > 1:
                job.world.share(Order(replace(job, data=cast(Any, None)), split, saved))
            training, predictor = _prepare_together(job, split)  # before anything is written: most mistakes show here
            if not begun:
                _begin(job, split)
            run = _fit(job, training, predictor, saved)
    for done in (STATE, OTHER):
        (folder / done).unlink(missing_ok=True)
    write_checksums(folder)
    return run


def follow(order: Order, data: TaskData, world: World, device: str) -> None:
    """Train and score beside rank 0, without writing anything."""
    job = replace(order.job, data=data, world=world, device=device, track="none", quiet=True)
    try:
        training, predictor = _prepare_together(job, order.split)
    except GpmError:  # which rank 0 reports
        return
    trained = _train(job, training, predictor, order.saved)
    if trained.best_epoch is None:
        return
    read_held_out(job, order.split, predictor)
    if isinstance(order.split, DomainSplit) and trained.other_epoch:
        read_splits(job, order.split, predictor, "other", "test")


def _begin(job: Job, split: Split) -> None:
    """Write what is known before the first epoch."""
    for stale in (CONFIG, WEIGHTS, OTHER, MODEL, STATE, HISTORY):
        (job.folder / stale).unlink(missing_ok=True)
    split.save(job.folder / SPLIT)
    write_json(job.folder / RECIPE, job.recipe.facts())
    write_json(job.folder / ENVIRONMENT, describe_environment())
    write_config(job.folder / CONFIG, job.config)  # last: from here on the run can be resumed


def _prepare_together(job: Job, split: Split) -> tuple[Training, Predicts]:
    """Prepare on every rank; an error that one of them finds is raised on all, which then listen again."""
    prepared, fault = None, ""
    try:
        stream = job.workers > 0 and not job.device.startswith("cpu")
        training = Training.of(job.config, job.data, split, device=job.device, stream=stream)
        # Positions and columns that take long to compute are cached by rank 0 for the others.
        config = job.config
        slow = config.pe != "none" or config.expected > 0 or config.structure or config.position > 0
        prepared = training, job.world.in_turn(training.build, wait=slow)
    except LostError:
        raise
    except GpmError as error:
        fault = str(error)
    if fault := job.world.agree(fault):
        release()
        raise GpmError(fault)
    assert prepared is not None
    return prepared


def _fit(job: Job, training: Training, predictor: Predicts, saved: bool) -> Run:
    """Train, keep the best weights, score them and write the rest of the run."""
    folder, data = job.folder, job.data
    announce(training, predictor)
    write_metadata(folder, predictor, training.task, data.level, job.digest)
    trained = _train(job, training, predictor, saved)
    if trained.best_epoch is None:
        (folder / CONFIG).unlink()  # there is nothing to resume
        release()
        raise GpmError("The validation score was never a number: the training diverged; lower --lr.")
    load_weights(predictor.model, folder / WEIGHTS)
    networks = score_networks(job, training.split) if job.baselines else {}
    logits = read_held_out(job, training.split, predictor, training.task)
    if predictor.linear_share is not None:
        save_weights(predictor.model, folder / WEIGHTS)
    task = choose_threshold(training.task, training.split, logits["val"])
    write_metadata(folder, predictor, task, data.level, job.digest)
    run = Run(folder, data, job.device, loaded=Loaded(job.config, training.split, task, predictor))
    score_run(job, run, trained, logits, networks)
    return run


def score_networks(job: Job, split: Split) -> Scores:
    """Train the usual networks with the options and the split of a job, and score each; one that fails is left out."""
    scores: Scores = {}
    for model in (each for each in NETWORKS if each != job.config.model):
        _log.info("training %s for comparison", model)
        began = time.perf_counter()
        try:
            with silenced(("gpm",), logging.WARNING):
                scores[model] = _score_network(job, split, model)
        except Exception as error:  # out of memory, or a graph that the network refuses
            log_left_out(model, error)
        else:
            scores[model]["seconds"] = round(time.perf_counter() - began, 3)
    return scores


def _score_network(job: Job, split: Split, model: Any) -> dict[str, float]:
    config = baseline_config(job.config, job.recipe, model, job.data)
    with TemporaryDirectory(prefix="gpm-") as folder:
        job = replace(job, config=config, folder=Path(folder), track="none", quiet=True, workers=0, strategy="ddp")
        training = Training.of(config, job.data, split, device=job.device)
        predictor, task = training.build(), training.task
        if _train(job, training, predictor, saved=False).best_epoch is None:
            raise GpmError("Its training diverged.")
        load_weights(predictor.model, job.folder / WEIGHTS)
        logits = read_splits(job, split, predictor, "val", "test")
    return {
        part: task.score(logits[part], task.targets[torch.tensor(getattr(split, part))])[task.metric] for part in logits
    }


def _train(job: Job, training: Training, predictor: Predicts, saved: bool) -> Trained:
    """Fit a model with Lightning on every rank, from the saved state if there is one."""
    from gpm.training.callbacks import AtomicCheckpoints, History, KeepBest, Progress, SaveState, StoppedError
    from gpm.training.lightning_module import make_strategy

    config, folder, world, metric = job.config, job.folder, job.world, selection_metric(job.config)
    learner = training.make_learner(predictor, world, job.workers, job.strategy == "fsdp")
    history, state = History(folder / HISTORY), SaveState(folder / STATE, world)
    last = config.select == "last"
    best = KeepBest(metric, lambda model: save_weights(model, folder / WEIGHTS), always=last)
    other = KeepBest(metric, lambda model: save_weights(model, folder / OTHER), "other", last)
    keep = [best, other] if isinstance(training.split, DomainSplit) else [best]
    with calm(), steady_threads() if config.model == "gpm" else nullcontext():
        trainer = make_trainer(
            config, job.device, world, callbacks=[history, *keep, Progress(config.metric, not job.quiet), state],
            strategy=make_strategy(job.strategy, world, job.device, learner.times),
            logger=_make_tracker(job), plugins=[AtomicCheckpoints(world)], default_root_dir=folder,
        )  # fmt: skip
        try:
            with state.stop.listening():
                if saved and job.strategy == "fsdp" and world.leads:
                    check_zip(folder / STATE)  # Lightning reads it by itself
                trainer.fit(learner, ckpt_path=str(folder / STATE) if saved else None, weights_only=True)
        except StoppedError:
            raise KeyboardInterrupt from None
        except RuntimeError as error:
            if world.size == 1 or not is_lost(error):
                raise
            raise LostError(
                f"Another rank has ended; gpm train --resume {target_of(folder)} resumes from the last saved epoch."
            ) from None
    trackers: list[Any] = trainer.loggers
    for tracker in trackers:  # end what would go on writing into a folder that is about to be renamed
        if finish := getattr(tracker.experiment, "finish", None):
            finish()
    predictor.model.to(job.device)  # Lightning leaves it on the host
    return Trained(best.epoch, history.rows, learner.times, other.epoch)


def make_trainer(config: Config, device: str, world: World = ALONE, *, callbacks: list[Any], **more: Any) -> pl.Trainer:
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import EarlyStopping

    if config.patience:
        metric = selection_metric(config)
        mode = "max" if METRICS[metric].larger else "min"
        callbacks = [EarlyStopping(f"val_{metric}", mode=mode, patience=config.patience), *callbacks]
    kind, _, index = device.partition(":")
    return pl.Trainer(
        accelerator=kind, devices=world.local_size if world.size > 1 else [int(index)] if index else 1,
        num_nodes=world.size // world.local_size, accumulate_grad_batches=config.accumulate,
        precision=config.precision, max_epochs=config.epochs, gradient_clip_val=config.clip, callbacks=callbacks,
        num_sanity_val_steps=0, log_every_n_steps=1, enable_progress_bar=False, enable_model_summary=False,
        use_distributed_sampler=False, **more,
    )  # fmt: skip


@contextmanager
def calm() -> Iterator[None]:
    """Silence Lightning's own remarks, of which none is for the user."""
    with silenced(("lightning.pytorch", "lightning.fabric"), logging.ERROR), warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning, module="lightning")
        warnings.filterwarnings("ignore", message=".*treespec.*")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", message=".*broadcast_buffers.*")  # its new name is not in old torch
        yield


def _make_tracker(job: Job) -> Any:
    """Make the Lightning logger that the user chose; the CSV log is always written."""
    if job.track == "none":
        return False
    from lightning.pytorch import loggers

    project, title = f"gpm-{job.recipe.name}", job.folder.name.removesuffix(PART)
    if job.track == "tensorboard":
        return loggers.TensorBoardLogger(str(job.folder), name="", version="tensorboard")
    if job.track == "wandb":
        return loggers.WandbLogger(name=title, project=project, save_dir=str(job.folder))
    return loggers.MLFlowLogger(experiment_name=project, run_name=title)
