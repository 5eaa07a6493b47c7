"""Overviews: which shapes the predictions of a whole part rest on, against how often they are drawn."""

from __future__ import annotations

from dataclasses import dataclass

ALL = "(all)"  # heading of all classes together


@dataclass(frozen=True)
class ShapeShare:
    """How much of the evidence a shape carries in one class, against how often it is drawn.

    Attributes:
        predicted: The class, by name; `ALL` for all together.
        shape, content: What the patterns are called, and what they pass through where nodes have types.
        carried: Share of the evidence that patterns of this kind carry, the mean over instances.
        low, high: Its 95% interval, over resampled instances.
        chance: Share of the drawn patterns that are of this kind.
        lift: carried / chance.
        lift_low, lift_high: Its 95% interval.
        nodes: How many nodes it has.
        edges: What it looks like, as pairs of places of nodes.
        kinds: Types of those nodes, or empty.
        example: A walk, in the user's names.
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
    """Which shapes the predictions of a part rest on, class by class.

    Attributes:
        data, level, method, part: What was looked at.
        instances: How many, by class name; under `ALL` all of them.
        shares: The heaviest shapes of each class, the heaviest first.
        atoms: Kinds are elements.
    """

    data: str
    level: str
    method: str
    part: str
    instances: dict[str, int]
    shares: tuple[ShapeShare, ...]
    atoms: bool = False
    seed: int = 0
