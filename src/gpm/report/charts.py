"""Charts: described once, drawn as SVG on the page and in files, and as PNG by matplotlib."""

from __future__ import annotations

import html
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpm.explain.figure_sheet import plain
from gpm.io.atomic import replacing, write_text

WIDTH, HEIGHT = 420, 290  # of the drawing
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 40  # room around the axes
TONES = ("#5b2a86", "#b0471c", "#1d7033", "#2747c4", "#8a6d00", "#8a3a7c", "#00697a", "#59616b")  # of series in files
LONGEST_TITLE = 60  # characters of a title in a picture
LONGEST_LABEL = 22  # characters of a class in a matrix
MOST_NARROW = 12  # classes of a matrix that takes half the width of a page
LEAST_CELL = 24  # side of a cell that a count fits into
MOST_COUNTED = 20  # classes of a matrix whose counts are written into a picture
_STYLE = (
    "svg{font:11px sans-serif;background:#fff}text{fill:#59616b}.grid{stroke:#e4e1db}.frame{stroke:#59616b}"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:3 4;stroke:#59616b}"
    ".mark{stroke:#1c2027}.cell.right{fill:#5b2a86}.cell.wrong{fill:#b0471c}.count.over{fill:#fff}"
    + "".join(f".s{i}{{stroke:{tone}}}.dot.s{i},.block.s{i}{{fill:{tone};stroke:none}}" for i, tone in enumerate(TONES))
)


@dataclass(frozen=True, eq=False)
class Series:
    """Points `(x, y)` that belong together: a line, dots, or blocks of a histogram, whose x are edges (one more)."""

    x: NDArray
    y: NDArray
    name: str = ""
    kind: str = "line"  # line, dots, blocks or dashed (a line for comparison)


@dataclass(frozen=True, eq=False)
class Chart:
    """A chart with its axes."""

    name: str  # of the file
    title: str
    x: str  # label of the axis
    y: str
    series: Sequence[Series]
    x_range: tuple[float, float] | None = None  # by default what the series need
    y_range: tuple[float, float] | None = None
    logarithmic: bool = False  # the axis x
    marks: Sequence[tuple[float, str]] = field(default_factory=list)  # vertical lines at x, with a word
    note: str = ""  # a sentence below the chart

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the ranges of both axes."""
        found = []
        for given, values in ((self.x_range, [s.x for s in self.series]), (self.y_range, [s.y for s in self.series])):
            if given is not None:
                found.append(given)
                continue
            known = np.concatenate([np.asarray(v, dtype=float).ravel() for v in values] or [np.zeros(1)])
            known = known[np.isfinite(known)]
            low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
            found.append(widen(low, high))
        if self.y_range is None and any(s.kind == "blocks" for s in self.series):
            found[1] = (0.0, found[1][1])
        return found[0], found[1]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Counts of pairs of classes: rows are true, columns predicted. Each row is shaded by its shares."""

    name: str  # of the file
    title: str
    labels: Sequence[str]
    counts: NDArray[np.int64]  # [C, C]

    def shares(self) -> NDArray[np.float64]:
        """Return each row divided by its sum."""
        return np.asarray(self.counts / np.maximum(self.counts.sum(1, keepdims=True), 1))


Figure = Chart | Matrix


def widen(low: float, high: float) -> tuple[float, float]:
    """Return a range that is wide enough to draw in."""
    least = max(abs(low), abs(high)) * 1e-9
    if high - low > least:
        return low, high
    room = max(abs(low), abs(high)) / 2 or 0.5
    return low - room, high + room


