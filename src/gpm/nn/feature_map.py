"""Features of nodes and edges, standardised and mapped to the model's width, once per distinct node of a batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gpm.compute import rows_per_piece, share_out
from gpm.nn.dropout import drop, keep_entries
from gpm.nn.feature_rows import MOSTLY_ZERO, Form, SparseRows, Table, dense_blocks, value_blocks
from gpm.nn.feature_table import FeatureTable, InputSpec

HIDDEN_LABELS = 0.3  # share of nodes whose known labels are hidden in a training step


def _drop_entries(
    columns: Tensor, values: Tensor, offsets: Tensor, share: float, ids: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Apply dropout to the entries of sparse rows: dropped entries are removed, so that they cost nothing."""
    kept = keep_entries(torch.repeat_interleave(ids, _count_entries(offsets, columns)), columns, share)
    before = functional.pad(torch.cumsum(kept, 0), (1, 0))  # entries kept before each
    return columns[kept], values[kept] / (1 - share), before[offsets]


def _count_entries(offsets: Tensor, columns: Tensor) -> Tensor:
    return torch.diff(offsets, append=offsets.new_tensor([len(columns)]))


class _DenseMap(torch.autograd.Function):
    """`((x - shift) * scale) W` of some rows; the backward pass gathers the rows again instead of keeping them."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, shift: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(table, rows, shift, scale)
        ctx.size = rows_per_piece(min(weight.shape)) if table.device.type == "cpu" else max(1, len(rows))
        pieces = [(table, part, shift, scale, weight) for part in rows.split(ctx.size)]
        return torch.cat(list(share_out(lambda *piece: _standardise_rows(*piece[:4]) @ piece[4], pieces)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None, None, Tensor]:
        table, rows, shift, scale = ctx.saved_tensors
        grad = grad.to(shift.dtype)
        pieces = [(table, *part, shift, scale) for part in zip(rows.split(ctx.size), grad.split(ctx.size), strict=True)]
        total = grad.new_zeros(len(shift), grad.shape[1])
        for part in share_out(
            lambda table, rows, grad, *about: _standardise_rows(table, rows, *about).t() @ grad, pieces
        ):
            total += part
        return None, None, None, None, total


def _standardise_rows(table: Tensor, rows: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return table.index_select(0, rows).sub_(shift).mul_(scale)


class _SparseMap(torch.autograd.Function):
    """The products of sparse rows and W on a CPU, without a gradient of the values.

    The backward pass is one sparse product. That of `embedding_bag` sorts all entries, which takes six times as long.
    """

    @staticmethod
    def forward(ctx: Any, columns: Tensor, offsets: Tensor, values: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(columns, offsets, values)
        ctx.rows = len(weight)
        return functional.embedding_bag(columns, weight, offsets, per_sample_weights=values, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None, Tensor]:
        columns, offsets, values = (part.numpy() for part in ctx.saved_tensors)
        pointer = np.append(offsets, len(columns))
        transposed = sp.csc_array((values, columns, pointer), shape=(ctx.rows, len(offsets)))
        return None, None, None, torch.from_numpy(transposed @ grad.to(torch.float32).numpy())


def _map_sparse(columns: Tensor, offsets: Tensor, values: Tensor, weight: Tensor) -> Tensor:
    """Return the products of sparse rows and W: row i has the entries from `offsets[i]` on."""
    if weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.is_grad_enabled():
        return _SparseMap.apply(columns, offsets, values, weight)
    return functional.embedding_bag(columns, weight, offsets, per_sample_weights=values, mode="sum")


def _std_mean(table: Tensor, raw_bags: bool) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and mean of every column, computed over blocks of rows."""
    count, mean, spread = 0, torch.zeros(()), torch.zeros(())
    for block in dense_blocks(table, raw_bags):
        variance, here = torch.var_mean(block.double(), 0, correction=0)
        if not count:  # most tables are one block
            count, mean, spread = len(block), here, variance * len(block)
            continue
        total, apart = count + len(block), here - mean
        mean = mean + apart * (len(block) / total)
        spread = spread + variance * len(block) + apart.square() * (count * len(block) / total)
        count = total
    return (spread / count).sqrt(), mean


