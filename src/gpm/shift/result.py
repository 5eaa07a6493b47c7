"""What a shift report holds: distances, scores by distance, and topologies of both domains."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

Word = Literal["clear", "slight", "none"]
Where = Literal["shared", "source only", "target only"]
DIGITS = 6  # of the numbers in a report: what threads and machines may differ by is beyond them


@dataclass(frozen=True)
class Distance:
    """How far the two domains are apart in one respect.

    Attributes:
        name: Of what: degrees, features, topologies, classes (or labels, values), features_auc, embeddings_auc.
        value: The distance; of the last two, how well a classifier tells the domains apart.
        reference: The same between two random halves of the source: what no shift looks like.
        word: Whether that is a clear difference, a slight one or none, see `gpm.shift.distances.judge`.
        measure: What the number is, in words.
    """

    name: str
    value: float
    reference: float
    word: Word
    measure: str


@dataclass(frozen=True)
class Column:
    """A column of features: its means, and how far apart they are in standard deviations over both domains."""

    name: str
    source: float
    target: float
    difference: float


@dataclass(frozen=True)
class Length:
    """The distance of topology frequencies among walks of one length."""

    length: int
    value: float
    reference: float


@dataclass(frozen=True)
class Group:
    """Test nodes of the target that are about as far from the source.

    Attributes:
        count: How many.
        away: The probability that they are of the target, by the classifier of embeddings; the mean.
        score: The run's metric; None where it says nothing of them.
    """

    count: int
    away: float
    score: float | None


@dataclass(frozen=True)
class Scores:
    """The run's metric by distance.

    Attributes:
        metric: Which.
        source: Of the source's validation part; None where it says nothing.
        source_count: How many nodes of it were looked at.
        target: Of the target's test part; None without labels.
        target_count: How many nodes of it were looked at.
        groups: The same nodes in groups of equal size, the most source-like first.
    """

    metric: str
    source: float | None
    source_count: int
    target: float | None
    target_count: int
    groups: tuple[Group, ...]


@dataclass(frozen=True)
class TopologyShare:
    """A topology of walks of one length, in both domains.

    Attributes:
        shape: What it is called.
        code: The anonymous walk; empty where the topology has no order.
        length: Steps of the walk.
        where: Shared, or of one domain only: in the other it is at most a tenth as frequent.
        source, target: Its share of the patterns.
        source_attention, target_attention: Attention on one such pattern, where that on an average pattern is 1; None
            where the readout has no attention, or the domain no such pattern.
        nodes, edges: What it looks like.
    """

    shape: str
    code: tuple[int, ...]
    length: int
    where: Where
    source: float
    target: float
    source_attention: float | None
    target_attention: float | None
    nodes: int
    edges: tuple[tuple[int, int], ...]

    @property
    def label(self) -> str:
        """Shape and walk in one."""
        return f"{self.shape} {'-'.join(map(str, self.code))}".strip()


@dataclass(frozen=True)
class Shares:
    """What of a domain's attention (without attention, of its patterns) falls on which topologies; adds up to 1."""

    shared: float
    source_only: float
    target_only: float


@dataclass(frozen=True)
class Shift:
    """How far a target is from its source, how the model fares on it, and which patterns both have.

    Attributes:
        data, source, target: What they are called.
        source_nodes, target_nodes: How many of their nodes were looked at.
        seed: By which these were drawn.
        verdict: Two sentences.
        notes: What could not be told, in sentences.
        distances: How far apart the domains are, in each respect that there is.
        medians: The median degree in the source and in the target.
        columns: The columns of features that differ the most.
        lengths: The distance of topologies by length of walk.
        scores: The run's metric by distance.
        topology: The kind of topology.
        attention: Whether the readout has attention; if not, shares are of patterns.
        topologies: Those that are attended to the most (without attention, the most frequent).
        found: How many topologies there are in all.
        source_shares, target_shares: Attention that falls on topologies of both domains, or of one.
        reference_shared: The share that two halves of the source have in common, by the same rule.
    """

    data: str
    source: str
    target: str
    source_nodes: int
    target_nodes: int
    seed: int
    verdict: str
    notes: tuple[str, ...]
    distances: tuple[Distance, ...]
    medians: tuple[float, float]
    columns: tuple[Column, ...]
    lengths: tuple[Length, ...]
    scores: Scores
    topology: str
    attention: bool
    topologies: tuple[TopologyShare, ...]
    found: int
    source_shares: Shares
    target_shares: Shares
    reference_shared: float

    def __getitem__(self, name: str) -> Distance:
        """A distance by its name."""
        for distance in self.distances:
            if distance.name == name:
                return distance
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, as it is written to JSON."""
        plain: dict[str, Any] = asdict(self)
        return plain


def rounded(value: Any) -> float:
    """A number as reports have it."""
    return round(float(value), DIGITS) + 0.0


def rounded_or_none(value: Any) -> float | None:
    """The same; None for what is no number."""
    return None if value is None or not math.isfinite(value) else rounded(value)