def find_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers within a range, at most so many steps apart."""
    raw = (high - low) / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(each * size for each in (1, 2, 2.5, 5, 10) if each * size >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = 2 - math.floor(math.log10(step))
    return [0.0 if not i else round(i * step, digits) for i in range(first, last + 1)]


def _text(words: str) -> str:
    """Return words as text of HTML or XML, neither of which has control characters."""
    return html.escape("".join(c if c.isprintable() else "\ufffd" for c in words))


def draw_svg(figure: Figure) -> str:
    """Return a chart or a matrix as an SVG element without a style: the page has it, and `save_figure` adds one."""
    return _draw_matrix(figure) if isinstance(figure, Matrix) else _draw_chart(figure)


def _draw_matrix(matrix: Matrix) -> str:
    count, shares = len(matrix.labels), matrix.shares()
    longest = max((len(label) for label in matrix.labels), default=0)
    room = min(18 + 6.2 * min(longest, LONGEST_LABEL), 160)
    cell = max(min(52.0, (2 * WIDTH - room) / max(count, 1)), 9.0)
    parts = []
    for row, label in enumerate(matrix.labels):
        middle, shown = room + cell * (row + 0.5), _text(_shorten(label))
        parts.append(f'<text x="{room - 6:.1f}" y="{middle + 4:.1f}" text-anchor="end">{shown}</text>')
        turned = f'transform="rotate(-45 {middle:.1f} {room - 8:.1f})"'
        parts.append(f'<text x="{middle:.1f}" y="{room - 8:.1f}" {turned}>{shown}</text>')
        for column in range(count):
            x, y = room + cell * column, room + cell * row
            told = f"{matrix.counts[row, column]:,} of {label} predicted as {matrix.labels[column]}"
            kind = "right" if row == column else "wrong"
            parts.append(
                f'<rect class="cell {kind}" x="{x:.1f}" y="{y:.1f}" width="{cell - 1:.1f}" height="{cell - 1:.1f}" '
                f'fill-opacity="{0.06 + 0.94 * shares[row, column]:.3f}"><title>{_text(told)}</title></rect>'
            )
            if cell >= LEAST_CELL and matrix.counts[row, column]:
                tone = " over" if shares[row, column] > 0.5 else ""
                at = f'x="{x + cell / 2:.1f}" y="{y + cell / 2 + 4:.1f}"'
                parts.append(f'<text class="count{tone}" {at} text-anchor="middle">{matrix.counts[row, column]}</text>')
    side = room + cell * count + 30
    label = _text(matrix.title)
    box = f'viewBox="0 0 {side:.0f} {room + cell * count + 4:.0f}"'
    size = " wide" * (count > MOST_NARROW)
    return f'<svg class="plot matrix{size}" {box} role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _shorten(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"


def _draw_chart(chart: Chart) -> str:
    (x0, x1), (y0, y1) = chart.limits()
    scale = (lambda v: math.log10(max(v, 1e-12))) if chart.logarithmic else float
    left, right = scale(x0), scale(x1)

    def at_x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (scale(value) - left) / (right - left or 1.0)

    def at_y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - y0) / (y1 - y0 or 1.0)

    parts = []
    if chart.logarithmic:
        x_ticks = [10.0**i for i in range(math.ceil(left - 1e-9), math.floor(right + 1e-9) + 1)]
    else:
        x_ticks = find_ticks(x0, x1)
    for tick in find_ticks(y0, y1):
        y = f"{at_y(tick):.1f}"
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{at_y(tick) + 4:.1f}" text-anchor="end">{tick:.10g}</text>')
    for tick in x_ticks:
        parts.append(f'<text x="{at_x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:.10g}</text>')
    parts.append(f'<line class="frame" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at_y(y0):.1f}" y2="{at_y(y0):.1f}"/>')
    for value, word in chart.marks:
        x = at_x(value)
        end = "end" if x > WIDTH * 0.7 else "start"
        parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        away = -5 if end == "end" else 5
        parts.append(f'<text x="{x + away:.1f}" y="{TOP + 10}" text-anchor="{end}">{_text(word)}</text>')
    for i, series in enumerate(chart.series):
        tone = f"s{i % len(TONES)}"
        if series.kind == "blocks":
            for a, b, v in zip(series.x, series.x[1:], series.y, strict=False):
                top, width = at_y(float(v)), at_x(float(b)) - at_x(float(a))
                box = f'x="{at_x(float(a)):.1f}" y="{top:.1f}" width="{max(width - 0.6, 0.4):.1f}"'
                parts.append(f'<rect class="block {tone}" {box} height="{max(at_y(y0) - top, 0):.1f}"/>')
            continue
        points = [(at_x(float(a)), at_y(float(b))) for a, b in zip(series.x, series.y, strict=True)
                  if math.isfinite(a) and math.isfinite(b)]  # fmt: skip
        if series.kind == "dots":
            parts += [f'<circle class="dot {tone}" cx="{a:.1f}" cy="{b:.1f}" r="2.2"/>' for a, b in points]
        elif points:
            kind = "dashed" if series.kind == "dashed" else tone
            parts.append(f'<polyline class="line {kind}" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{_text(chart.x)}</text>')
    half = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 12 {half})" text-anchor="middle"'
    parts.append(f'<text x="12" y="{half}" {turned}>{_text(chart.y)}</text>')
    label = _text(f"{chart.title}: {chart.y} by {chart.x}")
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def save_figure(figure: Figure, folder: Path) -> list[Path]:
    """Write a chart or a matrix as SVG and as PNG; return the files."""
    plain = draw_svg(figure).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    beginning, _, rest = plain.partition(">")
    vector, picture = folder / f"{figure.name}.svg", folder / f"{figure.name}.png"
    text = f"{beginning}><style>{_STYLE}</style>{rest}"
    write_text(vector, text.encode("utf-8", "replace").decode("utf-8"))
    _save_picture(figure, picture)
    return [vector, picture]


def _save_picture(figure: Figure, path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure as Sheet

    side = max(6.0, 0.35 * len(figure.labels) + 2) if isinstance(figure, Matrix) else 0.0
    with replacing(path) as scratch, warnings.catch_warnings(), mpl.rc_context({"text.parse_math": False}):
        warnings.simplefilter("ignore", UserWarning)  # a name's letter that the font lacks
        sheet = Sheet(figsize=(side, side) if side else (6, 4.2), dpi=140, layout="constrained")
        axes = sheet.add_subplot()
        if isinstance(figure, Matrix):
            _paint_matrix(figure, axes)
        else:
            _paint_chart(figure, axes)
        axes.set_title(_say(figure.title))
        sheet.savefig(scratch, format="png")


def _paint_matrix(matrix: Matrix, axes: Any) -> None:
    labels = [_say(_shorten(label)) for label in matrix.labels]
    axes.imshow(matrix.shares(), cmap="Purples", vmin=0, vmax=1)
    axes.set_xticks(range(len(labels)), labels, rotation=60, ha="right", fontsize=8)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set(xlabel="predicted", ylabel="true")
    if len(labels) <= MOST_COUNTED:
        for row, column in zip(*np.nonzero(matrix.counts), strict=True):
            tone = "white" if matrix.shares()[row, column] > 0.5 else "black"
            axes.text(column, row, matrix.counts[row, column], ha="center", va="center", fontsize=8, color=tone)


def _paint_chart(chart: Chart, axes: Any) -> None:
    for i, series in enumerate(chart.series):
        options: dict[str, Any] = {"color": TONES[i % len(TONES)], "label": _say(series.name) or None}
        if series.kind == "blocks":
            axes.stairs(series.y, series.x, fill=True, alpha=0.7, **options)
        elif series.kind == "dots":
            axes.scatter(series.x, series.y, s=6, linewidths=0, **options)
        elif series.kind == "dashed":
            axes.plot(series.x, series.y, ":", color="#59616b", label=options["label"])
        else:
            axes.plot(series.x, series.y, **options)
    for value, word in chart.marks:
        axes.axvline(value, color="#1c2027", linewidth=0.8)
        axes.annotate(_say(word), (value, 1), xycoords=("data", "axes fraction"), fontsize=8, va="top")
    x_range, y_range = chart.limits()
    if chart.logarithmic:
        axes.set_xscale("log")
    axes.set(xlim=x_range, ylim=y_range, xlabel=_say(chart.x), ylabel=_say(chart.y))
    axes.spines[["top", "right"]].set_visible(False)
    if any(series.name for series in chart.series):
        axes.legend(fontsize=8, frameon=False)


def _say(text: str) -> str:
    """Return words as matplotlib takes them."""
    return plain(text, LONGEST_TITLE).encode("utf-8", "replace").decode("utf-8")
