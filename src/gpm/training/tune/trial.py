"""Train one trial of a study and validate it after every epoch; the targets of the test split are out of reach."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback

from gpm.config import Config
from gpm.data.sources import TaskData
from gpm.data.splits import Split
from gpm.errors import GpmError
from gpm.nn.predictor import Predicts
from gpm.tasks import Task
from gpm.tasks.metrics import METRICS
from gpm.training.callbacks import Stop, StoppedError
from gpm.training.distributed.lead import Team, check_ranks
from gpm.training.distributed.ranks import ALONE
from gpm.training.fit import calm, make_trainer
from gpm.training.prepare import Training, selection_metric


@dataclass
class Course:
    """Course of a trial."""

    value: float | None = None  # validation metric of the epoch that a training would keep
    epoch: int = 0  # that epoch, counted from 1
    epochs: int = 0  # epochs that were trained
    why: str = ""  # reason for an early end


class Follow(Callback):
    """Notes the best epoch, and ends the trial when it diverges or `give_up(epoch, value)` returns a reason to."""

    def __init__(self, config: Config, course: Course, give_up: Callable[[int, float], str], stop: Stop) -> None:
        self.metric, self.select, self.last = config.metric, selection_metric(config), config.select == "last"
        self.course, self.give_up, self.stop = course, give_up, stop
        self._best = (-math.inf, -math.inf)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.stop.listen()

    def on_train_batch_end(self, *_: Any) -> None:
        if self.stop.asked:
            raise StoppedError

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        course, scores = self.course, {name: float(value) for name, value in trainer.callback_metrics.items()}
        course.epochs = epoch = trainer.current_epoch + 1
        if not all(math.isfinite(scores[name]) for name in ("train_loss", "val_loss", f"val_{self.metric}")):
            course.why = "diverged"
        else:
            sign = 1 if METRICS[self.select].larger else -1
            rank = sign * scores[f"val_{self.select}"], -scores["val_loss"]  # as KeepBest compares epochs
            if self.last or rank > self._best:
                self._best, course.value, course.epoch = rank, scores[f"val_{self.metric}"], epoch
            assert course.value is not None
            course.why = self.give_up(epoch, course.value) if epoch < (trainer.max_epochs or 0) else ""
        trainer.should_stop = trainer.should_stop or bool(course.why)


@dataclass(frozen=True, eq=False)
class Bench:
    """Data, split and device that all trials of a study share."""

    data: TaskData
    split: Split
    device: str

    def build(self, config: Config) -> tuple[Training, Predicts]:
        """Prepare a trial as `gpm train` prepares a training, but without the targets of the test split."""
        check_ranks(Team(ALONE, self.device), config)
        training = Training.of(config, self.data, self.split, device=self.device)
        training = replace(training, task=hide_test(training.task, self.split))
        return training, training.build()

    def fit(self, config: Config, course: Course, give_up: Callable[[int, float], str], stop: Stop) -> None:
        """Train with some options; nothing is written."""
        try:
            training, predictor = self.build(config)
            learner = training.make_learner(predictor)
            follow = [Follow(config, course, give_up, stop)]
            with calm():
                trainer = make_trainer(config, self.device, callbacks=follow, logger=False, enable_checkpointing=False)
                trainer.fit(learner)
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            raise GpmError("Not enough memory for these options.") from None
        finally:
            gc.collect()  # trainer and learner hold each other, and with them the weights of the last trial


def hide_test(task: Task, split: Split) -> Task:
    """Return the same task with unknown targets in the test split, so that no study can have read them."""
    targets = task.targets.clone()
    targets[torch.from_numpy(split.test.copy())] = math.nan if targets.is_floating_point() else -1
    return replace(task, targets=targets)  # type: ignore[type-var]
