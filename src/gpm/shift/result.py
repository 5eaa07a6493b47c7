"""The content of a shift report: distances, scores by distance, and topologies of both domains."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Word = Literal["clear", "slight", "none"]
Where = Literal["shared", "source only", "target only"]
DIGITS = 6  # of the numbers in a report: differences between threads and computers are smaller


@dataclass(frozen=True)
class Distance:
    """The distance of the two domains in one respect."""

    name: str  # degrees, features, topologies, classes (or labels, values), features_auc or embeddings_auc
    value: float  # the distance; for the last two, the AUC of a classifier that tells the domains apart
    reference: float  # the same between two random halves of the source, between which there is no shift
    word: Word  # see `gpm.shift.verdict.judge`
    measure: str  # description of the number


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
    """The run's metric by distance, on sampled nodes; None without labels."""

    metric: str
    source: float | None  # on the source's validation split
    source_count: int
    target: float | None  # on the target's test split
    target_count: int
    groups: tuple[Group, ...]  # the same nodes of the target in groups of equal size, the most source-like first


@dataclass(frozen=True)
class TopologyShare:
    """A topology of walks of one length, in both domains.

    Attention is that on one such pattern, relative to an average pattern; None where the readout has no attention, or
    the domain no such pattern.
    """

    shape: str
    code: tuple[int, ...]  # the anonymous walk; empty where the topology has no order
    length: int
    where: Where  # of one domain only if it is at most a tenth as frequent in the other
    source: float  # its share of the patterns
    target: float
    source_attention: float | None
    target_attention: float | None
    nodes: int  # number of nodes, and the edges among them
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Shares:
    """Shares of a domain's attention (without attention, of its patterns) by where the topology occurs; sum to 1."""

    shared: float
    source_only: float
    target_only: float


@dataclass(frozen=True)
class Shift:
    """A shift report: how far a target is from its source, how the model scores on it, and the patterns both share."""

    data: str
    source: str
    target: str
    source_nodes: int  # sampled
    target_nodes: int
    seed: int  # of the sample
    verdict: str  # a summary in two sentences
    notes: tuple[str, ...]  # sentences about what could not be measured
    distances: tuple[Distance, ...]
    medians: tuple[float, float]  # the median degree in the source and in the target
    columns: tuple[Column, ...]  # those that differ the most
    lengths: tuple[Length, ...]  # the distance of topologies by length of walk
    scores: Scores
    topology: str  # the kind of topology
    attention: bool  # the readout has attention; if not, shares are of patterns
    topologies: tuple[TopologyShare, ...]  # those with the most attention (without attention, the most frequent)
    found: int  # topologies in all
    source_shares: Shares
    target_shares: Shares
    reference_shared: float  # the share that two halves of the source have in common, by the same rule

    def __getitem__(self, name: str) -> Distance:
        """Return a distance by its name."""
        return {distance.name: distance for distance in self.distances}[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, as it is written to JSON."""
        return asdict(self)


def rounded(value: Any) -> float:
    """Round a number for a report."""
    return round(float(value), DIGITS) + 0.0
