"""The pattern machine for links: the patterns of both endpoints become the score of a pair."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from gpm.config import Kind, ModelOptions
from gpm.errors import GpmError
from gpm.nn.dropout import drop
from gpm.nn.feature_table import InputSpec
from gpm.nn.model import GraphPatternMachine, Output
from gpm.patterns.meetings import count_marks
from gpm.patterns.tokenizer import Frame

Pair = Literal["joint", "product"]


class LinkPatternMachine(GraphPatternMachine):
    r"""Score pairs of nodes, the same for (u, v) as for (v, u).

    `product` (as in the paper) embeds each endpoint by its own patterns: :math:`f(z_u \odot z_v)`. `joint` reads the
    patterns of both as one set, in which every position is marked by how it is reached from the other endpoint:
    :math:`f([z_u \odot z_v \,\|\, z_u + z_v])` with the means z over the two sides.
    """

    def __init__(
        self, inputs: InputSpec, options: ModelOptions, longest: int, topology: Kind = "loops", pair: Pair = "joint"
    ) -> None:
        if pair == "joint" and (options.readout != "mean" or options.fusion):
            raise GpmError("Joint pairs are read by the means of their sides; leave readout at mean and fusion out.")
        self.pair = pair
        marks = count_marks(longest) if pair == "joint" else 0
        super().__init__(inputs, options, 1, longest, topology, marks)

    def _make_head(self, width: int) -> nn.Module:
        read = 2 * width if self.pair == "joint" else width
        return nn.Sequential(nn.Linear(read, width), nn.ReLU(), nn.Linear(width, 1))

    def join(self, one: Tensor, two: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the scores `[B, 1]` of pairs of endpoints `[B, d]`."""
        combined = torch.cat([one * two, one + two], 1) if self.pair == "joint" else one * two
        return self.head(drop(combined, self.options.dropout, self.training, rows))

    def read(self, encoded: Tensor, frame: Frame, weight: Tensor | None = None) -> Output:
        """Return the scores of links, from the encoded patterns `[B, 2M, d]` of `Tokenizer.links`."""
        assert frame.sides is not None
        if self.pair == "joint":
            one, two = self.machine.read_sides(encoded, frame.sides, weight, frame.rows)
        else:
            masks = [frame.sides == side for side in (0, 1)]
            parts = [encoded[:, mine] for mine in masks]
            if weight is None and parts[0].shape == parts[1].shape:
                rows = None if frame.rows is None else torch.cat([frame.rows, -1 - frame.rows])
                one, two = self.machine(torch.cat(parts), rows=rows)[0].chunk(2)
            else:  # an explanation may have more patterns on one side than on the other
                weights = [None if weight is None else weight[:, mine] for mine in masks]
                one, two = (self.machine(part, None, w)[0] for part, w in zip(parts, weights, strict=True))
        return Output(self.join(one, two, frame.rows), one + two, None)
