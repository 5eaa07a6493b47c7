"""The content of explanations: of one prediction, and as an overview of many."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Method = Literal["auto", "banzhaf", "attention", "left-out", "gradient"]
ALL = "(all)"  # heading of all classes together


def spell_name(name: object) -> str:
    """Return a name as text that can be written; bytes that are no valid text are spelled out."""
    return str(name).encode("utf-8", "backslashreplace").decode("utf-8")


@dataclass(frozen=True)
class ScoredPattern:
    """A subgraph that walks passed through, and its effect on a prediction.

    Attributes:
        walk: A walk along it, from its start, as indices of the view's nodes.
        names: The names of these nodes.
        edges: Its edges as the model sees them, as pairs of indices: those that the walk crossed and, with topologies
            that read them, the others among its nodes.
        shape: Name of the shape.
        content: The types of its nodes, such as atoms: "C6", "O-N-O"; empty without types.
        scale, count: Length of the walk, and number of walks through exactly this subgraph.
        score: Its score, in the units of the method.
        spread, again: Standard deviation and mean of the score when the other patterns are drawn again. Unlike the
            score, the mean is not biased by choosing the best of many patterns.
        without: The prediction of the explained class without it: a probability, or a value.
        argues: The index of the class it speaks for; for a value, 1 if it raises the value, else 0.
        evidence: Its effect on the log-odds of each class, or on the value `[C]`.
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
        name: Its name.
        x, y: Position in the unit square.
        kind: Its type, such as the symbol of an element; else its known label; empty if it has neither.
        features: A few of its features, by name.
        start: True if it is, or belongs to, the explained instance.
        weight: Weight of the shown patterns through it, 0 to 1.
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
    """An edge of the drawn neighbourhood: indices of its ends, weight of the patterns over it, and its type."""

    source: int
    target: int
    weight: float = 0.0
    kind: str = ""


@dataclass(frozen=True)
class View:
    """The neighbourhood that is drawn: all nodes of the shown patterns, and others near them.

    Attributes:
        nodes, edges: The drawn nodes and edges; an undirected edge once.
        hidden: Number of nodes that are as near but for which there was no room.
        atoms: Node types are elements.
    """

    nodes: tuple[ViewNode, ...]
    edges: tuple[ViewEdge, ...]
    hidden: int = 0
    atoms: bool = False


@dataclass(frozen=True)
class Curve:
    """The prediction as patterns are left out (deletion) or put in (insertion), the best first.

    Attributes:
        share: Share of the patterns left out or put in; for edges, the number of patterns whose edges are forbidden.
        top: The prediction of the explained class.
        random: The mean prediction with random walks instead, as many of every length; for edges, random patterns.
        spread: Its standard deviation over draws.
    """

    share: tuple[float, ...]
    top: tuple[float, ...]
    random: tuple[float, ...]
    spread: tuple[float, ...]


@dataclass(frozen=True)
class Trust:
    """Measures of how far an explanation can be trusted.

    Attributes:
        deletion, insertion: Patterns left out or put in, the highest scores first.
        edges: The edges of the best patterns forbidden to the walks, which are drawn again.
        drop: Fall of the prediction without the best tenth of the patterns.
        random_drop: The mean fall without as many random walks of every length.
        stability: Agreement of the best patterns' scores when all are drawn again: mean cosine over pairs of draws.
        overlap: Share of the best patterns that two draws have in common, of those that either has.
        draws: Number of such draws.
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
    """The patterns that the prediction of one node, link or graph rests on.

    Attributes:
        data: The name of the dataset in print.
        level: node, link or graph.
        instance: The name of the instance, or the names of a link's ends.
        kind: The kind of prediction: classes, labels (several yes-or-no), link or value.
        classes: Names of the classes, labels or values `[C]`; for a link, "no link" and "link".
        target: The index of the explained class.
        answers: Probability of each class, or the values `[C]`.
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

    def argument(self, pattern: ScoredPattern) -> str:
        """Return what a pattern speaks for."""
        if self.kind == "value":
            return "raises it" if pattern.argues else "lowers it"
        return f"for {self.classes[pattern.argues]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values, as in `explanation.json` and on the page."""
        return asdict(self) | {"name": self.name, "headline": self.headline}


@dataclass(frozen=True)
class ShapeShare:
    """The share of the evidence that a shape carries in one class, against its share of the drawn patterns.

    Attributes:
        predicted: The name of the class; `ALL` for all together.
        shape, content: Name of the shape, and the types of its nodes.
        carried: Share of the evidence that patterns of this shape carry, the mean over instances.
        low, high: Its 95% interval, over resampled instances.
        chance: Share of the drawn patterns that have this shape.
        lift, lift_low, lift_high: carried / chance, and its 95% interval.
        nodes, edges: Number of nodes, and the edges among them.
        kinds: Types of those nodes, or empty.
        example: The names of the nodes of one such pattern.
    """

    predicted: str
    shape: str
    content: str
    carried: float
    low: float
    high: float
    chance: float
    lift: float
    lift_low: float
    lift_high: float
    nodes: int
    edges: tuple[tuple[int, int], ...]
    kinds: tuple[str, ...]
    example: tuple[str, ...]

    @property
    def label(self) -> str:
        """Shape and content in one."""
        return f"{self.shape} {self.content}".strip()


@dataclass(frozen=True)
class Overview:
    """The shapes that the predictions of a split rest on, class by class.

    Attributes:
        data, level, method, part: The data, the kind of instance, the method of attribution and the split.
        instances: Number of instances by class name; under `ALL` all of them.
        shares: The heaviest shapes of each class, the heaviest first.
        atoms: Node types are elements.
    """

    data: str
    level: str
    method: str
    part: str
    instances: dict[str, int]
    shares: tuple[ShapeShare, ...]
    atoms: bool = False
    seed: int = 0
