"""The same walks in plain torch, for any device: bit for bit what the compiled kernel draws."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.errors import GpmError
from gpm.graph import Graph
from gpm.hashing import GOLDEN, make_key, mix_tensor, signed
from gpm.walks.rule import WalkRule


@dataclass(frozen=True)
class TensorGraph:
    """The structure of a graph as tensors on one device.

    Attributes:
        indptr: `[N+1]`, int64.
        indices: `[E]`, int32 or int64.
        cdf: Running sums of weights `[E]`, or None.
        edge_ids: `[E]`, or None.
        depth: Rounds of a binary search in the longest row.
    """

    indptr: Tensor
    indices: Tensor
    cdf: Tensor | None
    edge_ids: Tensor | None
    depth: int

    @classmethod
    def of(cls, graph: Graph, device: torch.device | str = "cpu") -> TensorGraph:
        """Copy a graph's structure to a device (on the CPU it is shared, not copied)."""
        longest = int(graph.degree().max(initial=0))
        return cls(
            indptr=_to(graph.indptr, device),
            indices=_to(graph.indices, device),
            cdf=None if graph.edge_cdf is None else _to(graph.edge_cdf, device),
            edge_ids=None if graph.edge_ids is None else _to(graph.edge_ids, device),
            depth=longest.bit_length(),
        )

    @property
    def num_nodes(self) -> int:
        return len(self.indptr) - 1


def _to(array: NDArray, device: torch.device | str) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # read-only memory; nothing here writes to it
        return torch.from_numpy(np.asarray(array)).to(device)


