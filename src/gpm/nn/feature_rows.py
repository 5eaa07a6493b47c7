"""Rows of features as tensors: dense numbers, categories, or compressed sparse rows; copied only if they are small."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from gpm.errors import GpmError
from gpm.io.npy import MappedArray

Form = Literal["none", "dense", "sparse", "categories"]
SPARSE_BELOW = 0.1  # dense features with a smaller share of nonzero entries are kept as sparse rows
MOST_CATEGORIES = 10_000_000  # per column
LARGE = 1 << 26  # entries; a larger array is not copied (it may be mapped from disk): its rows are converted when taken
BLOCK = 1 << 25  # entries that statistics read at a time
MOSTLY_ZERO = 0.5  # share of zeros above which features are counts or flags: one scale for all, and zero stays zero


@dataclass(frozen=True)
class SparseRows:
    """Compressed sparse rows: row i has `values[indptr[i]:indptr[i+1]]` in the columns `indices` of the same range."""

    indptr: Tensor
    indices: Tensor
    values: Tensor
    columns: int

    def take(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the columns and values of some rows, and the offset of each row among them."""
        first = self.indptr[rows]
        counts = self.indptr[rows + 1] - first
        offsets = torch.cumsum(counts, 0) - counts
        entries = torch.repeat_interleave(first - offsets, counts) + torch.arange(int(counts.sum()), device=rows.device)
        return self.indices[entries].long(), self.values[entries].float(), offsets


Table = Tensor | SparseRows | None


def convert(table: Any, function: Callable[[Any], Any]) -> Any:
    """Apply a function to every tensor of a table."""
    if not isinstance(table, SparseRows):
        return None if table is None else function(table)
    return SparseRows(function(table.indptr), function(table.indices), function(table.values), table.columns)


def freeze_tensor(tensor: Tensor) -> Any:
    """Return what to pickle for a tensor: if it is mapped from a file, its position there."""
    return getattr(tensor, "mapped_from", tensor)


def thaw_tensor(frozen: Any) -> Any:
    """Undo `freeze_tensor`."""
    if not isinstance(frozen, MappedArray):
        return frozen
    array = frozen.open()
    return share_array(array, array.dtype.type, "cpu")


