r"""Expected patterns of links: tokens of what is known exactly about the two ends and about what lies between them.

The token of a step reads the means of both ends by one map, :math:`e = W m + b`, and then their product and their sum,
:math:`U [e_u \odot e_v \,\|\, e_u + e_v]`: in effect the linear propagation of a graph auto-encoder. The token of the
structure is a small network of its columns. The head reads the sum of the tokens beside the walks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gpm.config import ModelOptions
from gpm.nn.dropout import drop
from gpm.nn.expected_patterns import ExpectedPatterns
from gpm.nn.expected_table import STEP
from gpm.nn.feature_table import InputSpec
from gpm.nn.link_table import LinkTable

PAIR_WIDTH = 128  # of what the ends are mapped to


class PairMap(nn.Module):
    """Map the columns of two ends, side by side `[B, 2k]`, to a token `[B, d]`; the ends may be swapped."""

    def __init__(self, columns: int, width: int, options: ModelOptions) -> None:
        super().__init__()
        self.dropout, self.feature_dropout = options.dropout, options.feature_dropout
        self.end = nn.Linear(columns // 2, PAIR_WIDTH)
        self.join = nn.Linear(2 * PAIR_WIDTH, width)

    def forward(self, columns: Tensor, rows: Tensor | None = None) -> Tensor:
        columns = drop(columns, self.feature_dropout, self.training, rows)
        one, two = self.end(columns.unflatten(1, (2, -1))).unbind(1)
        return self.join(drop(torch.cat([one * two, one + two], 1), self.dropout, self.training, rows))


class ExpectedLinks(ExpectedPatterns):
    """Standardise the columns of a `LinkTable`, and map each group to a token."""

    ends = 2

    def __init__(self, inputs: InputSpec, width: int, options: ModelOptions) -> None:
        self.options = options
        super().__init__(inputs, width, 1, linear="none")

    def _make_map(self, name: str, columns: int, width: int) -> nn.Module:
        if name.startswith(STEP):
            return PairMap(columns, width, self.options)
        return nn.Sequential(nn.Linear(columns, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, values: Tensor, rows: Tensor | None = None) -> Tensor:
        """Map standardised columns `[B, D]` to tokens `[B, K, d]`."""
        pairs = zip(self.maps, values.split(self.sizes, 1), strict=True)
        tokens = [each(part, rows) if isinstance(each, PairMap) else each(part) for each, part in pairs]
        return torch.stack(tokens, 1)

    @torch.no_grad()
    def fit_links(self, table: LinkTable) -> None:
        """Find the statistics, those of the two ends together, on edges that may be walked and random pairs."""
        parts = []
        for name, part in zip(self.names, table.sample().double().split(self.sizes, 1), strict=True):
            step = name.startswith(STEP)
            ends = part.reshape(-1, part.shape[1] // 2) if step else part
            mean, spread = ends.mean(0), ends.std(0, correction=0)
            if step and table.even:  # rare words stay small
                common = spread.square().mean().sqrt()
                spread = torch.where(spread > 1e-6 * common, common, 0.0)
            constant = ~(spread > 1e-6 * mean.abs().clamp(min=1e-6))
            scale = torch.where(constant, 0.0, 1 / spread)
            parts.append((mean.repeat(1 + step), scale.repeat(1 + step)))
        self.shift.copy_(torch.cat([mean for mean, _ in parts]))
        self.scale.copy_(torch.cat([scale for _, scale in parts]))
        if table.projection is not None:
            self.projection.copy_(torch.from_numpy(table.projection))