class FeatureMap(nn.Module):
    r"""The linear map of one kind of feature, :math:`((x - \mu) \cdot s) \, W`.

    `fit` finds the statistics :math:`\mu` (`shift`) and :math:`s` (`scale`), which are saved with the weights. Dense
    columns are standardised to mean 0 and variance 1; features that are mostly zero (bags of words, one-hot) keep
    their zeros and share one scale, so that the whole matrix has mean square 1. Categories have an embedding per
    column and value; that of a value that `fit` does not see is zero.
    """

    shift: Tensor
    scale: Tensor
    known: Tensor
    first: Tensor

    def __init__(self, form: Form, columns: int, sizes: list[int], width: int) -> None:
        super().__init__()
        self.form, self.columns = form, columns
        rows = columns
        if form == "categories":
            known = torch.tensor(sizes, dtype=torch.int64)
            self.register_buffer("known", known, persistent=False)
            self.register_buffer("first", torch.cumsum(known + 1, 0) - (known + 1), persistent=False)
            rows = sum(sizes) + len(sizes)
        else:
            self.register_buffer("shift", torch.zeros(columns))
            self.register_buffer("scale", torch.ones(columns))
        bound = 1 / math.sqrt(max(columns, 1))
        self.weight = nn.Parameter(torch.empty(rows, width).uniform_(-bound, bound))  # (columns, width)

    @torch.no_grad()
    def fit(
        self, table: Table, *, each_column: bool = False, raw_bags: bool = False, rescale: bool = True
    ) -> None:  # fmt: skip
        """Find the statistics of a table; `each_column` is standardised even if most entries are zero.

        `raw_bags` are bags of words that are still to be normalised. Without `rescale`, numbers stay as they are.
        """
        if isinstance(table, Tensor) and not table.numel():
            return
        if self.form == "categories":
            assert isinstance(table, Tensor)
            met = torch.zeros(len(self.weight), dtype=torch.bool, device=self.weight.device)
            for block in dense_blocks(table):
                met[self._find_rows(block.to(met.device)).reshape(-1)] = True
            self.weight[~met] = 0  # a category that training never meets contributes nothing, rather than noise
            return
        if not rescale:
            return
        self.shift.zero_()
        if isinstance(table, SparseRows):
            total = sum(float(part.double().square().sum()) for part in value_blocks(table, raw_bags))
            entries = (len(table.indptr) - 1) * table.columns
            self.scale.fill_(math.sqrt(entries / total) if total else 1.0)
        elif self.form == "dense" and table is not None:
            zeros = 0 if each_column else sum(int((block == 0).sum()) for block in dense_blocks(table))
            if zeros > MOSTLY_ZERO * table.numel():
                squares = [block.double().square().mean() * len(block) for block in dense_blocks(table, raw_bags)]
                root = float((torch.stack(squares).sum() / len(table)).sqrt())
                self.scale.fill_(1 / root if root else 1.0)
                return
            deviation, mean = _std_mean(table, raw_bags)
            self.shift.copy_(mean)
            constant = deviation < 1e-6 * mean.abs().clamp(min=1e-6)
            self.scale.copy_(torch.where(constant, 0.0, 1 / deviation))

    def _find_rows(self, categories: Tensor) -> Tensor:
        """Return the rows of `weight` of categories; an unknown category has the last row of its column."""
        return self.first + torch.minimum(categories, self.known)

    def forward(self, table: Table, rows: Tensor | None, dropout: float = 0.0, ids: Tensor | None = None) -> Tensor:
        """Map rows of a table `[U]`, or all of them, to `[U, width]`.

        In training a share of the entries is dropped, by the node ids of the rows; by default the ids are the rows.
        """
        ids = rows if ids is None else ids
        if isinstance(table, SparseRows) and self.form == "sparse":
            whole = table.indices, table.values, table.indptr[:-1]
            columns, values, offsets = whole if rows is None else table.take(rows)
            if self.training and dropout:
                assert ids is not None
                columns, values, offsets = _drop_entries(columns, values, offsets, dropout, ids)
            values = values * self.scale[0]
            return _map_sparse(columns, offsets, values, self.weight)
        if self.form == "categories":
            assert isinstance(table, Tensor)
            return functional.embedding_bag(
                self._find_rows(table if rows is None else table[rows]), self.weight, mode="sum"
            )
        if isinstance(table, Tensor) and rows is not None and not (self.training and dropout):
            return _DenseMap.apply(table, rows, self.shift, self.scale, self.weight)
        return drop(self.standardise(table, rows), dropout, self.training, ids) @ self.weight

    def standardise(self, table: Table, rows: Tensor | None) -> Tensor:
        """Return `(x - shift) * scale` of some rows or of all, dense."""
        if isinstance(table, Tensor):
            values = table if rows is None else table[rows]
        else:
            assert table is not None
            rows = torch.arange(len(table.indptr) - 1, device=table.indptr.device) if rows is None else rows
            columns, entries, offsets = table.take(rows)
            owner = torch.arange(len(rows), device=rows.device).repeat_interleave(_count_entries(offsets, columns))
            values = torch.zeros(len(rows), self.columns, device=rows.device)
            values[owner, columns] = entries
        return (values - self.shift).mul_(self.scale)


