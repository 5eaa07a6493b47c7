"""A bag: the patterns of one instance, encoded once, and the prediction when some of them are left out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from gpm.graph.graph import Graph
from gpm.nn import LinkPatternMachine
from gpm.nn.predictor import Predictor, evaluating
from gpm.nn.semantic_path import TokenMaps
from gpm.patterns.tokenizer import Frame
from gpm.patterns.walks import has_edge
from gpm.tasks import ClassTask, LinkTask, Task, ValueTask

MOST_NUMBERS = 1 << 22  # entries of one tensor in a forward pass
EXPECTED = -1  # in the place of a length
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Part:
    """Patterns that the model reads together: encoded `[M, d]`, with their frame for the readout."""

    encoded: Tensor
    frame: Frame


@dataclass(frozen=True, eq=False)
class Bag:
    """The W patterns of an instance: walks and, at the end, expected patterns.

    The prediction is the mean over the parts in which the model reads them. Expected patterns are in every part.
    """

    predictor: Predictor
    task: Task
    walks: NDArray[np.int64]  # nodes of the walks `[W, L+1]`, -1 past the end; an expected pattern has none
    scales: NDArray[np.int64]  # their lengths `[W]`; EXPECTED of an expected pattern
    parts: tuple[Part, ...]  # the same walks, encoded, in the same order
    hidden: tuple[int, int] | None = None  # a link's own edge, which no pattern sees

    @classmethod
    @torch.no_grad()
    def draw(
        cls, predictor: Predictor, task: Task, instance: NDArray, *, seed: int | None = None,
        graph: Graph | None = None, maps: TokenMaps | None = None,
    ) -> Bag:  # fmt: skip
        """Draw and encode the patterns that the prediction of an instance (a node or graph `[1]`, or a pair `[1, 2]`)
        reads; with another seed, on another graph with the same nodes and edge ids, or with the maps of all nodes.
        """
        if seed is not None or graph is not None:
            own = predictor.tokenizer
            predictor = replace(predictor, tokenizer=own.redraw(own.seed if seed is None else seed, graph))
        if isinstance(predictor.model, LinkPatternMachine) and predictor.model.pair == "product":
            predictor = replace(predictor, forbid=False)  # its ends are embedded each on its own
        hides = predictor.level == "link" and predictor.forbid
        hidden = (int(instance.min()), int(instance.max())) if hides else None
        count, rounds = predictor.portion()
        walks, scales, parts = [], [], []
        with evaluating(predictor.model):
            for i in range(rounds):
                patterns = predictor.tokenize(instance, count, share=(i, rounds))
                encoded = predictor.model.encode(patterns, predictor.table, maps)[0]
                parts.append(Part(encoded, patterns.frame))
                nodes, lengths = patterns.nodes[0].cpu().numpy().astype(np.int64), patterns.scales.cpu().numpy()
                walks.append(np.pad(nodes, ((0, len(encoded) - len(nodes)), (0, 0)), constant_values=-1))
                scales.append(np.pad(lengths, (0, len(encoded) - len(lengths)), constant_values=EXPECTED))
        return cls(predictor, task, np.concatenate(walks), np.concatenate(scales), tuple(parts), hidden)

    def __len__(self) -> int:
        return len(self.walks)

    @property
    def expected(self) -> list[str]:
        """Names of the expected patterns, in their order."""
        return [] if self.predictor.model.expected is None else self.predictor.model.expected.names

    def logits(self, weight: Tensor | None = None) -> Tensor:
        """Compute logits `[S, C]` for S rows of weights of the patterns `[S, W]`; by default equal ones, `[1, C]`."""
        if weight is None:
            return torch.stack([self._read(part, None).logits for part in self.parts]).mean(0)
        weight = weight.to(self.parts[0].encoded)
        heads = self.predictor.model.options.heads or 1
        largest = max(p.encoded.shape[0] * max(p.encoded.shape[1], heads * p.encoded.shape[0]) for p in self.parts)
        return torch.cat([self._weigh(some) for some in torch.split(weight, max(1, MOST_NUMBERS // largest))])

    def _weigh(self, weight: Tensor) -> Tensor:
        pieces = torch.split(weight, [len(part.encoded) for part in self.parts], 1)
        return torch.stack([self._read(*pair).logits for pair in zip(self.parts, pieces, strict=True)]).mean(0)

    def _read(self, part: Part, weight: Tensor | None) -> Any:
        model = self.predictor.model
        rows = 1 if weight is None else len(weight)
        with evaluating(model):
            return model.read(part.encoded.expand(rows, -1, -1), part.frame, weight)

    def measure(self, logits: Tensor) -> Tensor:
        """Turn logits into evidence `[S, C]`: values, or log-odds of each class or label, which do not saturate as
        probabilities do. A link has two classes: "no link" and "link".
        """
        logits = logits.cpu().double()
        if isinstance(self.task, ValueTask):
            return self.task.unlimited(logits)
        if isinstance(self.task, LinkTask):
            return torch.cat([-logits, logits], 1)
        return logits if isinstance(self.task, ClassTask) and self.task.multilabel else _log_odds(logits)

    def answers(self, logits: Tensor) -> Tensor:
        """Turn logits into probabilities, or values, `[S, C]`."""
        answers = self.task.answers(logits.cpu().double()).double()
        return torch.cat([1 - answers, answers], 1) if isinstance(self.task, LinkTask) else answers

    def decide(self, logits: Tensor) -> int:
        """Return the index of the predicted class; for several labels or values, of the largest."""
        if isinstance(self.task, ClassTask) and not self.task.multilabel:
            return int(self.task.decide(logits.cpu())[0])
        return int(self.answers(logits)[0].argmax())

    @property
    def classes(self) -> int:
        """C, the number of classes, labels or values."""
        return 2 if isinstance(self.task, LinkTask) else self.task.outputs

    @torch.no_grad()
    def attention(self) -> NDArray | None:
        """Return the share of the attention on each walk `[W]`; None if the readout has no attention."""
        shares = [self._read(part, None).weights for part in self.parts]
        if any(weights is None for weights in shares):
            return None
        return torch.cat(shares, 1)[0].cpu().double().numpy() / len(shares)

    @torch.no_grad()
    def leave_out(self, groups: Sequence[NDArray]) -> Tensor:
        """Compute logits `[G, C]` without the walks of each group."""
        weight = torch.ones(len(groups), len(self))
        for row, group in enumerate(groups):
            weight[row, group] = 0
        return self.logits(weight)

    def slopes(self, weight: Tensor, classes: Sequence[int]) -> NDArray:
        """Differentiate the evidence by the weight of each walk `[S, W]`, row by row for the class of the row."""
        weight = weight.clone().requires_grad_()
        with torch.enable_grad():
            measured = self.measure(self.logits(weight))
            (slope,) = torch.autograd.grad(measured[torch.arange(len(weight)), torch.as_tensor(classes)].sum(), weight)
        return slope.cpu().double().numpy()

    def put_into(self, walks: NDArray[np.int64], other: Bag, instead: NDArray[np.int64] = _NONE) -> Bag:
        """Return another bag with some walks of this one, each in its own part, and without the walks `instead`.

        Expected patterns are the same in both bags, and stay.
        """
        walks, instead = walks[self.scales[walks] != EXPECTED], instead[other.scales[instead] != EXPECTED]
        first, before, nodes, scales, parts = 0, 0, [], [], []
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            size, own = len(theirs.encoded), len(mine.encoded)
            last = first + size - len(self.expected)
            kept, known = np.setdiff1d(np.arange(first, last), instead), np.arange(last, first + size)
            put = walks[(walks >= before) & (walks < before + own)]
            parts.append(_join(theirs, kept - first, mine, put - before, known - first))
            nodes += [other.walks[kept], self.walks[put], other.walks[known]]
            scales += [other.scales[kept], self.scales[put], other.scales[known]]
            first, before = first + size, before + own
        walked, lengths = np.concatenate(nodes), np.concatenate(scales)
        return Bag(self.predictor, self.task, walked, lengths, tuple(parts), self.hidden)


def _log_odds(logits: Tensor) -> Tensor:
    """Compute the log-odds of every class `[S, C]` without loss of precision for the likeliest one."""
    best = functional.one_hot(logits.argmax(1), logits.shape[1]).bool()
    whole = logits.logsumexp(1, keepdim=True)
    below = torch.where(best, -1.0, logits - whole)  # log-probabilities of at most a half
    rest = logits.masked_fill(best, -torch.inf).logsumexp(1, keepdim=True)
    return torch.where(best, logits - rest, below - torch.log1p(-below.exp()))


def _join(one: Part, kept: NDArray, two: Part, put: NDArray, known: NDArray) -> Part:
    """Join some walks of a part, some of another, and the expected patterns of the first."""
    first, last, end = (torch.from_numpy(rows).to(one.encoded.device) for rows in (kept, put, known))
    sides, shares = one.frame.sides, one.frame.shares
    if sides is not None and two.frame.sides is not None:
        sides = torch.cat([sides[first], two.frame.sides[last]])
    if shares is not None and two.frame.shares is not None:
        shares = torch.cat([shares[:, first], two.frame.shares[:, last]], 1)
    encoded = torch.cat([one.encoded[first], two.encoded[last], one.encoded[end]])
    return Part(encoded, replace(one.frame, sides=sides, shares=shares))


@dataclass(frozen=True, eq=False)
class Group:
    """Walks through the same subgraph: a pattern. An expected pattern has a name, and neither nodes nor edges."""

    walks: NDArray[np.int64]  # their indices in the bag
    nodes: tuple[int, ...]  # in the order of the first walk
    edges: tuple[tuple[int, int], ...]  # as the model sees them, as pairs of nodes, the smaller first
    expected: str = ""

    @property
    def key(self) -> Hashable:
        """The nodes and edges, or the name of an expected pattern: the same in every bag of a graph."""
        return self.expected or (frozenset(self.nodes), self.edges)

    def adjacency(self) -> NDArray[np.bool_]:
        """Return the adjacency matrix `[n, n]`."""
        index = {node: i for i, node in enumerate(self.nodes)}
        matrix = np.zeros((len(index), len(index)), dtype=np.bool_)
        for a, b in self.edges:
            matrix[index[a], index[b]] = matrix[index[b], index[a]] = True
        return matrix


def crossed(walk: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the edges that a walk crosses, each once, the smaller node first; a step in place crosses none."""
    return tuple(sorted({(min(a, b), max(a, b)) for a, b in pairwise(walk) if a != b and b >= 0}))


