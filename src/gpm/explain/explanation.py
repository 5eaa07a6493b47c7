"""Explanations: which patterns a prediction rests on, in the user's names, and how far to believe it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Method = Literal["auto", "banzhaf", "attention", "left-out", "gradient"]


def spell_name(name: object) -> str:
    """A name as text that can be written; what was no valid text in the user's file is spelled out."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class ScoredPattern:
    """A subgraph that walks passed through, and what it did to a prediction.

    Attributes:
        walk: A walk along it, as places in the view's nodes; the first is where it started.
        names: The same in the user's names.
        edges: Its edges as the model sees them, as pairs of places in the view's nodes: those that the walk crossed
            and, with topologies that know them, the others among its nodes.
        shape: What it is called.
        content: What it passes through where nodes have types, as atoms have: "C6", "O-N-O"; else empty.
        scale: Length of the walk.
        count: How many walks of the bag pass through exactly this subgraph.
        score: How much it counts, in the units of the method.
        spread: Standard deviation of the score when the other patterns are drawn anew.
        again: Its mean then. The best of many patterns look a little better than they are; this does not.
        without: The answer for the explained class without it: a probability, or a value.
        argues: The class it speaks for, as a place in the classes; for a value, 1 if it raises it, else 0.
        evidence: By how much it raises the log-odds of each class, or the value `[C]`.
    """

    walk: tuple[int, ...]
    names: tuple[str, ...]
    edges: tuple[tuple[int, int], ...]
    shape: str
    content: str
    scale: int
    count: int
    score: float
    spread: float
    again: float
    without: float
    argues: int
    evidence: tuple[float, ...]

    @property
    def label(self) -> str:
        """Shape and content in one."""
        return f"{self.shape} {self.content}".strip()


@dataclass(frozen=True)
class ViewNode:
    """A node of the drawn neighbourhood.

    Attributes:
        name: What the user calls it.
        x, y: Where it is drawn, in the unit square.
        kind: Its type, as an element's symbol; else its known label; empty if it has neither.
        features: A few of its features, by name.
        start: Whether it is, or belongs to, what is explained.
        weight: How much the shown patterns through it count, 0 to 1.
    """

    name: str
    x: float
    y: float
    kind: str = ""
    features: tuple[tuple[str, float], ...] = ()
    start: bool = False
    weight: float = 0.0


@dataclass(frozen=True)
class ViewEdge:
    """An edge of the drawn neighbourhood: places of its ends, how much the patterns over it count, and its type."""

    source: int
    target: int
    weight: float = 0.0
    kind: str = ""


@dataclass(frozen=True)
class View:
    """The neighbourhood that is drawn: all nodes of the shown patterns, and others near them.

    Attributes:
        nodes, edges: What is drawn; an undirected edge once.
        hidden: Nodes as near as those that are drawn, for which there was no room.
        atoms: Kinds are elements.
    """

    nodes: tuple[ViewNode, ...]
    edges: tuple[ViewEdge, ...]
    hidden: int = 0
    atoms: bool = False


@dataclass(frozen=True)
class Curve:
    """How the answer changes as patterns are taken away (deletion) or put in (insertion), the best first.

    Attributes:
        share: Share of the patterns that is taken away or put in; for edges, the number of patterns whose edges go.
        top: The answer for the explained class.
        random: The mean answer with random walks instead, as many of every length; for edges, with random patterns.
        spread: Its standard deviation over draws.
    """

    share: tuple[float, ...]
    top: tuple[float, ...]
    random: tuple[float, ...]
    spread: tuple[float, ...]


@dataclass(frozen=True)
class Trust:
    """How far an explanation can be believed.

    Attributes:
        deletion: Patterns left out, the highest scores first.
        insertion: Patterns put in, the highest scores first.
        edges: The edges of the best patterns forbidden to the sampler, and walks drawn again.
        drop: By how much the answer falls without the best tenth of the patterns.
        random_drop: The same without random walks, as many of every length, on average.
        stability: Agreement of the best patterns' scores when all are drawn anew: mean cosine over pairs of draws.
        overlap: Share of the best patterns that two draws have in common, of those that either has.
        draws: How many such draws were made.
    """

    deletion: Curve
    insertion: Curve
    edges: Curve
    drop: float
    random_drop: float
    stability: float
    overlap: float
    draws: int


@dataclass(frozen=True)
class Explanation:
    """Why a model says what it says of one node, link or graph.

    Attributes:
        data: The dataset's name in print.
        level: node, link or graph.
        instance: Its name, or the names of a link's ends.
        kind: What is predicted: classes, labels (several yes-or-no), link or value.
        classes: Names of the classes, labels or values `[C]`; of a link, that there is none and that there is one.
        target: The class that is explained, as a place among them.
        answers: Probability of each, or the values `[C]`.
        truth: The known answer; empty if there is none.
        method: How patterns were scored: banzhaf, attention, left-out or gradient.
        walks: How many walks were read.
        found: How many different patterns they make.
        patterns: The best of these, the highest scores first.
        others: The best for other likely classes, as far as they are not among these.
        view: The neighbourhood to draw them in.
        trust: How far to believe it.
        seed: Of the walks.
    """

    data: str
    level: str
    instance: tuple[str, ...]
    kind: str
    classes: tuple[str, ...]
    target: int
    answers: tuple[float, ...]
    truth: str
    method: str
    walks: int
    found: int
    patterns: tuple[ScoredPattern, ...]
    view: View
    trust: Trust
    seed: int = 0
    others: tuple[ScoredPattern, ...] = ()

    @property
    def name(self) -> str:
        """What is explained: "node 17", "link a - b", "graph 3"."""
        return f"{self.level} {' - '.join(self.instance)}"

    @property
    def answer(self) -> float:
        """Of the explained class."""
        return self.answers[self.target]

    @property
    def headline(self) -> str:
        """The explained answer in words."""
        if self.kind == "value":
            named = f"{self.classes[self.target]} " if len(self.classes) > 1 else ""
            return f"{self.name}: {named}{self.answer:.4g}"
        return f"{self.name}: {self.classes[self.target]}, {self.answer:.1%} sure"

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, as `explanation.json` and the page hold it."""
        return asdict(self) | {"name": self.name, "headline": self.headline}
