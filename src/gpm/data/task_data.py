"""The base of node, link, graph and domain data: what a task is made of, and what callers ask of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gpm.data.labels import count_outputs
from gpm.data.splits import PARTS, Masks, Protocol, Split
from gpm.errors import GpmError
from gpm.graph.find import find_nodes
from gpm.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class TaskData(ABC):
    """A graph, or a collection of graphs, of which something is predicted. By default its nodes are the instances."""

    graph: Graph  # features in `graph.x`, labels in `graph.y`; a collection is one graph with a `graph_ptr`
    title: str  # name for messages and reports
    split: str = ""  # default split: "given", "public" or a rule such as "60/20/20"
    metric: str = "accuracy"  # default metric
    masks: Masks | None = None  # splits that come with the data
    class_names: tuple[str, ...] = field(default=(), kw_only=True)  # empty if classes have numbers only
    targets: tuple[str, ...] = field(default=(), kw_only=True)  # names of the predicted columns
    unseen: tuple[str, ...] = field(default=(), kw_only=True)  # sentences about values of new data read as unknown
    named: bool = field(default=False, kw_only=True)  # a dataset of the catalog, whose metric is the usual one
    level: ClassVar[str]
    has_domains: ClassVar[bool] = False  # a source and a target

    @property
    def labels(self) -> NDArray:
        """Labels of the instances: classes int64 `[N]`, yes-or-no labels float `[N, C]`, values `[N]` or `[N, C]`."""
        assert self.graph.y is not None
        return self.graph.y

    @property
    def num_classes(self) -> int:
        """Number of classes; for yes-or-no labels and values, the number of columns."""
        return count_outputs(self.labels)

    @property
    def num_instances(self) -> int:
        """Number of nodes, or of graphs in a collection."""
        return self.graph.num_nodes

    @property
    def instance_names(self) -> Iterable[object]:
        """Names of all instances, in order."""
        return self.graph.names_of(np.arange(self.graph.num_nodes))

    def make_split(
        self, seed: int, kind: str = "", *, protocol: Protocol = "strict", validate: str = "source"
    ) -> Split:
        """Draw the split of a seed, which chooses one of several that come with the data. No part of it is empty.

        Args:
            seed: Seed of the draw.
            kind: "given", "public", "60/20/20", for collections also "scaffold" or "10-fold"; default: the data's.
            protocol: For links: "strict" or "paper", see `gpm.data.link_data`.
            validate: For two domains: the one whose validation split chooses the epoch, "source" or "target".
        """
        split = self._draw_split(seed, "" if kind == "auto" else kind, protocol, validate)
        for part in PARTS:
            if not len(getattr(split, part)):
                raise GpmError(f"No {self.level} is in the {part} split of {split.name!r}; try --split 60/20/20.")
        return split

    @abstractmethod
    def _draw_split(self, seed: int, kind: str, protocol: Protocol, validate: str) -> Split:
        """Draw a split whose parts may be empty; an empty kind is the default one."""

    def walked_graph(self, split: Split) -> Graph:
        """Return the graph that may be walked, positionally embedded and counted for degrees."""
        return self.graph

    def statistics_graphs(self, split: Split) -> NDArray[np.int64] | None:
        """Return the ids of the graphs that feature statistics may be computed from; None for all."""
        return None

    def learnable_classes(self) -> list[int] | None:
        """Return the classes that a model may predict; None for those among the labels."""
        return None

    def describe_instances(self) -> NDArray[np.float32]:
        """Return descriptors of molecules `[G, d]`, for data that has their SMILES; NaN where one is unknown."""
        raise GpmError(
            f"{self.title} has no SMILES to compute descriptors from; give a table of molecules, or train without "
            "--descriptors."
        )

    def prediction_ids(self, split: Split) -> NDArray[np.int64]:
        """Return the instances whose predictions a training saves: by default the test split."""
        return split.test

    def find_instances(self, names: Any = None) -> NDArray[np.int64]:
        """Return the ids of instances by name, in the order of the names; by default of all that can be predicted."""
        return np.arange(self.graph.num_nodes) if names is None else find_nodes(self.graph, as_list(names))

    def name_instances(self, ids: NDArray) -> dict[str, list[Any]]:
        """Return the columns that name instances in a table of predictions."""
        return {"node": [*self.graph.names_of(ids)]}


def as_list(names: Any) -> list[Any]:
    """Return one name, or several, as a list."""
    return [names] if isinstance(names, (str, int, float, np.number)) else list(names)
