"""WalkRule: the law of the next step."""

from __future__ import annotations

from dataclasses import dataclass

from gpm.errors import GpmError

P_RANGE = 1e-6, 1e6  # beyond it, the weights of one step do not fit one float
Q_RANGE = 1e-3, 1e3  # a rejected draw costs time in proportion to max(q, 1/q)


@dataclass(frozen=True)
class WalkRule:
    r"""The law by which a walk at node v, having come from node t, chooses its next node x among the out-edges of v.

    :math:`P(x) \propto w(v, x) \, a(t, x)`, where w is the edge weight (1 in an unweighted graph) and, as in node2vec,
    a is 1/p if x = t, 1 if there is an edge from t to x, and 1/q otherwise. The first step has no t, and a = 1. At a
    node without an exit the walk stays in place.

    Args:
        p: Return parameter: the larger, the rarer is an immediate return; between 0.000001 and 1000000.
        q: In-out parameter: the larger, the closer a walk stays to t; between 0.001 and 1000.
        non_backtracking: Never return at once, unless there is no other exit. Excludes p.
        weighted: Follow edge weights if the graph has them.
    """

    p: float = 1.0
    q: float = 1.0
    non_backtracking: bool = False
    weighted: bool = True

    def __post_init__(self) -> None:
        for name, (least, most) in (("p", P_RANGE), ("q", Q_RANGE)):
            value = float(getattr(self, name))
            if not least <= value <= most:
                raise GpmError(f"{name} must lie between {least:g} and {most:g}, got {value:g}.")
            object.__setattr__(self, name, value)  # a float32 would not divide as a float64 does
        if self.non_backtracking and self.p != 1:
            raise GpmError(f"non_backtracking forbids what p = {self.p} weighs; leave p at 1.")

    @property
    def second_order(self) -> bool:
        """Whether a step looks at where the walk came from."""
        return self.p != 1 or self.q != 1 or self.non_backtracking
