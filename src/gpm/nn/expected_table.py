"""What is known exactly about each instance: means over all walks, known labels around it, structure and position."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from gpm.config import ModelOptions
from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.nn.feature_rows import look_like_bags, normalise_bags, share_array
from gpm.nn.feature_table import InputSpec
from gpm.nn.graph_columns import describe_graphs
from gpm.nn.positional.encodings import embed_laplacian
from gpm.patterns.known_labels import label_means
from gpm.patterns.structure import describe_structure
from gpm.patterns.walk_means import walk_law
from gpm.random_bits import GOLDEN, LABEL_HIDING, MASK, make_key, mix_array

HIDDEN = 0.1  # share of training instances whose known labels are hidden in a step
MOST_COLUMNS = 256  # of the features that means are taken of; more are projected to as many
STEP, LABELS, STRUCTURE, POSITION = "step", "labels", "structure", "position"


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

    values: Tensor  # (I, D) on the host; NaN where nothing is known
    groups: tuple[tuple[str, int], ...]  # name and number of columns of each group
    even: tuple[str, ...] = ()  # groups whose columns keep their relative scale
    sizes: tuple[int, ...] = ()  # categories in each column of the node features, if that is their form
    projection: NDArray[np.float32] | None = None  # of the node features [columns, k]; None if they are narrow
    correction: Tensor | None = None  # what to add to the linear part of training instances (I, C)

    @classmethod
    def build(
        cls, options: ModelOptions, graph: Graph, level: str, answers: Answers | None = None, *,
        inputs: InputSpec | None = None, projection: NDArray | None = None, seen: NDArray | None = None,
        descriptors: NDArray | None = None,
    ) -> ExpectedTable | None:  # fmt: skip
        """Compute the columns that the options name; None if they name none.

        Args:
            options: Options of the model.
            graph: The graph that may be walked.
            level: What an instance is: a node or a graph.
            answers: Answers of the training split, if they are inputs; without them labels are unknown.
            inputs, projection: Inputs of a trained model, and its projection of wide features; by default found here.
            seen: Nodes that a projection may be found from; by default all.
            descriptors: Numbers that come with the graphs of a collection `[G, d]`.
        """
        if level == "link" and (options.expected or options.structure):
            name = "expected" if options.expected else "structure"
            raise GpmError(f"Expected patterns are of nodes and graphs, not of links; leave out --{name}.")
        parts: list[tuple[str, NDArray]] = []
        even: tuple[str, ...] = ()
        sizes: list[int] = []
        if options.expected and graph.x is not None and options.features == "auto":
            x, sizes, even_steps = flatten_features(graph.x, None if inputs is None else inputs.expected_sizes)
            if x.shape[1] > MOST_COLUMNS:
                even_steps = True
                projection = _find_projection(x if seen is None else x[seen]) if projection is None else projection
                x = x @ projection
            x = np.asarray(x.toarray() if sp.issparse(x) else x, dtype=np.float32)
            law = walk_law(graph).astype(np.float32)
            for step in range(options.expected + 1):
                parts.append((f"{STEP} {step}", x))
                x = law @ x
            even = tuple(name for name, _ in parts) if even_steps else ()
        if options.labels == "on" and level == "node":
            parts.append((LABELS, _spread_labels(graph, answers)))
        if options.structure:
            parts.append((STRUCTURE, describe_structure(graph)))
        if options.position and level == "node":
            parts.append((POSITION, embed_laplacian(graph, options.position)))
        if not parts and descriptors is None and not (inputs and inputs.expected):
            return None
        if level == "graph":
            known = () if inputs is None else inputs.expected
            parts = describe_graphs(graph, parts, descriptors, known, summed=f"{STEP} 0", spread=STRUCTURE)
        groups = tuple((name, values.shape[1]) for name, values in parts)
        if inputs is not None and dict(groups) != inputs.expected:
            have, need = (", ".join(f"{k} ({n})" for k, n in each) for each in (groups, inputs.expected.items()))
            raise GpmError(
                f"The model reads {need}, this graph has {have}; give a graph with the features it was trained on."
            )
        values = np.concatenate([values for _, values in parts], axis=1, dtype=np.float32)
        return cls(share_array(values, np.float32, "cpu"), groups, even, tuple(sizes), projection)

    def take(self, instances: Tensor | NDArray) -> Tensor:
        """Return the rows of some instances `[B, D]`."""
        ids = instances if isinstance(instances, Tensor) else torch.from_numpy(np.array(instances))
        return self.values[ids]

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
        columns = 0 if self.projection is None else len(self.projection)
        return replace(inputs, expected=dict(self.groups), expected_sizes=list(self.sizes), projected=columns)

    def corrected(self, correction: Tensor) -> ExpectedTable:
        return replace(self, correction=correction)


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


def flatten_features(x: Any, sizes: list[int] | None) -> tuple[Any, list[int], bool]:
    """Return features as columns of numbers, the sizes of categories, and whether columns keep their relative scale."""
    if look_like_bags(x):
        return normalise_bags(x), [], True
    if sp.issparse(x) or not np.issubdtype(x.dtype, np.integer):
        return x, [], False
    counts = np.array(sizes or (x.max(0, initial=0) + 1).tolist())
    known = x < counts  # a value that training did not have is no flag
    columns = (x + np.cumsum(counts) - counts)[known]
    flags = (np.ones(columns.size, dtype=np.float32), (np.nonzero(known)[0], columns))
    return sp.csr_array(flags, shape=(len(x), int(counts.sum()))), counts.tolist(), False


def _find_projection(x: Any) -> NDArray[np.float32]:
    """Return the leading right singular vectors of features, `[columns, k]`."""
    from sklearn.utils.extmath import randomized_svd

    with threadpool_limits(1):  # the same bits for any number of threads
        _, _, vectors = randomized_svd(sp.csr_array(x).astype(np.float64), MOST_COLUMNS, n_iter=3, random_state=0)
    projection = np.zeros((x.shape[1], MOST_COLUMNS), dtype=np.float32)
    projection[:, : len(vectors)] = vectors.T
    return projection
