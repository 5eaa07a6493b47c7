"""The content of explanations: of one prediction, and as an overview of many."""

from __future__ import annotations

import html
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gpm.explain.strength import Strength, Trust, judge

Method = Literal["auto", "banzhaf", "attention", "left-out", "gradient"]
ALL = "(all)"  # heading of all classes together


def spell_name(name: object) -> str:
    """Return a name as text that can be written; bytes that are no valid text are spelled out."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class Column:
    """A column of an expected pattern: its value, the average of the training split, and what the difference adds."""

    name: str
    value: float
    average: float
    evidence: float  # for the explained class


@dataclass(frozen=True)
class ScoredPattern:
    """A subgraph that walks passed through, or an expected pattern, and its effect on a prediction.

    An expected pattern has no walk, no names and no edges, and counts no walks: `shape` is its name in print,
    `content` says in words what it holds, and `scale` is how many steps it reaches.
    """

    walk: tuple[int, ...]  # a walk along it, from its start, as indices of the view's nodes
    names: tuple[str, ...]  # of these nodes
    # Edges as the model sees them: those that the walk crossed and, with topologies that read them, the others among
    # its nodes.
    edges: tuple[tuple[int, int], ...]
    shape: str
    content: str  # the types of its nodes, such as atoms: "C6", "O-N-O"; empty without types
    scale: int  # length of the walk
    count: int  # walks through exactly this subgraph
    score: float  # in the units of the method
    # Standard deviation and mean of the score when the other patterns are drawn again. Unlike the score, the mean is
    # not biased by choosing the best of many patterns.
    spread: float
    again: float
    without: float  # the prediction of the explained class without it: a probability, or a value
    argues: int  # the index of the class it speaks for; for a value, 1 if it raises the value, else 0
    evidence: tuple[float, ...]  # its effect on the log-odds of each class, or on the value `[C]`
    expected: str = ""  # the name of an expected pattern in the model; empty for walks
    area: tuple[int, ...] = ()  # indices of the view's nodes that an expected pattern reads
    columns: tuple[Column, ...] = ()  # of an expected pattern, those that count the most

    @property
    def label(self) -> str:
        """Shape and content in one; of an expected pattern its name."""
        return self.shape if self.expected else f"{self.shape} {self.content}".strip()

    @property
    def subject(self) -> str:
        """Names along the walk, or what an expected pattern holds."""
        from gpm.graph.names import join_names  # which loads what --help need not wait for

        return self.content if self.expected else join_names(self.names)


@dataclass(frozen=True)
class ViewNode:
    """A node of the drawn neighbourhood."""

    name: str
    x: float  # position in the unit square
    y: float
    kind: str = ""  # its type, such as the symbol of an element; else its known label; empty if it has neither
    features: tuple[tuple[str, float], ...] = ()  # a few of them, by name
    start: bool = False  # it is, or belongs to, the explained instance
    weight: float = 0.0  # of the shown patterns through it, 0 to 1


@dataclass(frozen=True)
class ViewEdge:
    """An edge of the drawn neighbourhood: indices of its ends, weight of the patterns over it, and its type."""

    source: int
    target: int
    weight: float = 0.0
    kind: str = ""


@dataclass(frozen=True)
class View:
    """The neighbourhood that is drawn: all nodes of the shown patterns, and others near them."""

    nodes: tuple[ViewNode, ...]
    edges: tuple[ViewEdge, ...]  # an undirected edge once
    hidden: int = 0  # nodes that are as near but for which there was no room
    atoms: bool = False  # node types are elements


@dataclass(frozen=True)
class Explanation:
    """The patterns that the prediction of one node, link or graph rests on.

    Attributes:
        data: The name of the dataset in print.
        level: node, link or graph.
        instance: The name of the instance, or the names of a link's ends.
        kind: The kind of prediction: classes, labels (several yes-or-no), link or value.
        classes: Names of the classes, labels or values `[C]`; for a link, "no link" and "link".
        target: The index of the explained class.
        answers: Probability of each class, or the values `[C]`.
        predicted: The index of the predicted class; None for the one with the highest probability.
        truth: The known truth; empty if there is none.
        method: The method of attribution: banzhaf, attention, left-out or gradient.
        walks, found: Number of walks read, and of different patterns among them.
        patterns: The best of these, the highest scores first.
        others: The best for other likely classes, without those above.
        view: The neighbourhood to draw them in.
        trust: Measures of how far to trust it.
        seed: Seed of the walks.
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
    predicted: int | None = None

    @property
    def name(self) -> str:
        """The instance as text: "node 17", "link a - b", "graph 3"."""
        return f"{self.level} {' - '.join(self.instance)}"

    @property
    def answer(self) -> float:
        """The probability of the explained class, or the value."""
        return self.answers[self.target]

    @property
    def headline(self) -> str:
        """The explained prediction in words."""
        if self.kind == "value":
            named = f"{self.classes[self.target]} " if len(self.classes) > 1 else ""
            return f"{self.name}: {named}{self.answer:.4g}"
        return f"{self.name}: {self.classes[self.target]}, {self.answer:.1%} sure"

    @property
    def strength(self) -> Strength:
        """The verdict: strong, moderate or weak evidence, with the reason and the rule."""
        return judge(self.trust, value=self.kind == "value")

    def argument(self, pattern: ScoredPattern) -> str:
        """Return what a pattern speaks for."""
        if self.kind == "value":
            return "raises it" if pattern.argues else "lowers it"
        return f"for {self.classes[pattern.argues]}"

    def _repr_html_(self) -> str:
        """Return the verdict and the ranked patterns, for notebooks and for browsers without scripts."""
        head = ["rank", "pattern", "walk", "score", "spread", "steps", "walks", "without it"]
        form = ".4g" if self.kind == "value" else ".1%"
        rows = (
            (rank, p.label, p.content if p.expected else " → ".join(p.names), f"{p.score:.4g}", f"{p.spread:.2g}",
             p.scale, p.count, f"{p.without:{form}}")
            for rank, p in enumerate(self.patterns, 1)
        )  # fmt: skip
        cells = "\n".join(f"<tr>{''.join(f'<td>{html.escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
        truth = f"; label: {self.truth}" if self.truth else ""
        about = f"{self.data}{truth}; scores by {self.method}, seed {self.seed}"
        return (
            f"<h2>{html.escape(self.headline)}</h2>\n<p><b>{self.strength.word} evidence.</b> "
            f"{self.strength.reason}</p>\n<p>{html.escape(about)}</p>\n"
            f"<table><thead><tr>{''.join(f'<th>{name}</th>' for name in head)}</tr></thead>\n"
            f"<tbody>{cells}</tbody></table>"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, as in `explanation.json` and on the page."""
        return asdict(self) | {"name": self.name, "headline": self.headline, "strength": asdict(self.strength)}


@dataclass(frozen=True)
class ShapeShare:
    """The share of the evidence that a shape carries in one class, against its share of the drawn patterns."""

    predicted: str  # the name of the class; `ALL` for all together
    shape: str
    content: str  # the types of its nodes
    carried: float  # share of the evidence that patterns of this shape carry, the mean over instances
    low: float  # its 95% interval, over resampled instances
    high: float
    chance: float  # share of the drawn patterns that have this shape
    lift: float  # carried / chance, and its 95% interval
    lift_low: float
    lift_high: float
    nodes: int  # number of nodes, and the edges among them
    edges: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]  # types of those nodes, or empty
    example: tuple[str, ...]  # the names of the nodes of one such pattern

    @property
    def label(self) -> str:
        """Shape and content in one."""
        return f"{self.shape} {self.content}".strip()


@dataclass(frozen=True)
class Overview:
    """The shapes that the predictions of a split rest on, class by class."""

    data: str
    level: str
    method: str
    part: str  # the split
    instances: dict[str, int]  # number of instances by class name; under `ALL` all of them
    shares: tuple[ShapeShare, ...]  # the heaviest of each class, the heaviest first
    atoms: bool = False  # node types are elements
    seed: int = 0
