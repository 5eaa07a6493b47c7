"""A bag: the patterns of one instance, encoded once, and the prediction when some of them are left out."""

from __future__ import annotations

from collections.abc import Sequence
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
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Part:
    """Patterns that the model reads together: encoded `[M, d]`, with their frame for the readout."""

    encoded: Tensor
    frame: Frame


@dataclass(frozen=True, eq=False)
class Bag:
    """The W walks of an instance. The prediction is the mean over the parts in which the model reads them."""

    predictor: Predictor
    task: Task
    walks: NDArray[np.int64]  # nodes of the walks `[W, L+1]`, -1 past the end
    scales: NDArray[np.int64]  # their lengths `[W]`
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
                walks.append(patterns.nodes[0].cpu().numpy().astype(np.int64))
                scales.append(patterns.scales.cpu().numpy())
        return cls(predictor, task, np.concatenate(walks), np.concatenate(scales), tuple(parts), hidden)

    def __len__(self) -> int:
        return len(self.walks)

    def logits(self, weight: Tensor | None = None) -> Tensor:
        """Compute logits `[S, C]` for S rows of weights of the walks `[S, W]`; by default equal weights, `[1, C]`."""
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
            return self.task.answers(logits).double()
        if isinstance(self.task, LinkTask):
            return torch.cat([-logits, logits], 1)
        return logits if isinstance(self.task, ClassTask) and self.task.multilabel else _log_odds(logits)

    def answers(self, logits: Tensor) -> Tensor:
        """Turn logits into probabilities, or values, `[S, C]`."""
        answers = self.task.answers(logits.cpu().double()).double()
        return torch.cat([1 - answers, answers], 1) if isinstance(self.task, LinkTask) else answers

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
        """Return another bag with some walks of this one, each in its own part, and without the walks `instead`."""
        first, before, nodes, scales, parts = 0, 0, [], [], []
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            size, own = len(theirs.encoded), len(mine.encoded)
            kept = np.setdiff1d(np.arange(first, first + size), instead)
            put = walks[(walks >= before) & (walks < before + own)]
            parts.append(_join(theirs, kept - first, mine, put - before))
            nodes += [other.walks[kept], self.walks[put]]
            scales += [other.scales[kept], self.scales[put]]
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


def _join(one: Part, kept: NDArray, two: Part, put: NDArray) -> Part:
    """Join some patterns of a part, and some of another."""
    first, last = (torch.from_numpy(rows).to(one.encoded.device) for rows in (kept, put))
    sides, shares = one.frame.sides, one.frame.shares
    if sides is not None and two.frame.sides is not None:
        sides = torch.cat([sides[first], two.frame.sides[last]])
    if shares is not None and two.frame.shares is not None:
        shares = torch.cat([shares[:, first], two.frame.shares[:, last]], 1)
    return Part(torch.cat([one.encoded[first], two.encoded[last]]), Frame(sides, shares, one.frame.sizes))


@dataclass(frozen=True, eq=False)
class Group:
    """Walks through the same subgraph: a pattern."""

    walks: NDArray[np.int64]  # their indices in the bag
    nodes: tuple[int, ...]  # in the order of the first walk
    edges: tuple[tuple[int, int], ...]  # as the model sees them, as pairs of nodes, the smaller first

    @property
    def key(self) -> tuple[frozenset[int], tuple[tuple[int, int], ...]]:
        """The nodes and edges, the same in every bag of a graph."""
        return frozenset(self.nodes), self.edges

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
    """Merge walks that the model sees as one subgraph, in order of appearance.

    With topology `loops` these cross the same edges; `induced` and `shape` read all edges among the nodes of a walk, so
    that the same nodes make the same subgraph.
    """
    inside = bag.predictor.tokenizer.topology != "loops"
    members: dict[Any, list[int]] = {}
    for i, walk in enumerate(bag.walks.tolist()):
        visited = frozenset(node for node in walk if node >= 0)
        members.setdefault(visited if inside else (visited, crossed(walk)), []).append(i)
    groups = []
    for walks in members.values():
        first = bag.walks[walks[0]]
        nodes = tuple(dict.fromkeys(first[first >= 0].tolist()))
        groups.append(Group(np.array(walks), nodes, () if inside else crossed(first.tolist())))
    return _fill_in(bag.predictor.tokenizer.graph, groups, bag.hidden) if inside else groups


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
