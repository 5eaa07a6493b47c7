"""What is known exactly about pairs of nodes: walk means of both ends and the structure between them.

All of it is of the graph without the pair's own edge, so that a link in training looks as one that is to be predicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.config import ModelOptions
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.expected_table import STEP, STRUCTURE, check_groups
from gpm.nn.feature_table import InputSpec
from gpm.nn.step_columns import PROJECTED, asked_bags, find_steps
from gpm.patterns.pair_means import MOST_STEPS, PairMeans
from gpm.patterns.pair_structure import PAIR_COLUMNS, PairStructure

SAMPLE = 10_000  # edges that statistics are found from, and as many random pairs


@dataclass(frozen=True)
class LinkTable:
    """A row of numbers per pair of nodes, in named groups of columns; computed when it is asked for.

    The group of a step has the columns of the first end, then those of the second; that of the structure has columns of
    the pair.
    """

    graph: Graph
    means: PairMeans | None
    structure: PairStructure | None
    hide: bool  # take the pair's own edge out
    even: bool = False  # columns of features keep their relative scale
    sizes: tuple[int, ...] = ()  # categories in each column of the node features, if that is their form
    projection: NDArray[np.float32] | None = None  # of the node features [columns, k]; None if they are narrow
    bags: bool = False  # the node features are bags of words

    @classmethod
    def build(
        cls, options: ModelOptions, graph: Graph, hide: bool, *, inputs: InputSpec | None = None,
        kept: Mapping[str, NDArray] = MappingProxyType({}),
    ) -> LinkTable | None:  # fmt: skip
        """Prepare what the options name; None if they name nothing. See `ExpectedTable.build` for the arguments."""
        if not (options.expected or options.structure):
            return None
        if options.pair == "product":
            raise GpmError("A product embeds each end alone; leave out --expected and --structure, or --pair product.")
        if options.expected > MOST_STEPS:
            raise GpmError(f"For links --expected is at most {MOST_STEPS}: more steps are not exact without the link.")
        means, even, bags, projection = None, False, False, kept.get("projection")
        sizes: list[int] = []
        if options.expected and graph.x is not None and options.features == "auto":
            known = None if inputs is None else inputs.expected_sizes
            found = find_steps(graph, 0, known, projection, most=PROJECTED, bags=asked_bags(options, inputs))
            sizes, even, projection, bags = found.sizes, found.even, found.projection, found.bags
            means = PairMeans.of(graph, found.means[0], options.expected)
        structure = PairStructure.of(graph) if options.structure else None
        table = cls(graph, means, structure, hide, even, tuple(sizes), projection, bags)
        if inputs is not None:
            check_groups(table.groups, inputs)
        return table if table.groups else None

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Name and number of columns of each group."""
        found = []
        if self.means is not None:
            _, steps, width = self.means.means.shape
            found += [(f"{STEP} {step}", 2 * width) for step in range(steps)]
        return (*found, (STRUCTURE, len(PAIR_COLUMNS))) if self.structure is not None else tuple(found)

    def take(self, pairs: Any) -> Tensor:
        """Return the rows of some pairs `[B, D]`."""
        ends = pairs.cpu().numpy() if isinstance(pairs, Tensor) else np.asarray(pairs, dtype=np.int64)
        parts = []
        if self.means is not None:
            _, steps, width = self.means.means.shape
            both = self.means.take(ends, self.hide).reshape(len(ends), 2, steps, width)
            parts.append(both.transpose(0, 2, 1, 3).reshape(len(ends), -1))
        if self.structure is not None:
            parts.append(self.structure.take(ends, self.hide))
        return torch.from_numpy(np.concatenate(parts, axis=1))

    def describe(self, inputs: InputSpec) -> InputSpec:
        """Add these columns to the description of a model's inputs."""
        return inputs.with_expected(self.groups, self.sizes, self.bags, self.projection)

    def sample(self) -> Tensor:
        """Return the rows of some edges of the walked graph, evenly spread, and of as many random pairs."""
        count = min(self.graph.num_edges, SAMPLE)
        at = np.linspace(0, max(self.graph.num_edges - 1, 0), count).astype(np.int64)
        source = np.searchsorted(self.graph.indptr, at, side="right") - 1
        edges = np.stack([source, self.graph.indices[at].astype(np.int64)], 1)
        random = np.random.default_rng(0).integers(0, self.graph.num_nodes, (max(count, 1), 2))
        return self.take(np.concatenate([edges, random]))
