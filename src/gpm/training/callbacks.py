"""Callbacks of a training: signals, the log, the best weights, the checkpoint to resume from, the progress bar."""

from __future__ import annotations

import csv
import io
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from tqdm.auto import tqdm

from gpm.errors import GpmError
from gpm.io.archives import check_zip
from gpm.io.atomic import replacing, write_text
from gpm.tasks.metrics import METRICS
from gpm.training.distributed.ranks import ALONE, World
from gpm.training.lightning_module import Learner
from gpm.training.pace import Pace, show_time

SAVING_SHARE = 0.02  # share of the time that may go to saving checkpoints
LONG = 600.0  # seconds of a training that is announced
ONCE = 1.0  # seconds within which repeated signals count as one
_log = logging.getLogger("gpm")


class StoppedError(Exception):
    """The user stopped the training; what was saved can be resumed."""


class Stop:
    """Notes Ctrl-C and SIGTERM: the first sets `asked` and logs a message, a second one stops the training at once."""

    def __init__(self, world: World = ALONE, message: str = "") -> None:
        self.world, self.message, self.asked = world, message, False
        self._time, self._active = 0.0, False

    def listen(self) -> None:
        """Put our handlers in place again, if `listening`: Lightning puts its own before ours."""
        if self._active:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._note)

    def _note(self, number: int, frame: Any) -> None:
        if self.asked and self.world.size > 1 and time.monotonic() - self._time < ONCE:
            return  # whoever started the ranks passes on what they have received already
        if self.asked:
            raise StoppedError
        self.asked, self._time = True, time.monotonic()
        if self.message:
            _log.info(self.message)

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Handle signals while the block runs, in the main thread; in other threads they are not ours."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self._active = True
        self.listen()
        try:
            yield self
        finally:
            self._active = False
            for number, handler in before.items():
                signal.signal(number, handler)


class AtomicCheckpoints(TorchCheckpointIO):
    """Writes checkpoints atomically; rank 0 reads them for all."""

    def __init__(self, world: World = ALONE) -> None:
        super().__init__()
        self.world = world

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        content = io.BytesIO()
        torch.save(checkpoint, content)  # on a full disk it would raise an error of its own kind
        with replacing(Path(path)) as scratch:
            scratch.write_bytes(content.getbuffer())

    def load_checkpoint(self, path: Any, *arguments: Any, **options: Any) -> dict[str, Any]:
        checkpoint: Any = None
        if self.world.leads:
            try:
                check_zip(path)
                checkpoint = super().load_checkpoint(path, *arguments, **options)
            except Exception as error:  # whatever a damaged file makes torch raise
                reason = str(error).rstrip(".") if isinstance(error, GpmError) else type(error).__name__
                checkpoint = f"{path} cannot be read ({reason}); remove it to train anew."
        content: dict[str, Any] | str = self.world.share(checkpoint)
        if isinstance(content, str):
            raise GpmError(content)
        return content


class Resumed(Callback):
    """A callback of which a checkpoint keeps some attributes."""

    kept: tuple[str, ...]

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for name in self.kept:
            setattr(self, name, state_dict[name])


class History(Resumed):
    """Writes one row per epoch to `metrics.csv`; a resumed run adds to the rows that it had."""

    kept = ("rows",)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, float]] = []
        self._began = self._before = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._began = time.monotonic()
        self._before = self.rows[-1]["seconds"] if self.rows else 0.0

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        scores = {name: round(float(value), 6) for name, value in trainer.callback_metrics.items()}
        seconds = round(self._before + time.monotonic() - self._began, 2)
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        row = {"epoch": trainer.current_epoch + 1, "step": trainer.global_step, "seconds": seconds, "lr": rate}
        self.rows.append(row | scores)
        if not trainer.is_global_zero:
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, dict.fromkeys(key for row in self.rows for key in row), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_text(self.path, text.getvalue())


