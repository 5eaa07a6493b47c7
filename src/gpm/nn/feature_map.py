"""Features of nodes and edges, standardised and mapped to the model's width, once per distinct node of a batch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from gpm.errors import GpmError
from gpm.graph.graph import Graph
from gpm.io.npy import MappedArray
from gpm.nn.dropout import drop, keep_entries
from gpm.nn.star_features import BUCKETS, as_categories, find_stars

Form = Literal["none", "dense", "sparse", "categories"]
NodeFeatures = Literal["auto", "degree", "constant"]
MOST_DEGREES = 512  # degrees from here on are one category
SPARSE_BELOW = 0.1  # dense features with fewer entries than this are kept as sparse rows
MOST_CATEGORIES = 10_000_000  # in one column
LARGE = 1 << 26  # entries: a larger array stays as it is, on disk if it is there, and its rows are converted as taken
BLOCK = 1 << 25  # entries that statistics look at together
MOSTLY_ZERO = 0.5  # with more zeros than this, features are counts or flags: one scale for all, and zero stays zero


@dataclass(frozen=True)
class InputSpec:
    """What the model reads: the form and width of its inputs, as plain values.

    Attributes:
        node, edge: Form of the features; categories have a number of values per column in `*_sizes`.
        node_dim, edge_dim: Columns of features.
        pe_dim: Columns of the positional embedding.
        bags: Node features are read as bags of words: counts are damped, and every row has the same length.
    """

    node: Form = "none"
    node_dim: int = 0
    node_sizes: list[int] = field(default_factory=list)
    edge: Form = "none"
    edge_dim: int = 0
    edge_sizes: list[int] = field(default_factory=list)
    pe_dim: int = 0
    bags: bool = False


class FeatureTable:
    """The features of one graph, as tensors that rows are taken from. Nothing in it is learned.

    Equal rows of edge categories are kept once: `edge` holds the distinct ones, `edge_row` says which an edge has.
    A table of many entries is not copied: what is mapped from disk stays there, and rows are converted as they are
    taken, with `lazy` to say so. `take` gives a table of some rows alone, of which `ids` tells the numbers.

    Args:
        graph: The graph.
        pe: Positional embeddings `[N, p]`, or None.
        device: Where the tensors live.
        features: What is read of a node: auto (its features; if there are none, the logarithm of its degree), degree (a
            category per degree, in place of the features) or constant (nothing).
        stars: Also read the star that a node is the centre of, see `gpm.nn.star_features`.
        bags: Read node features as bags of words, `log(1 + x)` scaled to rows of one length, so that neither a long
            text nor a word repeated in it counts for more; None does so if they are not negative and mostly zero.
    """

    def __init__(
        self,
        graph: Graph,
        pe: NDArray | None = None,
        device: torch.device | str = "cpu",
        *,
        features: NodeFeatures = "auto",
        stars: bool = False,
        bags: bool | None = None,
    ) -> None:
        self.num_nodes = graph.num_nodes
        x = _choose(graph, "degree" if stars and graph.x is None and features == "auto" else features)
        self.stars = stars
        if stars:
            x = as_categories(x)
            x = np.column_stack([x, find_stars(graph, x)])
        self.bags = _look_like_bags(x) if bags is None else bags
        self.uneven = self.bags and _is_large(x)  # rows are evened as they are taken
        x = even_rows(x) if self.bags and not self.uneven else x
        if self.uneven:
            _check_not_negative(x)
        self.node, self.node_form = _tensors(x, "x", device, may_be_sparse=True)
        rows, self.edge_row = _merge_rows(graph.edge_attr, device)
        self.edge, self.edge_form = _tensors(rows, "edge_attr", device, may_be_sparse=False)
        self.pe = None if pe is None else _share(pe, np.float32, device)
        self.ids: Tensor | None = None
        self.exact = False  # whether its rows are just those of the patterns that go with it

    def _copy(self) -> FeatureTable:
        """The same table, to be changed; nothing is mapped anew, as `copy.copy` would."""
        part = FeatureTable.__new__(FeatureTable)
        part.__dict__.update(self.__dict__)
        return part

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {name: _freeze(getattr(self, name)) for name in ("node", "edge", "edge_row", "pe")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        tables = {name: _thaw(state[name]) for name in ("node", "edge", "edge_row", "pe")}
        self.__dict__.update(state | tables)

    @property
    def lazy(self) -> bool:
        """Whether rows must be taken before they can be mapped."""
        return self.uneven or not (_is_ready(self.node) and _is_ready(self.edge))

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return _home(self.node)

    def take(self, nodes: Tensor, edges: Tensor | None = None) -> FeatureTable:
        """A table of some nodes, and of some rows of `edge`, in the order given, ready to be mapped.

        Args:
            nodes: Numbers of nodes `[U]`.
            edges: Rows of `edge`; by default none.
        """
        part = self._copy()
        part.num_nodes, part.ids, part.uneven, part.edge_row, part.exact = len(nodes), nodes, False, None, False
        part.node = _make_ready(_take(self.node, nodes), self.uneven)
        part.pe = None if self.pe is None else self.pe[nodes.to(self.pe.device)]
        if self.edge is not None:
            part.edge = _make_ready(_take(self.edge, nodes[:0] if edges is None else edges))
        return part

    def to(self, device: torch.device | str) -> FeatureTable:
        """The same table on another device."""
        part = self._copy()
        for name in ("node", "edge", "edge_row", "pe", "ids"):
            setattr(part, name, _move(getattr(self, name), device))
        return part

    def spec(self) -> InputSpec:
        """What a model that reads this table looks like."""
        sizes = _sizes(self.node, self.node_form)
        return InputSpec(
            node=self.node_form,
            node_dim=_width(self.node),
            node_sizes=[*sizes[:-1], BUCKETS] if self.stars else sizes,
            edge=self.edge_form,
            edge_dim=_width(self.edge),
            edge_sizes=_sizes(self.edge, self.edge_form),
            pe_dim=0 if self.pe is None else self.pe.shape[1],
            bags=self.bags,
        )

    def restrict(self, graph: Graph, nodes: NDArray) -> FeatureTable:
        """The rows of some nodes, and of the edges that leave them: what statistics may be taken from."""
        part = self._copy()
        chosen = torch.from_numpy(np.array(nodes))
        part.num_nodes, part.uneven = len(nodes), False
        part.node = _make_ready(_take(self.node, chosen), self.uneven)
        part.pe = None if self.pe is None else self.pe[chosen.to(self.pe.device)]
        if isinstance(self.edge, Tensor):
            leaving = np.zeros(graph.num_nodes, dtype=bool)
            leaving[nodes] = True
            entries = np.flatnonzero(np.repeat(leaving, graph.degree()))
            ids = torch.from_numpy(entries if graph.edge_ids is None else np.array(graph.edge_ids[entries]))
            rows = ids.long() if self.edge_row is None else self.edge_row.cpu()[ids.long()]
            part.edge = self.edge[torch.unique(rows).to(self.edge.device)]
        return part

    def check(self, spec: InputSpec) -> None:
        """Refuse a graph whose features a model of that spec cannot read."""
        mine = self.spec()
        for part in ("node", "edge"):
            have = getattr(mine, part) != "none", getattr(mine, f"{part}_dim"), getattr(mine, part) == "categories"
            want = getattr(spec, part) != "none", getattr(spec, f"{part}_dim"), getattr(spec, part) == "categories"
            if have != want:
                raise GpmError(
                    f"the model reads {want[1]} {part} features ({getattr(spec, part)}), this graph has {have[1]} "
                    f"({getattr(mine, part)}); give a graph with the features it was trained on."
                )


@dataclass(frozen=True)
class SparseRows:
    """Compressed sparse rows as tensors."""

    indptr: Tensor
    indices: Tensor
    values: Tensor
    columns: int

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Columns, values and first entries of some rows."""
        first = self.indptr[rows]
        counts = self.indptr[rows + 1] - first
        offsets = torch.cumsum(counts, 0) - counts
        entries = torch.repeat_interleave(first - offsets, counts) + torch.arange(int(counts.sum()), device=rows.device)
        return self.indices[entries].long(), self.values[entries].float(), offsets