def share_array(array: NDArray, kind: type, device: torch.device | str) -> Tensor:
    """Make a tensor of an array, without a copy if possible; a large array keeps its type."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")  # the arrays of a graph are read-only
        plain = array if is_large(array) and array.dtype.kind in "iuf" else np.ascontiguousarray(array, dtype=kind)
        tensor = torch.from_numpy(plain).to(device)
    if tensor.device.type == "cpu" and (mapped := MappedArray.of(plain)):
        tensor.mapped_from = mapped  # type: ignore[attr-defined]
    return tensor


def make_table(features: Any, name: str, device: torch.device | str, *, may_be_sparse: bool) -> tuple[Table, Form]:
    """Convert features to tensors and name their form; refuse values that no model can read."""
    if features is None:
        return None, "none"
    if not sp.issparse(features) and np.issubdtype(features.dtype, np.integer):
        if features.size and features.min() < 0:
            raise GpmError(f"{name} holds the category {features.min()}; categories are numbered from 0.")
        if features.size and features.max() >= MOST_CATEGORIES:
            raise GpmError(f"{name} holds the category {features.max()}; are these numbers? Then give them as floats.")
        return share_array(features, np.int64, device), "categories"
    if sp.issparse(features) and not may_be_sparse:
        features = features.toarray()
    values = features.data if sp.issparse(features) else features
    if not all(np.isfinite(part).all() for part in np.array_split(values, 1 + values.size // BLOCK)):
        raise GpmError(f"{name} holds a value that is not a finite number; fill it in before training.")
    mostly_zero = not sp.issparse(features) and np.count_nonzero(features) < SPARSE_BELOW * features.size
    if may_be_sparse and mostly_zero and not is_large(features):
        features = sp.csr_array(features)
    if sp.issparse(features):
        indptr, indices = (share_array(part, np.int64, device) for part in (features.indptr, features.indices))
        return SparseRows(indptr, indices, share_array(features.data, np.float32, device), features.shape[1]), "sparse"
    return share_array(features, np.float32, device), "dense"


def merge_rows(features: Any, device: torch.device | str) -> tuple[Any, Tensor | None]:
    """Return the distinct rows of categories and the row of each edge; other features stay as they are."""
    if features is None or sp.issparse(features) or not np.issubdtype(features.dtype, np.integer) or not features.size:
        return features, None
    if is_large(features):  # a row index per edge would be as large as what it saves
        return features, None
    low, high = features.min(0), features.max(0)
    if low.min() < 0 or np.prod((high + 1).astype(np.float64)) >= 2**62:
        return features, None
    keys = features[:, 0].astype(np.int64)
    for column, size in zip(features.T[1:], (high[1:] + 1).tolist(), strict=True):
        keys = keys * size + column
    _, first, rows = np.unique(keys, return_index=True, return_inverse=True)
    return features[first], torch.from_numpy(rows.reshape(-1)).to(device)


def is_large(features: Any) -> bool:
    """Return whether features are too large to copy."""
    return features is not None and (features.nnz if sp.issparse(features) else features.size) > LARGE


def is_ready(table: Table) -> bool:
    """Return whether a table has the types that maps read."""
    if isinstance(table, SparseRows):
        return table.indices.dtype == torch.int64 and table.values.dtype == torch.float32
    return table is None or table.dtype in (torch.float32, torch.int64)


def take_rows(table: Table, rows: Tensor, raw_bags: bool = False) -> Any:
    """Return some rows of a table, in the types that maps read; bags of words are normalised if they are still raw."""
    if isinstance(table, SparseRows):
        columns, values, offsets = table.take(rows.to(table.indptr.device))
        indptr = torch.cat([offsets, offsets.new_tensor([len(columns)])])
        taken = SparseRows(indptr, columns, values, table.columns)
        if not raw_bags:
            return taken
        scaled = _normalise_sparse(indptr.cpu().numpy(), values.cpu().numpy())
        return replace(taken, values=torch.from_numpy(scaled).to(values.device))
    return None if table is None else _make_ready(table[rows.to(table.device)], raw_bags)


def _make_ready(rows: Tensor, raw_bags: bool) -> Tensor:
    if raw_bags:
        return torch.from_numpy(normalise_bags(rows.cpu().numpy())).to(rows.device)
    return rows.float() if rows.is_floating_point() else rows.long()


def dense_blocks(table: Tensor, raw_bags: bool = False) -> Iterator[Tensor]:
    """Yield all rows of a table, ready, about `BLOCK` entries at a time."""
    step = max(1, BLOCK // max(1, table.shape[1]))
    for first in range(0, len(table), step):
        yield _make_ready(table[first : first + step], raw_bags)


def value_blocks(table: SparseRows, raw_bags: bool = False) -> Iterator[Tensor]:
    """Yield all values of sparse rows, about `BLOCK` at a time; raw bags of words are normalised, by whole rows."""
    if not raw_bags:
        yield from table.values.split(BLOCK)
        return
    entries = table.indptr.cpu().numpy()
    cuts = np.unique(np.searchsorted(entries, np.arange(0, entries[-1] + BLOCK, BLOCK)))
    bounds = np.unique([0, *cuts[cuts < len(entries) - 1].tolist(), len(entries) - 1])
    for first, last in pairwise(bounds.tolist()):
        yield take_rows(table, torch.arange(first, last), True).values


def look_like_bags(features: Any) -> bool:
    """Return whether features are floats, none of them negative and most of them zero."""
    values = features.data if sp.issparse(features) else features
    if np.issubdtype(values.dtype, np.integer) or not features.size or not values.size:
        return False
    entries = features.shape[0] * features.shape[1]
    return bool(values.min() >= 0 and np.count_nonzero(values) < (1 - MOSTLY_ZERO) * entries)


def normalise_bags(features: Any) -> Any:
    """Return `log(1 + x)`, each row scaled to length 1 (a row of zeros stays): the same bits for dense and sparse."""
    check_not_negative(features)
    if not sp.issparse(features):
        damped = np.log1p(features, dtype=np.float32)
        squares = np.square(damped).sum(1, keepdims=True, dtype=np.float64)
        return damped / np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
    values = _normalise_sparse(features.indptr, features.data)
    return sp.csr_array((values, features.indices, features.indptr), shape=features.shape)


def _normalise_sparse(indptr: NDArray, values: NDArray) -> NDArray[np.float32]:
    damped = np.log1p(values, dtype=np.float32)
    counts = np.diff(indptr)
    squares = np.bincount(np.repeat(np.arange(len(counts)), counts), weights=np.square(damped), minlength=len(counts))
    length = np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
    return np.asarray(damped / np.repeat(length, counts), dtype=np.float32)


def check_not_negative(features: Any) -> None:
    """Refuse to read features as bags of words if one of them is negative."""
    values = features.data if sp.issparse(features) else features
    if values.size and not values.min() >= 0:
        raise GpmError("bag_of_words is for features that are not negative; set it to no.")
