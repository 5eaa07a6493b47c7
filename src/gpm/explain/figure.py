"""Figures of explanations: the neighbourhood on the left, the patterns that count the most beside it."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.errors import GpmError, whole_number
from gpm.explain.explanation import Explanation, ScoredPattern, View
from gpm.explain.figure_sheet import ACCENT, PALE, SOFT, Looks, mix, new_sheet, plain, room, widest_name, write_names
from gpm.explain.layout import nearest, places

_CELL, _TITLE, _DRAWING = 2.4, 0.42, 1.85  # inches: width of a pattern, heights of its title and its drawing
_NARROWEST, _WIDEST, _GAP = 4.4, 6.6, 0.3  # inches: the neighbourhood, and the space beside it
_FEW = 40  # nodes that are named


def save_figure(explanation: Explanation, path: Path, *, top: int = 9) -> None:
    """Draw an explanation to a .png, .svg or .pdf file, with at most `top` patterns, the highest scores first.

    An older file stays until the new one is complete.
    """
    if whole_number(top, "top") < 1:
        raise GpmError(f"top must be at least 1, got {top}.")
    shown, view = explanation.patterns[:top], explanation.view
    rows = math.ceil(math.sqrt(len(shown)))
    columns = math.ceil(len(shown) / rows) if rows else 0
    tall = rows * (_TITLE + _DRAWING)
    wide = min(max(tall, _NARROWEST), _WIDEST)
    height = max(tall, wide)
    points = 0.35 + (wide - 0.7) * np.array([(node.x, node.y) for node in view.nodes], dtype=float).reshape(-1, 2)
    size = room(points, 18)
    looks = Looks.of((node.kind for node in view.nodes), view.atoms)
    with new_sheet(
        path, wide + columns * _CELL + 2 * _GAP, height, title=explanation.headline, lines=_summary(explanation),
        key=_key(explanation), legend=looks.legend(size), count=len(shown),
    ) as sheet:  # fmt: skip
        whole = explanation.level == "graph"  # then a ring around everything would say nothing
        _draw_view(sheet.axis(0.1, (height - wide) / 2, wide, wide), view, looks, points, size, ring=not whole)
        for i, pattern in enumerate(shown):
            row, column = divmod(i, columns)
            up = (height + tall) / 2 - (row + 1) * (_TITLE + _DRAWING)
            axis = sheet.axis(wide + _GAP + column * _CELL, up, _CELL, _TITLE + _DRAWING)
            if pattern.expected:
                _write_expected(axis, pattern)
            else:
                _draw_pattern(axis, view, pattern, looks)
            _write_title(axis, explanation, pattern, i + 1)


def _summary(explanation: Explanation) -> list[str]:
    trust = explanation.trust
    truth = f"; label: {explanation.truth}" if explanation.truth else ""
    stable = f"; stability {trust.stability:.2f} over {trust.draws} draws" if trust.draws else ""
    moves, also = (f"{'rises' if drop < 0 else 'falls'} by {abs(drop):.2g}" for drop in (trust.drop, trust.random_drop))
    return [
        f"{explanation.data}{truth}; {explanation.found:,} patterns in {explanation.walks:,} walks, scored by "
        f"{explanation.method}",
        f"without the best tenth of the patterns the prediction {moves}, without random ones it {also}{stable}",
    ]


def _key(explanation: Explanation) -> str:
    """Explain how to read the figure."""
    view = explanation.view
    hidden = f", {view.hidden:,} more as near not drawn" if view.hidden else ""
    ring = {"node": "; the explained node is ringed", "link": "; the ends of the explained link are ringed"}
    return (
        f"Left: {len(view.nodes):,} nodes, {len(view.edges):,} edges{hidden}; the thicker an edge, the more it counts"
        f"{ring.get(explanation.level, '')}. Right: the patterns with the highest scores; numbers are the steps of a "
        "walk from the ringed node, dashed edges are not on it; text is of what is known exactly, without walks."
    )


def _draw_view(axis: Any, view: View, looks: Looks, points: NDArray, size: float, *, ring: bool) -> None:
    from matplotlib.collections import LineCollection

    order = sorted(view.edges, key=lambda edge: edge.weight)
    lines = LineCollection(
        [points[[edge.source, edge.target]] for edge in order],
        colors=[mix(ACCENT, 0.25 + 0.75 * edge.weight) if edge.weight else PALE for edge in order],
        linewidths=[0.8 + 4.2 * edge.weight for edge in order], capstyle="round", zorder=1, clip_on=False,
    )  # fmt: skip
    axis.add_collection(lines)
    ringed = [v for v, node in enumerate(view.nodes) if node.start and ring]
    strength = [1.0 if node.weight or v in ringed else 0.35 for v, node in enumerate(view.nodes)]
    looks.draw(axis, points, [node.kind for node in view.nodes], size, ringed=ringed, strength=strength)
    if len(view.nodes) <= _FEW:
        edges = [(edge.source, edge.target) for edge in view.edges]
        write_names(axis, points, edges, [node.name for node in view.nodes], size, ringed=ringed)


def _draw_pattern(axis: Any, view: View, pattern: ScoredPattern, looks: Looks) -> None:
    """Draw a pattern in a layout of its own: in the view its rings are bent and long edges cross."""
    names = dict(zip(pattern.walk, pattern.names, strict=True))
    index = {v: i for i, v in enumerate(names)}
    steps: dict[tuple[int, int], list[int]] = {}
    for step, (a, b) in enumerate(pairwise(pattern.walk), 1):
        if a != b:
            steps.setdefault(_ordered(index[a], index[b]), []).append(step)
    edges = sorted({_ordered(index[a], index[b]) for a, b in pattern.edges if a != b} | set(steps))
    points = places(len(names), edges)
    tall = max(float(np.ptp(points[:, 1])), 1e-6)
    beside = 0.1 + widest_name(names.values())
    scale = min(1.5, _CELL - 0.1 - 2 * beside, (_DRAWING - 0.7) / tall, 0.85 / nearest(points))
    points = (_CELL / 2, _DRAWING / 2) + scale * points
    size = max(room(points, 16, 0.45), 9.0)
    for edge in edges:
        crossed = {"color": ACCENT, "lw": 2.0} if edge in steps else {"color": SOFT, "lw": 1.1, "ls": (0, (3, 2.5))}
        axis.plot(*points[list(edge)].T, zorder=1, clip_on=False, **crossed)
    looks.draw(axis, points, [view.nodes[v].kind for v in names], size, ringed=[0])
    written = write_names(axis, points, edges, list(names.values()), size, ringed=[0])
    nodes = [(point, (size / 2 + (3 if v == 0 else 0)) / 72) for v, point in enumerate(points)]
    _write_steps(axis, points, edges, steps, nodes + written)


def _write_expected(axis: Any, pattern: ScoredPattern) -> None:
    """Write what an expected pattern holds: it has no walk to draw."""
    lines = textwrap.wrap(plain(pattern.content, 200), 30, max_lines=5, placeholder=" …")
    middle = {"x": _CELL / 2, "ha": "center", "va": "center"}
    axis.text(y=_DRAWING / 2 + 0.1, s="\n".join(lines), fontsize=8, linespacing=1.4, **middle)
    axis.text(y=0.2, s="exact, not drawn", fontsize=7, color=SOFT, **middle)


def _ordered(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _write_title(axis: Any, explanation: Explanation, pattern: ScoredPattern, rank: int) -> None:
    digits = 2 - math.floor(math.log10(abs(pattern.score))) if pattern.score else 2
    amount, spread = (f"{value:.{min(max(digits, 0), 6)}f}" for value in (pattern.score, pattern.spread))
    title = plain(f"{rank}. {pattern.label}", 36)
    score = plain(f"{amount} ± {spread}, {explanation.argument(pattern)}", 42)
    middle = {"x": _CELL / 2, "ha": "center", "va": "center"}
    axis.text(y=_DRAWING + 0.32, s=title, fontsize=min(9, 9 * 28 / len(title)), weight="bold", **middle)
    axis.text(y=_DRAWING + 0.14, s=score, fontsize=min(8, 8 * 36 / len(score)), color=SOFT, **middle)


def _write_steps(
    axis: Any, points: NDArray, edges: Sequence[tuple[int, int]], steps: dict[tuple[int, int], list[int]],
    taken: list[tuple[NDArray, float]],
) -> None:  # fmt: skip
    """Number the edges in the order of the walk, away from other edges, numbers and names."""
    for edge, numbers in sorted(steps.items(), key=lambda item: item[1]):
        text = _runs(numbers)
        others = [points[list(other)] for other in edges if other != edge]
        best, most = points[edge[0]], -math.inf
        for offer, worth in _offers(points[edge[0]], points[edge[1]], 0.08 + 0.02 * len(text)):
            clear = min(float(np.linalg.norm(offer - other)) - apart for other, apart in taken)
            clear = min([clear, 0.1 + 0.03 * len(text), *(1.5 * _distance(offer, *other) for other in others)])
            if clear > most + worth:
                best, most = offer, clear
        taken.append((best, 0.03 + 0.03 * len(text)))
        axis.text(
            *best, text, ha="center", va="center_baseline", fontsize=7, color=ACCENT, weight="bold", zorder=6,
            bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"},
        )  # fmt: skip


def _offers(a: NDArray, b: NDArray, beside: float) -> Iterator[tuple[NDArray, float]]:
    """Yield positions for an edge's number, from its middle outwards and then beside it, and their least gain."""
    for share in (0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.74):
        yield a + share * (b - a), 0.02
    across = np.array([a[1] - b[1], b[0] - a[0]]) / max(float(np.linalg.norm(b - a)), 1e-9)
    for side in (beside, -beside):
        yield (a + b) / 2 + side * across, 0.04


def _distance(point: NDArray, a: NDArray, b: NDArray) -> float:
    """Return the distance from a point to a line segment."""
    share = float(np.clip(np.dot(point - a, b - a) / max(float(np.dot(b - a, b - a)), 1e-12), 0, 1))
    return float(np.linalg.norm(point - a - share * (b - a)))


def _runs(numbers: Sequence[int]) -> str:
    """Format numbers, three or more in a row as a range: 1,3 but 1-4."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
