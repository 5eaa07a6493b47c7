"""An opened run: a trained model, its options and metadata, and the data it is applied to."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.config import Config
from gpm.data.sources import load_by
from gpm.data.splits import PARTS, DomainSplit, LinkSplit, Split
from gpm.data.tables.table_source import OWN_GRAPHS
from gpm.data.task_data import TaskData
from gpm.errors import GpmError
from gpm.graph.digest import check_digest
from gpm.graph.find import find_again, find_new
from gpm.graph.graph import Graph
from gpm.inference.model_files import check_shapes, load_weights, read_metadata, read_tensor
from gpm.io.atomic import read_json
from gpm.io.run_files import CONFIG, HISTORY, RESULT, SPLIT, WEIGHTS, read_config
from gpm.nn.build import build_model, build_predictor
from gpm.nn.expected_table import VOCABULARIES, Answers
from gpm.nn.feature_table import InputSpec
from gpm.nn.predictor import Predictor, Predicts
from gpm.patterns.walks import has_edge
from gpm.tasks import Task, load_task
from gpm.tasks.task import known_answers

if TYPE_CHECKING:
    import pandas as pd

SAMPLE = 1000  # edges by which another graph is recognised as the training graph
SAME_NODES, SAME_EDGES = 0.9, 0.5  # shares of the training nodes and edges that it must have


@dataclass(frozen=True, eq=False)
class Loaded:
    """Contents of a run folder that are in memory already, as after a training, and need not be read again."""

    config: Config
    split: Split
    task: Task
    predictor: Predicts


class OpenedRun:
    """A trained model in its folder. Data and model are loaded when first used.

    Without `data` to predict, the training data is loaded again. `other` data has no split, and nothing in it is held
    out; `home` is the same run on its training data, if it is open already. `source` is the folder or file that the
    data was read from, if any, and `loaded` need not be read from the run folder.
    """

    def __init__(
        self, folder: str | Path, data: TaskData | None = None, device: str = "cpu", *, other: bool = False,
        source: str = "", home: Self | None = None, loaded: Loaded | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.device, self.other, self.source = Path(folder), device, other, source
        self._data, self._home, self._loaded = data, home, loaded

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    def moved_to(self, folder: Path) -> Self:
        """Return this run, with all that it has loaded, in the folder that its own was renamed to."""
        run = copy.copy(self)
        run.folder = folder
        return run

    def with_config(self, config: Config) -> Self:
        """Return this run, with all that it has loaded, and other options."""
        run = copy.copy(self)
        run.config = config
        return run

    @cached_property
    def config(self) -> Config:
        """The options of the training."""
        return self._loaded.config if self._loaded else read_config(self.folder / CONFIG)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The content of `model.json`: inputs, task, classes, metric and digest of the data."""
        return read_metadata(self.folder)

    @property
    def facts(self) -> dict[str, Any]:
        """The earlier name of `metadata`."""
        return self.metadata

    @property
    def result(self) -> dict[str, Any]:
        """The content of `result.json`: the scores of the training."""
        return read_json(self.folder / RESULT)

    @property
    def history(self) -> pd.DataFrame:
        """The training by epoch, from `metrics.csv`: seconds, learning rate, losses and validation scores."""
        import pandas as pd

        return pd.read_csv(self.folder / HISTORY).set_index("epoch")

    @cached_property
    def data(self) -> TaskData:
        """The training data, or the data that the run was opened on."""
        if self._data is not None:
            return self._data
        config, level = self.config, self.metadata["task"]
        if config.task not in ("auto", level):
            fault = f"the options are for {config.task}s, the model is for {level}s"
            raise GpmError(f"{self.folder} is damaged: {fault}; train again.")
        if not config.data:
            both = "gpm.unite(source, target)" if isinstance(self.split, DomainSplit) else "graph"
            raise GpmError(f"{self.folder} was trained on a graph in memory; give it: Run.open(folder, {both}).")
        source: str | Path = config.data
        if source in OWN_GRAPHS and not (source := self.folder / source).is_dir():
            raise GpmError(f"{self.folder} comes with its graph in {source}, which is missing; copy it as well.")
        data = load_by(source, config)
        check_digest(data.graph, self.metadata.get("data_digest", ""), self.folder, config.data)
        return data

    @property
    def home(self) -> Self:
        """The same run on its training data."""
        if not self.other:
            return self
        if self._home is None:
            self._home = type(self)(self.folder, device=self.device)
        return self._home

    @cached_property
    def split(self) -> Split:
        """The train, validation and test instances of the training data."""
        if self._loaded:
            return self._loaded.split
        if self.other:
            raise GpmError("Only the training data has a split; open the run without other data.")
        split, level = Split.load(self.folder / SPLIT, follow=False), self.metadata["task"]
        if isinstance(split, LinkSplit) != (level == "link"):
            raise GpmError(f"{self.folder / SPLIT} is not a split of {level}s, which the model predicts.")
        return split

    @cached_property
    def task(self) -> Task:
        """The prediction task, with the labels of the data."""
        if self._loaded:
            return self._loaded.task
        if self.data.level != "link":
            return load_task(self.metadata, self.data.graph.y)
        split = None if self.other else self.split
        return load_task(self.metadata, split.labels if isinstance(split, LinkSplit) else None)

    @cached_property
    def truth(self) -> Tensor | None:
        """The targets of all nodes or graphs; None if they have no labels, or others than those of the training.

        Links have none: a pair without an edge may get one.
        """
        if self.data.level == "link" or self.data.graph.y is None:
            return None
        try:
            task = self.task
        except GpmError:  # other data with labels of another kind
            return None
        trained = load_task(self.metadata, None)
        alike = task.outputs == trained.outputs and getattr(task, "multilabel", 0) == getattr(trained, "multilabel", 0)
        return task.targets if alike and len(task.targets) else None

    @property
    def predicts_values(self) -> bool:
        """True for a regression."""
        return self.metadata.get("kind") == "values"

    @cached_property
    def predictor(self) -> Predicts:
        """The model on the graph of the data."""
        if self._loaded:
            return self._loaded.predictor
        if self.other:
            return self.predictor_for(self.data.graph)
        return self._load_predictor(self.data.walked_graph(self.split), own=True)

    @property
    def pattern_predictor(self) -> Predictor:
        """The model, which must read patterns."""
        if self.config.model != "gpm":
            raise GpmError(f"{self.folder} holds a {self.config.model}, which reads no patterns; use a run of a gpm.")
        assert isinstance(self.predictor, Predictor)
        return self.predictor

    def predictor_for(self, graph: Graph) -> Predicts:
        """Load the model for any graph with the same kind of features."""
        return self._load_predictor(graph, own=False)

    def _load_predictor(self, graph: Graph, own: bool) -> Predicts:
        """Load the model for the graph of the training, or for another."""
        inputs, level, path = InputSpec(**self.metadata["inputs"]), self.metadata["task"], self.folder / WEIGHTS
        outputs = load_task(self.metadata, None).outputs
        with torch.device("meta"):  # the options may ask for more than memory holds: compare shapes before building
            check_shapes(build_model(self.config, inputs, outputs, level).state_dict(), path)
        answers = self._find_answers(graph, own) if inputs.label_dim else None
        predictor = build_predictor(
            self.config, graph, outputs, level, inputs=inputs, device=self.device, answers=answers,
            kept=_read_kept(inputs, path),
            descriptors=self._find_descriptors(graph) if self.config.descriptors else None,
        )  # fmt: skip
        load_weights(predictor.model, path)
        return predictor

    def _find_descriptors(self, graph: Graph) -> NDArray:
        """Return the descriptors of the molecules of a graph, which must be that of the data."""
        if graph is not self.data.graph:
            raise GpmError(
                "The model reads descriptors of molecules, which are computed from SMILES; give a table of them."
            )
        return self.data.describe_instances()

    def _find_answers(self, graph: Graph, own: bool) -> Answers | None:
        """Return the known labels that a model reads on a graph: those of the training split.

        Another graph has them if it is the training graph, grown or changed: it has its nodes and most of its edges.
        """
        if own:
            return known_answers(self.task, self.split)
        none = known_answers(load_task(self.metadata, None), None)
        if not self.other:  # some graph that was given in the place of the data
            return none
        try:
            home, split = self.home.data.graph, self.home.split
        except GpmError:  # the training data is not at hand
            return none
        known = known_answers(self.home.task, split)
        assert known is not None
        found = find_again(home, known.train, graph)
        pairs = home.edge_index().T
        pairs = pairs[np.linspace(0, len(pairs) - 1, min(len(pairs), SAMPLE)).astype(np.int64)]
        ends = find_again(home, pairs.reshape(-1), graph).reshape(-1, 2)
        ends = ends[(ends >= 0).all(1)]
        same = has_edge(graph, ends[:, 0], ends[:, 1]).sum()
        if (found >= 0).mean() < SAME_NODES or not len(pairs) or same < SAME_EDGES * len(pairs):
            return none
        return replace(known, train=found[found >= 0], targets=known.targets[found >= 0])

    def read(self, part: str, *, patterns: int | None = None, progress: bool = False) -> Tensor:
        """Compute the logits of a split: train, val or test."""
        ids = getattr(self.split, part, None)
        if part not in PARTS or not isinstance(ids, np.ndarray):
            raise GpmError(f"There is no split {part!r}; choose train, val or test.")
        if isinstance(self.split, LinkSplit) and not (self.split.labels[ids] == 0).any():
            raise GpmError(f"The {part} split has edges but no non-edges to rank them against; choose val or test.")
        return self.predictor.logits(self.inputs(ids), patterns=patterns, progress=progress)

    def inputs(self, ids: NDArray) -> NDArray:
        """Map ids of the split to what the model reads: nodes or graphs `[B]`, or pairs `[B, 2]`."""
        return self.split.inputs(ids)

    def find(self, names: Any = None, *, new: bool = False, level: str = "") -> NDArray[np.int64]:
        """Find what the model reads by name: nodes or graphs `[B]`, by default all, or pairs of nodes `[B, 2]`.

        With `new`, find the nodes that the training graph does not have.
        """
        level = level or self.data.level
        if new:
            if names is not None or level != "node" or not self.other:
                raise GpmError("New nodes are those of another graph that were not in training; open the run on it.")
            return find_new(self.data.graph, self.home.data.graph)
        # a model of links embeds nodes, which are the instances by default
        return TaskData.find_instances(self.data, names) if level == "node" else self.data.find_instances(names)

    def name(self, ids: NDArray, *, level: str = "") -> dict[str, list[Any]]:
        """Return the columns that name nodes or graphs `[B]` or pairs `[B, 2]` in a table."""
        return TaskData.name_instances(self.data, ids) if level == "node" else self.data.name_instances(ids)


def _read_kept(inputs: InputSpec, weights: Path) -> dict[str, NDArray]:
    """Read the arrays from which a trained model computes its expected patterns."""
    names = ["projection"] if inputs.projected else []
    names += [buffer for group, buffer in VOCABULARIES.items() if inputs.expected.get(group)]
    return {name: read_tensor(weights, f"expected.{name}").numpy() for name in names}
