"""Figures of overviews: for each class the shapes that carry the most, against how often they are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gpm.errors import GpmError
from gpm.explain.explanation import ALL, Overview, ShapeShare
from gpm.explain.figure_sheet import INK, PALE, SOFT, Looks, new_sheet, plain, room
from gpm.explain.layout import nearest, places

MOST_CLASSES, MOST_SHAPES, _COLUMNS = 8, 8, 3
_PANEL, _ROW, _TITLE, _SCALE, _LEFT, _GAP = 4.3, 0.62, 0.42, 0.4, 0.2, 0.35  # inches
_GLYPH, _BAR = 1.0, 2.05  # inches: the drawing of a shape, and the longest bar beside it
_FILL = "#9fc3e0"


def save_overview_figure(overview: Overview, path: Path) -> None:
    """Draw an overview to a .png, .svg or .pdf file; an older file stays until the new one is complete."""
    panels = _panels(overview)
    if not panels:
        raise GpmError(f"The overview of {overview.data} has no shapes, so there is nothing to draw.")
    shown = [share for shares in panels.values() for share in shares]
    looks = Looks.of((kind for share in shown for kind in share.kinds), overview.atoms)
    ticks = _ticks(shown)
    columns = min(_COLUMNS, len(panels))
    tall = _TITLE + _ROW * max(len(shares) for shares in panels.values()) + _SCALE
    width, height = _LEFT + columns * (_PANEL + _GAP), tall * -(-len(panels) // columns)
    with new_sheet(
        path, width, height, title=f"{overview.data}: the shapes that predictions rest on",
        lines=[_summary(overview, panels)], key=_KEY, legend=[] if overview.atoms else looks.legend(),
    ) as sheet:  # fmt: skip
        for i, (predicted, shares) in enumerate(panels.items()):
            row, column = divmod(i, columns)
            axis = sheet.axis(_LEFT + column * (_PANEL + _GAP), height - (row + 1) * tall, _PANEL, tall)
            _write_title(axis, overview, predicted, tall)
            _draw_scale(axis, ticks, tall - _TITLE, len(shares))
            for rank, share in enumerate(shares):
                _draw_share(axis, share, looks, tall - _TITLE - (rank + 0.5) * _ROW, ticks[-1])


_KEY = (
    "Bars: share of the evidence that patterns of this shape carry, with its 95% interval over instances. Diamonds: "
    "their share of the drawn patterns, what they would carry by chance. At the right the lift, bar over diamond, with "
    "its 95% interval: in bold where all of it lies above 1, grey where it holds 1."
)


def _panels(overview: Overview) -> dict[str, list[ShapeShare]]:
    """Group the heaviest shapes by class, for all classes together and the classes with the most instances."""
    classes: dict[str, list[ShapeShare]] = {}
    for share in overview.shares:
        classes.setdefault(share.predicted, []).append(share)
    largest = sorted(classes.keys() - {ALL}, key=lambda name: (-overview.instances.get(name, 0), name))[:MOST_CLASSES]
    return {name: shares[:MOST_SHAPES] for name, shares in classes.items() if name in (ALL, *largest)}


def _summary(overview: Overview, panels: dict[str, list[ShapeShare]]) -> str:
    level, total = overview.level, overview.instances.get(ALL)
    there, drawn = len(overview.instances.keys() - {ALL}), len(panels.keys() - {ALL})
    counted = f"{level}s" if total is None else _count(total, level)
    some = "" if drawn in (0, there) else f"; {drawn} of {there} classes drawn, those with the most {level}s"
    return f"{counted} of the {overview.part} split, patterns scored by {overview.method}{some}"


def _count(number: int, level: str) -> str:
    return f"{number:,} {level}{'' if number == 1 else 's'}"


def _ticks(shares: Sequence[ShapeShare]) -> list[float]:
    """Return round shares from 0 to above all bars, intervals and diamonds: one scale for all panels."""
    most = max((v for s in shares for v in (s.carried, s.high, s.chance) if math.isfinite(v)), default=0.0)
    most = max(most, 1e-3)
    unit = 10.0 ** math.floor(math.log10(most))
    step = next(unit * s for s in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 2.5, 5.0) if unit * s * 4 >= most)
    return [step * i for i in range(math.ceil(most / step - 1e-9) + 1)]


def _write_title(axis: Any, overview: Overview, predicted: str, top: float) -> None:
    title = "all together" if predicted == ALL else predicted
    number = overview.instances.get(predicted, 0)
    axis.text(0, top - 0.16, plain(title, 34), fontsize=10, weight="bold", va="center")
    axis.text(_PANEL, top - 0.16, _count(number, overview.level), fontsize=8, color=SOFT, ha="right", va="center")
    axis.plot([0, _PANEL], [top - 0.32] * 2, color=INK, lw=0.8)


def _draw_scale(axis: Any, ticks: Sequence[float], top: float, rows: int) -> None:
    bottom = top - rows * _ROW
    for tick in ticks:
        x = _GLYPH + _BAR * tick / ticks[-1]
        axis.plot([x, x], [bottom, top], color=PALE if tick else SOFT, lw=0.5 if tick else 0.8, zorder=0)
        axis.text(x, bottom - 0.06, f"{100 * tick:.3g}%", fontsize=7, color=SOFT, ha="center", va="top")


def _draw_share(axis: Any, share: ShapeShare, looks: Looks, y: float, most: float) -> None:
    _draw_glyph(axis, share, looks, y)
    axis.text(_GLYPH + 0.05, y + 0.15, plain(share.label, 48), fontsize=8, va="center", zorder=5,
              bbox={"pad": 0.6, "facecolor": "white", "edgecolor": "none"})  # fmt: skip
    y -= 0.09
    values = share.carried, share.low, share.high, share.chance
    carried, low, high, chance = (_GLYPH + _BAR * (v / most if math.isfinite(v) else 0.0) for v in values)
    axis.barh(y, carried - _GLYPH, 0.2, left=_GLYPH, color=_FILL, edgecolor=INK, linewidth=0.6, zorder=2)
    axis.plot([low, high], [y, y], "|-", color=INK, lw=1.0, ms=5, zorder=3)
    axis.plot(chance, y, "D", ms=4.6, mfc="white", mec=INK, mew=1.0, zorder=4)
    lift = f"{_times(share.lift)}x [{_times(share.lift_low)}, {_times(share.lift_high)}]"
    weight = "bold" if share.lift_low > 1 else "normal"
    color = SOFT if share.lift_low <= 1 <= share.lift_high else INK
    axis.text(_PANEL, y, lift, fontsize=8, weight=weight, color=color, ha="right", va="center")


def _times(value: float) -> str:
    if not math.isfinite(value):
        return "?"
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.095 else f"{value:.2g}"


def _draw_glyph(axis: Any, share: ShapeShare, looks: Looks, y: float) -> None:
    if not share.nodes:  # an expected pattern
        axis.text(_GLYPH / 2 - 0.06, y, "exact", fontsize=7, color=SOFT, ha="center", va="center")
        return
    points = places(share.nodes, share.edges)
    wide, tall = np.maximum(np.ptp(points, axis=0), 1e-6)
    points = (_GLYPH / 2 - 0.06, y) + points * min(0.72 / wide, 0.38 / tall, 0.3 / nearest(points))
    for a, b in share.edges:
        axis.plot(*points[[a, b]].T, color=SOFT, lw=1.2, zorder=1)
    looks.draw(axis, points, share.kinds or [""] * share.nodes, room(points, 10 if share.kinds else 7))