def walk_tensors(
    graph: TensorGraph,
    starts: Tensor,
    numbers: Tensor,
    length: int,
    *,
    seed: int = 0,
    rule: WalkRule = WalkRule(),
    forbidden: Tensor | None = None,
    edges: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Draw walks where the tensors are. Arguments and results as in `gpm.walks.walk`."""
    if length < 0:
        raise GpmError(f"the length of a walk must not be negative, got {length}.")
    shape = np.broadcast_shapes(starts.shape, numbers.shape)
    begin, number = (values.long().expand(shape).reshape(-1) for values in (starts, numbers))
    if begin.numel() and not (int(begin.min()) >= 0 and int(begin.max()) < graph.num_nodes):
        raise GpmError(f"a start node is outside 0 to {graph.num_nodes - 1}.")
    banned = None if forbidden is None else forbidden.long().expand(*shape, 2).reshape(-1, 2)
    state = mix_tensor(mix_tensor(begin ^ signed(make_key(seed))) + number)
    stepper = _Stepper(graph, rule, state)
    now, came_from = begin, None
    nodes, crossed = [begin], []
    for step in range(length):
        at = stepper.choose(now, came_from, _banned_target(now, banned), step)
        moved = at >= 0
        came_from = now if rule.second_order else None
        now = torch.where(moved, _take(graph.indices, at).long(), now)
        nodes.append(now)
        crossed.append(at)
    path = torch.stack(nodes, -1).to(graph.indices.dtype).reshape(*shape, length + 1)
    if not edges:
        return path, None
    at = torch.stack(crossed, -1) if crossed else begin.new_empty(len(begin), 0)
    if graph.edge_ids is not None:
        at = torch.where(at >= 0, _take(graph.edge_ids, at).long(), -1)
    return path, at.reshape(*shape, length)


def _banned_target(now: Tensor, forbidden: Tensor | None) -> Tensor | None:
    if forbidden is None:
        return None
    a, b = forbidden.unbind(-1)
    return torch.where(now == a, b, torch.where(now == b, a, -1))


def _take(values: Tensor, at: Tensor) -> Tensor:
    """`values[at]`, with anything where `at` is out of range (the caller masks it)."""
    if not len(values):
        return torch.zeros_like(at)
    return values[at.clamp(0, len(values) - 1)]


class _Stepper:
    """One step of many walks at once; `choose` mirrors the compiled `_open_step` and `_draw_step`."""

    def __init__(self, graph: TensorGraph, rule: WalkRule, state: Tensor) -> None:
        self.graph, self.rule, self.state = graph, rule, state
        self.cdf = graph.cdf if rule.weighted else None
        self.far, self.back = 1.0 / rule.q, 1.0 / rule.p
        self.ceiling, self.floor = max(1.0, self.far), min(1.0, self.far)

    def choose(self, now: Tensor, came_from: Tensor | None, banned: Tensor | None, step: int) -> Tensor:
        begin, stop = self.graph.indptr[now], self.graph.indptr[now + 1]
        f0, f1 = self._range(begin, stop, banned)
        if came_from is not None and banned is not None:
            b0, b1 = self._range(begin, stop, torch.where(came_from == banned, -1, came_from))
        else:
            b0, b1 = self._range(begin, stop, came_from)
        before_f, before_b = self._mass(begin, f0), self._mass(begin, b0)
        mass_f, mass_b = self._mass(begin, f1) - before_f, self._mass(begin, b1) - before_b
        rest = self._mass(begin, stop) - mass_f - mass_b
        weight_b = mass_b.double() * self.back
        if self.rule.non_backtracking:
            weight_b = torch.where(rest > 0, 0.0, weight_b)
        total = weight_b + rest.double() * self.ceiling
        at = torch.full_like(now, -1)
        open_ = (total > 0).nonzero().squeeze(-1)  # walks that have not yet chosen
        draw = 0
        while len(open_):
            o = open_
            position = self._bits(o, step, draw)
            r = self._draw(position, rest[o])
            first_f = before_f[o] <= before_b[o]
            r = r + torch.where(first_f & (r >= before_f[o]), mass_f[o], 0)
            r = r + torch.where(r >= before_b[o], mass_b[o], 0)
            r = r + torch.where(~first_f & (r >= before_f[o]), mass_f[o], 0)
            returns = (weight_b[o] > 0) & (self._unit(self._bits(o, step, draw + 1)) * total[o] < weight_b[o])
            r = torch.where(returns, before_b[o] + self._draw(position, mass_b[o]), r)
            found = begin[o] + r if self.cdf is None else self._lower(self.cdf, begin[o], stop[o], r + 1)
            accepted = returns
            if came_from is None or self.ceiling == self.floor:
                accepted = torch.ones_like(returns)
            else:
                luck = self._unit(self._bits(o, step, draw + 2)) * self.ceiling
                near = self._contains(came_from[o], _take(self.graph.indices, found).long())
                accepted = accepted | (luck < torch.where(near, 1.0, self.far))
            at[o[accepted]] = found[accepted]
            open_ = o[~accepted]
            draw += 3
        return at

    def _range(self, begin: Tensor, stop: Tensor, wanted: Tensor | None) -> tuple[Tensor, Tensor]:
        """The entries of each row that lead to the wanted node; an empty range at `begin` for none (negative)."""
        if wanted is None:
            return begin, begin
        low = self._lower(self.graph.indices, begin, stop, wanted)
        high = self._lower(self.graph.indices, low, stop, wanted + 1)
        return torch.where(wanted < 0, begin, low), torch.where(wanted < 0, begin, high)

    def _lower(self, values: Tensor, low: Tensor, high: Tensor, wanted: Tensor) -> Tensor:
        for _ in range(self.graph.depth):
            middle = (low + high) >> 1
            less = (_take(values, middle).long() < wanted) & (low < high)
            low, high = torch.where(less, middle + 1, low), torch.where(less, high, middle)
        return low

    def _contains(self, node: Tensor, wanted: Tensor) -> Tensor:
        stop = self.graph.indptr[node + 1]
        at = self._lower(self.graph.indices, self.graph.indptr[node], stop, wanted)
        return (at < stop) & (_take(self.graph.indices, at).long() == wanted)

    def _mass(self, begin: Tensor, at: Tensor) -> Tensor:
        if self.cdf is None:
            return at - begin
        return torch.where(at > begin, _take(self.cdf, at - 1), 0)

    def _bits(self, walks: Tensor, step: int, draw: int) -> Tensor:
        return mix_tensor(self.state[walks] + signed((((step << 32) + draw + 1) * GOLDEN) % 2**64))

    def _unit(self, bits: Tensor) -> Tensor:
        return ((bits >> 12) & ((1 << 52) - 1)).double() * 2.0**-52

    def _draw(self, bits: Tensor, mass: Tensor) -> Tensor:
        if self.cdf is not None:
            return (self._unit(bits) * mass.double()).long()
        high, low = (bits >> 32) & 0xFFFFFFFF, bits & 0xFFFFFFFF
        return (high * mass + ((low * mass) >> 32)) >> 32
