"""Predictions of an opened run: probabilities, calibrated on request, or numbers with calibrated intervals.

All instances that a run can predict have one fixed order, in which they are read a block at a time.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm.auto import tqdm

from gpm.data.bipartite import choose_sides
from gpm.data.graph_files import opening_pairs
from gpm.data.splits import LinkSplit
from gpm.errors import GpmError
from gpm.graph.find import find_nodes
from gpm.graph.graph import Graph
from gpm.inference.calibration import DRAWS, Calibration, calibrate_run, measure_spread, spread_factor
from gpm.inference.opened import OpenedRun
from gpm.io.table_files import distinct, write_table
from gpm.nn.predictor import Predicts
from gpm.patterns.walks import has_edge
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask, load_task

if TYPE_CHECKING:
    import pandas as pd

_log = logging.getLogger("gpm")
_BLOCK = 1 << 20  # instances that are looked at together


@dataclass(eq=False, repr=False)
class Predictions:
    """Predictions of some instances.

    Args:
        keys: Columns that name the instances: node; source and target; or graph, with its name or, in a table of
            molecules, with the line, the SMILES and the columns of ids.
        logits: `[B, C]`.
        task: The meaning of the logits.
        temperature: Divides the logits before they become probabilities, see `gpm.inference.calibration`.
        low, high: The ends of an interval for each number of a regression `[B, C]`; None without intervals.
        calibrated: The intervals cover the error, not only the spread of the drawing.
        truth: The labels, as the targets of the task; None if they are unknown.
    """

    keys: dict[str, list[Any]]
    logits: Tensor
    task: Task
    _: KW_ONLY
    temperature: float = 1.0
    low: NDArray | None = None
    high: NDArray | None = None
    calibrated: bool = True
    truth: Tensor | None = None

    @property
    def names(self) -> list[Any]:
        """The names of the instances; a link is a pair of names."""
        columns = list(self.keys.values())
        if isinstance(self.task, LinkTask):
            return list(zip(*columns, strict=True))
        return columns[2] if "line" in self.keys else self.keys.get("name", columns[0])

    @property
    def probability(self) -> NDArray:
        """The probability of each class or label, or of the link `[B, C]`; for a regression, the numbers."""
        return self.task.answers(self.logits, self.temperature).numpy()

    @property
    def labels(self) -> NDArray:
        """The predicted class `[B]`; for several labels or a link, yes or no; for a regression, the numbers."""
        if isinstance(self.task, ClassTask):
            return self.task.choose(self.logits)
        answers = self.task.answers(self.logits).numpy()
        return answers[:, 0] >= 0.5 if isinstance(self.task, LinkTask) else answers

    def columns(self) -> dict[str, Any]:
        """Return the table by column: names of the instance, prediction, true label, probabilities or interval."""
        table = self.task.table(self.logits, self.temperature)
        if self.truth is not None:
            first = {name: table[name] for name in table if name.startswith(("prediction", "probability"))}
            table = first | self.task.truth(self.truth) | table
        if isinstance(self.task, ValueTask) and self.low is not None and self.high is not None:
            ends = ("low", "high") if self.calibrated else ("spread_low", "spread_high")
            for end, values in zip(ends, (self.low, self.high), strict=True):
                table |= {name: values[:, i].astype("float32") for i, name in enumerate(self.task.columns(end))}
        names = distinct([*table, *self.keys])[len(table) :]  # a column of the user's may be called like one of ours
        return dict(zip(names, self.keys.values(), strict=True)) | table

    def frame(self) -> pd.DataFrame:
        """Return the table as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def __len__(self) -> int:
        return len(self.logits)

    def _repr_html_(self) -> str:
        return str(self.frame()._repr_html_())

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
        truth = None if self.run.truth is None else self.run.truth[torch.from_numpy(inputs)]
        options: dict[str, Any] = {"patterns": self.patterns, "progress": self.progress}
        logits = self.predictor.logits(inputs, **options)
        if not isinstance(task, ValueTask):
            temperature = calibration.temperature if calibration else 1.0
            return Predictions(keys, logits, task, temperature=temperature, truth=truth)
        if not self.interval and calibration is None:
            return Predictions(keys, logits, task, truth=truth)
        spread = task.in_units(measure_spread(self.predictor, inputs, logits, draws=self.draws, **options))
        width = (calibration.widths(spread) if calibration else spread_factor(self.draws) * spread).numpy()
        middle = task.answers(logits).numpy()
        ends = {"low": middle - width, "high": middle + width, "calibrated": calibration is not None}
        return Predictions(keys, logits, task, **ends, truth=truth)


