"""WalkRule: the law of the next step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpm.errors import GpmError

Q_RANGE = 1e-3, 1e3  # a rejected draw costs time in proportion to max(q, 1/q)


@dataclass(frozen=True)
class WalkRule:
    """How a walk at node v, having come from node t, chooses its next node x among the out-edges of v.

    P(x) is in proportion to w(v, x) * a(t, x): w is the edge weight (1 in an unweighted graph), and, as in node2vec,
    a = 1/p if x = t, 1 if there is an edge from t to x, and 1/q otherwise. The first step has no t, and a = 1. From a
    node with no exit the walk stays in place.

    Args:
        p: Reluctance to return at once; above 0.
        q: Reluctance to leave the neighbourhood of t; between 0.001 and 1000.
        non_backtracking: Never return at once, unless there is no other exit. Excludes p.
        weighted: Follow edge weights where the graph has them.
    """

    p: float = 1.0
    q: float = 1.0
    non_backtracking: bool = False
    weighted: bool = True

    def __post_init__(self) -> None:
        if not (self.p > 0 and math.isfinite(self.p)):
            raise GpmError(f"p must be above 0, got {self.p}.")
        if not Q_RANGE[0] <= self.q <= Q_RANGE[1]:
            raise GpmError(f"q must lie between {Q_RANGE[0]:g} and {Q_RANGE[1]:g}, got {self.q}.")
        if self.non_backtracking and self.p != 1:
            raise GpmError(f"non_backtracking forbids what p = {self.p} weighs; leave p at 1.")

    @property
    def second_order(self) -> bool:
        """Whether a step looks at where the walk came from."""
        return self.p != 1 or self.q != 1 or self.non_backtracking
