"""WalkRule: the law of the next step."""

from __future__ import annotations

from dataclasses import dataclass

from gpm.config import Config, check_turning, option_range
from gpm.errors import GpmError


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
        # Beyond the range of p, weights of one step no longer fit one float; the time of a rejected draw is in
        # proportion to max(q, 1/q).
        for name in ("p", "q"):
            least, most = option_range(name) or (0, 0)
            value = float(getattr(self, name))
            if not least <= value <= most:
                raise GpmError(f"{name} must lie between {least:g} and {most:g}, got {value:g}.")
            object.__setattr__(self, name, value)  # a float32 would not divide as a float64 does
        check_turning(self.p, self.non_backtracking)

    @classmethod
    def from_config(cls, config: Config) -> WalkRule:
        """Return the rule that the options of a run describe."""
        return cls(p=config.p, q=config.q, non_backtracking=config.non_backtracking)

    @property
    def second_order(self) -> bool:
        """Whether a step looks at where the walk came from."""
        return self.p != 1 or self.q != 1 or self.non_backtracking