Table = Tensor | SparseRows | None


def _is_large(features: Any) -> bool:
    return features is not None and (features.nnz if sp.issparse(features) else features.size) > LARGE


def _is_ready(table: Table) -> bool:
    """Whether a table has the types that maps read."""
    if isinstance(table, SparseRows):
        return table.indices.dtype == torch.int64 and table.values.dtype == torch.float32
    return table is None or table.dtype in (torch.float32, torch.int64)


def _make_ready(table: Table, uneven: bool = False) -> Table:
    """Rows that were taken, in the types that maps read; evened if they are bags of words that were not yet."""
    if isinstance(table, SparseRows):
        values = _even_sparse(table.indptr.cpu().numpy(), table.values.cpu().numpy()) if uneven else None
        return table if values is None else replace(table, values=torch.from_numpy(values).to(table.values.device))
    if table is None:
        return None
    if uneven:
        return torch.from_numpy(even_rows(table.cpu().numpy())).to(table.device)
    return table.float() if table.is_floating_point() else table.long()


def _home(table: Table) -> torch.device:
    if table is None:
        return torch.device("cpu")
    return table.indptr.device if isinstance(table, SparseRows) else table.device


def _move(table: Table, device: torch.device | str) -> Table:
    if isinstance(table, SparseRows):
        parts = (table.indptr, table.indices, table.values)
        indptr, indices, values = (part.to(device, non_blocking=True) for part in parts)
        return SparseRows(indptr, indices, values, table.columns)
    return None if table is None else table.to(device, non_blocking=True)


