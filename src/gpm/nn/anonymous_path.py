"""Anonymous path encoders: the shape of a pattern becomes a vector, once per distinct topology of a batch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from gpm.config import UNORDERED, Kind, ModelOptions
from gpm.patterns.topologies import Topologies
from gpm.random_bits import mix_array


def describe(table: Topologies, longest: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    r"""Return the sequences that an encoder reads `[T, L+1, c]`, zero past the end, and their lengths `[T]`.

    For `loops`, position i of an anonymous walk w is :math:`z_{ij} = 1[w_i = w_j]`; for `induced` it is
    :math:`[1[w_i = w_j] \,\|\, 1[w_i \sim w_j]]`, where :math:`\sim` is adjacency.
    """
    assert table.codes is not None
    codes = np.full((len(table), longest + 1), -1, dtype=np.int64)
    codes[:, : table.codes.shape[1]] = table.codes[:, : longest + 1]
    here = codes >= 0
    both = here[:, :, None] & here[:, None, :]
    parts = [(codes[:, :, None] == codes[:, None, :]) & both]
    if table.adjacency is not None:
        visited, each = np.maximum(codes, 0), np.arange(len(table))[:, None, None]
        parts.append(table.adjacency[each, visited[:, :, None], visited[:, None, :]] & both)
    return np.concatenate(parts, axis=2).astype(np.float32), here.sum(1)


class GruTopology(nn.Module):
    """Encode a sequence by the last state of a GRU."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.gru = nn.GRU(columns, width, batch_first=True)

    def forward(self, z: Tensor, lengths: Tensor) -> Tensor:
        states, _ = self.gru(z)
        return states[torch.arange(len(z), device=z.device), lengths - 1]


class MeanTopology(nn.Module):
    """Encode a sequence by a linear map of the mean of its positions."""

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(columns, width)

    def forward(self, z: Tensor, lengths: Tensor) -> Tensor:
        return self.map(z.sum(1) / lengths[:, None])


class TransformerTopology(nn.Module):
    """Encode a sequence by one transformer layer and the mean of its positions."""

    def __init__(self, columns: int, width: int, heads: int) -> None:
        super().__init__()
        self.map = nn.Linear(columns, width)
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True)

    def forward(self, z: Tensor, lengths: Tensor) -> Tensor:
        past = torch.arange(z.shape[1], device=z.device) >= lengths[:, None]
        states = self.layer(self.map(z), src_key_padding_mask=past)
        return states.masked_fill(past[..., None], 0).sum(1) / lengths[:, None]


class ShapeVocabulary(nn.Module):
    """An embedding per shape. `size` frequent shapes have a row each; the others share `size / 4` rows by hash."""

    keys: Tensor

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.shared = max(1, size // 4)
        self.register_buffer("keys", torch.full((size,), torch.iinfo(torch.int64).max))  # ascending
        self.rows = nn.Embedding(size + self.shared, width)
        nn.init.normal_(self.rows.weight, std=0.1)

    def learn_keys(self, keys: NDArray[np.int64]) -> None:
        """Give the first of these keys, the most frequent, rows of their own."""
        chosen = np.sort(keys[: len(self.keys)])
        self.keys.fill_(torch.iinfo(torch.int64).max)
        self.keys[: len(chosen)] = torch.from_numpy(chosen)

    def find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of keys."""
        own = self.keys.cpu().numpy()
        index = np.minimum(np.searchsorted(own, keys), len(own) - 1)
        hashed = len(own) + (mix_array(keys.view(np.uint64)) % np.uint64(self.shared)).astype(np.int64)
        return np.where(own[index] == keys, index, hashed)

    def forward(self, table: Topologies) -> Tensor:
        rows = torch.from_numpy(self.find(table.keys)).to(self.rows.weight.device)
        return functional.embedding(rows, self.rows.weight)


class AnonymousPath(nn.Module):
    r"""The anonymous path encoder that the options name, weighted: :math:`\lambda \rho_a(\phi)`."""

    def __init__(self, options: ModelOptions, kind: Kind, longest: int) -> None:
        super().__init__()
        self.longest = longest
        width = options.width or 0
        columns = (longest + 1) * (2 if kind == "induced" else 1)
        if kind in UNORDERED:
            self.encoder: nn.Module = ShapeVocabulary(options.vocabulary, width)
        elif options.anonymous == "mean":
            self.encoder = MeanTopology(columns, width)
        elif options.anonymous == "transformer":
            self.encoder = TransformerTopology(columns, width, options.path_heads)
        else:
            self.encoder = GruTopology(columns, width)
        weight = options.anonymous_weight
        self.weight = nn.Parameter(torch.tensor(weight)) if options.learn_weight else weight

    def forward(self, table: Topologies, device: torch.device) -> Tensor:
        """Encode every topology of the table, `[T, d]`."""
        if isinstance(self.encoder, ShapeVocabulary):
            return self.encoder(table) * self.weight
        z, lengths = describe(table, self.longest)
        encoded = self.encoder(torch.from_numpy(z).to(device), torch.from_numpy(lengths).to(device))
        return encoded * self.weight
