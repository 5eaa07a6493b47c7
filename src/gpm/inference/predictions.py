"""Predictions of an opened run: probabilities, or numbers with intervals, calibrated on request.

All instances that a run can predict have one fixed order, in which they are read a block at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.data.graph_files import opening_pairs
from gpm.errors import GpmError
from gpm.graph.find import find_nodes
from gpm.inference.calibration import DRAWS, Calibration, calibrate_run, measure_spread, spread_factor
from gpm.inference.opened import OpenedRun
from gpm.io.table_files import write_table
from gpm.nn.predictor import Predicts
from gpm.patterns.walks import has_edge
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask, load_task

if TYPE_CHECKING:
    import pandas as pd

_BLOCK = 1 << 20  # instances that are looked at together


@dataclass(eq=False, repr=False)
class Predictions:
    """Predictions of some instances.

    Args:
        keys: Columns that name the instances: node; source and target; or graph.
        logits: `[B, C]`.
        task: The meaning of the logits.
        temperature: Divides the logits before they become probabilities, see `gpm.inference.calibration`.
        low, high: The ends of an interval for each number of a regression `[B, C]`; None without intervals.
    """

    keys: dict[str, list[Any]]
    logits: Tensor
    task: Task
    _: KW_ONLY
    temperature: float = 1.0
    low: NDArray | None = None
    high: NDArray | None = None

    @property
    def names(self) -> list[Any]:
        """The names of the instances; a link is a pair of names."""
        if "name" in self.keys:
            return self.keys["name"]
        columns = list(self.keys.values())
        return list(zip(*columns, strict=True)) if "target" in self.keys else columns[0]

    @property
    def probability(self) -> NDArray:
        """The probability of each class or label, or of the link `[B, C]`; for a regression, the numbers."""
        return self.task.answers(self.logits, self.temperature).numpy()

    @property
    def labels(self) -> NDArray:
        """The predicted class `[B]`; for several labels or a link, yes or no; for a regression, the numbers."""
        answers = self.task.answers(self.logits).numpy()
        if isinstance(self.task, ClassTask):
            return self.task.choose(answers)
        return answers[:, 0] >= 0.5 if isinstance(self.task, LinkTask) else answers

    def columns(self) -> dict[str, Any]:
        """Return the table by column: names of the instance, prediction, probabilities or interval."""
        table = self.task.table(self.logits, self.temperature)
        if isinstance(self.task, ValueTask) and self.low is not None and self.high is not None:
            for end, values in (("low", self.low), ("high", self.high)):
                table |= {name: values[:, i].astype("float32") for i, name in enumerate(self.task.columns(end))}
        return self.keys | table

    def frame(self) -> pd.DataFrame:
        """Return the table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def __len__(self) -> int:
        return len(self.logits)

    def save(self, path: str | Path) -> None:
        """Write a table: .csv, .tsv, .parquet or .jsonl."""
        write_table(Path(path), self.columns())


@dataclass(frozen=True, eq=False)
class Inference:
    """A run made ready by `prepare_inference` to predict some instances after others."""

    run: OpenedRun
    predictor: Predicts
    task: Task
    calibration: Calibration | None
    interval: bool
    draws: int
    patterns: int | None
    progress: bool

    def predict(self, inputs: NDArray) -> Predictions:
        """Predict nodes or graphs `[B]` or pairs `[B, 2]` by their ids."""
        keys, calibration, task = self.run.name(inputs), self.calibration, self.task
        options: dict[str, Any] = {"patterns": self.patterns, "progress": self.progress}
        logits = self.predictor.logits(inputs, **options)
        if not isinstance(task, ValueTask):
            return Predictions(keys, logits, task, temperature=calibration.temperature if calibration else 1.0)
        if not self.interval and calibration is None:
            return Predictions(keys, logits, task)
        spread = task.in_units(measure_spread(self.predictor, inputs, logits, draws=self.draws, **options))
        width = (calibration.widths(spread) if calibration else spread_factor(self.draws) * spread).numpy()
        middle = task.answers(logits).numpy()
        return Predictions(keys, logits, task, low=middle - width, high=middle + width)


