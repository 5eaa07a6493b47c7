"""A trained model in plain operations on padded tensors, as `torch.export` needs them.

The fast model works on the distinct tokens and topologies of a batch, a scale at a time, with kernels of its own. Here
all positions of all patterns are one dense block, masked where a pattern ends, so that one program reads any number of
instances and of patterns, of any length up to the longest.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from gpm.nn import GraphPatternMachine, LinkPatternMachine
from gpm.nn.anonymous_path import GruTopology, MeanTopology, ShapeVocabulary, TransformerTopology
from gpm.nn.feature_map import FeatureMap
from gpm.nn.machine import Machine, MachineLayer
from gpm.nn.semantic_path import ConvPath, GruPath, PathLayer, TransformerPath


class PlainGru(nn.Module):
    """A GRU along padded sequences in plain steps: `nn.GRU` cannot be traced."""

    def __init__(self, gru: nn.GRU) -> None:
        super().__init__()
        self.layers = gru.num_layers
        for name, value in gru.named_parameters():
            self.register_parameter(name, value)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        """Map `[W, S, c]` to the state at the last position that is not padding, `[W, d]`."""
        for layer in range(self.layers):
            maps = [getattr(self, f"{part}_l{layer}") for part in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
            steps = functional.linear(x, maps[0], maps[1]).unbind(1)  # S of (W, 3d)
            states = [x.new_zeros(x.shape[0], maps[2].shape[1])]
            for at, now in enumerate(steps):
                moved = _step(now, functional.linear(states[-1], maps[2], maps[3]), states[-1])
                states.append(torch.where(there[:, at, None], moved, states[-1]))
            x = torch.stack(states[1:], 1)
        return states[-1]


def _step(now: Tensor, kept: Tensor, state: Tensor) -> Tensor:
    """Take one step of a GRU, from both maps `[W, 3d]`: reset, update and candidate."""
    (r, z, n), (r_kept, z_kept, n_kept) = now.chunk(3, 1), kept.chunk(3, 1)
    update = (z + z_kept).sigmoid()
    return (1 - update) * (n + (r + r_kept).sigmoid() * n_kept).tanh() + update * state


class ExportedMachine(nn.Module):
    """The same function as a model of nodes, links or graphs, on tensors alone, without dropout and gradients.

    `answers` maps logits to probabilities or, for `values`, to values in their own units.
    """

    def __init__(
        self, model: GraphPatternMachine, answers: Callable[[Tensor], Tensor], level: str, values: bool = False
    ) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval().requires_grad_(False)
        for name, part in list(self.model.named_modules()):
            if isinstance(part, nn.GRU):
                self.model.set_submodule(name, PlainGru(part))
        self.answers, self.level, self.output = answers, level, "value" if values else "probability"

    def forward(
        self, nodes: Tensor, x: Tensor | None = None, x_offsets: Tensor | None = None, x_indices: Tensor | None = None,
        x_values: Tensor | None = None, pe: Tensor | None = None, edges: Tensor | None = None,
        edge_attr: Tensor | None = None, marks: Tensor | None = None, adjacent: Tensor | None = None,
        shape: Tensor | None = None, sizes: Tensor | None = None, label: Tensor | None = None,
        expected: Tensor | None = None,
    ) -> dict[str, Tensor]:  # fmt: skip
        """Return logits, predictions and, if the readout has them, pattern weights; see `list_inputs`."""
        walks = nodes.flatten(0, -2)  # (W, S), -1 past the end
        there = (walks >= 0) | (torch.arange(walks.shape[1], device=walks.device) == 0)  # no walk is empty
        rows = self._map_nodes(x, x_offsets, x_indices, x_values)
        if self.model.input_map.pe is not None:
            rows = rows + _map_rows(self.model.input_map.pe, cast(Tensor, pe))
        if self.model.input_map.label is not None:
            rows = rows + cast(Tensor, label) @ self.model.input_map.label
        h = functional.embedding(walks.clamp(min=0), rows)
        if self.model.input_map.edge is not None:
            h = h + self._map_edges(cast(Tensor, edges).flatten(0, -2), cast(Tensor, edge_attr))
        if self.model.marks is not None:
            h = h + functional.embedding(cast(Tensor, marks).flatten(0, -2), self.model.marks)
        if self.model.position is not None:
            h = h + self.model.position
        encoded = self._read_paths(h, there)
        if self.model.anonymous is not None:
            adjacent = None if adjacent is None else adjacent.flatten(0, -3)
            shape = None if shape is None else shape.flatten()
            encoded = encoded + self._read_topologies(walks, there, adjacent, shape) * self.model.anonymous.weight
        encoded = encoded.view(*nodes.shape[:-1], encoded.shape[-1])
        logits, weights = self._read_bags(encoded, nodes, sizes, expected)
        outputs = {"logits": logits, self.output: self.answers(logits)}
        return outputs if weights is None else outputs | {"weights": weights}

    def _map_nodes(
        self, x: Tensor | None, offsets: Tensor | None, indices: Tensor | None, values: Tensor | None
    ) -> Tensor:
        """Compute `W_x x + b` of the distinct nodes, `[n, d]`."""
        part, bags = self.model.input_map.node, self.model.inputs.bags
        if x is None:
            rows = _map_sparse(part, cast(Tensor, offsets), cast(Tensor, indices), cast(Tensor, values), bags)
        else:
            rows = _map_rows(part, _damp(x) if bags else x)
        return rows + self.model.input_map.bias

    def _map_edges(self, edges: Tensor, edge_attr: Tensor) -> Tensor:
        """Compute `W_e e` of the edge into every position, `[W, S, d]`; zeros where there is none."""
        assert self.model.input_map.edge is not None
        into = functional.embedding(edges.clamp(min=0), _map_rows(self.model.input_map.edge, edge_attr))
        return functional.pad(into * (edges >= 0)[..., None], (0, 0, 1, 0))

    def _read_paths(self, h: Tensor, there: Tensor) -> Tensor:
        """Encode semantic paths: `[W, S, d]` to `[W, d]`."""
        encoder = self.model.semantic.encoder
        if isinstance(encoder, GruPath):
            return cast(Tensor, encoder.gru(h, there))
        if isinstance(encoder, ConvPath):
            return _convolve(encoder, h, there)
        for layer in cast(list[PathLayer], encoder.layers if isinstance(encoder, TransformerPath) else []):
            joined = _attend(layer.qkv(h), layer.heads, there)
            h = layer.feed(h + (joined if layer.out is None else layer.out(joined)))
        return _mean(h, there)

    def _read_topologies(self, walks: Tensor, there: Tensor, adjacent: Tensor | None, shape: Tensor | None) -> Tensor:
        """Encode anonymous paths: `[W, S]` to `[W, d]`."""
        assert self.model.anonymous is not None
        encoder = self.model.anonymous.encoder
        if isinstance(encoder, ShapeVocabulary):
            return functional.embedding(cast(Tensor, shape), encoder.rows.weight)
        both = there[:, :, None] & there[:, None, :]
        parts = [(walks[:, :, None] == walks[:, None, :]) & both]
        z = torch.cat([*parts, adjacent & both] if adjacent is not None else parts, 2).to(self.model.input_map.bias)
        if isinstance(encoder, GruTopology):
            return cast(Tensor, encoder.gru(z, there))
        if isinstance(encoder, MeanTopology):
            return cast(Tensor, encoder.map(_mean(z, there)))
        layer = cast(TransformerTopology, encoder).layer
        h = cast(TransformerTopology, encoder).map(z)
        qkv = functional.linear(h, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias)
        h = layer.norm1(h + layer.self_attn.out_proj(_attend(qkv, layer.self_attn.num_heads, there)))
        h = layer.norm2(h + layer.linear2(layer.linear1(h).relu()))
        return _mean(h, there)

    def _read_bags(
        self, encoded: Tensor, nodes: Tensor, sizes: Tensor | None, expected: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Compute logits `[B, C]` and pattern weights from encoded patterns `[..., M, d]`."""
        model, there = self.model, nodes[..., 0] >= 0  # (..., M): False where padded
        if model.expected is not None and self.level != "link":
            return self._read_expected(encoded, nodes, sizes, cast(Tensor, expected))
        if not isinstance(model, LinkPatternMachine):
            pooled, weights = _pool(model.machine, encoded, there, _share(nodes) if self.level == "graph" else None)
            pooled = pooled if sizes is None else pooled * (sizes / model.size)[:, None]
            return model.head(pooled), weights
        if model.pair == "product":
            ends, _ = _pool(model.machine, encoded.flatten(0, 1), there.flatten(0, 1), None)
            return model.join(*ends.view(-1, 2, ends.shape[1]).unbind(1)), None
        batch, rounds, slots = encoded.shape[0], encoded.shape[1], encoded.shape[3]
        x, mine = encoded.flatten(2, 3).flatten(0, 1), there.flatten(2, 3).flatten(0, 1)  # (B R, 2 M, d)
        for layer in model.machine.layers:
            x = layer(x, _bias(mine))
        sides = (_mean(x[:, part], mine[:, part]) for part in (slice(None, slots), slice(slots, None)))
        one, two = (model.machine.norm(side) for side in sides)
        known = None
        if model.expected is not None:  # the same in every round
            tokens = model.expected(model.expected.standardise(cast(Tensor, expected)))  # (B, K, d)
            known = tokens.sum(1).repeat_interleave(rounds, 0)
        return model.join(one, two, known=known).view(batch, rounds, 1).mean(1), None

    def _read_expected(
        self, encoded: Tensor, nodes: Tensor, sizes: Tensor | None, expected: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Do the same with expected patterns, beside which any number of walks weighs as in training."""
        model, there = self.model, nodes[..., 0] >= 0
        assert model.expected is not None
        values = model.expected.standardise(expected)
        tokens = model.expected(values)  # (B, K, d)
        ones = torch.ones(tokens.shape[:2], device=tokens.device)
        weight = torch.cat([there * (model.drawn / there.sum(1, keepdim=True)), ones], 1)  # (B, M + K)
        shares = torch.cat([_share(nodes) * model.drawn, ones], 1) if self.level == "graph" else None
        if shares is not None and model.options.readout == "sum":
            weight = torch.cat([there.to(ones), ones], 1)  # shares weigh the mean, and attention is even
        pooled, weights = _pool(model.machine, torch.cat([encoded, tokens], 1), weight, shares)
        pooled = pooled if sizes is None else pooled * (sizes / model.size)[:, None]
        return model.expected.add_linear(model.head(pooled), values), weights


def _pool(machine: Machine, x: Tensor, there: Tensor, shares: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Apply `Machine` to padded sets of patterns `[B, M]`: return instances `[B, d]` and pattern weights.

    Patterns are there or not, or have weights.
    """
    bias, layers, weights = _bias(there), cast(list[MachineLayer], list(machine.layers)), None
    if machine.token is not None:
        x = torch.cat([machine.token.expand(x.shape[0], 1, -1), x], 1)
        bias = functional.pad(bias, (1, 0))
    for layer in layers[:-1]:
        x = layer(x, bias)
    if machine.token is not None and machine.query is None:
        pooled, weights = layers[-1].forward_class(x, bias)
        return machine.norm(pooled), weights
    x = layers[-1](x, bias)
    if machine.each and machine.query is None:
        return _mean(machine.norm(x), there if shares is None else shares), None
    body = x if machine.token is None else x[:, 1:]
    pooled = _mean(x, there) if machine.token is None else x[:, 0]
    if machine.query is not None:
        weights = (body @ machine.query / math.sqrt(body.shape[-1]) + _bias(there)).softmax(-1)
        pooled = pooled + (weights[..., None] * body).sum(1)
    return machine.norm(pooled), weights


def _bias(there: Tensor) -> Tensor:
    """Return the attention bias that hides patterns that are padding, and counts the others by their weights."""
    return there.float().log()


def _map_rows(part: FeatureMap, rows: Tensor) -> Tensor:
    """Map rows of numbers, or of categories: `[n, c]` to `[n, d]`."""
    if part.form == "categories":
        return functional.embedding(part.first + torch.minimum(rows, part.known), part.weight).sum(1)
    return ((rows - part.shift) * part.scale) @ part.weight


def _map_sparse(part: FeatureMap, offsets: Tensor, indices: Tensor, values: Tensor, bags: bool) -> Tensor:
    """Map sparse rows: first entries `[n]`, columns `[E]` and values `[E]` to `[n, d]`."""
    if bags:
        values = values.log1p()
        owner = torch.searchsorted(offsets, torch.arange(values.shape[0], device=values.device), right=True) - 1
        squares = values.new_zeros(offsets.shape[0]).index_add(0, owner, values.square())
        values = values / squares.sqrt()[owner].clamp(min=1e-30)
    values = values * part.scale[0]
    return functional.embedding_bag(indices, part.weight, offsets, per_sample_weights=values, mode="sum")


def _damp(x: Tensor) -> Tensor:
    """Compute `log(1 + x)` with each row scaled to length 1; a row of zeros stays."""
    damped = x.log1p()
    length = damped.square().sum(1, keepdim=True).sqrt()
    return damped / torch.where(length > 0, length, 1)


def _mean(x: Tensor, there: Tensor) -> Tensor:
    """Average what is not padding, or by shares that add up to 1: `[W, S, d]` to `[W, d]`."""
    here = there.to(x.dtype)
    return (x * here[..., None]).sum(1) / here.sum(1, keepdim=True)


def _attend(qkv: Tensor, heads: int, there: Tensor) -> Tensor:
    """Attend among the positions that are not padding: `[W, S, 3d]` to `[W, S, d]`."""
    q, k, v = (t.view(*t.shape[:-1], heads, -1).transpose(1, 2) for t in qkv.chunk(3, -1))
    scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(~there[:, None, None], -math.inf)
    joined: Tensor = scores.softmax(-1) @ v
    return joined.transpose(1, 2).flatten(2)


def _convolve(encoder: ConvPath, h: Tensor, there: Tensor) -> Tensor:
    """Apply `ConvPath` to padded paths: `[W, S, d]` to `[W, d]`."""
    x = h
    for i, layer in enumerate(encoder.maps):
        before, here, after = (layer(x if i == 0 else encoder.norms[i - 1](x)) * there[..., None]).chunk(3, -1)
        total = here + functional.pad(before[:, :-1], (0, 0, 1, 0)) + functional.pad(after[:, 1:], (0, 0, 0, 1))
        x = total.relu() if i == 0 else x + total.relu()
    shrunk: Tensor = encoder.shrink(_mean(x, there))
    return _mean(h, there) + shrunk


def _share(nodes: Tensor) -> Tensor:
    """Weigh the patterns of graphs `[B, M]`: weights sum to 1 and, within one length, count all start nodes alike."""
    starts, lengths = nodes[..., 0], (nodes >= 0).sum(-1)  # padding has length 0
    there, alike = lengths > 0, lengths[:, :, None] == lengths[:, None, :]  # (B, M), (B, M, M)
    weight = there / (alike & (starts[:, :, None] == starts[:, None, :])).sum(2)
    total = torch.where(there, (alike * weight[:, None]).sum(2), 1)
    return weight / total * alike.sum(2) / there.sum(1, keepdim=True)
