"""The training that is planned: prepared as `gpm train` prepares it, but without statistics and positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from gpm.config import Config
from gpm.data.domain_data import DomainData, DomainSplit
from gpm.data.node_data import build_node_data
from gpm.data.sources import TaskData
from gpm.data.splits import Split
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.io.npy import MappedArray
from gpm.nn import FeatureTable
from gpm.nn.feature_rows import LARGE
from gpm.nn.predictor import Predictor, make_machine
from gpm.patterns.tokenizer import Tokenizer
from gpm.training.adaptation import Adaptation
from gpm.training.batches import Batches, Draw
from gpm.training.prepare import Training

MOST_SAMPLED = 100_000  # nodes of the random graph that stands for one which does not exist yet
_ARRAYS = ("indptr", "indices", "edge_ids", "edge_weight", "edge_cdf", "x", "edge_attr", "y", "graph_ptr")


@dataclass(frozen=True)
class Stated:
    """A graph that does not exist yet, as the user describes it."""

    nodes: int
    edges: int  # an edge that goes both ways counts once
    features: int = 0  # columns of node features
    classes: int = 2  # classes of nodes

    def __post_init__(self) -> None:
        for name, least in (("num_nodes", 10), ("num_edges", 1), ("features", 0), ("classes", 2)):
            value = getattr(self, name.removeprefix("num_"))
            if not least <= value < 2**50:
                raise GpmError(f"--{name} must lie between {least} and 2^50, got {value}.")

    @property
    def file_bytes(self) -> int:
        """Bytes of its folder: pointers, columns both ways, features and labels."""
        column = 4 if self.nodes < 2**31 else 8
        return 8 * (self.nodes + 1) + 2 * column * self.edges + self.nodes * (4 * self.features + 8)

    @property
    def held_bytes(self) -> int:
        """Bytes that a training copies into memory: features, unless there are many."""
        entries = self.nodes * self.features
        return 4 * entries if entries < LARGE else 0

    def sample(self, seed: int = 0) -> TaskData:
        """Draw a random graph of the same mean degree, and of the same size if that is small."""
        random = np.random.default_rng(seed)
        nodes = min(self.nodes, MOST_SAMPLED)
        edges = min(max(1, round(self.edges / self.nodes * nodes)), 5_000_000)
        x = random.standard_normal((nodes, self.features), dtype=np.float32) if self.features else None
        y = np.resize(np.arange(self.classes), nodes)
        graph = Graph.from_edges(random.integers(0, nodes, (2, edges)), nodes, undirected=True, x=x, y=y)
        return build_node_data(graph, f"a graph of {self.nodes:,} nodes and {self.edges:,} edges", "accuracy")


@dataclass(frozen=True, eq=False)
class Subject(Training):
    """A training to plan, on its data or on a sample that stands for a stated graph."""

    stated: Stated | None = None

    @classmethod
    def of(cls, config: Config, data: TaskData, split: Split | None = None, **more: Any) -> Subject:
        if config.model != "gpm":
            raise GpmError(f"gpm plan is for the pattern machine, not for {config.model}; name another recipe.")
        return super().of(config, data, split, **more)

    def with_(self, **changes: Any) -> Subject:
        return replace(self, config=self.config.with_(**changes))

    def count(self, part: str) -> int:
        """Return the instances of a split, of the stated graph if there is one."""
        size = len(getattr(self.split, part))
        return size if self.stated is None else round(size * self.stated.nodes / self.data.graph.num_nodes)

    def count_held_out(self) -> tuple[list[int], list[int]]:
        """Return the sizes of what is read after every epoch, and of what is read at the end."""
        val, test = self.count("val"), self.count("test")
        if isinstance(self.split, DomainSplit):  # the other domain is validated too, and would choose other weights
            other = self.count("other")
            return [val, other], [val, test, other, test]
        if (ids := self.data.prediction_ids(self.split)) is not self.split.test:  # a target without labels is predicted
            return [val], [val, test, len(ids)]
        return [val], [val, test]

    @cached_property
    def table(self) -> FeatureTable:
        """Features of the graph; positions are zeros, which cost as much as others."""
        config = self.config
        pe = np.zeros((self.graph.num_nodes, config.pe_dim), dtype=np.float32) if config.pe != "none" else None
        bags = {"auto": None, "yes": True, "no": False}[config.bag_of_words]
        return FeatureTable(self.graph, pe, features=config.features, stars=config.stars, bags=bags)

    def count_parameters(self) -> int:
        """Return the number of learned parameters; nothing is allocated."""
        with torch.device("meta"):
            return make_machine(self.config, self.table.spec(), self.task.outputs, self.data.level).count_parameters()

    def build(self) -> Predictor:
        config, level = self.config, self.data.level
        torch.manual_seed(config.seed)
        tokenizer = Tokenizer.from_config(self.graph, config)
        model = make_machine(config, self.table.spec(), self.task.outputs, level)
        model.machine.checkpointing = config.checkpointing
        return Predictor(model, tokenizer, self.table, level, config.patterns, config.protocol == "strict")

    def make_adaptation(self, data: DomainData) -> Adaptation:
        """Make the terms that --adapt adds to the loss, on modes of zeros."""
        return Adaptation(self.config, data, np.zeros((data.graph.num_nodes, self.config.modes), dtype=np.float32))

    def draw(self, instances: int, step: int = 0) -> Draw:
        """Draw the instances of a training step, fewer if the training split has no more."""
        count = len(self.split.train)
        batches = Batches(count, min(instances, count), self.config.seed)
        batches.set_epoch(step // batches.steps)
        whole = list(batches)[step % batches.steps].whole
        return Draw(step, whole, np.arange(len(whole)))

    def val_inputs(self, count: int) -> NDArray:
        """Return some instances to validate, repeated if there are too few."""
        return self.split.inputs(np.resize(self.split.val, count))

    def graph_bytes(self) -> tuple[int, int]:
        """Return the bytes of the graph with its features in memory, and in files that are mapped."""
        if self.stated is not None:
            return 0, self.stated.file_bytes
        held = mapped = 0
        for value in (each for name in _ARRAYS if (each := getattr(self.data.graph, name)) is not None):
            for array in [value.data, value.indices, value.indptr] if sp.issparse(value) else [value]:
                held, mapped = (held, mapped + array.nbytes) if MappedArray.of(array) else (held + array.nbytes, mapped)
        return held, mapped