def prepare_inference(
    run: OpenedRun, *, patterns: int | None = None, interval: bool = False, draws: int = DRAWS, calibrate: bool = False,
    progress: bool = False, total: int = 0,
) -> Inference:  # fmt: skip
    """Load the model and, on request, calibrate it.

    Without calibration an interval measures the effect of chance: with more and more patterns, 9 in 10 predictions
    would converge to a number inside. It does not measure the error. With calibration it does: 9 in 10 true values of
    the validation split lie inside.

    Args:
        run: The run.
        patterns: Patterns per instance; by default the whole pool.
        interval: Also compute intervals, for a regression.
        draws: Draws of patterns for an interval; the work grows with their number.
        calibrate: Fit probabilities, or intervals, to the validation split first.
        progress: Show a progress bar.
        total: Number of instances that will be predicted a few at a time; 0 if all at once.
    """
    task = load_task(run.metadata, None)
    if interval and not isinstance(task, ValueTask):
        raise GpmError(f"{run.folder} predicts no numbers, which alone have intervals; leave out the interval.")
    if interval and not calibrate and run.config.model != "gpm":
        raise GpmError(f"{run.folder} holds a {run.config.model}, which draws no patterns; calibrate its intervals.")
    calibration = calibrate_run(run, draws=draws, patterns=patterns, progress=progress) if calibrate else None
    predictor = run.predictor.look_ahead(total, patterns) if total else run.predictor
    return Inference(run, predictor, task, calibration, interval, draws, patterns, progress)


def recommend(run: OpenedRun, node: object, top: int = 10, **options: Any) -> Predictions:
    """Predict the most likely new neighbours of a node; see `gpm.run.run.Run.recommend`."""
    if run.data.level != "link":
        raise GpmError(f"{run.folder} predicts {run.data.level}s; train with --task link to recommend neighbours.")
    if not isinstance(top, (int, np.integer)) or top < 1:
        raise GpmError(f"The number of neighbours to recommend must be at least 1, got {top}.")
    graph = run.data.graph
    start = graph.find(node)
    others = np.setdiff1d(np.arange(graph.num_nodes), [*graph.neighbors(start), start])
    others = others[~has_edge(graph, others, start)]  # a link has no direction
    pairs = np.stack([np.full(len(others), start), others], 1)
    scored = prepare_inference(run, **options).predict(pairs)
    best = np.argsort(-scored.logits[:, 0].numpy(), kind="stable")[:top]
    logits = scored.logits[torch.from_numpy(best)]
    return Predictions(run.name(pairs[best]), logits, scored.task, temperature=scored.temperature)


@dataclass(frozen=True, eq=False)
class Instances:
    """All instances, in order."""

    total: int
    reader: Callable[[int, int], Iterable[NDArray]]  # reads `first` to `last - 1`, in blocks of any size
    digest: str = ""  # the SHA-256 of the file of a table of pairs

    def read(self, first: int, last: int, size: int) -> Iterator[NDArray]:
        """Read nodes or graphs `[B]` or pairs `[B, 2]`, `first` to `last - 1`, `size` at a time or, at last, fewer."""
        waiting: list[NDArray] = []
        for block in self.reader(first, last):
            while len(block):
                room = size - sum(map(len, waiting))
                waiting.append(block[:room])
                block = block[room:]
                if sum(map(len, waiting)) == size:
                    yield np.concatenate(waiting)
                    waiting = []
        if waiting:
            yield np.concatenate(waiting)


@contextmanager
def opening_instances(run: OpenedRun, pairs: Path | None = None, *, new: bool = False) -> Iterator[Instances]:
    """Open all nodes or graphs of a run's data, those that are `new` to the run, or the pairs of a table."""
    level, graph = run.data.level, run.data.graph
    if (level == "link") != (pairs is not None) or (level == "link" and new):
        needs = "a table of pairs, and no new nodes" if level == "link" else "no table of pairs"
        raise GpmError(f"{run.folder} predicts {level}s, for which it needs {needs}.")
    if pairs is not None:
        with opening_pairs(pairs) as table, pairs.open("rb") as file:

            def read(first: int, last: int) -> Iterator[NDArray]:
                for block in table.read(first, last):
                    yield find_nodes(graph, [name for pair in block for name in pair]).reshape(-1, 2)

            if not (total := table.table.count()):
                raise GpmError(f"{pairs} holds no pairs; write one 'source,target' per line.")
            yield Instances(total, read, hashlib.file_digest(file, "sha256").hexdigest())
    elif level == "node" and not new:
        yield Instances(graph.num_nodes, _count)
    else:
        ids = run.find(new=new)
        yield Instances(len(ids), lambda first, last: [ids[first:last]])


def _count(first: int, last: int) -> Iterator[NDArray]:
    return (np.arange(begin, min(begin + _BLOCK, last)) for begin in range(first, last, _BLOCK))
