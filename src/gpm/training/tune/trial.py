"""One trial: a model trained with some options and validated after every epoch. The test part is out of reach."""

from __future__ import annotations

import gc
import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping

from gpm.config import Config
from gpm.data.sources import TaskData, walked_graph
from gpm.data.splits import Split
from gpm.errors import GpmError
from gpm.nn.build import build_predictor
from gpm.nn.predictor import Predicts
from gpm.tasks import Task, make_task
from gpm.tasks.metrics import METRICS
from gpm.training.batches import Examples
from gpm.training.callbacks import StoppedError
from gpm.training.fit import calm
from gpm.training.lightning_module import Learner


class Stop:
    """Whether the user wants to stop: Ctrl-C (or SIGTERM) ends the trial after its step, a second one at once."""

    def __init__(self) -> None:
        self.asked = False

    def listen(self) -> None:
        """Handle the signals (in the main thread; elsewhere they are not ours)."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._note)

    def _note(self, number: int, frame: Any) -> None:
        if self.asked:
            raise StoppedError
        self.asked = True

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Listen while the block runs."""
        usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self.listen()
        try:
            yield self
        finally:
            if threading.current_thread() is threading.main_thread():
                for number, handler in usual.items():
                    signal.signal(number, handler)


@dataclass
class Course:
    """How a trial goes.

    Attributes:
        value: The validation figure of the epoch that a training would keep; None before the first.
        epoch: That epoch, counted from 1.
        epochs: Epochs that were trained.
        why: Why it ended before its time; empty if it did not.
    """

    value: float | None = None
    epoch: int = 0
    epochs: int = 0
    why: str = ""


class Follow(Callback):
    """Keeps the figure of the best epoch, and ends the trial when it diverges or is not worth going on with.

    Args:
        config: The options of the trial.
        course: What is written down.
        give_up: Told (epoch, figure) after every epoch, says why to end the trial; an empty text to go on.
        stop: Whether the user wants to stop.
    """

    def __init__(self, config: Config, course: Course, give_up: Callable[[int, float], str], stop: Stop) -> None:
        self.metric, self.select = config.metric, config.metric if config.select == "metric" else "loss"
        self.course, self.give_up, self.stop = course, give_up, stop
        self._best = -math.inf

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.stop.listen()  # Lightning has just put a handler of its own before ours

    def on_train_batch_end(self, *_: Any) -> None:
        if self.stop.asked:
            raise StoppedError

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        course, found = self.course, trainer.callback_metrics
        course.epochs = epoch = trainer.current_epoch + 1
        value, chosen = float(found[f"val_{self.metric}"]), float(found[f"val_{self.select}"])
        if not all(math.isfinite(float(found[name])) for name in ("train_loss", "val_loss", f"val_{self.metric}")):
            course.why = "diverged"
        else:
            chosen *= 1 if METRICS[self.select].larger else -1
            if chosen > self._best:
                self._best, course.value, course.epoch = chosen, value, epoch
            assert course.value is not None
            course.why = self.give_up(epoch, course.value) if epoch < (trainer.max_epochs or 0) else ""
        trainer.should_stop = trainer.should_stop or bool(course.why)


@dataclass(frozen=True, eq=False)
class Bench:
    """What all trials share: data, parts and the graph that may be walked."""

    data: TaskData
    split: Split
    device: str

    def build(self, config: Config) -> tuple[Task, Predicts]:
        """The task, without the answers of the test part, and a model with fresh weights."""
        torch.manual_seed(config.seed)
        task = hide_test(make_task(self.data, self.split, config), self.split)
        graph = walked_graph(self.data, self.split)
        seen = self.split.train if self.data.level == "graph" else None
        return task, build_predictor(config, graph, task.outputs, self.data.level, device=self.device, seen=seen)

    def fit(self, config: Config, course: Course, give_up: Callable[[int, float], str], stop: Stop) -> None:
        """Train with some options; nothing is written."""
        try:
            task, predictor = self.build(config)
            learner = Learner(predictor, Examples(self.data, task, self.split, config.seed), config)
            with calm():
                self._trainer(config, Follow(config, course, give_up, stop)).fit(learner)
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            raise GpmError("there is not enough memory for these options.") from None
        finally:
            gc.collect()  # trainer and learner hold each other, and with them the weights of the last trial

    def _trainer(self, config: Config, follow: Follow) -> pl.Trainer:
        callbacks: list[Callback] = [follow]
        if config.patience:
            mode = "max" if METRICS[follow.select].larger else "min"
            callbacks.append(EarlyStopping(f"val_{follow.select}", mode=mode, patience=config.patience))
        kind, _, index = self.device.partition(":")
        return pl.Trainer(
            accelerator=kind,
            devices=[int(index)] if index else 1,
            precision=config.precision,
            max_epochs=config.epochs,
            gradient_clip_val=config.clip,
            callbacks=callbacks,
            logger=False,
            enable_checkpointing=False,
            num_sanity_val_steps=0,
            log_every_n_steps=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )


def hide_test(task: Task, split: Split) -> Task:
    """The same task with the answers of the test part unknown, so that no study can have read them."""
    targets = task.targets.clone()
    targets[torch.from_numpy(split.test.copy())] = math.nan if targets.is_floating_point() else -1
    hidden: Task = replace(task, targets=targets)  # type: ignore[type-var]
    return hidden
