"""The same walks in plain torch, for any device, bit for bit equal to those of the compiled kernels."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.patterns.walks.rule import WalkRule
from gpm.random_bits import GOLDEN, make_key, mix_tensor, signed


@dataclass(frozen=True)
class TensorGraph:
    """The structure of a graph as tensors on one device."""

    indptr: Tensor  # (N+1), int64
    indices: Tensor  # (E), int32 or int64
    cdf: Tensor | None  # running sums of weights (E)
    edge_ids: Tensor | None  # (E)
    depth: int  # rounds of a binary search in the longest row
    simple: bool  # no parallel edges
    plain: bool  # nor one-way edges

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
            simple=graph.is_simple,
            plain=graph.is_simple and not graph.census.directed,
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
    """Draw walks on the device of the tensors. Arguments and results are as in `gpm.patterns.walks.walk`."""
    if length < 0:
        raise GpmError(f"The length of a walk must not be negative, got {length}.")
    for name, values in (("starts", starts), ("numbers", numbers), ("forbidden", forbidden)):
        if values is not None and (values.is_floating_point() or values.is_complex()):
            raise GpmError(f"{name} must be integers, got {values.dtype}.")
    shape = np.broadcast_shapes(starts.shape, numbers.shape)
    begin, number = (values.long().expand(shape).reshape(-1) for values in (starts, numbers))
    if begin.numel() and not (int(begin.min()) >= 0 and int(begin.max()) < graph.num_nodes):
        raise GpmError(f"A start node is outside 0 to {graph.num_nodes - 1}.")
    banned = None if forbidden is None else forbidden.long().expand(*shape, 2).reshape(-1, 2)
    state = mix_tensor(mix_tensor(begin ^ signed(make_key(seed))) + number)
    stepper = _Stepper(graph, rule, state)
    plain = graph.plain and rule.second_order and stepper.cdf is None and banned is None
    now, back = begin, None
    nodes, crossed = [begin], []
    for step in range(length):
        if plain:
            at = stepper.choose_plain(now, back, step)
        else:
            at = stepper.choose(now, back, _banned_target(now, banned), _banned_target(back, banned), step)
        back = now if rule.second_order else None
        now = torch.where(at >= 0, _take(graph.indices, at).long(), now)
        nodes.append(now)
        crossed.append(at)
    path = torch.stack(nodes, -1).to(graph.indices.dtype).reshape(*shape, length + 1)
    if not edges:
        return path, None
    at = torch.stack(crossed, -1) if crossed else begin.new_empty(len(begin), 0)
    if graph.edge_ids is not None:
        at = torch.where(at >= 0, _take(graph.edge_ids, at).long(), -1)
    return path, at.reshape(*shape, length)


def _banned_target(now: Tensor | None, forbidden: Tensor | None) -> Tensor | None:
    """Return the node that a walk at `now` may not go to, -1 for none."""
    if forbidden is None or now is None:
        return None
    a, b = forbidden.unbind(-1)
    return torch.where(now == a, b, torch.where(now == b, a, -1))


def _take(values: Tensor, at: Tensor) -> Tensor:
    """Return `values[at]`, with arbitrary values where `at` is out of range (the caller masks them)."""
    if not len(values):
        return torch.zeros_like(at)
    return values[at.clamp(0, len(values) - 1)]


class _Stepper:
    """One step of many walks at once; `choose` mirrors the compiled `_open_step`, `_draw_step` and `_test_draws`."""

    def __init__(self, graph: TensorGraph, rule: WalkRule, state: Tensor) -> None:
        self.graph, self.rule, self.state = graph, rule, state
        self.cdf = graph.cdf if rule.weighted else None
        self.far, self.back_weight = 1.0 / rule.q, 1.0 / rule.p
        self.both_rows = self.far < 1.0 and graph.simple and self.cdf is None

    def choose(
        self, now: Tensor, back: Tensor | None, banned: Tensor | None, back_banned: Tensor | None, step: int
    ) -> Tensor:
        begin, stop = self.graph.indptr[now], self.graph.indptr[now + 1]
        nowhere = torch.full_like(now, -1)
        banned = nowhere if banned is None else banned
        back_banned = nowhere if back_banned is None else back_banned
        f0, f1 = self._range(begin, stop, banned)
        b0, b1 = self._range(begin, stop, nowhere if back is None else torch.where(back == banned, -1, back))
        before_f, before_b = self._mass(begin, f0), self._mass(begin, b0)
        mass_f, mass_b = self._mass(begin, f1) - before_f, self._mass(begin, b1) - before_b
        rest = self._mass(begin, stop) - mass_f - mass_b
        weight_b = mass_b.double() * self.back_weight
        if self.rule.non_backtracking:
            weight_b = torch.where(rest > 0, 0.0, weight_b)
        if back is None:
            certain = total = rest.double()
            back_begin = back_stop = torch.zeros_like(now)
        else:
            back_begin, back_stop = self.graph.indptr[back], self.graph.indptr[back + 1]
            span = torch.minimum(rest, back_stop - back_begin) if self.both_rows else rest
            certain = weight_b + rest.double() * min(1.0, self.far)
            total = certain + span.double() * abs(1.0 - self.far)
        at, back = nowhere.clone(), nowhere if back is None else back
        open_ = (total > 0).nonzero().squeeze(-1)  # walks that have not yet chosen
        draw = 0
        while len(open_):
            o = open_
            bits = self._bits(o, step, draw)
            luck = self._unit(self._bits(o, step, draw + 1)) * total[o]
            r = self._draw(bits, rest[o])
            first_f = before_f[o] <= before_b[o]
            r = r + torch.where(first_f & (r >= before_f[o]), mass_f[o], 0)
            r = r + torch.where(r >= before_b[o], mass_b[o], 0)
            r = r + torch.where(~first_f & (r >= before_f[o]), mass_f[o], 0)
            r = torch.where(luck < weight_b[o], before_b[o] + self._draw(bits, mass_b[o]), r)
            found = begin[o] + r if self.cdf is None else self._lower(self.cdf, begin[o], stop[o], r + 1)
            accepted = luck < certain[o]
            if not bool(accepted.all()):
                drawn = _take(self.graph.indices, found).long()
                near, _ = self._find(back_begin[o], back_stop[o], drawn)
                near = near & (drawn != back_banned[o])
                passes = near if self.far < 1.0 else ~near
                if self.both_rows:
                    degree = back_stop[o] - back_begin[o]
                    theirs = ~accepted & (degree < rest[o])
                    drawn = _take(self.graph.indices, back_begin[o] + self._draw(bits, degree)).long()
                    common, place = self._find(begin[o], stop[o], drawn)
                    common = common & (drawn != back[o]) & (drawn != banned[o]) & (drawn != back_banned[o])
                    passes, found = torch.where(theirs, common, passes), torch.where(theirs, place, found)
                accepted = accepted | passes
            at[o[accepted]] = found[accepted]
            open_ = o[~accepted]
            draw += 2
        return at

    def choose_plain(self, now: Tensor, back: Tensor | None, step: int) -> Tensor:
        """`choose` for plain rows, as the compiled `_walk_plain`."""
        begin = self.graph.indptr[now]
        degree = self.graph.indptr[now + 1] - begin
        turn, floor = self.rule.non_backtracking, min(1.0, self.far)
        extra = 0.0 if turn else max(0.0, self.back_weight - floor)
        kept = (0.0 if turn else min(1.0, self.back_weight / floor)) * floor
        free = torch.ones_like(now, dtype=torch.bool) if back is None else degree == 1
        back = now if back is None else back
        back_begin = self.graph.indptr[back]
        back_degree = self.graph.indptr[back + 1] - back_begin
        span = degree if self.far >= 1.0 else torch.minimum(degree, back_degree)
        certain = extra + degree.double() * floor
        total = certain + span.double() * abs(1.0 - self.far)
        then = now.clone()
        open_ = (degree > 0).nonzero().squeeze(-1)
        draw = 0
        while len(open_):
            o = open_
            luck = torch.where(free[o], -1.0, self._unit(self._bits(o, step, draw + 1)) * total[o])
            tested = luck >= certain[o]
            theirs = tested & (span[o] < degree[o])
            place = self._draw(self._bits(o, step, draw), torch.where(theirs, span[o], degree[o]))
            drawn = self.graph.indices[torch.where(theirs, back_begin[o], begin[o]) + place].long()
            drawn = torch.where((luck >= 0) & (luck < extra), back[o], drawn)
            returns = (drawn == back[o]) & (luck >= extra)
            rejected = returns & (tested | (luck - extra >= kept * degree[o].double()))
            low = torch.where(theirs, begin[o], back_begin[o])
            found, _ = self._find(low, low + torch.where(theirs, degree[o], back_degree[o]), drawn)
            rejected = rejected | (tested & ~returns & (found != (self.far < 1.0)))
            then[o] = drawn
            open_ = o[rejected]
            draw += 2
        return torch.where(degree > 0, self._lower(self.graph.indices, begin, begin + degree, then), -1)

    def _range(self, begin: Tensor, stop: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Return the range of each row's entries that lead to the wanted node; empty, at `begin`, if it is negative."""
        low = self._lower(self.graph.indices, begin, stop, wanted)
        high = self._lower(self.graph.indices, low, stop, wanted + 1)
        return torch.where(wanted < 0, begin, low), torch.where(wanted < 0, begin, high)

    def _lower(self, values: Tensor, low: Tensor, high: Tensor, wanted: Tensor) -> Tensor:
        for _ in range(self.graph.depth):
            middle = (low + high) >> 1
            less = (_take(values, middle).long() < wanted) & (low < high)
            low, high = torch.where(less, middle + 1, low), torch.where(less, high, middle)
        return low

    def _find(self, begin: Tensor, stop: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """Return whether the wanted nodes are in the rows [begin, stop), and their insertion points."""
        at = self._lower(self.graph.indices, begin, stop, wanted)
        return (at < stop) & (_take(self.graph.indices, at).long() == wanted), at

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
