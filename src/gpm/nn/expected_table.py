"""What is known exactly about each instance: means over all walks, known labels around it, structure and position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.config import Config
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.counts import Counts
from gpm.nn.feature_rows import convert, freeze_tensor, share_array, thaw_tensor
from gpm.nn.feature_table import InputSpec
from gpm.nn.frequencies import FREQUENCIES, count_topologies
from gpm.nn.graph_columns import describe_graphs
from gpm.nn.neighbourhoods import NEIGHBOURHOODS, count_neighbourhoods
from gpm.nn.positional.eigenvector_cache import digest_array, digest_edges, keep_columns
from gpm.nn.positional.encodings import embed_laplacian
from gpm.nn.step_columns import asked_bags, find_steps
from gpm.patterns.known_labels import label_means
from gpm.patterns.structure import COLUMNS, describe_structure
from gpm.patterns.walk_means import walk_means
from gpm.random_bits import GOLDEN, LABEL_HIDING, MASK, make_key, mix_array

HIDDEN = 0.1  # share of training instances whose known labels are hidden in a step
KEPT_EDGES = 1_000_000  # edges of a graph whose structure is worth caching: about a second
STRUCTURE_STEPS = 2  # of the walks that means of structure are taken over
STEP, LABELS, STRUCTURE, POSITION = "step", "labels", "structure", "position"
# Groups of counts, and the buffer of a model that keeps the vocabulary of each.
VOCABULARIES = {NEIGHBOURHOODS: "vocabulary", FREQUENCIES: "topologies"}


@dataclass(frozen=True)
class Answers:
    """Known answers of instances: inputs for other instances, and what the linear part is fitted to.

    Classes are one-hot, yes-or-no labels are 0 and 1, values are standardised; NaN where unknown.
    """

    kind: Literal["classes", "labels", "values"]
    train: NDArray[np.int64]  # instances of the training split [n]
    targets: NDArray[np.float64]  # their answers [n, C]
    val: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    val_targets: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 1)))


@dataclass(frozen=True)
class ExpectedTable:
    """A row of numbers per instance, in named groups of columns."""

    values: Tensor  # (I, D) on the host, without what is in `means`; NaN where nothing is known
    groups: tuple[tuple[str, int], ...]  # name and number of columns of each group
    even: tuple[str, ...] = ()  # groups whose columns keep their relative scale
    sizes: tuple[int, ...] = ()  # categories in each column of the node features, if that is their form
    projection: NDArray[np.float32] | None = None  # of the node features [columns, k]; None if they are narrow
    bags: bool = False  # the node features are bags of words
    counted: tuple[Counts, ...] = ()  # the last groups, which are not in `values` either
    correction: Tensor | None = None  # what to add to the linear part of training instances (I, C)
    means: Tensor | None = (
        None  # the first groups, if they are too large for memory: mapped from disk (steps + 1, I, k)
    )

    @classmethod
    def build(
        cls, options: Config, graph: Graph, level: str, answers: Answers | None = None, *,
        inputs: InputSpec | None = None, kept: Mapping[str, NDArray] = MappingProxyType({}),
        seen: NDArray | None = None, descriptors: NDArray | None = None,
    ) -> ExpectedTable | None:  # fmt: skip
        """Compute the columns that the options name; None if they name none.

        Args:
            options: Options of the run.
            graph: The graph that may be walked.
            level: What an instance is: a node or a graph. For links see `gpm.nn.link_table`.
            answers: Answers of the training split, if they are inputs; without them labels are unknown.
            inputs: Inputs of a trained model; by default found here.
            kept: Arrays that a trained model keeps: `projection` of wide features, and vocabularies of what is counted.
            seen: Nodes that such arrays may be found from; by default all.
            descriptors: Numbers that come with the graphs of a collection `[G, d]`.
        """
        parts: list[tuple[str, NDArray]] = []
        even: tuple[str, ...] = ()
        sizes: list[int] = []
        on_disk: NDArray | None = None
        projection, bags = kept.get("projection"), False
        if options.expected and graph.x is not None and options.features == "auto":
            known = None if inputs is None else inputs.expected_sizes
            asked = asked_bags(options, inputs)
            found = find_steps(graph, options.expected, known, projection, seen, disk=level == "node", bags=asked)
            sizes, projection, bags = found.sizes, found.projection, found.bags
            parts = [(f"{STEP} {step}", means) for step, means in enumerate(found.means)]
            even = tuple(name for name, _ in parts) if found.even else ()
            on_disk = found.means if found.on_disk else None
        if options.labels == "on" and level == "node":
            parts.append((LABELS, _spread_labels(graph, answers)))
        if options.structure:
            steps = STRUCTURE_STEPS if level == "node" else 0
            if inputs is not None and STRUCTURE in inputs.expected:  # as many as the model was trained with
                steps = inputs.expected[STRUCTURE] // len(COLUMNS) - 1
            columns = walk_means(graph, _find_structure(graph), steps)
            parts.append((STRUCTURE, np.concatenate(columns, axis=1)))
        if options.position and level == "node":
            parts.append((POSITION, embed_laplacian(graph, options.position)))
        counting = level == "graph" and (options.neighbourhoods > 0 or options.frequencies > 0)
        if not (parts or counting or (inputs and inputs.expected)) and descriptors is None:
            return None
        if level == "graph":
            wanted = () if inputs is None else inputs.expected
            parts = describe_graphs(graph, parts, descriptors, wanted, summed=f"{STEP} 0", spread=STRUCTURE)
        counted = _count(options, graph, seen, kept, inputs is None) if counting else ()
        groups = tuple((name, values.shape[1]) for name, values in parts)
        groups = (*groups, *((each.name, len(each.vocabulary)) for each in counted))
        even = (*even, *(each.name for each in counted))
        if inputs is not None:
            check_groups(groups, inputs)
        held = [values for _, values in parts[0 if on_disk is None else len(on_disk) :]]
        count = graph.num_nodes if level == "node" else graph.num_graphs
        values = np.concatenate([np.zeros((count, 0), np.float32), *held], axis=1, dtype=np.float32)
        means = None if on_disk is None else share_array(on_disk, np.float32, "cpu")
        rows = share_array(values, np.float32, "cpu")
        return cls(rows, groups, even, tuple(sizes), projection, bags, counted, means=means)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"means": convert(self.means, freeze_tensor)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"means": convert(state["means"], thaw_tensor)})

    def take(self, instances: Tensor | NDArray) -> Tensor:
        """Return the rows of some instances `[B, D]`."""
        ids = instances if isinstance(instances, Tensor) else torch.from_numpy(np.array(instances))
        parts = [] if self.means is None else [*self.means[:, ids]]
        parts.append(self.values[ids])
        parts += [torch.from_numpy(each.counts[ids.numpy()].toarray()) for each in self.counted]
        return parts[0] if len(parts) == 1 else torch.cat(parts, 1)

    def take_training(self, instances: Tensor, seed: int, turn: int) -> tuple[Tensor, Tensor | None]:
        """Return the rows of training instances `[B, D]`, and what to add to their linear part `[B, C]`.

        The known labels of some are hidden, so that the model also predicts where none are known.
        """
        values = self.take(instances)
        first = 0
        for name, size in self.groups:
            if name == LABELS:
                key = make_key((make_key(seed, LABEL_HIDING) + turn * GOLDEN) & MASK)
                bits = mix_array(np.asarray(instances).astype(np.uint64) ^ np.uint64(key))
                hidden = torch.from_numpy(bits < np.uint64(int(HIDDEN * 2**64)))
                values[:, first : first + size].masked_fill_(hidden[:, None], torch.nan)
            first += size
        return values, None if self.correction is None else self.correction[instances]

    def describe(self, inputs: InputSpec) -> InputSpec:
        """Add these columns to the description of a model's inputs."""
        return inputs.with_expected(self.groups, self.sizes, self.bags, self.projection)

    def corrected(self, correction: Tensor) -> ExpectedTable:
        return replace(self, correction=correction)


