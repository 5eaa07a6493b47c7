"""Styles of nodes in figures: types by colour and marker, atoms by element, names where no edge leaves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.explain.figure_sheet import INK, SOFT, plain
from gpm.patterns.draw_shapes import layout

READABLE = 7.0  # points: a smaller node has no room for an element's symbol
MOST_KINDS = 8  # as many as people can tell apart
SHORT = 8  # letters of a name that is written beside its node
LETTER = 0.06  # inches: the width of one of them
_PLAIN, _OTHER, _ELEMENT = "#2f6f9f", "#d5dbe0", "#d64fa3"  # nodes without kinds, of other kinds, of rare elements
# Okabe and Ito's colours, which the colour-blind can tell apart; the markers tell the kinds apart without any colour.
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#4d4d4d")
_MARKERS = ("o", "s", "D", "h", "p", "8", "^", "v")
_GROW = {"s": 0.88, "D": 0.76, "p": 1.06, "h": 1.04}  # so that markers look equally large
# The usual colours of the elements, darker where they would not show on white.
_ELEMENTS = {
    "C": "#4a4f55", "H": "#f2f2f2", "N": "#2f55d4", "O": "#d7262b", "S": "#e3b505", "P": "#f08a1d", "F": "#7fb800",
    "Cl": "#1e9e3e", "Br": "#8f2d16", "I": "#7a1f9c", "B": "#f0a6a0", "Si": "#c2a36b", "Se": "#d98c00",
    "Li": "#9b59d0", "Na": "#9b59d0", "K": "#9b59d0", "Mg": "#2e7d32", "Ca": "#2e7d32", "Fe": "#c4581b",
    "Zn": "#7d80b0", "Cu": "#b87333",
}  # fmt: skip


@dataclass(frozen=True)
class Looks:
    """Colours and markers of types of nodes.

    Attributes:
        shown: Types with a look of their own; all others share one.
        rest: True if there are others.
        atoms: Types are elements: coloured as chemists do, with the symbol inside.
    """

    shown: tuple[str, ...]
    rest: bool
    atoms: bool

    @classmethod
    def of(cls, kinds: Iterable[str], atoms: bool) -> Looks:
        """Give a look to each type, or to the most frequent if there are too many."""
        counts = Counter(kinds)
        unknown = counts.pop("", 0) > 0
        order = sorted(counts, key=lambda kind: (-counts[kind], kind))
        most = len(order) if atoms or len(order) <= MOST_KINDS else MOST_KINDS - 1
        return cls(tuple(sorted(order[:most])), unknown or most < len(order), atoms)

    def look(self, kind: str) -> tuple[str, str]:
        """Return the colour and marker of a type."""
        if self.atoms and kind:
            return _ELEMENTS.get(kind, _ELEMENT), "o"
        if kind in self.shown:
            i = self.shown.index(kind)
            return _COLORS[i], _MARKERS[i]
        return (_OTHER if self.shown else _PLAIN), "o"

    def legend(self) -> list[tuple[str, str, str]]:
        """Return name, colour and marker of each type."""
        other = [("other", _OTHER, "o")] if self.rest and self.shown else []
        return [(kind, *self.look(kind)) for kind in self.shown] + other


def places(nodes: int, edges: Iterable[tuple[int, int]]) -> NDArray:
    """Place the nodes of a small graph around the origin `[n, 2]`, its longer side of length 1."""
    adjacency = np.zeros((nodes, nodes), dtype=np.bool_)
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = a != b
    points = layout(adjacency) - 0.5
    if nodes >= 5 and float(np.ptp(points[:, 1])) < 1e-6:  # a long path in zigzag, so that its edges have room
        rank = np.argsort(np.argsort(points[:, 0]))
        height = math.sqrt(max(0.35**2 - 1 / (nodes - 1) ** 2, 0.04))
        points[:, 1] = height * (rank % 2 - 0.5)
    return points


def nearest(points: NDArray, share: float = 0.0) -> float:
    """Return the distance of the nearest two nodes, or a quantile of the distances to the nearest; 1 for one node."""
    if len(points) < 2:
        return 1.0
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    np.fill_diagonal(distance, np.inf)
    return max(float(np.quantile(distance.min(axis=1), share)), 1e-6)


def room(points: NDArray, most: float, share: float = 0.6) -> float:
    """Return the diameter in points of nodes at these positions in inches: a share of the distance between them."""
    return float(np.clip(share * 72 * nearest(points, 0.25), 2.5, most))


def draw_nodes(
    axis: Any, points: NDArray, kinds: Sequence[str], looks: Looks, size: float, *,
    ringed: Sequence[int] = (), strength: Sequence[float] | None = None,
) -> None:  # fmt: skip
    """Draw nodes at positions in inches `[n, 2]` as markers of a diameter in points, some ringed, some paler."""
    for v, ((x, y), kind) in enumerate(zip(points, kinds, strict=True)):
        strong = 1.0 if strength is None else strength[v]
        color, marker = looks.look(kind)
        fill, width = mix(color, strong), size * _GROW.get(marker, 1.0)
        line = {"mec": mix(INK, 0.75 * strong), "mew": 0.6, "zorder": 4, "clip_on": False}
        if v in ringed:
            ring = {"mec": INK, "mew": 1.6, "zorder": 3, "ms": width + min(6.0, 2.5 + 0.25 * size)}
            axis.plot(x, y, marker, mfc="white", **line | ring)
        axis.plot(x, y, marker, mfc=fill, ms=width, **line)
        if looks.atoms and size >= READABLE:
            fit = size * {0: 0.62, 1: 0.62, 2: 0.52}.get(len(kind), 0.4)
            ink = "white" if float(np.dot(fill, (0.299, 0.587, 0.114))) < 0.6 else INK
            axis.text(x, y, plain(kind, 3), color=ink, fontsize=fit, ha="center", va="center_baseline", zorder=5)


def mix(color: str, strength: float) -> tuple[float, ...]:
    """Mix a colour with white: none of it at 0, all of it at 1."""
    from matplotlib.colors import to_rgb

    return tuple(1 - strength * (1 - c) for c in to_rgb(color))


def write_names(
    axis: Any, points: NDArray, edges: Iterable[tuple[int, int]], names: Sequence[str], size: float, *,
    ringed: Sequence[int] = (),
) -> list[tuple[NDArray, float]]:  # fmt: skip
    """Write short names beside nodes, where no edge leaves; return their centres and half their widths."""
    leave: list[list[float]] = [[] for _ in names]
    for a, b in edges:
        dx, dy = points[b] - points[a]
        leave[a].append(math.atan2(dy, dx))
        leave[b].append(math.atan2(-dy, -dx))
    written = []
    for v, name in enumerate(names):
        if not 0 < len(name) <= SHORT:
            continue
        apart, half = (size / 2 + (7 if v in ringed else 3.5)) / 72, LETTER * len(name) / 2
        angle = _widest_gap(leave[v])
        toward = np.array([math.cos(angle), math.sin(angle)])
        side = np.sign(toward) * (np.abs(toward) > 0.4)
        middle = points[v] + apart * toward + side * (half, 0.04)
        axis.text(*middle, plain(name, SHORT), fontsize=7, color=SOFT, ha="center", va="center", zorder=7)
        written.append((middle, half))
    return written


def _widest_gap(angles: list[float]) -> float:
    """Return the direction that is the farthest from those of edges."""
    if not angles:
        return math.pi / 2
    order = sorted(angles)
    gaps = [(round(b - a, 9), a) for a, b in zip(order, [*order[1:], order[0] + 2 * math.pi], strict=True)]
    gap, start = max(gaps)
    return start + gap / 2
