"""The content of a shift report: distances, scores by distance, and topologies of both domains."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

Word = Literal["clear", "slight", "none"]
Where = Literal["shared", "source only", "target only"]
DIGITS = 6  # of the numbers in a report: differences between threads and computers are smaller


@dataclass(frozen=True)
class Distance:
    """The distance of the two domains in one respect.

    Attributes:
        name: degrees, features, topologies, classes (or labels, values), features_auc or embeddings_auc.
        value: The distance; for the last two, the AUC of a classifier that tells the domains apart.
        reference: The same between two random halves of the source, between which there is no shift.
        word: clear, slight or none, see `gpm.shift.distances.judge`.
        measure: Description of the number.
    """

    name: str
    value: float
    reference: float
    word: Word
    measure: str


@dataclass(frozen=True)
class Column:
    """A column of features: its means, and their difference in standard deviations over both domains."""

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
    """Test nodes of the target that are about equally far from the source: how many, the mean probability that they are
    of the target by the classifier of embeddings, and the run's metric, None where it is not defined.
    """

    count: int
    away: float
    score: float | None


@dataclass(frozen=True)
class Scores:
    """The run's metric by distance.

    Attributes:
        metric: Its name.
        source, source_count: On the sampled nodes of the source's validation split, and their number.
        target, target_count: On the sampled nodes of the target's test split, and their number; None without labels.
        groups: The same nodes of the target in groups of equal size, the most source-like first.
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
        shape: Name of the shape.
        code: The anonymous walk; empty where the topology has no order.
        length: Steps of the walk.
        where: shared, or of one domain only if it is at most a tenth as frequent in the other.
        source, target: Its share of the patterns.
        source_attention, target_attention: Attention on one such pattern, relative to an average pattern; None where
            the readout has no attention, or the domain no such pattern.
        nodes, edges: Number of nodes, and the edges among them.
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


@dataclass(frozen=True)
class Shares:
    """Shares of a domain's attention (without attention, of its patterns) by where the topology occurs; sum to 1."""

    shared: float
    source_only: float
    target_only: float


@dataclass(frozen=True)
class Shift:
    """A shift report: how far a target is from its source, how the model scores on it, and which patterns both share.

    Attributes:
        data, source, target: Names of the data and of its domains.
        source_nodes, target_nodes: Number of sampled nodes.
        seed: Seed of the sample.
        verdict: A summary in two sentences.
        notes: Sentences about what could not be measured.
        distances: The distance of the domains in each respect.
        medians: The median degree in the source and in the target.
        columns: The columns of features that differ the most.
        lengths: The distance of topologies by length of walk.
        scores: The run's metric by distance.
        topology: The kind of topology.
        attention: True if the readout has attention; if not, shares are of patterns.
        topologies: Those with the most attention (without attention, the most frequent).
        found: Number of topologies in all.
        source_shares, target_shares: Attention on topologies of both domains, or of one.
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
        """Return a distance by its name."""
        return {distance.name: distance for distance in self.distances}[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, as it is written to JSON."""
        return asdict(self)


def rounded(value: Any) -> float:
    """Round a number for a report."""
    return round(float(value), DIGITS) + 0.0


def rounded_or_none(value: Any) -> float | None:
    """Round a number for a report; None if it is not finite."""
    return None if value is None or not math.isfinite(value) else rounded(value)