class KeepBest(Resumed):
    """Calls `save` with the model whenever the metric of a split is better than ever before, or after every epoch.

    Of epochs with the same metric, the one with the lowest loss on the split is better. Epoch 0 is a model whose linear
    part is fitted before training; other models have none.
    """

    kept = ("best", "epoch", "loss")

    def __init__(
        self, metric: str, save: Callable[[torch.nn.Module], None], part: str = "val", always: bool = False
    ) -> None:
        self.metric, self.save, self.part, self.always = f"{part}_{metric}", save, part, always
        self.sign = 1 if METRICS[metric].larger else -1
        self.best, self.loss = -float("inf"), -float("inf")
        self.epoch: int | None = None

    @property
    def state_key(self) -> str:
        return "KeepBest" if self.part == "val" else f"KeepBest {self.part}"

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({"loss": -float("inf")} | state_dict)  # older checkpoints keep the first of equals
        self.epoch = None if self.best == -float("inf") else self.epoch

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, Learner)
        if self.part == "val" and self.epoch is None and pl_module.begins_fitted and not trainer.current_epoch:
            self._compare({f"val_{name}": value for name, value in pl_module.score("val").items()}, 0, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        scores = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self._compare(scores, trainer.current_epoch + 1, pl_module)

    def _compare(self, scores: dict[str, float], epoch: int, pl_module: pl.LightningModule) -> None:
        value, loss = scores[self.metric] * self.sign, scores[f"{self.part}_loss"]
        if self.always or value > self.best or (value == self.best and loss < self.loss):
            self.best, self.epoch, self.loss = value, epoch, loss
            assert isinstance(pl_module, Learner)
            if pl_module.trainer.is_global_zero:
                self.save(pl_module.final_model)


class SaveState(Resumed, Checkpoint):
    """Saves the state to resume from at the end of epochs, as often as saving is cheap beside training.

    Ctrl-C (or SIGTERM) on any rank lets the epoch end, saves and stops them all. Rank 0 decides when to save.
    """

    kept = ("stopped",)

    def __init__(self, path: Path, world: World = ALONE) -> None:
        self.path, self.world, self.stopped, self._next = path, world, False, 0.0
        self.stop = Stop(world, "\nfinishing the epoch, then saving; press Ctrl-C again to stop at once")

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.stop.listen()
        if self.stopped:  # it had stopped early, and was killed before it was scored
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        last = trainer.should_stop or trainer.current_epoch + 1 == trainer.max_epochs
        stop = bool(self.world.add_up(torch.tensor(int(self.stop.asked))))
        if not self.world.share(time.monotonic() >= self._next or last or stop):
            return
        began = time.monotonic()
        self.stopped = trainer.should_stop
        trainer.save_checkpoint(self.path)
        ended = time.monotonic()
        self._next = ended + (ended - began) / SAVING_SHARE
        if stop and not last:
            raise StoppedError


class Progress(Callback):
    """Shows a bar over the epochs, with the time left; without a terminal, a line every so many seconds.

    A long training is announced by its first steps.
    """

    def __init__(self, metric: str, show: bool = True, every: float = 20.0) -> None:
        self.metric, self.kind, self.show, self.every = f"val_{metric}", METRICS[metric], show, every
        self._bar: Any = None
        self._pace = Pace(1)
        self.best: float | None = None
        self._logged = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.show and trainer.is_global_zero:
            layout = "{percentage:3.0f}%|{bar}| epoch {n_fmt} of " + _at_most(trainer) + "{total_fmt}{postfix}"
            self._bar = tqdm(
                total=trainer.max_epochs, initial=trainer.current_epoch, bar_format=layout, disable=None,
            )  # fmt: skip
        self._pace = Pace(int(trainer.num_training_batches))
        self._logged = time.monotonic()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self._bar is None or (seconds := self._pace.end_step()) is None:
            return
        epochs = (trainer.max_epochs or 0) - trainer.current_epoch
        if epochs * seconds > LONG:
            with tqdm.external_write_mode():
                _log.info(
                    "training takes %s%s: %s%d epochs of %s (measured on the first steps)",
                    _at_most(trainer) or "about ", show_time(epochs * seconds), _at_most(trainer), epochs,
                    show_time(seconds),
                )  # fmt: skip

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._bar is None:
            return
        loss, value = (float(trainer.callback_metrics[name]) for name in ("train_loss", self.metric))
        self.best = value if self.best is None else (max if self.kind.larger else min)(self.best, value)
        shown, epoch, most = self.kind.show(value), trainer.current_epoch + 1, trainer.max_epochs or 0
        seconds = self._pace.end_epoch()
        pace = f"{show_time(seconds)} per epoch"
        if epoch < most:
            pace += f", {_at_most(trainer) or 'about '}{show_time((most - epoch) * seconds)} left"
        self._bar.set_postfix_str(
            f"loss {loss:.3f}, val {shown}, best {self.kind.show(self.best)}, {pace}", refresh=False
        )
        self._bar.update(1)
        if self._bar.disable and (time.monotonic() - self._logged > self.every or epoch == most):
            _log.info("epoch %d of %s%d: loss %.3f, val %s, %s", epoch, _at_most(trainer), most, loss, shown, pace)
            self._logged = time.monotonic()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._bar is not None:
            self._bar.close()

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)


def _at_most(trainer: pl.Trainer) -> str:
    """Return what to say before a number of epochs or a time: a training that stops early may take fewer."""
    return "at most " if trainer.early_stopping_callback else ""
