"""What training and inference ask of a model on its graph, whatever kind of model it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

_Batch = TypeVar("_Batch", bound=Sized)


class Predicts(ABC):
    """A model with the graph it reads: instances in, logits out."""

    model: Any

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        device: torch.device = self.model.input_map.bias.device
        return device

    @abstractmethod
    def prepare(self, inputs: Tensor, turn: int, rows: Tensor | None = None) -> tuple[Any, dict[str, float]]:
        """Return what the model reads of some instances in step `turn` of a training, and the seconds that it took.

        `rows` are the indices of the instances among all instances of the step, over all ranks.
        """

    @abstractmethod
    def compute(self, content: Any, model: nn.Module | None = None) -> Tensor:
        """Return the logits of a training step, with gradients, from what `prepare` returned."""

    def learn(self, inputs: Tensor, turn: int, model: nn.Module | None = None) -> Tensor:
        """Return the logits of a training step of a single process, with gradients."""
        return self.compute(self.prepare(inputs, turn)[0].to(self.device), model)

    @abstractmethod
    def logits(self, inputs: Any, *, patterns: int | None = None, model: Any = None, progress: bool = False) -> Tensor:
        """Return the logits `[B, C]` of nodes `[B]`, graphs `[B]` or pairs `[B, 2]`, on the host."""

    @abstractmethod
    def look_ahead(self, total: int, patterns: int | None = None) -> Self:
        """Return a predictor that computes once what `total` instances share, for reading a few of them at a time."""

    @abstractmethod
    def count_together(self, patterns: int | None = None) -> int:
        """Return how many instances one forward pass reads, or 1 if batches are not taken in order.

        The last bits of a prediction depend on the other instances of its batch.
        """


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Switch dropout off while the block runs."""
    mode = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(mode)


def show_progress(batches: Iterable[_Batch], total: int, unit: str, progress: bool) -> Iterator[_Batch]:
    """Yield batches and show a bar of how many of `total` instances are done."""
    with tqdm(total=total, unit=unit, disable=None if progress else True, leave=False) as bar:
        for batch in batches:
            yield batch
            bar.update(len(batch))