def prepare_inference(
    run: OpenedRun, *, patterns: int | None = None, interval: bool = False, draws: int = DRAWS,
    calibrate: bool | None = None, progress: bool = False, total: int = 0,
) -> Inference:  # fmt: skip
    """Load the model, and calibrate it: by default the intervals, if there are any, and not the probabilities.

    Of calibrated intervals, 9 in 10 hold the true value on the validation split. Without calibration an interval
    measures the effect of chance: with more and more patterns, 9 in 10 predictions would converge to a number inside.
    It does not measure the error, and its columns are called spread_low and spread_high.

    Args:
        run: The run.
        patterns: Patterns per instance; by default the whole pool.
        interval: Also compute intervals, for a regression.
        draws: Draws of patterns for an interval; the work grows with their number.
        calibrate: Fit probabilities, or intervals, to the validation split first. None fits intervals if that is
            possible.
        progress: Show a progress bar.
        total: Number of instances that will be predicted a few at a time; 0 if all at once.
    """
    task = load_task(run.metadata, None)
    if interval and not isinstance(task, ValueTask):
        raise GpmError(f"{run.folder} predicts no numbers, which alone have intervals; leave out the interval.")
    drawn = run.config.model == "gpm"
    if interval and calibrate is False and not drawn:
        raise GpmError(f"{run.folder} holds a {run.config.model}, which draws no patterns; calibrate its intervals.")
    calibration = None
    if calibrate or (interval and calibrate is None):
        try:
            calibration = calibrate_run(run, draws=draws, patterns=patterns, progress=progress)
        except GpmError as error:
            if calibrate:
                raise
            interval = drawn
            instead = "spread_low and spread_high show the effect of drawing patterns, not the error"
            _log.warning("No calibrated intervals%s. %s", f"; {instead}" if drawn else "", error)
    predictor = run.predictor.look_ahead(total, patterns) if total else run.predictor
    return Inference(run, predictor, task, calibration, interval, draws, patterns, progress)


def recommend(run: OpenedRun, node: object, top: int = 10, **options: Any) -> Predictions:
    """Predict the most likely new neighbours of a node, or of several; see `gpm.run.run.Run.recommend`."""
    if run.data.level != "link":
        raise GpmError(f"{run.folder} predicts {run.data.level}s; train with --task link to recommend neighbours.")
    if not isinstance(top, (int, np.integer)) or top < 1:
        raise GpmError(f"The number of neighbours to recommend must be at least 1, got {top}.")
    several = isinstance(node, (list, tuple, np.ndarray))
    starts = find_nodes(run.data.graph, list(node) if several else [node])  # type: ignore[call-overload]
    sides, inference = _find_sides(run), prepare_inference(run, **options)
    pairs, logits = np.zeros((0, 2), dtype=np.int64), torch.zeros(0, 1)
    for start in tqdm(starts.tolist(), unit="node", disable=not (several and inference.progress) or None, leave=False):
        if not len(others := _find_candidates(run.data.graph, start, sides)):
            continue
        scored = inference.predict(np.stack([np.full(len(others), start), others], 1)).logits
        best = np.argsort(-scored[:, 0].numpy(), kind="stable")[:top]
        pairs = np.concatenate([pairs, np.stack([np.full(len(best), start), others[best]], 1)])
        logits = torch.cat([logits, scored[torch.from_numpy(best)]])
    temperature = inference.calibration.temperature if inference.calibration else 1.0
    return Predictions(run.name(pairs), logits, inference.task, temperature=temperature)


def _find_sides(run: OpenedRun) -> NDArray | None:
    """Return the sides of the graph, if the run was trained on a bipartite one."""
    split = run.home.split
    if not isinstance(split, LinkSplit) or split.sides is None:
        return None
    return choose_sides(run.data.graph, "yes", run.data.title) if run.other else split.sides


def _find_candidates(graph: Graph, start: int, sides: NDArray | None) -> NDArray[np.int64]:
    """Return the nodes that are no neighbours of a node; in a bipartite graph, those that are not of its side."""
    others = np.setdiff1d(np.arange(graph.num_nodes), [*graph.neighbors(start), start])
    others = others[~has_edge(graph, others, start)]  # a link has no direction
    if sides is None or sides[start] < 0:
        return others
    return np.asarray(others[sides[others] != sides[start]])


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
