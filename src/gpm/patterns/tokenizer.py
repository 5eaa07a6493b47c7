"""Patterns and the tokenizer: an instance (a node, a link, a graph) becomes a set of walks (a bag) and their shapes.

The k patterns of an instance, its pool, are computed and not stored: pattern j of a node is walk j of that node under
the seed, and its length follows from j. A training step draws m of the k; inference uses all.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from gpm.config import MAX_POSITIONS, Config, Kind
from gpm.errors import GpmError, kind_of, whole_number
from gpm.graph.graph import Graph
from gpm.patterns.meetings import mark_meetings
from gpm.patterns.topologies import KINDS, Topologies, find_topologies
from gpm.patterns.walks import TensorGraph, WalkRule, walk, walk_tensors
from gpm.random_bits import GOLDEN, GRAPH_START, MASK, POOL, below_array, make_key, mix_array

Kernel = Literal["auto", "compiled", "torch"]


@dataclass(frozen=True)
class Frame:
    """What a readout needs besides the encoded patterns: `shares` are weights of the patterns of graphs `[B, M]`, else
    None; the others are as in `Patterns`.
    """

    sides: Tensor | None = None
    shares: Tensor | None = None
    sizes: Tensor | None = None
    rows: Tensor | None = None
    expected: Tensor | None = None
    correction: Tensor | None = None


@dataclass(frozen=True)
class Patterns:
    """The patterns of B instances, M each, in slots ordered by scale."""

    nodes: Tensor  # (B, M, L+1): a pattern of scale s has s+1 nodes, the rest is -1
    scales: Tensor  # length of the pattern in each slot (M), in the order of the tokenizer's `lengths`
    numbers: Tensor  # indices of the patterns in their pools (B, M)
    topology: Tensor  # index of each pattern's topology in `table` (B, M)
    table: Topologies  # the distinct topologies of the batch, on the host
    edges: Tensor | None = None  # ids of the edges crossed (B, M, L), -1 for none; None unless requested
    sides: Tensor | None = None  # for links, the endpoint (0 or 1) at which the patterns of a slot start (M)
    marks: Tensor | None = None  # for links, on request, how positions are reached from the other endpoint (B, M, L+1)
    sizes: Tensor | None = None  # for graphs, their numbers of nodes (B)
    rows: Tensor | None = None  # in training, the indices of the instances in the batch of all ranks (B)
    own: Tensor | None = None  # where nodes carry known labels, the node whose own label is hidden (B)
    expected: Tensor | None = None  # what is known exactly of the instances (B, D), see `gpm.nn.expected_table`
    correction: Tensor | None = None  # in training, what to add to the linear part (B, C)

    def groups(self) -> Iterator[tuple[int, slice]]:
        """Yield each scale with its slots: `nodes[:, slots, :scale + 1]` is one dense block without padding."""
        scales = self.scales.tolist()
        first = 0
        for i in range(1, len(scales) + 1):
            if i == len(scales) or scales[i] != scales[first]:
                yield scales[first], slice(first, i)
                first = i

    @property
    def shares(self) -> Tensor | None:
        """For graphs, weights of the patterns `[B, M]`, with sum 1; a scale weighs all its start nodes equally."""
        if self.sizes is None:
            return None
        starts, parts = self.nodes[:, :, 0], []
        for _, slots in self.groups():
            here = starts[:, slots]
            weight = 1.0 / (here[:, :, None] == here[:, None, :]).sum(2)  # (B, m), over patterns with the same start
            parts.append(weight / weight.sum(1, keepdim=True) * (here.shape[1] / starts.shape[1]))
        return torch.cat(parts, 1)

    @property
    def frame(self) -> Frame:
        """What a readout needs besides the encoded patterns."""
        return Frame(self.sides, self.shares, self.sizes, self.rows, self.expected, self.correction)

    def table_rows(self, num_nodes: int) -> Tensor:
        """Return the row of a feature table at every position `(B, M, L+1)`: N + v where node v meets itself."""
        if self.own is None:
            return self.nodes
        return torch.where(self.nodes == self.own[:, None, None], self.nodes + num_nodes, self.nodes)

    def to(self, device: torch.device | str) -> Patterns:
        """Return the same patterns on another device."""
        moved: dict[str, Any] = {k: v.to(device) for k, v in vars(self).items() if isinstance(v, Tensor)}
        return replace(self, **moved)


class Tokenizer:
    """Turns instances of a graph into `Patterns`.

    Args:
        graph: The graph to walk on.
        lengths: Scales: pattern j has length `lengths[j % len(lengths)]`, so the pool is split evenly over them.
        pool: k, the number of patterns of an instance.
        topology: Kind of topology to find.
        seed: Seed of every pattern.
        rule: The law of a step.
        edges: Return edge ids; by default if the graph has edge features.
        device: Device to walk on: by the compiled kernel on the CPU, elsewhere (or with kernel "torch") by torch.
        kernel: "auto", "compiled" or "torch". All draw the same bits.
        threads: Threads of the compiled kernel; the result does not depend on them.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        lengths: Sequence[int] = (2, 4, 6, 8),
        pool: int = 128,
        topology: Kind = "loops",
        seed: int = 0,
        rule: WalkRule = WalkRule(),
        edges: bool | None = None,
        device: torch.device | str = "cpu",
        kernel: Kernel = "auto",
        threads: int | None = None,
    ) -> None:
        if not isinstance(graph, Graph):
            raise GpmError(
                f"Give a gpm Graph, not a {kind_of(graph)}; Graph.from_pyg or Graph.from_networkx makes one."
            )
        if not isinstance(lengths, (Sequence, np.ndarray)) or isinstance(lengths, str):
            raise GpmError(f"lengths must be a list, as in [2, 4, 6, 8], got {lengths!r}.")
        self.lengths = tuple(whole_number(n, "a length") for n in lengths)
        pool = whole_number(pool, "pool")
        if not self.lengths or min(self.lengths) < 0 or max(self.lengths) >= MAX_POSITIONS:
            raise GpmError(f"lengths must be a list of 0 to {MAX_POSITIONS - 1}, got {list(lengths)}.")
        if len(set(self.lengths)) < len(self.lengths):
            raise GpmError(f"lengths must differ, got {list(lengths)}.")
        if pool < len(self.lengths):
            raise GpmError(f"A pool of {pool} patterns is too small for {len(self.lengths)} lengths; enlarge pool.")
        if topology not in KINDS:
            raise GpmError(f"Unknown topology {topology!r}; choose one of {', '.join(KINDS)}.")
        if kernel not in ("auto", "compiled", "torch"):
            raise GpmError(f"Unknown kernel {kernel!r}; choose auto, compiled or torch.")
        self.graph, self.pool, self.topology, self.seed, self.rule = graph, pool, topology, seed, rule
        self.edges = graph.edge_attr is not None if edges is None else edges
        self.device, self.threads = torch.device(device), threads
        portable = kernel == "torch" or (kernel == "auto" and self.device.type != "cpu")
        self._tensors = TensorGraph.of(graph, self.device) if portable else None

    @classmethod
    def from_config(cls, graph: Graph, config: Config, device: torch.device | str = "cpu") -> Tokenizer:
        """Return the tokenizer that the options of a run describe."""
        options = {name: getattr(config, name) for name in ("lengths", "pool", "topology", "seed")}
        return cls(graph, rule=WalkRule.from_config(config), device=device, **options)

    def redraw(self, seed: int, graph: Graph | None = None) -> Tokenizer:
        """Return the same tokenizer with another seed, and on another graph if one is given."""
        other = copy.copy(self)
        other.seed = seed
        if graph is not None:
            other.graph = graph
            other._tensors = None if self._tensors is None else TensorGraph.of(graph, self.device)
        return other

    def nodes(self, nodes: ArrayLike, *, count: int | None = None, turn: int = 0) -> Patterns:
        """Draw the patterns of nodes `[B]`: walks from the node.

        Args:
            nodes: The nodes.
            count: m, the number of patterns to draw from the pool; by default all k.
            turn: Index of the training step (or epoch): each turn draws other patterns.
        """
        owners = _as_instances(nodes, "nodes", 1)
        return self._collect([(owners, owners)], count, turn, None)

    def links(
        self,
        pairs: ArrayLike,
        *,
        count: int | None = None,
        turn: int = 0,
        forbid: bool = False,
        marks: bool = False,
        share: tuple[int, int] = (0, 1),
    ) -> Patterns:
        """Draw the patterns of links `[B, 2]`: `count` of each endpoint, side by side.

        Args:
            pairs: The endpoints.
            count, turn: As for nodes, for each endpoint.
            forbid: Treat the link itself as absent: it is not crossed, and no topology shows it.
            marks: Also mark where the patterns of the two endpoints meet, see `gpm.patterns.meetings`.
            share: (i, n): draw from the i-th of n disjoint shares of the pool.
        """
        ends = _as_instances(pairs, "pairs", 2)
        if ends.shape[1] != 2:
            raise GpmError(f"pairs must have shape [B, 2], got {list(ends.shape)}.")
        sides: list[tuple[NDArray, NDArray | None]] = [(ends[:, 0], ends[:, 0]), (ends[:, 1], ends[:, 1])]
        patterns = self._collect(sides, count, turn, ends if forbid else None, share)
        if not marks:
            return patterns
        nodes, starts = patterns.nodes.cpu().numpy(), np.asarray(patterns.sides.cpu())  # type: ignore[union-attr]
        marked = mark_meetings(self.graph, nodes, starts, ends, forbid=forbid, threads=self.threads)
        return replace(patterns, marks=torch.from_numpy(marked).to(self.device))

    def graphs(self, graphs: ArrayLike, *, count: int | None = None, turn: int = 0) -> Patterns:
        """Draw the patterns of graphs `[B]` of the collection: walks from nodes that are spread evenly over the graph.

        In a graph of n nodes, the i-th pattern of a scale starts at node `(u + i * stride) mod n`, where `u` is a hash
        of the graph and the stride is coprime to n. So every start is uniform, and n consecutive patterns start at
        every node once.

        Args:
            graphs: Indices of the graphs; 0 for a single graph.
            count, turn: As for nodes.
        """
        chosen = _as_instances(graphs, "graphs", 1)
        patterns = self._collect([(chosen, None)], count, turn, None)
        return replace(patterns, sizes=torch.from_numpy(self._graph_range(chosen)[1]).to(self.device))

    def _collect(
        self,
        sides: list[tuple[NDArray, NDArray | None]],
        count: int | None,
        turn: int,
        forbidden: NDArray | None,
        share: tuple[int, int] = (0, 1),
    ) -> Patterns:
        """Walk every (scale, side) as one block and join the blocks along the slots."""
        count = self.pool if count is None else count
        if not len(self.lengths) <= count <= self.pool:
            raise GpmError(
                f"count must lie between {len(self.lengths)} (one per length) and the pool's {self.pool}, got {count}."
            )
        longest, blocks = max(self.lengths), []
        for scale, length in enumerate(self.lengths):
            for side, (owners, starts) in enumerate(sides):
                numbers = self._numbers(owners, scale, count, turn, share, in_a_row=starts is None)
                begin = self._graph_starts(owners, numbers) if starts is None else starts[:, None]
                nodes, edges = self._walk(begin, numbers, length, forbidden)
                blocks.append((nodes, edges, numbers, length, side))
        nodes = np.concatenate([_pad(block[0], longest + 1) for block in blocks], axis=1)
        slots = nodes.shape[1]
        table_at, table = find_topologies(
            self.graph,
            nodes.reshape(-1, longest + 1),
            self.topology,
            forbidden=None if forbidden is None else np.repeat(forbidden, slots, axis=0),
            threads=self.threads,
        )
        edges = np.concatenate([_pad(block[1], longest) for block in blocks], axis=1) if self.edges else None
        width = [block[2].shape[1] for block in blocks]
        patterns = Patterns(
            nodes=torch.from_numpy(nodes),
            scales=torch.from_numpy(np.repeat([block[3] for block in blocks], width)),
            numbers=torch.from_numpy(np.concatenate([block[2] for block in blocks], axis=1)),
            topology=torch.from_numpy(table_at.reshape(nodes.shape[:2])),
            table=table,
            edges=None if edges is None else torch.from_numpy(edges),
            sides=torch.from_numpy(np.repeat([block[4] for block in blocks], width)) if len(sides) > 1 else None,
        )
        return patterns if self.device.type == "cpu" else patterns.to(self.device)

    def _numbers(
        self, owners: NDArray, scale: int, count: int, turn: int, share: tuple[int, int], *, in_a_row: bool
    ) -> NDArray[np.int64]:
        """Return the pool indices of one scale that a turn draws for each owner `[B, m_s]`: those with the smallest
        hashes, or consecutive ones from a random offset if their order is what spreads them.
        """
        scales = len(self.lengths)
        pool = np.arange(scale, self.pool, scales, dtype=np.int64)[share[0] :: share[1]]
        wanted = min(len(range(scale, count, scales)), len(pool))
        if wanted == len(pool):
            return np.tile(pool, (len(owners), 1))
        key = np.uint64(make_key((make_key(self.seed, POOL) + whole_number(turn, "turn") * GOLDEN) & MASK))
        state = mix_array(owners.astype(np.uint64) ^ key)
        if in_a_row:
            first = below_array(mix_array(state + np.uint64(scale)), np.array(len(pool)))
            return np.asarray(pool[(first[:, None] + np.arange(wanted)) % len(pool)])
        order = mix_array(state[:, None] + pool.astype(np.uint64))
        drawn = np.argpartition(order, wanted - 1, axis=1)[:, :wanted]
        return pool[np.sort(drawn, axis=1)]

    def _graph_range(self, graphs: NDArray) -> tuple[NDArray, NDArray]:
        """Return the first node of some graphs, and their sizes."""
        pointer = np.array([0, self.graph.num_nodes]) if self.graph.graph_ptr is None else self.graph.graph_ptr
        if graphs.size and not (graphs.min() >= 0 and graphs.max() < len(pointer) - 1):
            raise GpmError(f"Graphs are numbered 0 to {len(pointer) - 2}, got {graphs.min()} to {graphs.max()}.")
        return pointer[graphs], pointer[graphs + 1] - pointer[graphs]

    def _graph_starts(self, graphs: NDArray, numbers: NDArray) -> NDArray[np.int64]:
        first, size = self._graph_range(graphs)
        if (size == 0).any():
            raise GpmError(f"Graph {graphs[np.argmin(size)]} has no nodes, so it has no patterns; leave it out.")
        if not numbers.size:
            return numbers
        state = mix_array(graphs.astype(np.uint64) ^ np.uint64(make_key(self.seed, GRAPH_START)))
        scale, index = np.uint64(numbers[0, 0] % len(self.lengths)), numbers // len(self.lengths)  # all of one scale
        begin = below_array(mix_array(state + scale), size)[:, None]
        different, which = np.unique(size, return_inverse=True)
        stride = np.array([find_stride(int(n)) for n in different])[which]
        return np.asarray(first[:, None] + (begin + index * stride[:, None]) % size[:, None])

    def _walk(
        self, starts: NDArray, numbers: NDArray, length: int, forbidden: NDArray | None
    ) -> tuple[NDArray, NDArray | None]:
        banned = None if forbidden is None else forbidden[:, None, :]
        if self._tensors is None:
            return walk(
                self.graph, starts, numbers, length, seed=self.seed, rule=self.rule, forbidden=banned, edges=self.edges,
                threads=self.threads,
            )  # fmt: skip
        begin, number = (torch.from_numpy(np.ascontiguousarray(a)).to(self.device) for a in (starts, numbers))
        nodes, edges = walk_tensors(
            self._tensors, begin, number, length, seed=self.seed, rule=self.rule, edges=self.edges,
            forbidden=None if banned is None else torch.from_numpy(banned).to(self.device),
        )  # fmt: skip
        return nodes.cpu().numpy(), None if edges is None else edges.cpu().numpy()


@functools.cache
def find_stride(count: int) -> int:
    """Return a stride modulo `count` that visits all residues and spreads the first few: near the golden section."""
    stride = max(1, round(count * 0.6180339887498949))
    while math.gcd(stride, count) > 1:
        stride += 1
    return stride


def _as_instances(values: ArrayLike, name: str, dimensions: int) -> NDArray[np.int64]:
    array = values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.size == 0:
        array = np.zeros((0, 2)[:dimensions], dtype=np.int64)
    if array.ndim != dimensions or not np.issubdtype(array.dtype, np.integer):
        raise GpmError(
            f"{name} must be integers in {dimensions} dimension(s), got {array.dtype} {list(array.shape)}; "
            "graph.find gives the number of a name."
        )
    return array.astype(np.int64)


def _pad(block: NDArray | None, width: int) -> NDArray:
    assert block is not None
    return np.pad(block, ((0, 0), (0, 0), (0, width - block.shape[2])), constant_values=-1)