def _count(
    options: Config, graph: Graph, seen: NDArray | None, kept: Mapping[str, NDArray], fresh: bool
) -> tuple[Counts, ...]:
    """Count neighbourhoods and topologies; a trained model counts those that it keeps."""
    wanted: list[tuple[str, int, Callable[..., Counts]]] = [
        (NEIGHBOURHOODS, options.neighbourhoods, count_neighbourhoods),
        (FREQUENCIES, options.frequencies, count_topologies),
    ]
    found = []
    for name, number, count in wanted:
        vocabulary = kept.get(VOCABULARIES[name])
        if number and (fresh or vocabulary is not None):
            found.append(count(graph, options, seen, vocabulary))
    return tuple(each for each in found if len(each.vocabulary))


def _spread_labels(graph: Graph, answers: Answers | None) -> NDArray[np.float32]:
    assert answers is not None
    if not len(answers.train):
        return np.full((graph.num_nodes, 2 * (answers.targets.shape[1] + 1)), np.nan, dtype=np.float32)
    values, known = spread_answers(answers, graph.num_nodes)
    return label_means(graph, values, known)


def spread_answers(answers: Answers, count: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the answers of training instances among all `[count, C]`, zero elsewhere, and which rows they are."""
    values, known = np.zeros((count, answers.targets.shape[1])), np.zeros(count, dtype=bool)
    whole = ~np.isnan(answers.targets).all(1)
    values[answers.train[whole]] = np.nan_to_num(answers.targets[whole])
    known[answers.train[whole]] = True
    return values, known


def _find_structure(graph: Graph) -> NDArray[np.float32]:
    """Return the structure of all nodes, from the cache if it is slow to compute."""
    if graph.num_edges < KEPT_EDGES:
        return describe_structure(graph)
    pointer = digest_array(graph.graph_ptr)  # ranks are those in a graph of a collection
    name = f"structure-{digest_edges(graph)}{pointer and '-' + pointer}"
    return keep_columns(name, (graph.num_nodes, len(COLUMNS)), lambda: describe_structure(graph))


def check_groups(groups: tuple[tuple[str, int], ...], inputs: InputSpec) -> None:
    """Refuse a graph that has other columns than those that a trained model reads."""
    if dict(groups) != inputs.expected:
        have, need = (", ".join(f"{k} ({n})" for k, n in each) for each in (groups, inputs.expected.items()))
        raise GpmError(
            f"The model reads {need}, this graph has {have}; give a graph with the features it was trained on."
        )
