"""What a training would be of: data, parts and a model on its graph, without the statistics it would find."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gpm.config import Config
from gpm.data.node_data import build_node_data
from gpm.data.sources import TaskData, walked_graph
from gpm.data.splits import Split
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.io.npy import MappedArray
from gpm.nn import FeatureTable
from gpm.nn.feature_map import LARGE
from gpm.nn.predictor import Predictor, make_machine
from gpm.patterns.tokenizer import Tokenizer
from gpm.patterns.walks import WalkRule
from gpm.tasks import Task, make_task
from gpm.training.batches import Batches, Draw, Examples
from gpm.training.fit import draw_split
from gpm.training.lightning_module import Learner

MOST_SAMPLED = 100_000  # nodes of the graph that stands for one which is not there yet
_ARRAYS = ("indptr", "indices", "edge_ids", "edge_weight", "edge_cdf", "x", "edge_attr", "y", "graph_ptr")


@dataclass(frozen=True)
class Stated:
    """A graph that does not exist yet, as the user describes it.

    Attributes:
        nodes, edges: How many; an edge that goes both ways counts once.
        features: Columns of numbers that a node has.
        classes: How many classes nodes have.
    """

    nodes: int
    edges: int
    features: int = 0
    classes: int = 2

    def __post_init__(self) -> None:
        for name, least in (("num_nodes", 10), ("num_edges", 1), ("features", 0), ("classes", 2)):
            value = getattr(self, name.removeprefix("num_"))
            if not least <= value < 2**50:
                raise GpmError(f"--{name} must lie between {least} and 2^50, got {value}.")

    @property
    def file_bytes(self) -> int:
        """What its folder will take: pointers, columns both ways, features and labels."""
        column = 4 if self.nodes < 2**31 else 8
        return 8 * (self.nodes + 1) + 2 * column * self.edges + self.nodes * (4 * self.features + 8)

    @property
    def held_bytes(self) -> int:
        """What a training copies of it into memory: features that are not many."""
        entries = self.nodes * self.features
        return 4 * entries if entries < LARGE else 0

    def sample(self, seed: int = 0) -> TaskData:
        """A random graph of the same mean degree, and of the same size if that is small."""
        random = np.random.default_rng(seed)
        nodes = min(self.nodes, MOST_SAMPLED)
        edges = min(max(1, round(self.edges / self.nodes * nodes)), 5_000_000)
        x = random.standard_normal((nodes, self.features), dtype=np.float32) if self.features else None
        y = np.resize(np.arange(self.classes), nodes)
        graph = Graph.from_edges(random.integers(0, nodes, (2, edges)), nodes, undirected=True, x=x, y=y)
        return build_node_data(graph, f"a graph of {self.nodes:,} nodes and {self.edges:,} edges", "accuracy")


@dataclass(frozen=True, eq=False)
class Subject:
    """Data, parts and task of a training with some options.

    Attributes:
        config: The options.
        data: What is trained on, or a sample that stands for it.
        split: The parts.
        task: What is wanted.
        stated: What the sample stands for, if it does.
    """

    config: Config
    data: TaskData
    split: Split
    task: Task
    stated: Stated | None = None

    @classmethod
    def of(cls, config: Config, data: TaskData, stated: Stated | None = None) -> Subject:
        """Draw the parts as a training does."""
        metric = data.metric if config.metric == "auto" else config.metric
        config = config.with_(metric=metric, task=data.level)
        split = draw_split(data, config)
        return cls(config, data, split, make_task(data, split, config), stated)

    def with_(self, **changes: Any) -> Subject:
        """The same data with other options."""
        return replace(self, config=self.config.with_(**changes))

    def count(self, part: str) -> int:
        """Instances of a part, of the graph that is stated if there is one."""
        found = len(getattr(self.split, part))
        return found if self.stated is None else round(found * self.stated.nodes / self.data.graph.num_nodes)

    @cached_property
    def graph(self) -> Graph:
        """What is walked."""
        return walked_graph(self.data, self.split)

    @cached_property
    def table(self) -> FeatureTable:
        """Its features; positions cost the same whatever they say, so that none are computed."""
        config = self.config
        columns = 0 if config.pe == "none" else config.pe_dim
        pe = np.zeros((self.graph.num_nodes, columns), dtype=np.float32) if columns else None
        bags = {"auto": None, "yes": True, "no": False}[config.bag_of_words]
        return FeatureTable(self.graph, pe, features=config.features, stars=config.stars, bags=bags)

    def count_parameters(self) -> int:
        """Numbers that would be learned; nothing is allocated."""
        with torch.device("meta"):
            return make_machine(self.config, self.table.spec(), self.task.outputs, self.data.level).count_parameters()

    def build(self) -> Predictor:
        """The model with fresh weights on its graph."""
        config, level = self.config, self.data.level
        torch.manual_seed(config.seed)
        tokenizer = Tokenizer(
            self.graph, lengths=config.lengths, pool=config.pool, topology=config.topology, seed=config.seed,
            rule=WalkRule.from_config(config),
        )  # fmt: skip
        model = make_machine(config, self.table.spec(), self.task.outputs, level)
        model.machine.checkpointing = config.checkpointing
        return Predictor(model, tokenizer, self.table, level, config.patterns, config.protocol == "strict")

    def examples(self) -> Examples:
        """Instances and targets."""
        return Examples(self.data, self.task, self.split, self.config.seed)

    def draw(self, instances: int, step: int = 0) -> Draw:
        """So many instances of a training step, fewer if the training part has no more."""
        count = len(self.split.train)
        batches = Batches(count, min(instances, count), self.config.seed)
        batches.set_epoch(step // batches.steps)
        whole = list(batches)[step % batches.steps].whole
        return Draw(step, whole, np.arange(len(whole)))

    def val_patterns(self, predictor: Predictor) -> int:
        """Patterns of an instance in validation, see `Learner.val_patterns`."""
        return Learner(predictor, self.examples(), self.config.with_(average=0, compile=False)).val_patterns

    def val_inputs(self, count: int) -> NDArray:
        """Some instances to validate, repeated if there are too few."""
        ids = np.resize(self.split.val, count)
        pairs = getattr(self.split, "pairs", None)
        chosen: NDArray = ids if pairs is None else pairs[ids]
        return chosen

    def graph_bytes(self) -> tuple[int, int]:
        """Bytes of the graph with its features in memory, and in files that are mapped."""
        if self.stated is not None:
            return 0, self.stated.file_bytes
        held = mapped = 0
        for array in (part for name in _ARRAYS for part in _plain_arrays(getattr(self.data.graph, name))):
            held, mapped = (held, mapped + array.nbytes) if MappedArray.of(array) else (held + array.nbytes, mapped)
        return held, mapped


def _plain_arrays(value: Any) -> list[NDArray]:
    if value is None:
        return []
    return [value.data, value.indices, value.indptr] if sp.issparse(value) else [value]