def group_walks(bag: Bag) -> list[Group]:
    """Merge walks that the model sees as one subgraph, in order of appearance; expected patterns come last.

    With topology `loops` these cross the same edges; `induced` and `shape` read all edges among the nodes of a walk, so
    that the same nodes make the same subgraph.
    """
    inside = bag.predictor.tokenizer.topology != "loops"
    members: dict[Any, list[int]] = {}
    for i, walk in enumerate(bag.walks.tolist()):
        if walk[0] < 0:  # an expected pattern
            continue
        visited = frozenset(node for node in walk if node >= 0)
        members.setdefault(visited if inside else (visited, crossed(walk)), []).append(i)
    groups = []
    for walks in members.values():
        first = bag.walks[walks[0]]
        nodes = tuple(dict.fromkeys(first[first >= 0].tolist()))
        groups.append(Group(np.array(walks), nodes, () if inside else crossed(first.tolist())))
    if inside:
        groups = _fill_in(bag.predictor.tokenizer.graph, groups, bag.hidden)
    known = np.flatnonzero(bag.walks[:, 0] < 0).reshape(len(bag.parts), -1)  # the same ones in every part
    return groups + [Group(at, (), (), name) for at, name in zip(known.T, bag.expected, strict=True)]


def _fill_in(graph: Graph, groups: list[Group], hidden: tuple[int, int] | None) -> list[Group]:
    """Add all edges of the graph among the nodes of each group, except a hidden one."""
    pairs = [[(min(a, b), max(a, b)) for i, a in enumerate(group.nodes) for b in group.nodes[:i]] for group in groups]
    flat = np.array([pair for some in pairs for pair in some], dtype=np.int64).reshape(-1, 2)
    there = has_edge(graph, flat[:, 0], flat[:, 1]) | has_edge(graph, flat[:, 1], flat[:, 0])
    there &= ~(flat == (hidden or (-1, -1))).all(1)
    bounds = np.cumsum([0, *map(len, pairs)])
    return [
        replace(group, edges=tuple(sorted(pair for pair, yes in zip(some, there[first:], strict=False) if yes)))
        for group, some, first in zip(groups, pairs, bounds, strict=False)
    ]