def _sparse_blocks(table: SparseRows) -> Iterator[SparseRows]:
    """The rows of bags of words, evened, some with about a block of entries at a time."""
    entries = table.indptr.cpu().numpy()
    cuts = np.unique(np.searchsorted(entries, np.arange(0, entries[-1] + BLOCK, BLOCK)))
    bounds = np.unique([0, *cuts[cuts < len(entries) - 1].tolist(), len(entries) - 1])
    for first, last in pairwise(bounds.tolist()):
        block = _make_ready(_take(table, torch.arange(first, last)), True)
        assert isinstance(block, SparseRows)
        yield block


def _blocks(table: Tensor, uneven: bool) -> Iterator[Tensor]:
    """The rows of a table, ready, so many at a time that a block is small."""
    step = max(1, BLOCK // max(1, table.shape[1]))
    for first in range(0, len(table), step):
        block = _make_ready(table[first : first + step], uneven)
        assert isinstance(block, Tensor)
        yield block


def _take(table: Table, rows: Tensor) -> Table:
    if not isinstance(table, SparseRows):
        return None if table is None else table[rows.to(table.device)]
    columns, values, offsets = table.take(rows.to(table.indptr.device))
    return SparseRows(torch.cat([offsets, offsets.new_tensor([len(columns)])]), columns, values, table.columns)


def _choose(graph: Graph, features: NodeFeatures) -> Any:
    """The node features that are read, `[N, d]`."""
    if features == "constant":
        return np.zeros((graph.num_nodes, 1), dtype=np.int64)
    if features == "degree":
        return np.minimum(graph.degree(), MOST_DEGREES)[:, None].astype(np.int64)
    return np.log1p(graph.degree())[:, None].astype(np.float32) if graph.x is None else graph.x


def _merge_rows(features: Any, device: torch.device | str) -> tuple[Any, Tensor | None]:
    """Distinct rows of categories and the row of each edge; other features stay as they are."""
    if features is None or sp.issparse(features) or not np.issubdtype(features.dtype, np.integer) or not features.size:
        return features, None
    if _is_large(features):  # a number per edge would be as large as what it saves
        return features, None
    low, high = features.min(0), features.max(0)
    if low.min() < 0 or np.prod((high + 1).astype(np.float64)) >= 2**62:
        return features, None
    keys = features[:, 0].astype(np.int64)
    for column, size in zip(features.T[1:], (high[1:] + 1).tolist(), strict=True):
        keys = keys * size + column
    _, first, rows = np.unique(keys, return_index=True, return_inverse=True)
    return features[first], torch.from_numpy(rows.reshape(-1)).to(device)


def _look_like_bags(features: Any) -> bool:
    """Whether features are floats, none negative and most of them zero."""
    values = features.data if sp.issparse(features) else features
    if np.issubdtype(values.dtype, np.integer) or not features.size or not values.size:
        return False
    entries = features.shape[0] * features.shape[1]
    return bool(values.min() >= 0 and np.count_nonzero(values) < (1 - MOSTLY_ZERO) * entries)


def even_rows(features: Any) -> Any:
    """`log(1 + x)`, each row scaled to length 1; a row of zeros stays. The same bits for dense and for sparse rows."""
    _check_not_negative(features)
    if not sp.issparse(features):
        damped = np.log1p(features, dtype=np.float32)
        squares = np.square(damped).sum(1, keepdims=True, dtype=np.float64)
        return damped / np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
    values = _even_sparse(features.indptr, features.data)
    return sp.csr_array((values, features.indices, features.indptr), shape=features.shape)


def _even_sparse(indptr: NDArray, values: NDArray) -> NDArray[np.float32]:
    damped = np.log1p(values, dtype=np.float32)
    counts = np.diff(indptr)
    squares = np.bincount(np.repeat(np.arange(len(counts)), counts), weights=np.square(damped), minlength=len(counts))
    length = np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
    return np.asarray(damped / np.repeat(length, counts), dtype=np.float32)


def _check_not_negative(features: Any) -> None:
    values = features.data if sp.issparse(features) else features
    if values.size and not values.min() >= 0:
        raise GpmError("bag_of_words is for features that are not negative; set it to no.")


def _tensors(features: Any, name: str, device: torch.device | str, *, may_be_sparse: bool) -> tuple[Table, Form]:
    if features is None:
        return None, "none"
    if not sp.issparse(features) and np.issubdtype(features.dtype, np.integer):
        if features.size and features.min() < 0:
            raise GpmError(f"{name} holds the category {features.min()}; categories are numbered from 0.")
        if features.size and features.max() >= MOST_CATEGORIES:
            raise GpmError(f"{name} holds the category {features.max()}; are these numbers? Then give them as floats.")
        return _share(features, np.int64, device), "categories"
    if sp.issparse(features) and not may_be_sparse:
        features = features.toarray()
    values = features.data if sp.issparse(features) else features
    if not all(np.isfinite(part).all() for part in np.array_split(values, 1 + values.size // BLOCK)):
        raise GpmError(f"{name} holds a value that is not a finite number; fill it in before training.")
    mostly_zero = not sp.issparse(features) and np.count_nonzero(features) < SPARSE_BELOW * features.size
    if may_be_sparse and mostly_zero and not _is_large(features):
        features = sp.csr_array(features)
    if sp.issparse(features):
        pointers, columns = (_share(part, np.int64, device) for part in (features.indptr, features.indices))
        return SparseRows(pointers, columns, _share(features.data, np.float32, device), features.shape[1]), "sparse"
    return _share(features, np.float32, device), "dense"


def _share(array: NDArray, kind: type, device: torch.device | str) -> Tensor:
    """A tensor over an array that nobody writes to; a graph's arrays are read-only, of which torch would warn.

    A large array keeps its type, so that it is not copied.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")
        plain = array if _is_large(array) and array.dtype.kind in "iuf" else np.ascontiguousarray(array, dtype=kind)
        tensor = torch.from_numpy(plain).to(device)
    if tensor.device.type == "cpu" and (place := MappedArray.of(plain)):
        tensor.mapped_from = place  # type: ignore[attr-defined]
    return tensor


def _freeze(table: Table) -> Any:
    """A table to be pickled: of what is mapped its place on disk."""
    if isinstance(table, SparseRows):
        indptr, indices, values = (_freeze(part) for part in (table.indptr, table.indices, table.values))
        return SparseRows(indptr, indices, values, table.columns)
    return getattr(table, "mapped_from", table)


def _thaw(table: Any) -> Table:
    if isinstance(table, SparseRows):
        indptr, indices, values = (_thaw(part) for part in (table.indptr, table.indices, table.values))
        return SparseRows(cast(Tensor, indptr), cast(Tensor, indices), cast(Tensor, values), table.columns)
    if not isinstance(table, MappedArray):
        return cast(Table, table)
    array = table.open()
    return _share(array, array.dtype.type, "cpu")


def _width(table: Table) -> int:
    if table is None:
        return 0
    return table.columns if isinstance(table, SparseRows) else table.shape[1]


def _sizes(table: Table, form: Form) -> list[int]:
    return (
        [int(v) + 1 for v in torch.stack([block.amax(0) for block in _blocks(table, False)]).amax(0).tolist()]
        if form == "categories" and isinstance(table, Tensor) and table.numel()
        else []
    )


def _drop_entries(
    columns: Tensor, values: Tensor, offsets: Tensor, share: float, numbers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Dropout on the entries of sparse rows: those that are dropped are taken out, so that they cost nothing."""
    counts = torch.diff(offsets, append=offsets.new_tensor([len(columns)]))
    kept = keep_entries(torch.repeat_interleave(numbers, counts), columns, share)
    before = functional.pad(torch.cumsum(kept, 0), (1, 0))  # entries kept before each
    return columns[kept], values[kept] / (1 - share), before[offsets]


class _DenseMap(torch.autograd.Function):
    """`((x - shift) * scale) W` of some rows; they are gathered again in the backward pass rather than kept."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, rows: Tensor, shift: Tensor, scale: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(table, rows, shift, scale)
        return (table.index_select(0, rows).sub_(shift).mul_(scale)) @ weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, None, None, Tensor]:
        table, rows, shift, scale = ctx.saved_tensors
        values = table.index_select(0, rows).sub_(shift).mul_(scale)
        return None, None, None, None, values.t() @ grad.to(values.dtype)


def _std_mean(table: Tensor, uneven: bool) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean of every column, over blocks of rows."""
    count, mean, spread = 0, torch.zeros(()), torch.zeros(())
    for block in _blocks(table, uneven):
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
    """The part of the linear map that belongs to one kind of feature: `W (x - shift) * scale`.

    The statistics are found by `fit` and saved with the weights. Dense columns arrive with mean 0 and variance 1;
    features that are mostly zero (bags of words, one-hot) keep their zeros and share one scale, so that the whole
    matrix has mean square 1. A category has an embedding per column; one that training never saw has none.
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
    def fit(self, table: Table, each: bool = False, uneven: bool = False) -> None:
        """Find the statistics of a table.

        Args:
            table: Its rows.
            each: Look at each column even where most entries are zero.
            uneven: Rows are bags of words that are yet to be evened.
        """
        if self.form == "categories":
            assert isinstance(table, Tensor)
            if not table.numel():
                return
            met = torch.zeros(len(self.weight), dtype=torch.bool, device=self.weight.device)
            for block in _blocks(table, False):
                met[(self.first + torch.minimum(block.to(met.device), self.known)).reshape(-1)] = True
            self.weight[~met] = 0  # a category that training will not meet says nothing, rather than noise
            return
        self.shift.zero_()
        if isinstance(table, SparseRows):
            parts = (block.values for block in _sparse_blocks(table)) if uneven else table.values.split(BLOCK)
            total = sum(float(part.double().square().sum()) for part in parts)
            entries = (len(table.indptr) - 1) * table.columns
            self.scale.fill_(math.sqrt(entries / total) if total else 1.0)
        elif self.form == "dense" and table is not None and table.numel():
            zeros = 0 if each else sum(int((block == 0).sum()) for block in _blocks(table, False))
            if zeros > MOSTLY_ZERO * table.numel():
                squares = [block.double().square().mean() * len(block) for block in _blocks(table, uneven)]
                root = float((torch.stack(squares).sum() / len(table)).sqrt())
                self.scale.fill_(1 / root if root else 1.0)
                return
            deviation, mean = _std_mean(table, uneven)
            self.shift.copy_(mean)
            constant = deviation < 1e-6 * mean.abs().clamp(min=1e-6)
            self.scale.copy_(torch.where(constant, 0.0, 1 / deviation))

    def forward(self, table: Table, rows: Tensor | None, dropout: float = 0.0, numbers: Tensor | None = None) -> Tensor:
        """Map rows of a table `[U]`, or all of them, to `[U, width]`; dropout goes by their numbers in the graph."""
        which = rows if numbers is None else numbers
        if isinstance(table, SparseRows) and self.form == "sparse":
            whole = table.indices, table.values, table.indptr[:-1]
            columns, values, offsets = whole if rows is None else table.take(rows)
            if self.training and dropout:
                assert which is not None
                columns, values, offsets = _drop_entries(columns, values, offsets, dropout, which)
            values = values * self.scale[0]
            return functional.embedding_bag(columns, self.weight, offsets, per_sample_weights=values, mode="sum")
        if self.form == "categories":
            assert isinstance(table, Tensor)
            columns = self.first + torch.minimum(table if rows is None else table[rows], self.known)
            return functional.embedding_bag(columns, self.weight, mode="sum")
        if isinstance(table, Tensor) and rows is not None and not (self.training and dropout):
            return _DenseMap.apply(table, rows, self.shift, self.scale, self.weight)
        values = (self._dense(table, rows) - self.shift).mul_(self.scale)
        return drop(values, dropout, self.training, which) @ self.weight

    def _dense(self, table: Table, rows: Tensor | None) -> Tensor:
        if isinstance(table, Tensor):
            return table if rows is None else table[rows]
        assert table is not None
        rows = torch.arange(len(table.indptr) - 1, device=table.indptr.device) if rows is None else rows
        columns, values, offsets = table.take(rows)
        owner = torch.repeat_interleave(
            torch.arange(len(rows), device=rows.device), torch.diff(offsets, append=offsets.new_tensor([len(columns)]))
        )
        dense = torch.zeros(len(rows), self.columns, device=rows.device)
        dense[owner, columns] = values
        return dense


class InputMap(nn.Module):
    """`h = W_x x + W_p pe + b` for nodes and `W_e e` for edges: one linear map of [x || e || pe], in parts."""

    def __init__(self, spec: InputSpec, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.node = FeatureMap(spec.node, spec.node_dim, spec.node_sizes, width)
        self.edge = FeatureMap(spec.edge, spec.edge_dim, spec.edge_sizes, width) if spec.edge != "none" else None
        self.pe = FeatureMap("dense", spec.pe_dim, [], width) if spec.pe_dim else None
        self.bias = nn.Parameter(torch.zeros(width))
        self.flip_signs = False  # Laplacian eigenvectors have no sign of their own

    def fit(self, table: FeatureTable) -> None:
        """Find the statistics of a graph's features."""
        self.node.fit(table.node, uneven=table.uneven)
        if self.edge is not None:
            self.edge.fit(table.edge)
        if self.pe is not None:
            self.pe.fit(table.pe, each=True)

    def nodes(self, table: FeatureTable, ids: Tensor | None = None) -> Tensor:
        """`[U]` node ids, or all nodes of a table that was taken, to `[U, width]`."""
        if ids is not None and (table.lazy or table.device != self.bias.device):
            table, ids = table.take(ids.to(table.device)).to(self.bias.device), None
        numbers = table.ids if ids is None or table.ids is None else table.ids[ids]
        h: Tensor = self.node(table.node, ids, self.dropout, numbers) + self.bias
        if self.pe is not None:
            assert table.pe is not None
            pe = self.pe._dense(table.pe, ids)
            values = (pe - self.pe.shift) * self.pe.scale
            if self.training and self.flip_signs:
                values = values * (torch.randint(0, 2, (values.shape[1],), device=values.device) * 2 - 1)
            h = h + values @ self.pe.weight
        return h

    def edges(self, table: FeatureTable, ids: Tensor) -> Tensor:
        """`[U]` edge ids, or -1 for no edge, to `[U, width]`; zeros for no edge."""
        assert self.edge is not None
        there = ids >= 0
        if not len(table.edge):  # type: ignore[arg-type]
            # Without any edge; ranks wait for the gradient of every weight, so that this has one, of zeros.
            return self.bias.new_zeros(len(ids), len(self.bias)) + 0 * self.edge.weight[:1].sum()
        if table.lazy or table.device != self.bias.device:
            rows, places = torch.unique(ids.clamp(min=0).to(table.device), return_inverse=True)
            part = table.take(rows[:0], rows).to(self.bias.device)
            return self.edge(part.edge, places.to(self.bias.device)) * there[:, None]
        return self.edge(table.edge, ids.clamp(min=0)) * there[:, None]