class InputMap(nn.Module):
    r"""One linear map of :math:`[x \| e \| p]`, in parts: :math:`h = W_x x + W_p p + b` and :math:`W_e e`.

    In training, a share of the entries of node features is dropped, and with `flip_signs` the columns of positional
    embeddings are flipped at random: eigenvectors have no sign. Known labels are added by a map of their own; in
    training those of a share of the nodes are hidden.
    """

    def __init__(
        self, spec: InputSpec, width: int, dropout: float, flip_signs: bool = False, hidden: float = HIDDEN_LABELS
    ) -> None:
        super().__init__()
        self.dropout, self.flip_signs, self.hidden = dropout, flip_signs, hidden
        self.node = FeatureMap(spec.node, spec.node_dim, spec.node_sizes, width)
        self.edge = FeatureMap(spec.edge, spec.edge_dim, spec.edge_sizes, width) if spec.edge != "none" else None
        self.pe = FeatureMap("dense", spec.pe_dim, [], width) if spec.pe_dim else None
        self.label = nn.Parameter(torch.randn(spec.label_dim, width) * 0.1) if spec.label_dim else None
        self.bias = nn.Parameter(torch.zeros(width))

    def fit(self, table: FeatureTable, rescale: bool = True) -> None:
        """Find the statistics of a graph's features; without `rescale`, numbers stay as they are."""
        self.node.fit(table.node, raw_bags=table.raw_bags, rescale=rescale)
        if self.edge is not None:
            self.edge.fit(table.edge, rescale=rescale)
        if self.pe is not None:
            self.pe.fit(table.pe, each_column=True, rescale=rescale)

    def nodes(self, table: FeatureTable, rows: Tensor | None = None) -> Tensor:
        """Map rows of a table `[U]`, or all rows of a table that was taken, to `[U, d]`."""
        label = table.label
        if rows is not None and (table.lazy or table.device != self.bias.device):
            table, rows = table.take(rows.to(table.device)).to(self.bias.device), None
            label = table.label
        elif rows is not None:
            rows, label = table.find_labels(rows)
        ids = table.ids if rows is None or table.ids is None else table.ids[rows]
        h: Tensor = self.node(table.node, rows, self.dropout, ids) + self.bias  # (U, d)
        if self.pe is not None:
            values = self.pe.standardise(table.pe, rows)  # (U, p)
            if self.training and self.flip_signs:
                values = values * (torch.randint(0, 2, (values.shape[1],), device=values.device) * 2 - 1)
            h = h + values @ self.pe.weight
        if self.label is not None:
            assert label is not None
            shown = drop(label.new_ones(len(label), 1), self.hidden, self.training, ids) > 0
            h = h + (label * shown) @ self.label
        return h

    def edges(self, table: FeatureTable, rows: Tensor) -> Tensor:
        """Map rows of edge features `[U]` to `[U, d]`; -1 stands for no edge and gives zeros."""
        assert self.edge is not None
        there = rows >= 0
        if not len(table.edge):  # type: ignore[arg-type]
            # No edges at all. Ranks wait for the gradient of every weight, so this result has one, of zeros.
            return self.bias.new_zeros(len(rows), len(self.bias)) + 0 * self.edge.weight[:1].sum()
        if table.lazy or table.device != self.bias.device:
            distinct, inverse = torch.unique(rows.clamp(min=0).to(table.device), return_inverse=True)
            part = table.take(distinct[:0], distinct).to(self.bias.device)
            return self.edge(part.edge, inverse.to(self.bias.device)) * there[:, None]
        return self.edge(table.edge, rows.clamp(min=0)) * there[:, None]
